"""``cloakwork demo``: from nothing to a verified release, with what the wheel holds."""

from pathlib import Path

import pytest

from cloakwork.policy.load import shipped


@pytest.mark.usefixtures("few_turns", "few_looked_for")
def test_the_example_log_becomes_a_verified_release(
    cloakwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = cloakwork("demo", "here")
    assert said.code == 0, said.err
    assert "Holds" in said.out and "cloakwork verify here/release" in said.out
    assert {path.name for path in (tmp_path / "here").iterdir()} >= {"release", "ledger.db"}
    # The commands that it names can be typed again.
    assert cloakwork("verify", "here/release").code == 0


def test_what_is_there_stays(cloakwork, tmp_path: Path) -> None:
    said = cloakwork("demo", tmp_path)
    assert said.code == 1 and "exists already" in said.err
    assert [*tmp_path.iterdir()] == []


def test_its_log_is_shipped() -> None:
    assert (shipped("examples") / "logs" / "hospital.xes.gz").is_file()

"""The commands that make and use a DP profile, as a user types them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cloakwork.cli import cloakwork_command, main
from cloakwork.log.formats import write_log
from contracts.sample_logs import log_of
from run.profiles import LOG, buying


def test_a_policy_that_buys_none_is_refused_before_the_log_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As any other policy that cannot be met: exit code 3, one line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(
        buying(profile=None).model_dump_json(by_alias=True, exclude_unset=True)
    )
    (tmp_path / "log.csv").write_text("no log at all")
    assert main(["profile", "p.yaml", "log.csv", "--out", "profile.json", "--quiet"]) == 3
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "profile: the policy sets no spec.profile" in line
    assert not (tmp_path / "profile.json").exists() and not (tmp_path / "cloakwork.db").exists()


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLOAKWORK_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLOAKWORK_LEDGER", raising=False)
    text = buying(output={"format": "csv"}).model_dump_json(by_alias=True, exclude_unset=True)
    (tmp_path / "p.yaml").write_text(text)
    write_log(LOG, tmp_path / "log.csv", "csv")
    runs = (
        (["profile", "p.yaml", "log.csv", "--out", "profile.json"], "charged: epsilon 0.2"),
        (
            ["plan", "p.yaml", "log.csv", "--profile", "profile.json", "--out", "plan.json"],
            "facts that come from it",
        ),
        (["apply", "plan.json", "log.csv", "--out", "out"], "epsilon 0.8"),
        (["verify", "out"], "every claim and cost was derived again"),
    )
    for arguments, said in runs:
        result = CliRunner().invoke(cloakwork_command, arguments)
        shown = " ".join(result.stdout.split())
        assert result.exit_code == 0 and said in shown, result.output
    assert (
        json.loads((tmp_path / "out" / "plan.json").read_text())["profile"]["figures"]["cases"] > 0
    )


def test_errors_of_the_commands_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(buying().model_dump_json(by_alias=True, exclude_unset=True))
    write_log(log_of([["a"]]), tmp_path / "log.csv", "csv")
    (tmp_path / "there.json").write_text("{}")
    for arguments, said in (
        (["profile", "p.yaml", "log.csv", "--out", "there.json"], "exists"),
        (["profile", "p.yaml", "log.csv", "--out", "no/where.json"], "no folder"),
        (["profile", "p.yaml", "none.csv", "--out", "new.json"], "no such file"),
        (["plan", "p.yaml", "log.csv", "--profile", "there.json"], "is not a profile"),
        (["plan", "p.yaml", "log.csv", "--profile", "none.json"], "cannot be read as a profile"),
    ):
        assert main(arguments) != 0
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert said in line

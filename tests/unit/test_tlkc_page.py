"""What docs/tlkc.md shows runs as it stands."""

import re
from pathlib import Path

import pytest

from conftest import ROOT

TEXT = (ROOT / "docs" / "tlkc.md").read_text("utf-8")


def block(language: str) -> str:
    """The one block of code in a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_example_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The policy and the program, from a folder that looks like the checkout."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "policy.yaml").write_text(block("yaml"))
    monkeypatch.chdir(tmp_path)
    exec(compile(block("python"), "shown", "exec"), {})
    said = capsys.readouterr().out
    assert re.match(
        r"knowledge of up to 2 events fits at least \d\d+ released cases, "
        "and the largest confidence",
        said,
    )
    assert (tmp_path / "few-known-events" / "statement.json").exists()

"""``report`` as a user types it."""

import json
import shutil
import stat
from pathlib import Path

import pytest

from cli.typed import typed
from cloakwork.cli import main
from cloakwork.report.model import INTERNAL_BANNER
from publishing.conftest import _taken_as_proved  # noqa: F401 - a fixture


def test_report_prints_the_public_page_unless_told_otherwise(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = typed(capsys, "report", published)

    assert (code, err) == (0, "")
    assert out.startswith("<!doctype html>") and INTERNAL_BANNER not in out


def test_report_for_insiders(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = typed(capsys, "report", published, "--audience", "internal", "--format", "json")

    assert code == 0
    assert json.loads(out)["warning"] == INTERNAL_BANNER


def test_report_without_its_file_is_an_error(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(published / "internal")
    code, out, err = typed(capsys, "report", published, "--audience", "internal")

    assert (code, out) == (1, "")
    assert "it stays with whoever made the release" in err and len(err.splitlines()) == 1


def test_a_report_is_written_whole_to_a_new_file(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A PDF, too; for insiders it is readable by its owner only."""
    out = tmp_path / "report.pdf"
    asked = ("--audience", "internal", "--format", "pdf", "--out", out)
    code, said, err = typed(capsys, "report", published, *asked)

    assert (code, said, err) == (0, "", f"wrote {out}\n")
    assert out.read_bytes().startswith(b"%PDF") and stat.S_IMODE(out.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    code, _, err = typed(capsys, "report", published, *asked)
    assert code == 1 and "nothing is overwritten" in err and len(err.splitlines()) == 1


def test_a_report_is_not_written_among_the_signed_files(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name for path in published.iterdir()}
    code, _, err = typed(capsys, "report", published, "--out", published / "report.html")

    assert code == 1 and "lies in a release" in err
    assert {path.name for path in published.iterdir()} == before
    code, _, err = typed(capsys, "report", published, "--out", tmp_path / "none" / "report.html")
    assert code == 1 and "cannot be written" in err and len(err.splitlines()) == 1
    inside = published / "internal" / "assessment.md"
    code, _, _ = typed(
        capsys, "report", published, "--audience", "internal", "--format", "dpia", "--out", inside
    )
    assert code == 0 and "Article 35" in inside.read_text("utf-8")


def test_a_pdf_goes_to_standard_output_unless_that_is_a_terminal(
    published: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["report", str(published), "--format", "pdf"]) == 0
    assert capsysbinary.readouterr().out.startswith(b"%PDF")
    monkeypatch.setattr("cloakwork.cli.releases.is_terminal", lambda: True)
    assert main(["report", str(published), "--format", "pdf"]) == 2
    assert b"--out FILE" in capsysbinary.readouterr().err

"""``report`` as a user types it."""

import json
import shutil
from pathlib import Path

import pytest

from cli.typed import typed
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


def test_report_as_pdf_is_refused(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = typed(capsys, "report", published, "--format", "pdf")

    assert code == 1 and "print it to PDF" in err

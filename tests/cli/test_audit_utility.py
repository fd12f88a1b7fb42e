"""``cloakwork audit utility`` as a user types it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cloakwork.cli import cloakwork_command, main
from cloakwork.evaluation.utility import Utility
from conftest import EXAMPLES

HOSPITAL = str(EXAMPLES / "hospital.xes.gz")


def test_a_log_compared_with_itself_has_lost_nothing() -> None:
    """Each figure by its plain name, behind the word that they are internal; or one document."""
    asked = ["audit", "utility", HOSPITAL, HOSPITAL, "--quiet"]
    shown = CliRunner().invoke(cloakwork_command, asked)
    assert shown.exit_code == 0
    first, *lines = shown.stdout.splitlines()
    assert first == "Raw log: internal, never publish"
    figures = {line[:54].strip(): line[54:].strip() for line in lines}
    assert figures["Relative log similarity"] == "1"
    assert figures["Case durations"] == figures["Two attributes together"] == "0"
    assert "Next activity, learned from the release" in figures
    document = json.loads(CliRunner().invoke(cloakwork_command, [*asked, "--json"]).stdout)
    found = Utility.model_validate(document)
    assert found.flow is not None
    assert found.learned is not None
    assert document["whole_log"]["at_activities"] == []


def test_a_missing_log_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "utility", HOSPITAL, str(tmp_path / "none.xes")]) == 1
    said = capsys.readouterr().err
    assert said == f"{tmp_path / 'none.xes'}: there is no such file or folder\n"

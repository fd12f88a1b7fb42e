"""``cloakwork policy suggest`` as a user types it."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from cloakwork.plan.policies import load_policy
from conftest import EXAMPLES, Said

LOG = EXAMPLES / "hospital.xes.gz"


def test_a_suggested_policy_is_valid_and_says_what_it_is(
    cloakwork: Callable[..., Said], tmp_path: Path
) -> None:
    """Suggest, validate, lint: no edit, no failed command."""
    out = tmp_path / "policy.yaml"
    options = ("--dataset", "emergency", "--owner", "dpo@example.org", "--purpose", "a study")
    said = cloakwork("policy", "suggest", LOG, "--out", out, *options)
    assert said.code == 0, said.err
    assert "keep it inside" in said.out and f"cloakwork plan {out} {LOG}" in said.out
    assert cloakwork("policy", "validate", out).code == 0
    lint = cloakwork("policy", "lint", out, LOG)
    assert lint.code == 0 and "did you mean" not in lint.out
    again = cloakwork("policy", "suggest", LOG, "--out", out)
    assert again.code == 2 and "--force overwrites it" in again.err


def test_questions_are_counted_and_refused(cloakwork: Callable[..., Said], tmp_path: Path) -> None:
    """Where a guarantee rests on what only its author knows."""
    out = tmp_path / "policy.yaml"
    said = cloakwork("policy", "suggest", LOG, "--goal", "whole-log-dp", "--out", out, "--json")
    document = json.loads(said.out)
    assert document["questions"] > 0 and document["goal"] == "whole-log-dp"
    refused = cloakwork("policy", "validate", out)
    assert refused.code == 3
    assert refused.err.count("is still to be filled in") == document["questions"]


def test_the_next_command_names_the_columns_too(
    cloakwork: Callable[..., Said], tmp_path: Path
) -> None:
    """Typed as it is printed, it reads the log as `suggest` did."""
    log, out = tmp_path / "log.csv", tmp_path / "p.yaml"
    log.write_text("Zaak nummer;Stap;Tijd\n1;in;2024-01-01\n", encoding="utf-8")
    names = ("case:concept:name=Zaak nummer", "concept:name=Stap", "time:timestamp=Tijd")
    columns = [word for name in names for word in ("--column", name)]
    said = cloakwork("policy", "suggest", log, "--out", out, *columns)
    assert said.code == 0, said.err
    line = next(line for line in said.out.splitlines() if "policy lint" in line)
    assert cloakwork(*shlex.split(line)[1:]).code == 0


def test_ask_needs_a_terminal(cloakwork: Callable[..., Said], tmp_path: Path) -> None:
    """Else it would wait for nobody."""
    said = cloakwork("policy", "suggest", LOG, "--ask", "--out", tmp_path / "p.yaml")
    assert said.code == 2 and "needs a terminal" in said.err


def test_a_column_without_a_log_is_refused(cloakwork: Callable[..., Said]) -> None:
    """It would change nothing."""
    said = cloakwork("policy", "lint", "kanon-control-flow", "--column", "concept:name=step")
    assert said.code == 2 and "name one" in said.err


def test_init_takes_what_stands_under_metadata(
    cloakwork: Callable[..., Said], tmp_path: Path
) -> None:
    """Whatever characters it holds."""
    out = tmp_path / "policy.yaml"
    options = ("--dataset", "permits", "--owner", 'A "B": #1', "--purpose", "x\\1")
    said = cloakwork("policy", "init", "--out", out, *options)
    assert said.code == 0 and "example" not in said.out, said.err
    metadata = load_policy(out).metadata
    assert (metadata.dataset, metadata.owner, metadata.purpose) == (
        "permits",
        'A "B": #1',
        "x\\1",
    )


def test_a_file_of_several_logs_is_asked_about_with_the_next_command(
    cloakwork: Callable[..., Said], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that is printed works as it stands, whatever a sheet is called."""
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("fastexcel", reason="workbooks: pip install 'cloakwork[excel]'")
    monkeypatch.chdir(tmp_path)
    book = openpyxl.Workbook()
    book.active.title = "it's $(x) one"
    for row in (["case", "activity", "timestamp"], ["1", "a", "2024-01-01T00:00:00Z"]):
        book.active.append(row)
    book.create_sheet("other")
    book.save("two logs.xlsx")
    asked = ("policy", "suggest", "two logs.xlsx", "--out", "p.yaml", "--purpose", "a study")
    for given in ((), ("--input", "sheet=none")):
        said = cloakwork(*asked, *given, "--quiet")
        assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
        command = shlex.split(said.err.partition("; say which: ")[2])
    assert command[:3] == ["cloakwork", "policy", "suggest"]
    assert cloakwork(*command[1:], "--quiet").code == 0
    written = Path("p.yaml").read_text("utf-8")
    assert "a study" in written and "it's $(x) one" in written

"""``cloakwork risk`` as a user types it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from openpyxl import Workbook

from cloakwork.evaluation.risk_figures import RiskReport
from cloakwork.log.formats import read_log, write_log
from conftest import EXAMPLES, Said

Command = Callable[..., Said]
LINES = 25
_CLINIC = """\
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata:
  name: clinic
  version: 1.0.0
  owner: somebody@example.org
  purpose: waiting times
  dataset: clinic
spec:
  input:
    columns: {case: Patient, activity: Schritt, timestamp: Zeit}
    delimiter: ";"
    time_format: "%d.%m.%Y %H:%M"
  attributes:
    "case:concept:name": {role: identifier}
    "concept:name": {role: control-flow}
    "*": {treatment: drop}
  guarantees:
    - {kind: k-anonymity, k: 5, over: [control-flow], scope: variants}
  mechanisms:
    allow: [kanon/*, attributes/*, bound]
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Some cases of a shipped log, with an attribute whose name is hostile."""
    log = read_log(EXAMPLES / "hospital.xes.gz")
    kept = log.keep_cases(pl.Series(range(40)).to_numpy())
    values = pl.Series("case:<script>alert(1)</script>", ["a", "b"] * 20)
    path = tmp_path / "small.xes"
    write_log(type(kept)(kept.events, kept.cases.with_columns(values), kept.offsets), path, "xes")
    return path


def test_one_screen_a_document_and_a_page(cloakwork: Command, small: Path, tmp_path: Path) -> None:
    """Before and after; what is internal says so first; names of the log are escaped."""
    page = tmp_path / "risk.html"
    said = cloakwork("risk", small, small, "--quiet", "--html", page)
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert len(lines) <= LINES
    assert lines[0].startswith("Internal, of the raw log: never publish these figures")
    assert any(line.startswith("its sequence, and the time of every event") for line in lines)
    text = page.read_text("utf-8")
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "<svg" in text
    again = cloakwork("risk", small, "--quiet", "--html", page)
    assert again.code == 1
    assert again.err == f"{page}: exists already, and nothing is overwritten; name a new file\n"


def test_the_document_is_that_of_the_contract(cloakwork: Command, small: Path) -> None:
    """``attacks[].{name, knows, before, after: {share, low, high}}``, shares from 0 to 1."""
    said = cloakwork("risk", small, small, "--quiet", "--json")
    document = json.loads(said.out)
    RiskReport.model_validate(document)
    names = [attack["name"] for attack in document["attacks"]]
    assert len(names) == len(set(names))
    for attack in document["attacks"]:
        assert {"name", "knows", "before", "after"} <= attack.keys()
        for share in (attack["before"], attack["after"]):
            if share is not None:
                assert 0 <= share["low"] <= share["share"] <= share["high"] <= 1, attack
    alone = json.loads(cloakwork("risk", small, "--quiet", "--json").out)
    assert all(attack["after"] is None for attack in alone["attacks"])


def test_a_release_is_read_with_its_plan(cloakwork: Command, small: Path, tmp_path: Path) -> None:
    """A folder and the packed file: what the plan says of noise is known, so nothing is estimated
    of it, and both have the same figures.
    """
    folder, packed = tmp_path / "release", tmp_path / "release.zip"
    ledger = f"sqlite:///{tmp_path / 'ledger.db'}"
    policy = tmp_path / "policy.yaml"
    shipped = (EXAMPLES.parents[1] / "policies" / "kanon-dp-timestamps.yaml").read_text("utf-8")
    policy.write_text(shipped.replace("k: 10", "k: 3").replace("kanon/*", "kanon/pretsa"), "utf-8")
    assert cloakwork("apply", policy, small, "--out", folder, "--ledger", ledger).code == 0
    assert cloakwork("pack", folder, "--out", packed).code == 0
    few = ("--quiet", "--json", "--targets", "10")
    said = [cloakwork("risk", small, each, *few) for each in (folder, packed)]
    assert said[0].out == said[1].out
    document = json.loads(said[0].out)
    assert not any("estimated" in note for note in document["notes"])
    log_alone = cloakwork("risk", small, folder / "log.xes.gz", *few).out
    assert any("estimated" in note for note in json.loads(log_alone)["notes"])
    _reports(cloakwork, folder, said[0].out, log_alone)


def _reports(cloakwork: Command, folder: Path, of_release: str, of_log: str) -> None:
    """The document of the release goes into its report; that of a log file is refused."""
    right, wrong = folder.parent / "right.json", folder.parent / "wrong.json"
    right.write_text(of_release, "utf-8")
    wrong.write_text(of_log, "utf-8")
    asked = ("report", folder, "--audience", "internal", "--format", "dpia", "--risk")
    assert "| 3 of its activities |" in cloakwork(*asked, right).out
    refused = cloakwork(*asked, wrong)
    assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert "does not say which release was attacked" in refused.err


def test_the_original_is_read_as_its_policy_says(cloakwork: Command, tmp_path: Path) -> None:
    """Columns, a decimal comma and dates that only the policy explains; a workbook, too."""
    table, folder = tmp_path / "klinik.csv", tmp_path / "release"
    rows = [
        (f"p{case}", step, f"0{1 + case % 9}.03.2024 1{place}:00")
        for case in range(12)
        for place, step in enumerate(("Aufnahme", "Labor", "Entlassung"))
    ]
    text = "\n".join(["Patient;Schritt;Zeit", *(";".join(row) for row in rows)])
    table.write_text(text, "utf-8")
    policy = tmp_path / "policy.yaml"
    policy.write_text(_CLINIC, "utf-8")
    ledger = ("--ledger", f"sqlite:///{tmp_path / 'ledger.db'}")
    assert cloakwork("apply", policy, table, "--out", folder, *ledger).code == 0
    few = ("--quiet", "--json", "--targets", "10")
    by_plan = cloakwork("risk", table, folder, *few)
    assert (by_plan.code, by_plan.err) == (0, "")
    assert json.loads(by_plan.out)["cases"] == json.loads(by_plan.out)["released_cases"] == 12

    alone = cloakwork("risk", table, "--quiet")
    assert alone.code == 1
    assert alone.err.startswith(f"{table}:")
    assert "--policy POLICY" in alone.err
    assert alone.err.count("\n") == 1
    named = cloakwork("risk", table, *few, "--policy", policy)
    assert json.loads(named.out)["cases"] == 12
    beside = cloakwork("risk", table, table, *few, "--policy", policy)
    assert json.loads(beside.out)["released_cases"] == 12
    assert cloakwork("registry", "add", policy, "--reason", "first", *ledger).code == 0
    version = cloakwork("risk", table, *few, "--policy", "clinic@1.0.0", *ledger)
    assert version.out == named.out
    assert cloakwork("risk", table, "--policy", "nowhere.yaml").code == 3

    book = tmp_path / "klinik.xlsx"
    workbook = Workbook()
    sheet = workbook.active
    assert sheet is not None
    for row in (("Patient", "Schritt", "Zeit"), *rows):
        sheet.append(row)
    workbook.save(book)
    policy.write_text(_CLINIC.replace('    delimiter: ";"\n', ""), "utf-8")
    said = cloakwork("risk", book, *few, "--policy", policy)
    assert json.loads(said.out)["cases"] == 12


def test_errors_are_one_line(cloakwork: Command, small: Path, tmp_path: Path) -> None:
    missing, empty = tmp_path / "none.xes", tmp_path / "empty"
    empty.mkdir()
    for asked, code, words in (
        (["risk", missing], 1, f"{missing}: there is no such file\n"),
        (["risk", small, missing], 1, f"{missing}: there is no such file or folder\n"),
        (["risk", small, empty], 1, f"{empty}: holds 0 logs where a release has one; "),
    ):
        arguments: list[str | os.PathLike[str]] = [*asked, "--quiet"]
        said = cloakwork(*arguments)
        assert said.code == code
        assert said.err.startswith(words)
        assert said.err.count("\n") == 1
        assert not said.out
    assert cloakwork("risk", small, "--other", small).code == 2


def test_membership_by_the_plan_of_a_policy(
    cloakwork: Command, small: Path, tmp_path: Path
) -> None:
    """In the document, on the page, as a drawing, and on the screen, beside the claim."""
    policy, drawing, page = (tmp_path / name for name in ("p.yaml", "m.svg", "m.html"))
    shipped = (EXAMPLES.parents[1] / "policies" / "dp-control-flow.yaml").read_text("utf-8")
    policy.write_text(shipped.replace("variants/*", "variants/threshold"), "utf-8")
    asked = ("risk", small, "--policy", policy, "--targets", "10", "--membership", "20")
    said = cloakwork(*asked, "--plot", drawing, "--html", page)
    assert said.code == 0
    assert "Membership by 10 releases of variants/threshold" in said.out
    assert "attacking membership" in said.err
    assert drawing.read_text("utf-8").startswith("<svg")
    assert "Is the case in the log?" in page.read_text("utf-8")
    document = RiskReport.model_validate_json(cloakwork(*asked, "--quiet", "--json").out)
    assert document.membership is not None
    assert document.membership.runs == 20


def test_what_membership_needs(cloakwork: Command, small: Path, tmp_path: Path) -> None:
    """A plan, and the attack for its drawing."""
    said = cloakwork("risk", small, "--membership", "20", "--quiet")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "--policy POLICY" in said.err
    assert cloakwork("risk", small, "--plot", tmp_path / "m.svg").code == 2

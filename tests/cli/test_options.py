"""``spec.input`` on the command line: plan, apply, lint and ``--column``."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cloakwork.log.formats import read_log
from conftest import Said
from log.formats.object_logs import write_json

POLICY = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: q, version: 1.0.0, owner: me, purpose: test, dataset: d}
spec:
  input:
    columns: {case: Fall, activity: Schritt, timestamp: Zeit, case:kunde: Kunde}
    delimiter: ";"
    encoding: cp1252
    time_format: "%d.%m.%Y %H:%M"
    time_zone: Europe/Berlin
  unit: {attribute: "case:kunde", max_cases: 2}
  attributes:
    "concept:name": {role: control-flow}
    "time:timestamp": {role: timestamp, treatment: drop}
    "case:kunde": {role: identifier}
  guarantees: [{kind: k-anonymity, k: 3, over: [control-flow], count: units}]
  mechanisms: {allow: [kanon/pretsa, attributes/*, bound]}
  output: {format: csv, report: [json]}
"""
ROWS = "".join(
    f"{case};Prüfung;0{day}.03.2024 10:00;K{case % 8}\n" for case in range(12) for day in (1, 2)
)
LOG = "Fall;Schritt;Zeit;Kunde\n" + ROWS


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A policy and a log that needs it."""
    policy, log = tmp_path / "policy.yaml", tmp_path / "log.csv"
    policy.write_text(POLICY)
    log.write_bytes(LOG.encode("cp1252"))
    return policy, log


def test_plan_and_apply_read_by_the_policy(
    cloakwork: Callable[..., Said], files: tuple[Path, Path], tmp_path: Path, ledger: str
) -> None:
    """And a plan whose policy reads otherwise by now has moved."""
    policy, log = files
    plan, out = tmp_path / "plan.json", tmp_path / "out"
    said = cloakwork("plan", policy, log, "--out", plan, "--ledger", ledger)
    assert said.code == 0 and "Would change" in said.out
    assert json.loads(plan.read_text())["policy"]["spec"]["input"]["encoding"] == "cp1252"
    said = cloakwork("apply", plan, log, "--out", out, "--ledger", ledger)
    assert said.code == 0
    assert set(read_log(out / "log.csv", timeless=True).events["concept:name"]) == {"Prüfung"}
    policy.write_text(POLICY.replace("Europe/Berlin", "UTC"))
    said = cloakwork("apply", plan, log, "--out", tmp_path / "again", "--ledger", ledger)
    assert said.code == 3 and "has changed since this plan was made" in said.err


def test_a_column_of_the_command_line_goes_first(
    cloakwork: Callable[..., Said], files: tuple[Path, Path], tmp_path: Path, ledger: str
) -> None:
    """By its short name."""
    policy, log = files
    log.write_bytes(LOG.replace("Schritt", "Tat").encode("cp1252"))
    said = cloakwork("plan", policy, log, "--ledger", ledger)
    assert said.code == 1 and f"{log}:1: there is no column 'Schritt'" in said.err
    said = cloakwork("plan", policy, log, "--ledger", ledger, "--column", "activity=Tat")
    assert said.code == 0
    said = cloakwork("plan", policy, log, "--column", "aktivity=Tat")
    assert said.code == 2 and "'aktivity' is none of case, activity, timestamp" in said.err
    said = cloakwork("plan", policy, log, "--column", "case=Tat", "--column", "activity=Tat")
    assert said.code == 2 and "the column 'Tat' is named twice" in said.err


def test_lint_names_the_line_of_the_policy(
    cloakwork: Callable[..., Said], files: tuple[Path, Path]
) -> None:
    """Where the log seems to be written otherwise, even where it cannot be read so."""
    policy, log = files
    log.write_bytes(LOG.replace("02.03.", "22.03.").encode("cp1252"))
    assert "spec.input" not in cloakwork("policy", "lint", policy, log).out
    policy.write_text(POLICY.replace("%d.%m.%Y", "%Y/%m/%d").replace("    encoding: cp1252\n", ""))
    said = cloakwork("policy", "lint", policy, log)
    assert said.code == 0
    assert f"{policy}:7:5: spec.input.encoding: is not stated, and this log" in said.out
    assert f"{policy}:9:18: spec.input.time_format: is '%Y/%m/%d %H:%M', and this" in said.out


def test_what_flattening_loses_is_told(
    cloakwork: Callable[..., Said], tmp_path: Path, ledger: str
) -> None:
    """On the author's screen with counts, in the statement without."""
    policy, log, out = tmp_path / "policy.yaml", write_json(tmp_path / "log.json"), tmp_path / "out"
    cases = POLICY.replace("k: 3", "k: 2").replace(", count: units", "")
    begin, _, rest = cases.partition("  input:")
    policy.write_text(
        begin
        + "  input: {object_type: order}\n"
        + "  attributes:"
        + rest.partition("  attributes:")[2]
    )
    said = cloakwork("apply", policy, log, "--out", out, "--ledger", ledger)
    assert said.code == 0
    assert "copied into the case of each: 1" in said.err
    statement = (out / "statement.json").read_text()
    assert "flattened-objects" in json.dumps(_payload(statement))
    assert "copied into the case of each: 1" not in json.dumps(_payload(statement))
    said = cloakwork("plan", policy, log, "--ledger", ledger)
    assert "a case is one object of type 'order'" in said.out


def _payload(statement: str) -> object:
    """What a signed statement says."""
    import base64

    document = json.loads(statement)
    return json.loads(base64.b64decode(document["payload"])) if "payload" in document else document

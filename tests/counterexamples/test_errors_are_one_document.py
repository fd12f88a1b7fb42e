"""D16: with ``--json`` an error is one JSON document on standard output; in Python it is one of the
tree, in one line.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import cloakwork
from cloakwork.errors import CloakworkError
from conftest import EXAMPLES, Said

Run = Callable[..., Said]

POLICY = """\
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: small, version: 1.0.0, owner: o@x.example, purpose: Tests, dataset: d}
spec:
  attributes:
    "case:concept:name": {role: identifier}
    "concept:name": {role: control-flow}
    "*": {treatment: drop}
  guarantees: [{kind: k-anonymity, k: 2}]
  output: {format: csv}
"""
ROWS = {
    "case:concept:name": ["1", "1", "2", "2"],
    "concept:name": ["a", "b"] * 2,
    "time:timestamp": ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"] * 2,
}


def error_in(said: Said) -> dict[str, Any]:
    """The error of a command's document, which must be all that stands on standard output."""
    document = json.loads(said.out)
    assert document["error"]["exit_code"] == said.code != 0
    assert said.err.strip()  # people read it there
    error: dict[str, Any] = document["error"]
    return error


def test_a_faulty_policy_names_its_places(cloakwork: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(POLICY.replace("k: 2", "k: 1"))
    for command in (
        ["plan", path, EXAMPLES / "hospital.csv.gz"],
        ["policy", "explain", path],
        ["policy", "lint", path],
    ):
        error = error_in(cloakwork(*command, "--json"))
        assert (error["kind"], error["exit_code"]) == ("PolicyError", 3)
        (problem,) = error["problems"]
        assert (problem["path"], problem["line"], problem["column"]) == (str(path), 9, 39)
        assert "between 2 and" in problem["message"]


def test_an_infeasible_policy_names_its_causes(cloakwork: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        POLICY.replace(
            "{kind: k-anonymity, k: 2}", "{kind: local-dp, epsilon: 1, over: [control-flow]}"
        )
    )
    error = error_in(cloakwork("plan", path, EXAMPLES / "hospital.csv.gz", "--json"))
    assert error["kind"] == "PlanImpossible"
    place = {"path", "line", "column"}
    assert error["causes"][0].keys() - place == {"goal", "mechanism", "reason"}


def test_a_missing_log_and_wrong_usage(cloakwork: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(POLICY)
    error = error_in(cloakwork("plan", path, tmp_path / "none.csv", "--json"))
    assert (error["kind"], error["problems"][0]["path"]) == ("LogError", str(tmp_path / "none.csv"))
    for usage in (
        ["plan", "--json"],
        ["plan", path, path, "--json", "--nonsense"],
        ["nonsense", "--json"],
    ):
        error = error_in(cloakwork(*usage))
        assert (error["kind"], error["exit_code"]) == ("UsageError", 2)


def test_a_plan_that_cannot_be_written_and_a_spent_budget(
    cloakwork: Run, tmp_path: Path, ledger: str
) -> None:
    path = tmp_path / "p.yaml"
    times = '    "time:timestamp": {role: timestamp}\n    "*"'
    goals = "{kind: k-anonymity, k: 2}, {kind: metric-privacy, epsilon: 1, shift: 1h}"
    text = POLICY.replace('    "*"', times).replace("{kind: k-anonymity, k: 2}", goals)
    path.write_text(text + "  budget: {total: {epsilon: 1}}\n")
    log = tmp_path / "log.csv"
    pl.DataFrame(ROWS).write_csv(log)
    apply = ["apply", path, log, "--ledger", ledger, "--quiet", "--json"]
    assert cloakwork(*apply, "--out", tmp_path / "first").code == 0
    error = error_in(cloakwork(*apply, "--out", tmp_path / "second"))
    assert (error["kind"], error["exit_code"], error["dataset"]) == ("BudgetExceeded", 4, "d")
    assert error["requested"]["epsilon"] == 1.0
    error = error_in(cloakwork(*apply, "--out", tmp_path / "first"))
    assert (error["kind"], error["exit_code"]) == ("OutputError", 1)


def test_an_interruption_and_a_fault_of_ours(
    cloakwork: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cloakwork.cli import policy as commands

    faults: list[BaseException] = [KeyboardInterrupt(), ZeroDivisionError("x\ny")]
    monkeypatch.setattr(commands, "print_names", lambda rows: None)
    monkeypatch.setattr(
        commands, "print_json", lambda document: (_ for _ in ()).throw(faults.pop(0))
    )
    error = error_in(cloakwork("policy", "list", "--json"))
    assert (error["kind"], error["exit_code"]) == ("Interrupted", 130)
    error = error_in(cloakwork("policy", "list", "--json"))
    assert (error["kind"], error["exit_code"], error["message"].count("\n")) == (
        "InternalError",
        1,
        0,
    )


def test_long_lists_are_cut_and_counted(cloakwork: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    faults = "".join(f"    attribute{i}: {{treatment: kep}}\n" for i in range(80))
    path.write_text(POLICY.replace('    "*"', f'{faults}    "*"'))
    error = error_in(cloakwork("policy", "explain", path, "--json"))
    assert (len(error["problems"]), error["more"]) == (50, 30)
    said = cloakwork("policy", "validate", path)
    assert (len(said.err.splitlines()), said.err.splitlines()[-1]) == (51, "... and 30 more")


def released(cloakwork: Run, tmp_path: Path, ledger: str) -> Path:
    (tmp_path / "p.yaml").write_text(POLICY)
    pl.DataFrame(ROWS).write_csv(tmp_path / "log.csv")
    said = cloakwork(
        "apply",
        tmp_path / "p.yaml",
        tmp_path / "log.csv",
        "--out",
        tmp_path / "out",
        "--ledger",
        ledger,
        "--quiet",
    )
    assert said.code == 0, said.err
    return tmp_path / "out"


@pytest.mark.parametrize("audience", ["public", "internal"])
@pytest.mark.parametrize("changed", ["log.csv", "plan.json", "statement.json"])
def test_report_refuses_what_is_not_as_it_was_signed(
    cloakwork: Run, tmp_path: Path, ledger: str, changed: str, audience: str
) -> None:
    folder = released(cloakwork, tmp_path, ledger)
    report = ["report", folder, "--audience", audience, "--format", "json"]
    assert cloakwork(*report).code == 0
    content = (folder / changed).read_text()
    if changed == "statement.json":
        envelope = json.loads(content)
        signature = envelope["signatures"][0]["sig"]
        envelope["signatures"][0]["sig"] = ("B" if signature[0] == "A" else "A") + signature[1:]
        content = json.dumps(envelope)
    (folder / changed).write_text(content + "\n")
    said = cloakwork(*report)
    assert (said.code, said.out, len(said.err.splitlines())) == (5, "", 1)


def test_report_refuses_a_signature_that_nobody_here_trusts(
    cloakwork: Run, tmp_path: Path, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = released(cloakwork, tmp_path, ledger)
    monkeypatch.setenv("CLOAKWORK_HOME", str(tmp_path / "elsewhere"))
    said = cloakwork("report", folder)
    assert said.code == 5 and "not trusted here" in said.err


def one_line(call: Callable[[], object]) -> str:
    """What an error of the tree says; anything else fails."""
    with pytest.raises(CloakworkError) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def a_plan() -> Any:
    from cloakwork.plan.policies import parse_policy

    return cloakwork.make_plan(parse_policy(POLICY))


def test_tables_are_logs(ledger: str) -> None:
    for table in (pl.DataFrame(ROWS), pd.DataFrame(ROWS)):
        assert cloakwork.apply(a_plan(), table, ledger=ledger).log.cases.height == 2
    other = pl.DataFrame(ROWS).rename({"concept:name": "step"})
    columns = {"concept:name": "step"}
    assert cloakwork.apply(a_plan(), other, ledger=ledger, columns=columns).log.cases.height == 2


@pytest.mark.parametrize("table", [pl.DataFrame({"x": [1]}), pd.DataFrame({"x": [1]})])
def test_a_table_without_the_columns(table: Any, ledger: str) -> None:
    assert "has no column 'case:concept:name'" in one_line(
        lambda: cloakwork.apply(a_plan(), table, ledger=ledger)
    )
    read = (
        cloakwork.EventLog.from_pandas
        if isinstance(table, pd.DataFrame)
        else cloakwork.EventLog.from_polars
    )
    assert "has no column 'case:concept:name'" in one_line(lambda: read(table))


@pytest.mark.parametrize("odd", [None, 3, ["log.csv"], {"a": 1}, object()])
def test_what_is_no_log_or_no_plan(odd: Any, ledger: str) -> None:
    assert "must be an EventLog, a path or a table" in one_line(
        lambda: cloakwork.apply(a_plan(), odd, ledger=ledger)
    )
    assert "plan must be Plan (got" in one_line(
        lambda: cloakwork.apply(odd, pl.DataFrame(ROWS), ledger=ledger)
    )
    assert "must be a pandas table" in one_line(lambda: cloakwork.EventLog.from_pandas(odd))


def test_to_pandas_without_pyarrow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    log = cloakwork.EventLog.from_polars(pl.DataFrame(ROWS))
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'cloakwork[pandas]'" in one_line(log.to_pandas)


def test_a_shipped_policy_is_found_by_its_name() -> None:
    assert cloakwork.load_policy("kanon-dp-timestamps").metadata.name == "kanon-dp-timestamps"
    assert "did you mean 'kanon-dp-timestamps'" in one_line(
        lambda: cloakwork.load_policy("kanon-dp-timestamp")
    )
    odd: Any = 3
    assert "path_or_name must be str or Path (got" in one_line(lambda: cloakwork.load_policy(odd))
    assert cloakwork.load_policy(
        os.fspath(Path(__file__).parents[2] / "policies" / "kanon-dp-timestamps.yaml")
    )


def test_the_verbs_are_shown() -> None:
    assert set(dir(cloakwork)) >= {
        "apply",
        "load_policy",
        "make_plan",
        "publish",
        "read_log",
        "verify",
        "EventLog",
    }

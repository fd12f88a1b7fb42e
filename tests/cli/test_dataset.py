"""``cloakwork dataset`` as a user types it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cloakwork.base.costs import Cost
from cloakwork.ledger.account import Balance
from cloakwork.ledger.books import Book
from cloakwork.ledger.declarations import DatasetDeclaration
from cloakwork.ledger.ledger import Ledger, ReservationRequest, Summary
from cloakwork.report.ledger_text import gauge, gauge_text, listed_balances
from conftest import Said
from counterexamples.small import small_log, small_policy

Run = Callable[..., Said]


@pytest.fixture
def run(cloakwork, ledger, monkeypatch):
    """Run the group on one ledger."""
    monkeypatch.setenv("COLUMNS", "100")
    return lambda *words: cloakwork("dataset", *words, "--ledger", ledger)


def declared(run: Run, *more: str) -> Said:
    """Dataset ``permits`` with an owner, a unit and a total."""
    said = run("declare", "permits", "--owner", "Permit office", "--unit", "case", *more)
    assert said.code == 0, said.err
    return said


def test_declare_show_and_list(run, ledger):
    """First screens within 25 lines; figures and words."""
    said = declared(run, "--total", "epsilon=2,delta=1e-6", "--reason", "decided in March")
    assert said.out.startswith("Declared.\n")
    Ledger(ledger).reserve(ReservationRequest(dataset="other", policy="p", charges=())).commit()
    shown = run("show", "permits").out
    for words in (
        "Permit office",
        "each case",
        "epsilon 2, delta 1e-06",
        "[....................] 0% spent: epsilon 0 of epsilon 2",
        "decided in March",
        "No comparisons were made.",
    ):
        assert words in shown
    assert len(shown.splitlines()) <= 25
    listed = run("list").out
    assert "permits  (owner Permit office; 0 releases)" in listed
    assert "other  (no owner declared; 1 release)" in listed
    found = json.loads(run("list", "--json").out)
    assert [each["dataset"] for each in found["datasets"]] == ["permits", "other"]
    document = json.loads(run("show", "permits", "--json").out)["dataset"]
    assert document["declaration"]["totals"] == {"unit": {"epsilon": 2.0, "delta": 1e-6}}
    assert document["declarations"][0]["says"]["reason"] == "decided in March"


def test_a_second_declaration(run):
    """Said again, it writes nothing; a delta that is not named stays; a looser one is refused."""
    declared(run, "--total", "epsilon=2,delta=1e-6")
    again = declared(run, "--total", "epsilon=2")
    assert again.out.startswith("Declared already; nothing was written.")
    refused = run("declare", "permits", "--total", "epsilon=3", "--json")
    assert refused.code == 3
    assert "never raised" in refused.err
    assert refused.err.count("\n") == 1
    assert json.loads(refused.out)["error"]["kind"] == "PlanImpossible"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 2),
        (("--total", "2"), 2),
        (("--total", "epsilon=no"), 2),
        (("--total", "epsilon=-1"), 2),
        (("--total", "epsilon=1", "--total", "unit:epsilon=2"), 2),
        (("--windows", "2 months"), 2),
        (("--unit", "case"), 1),
        (("--owner", "two\nlines"), 1),
    ],
)
def test_slips(run, tmp_path, words, code):
    """No traceback, and no ledger is made."""
    said = run("declare", "permits", *words)
    assert said.code == code, said.err
    assert "Traceback" not in said.err
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_dataset(run):
    """One line."""
    declared(run)
    said = run("show", "permit")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "knows no dataset 'permit'" in said.err


def test_names_from_outside_are_text(run):
    """No escape sequence reaches the terminal."""
    said = run("declare", "permits", "--owner", "\x1b]0;title\x07")
    assert said.code == 0
    assert "\x1b" not in said.out + run("list").out
    refused = run("declare", "\x1b[31mred", "--owner", "me")
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "\x1b" not in refused.err


@pytest.mark.parametrize(
    "name", ["", "d1 ", " d1", "x y", "d\u202e1", "d\u200b", ".d", "d\n", "é", "d" * 201]
)
def test_a_name_that_no_policy_can_have_is_refused(run, name, ledger):
    """Otherwise what was declared would bind nothing."""
    said = run("declare", name, "--owner", "me")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "a name holds letters (a-z, A-Z), digits" in said.err
    assert "\u202e" not in said.err
    assert not Path(ledger.removeprefix("sqlite:///")).exists()


@pytest.mark.parametrize("owner", ["", "  ", "a\nb", "x" * 201])
def test_an_owner_is_text_of_one_line(run, owner):
    said = run("declare", "permits", "--owner", owner, "--unit", "case")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "must be text of one line, 1 to 200 characters" in said.err


def test_plan_apply_and_ledger_speak_of_it(cloakwork, run, ledger, tmp_path):
    """``plan`` shows it, ``apply`` and ``plan`` refuse what it forbids: 3 for the unit, 4 for the
    total.
    """
    policy, log = small_policy(tmp_path), small_log(tmp_path)
    dataset = "clinic"
    run("declare", dataset, "--owner", "Clinic", "--total", "epsilon=1.5,delta=1e-5")
    planned = cloakwork("plan", policy, log, "--ledger", ledger)
    assert "declared: owner Clinic; total epsilon 1.5" in " ".join(planned.out.split())
    document = json.loads(cloakwork("plan", policy, log, "--ledger", ledger, "--json").out)
    assert document["ledger"]["declaration"]["owner"] == "Clinic"
    first = cloakwork("apply", policy, log, "--out", tmp_path / "a", "--ledger", ledger)
    assert first.code == 0, first.err
    refused = cloakwork("apply", policy, log, "--out", tmp_path / "b", "--ledger", ledger)
    assert refused.code == 4
    assert "declared with a total of epsilon 1.5" in refused.err
    assert "declared: owner Clinic" in cloakwork("ledger", "show", "--ledger", ledger).out
    run("declare", dataset, "--unit", "patient")
    assert cloakwork("plan", policy, log, "--ledger", ledger).code == 3
    refused = cloakwork("apply", policy, log, "--out", tmp_path / "b", "--ledger", ledger)
    assert refused.code == 3
    assert "declared is 'patient'" in refused.err
    assert not (tmp_path / "b").exists()


def test_gauges():
    """Empty and full say exactly that."""
    assert gauge(0.0) == f"[{'.' * 20}]"
    assert gauge(1.0) == f"[{'#' * 20}]"
    assert gauge(1e-9).count("#") == 1
    assert gauge(1 - 1e-9).count("#") == 19


def test_each_declared_total_has_a_gauge_in_its_own_currency():
    """Also where nothing is spent; single values have no delta."""
    unit, metric = Cost(epsilon=4, delta=1e-5), Cost(epsilon=2, delta=1e-5)
    spent = Cost(epsilon=1)
    summary = Summary(
        dataset="d",
        records=(),
        balances=tuple(
            Balance(Book(currency, "case" if currency == "unit" else None), cost, total, left)
            for currency, cost, total, left in (
                ("unit", spent, unit, Cost(epsilon=3, delta=1e-5)),
                ("metric", Cost(epsilon=0), metric, metric),
                ("local", Cost(epsilon=0), unit, unit),
            )
        ),
        declaration=DatasetDeclaration(totals={"metric": metric}),
    )
    shown = [gauge_text(balance) for balance in listed_balances(summary)]
    assert len(shown) == 2
    assert shown[0].startswith("[#####...............] 25% spent: epsilon 1 of epsilon 4, delta")
    assert "0% spent: epsilon 0 of epsilon 2; epsilon 2 left; " in shown[1]

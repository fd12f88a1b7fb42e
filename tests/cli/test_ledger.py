"""``cloakwork ledger`` as a user types it."""

import json
import math
import sqlite3
from datetime import timedelta

import pytest

from cloakwork.base.costs import Charge, Cost
from cloakwork.ledger.account import BudgetTerms
from cloakwork.ledger.ledger import Ledger, ReservationRequest


@pytest.fixture
def run(cloakwork, monkeypatch):
    """Run the group; wide enough that tables do not fold."""
    monkeypatch.setenv("COLUMNS", "160")
    return lambda *arguments: cloakwork("ledger", *arguments)


@pytest.fixture
def file(tmp_path):
    """A ledger with three datasets' worth of releases."""
    book = Ledger(str(tmp_path / "ledger.db"))
    unit, local = Cost(epsilon=0.1, delta=1e-6), Cost(epsilon=2.0)
    for _ in range(3):
        charges = [Charge(currency="unit", cost=unit)]
        book.reserve(
            ReservationRequest(
                dataset="claims",
                policy="yearly",
                version="2",
                charges=tuple(charges),
                terms=BudgetTerms(totals={"unit": Cost(epsilon=1.0, delta=1e-5)}),
            )
        ).commit()
    hour = Charge(currency="metric", cost=Cost(epsilon=0.5), shift=timedelta(hours=1))
    book.reserve(
        ReservationRequest(
            dataset="claims", policy="hourly", charges=(hour, Charge(currency="local", cost=local))
        )
    )
    book.reserve(
        ReservationRequest(
            dataset="patients", policy="[bold]kanon[/bold]", charges=(Charge(currency="none"),)
        )
    ).commit()
    return str(tmp_path / "ledger.db")


def test_show(run, file):
    """Spent, left and total per currency, in plain words; releases without DP listed."""
    result = run("show", "--ledger", file)
    assert result.code == 0, result.out
    text = " ".join(result.out.split())
    for words in (
        "claims",
        "epsilon 0.3, delta 3e-06",
        "epsilon 0.7, delta 7e-06",
        "per 1 h",
        "no total declared",
    ):
        assert words in text
    assert "(reserved): released in memory, no folder was written" in text
    assert "1 release with what no DP guarantee covers" in result.out


def test_show_json(run, file):
    """The same as data; infinity is null."""
    found = json.loads(run("show", "--ledger", file, "--json", "--dataset", "claims").out)
    (dataset,) = found["datasets"]
    assert dataset["releases"] == 4
    assert [budget["currency"] for budget in dataset["budgets"]] == ["unit", "metric", "local"]
    assert dataset["budgets"][0]["left"] == {"epsilon": 0.7, "delta": 7e-06}
    assert dataset["budgets"][1]["shift"] == "1h"
    assert dataset["budgets"][1]["total"] is None


@pytest.mark.parametrize("command", ["show", "history"])
def test_eighty_columns_hold_it(run, file, monkeypatch, command):
    """Whatever the names are; a currency that was never used is not listed."""
    monkeypatch.setenv("COLUMNS", "80")
    meta = {"policy": "p" * 120, "folder": None}
    Ledger(str(file)).reserve(
        ReservationRequest(dataset="d" * 150, policy=meta["policy"], charges=())
    )
    result = run(command, "--ledger", file)
    assert result.code == 0, result.out
    assert max(map(len, result.out.splitlines())) <= 80
    assert "epsilon 0 spent" not in result.out.replace("differential privacy of each case", "")


def test_history(run, file):
    """Every release, oldest first; markup in a name is text."""
    result = run("history", "--ledger", file)
    assert result.code == 0, result.out
    assert "[bold]kanon[/bold]" in result.out
    assert result.out.index("yearly 2") < result.out.index("hourly")
    found = json.loads(run("history", "--ledger", file, "--json", "--dataset", "patients").out)
    assert [release["charges"] for release in found["releases"]] == [
        [{"currency": "none", "unit": None, "shift": None, "epsilon": None, "delta": 0.0}]
    ]


def test_verify(run, file):
    """Whole: 0. Altered: 5, and the first break on stderr."""
    result = run("verify", "--ledger", file)
    assert (result.code, "whole" in result.out) == (0, True)
    with sqlite3.connect(file) as connection:
        connection.execute(
            "UPDATE cloakwork_ledger SET body = replace(body, '0.1', '0.01') WHERE seq = 3"
        )
    result = run("verify", "--ledger", file)
    assert result.code == 5
    assert "entry 3: was altered" in result.err
    assert "cannot be trusted" in run("show", "--ledger", file).err
    found = run("verify", "--ledger", file, "--json")
    assert found.code == 5
    assert json.loads(found.out)["broken"] == {"entry": 3, "reason": "was altered"}


@pytest.mark.parametrize("command", ["show", "history", "verify"])
def test_a_ledger_that_does_not_exist_is_empty(run, tmp_path, command):
    """And is not made by looking."""
    result = run(command, "--ledger", str(tmp_path / "none.db"))
    assert result.code == 0, result.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["show", "history", "verify"])
def test_what_is_no_ledger_is_one_line(run, tmp_path, command):
    """Exit code 1, nothing but the error."""
    (tmp_path / "junk").write_text("no database\n" * 500)
    result = run(command, "--ledger", str(tmp_path / "junk"))
    assert result.code == 1
    assert result.err.count("\n") == 1
    assert "Traceback" not in result.out


def test_usage(run):
    """Click's own exit code for what it cannot read."""
    assert run("show", "--nonsense").code == 2
    assert run("--help").code == 0


def test_an_unbounded_cost_is_said(run, tmp_path):
    """In words, not as inf."""
    charges = [Charge(currency="unit", cost=Cost(epsilon=math.inf))]
    Ledger(str(tmp_path / "l.db")).reserve(
        ReservationRequest(dataset="claims", policy="p", charges=tuple(charges))
    )
    assert "no bound" in run("show", "--ledger", str(tmp_path / "l.db")).out

"""Datasets: gauges, windows, and ledgers that cannot be trusted."""

import sqlite3

from cloakwork.base.costs import Cost
from cloakwork.console.datasets import gauge_of
from cloakwork.ledger.account import Balance
from cloakwork.ledger.books import Book


def _gauge(spent: Cost, total: Cost | None) -> tuple[float | None, str]:
    left = None if total is None else Cost(epsilon=0)
    found = gauge_of(Balance(Book("unit", "case"), spent, total, left))
    return found.percent, found.level


def test_a_gauge_shows_whichever_is_nearer_its_end():
    total = Cost(epsilon=4, delta=1e-4)
    assert _gauge(Cost(epsilon=1, delta=1e-6), total) == (25, "free")
    assert _gauge(Cost(epsilon=1, delta=9e-5), total) == (90, "low")
    assert _gauge(Cost(epsilon=4), total) == (100, "used")
    assert _gauge(Cost(epsilon=1), Cost(epsilon=0)) == (100, "used")
    assert _gauge(Cost(epsilon=1), None) == (None, "open")


def test_an_empty_ledger_says_how_to_begin(visitor):
    page = visitor.get("/").text
    assert "There is no ledger yet" in page
    assert visitor.get("/dataset?name=unknown").status_code == 400
    assert visitor.get("/dataset").status_code == 400


def test_a_dataset_shows_its_releases(visitor):
    assert visitor.release("out").state == "done"
    page = visitor.get("/dataset?name=hospital-emergency").text
    assert "epsilon 3, delta 9.9e-05 left" in page
    assert 'href="/release?folder=out"' in page
    assert "committed" in page


def test_a_ledger_that_was_altered_is_not_trusted(visitor, folder):
    assert visitor.release("out").state == "done"
    with sqlite3.connect(folder / "ledger.db") as connection:
        (table,) = [
            name
            for (name,) in connection.execute("select name from sqlite_master where type='table'")
            if "body" in [row[1] for row in connection.execute(f"pragma table_info({name})")]
        ]
        changed = connection.execute(f"update {table} set body = replace(body, '1.0', '0.1')")
        assert changed.rowcount
    connection.close()
    assert "its figures cannot be trusted" in visitor.get("/").text


def test_a_declaration_binds_and_is_never_loosened(visitor):
    """What is left empty stays; a larger total is refused, and nothing is written."""
    name = {"name": "er"}
    first = {"owner": "Ward", "epsilon": "2", "delta": "1e-5", "windows": "1 month"}
    assert visitor.send("/dataset/declare", **name, **first).status_code == 303
    assert visitor.send("/dataset/declare", **name, epsilon="1").status_code == 303
    page = visitor.get("/dataset?name=er").text
    assert "epsilon 1, delta 1e-05" in page
    assert "of 1 month" in page
    before = len(visitor.state.ledger().events("dataset-declared"))
    for wrong in ({"epsilon": "3"}, {"epsilon": "much"}, {"windows": "2 months"}):
        assert visitor.send("/dataset/declare", **name, **wrong).status_code == 400, wrong
    assert len(visitor.state.ledger().events("dataset-declared")) == before


def test_totals_of_single_values_are_declared(visitor):
    """Each currency has a field of its own."""
    asked = {"name": "ward", "owner": "o", "epsilon": "3", "metric_epsilon": "2"}
    assert visitor.send("/dataset/declare", **asked).status_code == 303
    totals = visitor.state.ledger().declaration("ward").totals
    assert {name: cost.epsilon for name, cost in totals.items()} == {"unit": 3.0, "metric": 2.0}
    assert "is no total" in visitor.send("/dataset/declare", name="ward", local_epsilon="x").text

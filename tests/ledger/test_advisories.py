"""Advisories, by an invented one: which releases it concerns, and what it makes of them."""

from dataclasses import replace
from typing import Any

import pytest

from cloakwork.base.costs import Charge
from cloakwork.ledger import advisories
from cloakwork.ledger.advisories import ADVISORIES, Advisory, advisories_for
from cloakwork.ledger.ledger import Ledger
from cloakwork.ledger.records import Record, advisories_of
from ledger.test_ledger import request, unit

VERSION = "0.2.7"

INVENTED = Advisory(
    id="CW-2099-01",
    title="noise was half of what was said",
    versions=("0.2.*",),
    guarantees=("differential-privacy",),
    parameters={"neighbours": ("unbounded",)},
    mechanisms=("variants/*",),
    effect="voids",
    says="Epsilon is twice what is stated.",
    remedy="Withdraw the release.",
)

DP = {"kind": "differential-privacy", "epsilon": 1.0, "neighbours": "unbounded"}
K = {"kind": "k-anonymity", "k": 3}
STEPS = ["bound", "variants/threshold"]


def known(monkeypatch: pytest.MonkeyPatch, *entries: Advisory) -> None:
    """As if these had been found."""
    monkeypatch.setattr(advisories, "ADVISORIES", entries)


def test_ids_are_in_order_and_none_is_given_twice() -> None:
    ids = [each.id for each in ADVISORIES]
    assert ids == sorted(set(ids))


@pytest.mark.parametrize(
    ("engine", "guarantees", "steps", "expected"),
    [
        (VERSION, [K, DP], STEPS, [(1, "void")]),
        (VERSION, [DP, DP], STEPS, [(0, "void"), (1, "void")]),
        (VERSION, [{"kind": "differential-privacy"}], STEPS, [(0, "void")]),
        (VERSION, [DP | {"neighbours": "bounded"}], STEPS, []),
        (VERSION, [K], STEPS, []),
        (VERSION, [DP], ["bound"], []),
        (VERSION, [DP], None, [(0, "open")]),
        ("0.3.0", [DP], STEPS, []),
        ("0.20", [DP], STEPS, []),
    ],
)
def test_it_concerns_what_its_condition_says(
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    guarantees: list[dict[str, Any]],
    steps: list[str] | None,
    expected: list[tuple[int, str]],
) -> None:
    known(monkeypatch, INVENTED)
    found = advisories_for(engine, guarantees, steps)
    assert [(each.number, each.status) for each in found] == expected


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"effect": "weakens"}, "weakened"),
        ({"effect": "corrects"}, "corrected"),
        ({"depends": "whether the log was read twice"}, "open"),
    ],
)
def test_its_effect_decides_what_becomes_of_the_claim(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], status: str
) -> None:
    known(monkeypatch, replace(INVENTED, **change))
    assert [each.status for each in advisories_for(VERSION, [DP], STEPS)] == [status]


def test_one_about_no_guarantee_concerns_the_release_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known(monkeypatch, replace(INVENTED, guarantees=()))
    (found,) = advisories_for(VERSION, [K], STEPS)
    assert (found.number, found.status) == (None, "void")
    assert str(found) == "CW-2099-01: the release: noise was half of what was said"


def test_the_most_severe_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    milder = replace(INVENTED, id="CW-2099-00", effect="corrects")
    known(monkeypatch, milder, INVENTED)
    found = advisories_for(VERSION, [DP], STEPS)
    assert [each.status for each in found] == ["void", "corrected"]


def recorded(ledger: str, charges: list[Charge], *guarantees: dict[str, Any]) -> Record:
    """The entry of a release of this version with these guarantees."""
    details = {"guarantees": list(guarantees), "mechanisms": STEPS}
    Ledger(ledger).reserve(request(charges, details=details))
    return Ledger(ledger).history()[-1]


@pytest.mark.parametrize("condition", [{}, {"guarantees": ()}])
def test_the_ledger_counts_a_release_whose_claim_is_void_as_without_bound(
    ledger: str, monkeypatch: pytest.MonkeyPatch, condition: dict[str, Any]
) -> None:
    """What it charged stays spent: budget is never handed back."""
    before = recorded(ledger, unit(0.5), DP)
    (spent,) = Ledger(ledger).summary()
    known(monkeypatch, replace(INVENTED, **condition))
    (after,) = Ledger(ledger).history()
    (now,) = Ledger(ledger).summary()

    assert [each.status for each in advisories_of(after)] == ["void"]
    assert after.charges == (*before.charges, Charge(currency="none"))
    assert after.without_dp and not before.without_dp
    assert [each.id for each in now.without_dp] == [after.id]
    assert now.balances == spent.balances


@pytest.mark.parametrize(
    ("charges", "guarantee", "change"),
    [
        ([Charge(currency="none")], DP, {}),
        (unit(0.5), K, {"guarantees": ("k-anonymity",)}),
        (unit(0.5), DP, {"depends": "the weather"}),
        (unit(0.5), DP, {"versions": ("0.1.*",)}),
    ],
)
def test_nothing_is_added_where_no_claim_that_was_paid_for_is_void(
    ledger: str,
    monkeypatch: pytest.MonkeyPatch,
    charges: list[Charge],
    guarantee: dict[str, Any],
    change: dict[str, Any],
) -> None:
    before = recorded(ledger, charges, guarantee)
    known(monkeypatch, replace(INVENTED, **change))
    (after,) = Ledger(ledger).history()
    assert after == before


ODD: tuple[Any, ...] = (
    None, 5, "x", True, [None], [5], [[]], {}, [{}], [1e308], "x" * 100_000,
    [{"kind": None}], [{"kind": ["a"]}], [{"kind": {}}], ["variants/[", "*", "\ud800"],
    [{"kind": "differential-privacy", "neighbours": []}],
    [{"kind": "differential-privacy\n\u202e"}],
)  # fmt: skip


@pytest.mark.parametrize("field", ["guarantees", "mechanisms"])
@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_whatever_an_entry_says_ends_in_a_line(
    odd: Any, field: str, ledger: str, monkeypatch: pytest.MonkeyPatch, cloakwork: Any
) -> None:
    """Whoever wrote it: read, or named by its number, and never an error of our own."""
    details = {"guarantees": [DP], "mechanisms": STEPS} | {field: odd}
    Ledger(ledger).reserve(request(unit(0.5), details=details))
    known(monkeypatch, INVENTED, replace(INVENTED, id="CW-2099-02", guarantees=()))
    for command in (["history"], ["show"], ["history", "--json"], ["verify"]):
        said = cloakwork("ledger", *command, "--ledger", ledger)
        assert said.code in (0, 1), said.err
        assert "internal error" not in said.err and "Traceback" not in said.err
        assert said.code == 0 or "entry 1 cannot be read" in said.out + said.err

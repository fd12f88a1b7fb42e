"""Where a policy and the dataset of a ledger do not fit together."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cloakwork.authoring.advice import lint_dataset
from cloakwork.base.costs import Charge, Cost
from cloakwork.ledger.account import BudgetTerms
from cloakwork.ledger.ledger import Ledger, ReservationRequest
from cloakwork.plan.policies import load_shipped
from conftest import Said

NAME = "dp-control-flow"
DATASET = "hospital-emergency"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(str(tmp_path / "ledger.db"), notice=lambda _: None)


def _declare(ledger: Ledger, **body: Any) -> None:
    ledger.record_event("dataset-declared", DATASET, {"owner": "dpo"} | body)


def _total(epsilon: float, delta: float, currency: str = "unit") -> dict[str, Any]:
    return {"totals": {currency: {"epsilon": repr(epsilon), "delta": repr(delta)}}}


def _said(ledger: Ledger, name: str = NAME) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for advice in lint_dataset(load_shipped(name), ledger):
        found.setdefault(advice.rule, []).append(advice.message)
        assert advice.level == ("note" if advice.rule == "dataset-total" else "warning")
    return found


def test_what_fits_is_not_spoken_of(ledger: Ledger) -> None:
    """No ledger, nothing declared, and a declaration that allows at least as much."""
    assert _said(ledger) == {}
    _declare(ledger, unit="case", windows="none", **_total(4.0, 1e-4))
    assert _said(ledger) == {}


def test_unit_and_windows_are_those_that_apply_would_refuse(ledger: Ledger) -> None:
    _declare(ledger, unit="case:patient", windows="1 month")
    assert _said(ledger) == {
        "dataset-unit": ["the policy protects each 'case'; declared is 'case:patient'"],
        "dataset-windows": [
            "the dataset is declared with windows of 1 month; the policy has none",
        ],
    }


@pytest.mark.parametrize(
    ("declared", "binds"),
    [
        ((2.0, 1e-4), "epsilon 2, delta 0.0001"),
        ((4.0, 1e-5), "epsilon 4, delta 1e-05"),
        ((9.0, 1e-4), None),
    ],
)
def test_the_declared_total_binds(
    ledger: Ledger, declared: tuple[float, float], binds: str | None
) -> None:
    _declare(ledger, **_total(*declared))
    said = _said(ledger).get("dataset-total", [])
    if binds is None:
        assert said == []
        return
    assert said == [
        "the policy allows epsilon 4, delta 0.0001 in the book 'case'; the dataset is declared "
        f"with {binds}, and that binds: releases above it are refused"
    ]


def test_the_smallest_total_of_earlier_policies_binds(ledger: Ledger) -> None:
    """Of those that spent something of what it is about."""
    charges = (Charge(currency="unit", cost=Cost(epsilon=0.1)),)
    for epsilon in (6.0, 3.0, 5.0):
        terms = BudgetTerms(totals={"unit": Cost(epsilon=epsilon, delta=1e-4)}, window=None)
        ledger.reserve(
            ReservationRequest(dataset=DATASET, policy="p", charges=charges, terms=terms)
        )
    cheap = BudgetTerms(totals={"unit": Cost(epsilon=0.5)})
    ledger.reserve(ReservationRequest(dataset=DATASET, policy="p", charges=(), terms=cheap))
    (said,) = _said(ledger)["dataset-total"]
    assert "an earlier policy declared epsilon 3, delta 0.0001, and that binds" in said


def test_totals_of_times_are_compared_over_the_same_shift(ledger: Ledger) -> None:
    """Epsilon 8 over two hours is epsilon 4 over one: as much as the policy allows."""
    name = "kanon-dp-timestamps"
    own = load_shipped(name).goals()[1].price()
    assert own is not None and own.shift == timedelta(hours=1)
    for epsilon, binds in ((8.0, False), (6.0, True)):
        charge = Charge(
            currency="metric", cost=Cost(epsilon=0.1), shift=timedelta(hours=2), unit="value"
        )
        terms = BudgetTerms(totals={"metric": Cost(epsilon=epsilon, delta=1e-4)})
        ledger.reserve(
            ReservationRequest(dataset=DATASET, policy="p", charges=(charge,), terms=terms)
        )
        assert ("dataset-total" in _said(ledger, name)) is binds


def test_lint_asks_the_ledger_that_is_named(cloakwork: Any, ledger: Ledger) -> None:
    """And no other; a waiver of what was not asked is not called useless."""
    _declare(ledger, **_total(2.0, 1e-4))
    said: Said = cloakwork("policy", "lint", NAME, "--ledger", ledger.url, "--fail-on", "note")
    assert (said.code, said.err) == (3, "")
    assert ": spec.budget.total: the policy allows epsilon 4" in said.out
    assert said.out.rstrip().endswith("[dataset-total]")
    assert "dataset-total" not in cloakwork("policy", "lint", NAME).out

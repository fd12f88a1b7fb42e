"""What a dataset is declared with binds every release, and is only ever tightened."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.base.costs import Charge, Cost
from cloakwork.errors import BudgetExceeded, CloakworkError, LedgerError, PlanImpossible
from cloakwork.ledger.account import BudgetTerms
from cloakwork.ledger.datasets import declare_dataset
from cloakwork.ledger.declarations import WINDOW_LENGTHS
from cloakwork.ledger.ledger import Ledger
from cloakwork.policy.declared import Period
from cloakwork.report.ledger_text import lowered_lines
from ledger.test_ledger import metric, request, reserve, total, unit


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger that does not exist yet."""
    return Ledger(str(tmp_path / "ledger.db"))


def declare(ledger: Ledger, **said: object) -> bool:
    """Declare dataset ``claims``; whether that was new."""
    return declare_dataset(ledger, "claims", **{"owner": "Claims office", **said})[1]


def test_windows_are_spelt_as_in_policies() -> None:
    """The layers do not know each other."""
    assert (*get_args(Period), "none") == WINDOW_LENGTHS


def test_a_declared_total_binds_at_once(ledger: Ledger) -> None:
    """Also a policy that declares more or nothing, and what was spent before counts."""
    reserve(ledger, unit(0.4))
    declare(ledger, totals={"unit": Cost(epsilon=1.0)})
    for totals in (total(5.0), None):
        with pytest.raises(BudgetExceeded, match="declared with a total of epsilon 1") as refused:
            reserve(ledger, unit(0.7), totals)
        assert refused.value.remaining == (0.6, 0.0)
    with pytest.raises(BudgetExceeded):
        ledger.check(request(unit(0.7)))
    forecast = ledger.check(request(unit(0.6)))
    assert forecast.declaration.owner == "Claims office"
    assert forecast.after[0].left == Cost(epsilon=0.0)
    reserve(ledger, unit(0.6))
    (summary,) = ledger.summary()
    assert summary.balances[0].left == Cost(epsilon=0.0)
    reserve(ledger, unit(5.0), dataset="another")


def test_without_a_unit_it_binds_the_books_of_all(ledger: Ledger) -> None:
    """Whoever a policy protects."""
    declare(ledger, totals={"unit": Cost(epsilon=1.0)})
    charges = [Charge(currency="unit", cost=Cost(epsilon=1.5), unit="patient")]
    with pytest.raises(BudgetExceeded):
        ledger.reserve(request(charges, terms=BudgetTerms(unit="patient")))


def test_only_what_was_spent_of_is_bound_for_good(ledger: Ledger) -> None:
    """A total of something of which nothing was spent yet may be raised, with a signature; what a
    policy declares for what it does not spend binds nobody.
    """
    declare(ledger, totals={"unit": Cost(epsilon=1.0), "metric": Cost(epsilon=1.0)})
    raised = {"metric": Cost(epsilon=3.0)}
    with pytest.raises(PlanImpossible, match="never raised"):
        declare(ledger, totals=raised, sign=lambda _: {})
    with pytest.raises(CloakworkError, match="has to sign this"):
        declare(ledger, totals=raised, amend=True)
    assert declare(ledger, totals=raised, amend=True, sign=lambda _: {"keyid": "k", "sig": "s"})
    (first, second) = ledger.events("dataset-declared")
    assert ("signature" in first.fields(), "signature" in second.fields()) == (False, True)
    ledger.reserve(request(metric(2.0, 1)))
    with pytest.raises(PlanImpossible, match="never raised"):
        declare(ledger, totals={"metric": Cost(epsilon=9.0)}, amend=True, sign=lambda _: {})
    assert ledger.declaration("claims").totals["metric"] == Cost(epsilon=3.0)
    # The unit's total stands for single values, of which nothing was spent; for times it does not.
    assert declare(ledger, totals={"unit": Cost(epsilon=5.0)}, amend=True, sign=lambda _: {})
    # An amendment that is filed by hand after something was spent counts for nothing.
    forged = {"totals": {"metric": {"epsilon": "9.0", "delta": "0.0"}}, "owner": "Claims office"}
    ledger.record_event("dataset-declared", "claims", forged)
    assert ledger.declaration("claims").totals["metric"] == Cost(epsilon=3.0)


def test_a_total_that_stands_for_what_was_spent_is_never_raised(ledger: Ledger) -> None:
    """The unit's, where times were spent and have no total of their own; found by an attacker."""
    declare(ledger, totals={"unit": Cost(epsilon=1.0)})
    ledger.reserve(request(metric(0.8, 1)))
    for signed in ({"amend": True, "sign": lambda _: {}}, {}):
        with pytest.raises(PlanImpossible, match="never raised"):
            declare(ledger, totals={"unit": Cost(epsilon=10.0)}, **signed)
    # Nor by hand, with whatever stands there as a signature.
    totals = {"unit": {"epsilon": "10.0", "delta": "0.0"}}
    forged = {"totals": totals, "owner": "Claims office", "signature": ""}
    ledger.record_event("dataset-declared", "claims", forged)
    assert ledger.declaration("claims").totals["unit"] == Cost(epsilon=1.0)
    with pytest.raises(BudgetExceeded):
        ledger.reserve(request(metric(0.8, 1)))


def test_an_amendment_that_would_not_bind_is_refused(ledger: Ledger) -> None:
    """A policy's own total binds what was spent under it, though the dataset declared none."""
    reserve(ledger, unit(0.3), total(1.0))
    raised = {"unit": Cost(epsilon=9.0)}
    with pytest.raises(PlanImpossible, match="made under a total of epsilon 1"):
        declare(ledger, totals=raised, amend=True, sign=lambda _: {})
    assert not ledger.events("dataset-declared", dataset="claims")
    # What is no higher, and what nothing was spent of, may be declared.
    lower = {"unit": Cost(epsilon=0.9), "metric": Cost(epsilon=9.0)}
    assert declare(ledger, totals=lower, amend=True, sign=lambda _: {})


def test_a_policy_binds_what_it_spends(ledger: Ledger) -> None:
    """Its statement prints no other total."""
    ledger.reserve(request((), terms=BudgetTerms(totals=total(0.5))))
    reserve(ledger, unit(0.7), total(2.0))
    with pytest.raises(BudgetExceeded):
        reserve(ledger, unit(1.4), total(3.0))


def test_single_values(ledger: Ledger) -> None:
    """The unit's total stands for them once a release is about them, unless they have their own."""
    declare(ledger, totals={"unit": Cost(epsilon=1.0)})
    # Times covered with everything else of a unit count twice in the metric book: not refused.
    everything = [Charge(currency="unit", cost=Cost(epsilon=0.6), times="unbounded")]
    reserve(ledger, everything)
    with pytest.raises(BudgetExceeded) as refused:
        reserve(ledger, metric(1.1, 1))
    assert refused.value.currency == "metric"
    with pytest.raises(BudgetExceeded):
        reserve(ledger, [Charge(currency="local", cost=Cost(epsilon=1.1))])
    declare(ledger, totals={"metric": Cost(epsilon=0.5)})
    with pytest.raises(BudgetExceeded):
        reserve(ledger, metric(0.6, 1))


@pytest.mark.parametrize(
    ("later", "names"),
    [
        ({"totals": {"unit": Cost(epsilon=1.5)}}, "never raised"),
        ({"totals": {"unit": Cost(epsilon=0.5, delta=1e-5)}}, "never raised"),
        ({"totals": {"metric": Cost(epsilon=1.5)}}, "never raised"),
        ({"unit": "patient"}, "stays that"),
        ({"windows": "1 week"}, "stay that"),
        ({"windows": "none"}, "stay that"),
    ],
)
def test_nothing_is_loosened(ledger: Ledger, later: dict[str, object], names: str) -> None:
    """Refused in one line, exit 3, and nothing is written."""
    totals = {"unit": Cost(epsilon=1.0, delta=1e-6)}
    declare(ledger, unit="case", windows="1 month", totals=totals)
    with pytest.raises(PlanImpossible, match=names) as refused:
        declare(ledger, **later)
    assert str(refused.value).count("\n") == 0
    assert len(ledger.events("dataset-declared")) == 1


def test_tightening_and_saying_it_again(ledger: Ledger) -> None:
    """The owner may change; what says nothing new is no entry."""
    assert declare(ledger, totals={"unit": Cost(epsilon=1.0)})
    assert not declare(ledger, totals={"unit": Cost(epsilon=1.0)}, reason="again")
    assert declare(ledger, owner="Another office", require_approval=True, unit="case")
    assert not declare(ledger, owner="Another office", require_approval=False)
    found = ledger.declaration("claims")
    assert (found.owner, found.unit, found.require_approval) == ("Another office", "case", True)
    assert found.totals == {"unit": Cost(epsilon=1.0)}
    _, newest = ledger.events("dataset-declared", dataset="claims")
    totals = {"unit": {"epsilon": "1.0", "delta": "0.0"}}
    in_force = {"owner": "Another office", "unit": "case", "totals": totals}
    assert newest.fields() == in_force | {"require_approval": True}
    assert ledger.verify() is None


def test_unit_and_windows_bind_policies(ledger: Ledger) -> None:
    """Exit 3, each with what is declared."""
    declare(ledger, unit="case", windows="1 month")
    monthly = BudgetTerms(window="2026-10", every="1 month")
    ledger.reserve(request(terms=monthly))
    for terms, names in (
        (BudgetTerms(), "has none"),
        (BudgetTerms(window="2026-W43", every="1 week"), "windows of 1 week"),
        (BudgetTerms(unit="patient", window="2026-10", every="1 month"), "'patient'"),
    ):
        with pytest.raises(PlanImpossible, match=names):
            ledger.reserve(request(terms=terms))
        with pytest.raises(PlanImpossible, match=names):
            ledger.check(request(terms=terms))
    assert len(ledger.history()) == 1


def test_windows_of_earlier_releases_stay(ledger: Ledger) -> None:
    """Others cannot be declared."""
    terms = BudgetTerms(window="2026-10", every="1 month")
    ledger.reserve(request(terms=terms))
    with pytest.raises(PlanImpossible, match="1 month"):
        declare(ledger, windows="1 week")


@pytest.mark.parametrize(
    "said",
    [
        {"owner": ""},
        {"owner": "two\nlines"},
        {"unit": "x" * 201},
        {"totals": {"unit": Cost(epsilon=0.0)}},
        {"totals": {"unit": Cost(epsilon=float("inf"))}},
        {"totals": {"unit": Cost(epsilon=1.0, delta=1.0)}},
        {"owner": None},
        {"owner": None, "unit": "case"},
    ],
)
def test_what_is_no_declaration(ledger: Ledger, said: dict[str, object]) -> None:
    """One line, and no ledger is made."""
    with pytest.raises(CloakworkError) as refused:
        declare(ledger, **said)
    assert "\n" not in str(refused.value)
    assert not ledger.exists()


def test_an_entry_that_cannot_be_read(ledger: Ledger) -> None:
    """Names the entry; nothing is taken for undeclared."""
    ledger.record_event("dataset-declared", "claims", {"totals": {"unit": {"epsilon": "much"}}})
    with pytest.raises(LedgerError, match="entry 1 cannot be read"):
        reserve(ledger, unit(0.1))


TENTHS = st.integers(1, 12).map(lambda tenths: Decimal(tenths) / 10)
STEPS = st.lists(st.tuples(st.sampled_from(["declare", "reserve"]), TENTHS, TENTHS), max_size=8)


@given(STEPS)
def test_against_a_separate_count(steps: Sequence[tuple[str, Decimal, Decimal]]) -> None:
    """Whatever is declared and released in whatever order: a release fits if and only if the sum
    is within the least total said so far, and a declaration is taken if and only if it is no
    larger than the last.
    """
    with TemporaryDirectory() as folder:
        ledger = Ledger(f"{folder}/ledger.db", notice=lambda _: None)
        spent, declared, least = Decimal(0), Decimal(1000), Decimal(1000)
        for kind, first, second in steps:
            if kind == "declare":
                taken = first <= declared
                try:
                    declare(ledger, totals={"unit": Cost(epsilon=float(first))})
                except PlanImpossible:
                    assert not taken
                else:
                    assert taken
                    declared, least = first, min(least, first)
                continue
            # The policy's total does not bind unless its release is made.
            fits = spent + first <= min(least, second)
            try:
                reserve(ledger, unit(float(first)), total(float(second)))
            except BudgetExceeded:
                assert not fits
            else:
                assert fits
                spent, least = spent + first, min(least, second)
        assert ledger.verify() is None
        balance = ledger.remaining("claims").get("case")
        assert balance is None or balance.spent == Cost(epsilon=float(spent))


def test_a_total_below_the_datasets_is_told_before_it_binds(ledger: Ledger) -> None:
    """Of a release that spends in that book; one with the same total, or none, lowers nothing."""
    ledger.reserve(request(unit(1.0), terms=BudgetTerms(totals=total(8.0))))
    for charges, totals, is_told in (
        (unit(1.0), total(4.0), True),
        (unit(1.0), total(8.0), False),
        (unit(1.0), None, False),
        ((), total(4.0), False),
    ):
        terms = BudgetTerms(totals=totals or {})
        told = list(lowered_lines(ledger.check(request(charges, terms=terms))))
        assert [("epsilon 4" in line, "epsilon 8" in line) for line in told] == [
            (True, True) for _ in range(is_told)
        ]

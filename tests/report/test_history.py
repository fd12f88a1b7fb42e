"""What the ledger tells of a release: the books before and after it, comparisons, the approval."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cloakwork.base.costs import Charge, Cost
from cloakwork.ledger.ledger import Ledger, ReservationRequest
from cloakwork.plan.budget import ledger_terms
from cloakwork.publishing.from_plan import statement_of
from cloakwork.report.html import internal_html
from cloakwork.report.model import internal_report, ledger_view
from publishing.conftest import a_plan, a_release

PLAN = a_plan()
DATASET = PLAN.policy.metadata.dataset

APPROVAL = {
    "policy": "hospital-process-discovery@1.0.0",
    "digest": "a" * 64,
    "author": "Ada <ada@hospital.example>",
    "approver": "Grace",
    "approver_keyid": "b" * 64,
    "approved_at": "2026-01-02T03:04:05+00:00",
    "reason": "checked with the works council",
    "entry": "c" * 64,
}


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    return Ledger(str(tmp_path / "ledger.db"), notice=lambda _: None)


def reserved(book: Ledger, epsilon: float, details: Mapping[str, Any] | None = None) -> str:
    """The identity of a release that costs ``epsilon`` per case."""
    charge = Charge(currency="unit", cost=Cost(epsilon=epsilon), unit="case")
    reservation = book.reserve(
        ReservationRequest(
            dataset=DATASET,
            policy="hospital-process-discovery",
            charges=(charge,),
            terms=ledger_terms(PLAN.policy),
            details=details or {},
        )
    )
    return reservation.id


def test_each_release_has_the_budget_of_its_own_time(book: Ledger) -> None:
    """Spent before it, by it, and left after it, whatever came later."""
    first, second, _ = (reserved(book, epsilon) for epsilon in (1.0, 0.5, 2.0))

    views = [ledger_view(book, PLAN, release) for release in (first, second)]

    told = []
    for view in views:
        assert view is not None
        (case,) = [book for book in view.books if book.book == "case"]
        assert case.total is not None and case.left is not None
        figures = (case.before, case.release, case.total, case.left)
        told.append((view.earlier, *(figure.epsilon for figure in figures)))
    assert told == [(0, 0.0, 1.0, 4.0, 3.0), (1, 1.0, 0.5, 4.0, 2.5)]


def test_comparisons_count_where_they_came_before(book: Ledger) -> None:
    book.record_event("compared", DATASET, {"policies": 3})
    book.record_event("compared", "another", {})
    release = reserved(book, 1.0)
    book.record_event("compared", DATASET, {})

    view = ledger_view(book, PLAN, release)

    assert view is not None and len(view.comparisons) == 1


def test_the_approval_is_the_one_that_the_entry_names(book: Ledger) -> None:
    release = reserved(book, 1.0, {"approval": APPROVAL})
    view = ledger_view(book, PLAN, release)

    assert view is not None and view.approval is not None
    made = a_release()
    report = internal_report(
        made, statement_of(made.plan, "r", released=(), private=True)
    ).model_copy(update={"ledger": view})
    page = internal_html(report)
    assert "approved on 02 January 2026, 03:04 UTC by Grace" in page
    assert "written by Ada &lt;ada@hospital.example&gt;: checked with the works council" in page
    assert "Spent before" in page


@pytest.mark.parametrize("details", [{}, {"approval": "yes"}, {"approval": {"approver": "x"}}])
def test_what_is_no_approval_is_none(book: Ledger, details: dict[str, Any]) -> None:
    view = ledger_view(book, PLAN, reserved(book, 1.0, details))

    assert view is not None and view.approval is None


def test_a_ledger_that_does_not_know_the_release_tells_nothing(
    book: Ledger, tmp_path: Path
) -> None:
    assert ledger_view(None, PLAN, "x") is None
    assert ledger_view(book, PLAN, "x") is None
    reserved(book, 1.0)
    assert ledger_view(book, PLAN, "x") is None
    (tmp_path / "broken.db").write_text("no ledger")
    assert ledger_view(Ledger(str(tmp_path / "broken.db")), PLAN, "x") is None

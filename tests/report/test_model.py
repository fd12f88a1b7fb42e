"""What the ledger tells of a release: the books before and after it, comparisons, the approval. Who
is not protected follows from the unit, the released attributes and the guarantees. The published
schema of reports is that of the models, and reports keep to it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cloakwork.base.costs import Charge, Cost
from cloakwork.base.facts import Unit
from cloakwork.guarantees.claims import HoldsWindow
from cloakwork.ledger.ledger import Ledger, ReservationRequest
from cloakwork.plan.budget import ledger_terms
from cloakwork.publishing.from_plan import statement_of
from cloakwork.publishing.statement import NOT_PRIVATE, PrivacyStatement, ReleasedColumn
from cloakwork.report.html import internal_html
from cloakwork.report.model import (
    REPORT_SCHEMA,
    internal_report,
    ledger_view,
    unprotected_groups,
)
from cloakwork.report.render import render
from conftest import ROOT, hurried
from counterexamples.small import small_log
from publishing.conftest import a_plan, a_release
from report.conftest import statement_with

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
def book(tmp_path):
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


def test_each_release_has_the_budget_of_its_own_time(book):
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


def test_comparisons_count_where_they_came_before(book):
    book.record_event("compared", DATASET, {"policies": 3})
    book.record_event("compared", "another", {})
    release = reserved(book, 1.0)
    book.record_event("compared", DATASET, {})
    view = ledger_view(book, PLAN, release)
    assert view is not None and len(view.comparisons) == 1


def test_the_approval_is_the_one_that_the_entry_names(book):
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
def test_what_is_no_approval_is_none(book, details):
    view = ledger_view(book, PLAN, reserved(book, 1.0, details))
    assert view is not None and view.approval is None


def test_a_ledger_that_does_not_know_the_release_tells_nothing(book, tmp_path):
    assert ledger_view(None, PLAN, "x") is None
    assert ledger_view(book, PLAN, "x") is None
    reserved(book, 1.0)
    assert ledger_view(book, PLAN, "x") is None
    (tmp_path / "broken.db").write_text("no ledger")
    assert ledger_view(Ledger(str(tmp_path / "broken.db")), PLAN, "x") is None


def a_statement(**changes: Any) -> PrivacyStatement:
    statement = statement_with(*(claim.guarantee for claim in a_plan().claims))
    return statement.model_copy(update=changes)


def column(name: str, treatment: str = "keep") -> ReleasedColumn:
    return ReleasedColumn.model_validate(
        {"name": name, "scope": "event", "treatment": treatment, "rule": name}
    )


def test_a_case_is_protected_and_a_person_with_several_is_not():
    kinds = [group.kind for group in unprotected_groups(a_plan(), a_statement())]
    assert kinds == ["several-cases", "groups"]


def test_persons_who_are_the_unit_are_protected_and_others_are_not():
    unit = Unit(attribute="case:patient", max_cases=3)
    groups = unprotected_groups(
        a_plan(), a_statement(unit=unit, released=(column("case:patient", "pseudonymise"),))
    )
    assert [group.kind for group in groups] == ["other-persons", "groups"]
    assert "case:patient" in groups[0].who


def test_a_person_may_come_back_in_another_window():
    plan = a_plan(
        warnings=(HoldsWindow(window="2024", unit_attribute="case:patient", tells_starts=True),)
    )
    unit = Unit(attribute="case:patient", max_cases=3)
    kinds = [group.kind for group in unprotected_groups(plan, a_statement(unit=unit))]
    assert "several-cases" in kinds


@pytest.mark.parametrize("treatment", ["keep", "pseudonymise", "protect", "generalise"])
def test_staff_is_named_whatever_is_done_to_the_values(treatment):
    released = (column("org:resource", treatment), column("amount", "protect"))
    groups = unprotected_groups(a_plan(), a_statement(released=released))
    staff = [group for group in groups if group.kind == "staff"]
    assert [group.columns for group in staff] == [("org:resource",)]
    in_values = [group.columns for group in groups if group.kind == "in-values"]
    assert in_values == ([("org:resource",)] if treatment == "keep" else [])


@pytest.mark.parametrize("changes", [{"guarantees": ()}, {"mark": NOT_PRIVATE}])
def test_without_a_guarantee_nobody_is_protected(changes):
    groups = unprotected_groups(a_plan(), a_statement(**changes))
    assert [group.kind for group in groups] == ["everybody"]


SCHEMA = Path(__file__).parents[2] / "schemas" / REPORT_SCHEMA


@pytest.mark.parametrize("audience", ["public", "internal"])
def test_reports_keep_to_the_schema(published, audience):
    report = json.loads(render(published, audience, "json"))
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text("utf-8")))
    assert [*validator.iter_errors(report)] == []
    assert not validator.is_valid({**report, "audience": "nobody"})
    assert not validator.is_valid({**report, "surprise": 1})


TOLD = (
    "1 other release of this dataset holds what no DP guarantee covers: whoever has it and this one"
)
WARNING = "two k-anonymous releases of one dataset can be intersected"


def test_the_second_release_brings_the_warning(cloakwork, ledger, tmp_path):
    """To both, in both reports and under ``plan --why``; who has no ledger is warned anyway."""
    policy = hurried(ROOT / "policies" / "kanon-control-flow.yaml", tmp_path, seconds=0.1)
    log, book = small_log(tmp_path), Ledger(ledger)
    first, second = tmp_path / "first", tmp_path / "second"

    def reports() -> list[str]:
        return [render(first, audience, ledger=book) for audience in ("public", "internal")]

    def why() -> str:
        said = cloakwork("plan", policy, log, "--why", "--no-preview", "--ledger", ledger)
        return " ".join(said.out.split())

    assert "intersect" not in why()
    assert cloakwork("apply", policy, log, "--out", first, "--ledger", ledger).code == 0
    assert not any(WARNING in page for page in reports())
    assert WARNING not in (first / "internal" / "report.html").read_text("utf-8")
    assert WARNING in render(first)
    assert WARNING in render(first, ledger=Ledger(f"sqlite:///{tmp_path / 'another.db'}"))
    assert "whoever has it and this one can intersect them" in why()
    assert cloakwork("apply", policy, log, "--out", second, "--ledger", ledger).code == 0
    assert all(TOLD in page for page in reports())
    assert TOLD in (second / "internal" / "report.html").read_text("utf-8")
    assert TOLD in cloakwork("report", first, "--ledger", ledger).out

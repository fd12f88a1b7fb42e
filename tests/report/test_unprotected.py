"""Who is not protected follows from the unit, the released attributes and the guarantees."""

from typing import Any

import pytest

from cloakwork.base.facts import Unit
from cloakwork.guarantees.claims import HoldsWindow
from cloakwork.publishing.statement import NOT_PRIVATE, PrivacyStatement, ReleasedColumn
from cloakwork.report.unprotected import unprotected_groups
from publishing.conftest import a_plan
from report.conftest import statement_with


def a_statement(**changes: Any) -> PrivacyStatement:
    statement = statement_with(*(claim.guarantee for claim in a_plan().claims))
    return statement.model_copy(update=changes)


def column(name: str, treatment: str = "keep") -> ReleasedColumn:
    return ReleasedColumn.model_validate(
        {"name": name, "scope": "event", "treatment": treatment, "rule": name}
    )


def test_a_case_is_protected_and_a_person_with_several_is_not() -> None:
    kinds = [group.kind for group in unprotected_groups(a_plan(), a_statement())]

    assert kinds == ["several-cases", "groups"]


def test_persons_who_are_the_unit_are_protected_and_others_are_not() -> None:
    unit = Unit(attribute="case:patient", max_cases=3)
    groups = unprotected_groups(
        a_plan(), a_statement(unit=unit, released=(column("case:patient", "pseudonymise"),))
    )

    assert [group.kind for group in groups] == ["other-persons", "groups"]
    assert "case:patient" in groups[0].who


def test_a_person_may_come_back_in_another_window() -> None:
    plan = a_plan(
        warnings=(HoldsWindow(window="2024", unit_attribute="case:patient", tells_starts=True),)
    )
    unit = Unit(attribute="case:patient", max_cases=3)

    kinds = [group.kind for group in unprotected_groups(plan, a_statement(unit=unit))]

    assert "several-cases" in kinds


@pytest.mark.parametrize("treatment", ["keep", "pseudonymise", "protect", "generalise"])
def test_staff_is_named_whatever_is_done_to_the_values(treatment: str) -> None:
    released = (column("org:resource", treatment), column("amount", "protect"))

    groups = unprotected_groups(a_plan(), a_statement(released=released))

    staff = [group for group in groups if group.kind == "staff"]
    assert [group.columns for group in staff] == [("org:resource",)]
    in_values = [group.columns for group in groups if group.kind == "in-values"]
    assert in_values == ([("org:resource",)] if treatment == "keep" else [])


@pytest.mark.parametrize("changes", [{"guarantees": ()}, {"mark": NOT_PRIVATE}])
def test_without_a_guarantee_nobody_is_protected(changes: dict[str, Any]) -> None:
    groups = unprotected_groups(a_plan(), a_statement(**changes))

    assert [group.kind for group in groups] == ["everybody"]

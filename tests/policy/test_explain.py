"""A policy explains itself in sentences."""

from typing import Any

import pytest

from cloakwork.plan.policies import load_shipped
from cloakwork.policy import Policy
from cloakwork.policy.explain import explain
from cloakwork.policy.load import list_policies
from policy.edits import edited, put, rule


def explained(policy: Policy) -> dict[str, tuple[str, ...]]:
    """What is said under each title."""
    return {section.title: section.lines for section in explain(policy)}


@pytest.mark.parametrize("name", list_policies())
def test_a_policy_explains_itself(name: str) -> None:
    policy = load_shipped(name)
    said = explained(policy)
    assert said["What every release guarantees"] == tuple(
        item.sentence() for item in policy.spec.guarantees
    )
    assert policy.metadata.owner in said["What this is"][0]
    assert len(said["What happens to each attribute"]) == len(policy.spec.attributes)


def test_the_explanation_names_what_is_exposed_and_why() -> None:
    policy = load_shipped("kanon-with-generalised-attributes")
    exposed = explained(policy)["What stays exposed, and why"]
    assert any(
        line.startswith("case:age: covered by no guarantee. Reason given: Four broad bands")
        for line in exposed
    )
    assert any("number of cases" in line for line in exposed)


def test_the_explanation_gives_the_budget_as_epsilon_and_in_odds() -> None:
    said = explained(load_shipped("dp-guessing-advantage"))
    assert said["What it may cost"][0] == (
        "One release: at most epsilon 0.296, delta 1e-06 (who thought 10 in 100 that a protected "
        "unit is in the log thinks at most 14.3 in 100 afterwards, apart from outcomes of "
        "probability 1e-05)."
    )


def test_the_explanation_gives_the_shares_of_a_budget() -> None:
    policy = edited("dp-control-flow", put("budget", {"shares": {"control-flow": 2}}))
    assert explained(policy)["What it may cost"][-1].endswith("by weights: control-flow 2.")


def test_the_explanation_says_what_windows_are() -> None:
    windows = put("budget", {"windows": {"by": "case-start", "every": "1 week"}})
    persons = put("unit", {"attribute": "case:p"})
    declared = rule("case:p", role="identifier")
    said = {}
    for unit, edits in (("case", [windows]), ("person", [windows, persons, declared])):
        said[unit] = explained(edited("dp-control-flow", *edits))["What it may cost"]
    assert "--window 2026-W43" in said["case"][0]
    assert said["case"][1].startswith("Each window has a budget of its own")
    assert said["case"][2].startswith("All releases of one window together: no limit")
    assert said["person"][1].startswith("All windows share one budget")
    assert said["person"][2].startswith("All releases of the dataset together: no limit")


def test_the_explanation_names_the_values_that_are_declared() -> None:
    policy = edited(
        "dp-whole-log", rule("ward", role="insensitive", domain=[*range(30)]), put("assume", {})
    )
    ages, costs, departments, wards = explained(policy)["What is taken as publicly known"]
    assert ages == "'case:age' is a number from 0 to 120."
    assert departments.startswith("'department' has one of the values Admissions, Emergency, ")
    assert costs == "'cost' is a number from 0 to 10000."
    assert wards.endswith("18, 19 and 10 more.")


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"range": [0, 50], "type": "integer"}, "'ward' is a whole number from 0 to 50."),
        (
            {"range": ["2024-01-01", "2024-12-31"]},
            "'ward' is a day from 2024-01-01 to 2024-12-31.",
        ),
        ({"find_values": True}, "'ward' has no public values: those that many cases have"),
    ],
)
def test_the_explanation_says_what_values_are(declared: dict[str, Any], said: str) -> None:
    policy = edited("dp-whole-log", rule("ward", role="insensitive", **declared))
    assert any(line.startswith(said) for lines in explained(policy).values() for line in lines)


def test_the_explanation_says_what_declaring_more_would_gain() -> None:
    """Of a log as a whole; nothing where all is declared, or control flow alone is covered."""
    title = "What declaring more would gain"
    for name in ("dp-whole-log", "dp-control-flow"):
        assert title not in explained(load_shipped(name))
    said = explained(edited("dp-whole-log", put("assume", {})))[title]
    for name in ("alphabet", "units_at_most", "window", "longest_gap"):
        assert any(line.startswith(f"assume.{name}: without it ") for line in said)


@pytest.mark.parametrize(
    ("guarantee", "of_cases"),
    [
        ({"kind": "k-anonymity", "k": 3, "over": ["control-flow"]}, True),
        (
            {
                "kind": "differential-privacy",
                "epsilon": 1.0,
                "delta": 1e-6,
                "over": ["control-flow"],
            },
            False,
        ),
    ],
)
def test_the_explanation_says_whom_guarantees_of_employees_protect(
    guarantee: dict[str, Any], of_cases: bool
) -> None:
    """What k-anonymity of employees leaves out is said of it alone: differential privacy of them
    holds for each case too.
    """
    policy = edited(
        "dp-control-flow",
        rule("org:resource", role="identifier", treatment="drop"),
        put("unit", {"attribute": "org:resource", "level": "event"}),
        put("guarantees", [guarantee]),
        put("assume", {"cases_per_employee": 1200}),
    )
    said = explained(policy)
    protected = said["Who is protected"]
    assert (
        any("not protected by k-anonymity of employees" in line for line in protected) == of_cases
    )
    assert said["What is taken as publicly known"] == (
        "One employee takes part in at most 1,200 cases; nothing enforces this, and whoever takes "
        "part in more is protected less.",
    )

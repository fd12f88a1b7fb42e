"""Employees as the unit: what is claimed of them, by which noise, and what is refused with which
cause; and a charge that no longer holds with half of the noise.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.costs import Charge, Cost, DiscreteLaplace, cost_of_group, cost_of_member
from cloakwork.base.facts import Facts
from cloakwork.errors import PlanImpossible, PolicyError
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.guarantees.claims import GroupOfCases, NoiseForEmployees, ProtectsEachEmployee
from cloakwork.ledger.books import Amount, Book, cost_in_book
from cloakwork.plan.budget import ledger_terms, require_profile_params
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import make_plan, plan_text, prove
from cloakwork.plan.sentences import assumption_in_words
from cloakwork.policy.diff import diff
from cloakwork.policy.explain import gains_of_declaring
from cloakwork.policy.lint import large_delta
from plan.conftest import ATTRIBUTES, DP, KANON, policy_of

STAFF = {"attribute": "org:resource", "level": "event"}
WITH_STAFF = {**ATTRIBUTES, "org:resource": {"role": "identifier", "treatment": "drop"}}


def plan_of(*goals: dict[str, Any], **spec: Any) -> Plan:
    """Of a policy about employees, proved again."""
    found = make_plan(
        policy_of(**{"attributes": WITH_STAFF, "unit": STAFF, "guarantees": [*goals], **spec})
    )
    assert prove(found) == found.claims
    return found


def causes_of(*goals: dict[str, Any], **spec: Any) -> str:
    """Why there is no plan."""
    with pytest.raises(PlanImpossible) as refused:
        plan_of(*goals, **spec)
    return str(refused.value)


def test_k_anonymity_is_of_employees_where_they_are_the_unit() -> None:
    """Every one of the policy's, by one step that counts them."""
    plan = plan_of(KANON)
    (claim,) = plan.claims
    assert claim.guarantee.employees == "org:resource"
    assert claim.assumptions[0] == ProtectsEachEmployee(attribute="org:resource")
    assert "no 'org:resource' performed more than 1/5 of the events" in claim.sentence
    assert [step.mechanism for step in plan.steps][1] == "kanon/employees"
    assert plan.employees == {"org:resource"}
    # The column lasts until it was counted, and is not released.
    assert not plan.releases("org:resource")
    assert {"attribute": "org:resource", "treatment": "protect"}.items() <= {
        key: value
        for each in plan.steps[-1].params["treatments"]
        if each["attribute"] == "org:resource"
        for key, value in each.items()
    }.items()


def test_both_are_protected_where_the_policy_names_both() -> None:
    """One step brings about both: two would undo each other's work."""
    plan = plan_of({**KANON, "k": 10}, {**KANON, "k": 3, "unit": STAFF}, unit="case")
    assert [claim.guarantee.employees for claim in plan.claims] == [None, "org:resource"]
    (step,) = [step for step in plan.steps if step.goals]
    assert (step.mechanism, step.goals) == ("kanon/employees", (0, 1))
    assert (step.params["k"], step.params["least_cases"]) == (3, 10)
    # Cases instead of the policy's employees.
    plan = plan_of({**KANON, "k": 10, "unit": "case"}, {**KANON, "k": 3})
    assert [claim.guarantee.employees for claim in plan.claims] == [None, "org:resource"]


def test_what_stands_in_the_way_of_both_is_refused() -> None:
    own = {**KANON, "unit": STAFF}
    by_unit = {**KANON, "count": "units"}
    person = {"attribute": "case:patient", "max_cases": 2}
    attributes = {**WITH_STAFF, "case:patient": {"role": "identifier", "treatment": "drop"}}
    assert "it must count cases" in causes_of(own, by_unit, unit=person, attributes=attributes)
    coarse = {**attributes, "case:Age": {"role": "quasi-identifier"}}
    beside = {**KANON, "over": ["control-flow", "case:Age"]}
    assert "it must count cases" in causes_of(own, beside, unit="case", attributes=coarse)
    roles = {**own, "unit": {"attribute": "org:role", "level": "event"}}
    both = {**WITH_STAFF, "org:role": {"treatment": "drop"}}
    assert "leave one of them" in causes_of(own, roles, unit="case", attributes=both)
    alone = {**KANON, "over": ["control-flow", "case:Age"]}
    assert "over control-flow alone" in causes_of(alone, attributes=coarse)


def test_employees_that_are_released_are_not_protected() -> None:
    """Raw or as pseudonyms: who is named is named."""
    for treatment in ("keep", "pseudonymise"):
        rule = {"org:resource": {"treatment": treatment}}
        said = causes_of(
            KANON, attributes={**ATTRIBUTES, **rule}, expose={"org:resource": "for a test"}
        )
        assert "'org:resource' is released, which names whom it protects: drop it" in said


def test_differential_privacy_of_employees_needs_the_bound() -> None:
    said = causes_of(DP)
    assert said.count("\n") <= 1
    assert "declare assume.cases_per_employee" in said
    far = causes_of({**DP, "epsilon": 0.001, "delta": 0.0}, assume={"cases_per_employee": 10**9})
    assert "the least is" in far


def test_the_noise_is_that_of_twice_as_many_cases() -> None:
    """In 20 cases: each is removed and added. What the noise costs one case, scaled to the group,
    is at most what the policy allows, and little less.
    """
    plan = plan_of(DP, assume={"cases_per_employee": 20})
    (claim,) = plan.claims
    assert claim.cost is not None
    assert 0.99 < claim.cost.epsilon <= 1
    assert claim.cost.delta <= 1e-6
    (group,) = [each for each in claim.derivation if isinstance(each, GroupOfCases)]
    assert (group.cases, group.each) == (40, "removed-and-added")
    assert cost_of_group(group.cost, 40) == claim.cost
    assert claim.assumptions[0] == ProtectsEachEmployee(attribute="org:resource", cases=20)
    (caveat,) = [each for each in plan.warnings if isinstance(each, NoiseForEmployees)]
    assert (caveat.cases, caveat.epsilon) == (40, 0.025)
    # The kernel's books are those of a plan for single cases at that cost.
    case = policy_of(guarantees=[{**DP, "epsilon": group.cost.epsilon, "delta": group.cost.delta}])
    events = [step.event for step in make_plan(case).steps if step.goals]
    assert cost(events[0], group.cost.delta).epsilon <= group.cost.epsilon


def test_a_bound_on_units_counts_cases_beside_employees() -> None:
    plan = plan_of(DP, assume={"cases_per_employee": 20, "units_at_most": 5000})
    said = [assumption_in_words(each) for each in plan.claims[0].assumptions]
    assert "the log holds at most 5,000 cases (declared)" in said


def test_how_many_cases_there_are_allows_no_larger_delta_for_employees() -> None:
    """A hundred cases may have ten thousand employees: at delta 1/(10 x 100 cases) ten of these
    might be published outright.
    """
    assume = {"cases_per_employee": 20, "units_at_most": 100}
    said = causes_of({**DP, "delta": 1e-5}, assume=assume)
    assert "delta 1e-05 is more than 1e-06, the most for employees" in said
    policy = policy_of(
        attributes=WITH_STAFF, unit=STAFF, guarantees=[{**DP, "delta": 1e-5}], assume=assume
    )
    assert any("for employees" in advice.message for advice in large_delta(policy))
    assert "units_at_most" not in gains_of_declaring(policy, policy.spec.guarantees[0])


def test_drawn_values_of_an_employee_are_replaced() -> None:
    """Given the flow, each of the m cases is replaced, and none added."""
    of_times = {**DP, "neighbours": "bounded", "over": ["timestamps"]}
    attributes = {**WITH_STAFF, "time:timestamp": {"role": "timestamp"}}
    window = {"start": "2020-01-01T00:00:00Z", "end": "2021-01-01T00:00:00Z"}
    assume = {"cases_per_employee": 3, "longest_gap": "30d", "window": window}
    plan = plan_of(KANON, of_times, attributes=attributes, assume=assume)
    (group,) = [each for each in plan.claims[1].derivation if isinstance(each, GroupOfCases)]
    assert (group.cases, group.each) == (3, "replaced")


@pytest.mark.parametrize("cases", [1, 3, 17, 400])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1.0, 0.0), (0.3, 1e-6), (8.0, 1e-5), (100.0, 1e-6), (250.0, 1e-6)]
)
def test_one_member_of_a_group_costs_its_share(cases: int, epsilon: float, delta: float) -> None:
    """Rounded to the safe side; and nothing much is given away."""
    whole = Cost(epsilon=epsilon, delta=delta)
    member = cost_of_member(whole, 2 * cases)
    again = cost_of_group(member, 2 * cases)
    assert again.epsilon <= epsilon * (1 + 1e-15)
    assert again.delta <= delta
    assert math.isclose(again.epsilon, epsilon, rel_tol=1e-12)
    assert math.isclose(again.delta, delta, rel_tol=1e-9, abs_tol=1e-300)
    # By the sum that the closed form stands for.
    terms = sum(math.exp(place * member.epsilon) for place in range(2 * cases))
    assert math.isclose(again.delta, member.delta * terms, rel_tol=1e-9, abs_tol=1e-300)


def hockey_stick(scale: float, shift: int, epsilon: float) -> float:
    """The least delta at ``epsilon`` of discrete Laplace noise on counts that lie ``shift`` apart,
    by definition: the sum of what one distribution exceeds e^epsilon times the other by.
    """
    values = np.arange(-int(60 * scale), int(60 * scale) + shift)
    decay = math.exp(-1 / scale)
    mass = (1 - decay) / (1 + decay)
    one = mass * np.power(decay, np.abs(values))
    other = mass * np.power(decay, np.abs(values - shift))
    return float(np.maximum(one - math.exp(epsilon) * other, 0).sum())


def test_half_of_the_noise_does_not_protect_an_employee() -> None:
    """A count that m removed and m added cases move by 2m: within the claim with the noise that is
    planned, beyond it where each case is taken as changed once.
    """
    goal = DifferentialPrivacy(
        kind="differential-privacy", epsilon=1.0, delta=1e-3, over=("control-flow",)
    )
    facts = Facts(employees="org:resource", cases_per_employee=5)
    of_case = goal.of_single_cases(facts)
    assert isinstance(of_case, DifferentialPrivacy)
    assert hockey_stick(1 / of_case.epsilon, 10, 1.0) <= 1e-3
    # The broken twin: 5 changes instead of 10.
    halved = cost_of_member(Cost(epsilon=1.0, delta=1e-3), 5)
    assert hockey_stick(1 / halved.epsilon, 10, 1.0) > 1e-3
    # The accountant charges one count moved by ten what ten counts of one case cost together.
    together = cost(DiscreteLaplace(scale=1 / of_case.epsilon, sensitivity=10), 0.0)
    alone = cost(DiscreteLaplace(scale=1 / of_case.epsilon, sensitivity=1), 0.0)
    assert math.isclose(together.epsilon, cost_of_group(alone, 10).epsilon, rel_tol=1e-6)


def test_books_of_employees() -> None:
    """A book of their own; a case costs them as a group of twice as many, and they cost a case no
    more than themselves.
    """
    plan = plan_of(DP, assume={"cases_per_employee": 20})
    (charge,) = plan.charges
    assert (charge.unit, charge.max_cases, charge.cost.epsilon) == ("event:org:resource", None, 1)
    terms = ledger_terms(plan.policy)
    assert terms.cases_per_unit == {"event:org:resource": 20}
    book = Book("unit", "event:org:resource")
    of_case = Charge(currency="unit", cost=Cost(epsilon=0.1), unit="case")
    assert cost_in_book(of_case, book, terms.cases_per_unit) == Amount.of(Cost(epsilon=4.0))
    assert cost_in_book(of_case, book, {}) is None
    assert cost_in_book(charge, Book("unit", "case"), {}) == Amount.of(charge.cost)


def test_a_profile_is_for_single_cases() -> None:
    policy = policy_of(
        attributes=WITH_STAFF,
        unit=STAFF,
        assume={"cases_per_employee": 2},
        profile={"epsilon": 0.1},
    )
    with pytest.raises(PlanImpossible, match="not for employees"):
        require_profile_params(policy)


POLICY = """apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: p, version: 1.0.0, owner: o, purpose: a test, dataset: d}
spec:
  unit: UNIT
  attributes:
    "concept:name": {role: control-flow}
    "org:resource": {role: identifier, treatment: drop}
    "*": {treatment: drop}
  guarantees:
    - {kind: k-anonymity, k: 3OWN}
"""


@pytest.mark.parametrize(
    ("unit", "own", "said"),
    [
        ("{level: event}", "", "5:9: spec.unit: level: event belongs to an attribute of events"),
        ('{attribute: "case:p", level: event}', "", "belongs to an attribute of events"),
        ("{attribute: org:resource, level: event, max_cases: 2}", "", "assume.cases_per_employee"),
        (
            "{attribute: org:resource, level: row}",
            "",
            "5:42: spec.unit.level must be one of case, event",
        ),
        ("{attribute: org:resurce, level: event}", "", "did you mean 'org:resource'"),
        ("case\n  assume: {cases_per_employee: 3}", "", "belongs to employees as the unit"),
        ("case", ", unit: staff", "11:39: spec.guarantees[0].unit must be case or {"),
        ("case", ', unit: {attribute: "case:p"}', "the unit of the whole policy, spec.unit"),
        ("case", ", unit: {attribute: org:resurce, level: event}", "did you mean 'org:resource'"),
    ],
)
def test_faults_have_a_place(unit: str, own: str, said: str) -> None:
    """Line and column of what is wrong, and what to do."""
    with pytest.raises(PolicyError) as refused:
        plan_text(POLICY.replace("UNIT", unit).replace("OWN", own), "p.yaml")
    assert said in str(refused.value)


def test_the_shipped_policy_protects_both() -> None:
    text = (Path(__file__).parents[2] / "policies/kanon-employees.yaml").read_text("utf-8")
    plan = plan_text(text, "kanon-employees.yaml")
    assert [claim.guarantee.employees for claim in plan.claims] == [None, "org:resource"]


def test_a_policy_that_protects_no_employees_any_more_is_looser() -> None:
    """Whatever the order of its guarantees."""
    own = {**KANON, "k": 3, "unit": STAFF}
    both, turned, cases = (
        policy_of(attributes=WITH_STAFF, guarantees=goals)
        for goals in ([KANON, own], [own, KANON], [KANON])
    )
    assert diff(both, turned) == ()
    (change,) = diff(both, cases)
    assert (change.verdict, change.after) == ("looser", None)
    unit = policy_of(attributes=WITH_STAFF, unit=STAFF)
    assert [each.verdict for each in diff(unit, policy_of(attributes=WITH_STAFF))] == ["other"]

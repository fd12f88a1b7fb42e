"""Goals over several parts of a log: who serves them, one calibration for all, and what follows."""

from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from cloakwork.accounting.events import cost
from cloakwork.accounting.leaf_events import mu_of_cost
from cloakwork.base.costs import Composed
from cloakwork.base.facts import Unit
from cloakwork.errors import PlanImpossible, PlanUnsound
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.profile import Profile, ProfileFigures
from cloakwork.noise import reproducible
from cloakwork.plan import choose
from cloakwork.plan.budget import ledger_terms, profile_params
from cloakwork.plan.model import Plan, Step
from cloakwork.plan.planner import make_plan, plan_text, replan
from cloakwork.plan.sentences import caveat_in_words
from cloakwork.report.plan_screen import branches
from cloakwork.run.run import Run
from cloakwork.testing.contract_logs import log_of
from conftest import in_long_form
from plan.conftest import policy_of
from plan.toy_parts import PartParams, ToyAttributes, ToyTimes, with_toys

ATTRIBUTES = {
    "case:concept:name": {"role": "identifier"},
    "concept:name": {"role": "control-flow"},
    "time:timestamp": {"role": "timestamp"},
    "cost": {"role": "sensitive", "domain": [1, 2, 3]},
    "case:kind": {"role": "sensitive", "domain": ["a", "b"]},
    "*": {"treatment": "drop"},
}
OVER = ["control-flow", "timestamps", "cost", "case:kind"]
GOAL = {"kind": "differential-privacy", "epsilon": 2.0, "delta": 1e-5, "over": OVER}
ASSUME = {"units_at_most": 5000, "alphabet": ["x", "y"]}


def spec(**more: Any) -> dict[str, Any]:
    """A whole log under one guarantee; ``goal``: changes to it."""
    goal = GOAL | more.pop("goal", {})
    return {"attributes": ATTRIBUTES, "guarantees": [goal], "assume": ASSUME, **more}


@cache
def usual() -> Plan:
    return make_plan(policy_of(**spec()), catalogue=with_toys())


def planned(*toys: Any, **more: Any) -> Plan:
    if not toys and not more:
        return usual()
    return make_plan(policy_of(**spec(**more)), catalogue=with_toys(*toys))


def refused(*toys: Any, **more: Any) -> str:
    with pytest.raises(PlanImpossible) as found:
        planned(*toys, **more)
    return "\n".join(str(cause) for cause in found.value.causes)


def step_named(plan: Plan, name: str) -> Step:
    (found,) = (step for step in plan.steps if step.mechanism == name)
    return found


def params_of(plan: Plan, name: str) -> PartParams:
    return PartParams.model_validate(step_named(plan, name).params)


def test_each_part_has_a_step_that_serves_the_goal() -> None:
    """In the order in which they need each other."""
    plan = planned()
    assert [(step.mechanism, step.goals) for step in plan.steps] == [
        ("bound", ()),
        ("variants/markov", (0,)),
        ("toy/times", (0,)),
        ("toy/attributes", (0,)),
        ("attributes/redact", ()),
    ]
    assert params_of(plan, "toy/attributes").columns == ("cost", "case:kind")
    assert not plan.exposed
    (claim,) = plan.claims
    assert "the log as a whole" in claim.sentence
    assert {item.treatment for item in plan.attributes if item.attribute in OVER} == {"protect"}


@pytest.mark.parametrize(
    ("epsilon", "prefer"),
    [(0.1, []), (8.0, []), (1.0, ["variants/threshold"]), *in_long_form((1.0, []), (2.0, []))],
)
def test_all_that_is_allowed_is_spent_and_no_more(epsilon: float, prefer: list[str]) -> None:
    plan = planned(goal={"epsilon": epsilon}, mechanisms={"prefer": prefer})
    spent = plan.claims[0].cost
    assert 0.999 * epsilon < spent.epsilon <= epsilon
    assert spent.delta <= 1e-5
    assert step_named(plan, (prefer or ["variants/markov"])[0]).goals == (0,)


def test_it_is_nearly_as_good_as_one_normal_number() -> None:
    """Which has no thresholds; a sum of black boxes would leave far less."""
    plan = planned()
    times, attributes = (params_of(plan, f"toy/{name}").sigma for name in ("times", "attributes"))
    total = 2 * 2**13 / times
    assert 0.97 * mu_of_cost(2.0, 1e-5) < total < mu_of_cost(2.0, 1e-5)
    assert times == attributes


def test_shares_are_of_the_squares_of_noise() -> None:
    plan = planned(budget={"shares": {"control-flow": 10, "timestamps": 8, "attributes": 2}})
    times, attributes = (params_of(plan, f"toy/{name}").sigma for name in ("times", "attributes"))
    assert attributes / times == pytest.approx(2.0)
    total = 2**13 / times * (20 / 8) ** 0.5
    assert 0.97 * mu_of_cost(2.0, 1e-5) < total < mu_of_cost(2.0, 1e-5)


def test_parts_that_are_not_covered_get_no_share() -> None:
    columns = {name: rule for name, rule in ATTRIBUTES.items() if name != "time:timestamp"}
    plan = planned(attributes=columns, goal={"over": ["control-flow", "cost", "cost"]})
    assert [step.mechanism for step in plan.steps][1:3] == ["variants/markov", "toy/attributes"]
    assert params_of(plan, "toy/attributes").columns == ("cost",)
    total = 2**13 / params_of(plan, "toy/attributes").sigma * 3**0.5
    assert 0.97 * mu_of_cost(2.0, 1e-5) < total


def test_units_of_several_cases_get_as_much_more_noise() -> None:
    alone = params_of(planned(), "toy/times").sigma
    unit = {"attribute": "case:person", "max_cases": 3}
    columns = {**ATTRIBUTES, "case:person": {"treatment": "drop"}}
    plan = planned(unit=unit, attributes=columns, assume={**ASSUME, "units_at_most": 1000})
    assert params_of(plan, "toy/times").sigma == pytest.approx(3 * alone, rel=0.01)
    assert plan.facts.unit == Unit(**unit)


def test_deltas_of_all_thresholds_are_counted() -> None:
    """With one more, there is a little more noise."""

    class Selecting(ToyTimes):
        spends_delta = True

    with_delta = planned(Selecting(), ToyAttributes())
    assert params_of(with_delta, "toy/times").delta == pytest.approx(5e-7)
    assert params_of(with_delta, "toy/times").sigma > params_of(planned(), "toy/times").sigma
    assert with_delta.claims[0].cost.epsilon <= 2.0


def test_what_a_broken_search_finds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twin that counts the first part alone: the claim is derived from all steps."""
    whole = choose.JointTerms.allows
    monkeypatch.setattr(choose.JointTerms, "allows", lambda terms, events: whole(terms, events[:1]))
    with pytest.raises(PlanImpossible, match="more than 2, 1e-05"):
        make_plan(policy_of(**spec()), catalogue=with_toys())


def test_shares_that_are_summed_wrongly_cost_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twin that takes shares of mu for shares of its square: the search goes by what is drawn."""
    joint_parts = choose._joint_parts

    def twin(terms: choose.JointTerms) -> Any:
        found = joint_parts(terms)
        return tuple(replace(each, mu_share=4 * each.mu_share**2) for each in found)

    monkeypatch.setattr(choose, "_joint_parts", twin)
    found = make_plan(policy_of(**spec()), catalogue=with_toys())
    assert found.claims[0].cost.epsilon <= 2.0


def test_a_profile_is_part_of_the_cost() -> None:
    """Together within the goal; by itself within what the profile leaves, which is charged."""
    policy = policy_of(**spec(profile={"epsilon": 0.2}, assume={"units_at_most": 5000}))
    figures = ProfileFigures(cases=900, lengths={}, top={"1": 300, "10": 700, "100": 900})
    profile = Profile(
        engine="1",
        dataset="d",
        release="r",
        ledger_entry="e",
        params=profile_params(policy),
        figures=figures,
    )
    plan = make_plan(policy, catalogue=with_toys(), profile=profile)
    events = Composed(events=tuple(step.event for step in plan.steps))
    assert 1.79 < cost(events, 1e-5).epsilon <= 1.8
    assert plan.claims[0].cost.epsilon <= 2.0
    assert plan.charges[0].cost.epsilon == pytest.approx(1.8)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"goal": {"delta": 0.0}}, "delta above 0; declare guarantees[].delta"),
        ({"goal": {"over": ["timestamps"]}}, "name control-flow in the same guarantee"),
        (
            {"budget": {"shares": {"control-flow": 1, "timestamps": 1}}},
            "budget.shares: it gives no weight to attributes",
        ),
        (
            {"attributes": {**ATTRIBUTES, "cost": {"role": "sensitive"}}},
            "over 2 attributes: toy/attributes: values come from a declared domain; "
            "declare attributes['cost'].domain",
        ),
        (
            {"mechanisms": {"deny": ["toy/times"]}},
            "over timestamps: mechanisms.deny: it leaves none",
        ),
        (
            {"mechanisms": {"parameters": {"variants/threshold": {"noise": "laplace"}}}},
            "variants/threshold: beside other columns its noise is gaussian",
        ),
        (
            {"mechanisms": {"parameters": {"variants/markov": {"sharpness": 9}}}},
            "variants/markov: option sharpness",
        ),
        (
            {"attributes": {**ATTRIBUTES, "extra": {"treatment": "keep"}}},
            "release of 'extra': it would be released without protection",
        ),
        (
            {
                "attributes": {**ATTRIBUTES, "extra": {"treatment": "keep"}},
                "expose": {"extra": "harmless"},
            },
            "extra would be released raw beside it",
        ),
    ],
)
def test_what_cannot_be_met_is_refused_with_its_cause(change: dict[str, Any], cause: str) -> None:
    assert cause in refused(**change)


def test_a_part_that_nobody_serves_is_named() -> None:
    assert "over timestamps: no mechanism serves it" in refused(ToyAttributes())


def test_who_serves_no_part_is_considered_with_the_reason() -> None:
    plan = planned()
    reasons = {item.mechanism: (item.kind, item.reason) for item in plan.considered}
    assert reasons["variants/adaptive"] == (
        "not_yet",
        "its noise is not calibrated together with that on other columns",
    )
    assert reasons["variants/threshold"][0] == "other chosen"
    assert "toy/times" not in reasons


def test_a_preferred_mechanism_that_serves_no_part_is_named_in_a_warning() -> None:
    """Whoever prefers it learns that it is not used, and why; one that is used is not named, and a
    glob is, where nothing that it matches is used.
    """
    preferred = {"prefer": ["variants/adaptive", "variants/threshold", "dfg/*"]}
    plan = planned(mechanisms=preferred)
    assert "variants/threshold" in [step.mechanism for step in plan.steps]
    said = [caveat_in_words(item) for item in plan.warnings if item.kind == "preference-unused"]
    assert said == [
        "mechanisms.prefer names variants/adaptive, which is not used: "
        "its noise is not calibrated together with that on other columns",
        "mechanisms.prefer names dfg/*, which is not used: "
        "mechanisms of other packages take part only where they are named in full",
    ]


def test_a_plan_is_proved_again_and_a_changed_one_is_not() -> None:
    plan = Plan.model_validate_json(planned().model_dump_json())
    catalogue = with_toys()
    assert replan(plan, catalogue) == plan
    place = [step.mechanism for step in plan.steps].index("toy/times")
    less = {**plan.steps[place].params, "sigma": params_of(plan, "toy/times").sigma / 2}
    steps = list(plan.steps)
    steps[place] = plan.steps[place].model_copy(update={"params": less})
    with pytest.raises(PlanUnsound):
        replan(plan.model_copy(update={"steps": tuple(steps)}), catalogue)


@pytest.mark.parametrize("log", [log_of([]), log_of([("x",)]), log_of([("x", "y")] * 300)])
def test_it_makes_a_release_of_any_log(log: EventLog) -> None:
    """What is recorded fills the plan's slots; columns are those of the goal."""
    release = Run(plan=planned(), noise=reproducible(1), catalogue=with_toys()).release(log, None)
    events, cases = release.log.events, release.log.cases
    if events.height:
        assert {"cost", "time:timestamp", "concept:name"} == set(events.columns)
        assert "case:kind" in cases.columns
    gaps = events["time:timestamp"].diff().drop_nulls().to_list()
    starts = set(release.log.offsets[1:-1].tolist())
    inside = [gap for place, gap in enumerate(gaps, 1) if place not in starts]
    assert all(gap >= timedelta(0) for gap in inside)
    recorded = [step.recorded for step in release.internal.steps]
    assert sum(found is not None for found in recorded) == 3
    assert np.diff(release.log.offsets).min(initial=1) >= 1


def test_a_total_for_units_puts_none_for_single_times_in_force() -> None:
    """As a replacement of one time the same charge counts twice; where a total of its own, or a
    guarantee of single values, says what they may risk, it binds.
    """
    total = {"epsilon": 2.0, "delta": 1e-5}
    whole = ledger_terms(policy_of(**spec(budget={"total": total})))
    assert whole.totals["metric"] is None
    assert whole.totals["unit"] is not None
    own = ledger_terms(policy_of(**spec(budget={"total": {**total, "metric": total}})))
    assert own.totals["metric"] is not None
    metric = {"kind": "metric-privacy", "epsilon": 1.0, "shift": "1h", "over": ["timestamps"]}
    both = policy_of(**spec(guarantees=[GOAL, metric], budget={"total": total}))
    assert ledger_terms(both).totals["metric"] is not None
    alone = policy_of(**spec(goal={"over": ["control-flow"]}, budget={"total": total}))
    assert ledger_terms(alone).totals["metric"] is None


def test_what_is_taken_as_public_is_said() -> None:
    window = {"start": "2020-01-01T00:00:00Z", "end": "2022-01-01T00:00:00Z"}
    zone = {"time_zone": "Europe/Amsterdam"}
    plan = planned(assume={**ASSUME, **zone, "window": window, "longest_gap": "30d"})
    kinds = {assumption.kind for assumption in plan.claims[0].assumptions}
    assert {"times-rounded", "starts-within", "gaps-at-most", "domains-declared"} <= kinds
    assert "local-time" in kinds


LONE = ("x",) * 300
ODD: dict[str, list[tuple[str, ...]]] = {
    "empty": [],
    "one event": [("x",)],
    "single events": [("x",)] * 300,
    "unique": [("x", *(("y",) * place)) for place in range(60)],
    "one long case": [*[("x", "y")] * 300, LONE],
    "other labels": [("", "\x00", "é" * 300)] * 50,
}


@pytest.mark.usefixtures("few_turns")
@pytest.mark.parametrize("declared", [True, False])
def test_no_log_stops_it(declared: bool) -> None:
    """With our own mechanisms: nothing of any log ends in an error, and no time is missing."""
    plan = make_plan(policy_of(**spec(assume=ASSUME if declared else {}, goal={"delta": 1e-6})))
    assert [step.mechanism for step in plan.steps][2:4] == [
        "timestamps/regression",
        "attributes/regression",
    ]
    for name, variants in ODD.items():
        log = log_of(variants)
        values = [None if place % 3 else str(place) for place in range(log.events.height)]
        odd = log.events.with_columns(pl.Series("cost", values, pl.String))
        untimed = log.events.drop("time:timestamp", strict=False)
        for events in (odd, untimed) if name == "unique" else (odd,):
            release = Run(plan=plan, noise=reproducible(3)).release(
                replace(log, events=events), None
            )
            found = release.log.events
            assert found["time:timestamp"].null_count() == 0, name


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"goal": {"delta": 1e-4}}, "delta"),
        ({"budget": {"shares": {"control-flow": 1}}}, "shares"),
        ({"goal": {"delta": 0}}, "guarantees"),
        ({"mechanisms": {"parameters": {"variants/markov": {"sharpness": 0}}}}, "variants/markov"),
    ],
)
def test_a_refusal_names_the_line_of_the_policy(change: dict[str, Any], line: str) -> None:
    """Of what it is about: the guarantee, or a setting that rules out what it needs."""
    text = yaml.safe_dump(policy_of(**spec(**change)).model_dump(mode="json", by_alias=True))
    with pytest.raises(PlanImpossible) as found:
        plan_text(text, "policy.yaml")
    cause = found.value.causes[0]
    assert cause.line is not None
    assert f"{line}:" in "\n".join(text.splitlines()[cause.line - 2 : cause.line])
    assert str(found.value).startswith(f"policy.yaml:{cause.line}:{cause.column}: cannot be met: ")


def test_delta_that_no_threshold_spends_is_the_noises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times and attributes have no thresholds: what they may spend sets nothing aside."""
    before = planned()
    shares = {**choose.THRESHOLD_SHARES, "timestamps": 1e-6, "attributes": 1e-6}
    monkeypatch.setattr(choose, "THRESHOLD_SHARES", shares)
    after = make_plan(before.policy, catalogue=with_toys())
    sigmas = [params_of(plan, "toy/times").sigma for plan in (before, after)]
    assert sigmas[0] == sigmas[1]


@pytest.mark.parametrize(
    ("units", "taken"), [(None, "regression"), (20_000, "regression"), (200_000, "histogram")]
)
def test_the_better_form_is_taken_by_public_facts(units: int | None, taken: str) -> None:
    """Few weights err less than many cells, but in a large log; ``prefer`` decides otherwise."""
    assume = {**ASSUME, **({} if units is None else {"units_at_most": units})}
    name = f"timestamps/{taken}"
    other = {"regression": "timestamps/histogram", "histogram": "timestamps/regression"}[taken]

    def plan_of(**changes: Any) -> Plan:
        return make_plan(policy_of(**spec(assume=assume, goal={"delta": 1e-7}, **changes)))

    plan = plan_of()
    assert name in [step.mechanism for step in plan.steps]
    (reason,) = (each.reason for each in plan.considered if each.mechanism == other)
    assert f"{name} comes first" in reason
    assert ("tables err less" in reason) == (taken == "histogram")
    # Why tables are taken stands at their step.
    shown = str(list(branches(plan, (), (), show_all=False)))
    assert (f"in place of {other}: tables err less" in shown) == (taken == "histogram")
    assert other in [step.mechanism for step in plan_of(mechanisms={"prefer": [other]}).steps]

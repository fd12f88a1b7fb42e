"""Times and attributes drawn on a k-anonymous control flow: what is planned by itself, what by
name, and what a release of it shows.
"""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from cloakwork.base.errors import PlanImpossible, PlanUnsound
from cloakwork.base.facts import Facts
from cloakwork.engines.measured import released_cases
from cloakwork.engines.memory import MemoryEngine
from cloakwork.evaluation.control_flow import histogram
from cloakwork.log.eventlog import TIMESTAMP
from cloakwork.log.formats.reading import read_log
from cloakwork.mechanisms.base import PartOfGoal
from cloakwork.mechanisms.timestamps.histogram import TimestampHistogram
from cloakwork.noise import reproducible
from cloakwork.plan.planner import make_plan
from cloakwork.policy.model import Policy
from cloakwork.run.run import Run
from cloakwork.run.steps import GrantedStep
from cloakwork.testing.contract_logs import log_of

HOSPITAL = "examples/logs/hospital.xes.gz"
BOUNDED = {
    "kind": "differential-privacy",
    "epsilon": 2.0,
    "delta": 1e-6,
    "neighbours": "bounded",
    "over": ["timestamps"],
}


def policy(*, goal=(), attributes=(), assume=(), mechanisms=()) -> Policy:
    return Policy.model_validate(
        {
            "apiVersion": "cloakwork/v1",
            "kind": "PrivacyPolicy",
            "metadata": {
                "name": "drawn",
                "version": "1.0.0",
                "owner": "dpo@hospital.example",
                "purpose": "Study of waiting times",
                "dataset": "hospital",
            },
            "spec": {
                "unit": "case",
                "attributes": {
                    "case:concept:name": {"role": "identifier"},
                    "concept:name": {"role": "control-flow"},
                    "time:timestamp": {"role": "timestamp"},
                    **dict(attributes),
                    "*": {"treatment": "drop"},
                },
                "guarantees": [
                    {"kind": "k-anonymity", "k": 10, "over": ["control-flow"]},
                    BOUNDED | dict(goal),
                ],
                "assume": {
                    "window": {"start": "2023-01-01T00:00:00Z", "end": "2025-01-01T00:00:00Z"},
                    "longest_gap": "90d",
                    **dict(assume),
                },
                "mechanisms": {
                    "parameters": {"kanon/optimal": {"seconds": 0.1}},
                    **dict(mechanisms),
                },
                "budget": {"total": {"epsilon": 4.0, "delta": 1e-5}},
            },
        }
    )


def mechanisms(plan) -> list[str]:
    return [step.mechanism for step in plan.steps if 1 in step.goals]


AGE = {"case:age": {"role": "quasi-identifier", "range": [0, 120]}}
WARD = {
    "department": {
        "role": "insensitive",
        "domain": ["Emergency", "Laboratory", "Radiology", "Surgery"],
    }
}


def test_clocks_are_assumed_where_times_are_drawn_by_them():
    """Noise on each time knows no hours."""
    known = {"longest_case": 20, "time_zone": "Europe/Amsterdam"}
    for prefer, is_said in (([], True), (["timestamps/laplace"], False)):
        plan = make_plan(policy(assume=known, mechanisms={"prefer": prefer}))
        said = {each.kind for claim in plan.claims for each in claim.assumptions}
        assert ("local-time" in said) == is_said


def test_drawn_times_come_first():
    """Noise on each time is there for who names it, or where there is no delta."""
    assert mechanisms(make_plan(policy())) == ["timestamps/regression"]
    long = {"longest_case": 20}
    assert mechanisms(make_plan(policy(assume=long))) == ["timestamps/regression"]
    named = policy(assume=long, mechanisms={"prefer": ["timestamps/laplace"]})
    assert mechanisms(make_plan(named)) == ["timestamps/laplace"]
    pure = policy(assume=long, goal={"delta": 0.0})
    assert mechanisms(make_plan(pure)) == ["timestamps/laplace"]
    denied = policy(assume=long, mechanisms={"deny": ["timestamps/histogram", "*/regression"]})
    assert mechanisms(make_plan(denied)) == ["timestamps/laplace"]
    both = policy(
        assume=long, mechanisms={"prefer": ["timestamps/histogram", "timestamps/laplace"]}
    )
    assert mechanisms(make_plan(both)) == ["timestamps/histogram"]
    (passed,) = (
        each
        for each in make_plan(policy(assume=long)).considered
        if each.mechanism == "timestamps/laplace" and each.kind != "never"
    )
    assert "it adds noise of scale" in passed.reason
    large = policy(assume={"units_at_most": 60_000})
    assert mechanisms(make_plan(large)) == ["timestamps/histogram"]


@pytest.mark.parametrize("name", ["timestamps/histogram", "timestamps/laplace"])
def test_wrong_options_are_not_passed_over(name):
    """Whoever sets options of a mechanism means it: another one would hide that it cannot."""
    wrong = {"parameters": {name: {"shares": {"bogus": 1}}}}
    with pytest.raises(PlanImpossible, match=name):
        make_plan(policy(assume={"longest_case": 20}, mechanisms=wrong))


def test_a_step_that_is_charged_for_presence_is_not_answered_on_a_known_flow():
    """The kernel goes by the lineage, and by what a question really bounds, whatever the mechanism
    lists: noise for a unit more or less is too little where its times are others.
    """
    part = PartOfGoal(("timestamps",), 0.5, 0.0, replaced=True)
    mechanism, facts = TimestampHistogram(), Facts()
    honest = mechanism.offer_part(part, facts, {}).params
    step = GrantedStep.of(mechanism, honest, facts)
    cheap = honest.model_copy(update={"replaced": False}).event()
    log = log_of([["a", "b"]] * 5)
    seen = step.look(log, MemoryEngine(), reproducible(1))
    cases = released_cases(log, ["control-flow"])
    step.enrich(seen, reproducible(1), cases)
    broken = replace(step, kind=replace(step.kind, event=cheap))
    with pytest.raises(PlanUnsound, match="does not list"):
        broken.enrich(seen, reproducible(1), cases)


def test_a_drawn_value_is_treated_as_the_policy_says():
    """Bands are made of drawn ages, not ages of bands."""
    bands = {"case:age": {**AGE["case:age"], "treatment": "generalise", "bins": [0, 40, 120]}}
    plan = make_plan(policy(goal={"over": ["timestamps", "case:age"]}, attributes=bands))
    order = [step.mechanism for step in plan.steps]
    assert order.index("attributes/regression") < order.index("attributes/redact")


def test_attributes_share_the_budget():
    goal = {"over": ["timestamps", "case:age", "department"]}
    plan = make_plan(policy(goal=goal, attributes=AGE | WARD))
    assert mechanisms(plan) == ["timestamps/regression", "attributes/regression"]
    claim = plan.claims[1]
    assert claim.cost.epsilon <= 2.0
    assert claim.cost.epsilon == pytest.approx(2.0, rel=1e-2)
    # What is drawn is neither taken as known nor alike in a group.
    assert {caveat.kind for caveat in plan.warnings}.isdisjoint({"may-tell-times", "homogeneity"})
    assert "department" not in claim.given.columns
    alone = make_plan(
        policy(
            goal={"over": ["department"]},
            attributes=WARD | {"time:timestamp": {"role": "timestamp", "treatment": "drop"}},
        )
    )
    assert mechanisms(alone) == ["attributes/regression"]


def test_values_to_be_found_need_a_domain():
    """Whose values they are is taken as known, so a threshold hides nobody."""
    with pytest.raises(PlanImpossible, match="no values are found through noise"):
        make_plan(
            policy(
                goal={"over": ["department"]},
                attributes={"department": {"role": "insensitive", "find_values": True}},
            )
        )


@pytest.mark.parametrize("over", [["control-flow", "timestamps"], ["metadata"]])
def test_the_flow_cannot_be_known_and_hidden(over):
    with pytest.raises(ValueError, match="same events in the same order"):
        policy(goal={"over": over})


@pytest.mark.parametrize(
    ("form", "cases"), [("histogram", 300), ("regression", 1040), ("regression", 300)]
)
def test_every_event_of_a_release_is_drawn(form, cases):
    """Inserted or not: none lacks a time, no time is the source's, and all lie where the policy
    says. By name in either form: a plan that charges gradients of changed values as those of
    present ones is refused when it runs. Of few cases nothing is asked but what values there are;
    the noise that is spare then once went to a step that its charge does not cover.
    """
    goal = {"over": ["timestamps", "case:age", "department"]}
    named = {"prefer": [f"timestamps/{form}", f"attributes/{form}"]}
    plan = make_plan(policy(goal=goal, attributes=AGE | WARD, mechanisms=named))
    assert mechanisms(plan) == [f"timestamps/{form}", f"attributes/{form}"]
    log = read_log(HOSPITAL).keep_cases(np.arange(cases))
    release = Run(plan=plan, noise=reproducible(3)).release(log, None)
    released = release.log
    times = released.events[TIMESTAMP]
    assert times.null_count() == 0
    micros = times.to_physical().to_numpy()
    inside = np.diff(micros)
    follows = np.ones(len(micros), np.bool_)
    follows[released.offsets[:-1]] = False
    assert (inside[follows[1:]] >= 0).all()
    starts = times.gather(released.offsets[:-1])
    assert starts.dt.year().is_in([2023, 2024]).all()
    # Seconds are kept, so a time of the source would be met by chance alone.
    known = set(log.events[TIMESTAMP].to_physical().to_list())
    assert np.mean([each in known for each in micros.tolist()]) < 0.01
    domain = set(WARD["department"]["domain"])
    assert set(released.events["department"].cast(pl.String).drop_nulls().unique()) <= domain
    assert [verdict.holds for verdict in release.verdicts] == [True, True]


@pytest.mark.parametrize("is_changed", [True, False])
def test_what_is_drawn_is_measured_before_cases_are_changed(is_changed, monkeypatch):
    """Gaps are those of the log, not those that a removed event leaves; and attributes go with how
    long cases took, not with times that were drawn before them, also where no case is changed.
    """
    seen = {}
    take_step = Run.take_step

    def watched(self, step, log, released=None):
        seen[step.name] = log
        return take_step(self, step, log, released)

    monkeypatch.setattr(Run, "take_step", watched)
    asked = policy(goal={"over": ["timestamps", "case:age"]}, attributes=AGE)
    if not is_changed:
        document = asked.model_dump(mode="json", by_alias=True, exclude_none=True)
        del document["spec"]["guarantees"][0]
        document["spec"]["expose"] = {"control-flow": "known anyway"}
        asked = Policy.model_validate(document)
    log = read_log(HOSPITAL).keep_cases(np.arange(300))
    release = Run(plan=make_plan(asked), noise=reproducible(3)).release(log, None).log
    of_times, of_attributes = (seen[f"{name}/regression"] for name in ("timestamps", "attributes"))
    assert of_times is of_attributes is seen.get("kanon/optimal", of_times)
    # So what was measured is not what is released.
    assert histogram(of_times) == histogram(log)
    assert (histogram(release) != histogram(log)) == is_changed

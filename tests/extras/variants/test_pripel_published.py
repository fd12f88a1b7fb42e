"""``variants/pripel-published``: what its paper has, in a plan that accepts it, and no claim."""

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.facts import Facts
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.log.eventlog import TIMESTAMP, EventLog
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.noise import reproducible
from cloakwork.plan.choose import choose_mechanism
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import make_plan
from cloakwork.policy.model import Mechanisms
from cloakwork.run.run import Run
from cloakwork.testing.contract_logs import RESOURCE, log_of
from cloakwork_extras.pripel import PripelPublished
from plan.conftest import policy_of

NAME = "variants/pripel-published"
OVER = ("control-flow", "timestamps", RESOURCE, "case:row")
LOG = log_of([["a", "b"]] * 40 + [["a", "c", "b"]] * 20)


def goal(**fields: Any) -> DifferentialPrivacy:
    told = {"kind": "differential-privacy", "epsilon": 2.0, "delta": 1e-6, "over": OVER}
    return DifferentialPrivacy.model_validate(told | fields)


def planned(**mechanisms: Any) -> Plan:
    policy = policy_of(
        attributes={
            "case:concept:name": {"role": "identifier"},
            "concept:name": {"role": "control-flow"},
            "time:timestamp": {"role": "timestamp"},
            RESOURCE: {"role": "sensitive", "domain": ["r0", "r1"]},
            "case:row": {"role": "sensitive", "range": [0, 59]},
            "*": {"treatment": "drop"},
        },
        guarantees=[goal().model_dump(mode="json")],
        mechanisms=mechanisms,
    )
    return make_plan(policy)


ACCEPTED = {"prefer": [NAME], "accept_unproven": True}


def released(log: EventLog, **options: Any) -> EventLog:
    plan = planned(**ACCEPTED, parameters={NAME: options})
    return Run(plan=plan, noise=reproducible(1)).release(log, None).log


def test_it_has_no_bound_and_says_why() -> None:
    offer = PripelPublished().offer(goal(), Facts(), {})
    assert isinstance(offer, Offer)
    event = PripelPublished().step(offer.params, Facts()).event
    assert cost(event, 1e-6).epsilon == math.inf
    lineage = PripelPublished().step(offer.params, Facts()).lineage
    assert not lineage.measures
    assert {*OVER} <= lineage.reads


@pytest.mark.parametrize(
    "fields", [{"over": ("control-flow",)}, {"over": ("timestamps",), "neighbours": "bounded"}]
)
def test_it_serves_whole_logs_alone(fields: dict[str, Any]) -> None:
    answer = PripelPublished().offer(goal(**fields), Facts(), {})
    assert isinstance(answer, Refusal)
    assert answer.kind == "never"


def test_a_plan_that_accepts_it_claims_nothing_and_shows_both_figures() -> None:
    plan = planned(**ACCEPTED)
    assert NAME in [step.mechanism for step in plan.steps]
    assert not plan.claims
    (unproven,) = plan.unproven
    assert "epsilon-local" in unproven.published
    assert unproven.cost is None
    assert "which real case is matched" in unproven.why[0]
    assert {*OVER} <= {item.column for item in plan.exposed}


@pytest.mark.parametrize(
    "mechanisms",
    [{}, {"prefer": [NAME]}, {"accept_unproven": True}, {"allow": [NAME], "prefer": ["*"]}],
)
def test_it_is_never_taken_unasked(mechanisms: dict[str, Any]) -> None:
    allowed = Mechanisms.model_validate(mechanisms)
    found = choose_mechanism(0, goal(), Facts(), allowed, {NAME: PripelPublished()})
    assert not found.steps
    # What is registered is weighed only where it is named in full.
    named = NAME in (*allowed.allow, *allowed.prefer)
    assert len(found.considered) == named
    assert all("only published, so it cannot satisfy" in item.reason for item in found.considered)


def test_cases_have_times_and_values_of_real_ones() -> None:
    """At an epsilon of 100 next to nothing is changed: cases come back as they are."""
    offer = PripelPublished().offer(
        goal(epsilon=100.0), Facts(ranges={"case:row": (0, 59)}), {"threshold": 2, "length": 4}
    )
    assert isinstance(offer, Offer)
    log = run_step(PripelPublished(), offer.params, LOG, reproducible(1))
    assert sorted(log.events[RESOURCE]) == sorted(LOG.events[RESOURCE])
    first = log.events[RESOURCE].gather(log.offsets[:-1])
    row_of = dict(zip(LOG.events[RESOURCE].gather(LOG.offsets[:-1]), range(60), strict=True))
    rows = [row_of[resource] for resource in first]
    assert np.abs(log.cases["case:row"].to_numpy() - rows).max() < 10
    hours = (log.events[TIMESTAMP].diff().dt.total_seconds() / 3600).to_numpy()
    follows = np.diff(log.case_of, prepend=-1) == 0
    assert np.abs(hours[follows] - 1).max() < 0.5


@pytest.mark.parametrize(
    "log",
    [
        log_of([]),
        log_of([["a"]] * 50, [[None]] * 50),
        log_of([["a"] * 30]),
    ],
    ids=["empty", "no times", "one long case"],
)
def test_every_log_gives_a_release(log: EventLog) -> None:
    found = released(log, threshold=1, length=5)
    assert found.events[TIMESTAMP].null_count() == 0
    assert found.events[TIMESTAMP].dtype == pl.Datetime("us", "UTC")

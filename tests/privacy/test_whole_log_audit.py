"""Audits of whole-log plans: all steps of a plan, run on the worst neighbours that we can name.

Each statistic of a release is judged by itself; a unit that has what nobody else has, in cases of
maximal length, moves all of them. Draws are seeded: what is found is found in every run.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from cloakwork.base.arrays import Floats
from cloakwork.engines.batches import collected
from cloakwork.errors import PlanUnsound
from cloakwork.evaluation.dp_audit import AuditResult, HalfLine
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.mechanisms.timestamps.regression import TimestampRegression
from cloakwork.noise import Noise, reproducible
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import make_plan
from cloakwork.run.run import Run
from cloakwork.testing.contract_logs import BEGIN, log_of
from plan.conftest import policy_of
from privacy.sources import seeded_audit

pytestmark = pytest.mark.usefixtures("few_turns")

LONG = "CLOAKWORK_RUNS" in os.environ
long_form = pytest.mark.skipif(not LONG, reason="an audit of half a minute: CLOAKWORK_RUNS=1")

EPSILON, DELTA, RUNS = 0.5, 1e-3, 45 if LONG else 21
"""What shows in all releases on one side and in none on the other proves an epsilon of 0.53;
in the long form, of 1.4.
"""
LONGEST = 40
DOMAINS = {"drug": ["common", "rare"], "case:ward": ["a", "b"]}


@cache
def planned(declared: bool, most: int = 1, epsilon: float = EPSILON) -> Plan:
    """A whole log: everything about it is declared, or its domains alone."""
    goal = {
        "kind": "differential-privacy",
        "epsilon": epsilon,
        "delta": DELTA,
        "over": ["control-flow", "timestamps", *DOMAINS],
    }
    window = {"start": "2020-01-01T00:00:00Z", "end": "2024-01-01T00:00:00Z"}
    known = {"alphabet": ["x", "y", "z"], "longest_case": LONGEST, "longest_gap": "400d"}
    unit = {"attribute": "case:person", "max_cases": most} if most > 1 else "case"
    policy = policy_of(
        unit=unit,
        attributes={
            "case:concept:name": {"role": "identifier"},
            "concept:name": {"role": "control-flow"},
            "time:timestamp": {"role": "timestamp"},
            **{name: {"role": "sensitive", "domain": values} for name, values in DOMAINS.items()},
            "*": {"treatment": "drop"},
        },
        guarantees=[goal],
        assume={"units_at_most": 100, **({**known, "window": window} if declared else {})},
    )
    return make_plan(policy)


def log_with(lone: int, others: int = 12, length: int = LONGEST) -> EventLog:
    """Cases alike, and ``lone`` cases of one person that have what nobody else has: an activity,
    maximal length, times years later, values.
    """
    ordinary, strange = [("x", "y")] * others, [("z",) * length] * lone
    begin = [BEGIN + timedelta(hours=row) for row in range(others)]
    times: list[Sequence[datetime]] = [[time, time + timedelta(hours=1)] for time in begin]
    times += [[BEGIN + timedelta(days=1000 + 9 * row) for row in range(length)]] * lone
    log = log_of([*ordinary, *strange], times)
    rare = log.events[ACTIVITY] == "z"
    drug = pl.Series("drug", ["rare" if each else None for each in rare], pl.String)
    person = [f"p{row}" for row in range(others)] + ["lone"] * lone
    ward = [None] * others + ["b"] * lone
    cases = log.cases.with_columns(
        pl.Series("case:person", person, pl.String), pl.Series("case:ward", ward, pl.String)
    )
    return replace(log, events=log.events.with_columns(drug), cases=cases)


def released(plan: Plan, log: EventLog, noise: Noise) -> EventLog:
    """What all steps of the plan make of the log."""
    return collected(Run(plan=plan, noise=noise).steps(log)[0])


PLANS = [(True, 1), (False, 1), (True, 3)]
"""Whether everything is declared, and how many cases a unit may have."""

STATISTICS = ("cases", "events", "strange activities", "latest day", "rare values", "wards")


def seen(log: EventLog) -> list[float]:
    """The statistics of a release, each as large as the lone unit can make it."""
    days = (log.events[TIMESTAMP] - BEGIN).dt.total_days().fill_null(0)
    return [
        log.cases.height,
        log.events.height,
        int((log.events[ACTIVITY] == "z").sum()),
        float(np.max(days.to_numpy(), initial=0)),
        int((log.events["drug"] == "rare").sum()),
        int((log.cases["case:ward"] == "b").sum()),
    ]


@cache
def found(
    declared: bool, most: int, epsilon: float, lone: int, others: int, length: int = LONGEST
) -> Floats:
    """The statistics of ``RUNS`` releases: the same for all tests that ask for them."""
    plan, log = planned(declared, most, epsilon), log_with(lone, others, length)
    noise = reproducible(1 + lone)
    return np.array([seen(released(plan, log, noise)) for _ in range(RUNS)], np.float64)


def audits(
    declared: bool,
    lone: int,
    most: int = 1,
    epsilon: float = EPSILON,
    others: int = 12,
    length: int = LONGEST,
) -> dict[str, AuditResult]:
    """Each statistic of the plan, with the lone unit of ``lone`` cases and without it, against the
    claim.
    """
    plan = declared, most, epsilon
    one, other = found(*plan, lone, others, length), found(*plan, 0, others)
    raw, without = seen(log_with(lone, others, length)), seen(log_with(0, others))

    def audit(column: int) -> AuditResult:
        # Any more than the log has without the unit, and a good part of what it has with it.
        bounds = without[column] + np.array([1e-9, 0.25, 0.5]) * (raw[column] - without[column])
        return seeded_audit(
            lambda _: one[:, column],
            lambda _: other[:, column],
            runs=RUNS,
            delta=DELTA,
            claim=EPSILON,
            events=[HalfLine(bound, upper=True) for bound in bounds.tolist()],
        )

    return {name: audit(column) for column, name in enumerate(STATISTICS)}


def failed(results: dict[str, AuditResult]) -> set[str]:
    return {name for name, result in results.items() if not result.passed}


@pytest.mark.parametrize(("declared", "most"), PLANS if LONG else PLANS[:1])
def test_a_lone_unit_is_not_told(declared: bool, most: int) -> None:
    """A case, or a person with as many as are allowed, in a small log and in an empty one."""
    assert not failed(audits(declared, most, most, others=12 if declared else 0))


@long_form
def test_noise_for_shares_that_do_not_add_up_is_found() -> None:
    """A broken twin: every part is calibrated as if it had two hundred times the budget, and for
    one case of three.
    """
    assert len(failed(audits(True, 3, epsilon=200 * EPSILON, length=1))) >= 2


def test_more_cases_than_the_unit_may_have_are_found() -> None:
    """A broken twin: a person with 300 cases where one is assumed."""
    assert failed(audits(True, 300, length=2))


def test_presence_that_is_read_raw_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken twin: which activities have a time is looked up in the log."""
    enrich = TimestampRegression.enrich

    def twin(self: TimestampRegression, params: Any, kernel: Any, cases: Any) -> Any:
        kernel.raw()
        return enrich(self, params, kernel, cases)

    monkeypatch.setattr(TimestampRegression, "enrich", twin)
    with pytest.raises(PlanUnsound, match="does not list"):
        released(planned(True), log_with(1), reproducible(1))

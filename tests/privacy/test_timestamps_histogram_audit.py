"""Statistical audits of whole runs of timestamps/histogram, with a broken counterpart that must
fail; and how far a case moves a sum of gradients of timestamps/regression. Each answer by itself is
audited in ``test_answers_audit``. Draws are seeded: what is found is found in every run.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.arrays import Floats
from cloakwork.base.facts import UNIX_EPOCH, Facts, Window
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.engines.measured import released_cases
from cloakwork.engines.memory import MemoryEngine
from cloakwork.evaluation.dp_audit import AuditResult, HalfLine
from cloakwork.kernel import Cases, Column, Columns
from cloakwork.kernel.perturb import Grid
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.base import Offer, PartOfGoal
from cloakwork.mechanisms.steps import Times
from cloakwork.mechanisms.timestamps.bins import HOUR, Clock, LogBins
from cloakwork.mechanisms.timestamps.histogram import TimestampHistogram
from cloakwork.mechanisms.timestamps.regression import (
    DurationRegression,
    GapRegression,
    TimestampRegression,
)
from cloakwork.mechanisms.timestamps.tables import HistogramParams
from cloakwork.noise import Noise, reproducible
from cloakwork.run.steps import GrantedStep
from cloakwork.testing.contract_logs import log_of
from conftest import in_long_form
from privacy.sources import seeded_audit

pytestmark = pytest.mark.usefixtures("few_turns")

WINDOW = Window(start=UNIX_EPOCH, end=UNIX_EPOCH + timedelta(days=400))
FACTS = Facts(window=WINDOW)


def params(mu: float = 1.0, *, replaced: bool = False) -> HistogramParams:
    part = PartOfGoal((TIMESTAMPS,), mu, 0.0, replaced)
    found = TimestampHistogram().offer_part(part, FACTS, {})
    assert isinstance(found, Offer)
    return found.params


BEGIN = datetime(1970, 2, 2, 9, tzinfo=UTC)
SHORT = [BEGIN, BEGIN + timedelta(minutes=10)]
OWN = [BEGIN, BEGIN + timedelta(days=300)]
"""A gap that nobody else has."""


def longest_gaps(log: EventLog, params: HistogramParams, noise: Noise) -> Callable[[int], Floats]:
    """The share of released gaps of 100 days or more, run by run."""
    step = GrantedStep.of(TimestampHistogram(), params, FACTS)
    # So many that a gap which one case of thirteen has is drawn in nearly every release.
    made = released_cases(log_of([["a", "b"]] * 40), [CONTROL_FLOW])

    def run(runs: int) -> Floats:
        shares = []
        for _ in range(runs):
            seen = step.look(log, MemoryEngine(), noise)
            columns, _ = step.enrich(seen, noise, made)
            times = columns.columns[TIMESTAMPS]
            assert isinstance(times, Times)
            gaps = np.diff(times.microseconds)[::2]
            shares.append(float((gaps > 100 * 24 * HOUR).mean()))
        return np.array(shares)

    return run


def audit_release(mu: float, *, replaced: bool) -> AuditResult:
    """Twelve cases of a short gap, and one more of a gap of its own (or one that has a short gap
    too, in the other log), against the claim at a mu of 1 and a large delta: an epsilon of 0.3.
    What shows in nearly all of 34 runs, and in none without that gap, proves one of 0.7.
    """
    noise, found = reproducible(1), params(mu, replaced=replaced)
    here, there = (
        longest_gaps(log_of([["a", "b"]] * len(cases), cases), found, noise)
        for cases in ([*[SHORT] * 12, OWN], [SHORT] * (13 if replaced else 12))
    )
    delta = 0.3
    event = TimestampHistogram().step(params(replaced=replaced), Facts()).event
    claim = cost(event, delta).epsilon
    events = [HalfLine(0.01, upper=True)]
    return seeded_audit(here, there, runs=34, claim=claim, delta=delta, events=events)


@pytest.mark.parametrize("replaced", [False, *in_long_form(True)])
def test_a_gap_of_its_own_is_covered_in_the_release_and_found_in_less_noise(
    replaced: bool,
) -> None:
    """The counterpart draws a 250th of the noise. ``replaced``: in the other log the case has other
    times; ``test_answers_audit`` looks at the noise that takes.
    """
    honest = audit_release(1.0, replaced=replaced)
    assert honest.passed, honest
    assert not audit_release(250.0, replaced=replaced).passed


@pytest.mark.parametrize("events", [2, 2_000])
def test_no_case_moves_a_sum_by_more_than_the_clip(events: int) -> None:
    """However long it is, at weights far off, where gradients are longest."""
    times = np.arange(events) * (7 * 24 * HOUR)
    columns = Columns({TIMESTAMPS: Column.of_times(times, np.zeros(events, np.bool_))})
    codes = np.arange(events, dtype=np.int64) % 30
    labels = tuple(f"a{number:02}" for number in range(30))
    case = Cases(labels, codes, np.array([0, events]), columns)
    clock, bins = Clock.of(Grid(UNIX_EPOCH, timedelta(seconds=1))), LogBins.up_to(10**8, 64)
    durations = DurationRegression.expecting(clock, bins, case, np.zeros(1, np.int64))
    gaps = GapRegression.expecting(clock, bins, case, np.full(len(bins), 1 / len(bins)))
    part = PartOfGoal((TIMESTAMPS,), 1.0, 0.0)
    found = TimestampRegression().offer_part(part, FACTS, {})
    assert isinstance(found, Offer)
    for sums, gradient in (
        (found.params.durations, durations.gradient),
        (found.params.gaps, gaps.gradient),
    ):
        descent = sums.descent(0, 1.0)
        for scale in (0.0, 30.0):
            weights = scale * np.random.default_rng(1).normal(size=sums.inputs * sums.outputs)
            (moved,) = descent.clipped(gradient, weights, case).rows()
            assert 0 < sum(int(step) ** 2 for step in moved) <= descent.clip**2

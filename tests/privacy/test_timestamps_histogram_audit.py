"""Statistical audits of timestamps/histogram, with broken counterparts that must fail.

What one case adds to a table is seen best where all of it falls on one cell that nobody else has:
a case of maximal length whose gaps are all alike, or a lone case with a gap of its own. Each table
has a claim of its own, the share of the budget that its noise is charged for; a Gaussian's noise of
half shows best at a large delta (see ``test_markov_tables_audit``). Draws are seeded: what is found
is found in every run.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.arrays import Floats
from cloakwork.base.facts import UNIX_EPOCH, Facts, Unit, Window
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.engines.measured import measured_of, released_cases
from cloakwork.evaluation.dp_audit import AuditResult, HalfLine, empirical_epsilon
from cloakwork.kernel import Cases, Column, Columns, Gaussian, vectors_of
from cloakwork.kernel.perturb import Grid
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.base import Offer, PartOfGoal
from cloakwork.mechanisms.steps import Times
from cloakwork.mechanisms.timestamps.bins import HOUR, Clock, LogBins
from cloakwork.mechanisms.timestamps.histogram import TimestampHistogram
from cloakwork.mechanisms.timestamps.tables import (
    CLIPS,
    UNIT_NORM,
    HistogramParams,
    StartTable,
    TableName,
    event_of,
    gaps_in,
    hours_of,
    totals_in,
)
from cloakwork.noise import Noise, reproducible
from cloakwork.run.steps import GrantedStep
from cloakwork.testing.logs import log_of

RUNS = 10_000
WINDOW = Window(start=UNIX_EPOCH, end=UNIX_EPOCH + timedelta(days=400))
CLOCK = Clock.of(Grid(UNIX_EPOCH, timedelta(seconds=1)))
BINS = LogBins.up_to(86_400 * 365, 32)
ONE = np.zeros((1, 1), np.int64)
QUERIES = {
    "window": StartTable.within(CLOCK, WINDOW, 40).period_query,
    "gaps": gaps_in(CLOCK, BINS, None),
    "gaps-by-activity": gaps_in(CLOCK, BINS, ONE),
    "gaps-by-pair": gaps_in(CLOCK, BINS, ONE),
    "starts": StartTable.within(CLOCK, WINDOW, 40).query,
    "hours": hours_of(CLOCK),
    "totals": totals_in(CLOCK, BINS, 1),
}
LONG, LONE = 2_000, 2
"""Events of the case that one neighbour has more: all a week apart."""


@cache
def params(max_cases: int = 1, mu: float = 1.0, window: Window | None = WINDOW) -> HistogramParams:
    facts = Facts(unit=Unit(attribute="case:who", max_cases=max_cases), window=window)
    found = TimestampHistogram().offer_part(PartOfGoal((TIMESTAMPS,), mu, 0.0), facts, {})
    assert isinstance(found, Offer)
    return found.params


def one_case(events: int) -> Cases:
    times = np.arange(events) * (7 * 24 * HOUR)
    columns = Columns({TIMESTAMPS: Column.of_times(times, np.zeros(events, np.bool_))})
    return Cases(("a",), np.zeros(events, np.int64), np.array([0, events]), columns)


def weights(table: TableName, events: int, clipped: bool = True) -> Floats:
    """What the case puts on each of its cells, in grid steps, as the kernel counts it; or as it
    would if each occurrence counted for one.
    """
    vectors = vectors_of(one_case(events), QUERIES[table], CLIPS[table])
    found = vectors.value.astype(np.float64)
    return found if clipped else found * max(1, events - 1)


def outcomes(
    weight: Floats, cases: int, others: int, sigma: float, noise: Noise
) -> Callable[[int], Floats]:
    """What the cells say for one case more, in cases: Neyman and Pearson's ratio."""
    direction = weight / np.linalg.norm(weight)

    def run(runs: int) -> Floats:
        exact = direction @ weight * cases + others * UNIT_NORM
        # The noise of cells adds up to that of one along their direction.
        drawn = Gaussian(sigma).draw(noise, runs * len(weight)).reshape(runs, -1) @ direction
        return np.asarray((exact + drawn) / UNIT_NORM)

    return run


def audit(
    table: TableName,
    events: int,
    *,
    times: float = 1.0,
    clipped: bool = True,
    more: int = 1,
    max_cases: int = 1,
) -> AuditResult:
    """One table, against what its noise is charged for; ``times``: so much of it is drawn."""
    sigma = params(max_cases, window=None).sigmas[table]
    delta = 0.3 * max_cases * UNIT_NORM / sigma
    claim = cost(event_of(table, sigma, max_cases), delta).epsilon
    weight = weights(table, events, clipped)
    noise = reproducible(1)
    here, there = (outcomes(weight, cases, 60, sigma * times, noise) for cases in (more, 0))
    bounds = [60 + more * share for share in (0.15, 0.5, 0.85)]
    events_seen = [HalfLine(bound, upper) for bound in bounds for upper in (True, False)]
    return empirical_epsilon(here, there, runs=RUNS, claim=claim, delta=delta, events=events_seen)


@pytest.mark.parametrize("events", [LONG, LONE])
@pytest.mark.parametrize("table", CLIPS)
def test_each_table_keeps_its_share_and_half_its_noise_is_found(
    table: TableName, events: int
) -> None:
    honest = audit(table, events)
    assert honest.passed, honest
    assert not audit(table, events, times=0.4).passed


@pytest.mark.parametrize("table", ["gaps", "gaps-by-activity", "gaps-by-pair"])
def test_occurrences_that_count_in_full_are_found(table: TableName) -> None:
    """The counterpart without a clip, whose case weighs as much as it has events."""
    assert not audit(table, LONG, clipped=False).passed


@pytest.mark.parametrize("table", CLIPS)
def test_three_cases_of_a_unit_are_covered_where_they_are_assumed(table: TableName) -> None:
    """And found where one case a unit is assumed."""
    assert audit(table, LONG, max_cases=3, more=3).passed
    assert not audit(table, LONG, more=3).passed


BEGIN = datetime(1970, 2, 2, 9, tzinfo=UTC)
SHORT = [BEGIN, BEGIN + timedelta(minutes=10)]
OWN = [BEGIN, BEGIN + timedelta(days=300)]
"""A gap that nobody else has."""


def longest_gaps(log: EventLog, mu: float, noise: Noise) -> Callable[[int], Floats]:
    """The share of released gaps of 100 days or more, run by run."""
    mechanism, found, facts = TimestampHistogram(), params(mu=mu), Facts(window=WINDOW)
    step = GrantedStep.of(mechanism, found, facts)
    assert step.aggregate is not None
    summary = step.aggregate.of(log)
    made = released_cases(log_of([["a", "b"]] * 12), [CONTROL_FLOW])

    def run(runs: int) -> Floats:
        shares = []
        for _ in range(runs):
            seen = measured_of(summary, noise)
            columns, _ = step.enrich(seen, noise, made)
            times = columns.columns[TIMESTAMPS]
            assert isinstance(times, Times)
            gaps = np.diff(times.microseconds)[::2]
            shares.append(float((gaps > 100 * 24 * HOUR).mean()))
        return np.array(shares)

    return run


def audit_release(mu: float, runs: int) -> AuditResult:
    """Twelve cases of a short gap, and one more of a gap of its own, against the claim at a mu of
    1.
    """
    noise = reproducible(1)
    here, there = (
        longest_gaps(log_of([["a", "b"]] * len(cases), cases), mu, noise)
        for cases in ([*[SHORT] * 12, OWN], [SHORT] * 12)
    )
    delta = 0.05
    claim = cost(TimestampHistogram().step(params(), Facts()).event, delta).epsilon
    events = [HalfLine(bound, upper=True) for bound in (0.01, 0.1, 0.5)]
    return empirical_epsilon(here, there, runs=runs, claim=claim, delta=delta, events=events)


def test_a_gap_of_its_own_is_covered_in_the_release_and_found_in_less_noise() -> None:
    """The counterpart draws a sixtieth of the noise: the gap comes out whenever the case is
    there.
    """
    honest = audit_release(1.0, 200)
    assert honest.passed, honest
    assert not audit_release(60.0, 200).passed

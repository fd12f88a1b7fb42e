"""D17: noise on times does not drift by default, and what the projection ties is drawn apart from
released values.
"""

from datetime import UTC, datetime, timedelta

import numpy as np

from cloakwork.base.facts import Facts, Window
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.guarantees import DifferentialPrivacy, MetricPrivacy
from cloakwork.log.eventlog import TIMESTAMP
from cloakwork.mechanisms.timestamps.laplace import TimestampLaplace
from cloakwork.noise import reproducible
from contracts.sample_logs import BEGIN, log_of
from noisy_streams import chosen, drawing_from

LAPLACE = TimestampLaplace()
METRIC = MetricPrivacy(kind="metric-privacy", epsilon=1, shift=timedelta(hours=1))
CASE = DifferentialPrivacy(
    kind="differential-privacy", epsilon=2, over=(TIMESTAMPS,), neighbours="bounded"
)
DECLARED = Facts(
    window=Window(start=datetime(2020, 1, 1, tzinfo=UTC), end=datetime(2021, 1, 1, tzinfo=UTC)),
    longest_gap=timedelta(days=1),
    longest_case=15,
    grid=timedelta(minutes=1),
)


def released(log, goal, seed=1):
    """Times before and after, in minutes, one case a row; all cases have the same length."""
    params = LAPLACE.offer(goal, DECLARED, {}).params
    noisy = run_step(LAPLACE, params, log, reproducible(seed), DECLARED)
    cases = len(log.offsets) - 1
    return [
        each.events[TIMESTAMP].dt.timestamp("us").to_numpy().reshape(cases, -1) / 6e7
        for each in (log, noisy)
    ]


def regular(cases, gap):
    """``cases`` of the same twelve steps, ``gap`` minutes apart."""
    stamps = [
        [BEGIN + timedelta(minutes=1_000 * row + gap * step) for step in range(12)]
        for row in range(cases)
    ]
    return log_of(["abcdefghijkl"] * cases, stamps)


def test_errors_do_not_add_up_along_a_case():
    """Twelve events a day apart: the last time is no farther off than the first, an hour on
    average, as is every one.
    """
    before, after = released(regular(2_000, 24 * 60), METRIC)
    error = np.abs(after - before).mean(axis=0)
    assert error.max() < 1.2 * 60
    assert error[-1] < 1.2 * error[0]


def test_what_the_projection_ties_is_drawn_apart():
    """Gaps of twelve minutes under noise of an hour: most are pooled, none is released as zero, and
    the usual gap stays.
    """
    before, after = released(regular(2_000, 12), METRIC)
    gaps = np.diff(after, axis=1)
    assert (gaps < 0).sum() == 0
    assert (gaps == 0).mean() < 0.05
    assert 6 <= np.median(gaps) <= 40
    assert np.abs(after - before).mean() < 60


def test_case_scope_ties_are_drawn_apart_within_the_declared_range():
    """Noise far above the gaps: order and range hold, and hardly any gap is zero."""
    _, after = released(regular(1_000, 30), CASE)
    gaps = np.diff(after, axis=1)
    assert (gaps < 0).sum() == 0
    assert (gaps == 0).mean() < 0.05
    first = int(datetime(2020, 1, 1, tzinfo=UTC).timestamp() / 60)
    assert after.min() >= first
    assert after.max() <= first + (366 + 14) * 24 * 60


def test_equal_noisy_values_give_equal_times_whatever_the_raw_ones_are():
    """Spreading reads no raw time: with noise that makes two logs' noisy times equal, the releases
    are equal.
    """
    one, other = regular(50, 12), regular(50, 0)
    wanted = np.random.default_rng(3).integers(0, 10**6, 600)  # stands for noisy times
    params = LAPLACE.offer(METRIC, DECLARED, {}).params
    made = []
    for log in (one, other):
        noise = wanted - log.events[TIMESTAMP].dt.timestamp("us").to_numpy() // 60_000_000
        stream = chosen(lambda at, noise=noise: noise[at.cases * 12 + at.positions])
        made.append(run_step(LAPLACE, params, log, drawing_from(stream), DECLARED))
    assert made[0].events[TIMESTAMP].equals(made[1].events[TIMESTAMP])

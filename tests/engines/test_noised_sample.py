"""Noise on times batch by batch: the sample that both passes share, and releases that do not depend
on how the log was parted.
"""

import os
from dataclasses import replace
from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from cloakwork.base.facts import Facts, Window
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.engines import noised as module
from cloakwork.engines.batched import LocalEngine
from cloakwork.engines.noised import SampleOfNoised, sample_of
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.guarantees import DifferentialPrivacy, Guarantee, MetricPrivacy
from cloakwork.kernel.perturb import StartsAndGaps
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.mechanisms.base import Offer
from cloakwork.mechanisms.steps import MapCasesBySummary, NoisySample
from cloakwork.mechanisms.timestamps.laplace import TimestampLaplace
from cloakwork.noise import Noise, Stream, reproducible
from cloakwork.run.steps import GrantedStep
from cloakwork.testing.contract_logs import Batches, assert_same_log
from contracts.sample_logs import BEGIN, log_of
from log_in_parts import rewritten_in_batches
from noisy_streams import drawing_from

LAPLACE = TimestampLaplace()
METRIC = MetricPrivacy(kind="metric-privacy", epsilon=1, shift=timedelta(hours=1))
CASE = DifferentialPrivacy(
    kind="differential-privacy", epsilon=2, over=(TIMESTAMPS,), neighbours="bounded"
)
CASES, LENGTH = 300, 7
LONG = "CLOAKWORK_RUNS" in os.environ


def random_log(missing: float = 0.2) -> EventLog:
    """Cases of different lengths, over four activities, with some times missing, ties among the
    others.
    """
    source = np.random.default_rng(4)
    lengths = source.integers(0, LENGTH + 1, CASES)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    gaps = source.integers(0, 90, offsets[-1]) * 60_000_000
    case = np.repeat(np.arange(CASES), lengths)
    start = int(BEGIN.timestamp() * 1e6) + 3_600_000_000 * case
    total = np.cumsum(gaps)
    since_start = total - np.repeat(total[offsets[:-1][lengths > 0]], lengths[lengths > 0])
    times = pl.Series(start + since_start).cast(TIME_TYPE)
    known = pl.Series(source.random(offsets[-1]) >= missing)
    events = pl.DataFrame(
        {
            ACTIVITY: np.array(list("abcd"))[source.integers(0, 4, offsets[-1])],
            TIMESTAMP: pl.select(pl.when(known).then(times)).to_series(),
        }
    )
    ids = pl.DataFrame({CASE_ID: [f"case {i}" for i in range(CASES)]})
    return EventLog(events, ids, offsets)


def released(
    log: EventLog, goal: Guarantee, batches: int, grid: str = "1m", noised: str | None = None
) -> EventLog:
    """The log with noise of one seed, in so many batches."""
    facts = Facts(
        window=Window(start=BEGIN, end=BEGIN + timedelta(days=100)),
        longest_gap=timedelta(days=1),
        longest_case=LENGTH - 2,
        grid=grid,
    )
    options = {} if noised is None else {"noised": noised}
    offer = LAPLACE.offer(goal, facts, options)
    assert isinstance(offer, Offer), offer
    parted = Batches.random(log, batches)
    return run_step(LAPLACE, offer.params, parted, reproducible(1), facts, LocalEngine())


@pytest.mark.parametrize("grid", ["1ms", "1m", "7h"])
@pytest.mark.parametrize(("goal", "noised"), [(METRIC, "times"), (METRIC, "gaps"), (CASE, None)])
@pytest.mark.parametrize("most", [5, 10_000])
def test_the_release_does_not_depend_on_the_batches(
    goal: Guarantee, noised: str | None, grid: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last microsecond, also where the sample leaves most values out."""
    monkeypatch.setattr(module, "SAMPLED", most)
    log = random_log()
    at_once = released(log, goal, 1, grid, noised)
    for batches in (7, *[60] * LONG):
        assert_same_log(at_once, released(log, goal, batches, grid, noised))


def test_each_case_may_be_a_batch_of_its_own() -> None:
    """Beside the sample nothing is asked of any other case."""
    action = action_of(reproducible(1))
    log = random_log()
    mapping = action.mapping(action.aggregate.merge(action.aggregate.of(log)))
    assert mapping.together == "case"


def action_of(noise: Noise) -> MapCasesBySummary:
    """Both passes of noise on single times."""
    offer = LAPLACE.offer(METRIC, Facts(), {})
    assert isinstance(offer, Offer)
    step = GrantedStep.of(LAPLACE, offer.params, Facts())
    action = step.take(pl.DataFrame(), noise).rewrite
    assert isinstance(action, MapCasesBySummary)
    return action


class Counting(Stream):
    """Counts the noise that is drawn at each address, and hands out what it has drawn."""

    drawn: dict[tuple[int, int], set[int]] = {}

    def laplace_values(self, scale, at) -> NDArray[np.int64]:
        values = super().laplace_values(scale, at)
        places = zip(at.cases.tolist(), at.positions.tolist(), values.tolist(), strict=True)
        for case, position, value in places:
            self.drawn.setdefault((case, position), set()).add(value)
        return values


def test_both_passes_see_one_noise() -> None:
    """A raw time is noised by one value, however often it is looked at: a second one would cost
    again.
    """
    log = random_log(missing=0.0)
    stream = Counting(reproducible(1).stream().secret, private=False)
    Counting.drawn = {}
    action = action_of(drawing_from(stream))
    rewritten_in_batches(log, 4, action)
    assert len(Counting.drawn) == log.events.height
    assert all(len(values) == 1 for values in Counting.drawn.values())


def sampled(log: EventLog, noised: StartsAndGaps, noise: Noise | None = None) -> NoisySample:
    """The sample of a log as one batch."""
    aggregate = SampleOfNoised(lambda _: noised, (noise or reproducible(1)).stream())
    return sample_of(aggregate.merge(aggregate.of(log)))


def test_the_sample_holds_what_was_noised() -> None:
    """Starts, gaps by activity, and gaps of pairs whose events both have a raw time."""
    log = log_of(["abc", "ab"], [[None] * 3, [None] * 2])
    # The b of the first case has no raw time, so its c follows no event that has one.
    noised = StartsAndGaps(np.array([7, 8]), np.array([0, 3]), np.array([20, 30]), np.array([2, 4]))
    sample = sampled(log, noised)
    assert sorted(sample.starts.tolist()) == [7, 8]
    named = [sample.alphabet[code] for code in sample.activity]
    assert sorted(zip(named, sample.gaps.tolist(), strict=True)) == [("b", 30), ("c", 20)]
    assert sample.pair_gaps.tolist() == [30]
    assert [sample.alphabet[code] for code in (*sample.before, *sample.after)] == ["a", "b"]


def test_a_pair_is_told_by_its_labels() -> None:
    """Labels are text: none is a separator, and a missing one is no other."""
    log = log_of([["a", "bc"], ["ab", "c"], ["", "a"]], [[None] * 2] * 3)
    rows = np.array([0, 2, 4])
    noised = StartsAndGaps(np.zeros(3, np.int64), rows, np.array([5, 6, 7]), rows + 1)
    sample = sampled(log, noised)
    pairs = zip(sample.before, sample.after, sample.pair_gaps, strict=True)
    labels = sample.alphabet
    assert sorted((labels[one], labels[two], gap) for one, two, gap in pairs) == [
        ("", "a", 7),
        ("a", "bc", 5),
        ("ab", "c", 6),
    ]
    assert len(sample.starts) == 3


def test_the_sample_is_bounded_and_fair(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most so many of each group are kept; which ones does not depend on their values.

    400 of 4,000 are drawn without replacement: their mean is normal to a good approximation, with a
    standard deviation of 1155 * (0.9 / 400) ** 0.5 = 55; seven of these fail once in 10**11 runs.
    """
    monkeypatch.setattr(module, "SAMPLED", 400)
    log = log_of(["a"] * 4_000, [[None]] * 4_000)
    nothing = np.zeros(0, np.int64)
    noised = StartsAndGaps(np.arange(4_000), np.arange(4_000), nothing, nothing)
    starts = sampled(log, noised).starts
    assert len(set(starts.tolist())) == len(starts) == 400
    assert abs(starts.mean() - 2_000) < 7 * 55


def test_a_sample_of_batches_is_that_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merged, also merged in steps, and whatever the order of the batches."""
    monkeypatch.setattr(module, "SAMPLED", 6)
    log = random_log()
    taken = action_of(reproducible(1)).aggregate
    whole = taken.merge(taken.of(replace(log, case_index=np.arange(CASES))))
    batches = Batches.random(log, 5)
    one, two, *others = (taken.of(batch) for batch in reversed(batches))
    in_steps = taken.merge(pl.concat([taken.merge(pl.concat([one, two])), *others]))
    assert in_steps.equals(whole)
    assert not whole.select("kind", "before", "activity").is_duplicated().any()
    assert whole["value"].list.len().max() == 6

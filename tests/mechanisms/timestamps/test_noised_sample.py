"""Noise on times batch by batch: the sample that both passes share, and releases that do not depend
on how the log was parted.
"""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from cloakwork.engines.batches import in_batches
from cloakwork.engines.memory import MemoryEngine
from cloakwork.facts import Facts, Window
from cloakwork.guarantees import DifferentialPrivacy, Guarantee, MetricPrivacy
from cloakwork.lineage import TIMESTAMPS
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.mechanisms.base import Decision, MapCasesBySummary, Offer
from cloakwork.mechanisms.timestamps import noised_sample
from cloakwork.mechanisms.timestamps.laplace import TimestampLaplace
from cloakwork.mechanisms.timestamps.noised_sample import NoisedSample, SampledValues
from cloakwork.mechanisms.timestamps.starts_and_gaps import StartsAndGaps
from cloakwork.noise import Noise, Stream, reproducible
from cloakwork.testing.contract import assert_same_log, random_batches
from contracts.sample_logs import BEGIN, log_of

LAPLACE = TimestampLaplace()
METRIC = MetricPrivacy(kind="metric-privacy", epsilon=1, shift=timedelta(hours=1))
CASE = DifferentialPrivacy(
    kind="differential-privacy", epsilon=2, over=(TIMESTAMPS,), neighbours="bounded"
)
CASES, LENGTH = 300, 7


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
    stream = reproducible(1).stream()
    action = LAPLACE.rewrite(offer.params, Decision(pl.DataFrame()), stream)
    return MemoryEngine(batches, random_batches(batches)).rewrite(log, action)


@pytest.mark.parametrize("grid", ["1ms", "1m", "7h"])
@pytest.mark.parametrize(("goal", "noised"), [(METRIC, "times"), (METRIC, "gaps"), (CASE, None)])
@pytest.mark.parametrize("most", [5, 10_000])
def test_the_release_does_not_depend_on_the_batches(
    goal: Guarantee, noised: str | None, grid: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last microsecond, also where the sample leaves most values out."""
    monkeypatch.setattr(noised_sample, "SAMPLED", most)
    log = random_log()
    whole = released(log, goal, 1, grid, noised)
    for batches in (4, 60):
        assert_same_log(whole, released(log, goal, batches, grid, noised))


def test_each_case_may_be_a_batch_of_its_own() -> None:
    """Beside the sample nothing is asked of any other case."""
    action = LAPLACE.rewrite(offered(METRIC), Decision(pl.DataFrame()), reproducible(1).stream())
    assert isinstance(action, MapCasesBySummary)
    log = random_log()
    mapping = action.mapping(action.aggregate.merge(action.aggregate.of(log)))
    assert mapping.together == "case"


def offered(goal: Guarantee):
    offer = LAPLACE.offer(goal, Facts(), {})
    assert isinstance(offer, Offer)
    return offer.params


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
    action = LAPLACE.rewrite(offered(METRIC), Decision(pl.DataFrame()), stream)
    MemoryEngine(4, random_batches(4)).rewrite(log, action)
    assert len(Counting.drawn) == log.events.height
    assert all(len(values) == 1 for values in Counting.drawn.values())


def sample_of(log: EventLog, noised: StartsAndGaps, noise: Noise | None = None) -> SampledValues:
    """The sample of a log as one batch."""
    aggregate = NoisedSample(lambda _: noised, (noise or reproducible(1)).stream())
    return SampledValues.of(aggregate.merge(aggregate.of(log)))


def test_the_sample_holds_what_was_noised() -> None:
    """Starts, gaps by activity, and gaps of pairs whose events both have a raw time."""
    log = log_of(["abc", "ab"], [[None] * 3, [None] * 2])
    # The b of the first case has no raw time, so its c follows no event that has one.
    noised = StartsAndGaps(np.array([7, 8]), np.array([0, 3]), np.array([20, 30]), np.array([2, 4]))
    sample = sample_of(log, noised)
    assert sorted(sample.starts.tolist()) == [7, 8]
    assert sorted(sample.gaps.tolist()) == [20, 30]
    assert sample.activities.categories.to_list() == ["b", "c"]
    assert sample.typical.select("before", "activity").rows() == [("a", "b")]
    assert sample.codes_of(pl.Series(["a", "b", "c", "z"])).tolist() == [-1, 0, 1, -1]


def test_a_typical_gap_is_a_lower_bound_of_the_median() -> None:
    """Of 16 gaps the one at rank 16 / 2 - 4, from 0; of four the least; below that one step."""
    cases = 16 + 4 + 3
    labels = ["ab"] * 16 + ["cd"] * 4 + ["ef"] * 3
    log = log_of(labels, [[None, None]] * cases)
    rows = np.arange(cases) * 2
    gaps = np.concatenate([np.arange(100, 116)[::-1], [50, 40, 30, 60], [9, 9, 9]])
    noised = StartsAndGaps(np.zeros(cases, np.int64), rows, gaps, rows + 1)
    typical = sample_of(log, noised).typical_gaps(log)
    assert typical[0::2].tolist() == [1] * cases
    assert typical[1::2].tolist() == [104] * 16 + [30] * 4 + [1] * 3


def test_a_pair_is_told_by_its_labels() -> None:
    """Labels are text: none is a separator, and a missing one is no other."""
    log = log_of([["a", "bc"], ["ab", "c"]], [[None] * 2] * 2)
    noised = StartsAndGaps(np.array([0, 0]), np.array([0, 2]), np.array([5, 6]), np.array([1, 3]))
    assert sample_of(log, noised).typical.height == 2


def test_the_sample_is_bounded_and_fair(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most so many of each group are kept; which ones does not depend on their values.

    400 of 4,000 are drawn without replacement: their mean is normal to a good approximation, with a
    standard deviation of 1155 * (0.9 / 400) ** 0.5 = 55; seven of these fail once in 10**11 runs.
    """
    monkeypatch.setattr(noised_sample, "SAMPLED", 400)
    log = log_of(["a"] * 4_000, [[None]] * 4_000)
    nothing = np.zeros(0, np.int64)
    noised = StartsAndGaps(np.arange(4_000), np.arange(4_000), nothing, nothing)
    starts = sample_of(log, noised).starts
    assert len(set(starts.tolist())) == len(starts) == 400
    assert abs(starts.mean() - 2_000) < 7 * 55


def test_a_sample_of_batches_is_that_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merged, also merged in steps, and whatever the order of the batches."""
    monkeypatch.setattr(noised_sample, "SAMPLED", 6)
    log = random_log()
    action = LAPLACE.rewrite(offered(METRIC), Decision(pl.DataFrame()), reproducible(1).stream())
    assert isinstance(action, MapCasesBySummary)
    taken = action.aggregate
    whole = taken.merge(taken.of(replace(log, case_index=np.arange(CASES))))
    batches = in_batches(log, random_batches(5)(CASES), 5)
    one, two, *others = (taken.of(batch) for batch in reversed(batches))
    in_steps = taken.merge(pl.concat([taken.merge(pl.concat([one, two])), *others]))
    assert in_steps.equals(whole)
    assert whole.group_by("kind", "before", "activity").len()["len"].max() == 6

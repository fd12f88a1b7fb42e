"""The times of a log as integers: when each case starts, and the gaps between its events, in steps
of a grid.

``starts_and_gaps_of`` takes them from a log; ``times_of`` turns noised ones back into times for
every event, also for those that never had a raw time. Between the two lies the noise; nothing
behind it looks at a raw time again.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.facts import UNIX_EPOCH, Window
from cloakwork.log.eventlog import ACTIVITY, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.mechanisms.timestamps.isotonic import isotonic_projection, spread_pooled
from cloakwork.noise import Noise

Steps = NDArray[np.int64]

CALENDAR: Final = Window(start=datetime(2, 1, 1, tzinfo=UTC), end=datetime(9998, 1, 1, tzinfo=UTC))
"""The times that a calendar library can hold, with a year to spare for rounding; raw times outside
move to its edge.
"""

READABLE: Final = Window(
    start=datetime(1678, 1, 1, tzinfo=UTC), end=datetime(2262, 1, 1, tzinfo=UTC)
)
"""The times that readers counting nanoseconds in 64 bits can hold; released times stay inside
unless declared otherwise.
"""

_MICROSECOND: Final = timedelta(microseconds=1)
_LONGEST_SUM: Final = 2**61
"""Gaps are bounded so that a case's sum of them stays below: int64 sums never wrap."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Instants ``epoch + i * step``; ``i`` is what everything here counts in."""

    epoch: datetime
    step: timedelta

    def nearest(self, microseconds: Steps) -> Steps:
        """Round times (microseconds since 1970, int64) to the nearest step, halves upwards:
        monotone.

        Two times that lie at most ``d`` apart are rounded to steps at most ``ceil(d / step)``
        apart.
        """
        step = self.step // _MICROSECOND
        calendar = np.clip(
            microseconds, microseconds_of(CALENDAR.start), microseconds_of(CALENDAR.end)
        )
        return (calendar - microseconds_of(self.epoch) + step // 2) // step

    def edges(self, window: Window) -> tuple[int, int]:
        """A window's edges, rounded to the nearest step."""
        edges = np.array([microseconds_of(window.start), microseconds_of(window.end)], np.int64)
        first, last = self.nearest(edges)
        return int(first), int(last)

    def instants(self, steps: Steps) -> pl.Series:
        """The times at ``steps``, all inside the calendar: Datetime, microseconds, UTC."""
        microseconds = steps * (self.step // _MICROSECOND) + microseconds_of(self.epoch)
        return pl.Series(TIMESTAMP, microseconds).cast(TIME_TYPE)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Public bounds, in grid steps, never taken from the log; None where there is none.

    ``start``: raw starts are clamped into it, and noised ones again. ``longest_gap``: raw gaps are
    clamped to ``[0, longest_gap]``, noised ones to ``[-longest_gap, longest_gap]``: symmetric, so
    that noise on a short gap keeps its mean. ``times``: most raw times of a case that are used.
    ``released``: every released time lies in it.
    """

    released: tuple[int, int]
    start: tuple[int, int] | None = None
    longest_gap: int | None = None
    times: int | None = None


@dataclass(frozen=True, slots=True)
class StartsAndGaps:
    """The raw times of a log, as what noise is added to.

    - ``starts``: int64; the first raw time of each case that has one, in case order.
      ``start_rows``: its event.
    - ``gaps``: int64; the time from each other event's predecessor *with a raw time*. ``gap_rows``:
      these events.
    """

    starts: Steps
    start_rows: NDArray[np.int64]
    gaps: Steps
    gap_rows: NDArray[np.int64]


def starts_and_gaps_of(log: EventLog, grid: Grid, bounds: Bounds) -> StartsAndGaps:
    """Round raw times to the grid, then take starts and gaps, clamped to ``bounds``."""
    times = log.events[TIMESTAMP].cast(TIME_TYPE).to_physical()
    rows = np.flatnonzero(times.is_not_null().to_numpy())
    case = log.case_of[rows]
    begins = np.concatenate([[True], case[1:] != case[:-1]])[: len(rows)]
    if bounds.times is not None:
        within = _rank_in_case(begins) < bounds.times
        rows, begins = rows[within], begins[within]
    microseconds = times.gather(pl.Series(rows)).to_numpy().astype(np.int64)
    steps = grid.nearest(microseconds)
    starts = steps[begins]
    gaps = np.diff(steps, prepend=0)[~begins]
    if bounds.start is not None:
        starts = np.clip(starts, *bounds.start)
    if bounds.longest_gap is not None:
        gaps = np.clip(gaps, 0, bounds.longest_gap)
    return StartsAndGaps(starts, rows[begins], gaps, rows[~begins])


def _rank_in_case(begins: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each event how many lie before it in its case; ``begins``: where a case begins."""
    rows = np.arange(len(begins))
    # The running maximum is the row at which the event's case begins.
    return rows - np.maximum.accumulate(np.where(begins, rows, 0))


def times_of(log: EventLog, noised: StartsAndGaps, bounds: Bounds, noise: Noise) -> Steps:
    """A time for every event of ``log``, in grid steps, not decreasing inside a case; reads no raw
    time.

    ``noised``: starts and gaps with their noise. An event that is in none of them takes a gap drawn
    from those of its activity; a case that is in none a start drawn from all.
    """
    lengths = np.diff(log.offsets)
    limit = _LONGEST_SUM // (int(lengths.max(initial=0)) + 1)
    if bounds.longest_gap is not None:
        limit = min(limit, bounds.longest_gap)
    gaps = np.clip(noised.gaps, -limit, limit)
    starts = _starts_of_cases(log, noised, bounds, noise)
    since_start = _times_since_start(log, noised, gaps, noise)
    pooled = isotonic_projection(since_start.astype(np.float64), log.offsets)
    spread = spread_pooled(pooled, log.offsets, _typical_gaps(log, since_start))
    ordered = np.floor(spread + 0.5).astype(np.int64)
    # Far from zero a float is coarser than a step, and rounding may cost the order one.
    while len(fallen := _out_of_order(ordered, log.offsets)):
        ordered[fallen] = ordered[fallen - 1]
    times = np.repeat(starts, lengths) + ordered
    return _moved_inside(times, log.offsets, bounds.released)


def _out_of_order(times: Steps, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The events that lie before the one before them in their case."""
    falls = np.diff(times, prepend=times[:1]) < 0
    falls[_first_rows(offsets)] = False
    return np.flatnonzero(falls)


def _moved_inside(times: Steps, offsets: NDArray[np.int64], edges: tuple[int, int]) -> Steps:
    """Move each case that reaches over an edge back inside as a whole; what is then still outside
    lies at the edge.
    """
    earliest, latest = edges
    cases = np.flatnonzero(np.diff(offsets))
    lengths = np.diff(offsets)[cases]
    first, last = times[offsets[cases]], times[offsets[cases + 1] - 1]
    # Where a case is longer than the range, its first event is the one that stays inside.
    moved = np.maximum(earliest - first, np.minimum(latest - last, 0))
    return np.asarray(np.clip(times + np.repeat(moved, lengths), earliest, latest), np.int64)


def _first_rows(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row of the first event of each case that has any."""
    return offsets[:-1][np.diff(offsets) > 0]


def _starts_of_cases(log: EventLog, noised: StartsAndGaps, bounds: Bounds, noise: Noise) -> Steps:
    """The start of every case, inside its public bounds."""
    known = np.clip(noised.starts, *(bounds.start or bounds.released))
    starts = np.zeros(log.cases.height, np.int64)
    timed = np.searchsorted(log.offsets, noised.start_rows, side="right") - 1
    starts[timed] = known
    untimed = np.setdiff1d(np.arange(log.cases.height), timed, assume_unique=True)
    # All starts are one group: a case without a raw time draws between any two of them.
    group_of_known = np.zeros(len(known), np.int64)
    group_of_untimed = np.zeros(len(untimed), np.int64)
    fallback = 0 if bounds.start is None else bounds.start[0]
    starts[untimed] = _draw_between_two(known, group_of_known, group_of_untimed, noise, fallback)
    return starts


def _times_since_start(log: EventLog, noised: StartsAndGaps, gaps: Steps, noise: Noise) -> Steps:
    """For each event its time since the start of its case, before order is restored.

    An event with a raw time lies the noised gaps up to it behind the start. One without lies the
    gaps drawn for it and for those before it behind the nearest earlier event with a raw time, or
    so much before the first one.
    """
    measured = np.zeros(log.events.height, np.int64)
    measured[noised.gap_rows] = gaps
    known = np.zeros(log.events.height, bool)
    known[noised.start_rows] = True
    known[noised.gap_rows] = True
    if known.all():
        return _sums_in_case(measured, log.offsets)
    lacks_gap = np.ones(log.events.height, bool)
    lacks_gap[noised.gap_rows] = False
    lacks_gap[_first_rows(log.offsets)] = False
    rows = np.flatnonzero(lacks_gap)
    drawn = np.zeros(log.events.height, np.int64)
    drawn[rows] = _draw_gaps_of_activity(log, noised.gap_rows, gaps, rows, noise)
    filled = _sums_in_case(drawn, log.offsets)
    anchors = _last_timed_rows(known, log.offsets)
    # A difference of running sums: the drawn gaps between an event and its anchor.
    return _sums_in_case(measured, log.offsets) + filled - filled[anchors]


def _last_timed_rows(known: NDArray[np.bool_], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each event the row of the last one up to it that is ``known``; else the first known of
    the case, else its first.
    """
    rows = np.arange(len(known))
    lengths = np.diff(offsets)
    first = np.repeat(offsets[:-1], lengths)
    last = np.repeat(offsets[1:], lengths) - 1
    # Running extremes over all cases; one that lies in another case is not taken.
    earlier = np.maximum.accumulate(np.where(known, rows, -1))
    later = np.minimum.accumulate(np.where(known, rows, len(known))[::-1])[::-1]
    first_known = np.where(later <= last, later, first)
    return np.where(earlier >= first, earlier, first_known)


def _typical_gaps(log: EventLog, since_start: Steps) -> NDArray[np.float64]:
    """For each event a gap that is typical of its directly-follows pair, from noised gaps before
    order is restored.

    It is a lower confidence bound of the pair's median (the order statistic 1/sqrt(n) below the
    middle, about two standard errors, whatever the distribution): where the noise hides all
    about a pair, its events are drawn apart by one step only. At least 1; the first event of a case
    gets 1.
    """
    activity = _activity_codes(log)
    activities = int(activity.max(initial=0)) + 1
    pair = np.zeros(len(activity), np.int64)
    pair[1:] = 1 + activity[:-1] * activities + activity[1:]
    pair[_first_rows(log.offsets)] = 0
    gaps = np.diff(since_start, prepend=0)
    # Sorted by pair, and by gap within a pair: each pair is a run whose order statistics stand
    # at fixed places.
    order = np.lexsort((gaps, pair))
    _, first, back, size = np.unique(
        pair[order], return_index=True, return_inverse=True, return_counts=True
    )
    rank = np.floor(size / 2 - np.sqrt(size)).astype(np.int64)
    median_bound = gaps[order][first + np.maximum(rank, 0)]
    median_bound = np.where(rank >= 0, median_bound, 1)
    median_bound[pair[order][first] == 0] = 1
    typical = np.empty(len(gaps), np.float64)
    typical[order] = median_bound[back]
    return np.maximum(typical, 1.0)


def _activity_codes(log: EventLog) -> NDArray[np.int64]:
    labels = log.events[ACTIVITY].cast(pl.String)
    codes = labels.cast(pl.Enum(labels.drop_nulls().unique().sort())).to_physical().fill_null(0)
    return np.asarray(codes.to_numpy(), np.int64)


def _draw_gaps_of_activity(
    log: EventLog,
    gap_rows: NDArray[np.int64],
    gaps: Steps,
    requested: NDArray[np.int64],
    noise: Noise,
) -> Steps:
    activity = _activity_codes(log)
    return _draw_between_two(gaps, activity[gap_rows], activity[requested], noise, 0)


def _draw_between_two(
    pool: Steps, group: NDArray[np.int64], requested: NDArray[np.int64], noise: Noise, empty: int
) -> Steps:
    """For each requested group a value between two random members of it in the pool, uniformly.

    A group without members draws from the whole pool; an empty pool gives ``empty``. Drawing
    between two values rather than copying one leaves no exact coincidence by which a drawn value
    could be distinguished from a noised one.
    """
    if len(pool) == 0:
        return np.full(len(requested), empty, np.int64)
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], requested, side="left")
    size = np.searchsorted(group[order], requested, side="right") - first
    has_members = size > 0
    first = np.where(has_members, first, 0)
    size = np.where(has_members, size, len(pool))
    left = pool[order][first + noise.uniform(size)]
    right = pool[order][first + noise.uniform(size)]
    low, high = np.minimum(left, right), np.maximum(left, right)
    return np.asarray(low + noise.uniform(high - low + 1), np.int64)


def _sums_in_case(values: Steps, offsets: NDArray[np.int64]) -> Steps:
    """Running sums that begin anew with each case; the first value of each case must be 0."""
    total = np.cumsum(values)
    lengths = np.diff(offsets)
    return total - np.repeat(total[_first_rows(offsets)], lengths[lengths > 0])


def microseconds_of(instant: datetime) -> int:
    """Microseconds since 1970."""
    return (instant - UNIX_EPOCH) // _MICROSECOND

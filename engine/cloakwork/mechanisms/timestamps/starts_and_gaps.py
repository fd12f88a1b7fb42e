"""The times of a log as integers: when each case starts, and the gaps between its events, in steps
of a grid.

``starts_and_gaps_of`` takes them from a log; ``times_of`` turns noised ones back into times for every event,
also for those that never had a raw time. Between the two lies the noise; nothing behind it looks at
a raw time again.
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
        """The times at ``steps``, which must lie inside the calendar: Datetime, microseconds, UTC."""
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
    """Round the raw times of ``log`` to the grid, then take starts and gaps, clamped to ``bounds``."""
    times = log.events[TIMESTAMP].cast(TIME_TYPE).to_physical()
    rows = np.flatnonzero(times.is_not_null().to_numpy())
    case = log.case_of[rows]
    begins = np.concatenate([[True], case[1:] != case[:-1]])[: len(rows)]
    if bounds.times is not None:
        rank = np.arange(len(rows)) - np.maximum.accumulate(
            np.where(begins, np.arange(len(rows)), 0)
        )
        within = rank < bounds.times
        rows, begins = rows[within], begins[within]
    steps = grid.nearest(times.gather(pl.Series(rows)).to_numpy().astype(np.int64))
    starts, gaps = steps[begins], np.diff(steps, prepend=0)[~begins]
    if bounds.start is not None:
        starts = np.clip(starts, *bounds.start)
    if bounds.longest_gap is not None:
        gaps = np.clip(gaps, 0, bounds.longest_gap)
    return StartsAndGaps(starts, rows[begins], gaps, rows[~begins])


def times_of(log: EventLog, noised: StartsAndGaps, bounds: Bounds, noise: Noise) -> Steps:
    """A time for every event of ``log``, in grid steps, not decreasing inside a case; reads no raw
    time.

    ``noised``: starts and gaps with their noise. An event that is in none of them takes a gap drawn
    from those of its activity; a case that is in none a start drawn from all.
    """
    lengths = np.diff(log.offsets)
    limit = _LONGEST_SUM // (int(lengths.max(initial=0)) + 1)
    limit = limit if bounds.longest_gap is None else min(limit, bounds.longest_gap)
    gaps = np.clip(noised.gaps, -limit, limit)
    starts = _starts_of_cases(log, noised, bounds, noise)
    since_start = _times_since_start(log, noised, gaps, noise)
    projected = isotonic_projection(since_start.astype(np.float64), log.offsets)
    spacing = _typical_gaps(log, since_start)
    ordered = np.floor(spread_pooled(projected, log.offsets, spacing) + 0.5).astype(np.int64)
    while len(
        fallen := _out_of_order(ordered, log.offsets)
    ):  # far from zero rounding may cost a step
        ordered[fallen] = ordered[fallen - 1]
    return _moved_inside(np.repeat(starts, lengths) + ordered, log.offsets, bounds.released)


def _out_of_order(times: Steps, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The events that lie before the one before them in their case."""
    falls = np.diff(times, prepend=times[:1]) < 0
    falls[offsets[:-1][np.diff(offsets) > 0]] = False
    return np.flatnonzero(falls)


def _moved_inside(times: Steps, offsets: NDArray[np.int64], edges: tuple[int, int]) -> Steps:
    """Move each case that reaches over an edge back inside as a whole; what is then still outside
    lies at the edge.
    """
    cases_with_events = np.flatnonzero(np.diff(offsets))
    lengths = np.diff(offsets)[cases_with_events]
    first, last = times[offsets[cases_with_events]], times[offsets[cases_with_events + 1] - 1]
    moved = np.maximum(edges[0] - first, np.minimum(edges[1] - last, 0))
    return np.asarray(np.clip(times + np.repeat(moved, lengths), *edges), np.int64)


def _starts_of_cases(log: EventLog, noised: StartsAndGaps, bounds: Bounds, noise: Noise) -> Steps:
    """The start of every case, inside its public bounds."""
    known = np.clip(noised.starts, *(bounds.start or bounds.released))
    starts = np.zeros(log.cases.height, np.int64)
    cases_with_events = np.searchsorted(log.offsets, noised.start_rows, side="right") - 1
    starts[cases_with_events] = known
    lacking = np.setdiff1d(np.arange(log.cases.height), cases_with_events, assume_unique=True)
    none = np.zeros(len(lacking), np.int64)
    fallback = 0 if bounds.start is None else bounds.start[0]
    starts[lacking] = _draw_between_two(
        known, np.zeros(len(known), np.int64), none, noise, fallback
    )
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
    known[noised.start_rows] = known[noised.gap_rows] = True
    if known.all():
        return _sums_in_case(measured, log.offsets)
    leads = np.ones(log.events.height, bool)
    leads[noised.gap_rows] = False
    leads[log.offsets[:-1][np.diff(log.offsets) > 0]] = False
    drawn = np.zeros(log.events.height, np.int64)
    drawn[leads] = _draw_gaps_of_activity(log, noised.gap_rows, gaps, np.flatnonzero(leads), noise)
    filled = _sums_in_case(drawn, log.offsets)
    return (
        _sums_in_case(measured, log.offsets) + filled - filled[_last_timed_rows(known, log.offsets)]
    )


def _last_timed_rows(known: NDArray[np.bool_], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each event the row of the last one up to it that is ``known``; else the first known of
    the case, else its first.
    """
    rows = np.arange(len(known))
    first = np.repeat(offsets[:-1], np.diff(offsets))
    last_case_row = np.repeat(offsets[1:], np.diff(offsets)) - 1
    earlier = np.maximum.accumulate(np.where(known, rows, -1))
    later = np.minimum.accumulate(np.where(known, rows, len(known))[::-1])[::-1]
    return np.where(earlier >= first, earlier, np.where(later <= last_case_row, later, first))


def _typical_gaps(log: EventLog, since_start: Steps) -> NDArray[np.float64]:
    """For each event a gap that is usual for its directly-follows pair, from noised gaps before
    order is restored.

    It is a lower confidence bound of the pair's median (the order statistic 1/sqrt(n) below the
    middle, about two standard errors, whatever the distribution): where the noise tells nothing
    about a pair, its events are drawn apart by one step only. At least 1; the first event of a case
    gets 1.
    """
    activity = _activity_codes(log)
    pair = np.zeros(len(activity), np.int64)
    pair[1:] = 1 + activity[:-1] * (int(activity.max(initial=0)) + 1) + activity[1:]
    pair[log.offsets[:-1][np.diff(log.offsets) > 0]] = 0
    gaps = np.diff(since_start, prepend=0)
    order = np.lexsort((gaps, pair))
    _, first, back, size = np.unique(
        pair[order], return_index=True, return_inverse=True, return_counts=True
    )
    rank = np.floor(size / 2 - np.sqrt(size)).astype(np.int64)
    median_bound = np.where(rank >= 0, gaps[order][first + np.maximum(rank, 0)], 1)
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
    """For each wanted group a value drawn uniformly between two random members of the pool's group.

    A group without members draws from the whole pool; an empty pool gives ``empty``. Drawing
    between two values rather than copying one leaves no exact coincidence by which a drawn value
    could be told from a noised one.
    """
    if len(pool) == 0:
        return np.full(len(requested), empty, np.int64)
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], requested, side="left")
    size = np.searchsorted(group[order], requested, side="right") - first
    first, size = np.where(size > 0, first, 0), np.where(size > 0, size, len(pool))
    first_member, second_member = (pool[order][first + noise.uniform(size)] for _ in range(2))
    low = np.minimum(first_member, second_member)
    return np.asarray(
        low + noise.uniform(np.maximum(first_member, second_member) - low + 1), np.int64
    )


def _sums_in_case(values: Steps, offsets: NDArray[np.int64]) -> Steps:
    """Running sums that begin anew with each case; the first value of each case must be 0."""
    total = np.cumsum(values)
    begins = offsets[:-1][np.diff(offsets) > 0]
    return total - np.repeat(total[begins], np.diff(offsets)[np.diff(offsets) > 0])


def microseconds_of(instant: datetime) -> int:
    """Microseconds since 1970."""
    return (instant - UNIX_EPOCH) // _MICROSECOND

"""The times of a log as integers: when each case starts, and the gaps between its events, in steps
of a grid.

``starts_and_gaps_of`` takes them from a log; ``completed_times`` turns noised ones back into times
for every event, also for those that never had a raw time. Between the two lies the noise; nothing
behind it looks at a raw time again.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.facts import UNIX_EPOCH, Window
from cloakwork.log.eventlog import TIME_TYPE, TIMESTAMP, EventLog

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
LONGEST_SUM: Final = 2**61
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

    def has_time(self, events: int) -> NDArray[np.bool_]:
        """Which of the log's ``events`` are in it: bool, shape (events,)."""
        has_time = np.zeros(events, np.bool_)
        has_time[self.start_rows] = True
        has_time[self.gap_rows] = True
        return has_time


def noised_within(noised: StartsAndGaps, bounds: Bounds) -> StartsAndGaps:
    """Noised starts and gaps, moved into the public ``bounds``."""
    most = LONGEST_SUM // 2
    if bounds.longest_gap is not None:
        most = min(most, bounds.longest_gap)
    return replace(
        noised,
        starts=np.clip(noised.starts, *(bounds.start or bounds.released)),
        gaps=np.clip(noised.gaps, -most, most),
    )


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


def microseconds_of(instant: datetime) -> int:
    """Microseconds since 1970."""
    return (instant - UNIX_EPOCH) // _MICROSECOND

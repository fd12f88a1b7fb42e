"""Raw times for inserted events: each lies between the kept events around it, at random.

Where it lies is drawn here (``_target_times``); ``raw_times`` then moves it to a time as precise as
those of kept events of its activity.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Ints
from cloakwork.log.eventlog import TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.mechanisms.kanon.donors import NONE, draw_by_key
from cloakwork.mechanisms.kanon.raw_times import FAR, TimePrecisions, UntimedEvents, times_for
from cloakwork.mechanisms.steps import case_addresses, event_addresses
from cloakwork.noise import Stream

_LONGEST_SUM: Final = 2**60
"""Microseconds; gaps are cut so that a case's sum of them stays below, far inside int64."""


@dataclass(frozen=True)
class _KnownTimes:
    """The times of a log's kept events, and which of them each event lies between.

    - ``time``: int64, microseconds, shape (events,); 0 where none is known.
    - ``is_known``: bool, shape (events,).
    - ``earlier``, ``later``: int64, shape (events,); the row of the last event of the case up to
      this one with a known time, and of the first from it on; -1 for none.
    """

    time: Ints
    is_known: Bools
    earlier: Ints
    later: Ints

    @classmethod
    def of(cls, log: EventLog, inserted: Bools) -> "_KnownTimes":
        stamps = log.events[TIMESTAMP].cast(TIME_TYPE).to_physical()
        is_known = stamps.is_not_null().to_numpy() & ~inserted
        time = np.where(is_known, stamps.fill_null(0).to_numpy(), 0)
        return cls(time, is_known, *_neighbours(is_known, log.offsets))


def with_times_of_inserted(
    log: EventLog, inserted: Bools, activity: Ints, source: Ints, stream: Stream
) -> pl.Series:
    """The times of all events, with one for each inserted event whose source has one.

    ``activity``: int64, shape (events,). ``source``: the row that each event copies; -1 for none.
    """
    known = _KnownTimes.of(log, inserted)
    if not known.is_known.any():
        return log.events[TIMESTAMP]
    known_time, known_activity = known.time[known.is_known], activity[known.is_known]
    span = int(known_time.min()), int(known_time.max())
    gaps = _drawn_gaps(log, known, activity, stream.part("gaps"))
    target = np.clip(_target_times(log, known, gaps, stream), *span)

    # An event without a source has no time to be like.
    donor = np.maximum(source, 0)
    to_time = inserted & (source != NONE) & known.is_known[donor]
    rows = np.flatnonzero(to_time)
    gap_index = _gap_indexes(log.case_of[rows], known.earlier[rows])
    earlier, later = known.earlier[rows], known.later[rows]
    low = np.where(earlier != NONE, known.time[earlier], -FAR)
    high = np.where(later != NONE, known.time[later], FAR)
    # Targets are drawn one by one; inside a gap they are given out in ascending order.
    by_gap_and_target = rows[np.lexsort((target[rows], gap_index))]
    untimed = UntimedEvents(
        gap_index=gap_index,
        low=low,
        high=np.maximum(high, low),
        target_time=target[by_gap_and_target],
        activity=activity[rows],
        donor=known.time[donor[rows]],
        span=span,
    )
    complete = known.time.copy()
    complete[rows] = times_for(untimed, TimePrecisions.of(known_time, known_activity))
    times = pl.Series(TIMESTAMP, complete).cast(TIME_TYPE).cast(log.events.schema[TIMESTAMP])
    has_time = pl.Series(known.is_known | to_time)
    return pl.select(pl.when(has_time).then(times).alias(TIMESTAMP)).to_series()


def _gap_indexes(case: Ints, earlier: Ints) -> Ints:
    """A number for each event, ascending: the same for events of one case behind the same known
    event.
    """
    # Before the first row stands no case, so that the first gap begins there.
    other_case = np.diff(case, prepend=NONE) != 0
    other_event = np.diff(earlier, prepend=NONE) != 0
    return np.cumsum(other_case | other_event)


def _target_times(log: EventLog, known: _KnownTimes, gaps: Ints, stream: Stream) -> Ints:
    """A random time for each event near which it may have taken place: between its neighbours with
    a known time; its gap behind or before its only neighbour; in a case without any known time, its
    gaps behind a random time of the log.
    """
    time, earlier, later = known.time, known.earlier, known.later
    has_earlier, has_later = earlier != NONE, later != NONE
    # Where there is no neighbour, -1 reads the last row; ``select`` does not take what it gives.
    width = np.maximum(time[later] - time[earlier], 0) + 1
    every_event = event_addresses(log, np.arange(log.events.height))
    between = time[earlier] + stream.part("between").uniform(width, every_event)
    # Differences of the running total add up the gaps between two events.
    total = np.cumsum(gaps)
    after = time[earlier] + total - total[earlier]
    before = time[later] - (total[later] - total)
    first_event = np.repeat(log.offsets[:-1], np.diff(log.offsets))
    start = _drawn_starts(log, time[known.is_known], stream.part("starts"))
    since_start = total - total[first_event]
    return np.select(
        [has_earlier & has_later, has_earlier, has_later],
        [between, after, before],
        start[log.case_of] + since_start,
    )


def _drawn_starts(log: EventLog, known_times: Ints, stream: Stream) -> Ints:
    """For each case a random one of ``known_times``: int64, shape (cases,)."""
    one_key = np.zeros(len(known_times), np.int64)
    requested = np.zeros(log.cases.height, np.int64)
    return draw_by_key(known_times, one_key, requested, stream, case_addresses(log))


def _neighbours(is_known: Bools, offsets: Ints) -> tuple[Ints, Ints]:
    """For each event the row of the last known one up to it in its case, and of the first from it
    on; -1 for none.
    """
    rows = np.arange(len(is_known))
    lengths = np.diff(offsets)
    first, end = np.repeat(offsets[:-1], lengths), np.repeat(offsets[1:], lengths)
    # Running extremes over all cases; one that lies in another case is not taken.
    earlier = np.maximum.accumulate(np.where(is_known, rows, NONE))
    # From the end backwards, the last known row so far is the next one.
    later = np.minimum.accumulate(np.where(is_known, rows, len(is_known))[::-1])[::-1]
    return np.where(earlier >= first, earlier, NONE), np.where(later < end, later, NONE)


def _drawn_gaps(log: EventLog, known: _KnownTimes, activity: Ints, stream: Stream) -> Ints:
    """For each event a gap by which a kept event of its activity follows the one before; else of
    any; else 0.
    """
    events = log.events.height
    rows = np.flatnonzero(known.is_known)
    case = log.case_of[rows]
    # Places in ``rows`` whose event follows another known one of its case.
    follows = np.flatnonzero(case[1:] == case[:-1]) + 1
    if not len(follows):
        return np.zeros(events, np.int64)
    longest_gap = _LONGEST_SUM // (int(np.diff(log.offsets).max()) + 1)
    gap = known.time[rows[follows]] - known.time[rows[follows - 1]]
    gap = np.clip(gap, 0, longest_gap)
    at = event_addresses(log, np.arange(events))
    gap_activity = activity[rows[follows]]
    of_activity = draw_by_key(
        np.arange(len(gap)), gap_activity, activity, stream.part("of activity"), at
    )
    of_any = stream.part("of any").uniform(np.full(events, len(gap), np.int64), at)
    chosen = np.where(of_activity == NONE, of_any, of_activity)
    return np.asarray(gap[chosen], np.int64)

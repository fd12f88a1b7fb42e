"""Times for inserted events where times are released as they are: as precise as the times of kept
events.

An activity is daily if all its kept times are on quarters of an hour, at one or two times of day:
midnight, in UTC or in any zone, in summer and in winter. An inserted event of it has such a time of
day. Where times of day follow the season, it is the season of the log: that of the kept events of
all activities with these times of day, before and after the inserted one. Of any other
activity, a time is as precise as a kept one: in hours, quarters of an hour, minutes, seconds,
milliseconds or microseconds. An inserted event repeats what is left of the next coarser unit in a
kept time, if its place in the case allows; it is never more precise than all kept ones.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Ints

_DAY: Final = 86_400_000_000
_HOUR: Final = 3_600_000_000
_QUARTER: Final = 900_000_000
UNITS: Final = np.array([_QUARTER, _HOUR, _QUARTER, 60_000_000, 1_000_000, 1_000, 1], np.int64)
"""Microseconds: of the times of daily activities; then an hour, a quarter, a minute, down to a
microsecond.
"""
_PERIODS: Final = np.array([_DAY, _DAY, *UNITS[1:-1]], np.int64)
"""For each unit the period after which its times repeat: a day, or the next coarser unit."""
FAR: Final = 2**61
"""Microseconds; before and behind any time."""


@dataclass(frozen=True)
class TimePrecisions:
    """How precise the times of kept events are.

    - ``codes``: int64, ascending; the distinct triples of activity, unit and rest of the period, as
      one number each: (activity * units + unit) * a day + rest.
    - ``is_daily``: bool, shape (activities,).
    - ``by_season``: for each activity whose time of day follows a season, the kept times of all
      activities that follow it, ascending.
    """

    codes: Ints
    is_daily: Bools
    by_season: Mapping[int, Ints]

    @classmethod
    def of(cls, time: Ints, activity: Ints) -> "TimePrecisions":
        """Those of ``time`` (int64, microseconds, shape (n,)), by ``activity`` (int64, shape
        (n,)).
        """
        is_daily = _is_daily(time, activity)
        unit = units_of(time, is_daily[activity])
        codes = (activity * len(UNITS) + unit) * _DAY + time % _PERIODS[unit]
        by_season = _kept_by_season(time, activity, is_daily)
        # Both times of day of a season are times of day of each activity that follows it.
        of_season = [
            (each * len(UNITS)) * _DAY + np.unique(kept % _DAY) for each, kept in by_season.items()
        ]
        return cls(np.unique(np.concatenate([codes, *of_season])), is_daily, by_season)

    def in_season(self, time: Ints, activity: Ints) -> Bools:
        """Whether the kept events before and after a time that follow the season of the activity
        have its time of day: bool, shape (n,); True where the activity follows none.
        """
        fits = np.ones(len(time), np.bool_)
        for each, kept in self.by_season.items():
            rows = np.flatnonzero(activity == each)
            before, after = _kept_around(time[rows], kept)
            time_of_day = time[rows] % _DAY
            fits[rows] = (before % _DAY == time_of_day) & (after % _DAY == time_of_day)
        return fits

    def candidate_times(self, near: Ints, activity: Ints) -> Iterator[tuple[Ints, Bools]]:
        """Candidates ``near`` a time, for each precision of the activity: what kept events repeat,
        then any time just as precise, then any time no more precise; finest first.

        Yields times (int64, shape (n,)), and whether the precision occurs in the activity (bool,
        shape (n,)).
        """
        for time, has_precision in chain(
            self._repeated_times(near, activity),
            self._times_of_day(near, activity),
            self._kept_times(near, activity),
        ):
            yield time, has_precision & self.in_season(time, activity)
        yield from self._times_on_unit(near, activity, just_as_precise=True)
        yield from self._times_on_unit(near, activity, just_as_precise=False)

    def _repeated_times(self, near: Ints, activity: Ints) -> Iterator[tuple[Ints, Bools]]:
        """For each unit the next later and the next earlier time that repeats a kept one."""
        last_code = len(self.codes) - 1
        for unit in range(len(UNITS) - 1, -1, -1):
            key, first, end = self._codes_of(unit, activity)
            has_precision = end > first
            period = _PERIODS[unit]
            rest = near % period
            period_start = near - rest
            # The next rest in this period; behind the last one, the first of the next period.
            later = np.searchsorted(self.codes, key * _DAY + rest, side="left")
            is_next = later >= end
            code = self.codes[np.clip(np.where(is_next, first, later), 0, last_code)]
            yield period_start + (code - key * _DAY) + is_next * period, has_precision
            # The same backwards.
            earlier = np.searchsorted(self.codes, key * _DAY + rest, side="right") - 1
            is_previous = earlier < first
            code = self.codes[np.clip(np.where(is_previous, end - 1, earlier), 0, last_code)]
            yield period_start + (code - key * _DAY) - is_previous * period, has_precision

    def _times_of_day(self, near: Ints, activity: Ints) -> Iterator[tuple[Ints, Bools]]:
        """For daily activities each time of day, later and earlier: the season may rule out the
        next one.
        """
        key, first, end = self._codes_of(0, activity)
        last_code = len(self.codes) - 1
        for place in (first, end - 1):
            time_of_day = self.codes[np.clip(place, 0, last_code)] - key * _DAY
            yield near + (time_of_day - near) % _DAY, end > first
            yield near - (near - time_of_day) % _DAY, end > first

    def _kept_times(self, near: Ints, activity: Ints) -> Iterator[tuple[Ints, Bools]]:
        """Where the time of day follows the season, the kept times before and after: between two
        that differ nothing else is sure to be in season.
        """
        before, after = near.copy(), near.copy()
        follows = np.zeros(len(near), np.bool_)
        for each, kept in self.by_season.items():
            rows = np.flatnonzero(activity == each)
            before[rows], after[rows] = _kept_around(near[rows], kept)
            follows[rows] = True
        yield after, follows
        yield before, follows

    def _times_on_unit(
        self, near: Ints, activity: Ints, *, just_as_precise: bool
    ) -> Iterator[tuple[Ints, Bools]]:
        """For each unit but that of daily activities, the next multiple of it, later and earlier.

        ``just_as_precise``: not one that is a multiple of the next coarser unit.
        """
        for unit in range(len(UNITS) - 1, 0, -1):
            _, first, end = self._codes_of(unit, activity)
            has_precision = end > first
            size = UNITS[unit]
            earlier = near // size * size
            later = -(-near // size) * size
            if just_as_precise:
                later = later + size * (later % _PERIODS[unit] == 0)
                earlier = earlier - size * (earlier % _PERIODS[unit] == 0)
            yield later, has_precision
            yield earlier, has_precision

    def _codes_of(self, unit: int, activity: Ints) -> tuple[Ints, Ints, Ints]:
        """For each activity its number with ``unit``, and the range of ``codes`` that have both."""
        key = activity * len(UNITS) + unit
        first = np.searchsorted(self.codes, key * _DAY)
        end = np.searchsorted(self.codes, (key + 1) * _DAY)
        return key, first, end

    def latest_before(self, until: Ints, activity: Ints) -> Ints:
        """The last candidate of each activity up to ``until``; long before any time where there is
        none.
        """
        latest = np.full(len(until), -FAR, np.int64)
        for time, has_precision in self.candidate_times(until, activity):
            fits = has_precision & (time <= until)
            latest = np.where(fits, np.maximum(latest, time), latest)
        return latest


def _is_daily(time: Ints, activity: Ints) -> Bools:
    """For each activity whether its times are quarters at one or two times of day, and not by their
    small number.
    """
    size = int(activity.max(initial=-1)) + 1
    time_of_day = time % _DAY
    events = np.bincount(activity, minlength=size)
    off_quarter = np.bincount(activity[time % _QUARTER != 0], minlength=size)
    off_midnight = np.bincount(activity[time_of_day != 0], minlength=size)
    pairs = np.unique(activity * _DAY + time_of_day)
    times_of_day = np.bincount(pairs // _DAY, minlength=size)
    is_repeated = (off_midnight == 0) | (events >= 3 * times_of_day)
    return np.asarray((off_quarter == 0) & (times_of_day <= 2) & is_repeated)


def _kept_by_season(time: Ints, activity: Ints, is_daily: Bools) -> dict[int, Ints]:
    """``TimePrecisions.by_season``: of the activities that have no other times of day than two an
    hour apart, all together where they follow one season, else those that do so alone.
    """
    time_of_day = time % _DAY
    found: dict[int, Ints] = {}
    of_daily, events = np.unique(time_of_day[is_daily[activity]], return_counts=True)
    # The season of the most events first.
    for earlier in of_daily[np.argsort(-events, kind="stable")]:
        has_other = np.zeros(len(is_daily), np.bool_)
        has_other[activity[~np.isin(time_of_day, [earlier, (earlier + _HOUR) % _DAY])]] = True
        together = is_daily & ~has_other
        together[list(found)] = False
        times = np.sort(time[together[activity]])
        if _follow_season(times):
            found |= dict.fromkeys(np.unique(activity[together[activity]]).tolist(), times)
    for each in set(np.flatnonzero(is_daily).tolist()) - found.keys():
        times = np.sort(time[activity == each])
        if _follow_season(times):
            found[each] = times
    return found


def _kept_around(time: Ints, kept: Ints) -> tuple[Ints, Ints]:
    """The last of ``kept`` up to each time and the first from it on; outside ``kept`` its nearest
    end. ``kept``: int64, ascending.
    """
    before = np.searchsorted(kept, time, side="right") - 1
    after = np.searchsorted(kept, time, side="left")
    return kept[np.maximum(before, 0)], kept[np.minimum(after, len(kept) - 1)]


def _follow_season(times: Ints) -> bool:
    """Whether daily times lie at two times of day, an hour apart, that change twice a year at most:
    midnight of a zone with summer time, as UTC shows it. ``times``: int64, ascending.
    """
    if len(times) == 0:
        return False
    time_of_day = times % _DAY
    apart = int(time_of_day.max() - time_of_day.min())
    half_years = (int(times[-1]) - int(times[0])) // (182 * _DAY) + 1
    changes = np.count_nonzero(np.diff(time_of_day))
    return bool(apart in (_HOUR, _DAY - _HOUR) and changes <= half_years + 1)


def units_of(time: Ints, is_daily: Bools) -> Ints:
    """For each time the index in ``UNITS`` of what it is a multiple of, coarsest first."""
    coarsest = np.argmax(time[:, None] % UNITS[1:] == 0, axis=1)
    return np.asarray(np.where(is_daily, 0, 1 + coarsest), np.int64)


@dataclass(frozen=True)
class UntimedEvents:
    """Events without a time, in the order of the log: each int64, shape (n,).

    - ``gap_index``: ascending; the same for events between the same two known times.
    - ``low``, ``high``: these times.
    - ``target_time``: near which time, ascending in each gap.
    - ``activity``.
    - ``donor``: the time of a kept event of the activity.
    - ``span``: the first and the last time of the log, left only where no candidate lies between.
    """

    gap_index: Ints
    low: Ints
    high: Ints
    target_time: Ints
    activity: Ints
    donor: Ints
    span: tuple[int, int]


def times_for(events: UntimedEvents, precisions: TimePrecisions) -> Ints:
    """A time for each: ascending in each gap, near its target, as precise as kept ones of its
    activity.

    Where no such time keeps the order, the time before it: the check of k-anonymity then takes the
    event away.
    """
    turns = _turns(events.gap_index)
    ceiling, fits = _ceilings(events, precisions, turns)
    time = events.low.copy()
    # Forwards: each event gets a time from that of the event before it up to its ceiling.
    for turn, rows in enumerate(turns):
        low = time[rows - 1] if turn else events.low[rows]
        nearest = _nearest_precise_time(events, precisions, rows, low, ceiling[rows])
        time[rows] = np.where(fits[rows], nearest, low)
    return time


def _turns(gap_index: Ints) -> list[Ints]:
    """The rows of the first event of each gap, of the second, and so on."""
    if not len(gap_index):
        return []
    start = np.flatnonzero(np.diff(gap_index, prepend=-1))
    lengths = np.diff(start, append=len(gap_index))
    step = np.arange(len(gap_index)) - np.repeat(start, lengths)
    order = np.argsort(step, kind="stable")
    return np.split(order, np.cumsum(np.bincount(step))[:-1])


def _ceilings(
    events: UntimedEvents, precisions: TimePrecisions, turns: list[Ints]
) -> tuple[Ints, Bools]:
    """The latest time that each event may have so that all behind it in its gap find one, and
    whether it may have one at all.
    """
    count = len(events.gap_index)
    is_last = np.append(events.gap_index[1:] != events.gap_index[:-1], True)
    ceiling = events.high.copy()
    fits = np.zeros(count, np.bool_)
    # Backwards: the ceiling of an event is its last candidate up to the ceiling of the next one.
    for rows in reversed(turns):
        next_row = np.minimum(rows + 1, count - 1)
        limit = np.where(is_last[rows], events.high[rows], ceiling[next_row])
        latest = precisions.latest_before(limit, events.activity[rows])
        fits[rows] = latest >= events.low[rows]
        ceiling[rows] = np.where(fits[rows], latest, limit)
    return ceiling, fits


def _nearest_precise_time(
    events: UntimedEvents, precisions: TimePrecisions, rows: Ints, low: Ints, high: Ints
) -> Ints:
    """For each of ``rows`` a candidate from ``low`` to ``high``: the donor's rest of the period if
    one such time lies there; else the first other candidate that does; else ``high``.
    """
    target = np.clip(events.target_time[rows], low, np.maximum(low, high))
    donor, activity = events.donor[rows], events.activity[rows]
    period = _PERIODS[units_of(donor, precisions.is_daily[activity])]
    like_donor = target + (donor - target) % period
    # ``high`` is a candidate itself.
    chosen = high.copy()
    remaining = np.arange(len(rows))
    first, last = events.span
    # Inside the log's span where possible.
    for least, most in ((np.maximum(low, first), np.minimum(high, last)), (low, high)):
        anyway = np.ones(len(remaining), np.bool_)
        of_donor = [
            (like_donor[remaining], anyway),
            ((like_donor - period)[remaining], anyway),
        ]
        of_activity = precisions.candidate_times(target[remaining], activity[remaining])
        of_donor = [
            (time, is_candidate & precisions.in_season(time, activity[remaining]))
            for time, is_candidate in of_donor
        ]
        candidates = chain(of_donor, of_activity)
        time, found = _first_between(least[remaining], most[remaining], candidates)
        chosen[remaining[found]] = time[found]
        remaining = remaining[~found]
    return chosen


def _first_between(
    least: Ints, most: Ints, candidates: Iterable[tuple[Ints, Bools]]
) -> tuple[Ints, Bools]:
    """For each row the first of ``candidates`` from ``least`` to ``most``, and whether there is
    one.
    """
    chosen = least.copy()
    found = np.zeros(len(least), np.bool_)
    for time, is_candidate in candidates:
        fits = ~found & is_candidate & (least <= time) & (time <= most)
        chosen[fits] = time[fits]
        found |= fits
    return chosen, found

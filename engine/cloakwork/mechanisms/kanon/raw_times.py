"""Times for inserted events where times are released as they are: as precise as the times of kept
events.

An activity is daily if all its kept times lie on quarters of an hour, at one or two times of day:
midnight, in UTC or in any zone, in summer and in winter. An inserted event of it has such a time of
day. Of any other activity, a time is as precise as a kept one: in hours, quarters of an hour,
minutes, seconds, milliseconds or microseconds. An inserted event repeats what is left of the next
coarser unit in a kept time, if its place in the case allows; it is never more precise than all kept
ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_DAY: Final = 86_400_000_000
_HOUR: Final = 3_600_000_000
_QUARTER: Final = 900_000_000
UNITS: Final = np.array([_QUARTER, _HOUR, _QUARTER, 60_000_000, 1_000_000, 1_000, 1], np.int64)
"""Microseconds: of the times of daily activities; then an hour, a quarter, a minute, down to a
microsecond.
"""
_ABOVE: Final = np.array([_DAY, _DAY, *UNITS[1:-1]], np.int64)
"""For each unit the period after which its times repeat: a day, or the next coarser unit."""
FAR: Final = 2**61
"""Microseconds; before and behind any time."""


@dataclass(frozen=True)
class Patterns:
    """The precisions of kept events: ``codes``, int64, sorted, of (activity, unit, rest of the
    period); and for each activity whether it is daily: bool.
    """

    codes: Ints
    daily: Flags

    @classmethod
    def of(cls, time: Ints, activity: Ints) -> "Patterns":
        """Those of ``time`` (int64, microseconds, shape (n,)), by ``activity`` (int64, shape (n,))."""
        daily = _daily(time, activity)
        unit = units_of(time, daily[activity])
        return cls(np.unique((activity * len(UNITS) + unit) * _DAY + time % _ABOVE[unit]), daily)

    def points(self, at: Ints, activity: Ints) -> Iterator[tuple[Ints, Flags]]:
        """Candidates near ``at``, of each precision of the activity, finest first: what kept events
        repeat; then any time just as precise; then any time no more precise. Each with whether
        there is one.
        """
        for unit in range(len(UNITS) - 1, -1, -1):
            key = activity * len(UNITS) + unit
            first, end = (np.searchsorted(self.codes, edge * _DAY) for edge in (key, key + 1))
            rest, period = at % _ABOVE[unit], _ABOVE[unit]
            there = end > first
            for side, wrap, step in (("left", first, 0), ("right", end - 1, 1)):
                index = (
                    np.searchsorted(
                        self.codes, key * _DAY + rest, side="left" if side == "left" else "right"
                    )
                    - step
                )
                over = np.where(index >= end, 1, np.where(index < first, -1, 0))
                code = self.codes[np.clip(np.where(over == 0, index, wrap), 0, len(self.codes) - 1)]
                yield at - rest + (code - key * _DAY) + over * period, there
        for just, unit in product((True, False), range(len(UNITS) - 1, 0, -1)):
            key = activity * len(UNITS) + unit
            there = np.searchsorted(self.codes, (key + 1) * _DAY) > np.searchsorted(
                self.codes, key * _DAY
            )
            later, earlier = -(-at // UNITS[unit]) * UNITS[unit], at // UNITS[unit] * UNITS[unit]
            yield later + UNITS[unit] * (just & (later % _ABOVE[unit] == 0)), there
            yield earlier - UNITS[unit] * (just & (earlier % _ABOVE[unit] == 0)), there

    def latest(self, until: Ints, activity: Ints) -> Ints:
        """The last point of each activity up to ``until``; far before any time where there is none."""
        best = np.full(len(until), -FAR, np.int64)
        for point, there in self.points(until, activity):
            best = np.where(there & (point <= until), np.maximum(best, point), best)
        return best


def _daily(time: Ints, activity: Ints) -> Flags:
    """For each activity whether its times are quarters at one or two times of day, and not by their
    small number.
    """
    size = int(activity.max(initial=-1)) + 1
    events, finer, late = (
        np.bincount(activity[rows], minlength=size)
        for rows in (np.ones(len(time), np.bool_), time % _QUARTER != 0, time % _DAY != 0)
    )
    distinct = np.bincount(np.unique(activity * _DAY + time % _DAY) // _DAY, minlength=size)
    return np.asarray((finer == 0) & (distinct <= 2) & ((late == 0) | (events >= 3 * distinct)))


def units_of(time: Ints, daily: Flags) -> Ints:
    """For each time the place in ``UNITS`` of what it is a multiple of, coarsest first."""
    return np.asarray(
        np.where(daily, 0, 1 + np.argmax(time[:, None] % UNITS[1:] == 0, axis=1)), np.int64
    )


@dataclass(frozen=True)
class Places:
    """Events without a time, in the order of the log: each int64, shape (n,).

    ``run``: ascending; those between the same two known times. ``low``, ``high``: these times.
    ``aim``: near which time, ascending in each run. ``activity``. ``donor``: the time of a kept
    event of the activity. ``span``: the first and the last time of the log, left only where no
    point lies between.
    """

    run: Ints
    low: Ints
    high: Ints
    aim: Ints
    activity: Ints
    donor: Ints
    span: tuple[int, int]


def placed(places: Places, patterns: Patterns) -> Ints:
    """A time for each: ascending in each run, near its aim, as precise as kept ones of its
    activity.

    Where no such time keeps the order, the time before it: the check of k-anonymity then takes the
    event away.
    """
    start = np.flatnonzero(np.diff(places.run, prepend=-1))
    step = np.arange(len(places.run)) - np.repeat(start, np.diff(start, append=len(places.run)))
    order = np.argsort(step, kind="stable")
    turns = np.split(order, np.cumsum(np.bincount(step))[:-1]) if len(order) else []
    ceiling, fits = places.high.copy(), np.zeros(len(order), np.bool_)
    last = np.append(places.run[1:] != places.run[:-1], True)
    for rows in reversed(turns):
        behind = np.where(
            last[rows], places.high[rows], ceiling[np.minimum(rows + 1, len(order) - 1)]
        )
        point = patterns.latest(behind, places.activity[rows])
        fits[rows] = point >= places.low[rows]
        ceiling[rows] = np.where(fits[rows], point, behind)
    time = places.low.copy()
    for turn, rows in enumerate(turns):
        low = time[rows - 1] if turn else places.low[rows]
        time[rows] = np.where(fits[rows], _chosen(places, patterns, rows, low, ceiling[rows]), low)
    return time


def _chosen(places: Places, patterns: Patterns, rows: Ints, low: Ints, high: Ints) -> Ints:
    """For each of ``rows`` a point from ``low`` to ``high``: the donor's pattern if one lies there;
    else the first other that does; else ``low``.
    """
    aim = np.clip(places.aim[rows], low, np.maximum(low, high))
    donor = places.donor[rows]
    period = _ABOVE[units_of(donor, patterns.daily[places.activity[rows]])]
    later = aim + (donor - aim) % period
    chosen, open_ = low.copy(), np.arange(len(rows))
    first, last = places.span
    for least, most in ((np.maximum(low, first), np.minimum(high, last)), (low, high)):
        for point in (later, later - period):
            fits = (least[open_] <= point[open_]) & (point[open_] <= most[open_])
            chosen[open_[fits]] = point[open_[fits]]
            open_ = open_[~fits]
        found = np.zeros(len(open_), np.bool_)
        for point, there in (
            patterns.points(aim[open_], places.activity[rows[open_]]) if len(open_) else ()
        ):
            fits = ~found & there & (least[open_] <= point) & (point <= most[open_])
            chosen[open_[fits]] = point[fits]
            found |= fits
        open_ = open_[~found]
    chosen[open_] = high[open_]  # a point itself
    return chosen

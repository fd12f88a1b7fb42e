"""Times for inserted events where times are released as they are: as precise as the times of kept events.

What a time shows by its precision: a quarter of an hour shows its time of day (so the midnight of any zone shows, in
summer and in winter); any other time shows the coarsest of minute, second, millisecond and microsecond of which it is a
multiple. An inserted event shows what a kept event of its activity shows, wherever its place in the case allows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloakwork.noise import Noise

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_DAY: Final = 86_400_000_000
UNITS: Final = np.array([900_000_000, 60_000_000, 1_000_000, 1_000, 1], np.int64)
"""Microseconds: a quarter of an hour, a minute, a second, a millisecond, a microsecond."""
_ABOVE: Final = np.array([_DAY, *UNITS[:-1]], np.int64)
"""For each unit the period after which its times repeat: the next coarser unit; for quarters of an hour, a day."""
FAR: Final = 2**61
"""Microseconds; before and behind any time."""


@dataclass(frozen=True)
class Patterns:
    """The precisions that kept events of each activity have: int64, sorted; (activity, unit, rest of the period)."""

    codes: Ints

    @classmethod
    def of(cls, time: Ints, activity: Ints) -> "Patterns":
        """Those of ``time`` (int64, microseconds, shape (n,)), by ``activity`` (int64, shape (n,))."""
        unit = units_of(time)
        return cls(np.unique((activity * len(UNITS) + unit) * _DAY + time % _ABOVE[unit]))

    def points(self, at: Ints, activity: Ints) -> Iterator[tuple[Ints, Flags]]:
        """Candidates near ``at``, of each precision of the activity, finest first: those of kept events, then any that
        are as precise; each with whether there is one."""
        for unit in range(len(UNITS) - 1, -1, -1):
            key = activity * len(UNITS) + unit
            first, end = (np.searchsorted(self.codes, edge * _DAY) for edge in (key, key + 1))
            rest, period = at % _ABOVE[unit], _ABOVE[unit]
            there = end > first
            for side, wrap, step in (("left", first, 0), ("right", end - 1, 1)):
                index = np.searchsorted(self.codes, key * _DAY + rest, side="left" if side == "left" else "right") - step
                over = np.where(index >= end, 1, np.where(index < first, -1, 0))
                code = self.codes[np.clip(np.where(over == 0, index, wrap), 0, len(self.codes) - 1)]
                yield at - rest + (code - key * _DAY) + over * period, there
        for unit in range(len(UNITS) - 1, 0, -1):
            key = activity * len(UNITS) + unit
            first, end = (np.searchsorted(self.codes, edge * _DAY) for edge in (key, key + 1))
            later, earlier = -(-at // UNITS[unit]) * UNITS[unit], at // UNITS[unit] * UNITS[unit]
            yield later + UNITS[unit] * (later % _ABOVE[unit] == 0), end > first
            yield earlier - UNITS[unit] * (earlier % _ABOVE[unit] == 0), end > first

    def latest(self, until: Ints, activity: Ints) -> Ints:
        """The last point of each activity up to ``until``; far before any time where there is none."""
        best = np.full(len(until), -FAR, np.int64)
        for point, there in self.points(until, activity):
            best = np.where(there & (point <= until), np.maximum(best, point), best)
        return best


def units_of(time: Ints) -> Ints:
    """For each time the place of the coarsest of ``UNITS`` of which it is a multiple."""
    return np.asarray(np.argmax(time[:, None] % UNITS == 0, axis=1), np.int64)


@dataclass(frozen=True)
class Places:
    """Events without a time, in the order of the log: each int64, shape (n,).

    ``run``: ascending; those between the same two known times. ``low``, ``high``: these times. ``aim``: near which time,
    ascending in each run. ``activity``. ``donor``: the time of a kept event of the activity.
    """

    run: Ints
    low: Ints
    high: Ints
    aim: Ints
    activity: Ints
    donor: Ints


def placed(places: Places, patterns: Patterns) -> Ints:
    """A time for each: ascending in each run, near its aim, as precise as kept ones of its activity.

    Where no such time keeps the order, the time before it: the check of k-anonymity then takes the event away.
    """
    start = np.flatnonzero(np.diff(places.run, prepend=-1))
    step = np.arange(len(places.run)) - np.repeat(start, np.diff(start, append=len(places.run)))
    order = np.argsort(step, kind="stable")
    turns = np.split(order, np.cumsum(np.bincount(step))[:-1]) if len(order) else []
    ceiling, fits = places.high.copy(), np.zeros(len(order), np.bool_)
    last = np.append(places.run[1:] != places.run[:-1], True)
    for rows in reversed(turns):
        behind = np.where(last[rows], places.high[rows], ceiling[np.minimum(rows + 1, len(order) - 1)])
        point = patterns.latest(behind, places.activity[rows])
        fits[rows] = point >= places.low[rows]
        ceiling[rows] = np.where(fits[rows], point, behind)
    time = places.low.copy()
    for turn, rows in enumerate(turns):
        low = time[rows - 1] if turn else places.low[rows]
        time[rows] = np.where(fits[rows], _chosen(places, patterns, rows, low, ceiling[rows]), low)
    return time


def _chosen(places: Places, patterns: Patterns, rows: Ints, low: Ints, high: Ints) -> Ints:
    """For each of ``rows`` a point from ``low`` to ``high``: the donor's pattern if one lies there; else the first other
    that does; else ``low``."""
    aim = np.clip(places.aim[rows], low, np.maximum(low, high))
    donor = places.donor[rows]
    period = _ABOVE[units_of(donor)]
    later = aim + (donor - aim) % period
    chosen, open_ = low.copy(), np.ones(len(rows), np.bool_)
    near = ((later, open_), (later - period, open_))
    for point, there in (*near, *patterns.points(aim, places.activity[rows]), (high, high <= high)):
        fits = open_ & there & (low <= point) & (point <= high)
        chosen, open_ = np.where(fits, point, chosen), open_ & ~fits
    return chosen

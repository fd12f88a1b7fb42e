"""Bins of spans of time on a log scale, and local time by the hours of a week."""

from datetime import timedelta
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.clocks import ahead_of_utc
from cloakwork.base.facts import Window
from cloakwork.base.frozen import frozen
from cloakwork.kernel.perturb import Grid

DAY: Final = 86_400_000_000
"""Microseconds."""

HOUR: Final = DAY // 24

WEEK: Final = 7 * DAY

MONDAY: Final = 4 * DAY
"""The first Monday, 0:00: 1970-01-01 was a Thursday."""


@frozen
class LogBins:
    """Spans of 0 to ``longest`` grid steps in bins of equal width on the scale of log(1 + steps),
    as far as steps are whole: bin i holds ``edges[i]`` to ``edges[i + 1] - 1``.

    ``edges``: int64, shape (bins + 1,), strictly ascending, from 0 to ``longest`` + 1.
    """

    edges: Ints

    @classmethod
    def up_to(cls, longest: int, bins: int) -> "LogBins":
        """At most so many."""
        scale = np.expm1(np.linspace(0.0, np.log1p(longest + 1), bins + 1))
        inner = np.rint(scale[1:-1]).astype(np.int64)
        # Of edges that are rounded to one, or out of the range, fewer bins are made.
        inner = np.unique(inner[(inner > 0) & (inner <= longest)])
        return cls(np.concatenate([[0], inner, [longest + 1]]).astype(np.int64))

    def __len__(self) -> int:
        """How many bins there are."""
        return len(self.edges) - 1

    def place(self, steps: Ints) -> Ints:
        """The bin of each span; those outside count at the edge."""
        inside = np.clip(steps, 0, self.edges[-1] - 1)
        return np.searchsorted(self.edges, inside, side="right") - 1

    def inside(self, place: Ints, part: Floats) -> Ints:
        """A span of each bin at ``place``: that at ``part`` (0 to 1) of its width on the scale."""
        first = self.edges[place]
        behind = self.edges[place + 1]
        low = np.log1p(first)
        high = np.log1p(behind)
        steps = np.floor(np.expm1(low + part * (high - low)))
        return np.asarray(np.clip(steps.astype(np.int64), first, behind - 1))


_EVER: Final = np.array([-(1 << 62), 1 << 62])
"""Steps beyond every calendar, at both ends."""


@frozen
class Clock:
    """Local time, in steps of the grid: that of ``zone`` (an IANA name), summer time and all; else
    as far ahead of UTC as the grid's epoch is.

    ``hours``: of a day that are distinguished: 24, or 1 where the grid is a day or more.
    """

    grid: Grid
    hours: int
    zone: str | None = None

    @classmethod
    def of(cls, grid: Grid, zone: str | None = None) -> "Clock":
        """Of a grid."""
        return cls(grid, 24 if grid.step < timedelta(days=1) else 1, zone)

    @property
    def slots(self) -> int:
        """Of a week: its hours, or days."""
        return 7 * self.hours

    @property
    def slot_width(self) -> int:
        """Microseconds of a slot."""
        return DAY // self.hours

    @property
    def microseconds(self) -> int:
        """Of a step of the grid."""
        return self.grid.step // timedelta(microseconds=1)

    def ahead(self, instants: Ints) -> Ints:
        """By how much local time is ahead of UTC at ``instants``; all three in microseconds."""
        if self.zone is None:
            offset = self.grid.epoch.utcoffset() or timedelta()
            return np.full(len(instants), offset // timedelta(microseconds=1))
        # Beyond the years that a calendar has, clocks go as at its edge.
        first, last = self.grid.microseconds(_EVER).tolist()
        return ahead_of_utc(np.clip(instants, first, last), self.zone)

    def inside(self, window: Window) -> tuple[int, int]:
        """The first and the last step in a window; where it holds none, twice the first behind its
        start.
        """
        first = -((self.grid.epoch - window.start) // self.grid.step)
        last = (window.end - self.grid.epoch) // self.grid.step
        return first, max(first, last)

    def local(self, steps: Ints) -> Ints:
        """Microseconds since 1970-01-01 00:00, by the local clock."""
        instants = self.grid.microseconds(steps)
        return instants + self.ahead(instants)

    def steps(self, local: Ints) -> Ints:
        """The first step of the grid that is not before a local time. Of one that a clock shows
        twice either is found, and of one that it leaps over, one beside it.
        """
        local = np.asarray(local)
        epoch = int(self.grid.microseconds(np.zeros(1, np.int64))[0])
        # Twice: what clocks are ahead by may be otherwise at the first guess.
        guess = local - self.ahead(local)
        instants = local - self.ahead(guess)
        # Rounded up: the quotient of the negative, rounded down.
        return -((epoch - instants) // self.microseconds)

    def day(self, steps: Ints) -> Ints:
        """Days since 1970-01-01."""
        return self.local(steps) // DAY

    def slot(self, steps: Ints) -> Ints:
        """The hour of the week (or day, where the grid is a day or more), from Monday 0:00."""
        return (self.local(steps) - MONDAY) % WEEK // self.slot_width

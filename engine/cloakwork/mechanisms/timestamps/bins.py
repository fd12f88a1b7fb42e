"""Bins of spans of time on a log scale, and local time by the hours of a week."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.facts import Window
from cloakwork.kernel.perturb import Grid

DAY: Final = 86_400_000_000
"""Microseconds."""

HOUR: Final = DAY // 24

WEEK: Final = 7 * DAY

MONDAY: Final = 4 * DAY
"""The first Monday, 0:00: 1970-01-01 was a Thursday."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Clock:
    """Local time, which is that of the zone of the grid's epoch, in steps of the grid.

    ``hours``: of a day that are distinguished: 24, or 1 where the grid is a day or more.
    """

    grid: Grid
    hours: int

    @classmethod
    def of(cls, grid: Grid) -> "Clock":
        """Of a grid."""
        return cls(grid, 24 if grid.step < timedelta(days=1) else 1)

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

    @property
    def ahead(self) -> int:
        """Microseconds by which local time is ahead of UTC."""
        offset = self.grid.epoch.utcoffset()
        return 0 if offset is None else int(offset.total_seconds() * 1_000_000)

    def inside(self, window: Window) -> tuple[int, int]:
        """The first and the last step in a window; where it holds none, twice the first behind its
        start.
        """
        first = -((self.grid.epoch - window.start) // self.grid.step)
        last = (window.end - self.grid.epoch) // self.grid.step
        return first, max(first, last)

    def local(self, steps: Ints) -> Ints:
        """Microseconds since 1970-01-01 00:00, by the local clock."""
        return self.grid.microseconds(steps) + self.ahead

    def steps(self, local: Ints) -> Ints:
        """The first step of the grid that is not before a local time."""
        epoch = int(self.grid.microseconds(np.zeros(1, np.int64))[0])
        # Rounded up: the quotient of the negative, rounded down.
        return -((epoch - (np.asarray(local) - self.ahead)) // self.microseconds)

    def day(self, steps: Ints) -> Ints:
        """Days since 1970-01-01."""
        return self.local(steps) // DAY

    def slot(self, steps: Ints) -> Ints:
        """The hour of the week (or day, where the grid is a day or more), from Monday 0:00."""
        return (self.local(steps) - MONDAY) % WEEK // self.slot_width

"""Public bounds of noisy times, and of released ones."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.base.facts import Window

READABLE: Final = Window(
    start=datetime(1678, 1, 1, tzinfo=UTC), end=datetime(2262, 1, 1, tzinfo=UTC)
)
"""The times that readers counting nanoseconds in 64 bits can hold; released times stay inside
unless declared otherwise.
"""

LONGEST_SUM: Final = 2**61
"""Gaps are bounded so that a case's sum of them stays below: int64 sums never wrap."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Public bounds, in grid steps, never taken from the log; None where there is none.

    ``start``: noisy starts are moved into it. ``longest_gap``: noisy gaps are moved into
    ``[-longest_gap, longest_gap]``: symmetric, so that noise on a short gap keeps its mean.
    ``released``: every released time lies in it.
    """

    released: tuple[int, int]
    start: tuple[int, int] | None = None
    longest_gap: int | None = None

    def starts_inside(self, starts: Ints) -> Ints:
        """Noisy starts, moved inside: int64."""
        return np.clip(starts, *(self.start or self.released))

    def gaps_inside(self, gaps: Ints) -> Ints:
        """Noisy gaps, moved inside: int64."""
        most = LONGEST_SUM // 2
        if self.longest_gap is not None:
            most = min(most, self.longest_gap)
        return np.clip(gaps, -most, most)

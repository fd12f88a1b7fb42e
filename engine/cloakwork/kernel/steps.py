"""Gradient steps under noise: DP-SGD (Song et al. 2013; Abadi et al. 2016), without a framework.

Each step draws a Poisson sample of the units, sums a gradient of each case in it, clipped in L2 and
in whole grid steps, and adds discrete Gaussian noise: integers throughout, so the noise is exact.
What stays in floating point is the gradient of a case by itself: its last bits may depend on how
many cases are computed at once, as those of any sum of floats.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeGuard

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.privacy_event import PoissonSampled, PrivacyEvent
from cloakwork.kernel.cases import Cases
from cloakwork.kernel.gradients import (
    Factors,
    Moves,
    clipped_factors,
    clipped_rows,
    length_chunks,
    moves_apart,
)
from cloakwork.kernel.noises import Gaussian
from cloakwork.kernel.silence import Silently
from cloakwork.noise import drawn_rate, drawn_sigma

Gradient = Callable[[Floats, Cases, int], Floats | Sequence[Factors]]
"""From parameters (float64, shape (size,), read-only), cases and the number of the step (from 0) to
a gradient of each case: a pure function, in which no case's gradient depends on another case.

Either one row a case (float64, shape (cases, size)); or the factors of each matrix of weights, of
which the parameters are the entries, row by row, one matrix after another. What is random in a
step follows from its number, so it is the same for all cases.
"""

Update = Callable[[Floats, Floats], Floats]
"""From parameters and a noisy mean gradient to new parameters, all of shape (size,)."""


LONGEST_CLIP: Final = 1 << 30
"""Grid steps: the square of a clip stays within int64."""

CASES_AT_ONCE: Final = 1 << 11
EVENTS_AT_ONCE: Final = 1 << 16
"""What a gradient is asked for at a time, counting all cases as long as the longest."""


@dataclass(frozen=True, slots=True)
class Descent:
    """How gradient steps are taken; none of it may follow from data.

    ``times``: how many steps. ``rate``: with which probability a unit is in the sample of one.
    ``grid``: the size of a grid step, in the gradient's unit. ``clip``: what each case's gradient
    is clipped to (L2), in grid steps. ``noise``: on each number of the sum. ``denominator``: what
    the sum is divided by, such as the declared number of cases times ``rate``.
    """

    times: int
    rate: float
    grid: float
    clip: int
    noise: Gaussian
    denominator: float

    def __post_init__(self) -> None:
        if not 1 <= self.clip <= LONGEST_CLIP:
            raise ValueError(f"a clip lies between 1 and {LONGEST_CLIP:,} grid steps")
        if not (0 < self.grid < math.inf and 0 < self.denominator < math.inf):
            raise ValueError("a grid step and a denominator are positive numbers")

    @classmethod
    def of(
        cls,
        *,
        times: int,
        rate: float,
        norm: float,
        multiplier: float,
        denominator: float,
        max_cases: int = 1,
    ) -> "Descent":
        """Steps on a fine grid. ``norm``: what a case's gradient is clipped to, in its own unit;
        ``multiplier``: deviations of the noise to what a unit of ``max_cases`` cases moves a sum
        by.
        """
        sigma = drawn_sigma(multiplier * max_cases * LONGEST_CLIP)
        grid = norm / LONGEST_CLIP
        return cls(times, rate, grid, LONGEST_CLIP, Gaussian(sigma), denominator)

    def event(self, size: int, max_cases: int) -> PrivacyEvent:
        """What one step costs, for ``size`` parameters and units of ``max_cases`` cases."""
        moved = self.noise.event_of_vector(max_cases * self.clip, size)
        return PoissonSampled(rate=drawn_rate(self.rate), event=moved)

    def summed(
        self, gradient: Gradient, parameters: Floats, cases: Cases, counts: Ints, step: int
    ) -> Ints:
        """The sum of the gradients of the cases, that of case i ``counts[i]`` times, in grid steps:
        int64, shape (size,).
        """
        total = np.zeros(len(parameters), np.int64)
        for rows in length_chunks(cases.lengths, CASES_AT_ONCE, EVENTS_AT_ONCE):
            total += self.clipped(gradient, parameters, cases.take(rows), step).summed(counts[rows])
        return total

    def clipped(self, gradient: Gradient, parameters: Floats, cases: Cases, step: int = 0) -> Moves:
        """The gradient of each case in grid steps, within the clip.

        A case that it fails on has zeros, silently: that it failed would tell of one case.
        """
        # A copy that is read-only: a gradient changes nothing that the next one is told.
        parameters = np.array(parameters, np.float64)
        parameters.flags.writeable = False
        size = len(parameters)

        def find(batch: Cases) -> Moves:
            found = gradient(parameters, batch, step)
            if _are_factors(found):
                return clipped_factors(found, len(batch), size, self.grid, self.clip)
            return clipped_rows(found, len(batch), size, self.grid, self.clip)

        with Silently():
            return find(cases)
        return moves_apart(lambda row: find(cases.take(np.array([row]))), len(cases), size)


def _are_factors(found: object) -> TypeGuard[Sequence[Factors]]:
    if not isinstance(found, list | tuple) or not found:
        return False
    return all(isinstance(each, Factors) for each in found)

"""Gradient steps under noise: DP-SGD (Song et al. 2013; Abadi et al. 2016), without a framework.

Each step draws a Poisson sample of the units, sums a gradient of each case in it, clipped in L2 and
in whole grid steps, and adds discrete Gaussian noise: integers throughout, so the noise is exact.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cloakwork.arrays import Floats, Ints
from cloakwork.kernel.cases import Cases
from cloakwork.kernel.noises import Gaussian
from cloakwork.kernel.silence import Silently
from cloakwork.kernel.vectors import MOST
from cloakwork.noise import drawn_rate
from cloakwork.privacy_event import PoissonSampled, PrivacyEvent

Gradient = Callable[[Floats, Cases], Floats]
"""From parameters (float64, shape (size,), read-only) and cases to a gradient of each case
(float64, shape (cases, size)): a pure function, in which no case's gradient depends on another
case.
"""

Update = Callable[[Floats, Floats], Floats]
"""From parameters and a noisy mean gradient to new parameters, all of shape (size,)."""


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
        if not 1 <= self.clip <= MOST:
            raise ValueError(f"a clip lies between 1 and {MOST:,} grid steps")
        if not (0 < self.grid < math.inf and 0 < self.denominator < math.inf):
            raise ValueError("a grid step and a denominator are positive numbers")

    def event(self, size: int, max_cases: int) -> PrivacyEvent:
        """What one step costs, for ``size`` parameters and units of ``max_cases`` cases."""
        moved = self.noise.event_of_vector(max_cases * self.clip, size)
        return PoissonSampled(rate=drawn_rate(self.rate), event=moved)

    def clipped(self, gradient: Gradient, parameters: Floats, cases: Cases) -> Ints:
        """The gradient of each case in grid steps, within the clip: int64, shape (cases, size).

        A case that it fails on has zeros, silently: that it failed would tell of one case.
        """
        # A copy that is read-only: a gradient changes nothing that the next one is told.
        parameters = np.array(parameters, np.float64)
        parameters.flags.writeable = False
        found = None
        with Silently():
            found = _well_formed(gradient(parameters, cases), (len(cases), len(parameters)))
        if found is None:
            found = _gradients_apart(gradient, parameters, cases)
        return _within(found, self.grid, self.clip)


def _gradients_apart(gradient: Gradient, parameters: Floats, cases: Cases) -> Floats:
    """Those of each case by itself."""
    found = np.zeros((len(cases), len(parameters)))
    for row in range(len(cases)):
        with Silently():
            of_one = gradient(parameters, cases.take(np.array([row])))
            found[row] = _well_formed(of_one, (1, len(parameters)))
    return found


def _well_formed(found: Floats, shape: tuple[int, int]) -> Floats:
    """Numbers of this shape, 0 for what is not finite."""
    values = np.asarray(found, np.float64)
    if values.shape != shape:
        raise ValueError(f"a gradient has the shape {shape}")
    return np.where(np.isfinite(values), values, 0.0)


def _within(values: Floats, grid: float, most: int) -> Ints:
    """Rows in steps of ``grid``, each scaled down to a Euclidean norm of ``most`` where it is
    longer, and rounded towards zero: int64.
    """
    # Relative to the largest value of the row, so that no square overflows.
    largest = np.abs(values).max(axis=1, keepdims=True, initial=0.0)
    shares = values / np.where(largest > 0, largest, 1.0)
    norms = np.maximum(np.sqrt(np.square(shares).sum(axis=1, keepdims=True)), 1.0)
    with np.errstate(over="ignore"):
        kept = np.minimum(norms * (largest / grid), most)
    steps: Ints = np.trunc(shares * (kept / norms)).astype(np.int64)
    # Floats may have come out a step too long: integers decide.
    while (too_long := (steps * steps).sum(axis=1) > most**2).any():
        steps[too_long] -= np.sign(steps[too_long])
    return steps

"""Privacy loss distributions as arrays, composed so that every figure is proved to err upwards.

A fast Fourier transform (FFT) errs by about 1e-16 of the *whole* mass in every cell, which swamps a
tail of 1e-12. Here

- every leaf is raised by more than its own rounding can have lowered it (``with_margin``);
- leaves are convolved under an exponential tilt, which moves the tail that is asked for into the
  middle, and the bound of the transform's error is added to every cell before the tilt is taken
  back: there it is a small share of the tail;
- of several tilts each cell keeps the least bound.

All masses are upper bounds, and delta at epsilon is a sum of masses with weights that are not
negative, so it is an upper bound, too. The derivation of each constant is in docs/decisions/06.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from cloakwork.base.arrays import Complexes, Floats
from cloakwork.base.frozen import frozen

_U: Final = 2.0**-53
"""Unit round-off of IEEE double precision."""

_PER_LEVEL: Final = 16 * _U
"""By how much one level of a radix-2 transform errs at most, relative to the masses that enter it.
"""

_CUT: Final = 1e-30
"""Mass above the window, which is charged as a certain loss, and below it, which is moved up to its
lowest cell.
"""

_TAILS: Final = (1e-7, 1e-17)
"""Tail masses on which the tilts aim."""


@dataclass(frozen=True)
class LossDistribution:
    """Cell i holds a mass of at least that of the losses ``(lowest + i) * step``; ``infinite``:
    mass without any bound.
    """

    step: float
    lowest: int
    masses: Floats
    infinite: float

    @cached_property
    def losses(self) -> Floats:
        """The loss of each cell, in nats."""
        return np.asarray((self.lowest + np.arange(len(self.masses))) * self.step, np.float64)

    @cached_property
    def variance(self) -> float:
        """Of the losses that have a bound; 0 without mass."""
        total = float(self.masses.sum())
        if total <= 0:
            return 0.0
        mean = float((self.losses * self.masses).sum()) / total
        squares = (self.losses - mean) ** 2
        return float((squares * self.masses).sum()) / total

    def tilted(self, tilt: float) -> tuple[Floats, float]:
        """The masses times ``exp(tilt * loss - height)``, rounded up, with a ``height`` at which
        they add up to at most 1.
        """
        exponents = tilt * self.losses
        height = _log_moment(self.losses, self.masses, tilt)
        if height == -math.inf:
            return np.zeros(len(self.masses)), 0.0
        height += 64 * _U * (len(self.masses) + float(np.abs(exponents).max()) + abs(height) + 8)
        slack = 4 * _U * (np.abs(exponents) + abs(height) + 4)
        return self.masses * np.exp(exponents - height) * (1 + slack), height

    def with_margin(self, share: float, cells: int) -> "LossDistribution":
        """Add ``share`` of the masses a second time, ``cells`` further up.

        Delta at any epsilon rises by at least ``share * (1 - exp(-cells * step))`` of the mass
        above epsilon: enough to cover an error that is bounded relative to that mass.
        """
        masses = np.concatenate([self.masses, np.zeros(cells)])
        masses[cells:] += share * self.masses
        # Each cell was rounded a few times; a larger mass only errs upwards.
        return LossDistribution(
            self.step,
            self.lowest,
            masses * (1 + 8 * _U),
            self.infinite,
        )

    def delta_at(self, epsilon: float) -> float:
        """An upper bound of the hockey-stick divergence at ``epsilon >= 0``."""
        # A mass with loss l above epsilon counts with the weight 1 - exp(epsilon - l).
        above = self.losses > epsilon
        weights = -np.expm1(np.minimum(epsilon - self.losses[above], 0.0))
        weighted = weights * self.masses[above]
        return min(1.0, (self.infinite + float(weighted.sum())) * (1 + 1e-12))

    @cached_property
    def _positive(self) -> tuple[Floats, Floats, Floats, Floats]:
        """The losses above 0; bounds of the mass from each on, from above, and of the same times
        exp(-loss), from below; and delta just below each.
        """
        first = max(0, 1 - self.lowest)
        losses = self.losses[first:]
        masses = self.masses[first:]
        # Sums from above, each rounded to the safe side.
        slack = (len(masses) + 8) * _U
        mass_above = np.cumsum(masses[::-1])[::-1]
        weighted_above = np.cumsum((masses * np.exp(-losses))[::-1])[::-1]
        upper = (mass_above * (1 + slack)) + self.infinite
        lower = weighted_above * (1 - slack)
        # Just below a loss, its cell counts and all above it. 700: beyond, exp overflows.
        deltas = upper - np.exp(np.minimum(losses, 700.0)) * lower
        return losses, upper, lower, deltas

    def epsilon_at(self, delta: float) -> float:
        """The least epsilon >= 0 at which delta is proved to be at most ``delta``; infinite when
        there is none.
        """
        if self.infinite > delta:
            return math.inf
        # Losses up to 0 never count: epsilon is not below 0.
        losses, upper, lower, deltas = self._positive
        if not len(losses) or upper[0] - lower[0] <= delta:
            return 0.0
        over = np.flatnonzero(deltas > delta)
        last = int(over[-1]) if len(over) else -1
        if last + 1 >= len(losses):
            return float(losses[-1])
        # Between two cells delta is upper - exp(epsilon) lower: solved for epsilon.
        edge = float(losses[last + 1])
        if lower[last + 1] <= 0 or upper[last + 1] <= delta:
            return edge
        found = math.log((upper[last + 1] - delta) / lower[last + 1])
        return max(0.0, min(edge, found * (1 + 8 * _U) + 8 * _U))


WeightedLeaves = Sequence[tuple[LossDistribution, int]]
"""What is composed: distributions on one step, each with how often it is run."""


def compose(leaves: WeightedLeaves) -> LossDistribution:
    """The losses of all ``leaves``, each run so many times, on their common step."""
    if len(leaves) == 1 and leaves[0][1] == 1:
        return leaves[0][0]
    step = leaves[0][0].step
    # The logarithm of the probability that no run has an infinite loss.
    log_finite = sum(times * math.log1p(-min(leaf.infinite, 1 - _U)) for leaf, times in leaves)
    infinite = min(1.0, -math.expm1(log_finite) * (1 + 1e-12))
    orders, above, below = _log_moments(leaves)
    window = _Window.of(leaves, orders, above, below)
    # Without a tilt, and with those at which Chernoff's bound reaches down to a tail first.
    tilts = {0.0}
    for tail in _TAILS:
        reach = (above - math.log(tail)) / orders
        tilts.add(float(orders[np.argmin(reach)]))
    bounds = [_tilted_convolution(leaves, window, tilt) for tilt in sorted(tilts)]
    masses = np.minimum.reduce(bounds)
    masses[0] += window.cut_below
    return LossDistribution(
        step,
        window.lowest,
        masses,
        min(1.0, infinite + window.cut_above),
    )


def _log_moments(leaves: WeightedLeaves) -> tuple[Floats, Floats, Floats]:
    """Orders s > 0, and the logarithms of the moments E[exp(s loss)] and E[exp(-s loss)] of the
    composition.
    """
    variance = sum(times * part.variance for part, times in leaves)
    # Useful orders are of the size of one over the deviation of the composed loss.
    deviation = max(math.sqrt(variance), leaves[0][0].step)
    orders = np.geomspace(0.03, 50, 30) / deviation
    above = np.zeros(len(orders))
    below = np.zeros(len(orders))
    for part, times in leaves:
        present = part.masses > 0
        losses = part.losses[present]
        masses = part.masses[present]
        above += times * np.array([_log_moment(losses, masses, order) for order in orders])
        below += times * np.array([_log_moment(losses, masses, -order) for order in orders])
    return orders, above, below


def _log_moment(
    losses: Floats,
    masses: Floats,
    order: float,
) -> float:
    """The logarithm of ``E[exp(order * loss)]`` over the finite losses, an upper bound."""
    if not len(losses):
        return -math.inf
    # Relative to the largest term, so that nothing overflows. Losses ascend.
    ends = order * float(losses[0]), order * float(losses[-1])
    largest = max(ends)
    total = float((np.exp(order * losses - largest) * masses).sum())
    if total <= 0:
        return -math.inf
    error = (len(masses) + 8 + 4 * max(abs(end) for end in ends)) * _U
    return largest + math.log(total) + error


@frozen
class _Window:
    """The cells ``lowest .. lowest + size - 1`` of a composition, and bounds of the masses outside
    (Chernoff).
    """

    lowest: int
    size: int
    cut_above: float
    cut_below: float

    @classmethod
    def of(
        cls,
        leaves: WeightedLeaves,
        orders: Floats,
        above: Floats,
        below: Floats,
    ) -> "_Window":

        step = leaves[0][0].step
        least = sum(times * part.lowest for part, times in leaves)
        most = sum(times * (part.lowest + len(part.masses) - 1) for part, times in leaves)
        # Beyond these losses Chernoff's bound is below ``_CUT``.
        largest = float(((above - math.log(_CUT)) / orders).min())
        smallest = -float(((below - math.log(_CUT)) / orders).min())
        high = min(most, math.ceil(largest / step) + 1)
        low = max(least, math.floor(smallest / step) - 1)
        low = min(low, high)
        # A power of two, as the radix-2 transform and its error bound need.
        size = 1 << max(1, (high - low).bit_length())
        # Chernoff's bound of the mass on each side, at the best of the orders.
        log_over = np.minimum(above - orders * ((low + size) * step), 0.0)
        log_under = np.minimum(below + orders * ((low - 1) * step), 0.0)
        over = float(np.exp(log_over).min()) * (1 + 1e-6)
        under = float(np.exp(log_under).min()) * (1 + 1e-6)
        cut_above = 0.0 if low + size > most else over
        cut_below = 0.0 if low <= least else under
        return cls(low, size, cut_above, cut_below)


def _tilted_convolution(
    leaves: WeightedLeaves,
    window: _Window,
    tilt: float,
) -> Floats:
    """An upper bound of every cell of the composition, from one circular convolution of tilted
    masses.

    What lies outside the window comes round into it, which only adds.
    """
    # By frequency: the product of the spectra, the logarithm of a bound of its size, and its error
    # relative to that bound.
    power = np.ones(window.size // 2 + 1, np.complex128)
    bound = np.zeros(len(power))
    relative = np.zeros(len(power))
    # The logarithm of what tilting divided the masses by; the cell where the product begins; the
    # sum of the sizes of those logarithms, which bounds their rounding.
    shift = 0.0
    offset = 0
    certain = 0.0
    forward = _PER_LEVEL * (window.size.bit_length() + 1)
    for part, times in leaves:
        weights, height = part.tilted(tilt)
        # A leaf wider than the window is laid round it.
        cell = np.arange(len(weights)) % window.size
        wrapped = np.bincount(cell, weights, window.size)
        spectrum = np.fft.rfft(wrapped)
        reach = np.minimum(np.abs(spectrum) * (1 + 4 * _U) + forward, 1.0)
        bound += times * np.log(reach)
        relative += times * (forward + 8 * _U) / reach
        power *= _spectrum_power(spectrum, times)
        shift += times * height
        offset += times * part.lowest
        certain += times * abs(height)
    # The error of the product in each frequency, then of every cell after the way back.
    errors = np.exp(np.minimum(bound, 0.0)) * (relative + 8 * _U * len(leaves)) * 1.05
    error = 2 * float((errors + forward * np.abs(power)).sum()) / window.size * 1.01
    circle = np.roll(np.fft.irfft(power, window.size), offset - window.lowest)
    cells = np.maximum(circle, 0.0) + error
    # The tilt taken back, in logarithms.
    back = shift - tilt * (window.lowest + np.arange(window.size)) * leaves[0][0].step
    slack = 8 * _U * (certain + np.abs(back) + 2 * abs(shift) + 4)
    return np.asarray(cells * np.exp(np.minimum(back + slack, 700.0)), np.float64)


def _spectrum_power(spectrum: Complexes, times: int) -> Complexes:
    """Powers by squaring: each of ``times - 1`` products errs by at most 4 units relatively,
    however they are nested.
    """
    result = None
    square = spectrum
    while times:
        if times & 1:
            result = square if result is None else result * square
        times >>= 1
        if times:
            square = square * square
    return spectrum[:0] if result is None else result

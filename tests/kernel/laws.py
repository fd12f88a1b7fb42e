"""Exact output distributions, in interval arithmetic: what a release shows under two neighbouring
logs, and how far apart that is.

Every mass is enclosed between two floats that are rounded outwards after each operation; what lies
beyond a finite range is bounded, and counted against the claim.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise

import mpmath
import numpy as np

BITS = 160


@dataclass(frozen=True)
class Masses:
    """Masses of outcomes, ``low`` <= mass <= ``high`` (float64, shape (outcomes,)), and at most how
    much lies on no outcome listed.
    """

    low: np.ndarray
    high: np.ndarray
    beyond: float = 0.0

    @classmethod
    def of(cls, enclosed, beyond=0.0):
        """From mpmath's intervals."""
        low = [max(0.0, math.nextafter(float(mass.a), -1)) for mass in enclosed]
        high = [math.nextafter(float(mass.b), 2) for mass in enclosed]
        return cls(np.array(low), np.array(high), float(beyond))

    def __len__(self):
        return len(self.low)

    def and_then(self, other):
        """Both outcomes, of independent draws."""
        low = np.nextafter(np.multiply.outer(self.low, other.low).ravel(), 0)
        high = np.nextafter(np.multiply.outer(self.high, other.high).ravel(), 2)
        return Masses(low, high, self.beyond + other.beyond)

    def or_else(self, other):
        """The outcomes of both, none of which is another's."""
        low, high = np.concatenate([self.low, other.low]), np.concatenate([self.high, other.high])
        return Masses(low, high, self.beyond + other.beyond)

    def at(self, rows):
        """The masses of some outcomes."""
        return Masses(self.low[rows], self.high[rows], self.beyond)


def together(pairs):
    """Two laws of several independent answers, from two laws of each."""
    first, second = (
        Masses(np.ones(1), np.ones(1)),
        Masses(np.ones(1), np.ones(1)),
    )
    for one, other in pairs:
        first, second = first.and_then(one), second.and_then(other)
    return first, second


def divergence(first, second, epsilon):
    """Two floats that enclose the hockey-stick divergence of ``first`` from ``second``: the least
    delta with which ``first`` is within e**epsilon of ``second``.
    """
    factor = _interval_exp(epsilon)
    below, above = math.nextafter(float(factor.a), 0), math.nextafter(float(factor.b), math.inf)
    most = np.nextafter(first.high - np.nextafter(below * second.low, 0), 2)
    least = np.nextafter(first.low - np.nextafter(above * second.high, np.inf), -np.inf)
    high = math.nextafter(math.fsum(np.maximum(most, 0)), 2) + first.beyond
    return math.nextafter(math.fsum(np.maximum(least, 0)), 0), math.nextafter(high, 2)


def delta_between(first, second, epsilon):
    """The divergence, in the direction in which it is larger."""
    there, back = divergence(first, second, epsilon), divergence(second, first, epsilon)
    return max(there[0], back[0]), max(there[1], back[1])


def _interval_exp(x):
    return _with_precision(lambda iv: iv.exp(_exact(iv, x)))


def _with_precision(compute):
    iv, before = mpmath.iv, mpmath.iv.prec
    iv.prec = BITS
    try:
        return compute(iv)
    finally:
        iv.prec = before


def _exact(iv, x):
    """A rational or a float, as a narrow interval around it."""
    fraction = Fraction(x)
    return iv.mpf(fraction.numerator) / fraction.denominator


@dataclass(frozen=True)
class LaplaceLaw:
    """Noise of masses (1 - r) / (1 + r) r**|x|, with r = e**(-1/scale)."""

    scale: float

    def __post_init__(self):
        object.__setattr__(self, "_tails", {})

    def reaching(self, least):
        """The chance of ``least`` or more."""
        if least not in self._tails:
            self._tails[least] = _with_precision(lambda iv: self._reaching(iv, least))
        return self._tails[least]

    def _reaching(self, iv, least):
        r = iv.exp(-1 / _exact(iv, self.scale))
        if least >= 1:
            return r**least / (1 + r)
        return 1 - r ** (1 - least) / (1 + r)

    def cell(self, counts, tau, of):
        """What is shown of a count ``of`` the two, released from ``tau`` on: nothing; or its noisy
        value, those of one likelihood ratio as one outcome.
        """
        return _of_tails(self, counts, tau, of)


def _of_tails(law, counts, tau, of):
    least, most = min(counts), max(counts)
    # Below ``least`` and from ``most`` on the ratio is that of one move, so it is one outcome.
    inner = [y for y in range(least + 1, most + 1) if y > tau] if most > least else []
    cuts = [tau, *inner]

    def masses(iv):
        reached = [law.reaching(cut - of) for cut in cuts]
        shown = [one - next_one for one, next_one in pairwise(reached)]
        return Masses.of([1 - reached[0], *shown, reached[-1]])

    return _with_precision(masses)


class FiniteLaw:
    """Noise by its masses on -reach..reach; ``beyond`` bounds what lies outside."""

    def __init__(self, weights, reach, beyond):
        """``weights``: intervals for 0, 1, ..., reach, which need not add up to 1."""
        self.reach, self.beyond = reach, beyond

        def normed(iv):
            total = weights[0] + 2 * sum(weights[1:], iv.mpf(0)) + iv.mpf([0, beyond])
            return [weight / total for weight in weights]

        half = Masses.of(_with_precision(normed))
        mirrored = np.abs(np.arange(-reach, reach + 1))
        self.low, self.high = half.low[mirrored], half.high[mirrored]

    def cell(self, counts, tau, of):
        """What is shown of a count ``of`` the two, released from ``tau`` on: nothing, or its noisy
        value.
        """
        start = max(tau, min(counts) - self.reach)
        shown = np.arange(start, max(start, max(counts) + self.reach) + 1) - of
        inside = np.abs(shown) <= self.reach
        place = np.where(inside, shown, 0) + self.reach
        low = np.where(inside, self.low[place], 0.0)
        # Outside of the range every mass is at most ``beyond``, all together.
        high = np.where(inside, self.high[place], 0.0)
        hidden = slice(0, int(np.clip(tau - of + self.reach, 0, 2 * self.reach + 1)))
        first_low = math.nextafter(math.fsum(self.low[hidden]), 0)
        first_high = math.nextafter(math.fsum(self.high[hidden]), 2) + self.beyond
        return Masses(np.append(first_low, low), np.append(first_high, high), self.beyond)

    def reaching(self, least):
        """The chance of ``least`` or more, as an interval."""
        shown = slice(int(np.clip(least + self.reach, 0, 2 * self.reach + 1)), None)
        low = math.nextafter(math.fsum(self.low[shown]), 0)
        high = math.nextafter(math.fsum(self.high[shown]), 2) + self.beyond
        return mpmath.iv.mpf([max(0.0, low), high])


@cache
def gaussian_law(sigma, sigmas=14):
    """Masses proportional to e**(-x**2 / (2 sigma**2)), up to so many sigmas."""
    reach = max(4, math.ceil(sigmas * sigma))
    twice = 2 * Fraction(sigma) ** 2

    def weights(iv):
        return [iv.exp(-_exact(iv, Fraction(x * x) / twice)) for x in range(reach + 1)]

    found = _with_precision(weights)
    # Both tails: the integral from ``reach`` on is at most sigma**2 / reach times the last weight.
    rest = 2 * float(found[-1].b) * sigma**2 / reach * (1 + 1e-9)
    return FiniteLaw(found, reach, rest)


@cache
def truncated_law(scale, bound):
    """Laplace noise given that it does not exceed ``bound``."""

    def weights(iv):
        return [iv.exp(-_exact(iv, Fraction(x) / Fraction(scale))) for x in range(bound + 1)]

    return FiniteLaw(_with_precision(weights), bound, 0.0)


NEVER = -(10**6)
"""A threshold that every noisy value reaches."""


def cells(law, before, after, tau):
    """Both laws of one count that is released from ``tau`` on."""
    counts = (before, after)
    return law.cell(counts, tau, before), law.cell(counts, tau, after)


def selected(law, before, after, tau):
    """Both laws of one count that is released from ``tau`` on, and only if it is not 0."""
    pair = [law.cell((before, after), tau, count) for count in (before, after)]
    for row, count in enumerate((before, after)):
        if count == 0:
            hidden = np.zeros(len(pair[row]))
            hidden[0] = 1.0
            pair[row] = Masses(hidden, hidden)
    return tuple(pair)

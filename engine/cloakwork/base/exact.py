"""Exact figures: the exponential function between two proved integers, costs as rationals, and the
scales at which noise is really drawn.
"""

import math
from fractions import Fraction
from functools import lru_cache
from itertools import count
from typing import Final

from cloakwork.base.errors import MechanismError


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers ``low <= 2**bits * exp(-x) <= high`` for a rational x >= 0, at most 2 apart for x <=
    1.

    exp(-x) = exp(-x/n)**n with n = ceil(x); the partial sums of the alternating series enclose
    exp(-y) for y <= 1.
    """
    n = max(1, math.ceil(x))
    # The bounds of exp(-x/n) are integers over ``guard``: raised to n, over guard**n. The bits
    # beyond ``bits`` keep the errors of n factors, and of rounding, below one unit.
    guard = 1 << (bits + 8 + n.bit_length())
    below, above = _enclose_exp(x / n, guard)
    # guard**n / 2**bits: what the powers are divided by to become units of 2**-bits.
    scale = guard ** (n - 1) * (guard >> bits)
    # Twice negated, a division that rounds down rounds up.
    return below**n // scale, -(-(above**n) // scale)


def _enclose_exp(y: Fraction, guard: int) -> tuple[int, int]:
    """Integers ``low <= guard * exp(-y) <= high``, for y in [0, 1], that lie at most 2 apart."""
    # Over one denominator, k! q**k, which grows with k: fractions would be reduced at each term.
    p = y.numerator
    q = y.denominator
    term = total = denominator = 1
    for k in count(1):
        term *= -p
        denominator *= k * q
        before = total * k * q
        total = before + term
        # Two partial sums in a row enclose the limit of an alternating series.
        if abs(term) * guard <= denominator:
            low = min(before, total)
            high = max(before, total)
            return low * guard // denominator, -(-high * guard // denominator)
    raise AssertionError("unreachable: the terms of the series tend to zero")


_BITS: Final = 256


def exactly(number: float) -> Fraction:
    """A finite number as the shortest decimal that reads back as it: what a person wrote.

    >>> 10 * exactly(0.1) == 1
    True
    """
    return Fraction(repr(float(number)))


def rounded_up(number: Fraction) -> float:
    """The least float that reads, as a decimal, at least ``number``."""
    # ``float`` rounds to the nearest float, one of three whose decimal is the least above.
    near = float(number)
    below = math.nextafter(near, -math.inf)
    if exactly(below) >= number:
        return below
    return near if exactly(near) >= number else math.nextafter(near, math.inf)


def rounded_down(number: Fraction) -> float:
    """The largest float that reads, as a decimal, at most ``number``."""
    return -rounded_up(-number) + 0.0  # no negative zero


@lru_cache(maxsize=4096)
def exp_minus(x: Fraction) -> tuple[Fraction, Fraction]:
    """Two rationals that enclose exp(-x), x >= 0."""
    # exp(-x) < 2**-x, and beyond this bound nothing finer is needed.
    if x > _BITS:
        return Fraction(0), Fraction(1, 1 << _BITS)
    low, high = exp_bounds(x, 2 * _BITS)
    unit = 1 << (2 * _BITS)
    return Fraction(low, unit), Fraction(high, unit)


def exp_upper(x: Fraction) -> Fraction | None:
    """exp(x) from above, for x >= 0; None where it is beyond all measure."""
    low = exp_minus(x)[0]
    return 1 / low if low > 0 else None


def delta_of_group(epsilon: Fraction, delta: Fraction, size: int) -> Fraction:
    """The delta, from above and at most 1, of a group of ``size`` whose members have (``epsilon``,
    ``delta``) each: delta (e**(size epsilon) - 1) / (e**epsilon - 1).

    Source: Vadhan 2017, lemma 2.2 (the sum delta (1 + e**eps + ... + e**((size-1) eps)) in closed
    form).
    """
    if size == 1 or delta == 0:
        return delta
    top = exp_upper(size * epsilon)
    if top is None:
        return Fraction(1)
    # At most ``size`` terms, none above the last; where epsilon is tiny the closed form divides by
    # nothing.
    factor = size * top
    single = exp_minus(epsilon)[1]
    if single < 1:
        factor = min(factor, (top - 1) / (1 / single - 1))
    return min(Fraction(1), delta * factor)


FINEST: Final = 60
"""Scales of noise are exact rationals with denominator at most 2**FINEST."""

LARGEST_SCALE: Final = 2.0**53
"""The largest scale or sigma, in grid steps, at which noise can be drawn."""


def exact_scale(scale: float) -> Fraction:
    """The least multiple of 2**-60 that is at least ``scale``; ``scale`` itself from 2**-7 on."""
    steps = Fraction(scale) * (1 << FINEST)
    return Fraction(math.ceil(steps), 1 << FINEST)


def drawable(
    mechanism: str,
    what: str,
    size: float,
) -> float:
    """``size``, a scale or sigma in grid steps; raises ``MechanismError`` where it is too large or
    not positive.
    """
    if not (math.isfinite(size) and 0 < size <= LARGEST_SCALE):
        raise MechanismError(
            mechanism, f"{what} of {size:g} grid steps cannot be drawn; it must be in (0, 2**53]"
        )
    return size


def drawn_scale(scale: float) -> float:
    """The scale at which noise asked for at ``scale`` (grid steps) is drawn: what an event must
    charge for.

    From 2**-7 to 2**53 it is ``scale`` itself, bit for bit; below, ``scale`` rounded up to a
    multiple of 2**-60. Raises MechanismError for a scale that is not positive, not finite, or above
    2**53 grid steps.

    >>> drawn_scale(7200.0), drawn_scale(0.01), drawn_scale(1e-30) == 2.0**-60
    (7200.0, 0.01, True)
    """
    return float(exact_scale(drawable("laplace noise", "a scale", scale)))


def drawn_sigma(sigma: float) -> float:
    """The sigma at which Gaussian noise asked for at ``sigma`` (grid steps) is drawn: what an event
    must charge for.

    From 2**-7 to 2**53 it is ``sigma`` itself, bit for bit; below, ``sigma`` rounded up to a
    multiple of 2**-60. Raises MechanismError for a sigma that is not positive, not finite, or above
    2**53 grid steps.

    >>> drawn_sigma(43.5), drawn_sigma(1e-30) == 2.0**-60
    (43.5, True)
    """
    return float(exact_scale(drawable("gaussian noise", "a sigma", sigma)))


def drawn_rate(rate: Fraction | float) -> float:
    """The rate that an event must charge for coins of ``rate``: the least float that is, exactly,
    at least ``rate``.

    Raises MechanismError for a rate outside [0, 1].

    >>> drawn_rate(0.05), drawn_rate(Fraction(1, 3)) >= Fraction(1, 3)
    (0.05, True)
    """
    exact = exact_rate(rate)
    nearest = float(exact)
    # The nearest float may lie below, and would charge too little.
    if Fraction(nearest) < exact:
        return math.nextafter(nearest, math.inf)
    return nearest


def exact_rate(rate: Fraction | float) -> Fraction:
    """``rate`` as a rational; raises MechanismError where it is no probability."""
    if not 0 <= rate <= 1:
        raise MechanismError("coins", f"a rate must lie between 0 and 1; it is {rate}")
    return Fraction(rate)

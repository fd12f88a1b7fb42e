"""Costs as exact rationals: the decimals that people write, and the floats that are safe to print
for them.
"""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final

from cloakwork.base.exponential import exp_bounds

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
    if x > _BITS:
        return Fraction(0), Fraction(1, 1 << _BITS)
    low, high = exp_bounds(x, 2 * _BITS)
    unit = 1 << (2 * _BITS)
    return Fraction(low, unit), Fraction(high, unit)


def truncation_delta(scale: float, bound: int, sensitivity: int = 1) -> Fraction:
    """The delta of truncated geometric noise on counts that are released where they come out above
    ``bound``, from above.

    With r = e**(-1/scale) and s = ``sensitivity`` <= bound it is r**(bound-s+1) (1 - r**s) / (1 + r
    - 2 r**(bound+1)): the noise's mass in (bound - s, bound]. A count moved by s comes out beyond
    what it could have been with that probability, and a count of s that was not there before is
    released with it. It is convex in s and nothing at 0, so several counts moved by s together have
    no more. Scale and moves give epsilon = s/scale. Source: Desfontaines, Voss, Gipson and Mandayam
    2022, section 4 (k-TSGD), for s = 1. Above ``bound`` moves are charged delta 1.
    """
    if sensitivity > bound:
        return Fraction(1)
    step = Fraction(scale)
    # Each power of r from the side that makes the delta larger.
    r_below = exp_minus(1 / step)[0]
    moved_below = exp_minus(sensitivity / step)[0]
    last_above = exp_minus((bound - sensitivity + 1) / step)[1]
    beyond_above = exp_minus((bound + 1) / step)[1]
    delta = last_above * (1 - moved_below) / (1 + r_below - 2 * beyond_above)
    return min(Fraction(1), delta)

"""Costs as exact rationals: the decimals that people write, and the floats that are safe to print for them."""

import math
from fractions import Fraction


def exactly(number: float) -> Fraction:
    """A finite number as the shortest decimal that reads back as it: what a person wrote.

    >>> 10 * exactly(0.1) == 1
    True
    """
    return Fraction(repr(float(number)))


def rounded_up(number: Fraction) -> float:
    """The least float that reads, as a decimal, at least ``number``."""
    near = float(number)
    below = math.nextafter(near, -math.inf)
    if exactly(below) >= number:
        return below
    return near if exactly(near) >= number else math.nextafter(near, math.inf)


def rounded_down(number: Fraction) -> float:
    """The largest float that reads, as a decimal, at most ``number``."""
    return -rounded_up(-number) + 0.0  # no negative zero

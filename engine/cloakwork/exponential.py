"""The exponential function between two proved integers: what exact noise and exact thresholds rest
on.
"""

import math
from fractions import Fraction
from itertools import count


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers ``low <= 2**bits * exp(-x) <= high`` for a rational x >= 0, at most 2 apart for x <=
    1.

    exp(-x) = exp(-x/n)**n with n = ceil(x); the partial sums of the alternating series enclose
    exp(-y) for y <= 1.
    """
    exponent = max(1, math.ceil(x))
    guard = 1 << (bits + 8 + exponent.bit_length())
    low, high = _series(x / exponent, Fraction(1, guard))
    below, above = math.floor(low * guard), math.ceil(high * guard)
    scale = guard ** (exponent - 1) * (guard >> bits)
    # Twice negated, a division that rounds down rounds up.
    return below**exponent // scale, -(-(above**exponent) // scale)


def _series(y: Fraction, error: Fraction) -> tuple[Fraction, Fraction]:
    term = total = Fraction(1)
    for k in count(1):
        term *= -y / k
        before, total = total, total + term
        # Two partial sums in a row enclose the limit of an alternating series.
        if abs(term) <= error:
            return min(before, total), max(before, total)
    raise AssertionError("unreachable: the terms of the series tend to zero")

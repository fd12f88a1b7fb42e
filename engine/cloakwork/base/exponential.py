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
    n = max(1, math.ceil(x))
    # The bounds of exp(-x/n) are integers over ``guard``: raised to n, over guard**n. The bits
    # beyond ``bits`` keep the errors of n factors, and of rounding, below one unit.
    guard = 1 << (bits + 8 + n.bit_length())
    low, high = _enclose_exp(x / n, Fraction(1, guard))
    below = math.floor(low * guard)
    above = math.ceil(high * guard)
    # guard**n / 2**bits: what the powers are divided by to become units of 2**-bits.
    scale = guard ** (n - 1) * (guard >> bits)
    # Twice negated, a division that rounds down rounds up.
    return below**n // scale, -(-(above**n) // scale)


def _enclose_exp(y: Fraction, error: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds of exp(-y), for y in [0, 1], that lie at most ``error`` apart."""
    term = total = Fraction(1)
    for k in count(1):
        term *= -y / k
        before = total
        total += term
        # Two partial sums in a row enclose the limit of an alternating series.
        if abs(term) <= error:
            return min(before, total), max(before, total)
    raise AssertionError("unreachable: the terms of the series tend to zero")

"""Exact coins: heads with a probability exp(-x), or with a rational one.

Each coin compares a uniform real number, known by its leading bits, with a real threshold enclosed
between two integers; the enclosures are proved (``exp_bounds``, ``MARGIN``), not assumed of the
platform's ``exp``. Where the known bits do not decide (about once in 2**45 coins), more bits of the
*same* uniform are drawn: drawing afresh would bias the coin.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints, Words
from cloakwork.base.exponential import exp_bounds

WordSource = Callable[[int], Words]
"""A source of randomness: ``words(n)`` gives n independent uniform 64-bit words."""

Exponents = Callable[[int], Fraction]
"""The exact exponent x of each coin, whose probability is exp(-x), by the coin's place."""

COIN_BITS: Final = 63
"""Leading bits of a coin's uniform that its word holds; the word's lowest bit is the sign."""

MARGIN: Final = np.uint64(1 << 17)
"""Half-width of the threshold's enclosure, in units of 2**-COIN_BITS: 2**-46, 16 times the error
proved in ``exp_minus`` and 8 times that in ``gaussian_thresholds``.
"""

_COIN_UNIT: Final = float(1 << COIN_BITS)
"""How many units of 2**-COIN_BITS there are in 1."""

_CELLS: Final = 256
"""Parts of [0, 1) for whose beginnings exp(-x) is tabulated."""

_INTEGERS: Final = 64
"""exp(-x) from here on is less than one unit of 2**-COIN_BITS."""


def falls_below_exp(prefix: int, bits: int, x: Fraction, words: WordSource) -> bool:
    """Whether the uniform real whose first ``bits`` bits are ``prefix`` lies below exp(-x); draws
    the bits it lacks.
    """
    if x == 0:
        return True
    while True:
        if bits <= x and prefix:
            # The uniform is at least 2**-bits > exp(-bits) >= exp(-x), so it does not lie below.
            # To compute bounds of a tiny exp(-x) would cost too much.
            return False
        if bits > x:
            # The uniform lies in [prefix, prefix + 1), exp(-x) in [low, high], in units of
            # 2**-bits.
            low, high = exp_bounds(x, bits)
            if prefix + 1 <= low:
                return True
            if prefix >= high:
                return False
        prefix, bits = with_next_word(prefix, bits, words)


def with_next_word(prefix: int, bits: int, words: WordSource) -> tuple[int, int]:
    """The first ``bits`` bits of a uniform real, and 64 more of it."""
    word = int(words(1)[0])
    return (prefix << 64) | word, bits + 64


@lru_cache(maxsize=1)
def _cell_values() -> Floats:
    """exp(-k/256) for k = 0..255, each within a relative 2**-52."""
    exponents = [Fraction(k, _CELLS) for k in range(_CELLS)]
    return _tabulate_exp(exponents, bits=80)


@lru_cache(maxsize=1)
def _integer_values() -> Floats:
    """exp(-n) for n = 0..64, each within a relative 2**-52."""
    exponents = [Fraction(n) for n in range(_INTEGERS + 1)]
    return _tabulate_exp(exponents, bits=200)


def _tabulate_exp(exponents: Sequence[Fraction], bits: int) -> Floats:
    """exp(-x) for each exponent x: a lower bound of ``bits`` bits, rounded to a float."""
    values = []
    for exponent in exponents:
        low, _ = exp_bounds(exponent, bits)
        values.append(float(Fraction(low, 1 << bits)))
    return np.array(values)


def exp_minus(x: Floats) -> Floats:
    """exp(-x) for x in [0, 1), within a relative 2**-50 by IEEE arithmetic alone.

    x = k/256 + r exactly; the series cut after r**5 errs by less than 2**-57; the table entry, the
    product and the last two operations of Horner's rule err by 2**-53 each (the table twice that),
    earlier ones by less than 2**-60 since r < 2**-8, and the caller's rounding of x adds 2**-53:
    together below 2**-50.
    """
    cell = (x * _CELLS).astype(np.intp)
    # Exact: both terms are multiples of the last bit of x, and the difference is small.
    r = x - cell * (1.0 / _CELLS)
    # Horner's rule: 1 - r (1 - r/2 (1 - r/3 (1 - r/4 (1 - r/5)))).
    series = 1.0 - r * (1.0 / 5)
    for k in (4, 3, 2, 1):
        series *= r
        series *= 1.0 / k
        np.subtract(1.0, series, out=series)
    series *= _cell_values()[cell]
    return series


def laplace_thresholds(u: Words, p: int) -> Words:
    """2**COIN_BITS * exp(-u/p) for u < p, within MARGIN / 2."""
    probability = exp_minus(u / np.float64(p))
    return (probability * _COIN_UNIT).astype(np.uint64)


def laplace_exponents(u: Words, p: int) -> Exponents:
    """The exact exponents that ``laplace_thresholds`` has bounds of."""
    return lambda i: Fraction(int(u[i]), p)


def laplace_coins(u: Words, p: int, words: WordSource, drawn: Words) -> Bools:
    """For each u (uint64, below p) a coin that shows heads with probability exp(-u/p), from the top
    bits of ``drawn``.
    """
    return settle_coins(
        drawn, laplace_thresholds(u, p), laplace_exponents(u, p), further=lambda _: words
    )


def gaussian_thresholds(y: Ints, sigma: Fraction, t: int) -> Words:
    """2**COIN_BITS * exp(-(y - sigma^2/t)^2 / (2 sigma^2)) for y >= 0, within MARGIN / 8; sigma a
    float's value, at most t.

    With e = 2**-53, m = sigma^2/t <= sigma and z = (y - m) / sigma: the rounded y and m and their
    difference err by e (y + m + |y - m|) <= 2e (m + |y - m|), so the computed z by e (2 + 3|z|) and
    x = z^2/2 by e (2|z| + 3.5 z^2). Times exp(-z^2/2) this is at most 4e = 2**-51 for every z. The
    integer part of x and the rest are exact; exp(-integer part), its table's entry and the product
    add 3e to the 2**-50 of
    ``exp_minus``: together below 2**-49. Beyond x = 64 both are below one unit.
    """
    mean = float(sigma**2 / t)
    z = (y - mean) / float(sigma)
    x = np.minimum(z * z * 0.5, float(_INTEGERS))
    integer_part = x.astype(np.intp)
    probability = exp_minus(x - integer_part) * _integer_values()[integer_part]
    return (probability * _COIN_UNIT).astype(np.uint64)


def gaussian_exponents(y: Ints, sigma: Fraction, t: int) -> Exponents:
    """The exact exponents that ``gaussian_thresholds`` has bounds of."""
    mean = sigma**2 / t
    return lambda i: (int(y[i]) - mean) ** 2 / (2 * sigma**2)


def gaussian_coins(y: Ints, sigma: Fraction, t: int, words: WordSource, drawn: Words) -> Bools:
    """For each y >= 0 a coin with probability exp(-(y - sigma^2/t)^2 / (2 sigma^2)), from the top
    bits of ``drawn``.
    """
    return settle_coins(
        drawn,
        gaussian_thresholds(y, sigma, t),
        gaussian_exponents(y, sigma, t),
        further=lambda _: words,
    )


def settle_coins(
    drawn: Words,
    thresholds: Words,
    exponents: Exponents,
    further: Callable[[int], WordSource],
) -> Bools:
    """Whether each uniform, its top bits ``drawn``, lies below exp(-exponents(i)).

    ``thresholds`` are within MARGIN / 2 of that. Where a uniform's known bits lie so near that they
    do not decide, ``further(i)`` gives more bits of the same uniform.
    """
    prefix = drawn >> np.uint64(64 - COIN_BITS)
    heads = prefix < thresholds
    # Words without a sign: the smaller is taken from the larger.
    distance = np.where(heads, thresholds - prefix, prefix - thresholds)
    for row in np.flatnonzero(distance <= MARGIN):
        i = int(row)
        heads[i] = falls_below_exp(int(prefix[i]), COIN_BITS, exponents(i), further(i))
    return heads


def bernoulli(rate: Fraction, size: int, words: WordSource) -> Bools:
    """``size`` independent coins (bool), each True with probability exactly ``rate``, in [0, 1].

    A coin is True where a uniform real lies below the rate. Its first 64 bits decide unless they
    equal the rate's; then the next 64 bits of both are compared, and so on.
    """
    if rate == 1:
        return np.ones(size, dtype=bool)
    heads = np.zeros(size, dtype=bool)
    undecided = np.arange(size)
    while undecided.size and rate:
        # The rate's next 64 bits, and the rate of what comes behind them.
        next_bits, rest = divmod(rate.numerator << 64, rate.denominator)
        threshold = np.uint64(next_bits)
        drawn = words(undecided.size)
        heads[undecided] = drawn < threshold
        undecided = undecided[drawn == threshold]
        rate = Fraction(rest, rate.denominator)
    return heads

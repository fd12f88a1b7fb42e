"""An exact, vectorised sampler of discrete Laplace and Gaussian noise, and the exact coins that it
tosses; ``source.py`` is its interface.

**Samplers.** The scheme is Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential
Privacy" (2020). Laplace, algorithm 2: for a scale p/q, draw U uniform below p until a coin of
probability exp(-U/p) shows heads, V geometric with ratio 1/e, and let the magnitude be floor((U + p
V) / q), with a fair sign and "minus zero" drawn again. Gaussian, algorithm 3: draw Y discrete
Laplace of scale t = floor(sigma) + 1 until a coin of probability exp(-(|Y| - sigma^2/t)^2 / (2
sigma^2)) shows heads.

**Coins.** Each compares a uniform real number, known by its leading bits, with a real threshold
enclosed between two integers; the enclosures are proved (``exp_bounds``, ``MARGIN``), not assumed
of the platform's ``exp``. Where the known bits do not decide (about once in 2**45 coins), more bits
of the *same* uniform are drawn: drawing afresh would bias the coin.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import count
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints, Words
from cloakwork.base.exact import LARGEST_SCALE, exp_bounds

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


def falls_below_exp(
    prefix: int,
    bits: int,
    x: Fraction,
    words: WordSource,
) -> bool:
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


def with_next_word(
    prefix: int,
    bits: int,
    words: WordSource,
) -> tuple[int, int]:
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


def laplace_coins(
    u: Words,
    p: int,
    words: WordSource,
    drawn: Words,
) -> Bools:
    """For each u (uint64, below p) a coin that shows heads with probability exp(-u/p), from the top
    bits of ``drawn``.
    """
    return settle_coins(
        drawn,
        laplace_thresholds(u, p),
        laplace_exponents(u, p),
        further=lambda _: words,
    )


def gaussian_thresholds(
    y: Ints,
    sigma: Fraction,
    t: int,
) -> Words:
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


def gaussian_exponents(
    y: Ints,
    sigma: Fraction,
    t: int,
) -> Exponents:
    """The exact exponents that ``gaussian_thresholds`` has bounds of."""
    mean = sigma**2 / t
    return lambda i: (int(y[i]) - mean) ** 2 / (2 * sigma**2)


def gaussian_coins(
    y: Ints,
    sigma: Fraction,
    t: int,
    words: WordSource,
    drawn: Words,
) -> Bools:
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
        heads[i] = falls_below_exp(
            int(prefix[i]),
            COIN_BITS,
            exponents(i),
            further(i),
        )
    return heads


def bernoulli(
    rate: Fraction,
    size: int,
    words: WordSource,
) -> Bools:
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


BLOCK: Final = 1 << 15
"""Candidates drawn at a time: their arrays stay in the processor's cache."""

MOST_GEOMETRIC: Final = 1000
"""Where the tail of Laplace noise saturates: an event of probability e**-1000."""


@lru_cache(maxsize=1)
def _geometric_thresholds() -> Words:
    """floor(2**64 exp(-k)) for k = 1, 2, ... down to 0, ascending; each certified by bounds that
    agree.
    """
    found: list[int] = []
    for k in count(1):
        low, high = exp_bounds(Fraction(k), 128)
        threshold = low >> 64
        if threshold != high >> 64:
            raise AssertionError(f"exp(-{k}) is not enclosed tightly enough")
        found.append(threshold)
        if threshold == 0:
            return np.array(found[::-1], dtype=np.uint64)
    raise AssertionError("unreachable: exp(-k) tends to zero")


@lru_cache(maxsize=1)
def _geometric_table() -> Ints:
    """The value that a word's top 16 bits decide, or -1 where they do not."""
    thresholds = _geometric_thresholds()
    first = np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)
    last = first | np.uint64((1 << 48) - 1)
    # Where no threshold lies between the least and the largest word of these top bits, they decide.
    below_first = np.searchsorted(thresholds, first, side="left")
    up_to_last = np.searchsorted(thresholds, last, side="right")
    # V counts the thresholds above the uniform: all but those below it.
    above = len(thresholds) - below_first
    return np.where(below_first == up_to_last, above, -1).astype(np.int64)


def draw_geometric(words: WordSource, size: int) -> Ints:
    """``size`` draws (int64) of V with Pr[V >= k] = exp(-k): how many exp(-k), k >= 1, lie above a
    uniform real.
    """
    drawn = words(size)
    values = geometric_by_table(drawn)
    undecided = np.flatnonzero(values < 0)
    if undecided.size:
        values[undecided] = [exact_geometric(int(word), words) for word in drawn[undecided]]
    return values


def geometric_by_table(drawn: Words) -> Ints:
    """The value (int64) that the top 16 bits of each word decide, or -1 where they do not."""
    values: Ints = _geometric_table()[drawn >> np.uint64(48)]
    return values


def exact_geometric(word: int, words: WordSource) -> int:
    """The value of the uniform real whose first 64 bits are ``word``; draws the bits it lacks."""
    thresholds = _geometric_thresholds()
    not_above = int(np.searchsorted(thresholds, np.uint64(word), side="right"))
    value = len(thresholds) - not_above
    # A threshold is rounded down: its real number lies among the uniforms that begin with it.
    if word not in thresholds.tolist():
        return value
    # Count on with one and the same uniform, adding bits to it whenever a threshold falls inside.
    prefix = word
    bits = 64
    while True:
        low, high = exp_bounds(Fraction(value + 1), bits)
        if prefix >= high:
            return value
        if prefix + 1 <= low:
            value += 1
        else:
            prefix, bits = with_next_word(prefix, bits, words)


def discrete_laplace(
    scale: Fraction,
    size: int,
    words: WordSource,
) -> Ints:
    """``size`` draws (int64) with P[x] proportional to exp(-|x|/scale); ``scale`` as
    ``exact_scale`` gives it.

    Tails are unbounded up to V = 1000; the event beyond, of probability e**-1000, saturates.
    """
    return _rejection_sample(size, lambda candidates: _laplace_block(scale, candidates, words))


def discrete_gaussian(
    sigma: Fraction,
    size: int,
    words: WordSource,
) -> Ints:
    """``size`` draws (int64) with P[x] proportional to exp(-x^2 / (2 sigma^2)); ``sigma`` as
    ``exact_scale`` gives it.
    """
    return _rejection_sample(size, lambda candidates: _gaussian_block(sigma, candidates, words))


def _rejection_sample(size: int, block: Callable[[int], Ints]) -> Ints:
    """The first ``size`` of the values that ``block(candidates)`` accepts, asked again until there
    are enough.
    """
    values = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        missing = size - filled
        # More candidates than are missing, since some of them are rejected.
        accepted = block(min(BLOCK, 2 * missing + 64))[:missing]
        values[filled : filled + accepted.size] = accepted
        filled += accepted.size
    return values


def _laplace_block(
    scale: Fraction,
    candidates: int,
    words: WordSource,
) -> Ints:
    """The accepted ones of so many candidates of algorithm 2."""
    p, shift = scale_and_shift(scale)
    u = _uniform_below(p, words(candidates))
    drawn = words(u.size)
    kept = np.flatnonzero(laplace_coins(u, p, words, drawn))
    # A coin looks at the top 63 bits of its word, so the lowest one is an independent fair sign.
    negative = (drawn[kept] & np.uint64(1)).astype(bool)
    v = np.minimum(draw_geometric(words, kept.size), MOST_GEOMETRIC)
    magnitude = (u[kept].astype(np.int64) + p * v) >> shift
    values: Ints = np.where(negative, -magnitude, magnitude)
    # "Minus zero" is drawn again, else 0 would come twice as often.
    minus_zero = negative & (magnitude == 0)
    return np.asarray(values[~minus_zero])


def scale_and_shift(scale: Fraction) -> tuple[int, int]:
    """The scale p / 2**shift as (p, shift): to divide by its denominator is to shift."""
    return scale.numerator, scale.denominator.bit_length() - 1


def _gaussian_block(
    sigma: Fraction,
    candidates: int,
    words: WordSource,
) -> Ints:
    """The accepted ones of so many candidates of algorithm 3."""
    # Any t gives the same distribution; the cap keeps |Y| an int64.
    t = min(math.floor(sigma) + 1, int(LARGEST_SCALE))
    y = _laplace_block(Fraction(t), candidates, words)
    drawn = words(y.size)
    return y[
        gaussian_coins(
            np.abs(y),
            sigma,
            t,
            words,
            drawn,
        )
    ]


def _uniform_below(bound: int, drawn: Words) -> Words:
    """Uniform integers (uint64) below ``bound`` from uniform words; those of the last, partial
    round are dropped.
    """
    last_accepted = last_fair_word(bound)
    accepted = drawn[drawn <= last_accepted]
    # The remainder by one division: numpy's ``%`` of unsigned words is slower.
    return accepted - (accepted // np.uint64(bound)) * np.uint64(bound)


def last_fair_word(bound: int) -> np.uint64:
    """The largest word before the last, partial round of ``bound`` values: words behind it would
    favour small remainders.
    """
    return np.uint64((1 << 64) - 1 - (1 << 64) % bound)


def last_fair_words(bounds: Words) -> Words:
    """``last_fair_word`` of each bound."""
    top = np.uint64((1 << 64) - 1)
    # 2**64 does not fit a word: its remainder is (top % bound + 1) % bound.
    return np.asarray(top - (top % bounds + np.uint64(1)) % bounds)


def uniform_below_each(bounds: Words, words: WordSource) -> Words:
    """For each bound (uint64 >= 1) an independent uniform integer below it, by rejection."""
    last_accepted = last_fair_words(bounds)
    drawn = words(bounds.size).copy()
    again = np.flatnonzero(drawn > last_accepted)
    while again.size:
        drawn[again] = words(again.size)
        again = again[drawn[again] > last_accepted[again]]
    return drawn % bounds

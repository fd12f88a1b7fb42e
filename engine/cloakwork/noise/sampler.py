"""An exact, vectorised sampler of discrete Laplace and Gaussian noise; ``source.py`` is its
interface.

The scheme is Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020).
Laplace, algorithm 2: for a scale p/q, draw U uniform below p until a coin of probability exp(-U/p)
shows heads, V geometric with ratio 1/e, and let the magnitude be floor((U + p V) / q), with a fair
sign and "minus zero" drawn again. Gaussian, algorithm 3: draw Y discrete Laplace of scale t =
floor(sigma) + 1 until a coin of probability exp(-(|Y| - sigma^2/t)^2 / (2 sigma^2)) shows heads.

Exact coins decide what is accepted (``coins``).
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import count
from typing import Final

import numpy as np

from cloakwork.base.arrays import Ints, Words
from cloakwork.base.exponential import exp_bounds
from cloakwork.noise.coins import WordSource, gaussian_coins, laplace_coins, with_next_word

BLOCK: Final = 1 << 15
"""Candidates drawn at a time: their arrays stay in the processor's cache."""

FINEST: Final = 60
"""Scales are exact rationals with denominator at most 2**FINEST."""

LARGEST: Final = 1 << 53
"""Scales lie at or below this many grid steps, so that U fits a float and U + p V an int64."""

MOST_GEOMETRIC: Final = 1000
"""Where the tail of Laplace noise saturates: an event of probability e**-1000."""


def exact_scale(scale: float) -> Fraction:
    """The least multiple of 2**-60 that is at least ``scale``; ``scale`` itself from 2**-7 on."""
    steps = Fraction(scale) * (1 << FINEST)
    return Fraction(math.ceil(steps), 1 << FINEST)


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
    return _continued_geometric(word, 64, value, words)


def _continued_geometric(prefix: int, bits: int, value: int, words: WordSource) -> int:
    """Count on from ``value`` with one and the same uniform, adding bits to it whenever a threshold
    falls inside.
    """
    while True:
        low, high = exp_bounds(Fraction(value + 1), bits)
        if prefix >= high:
            return value
        if prefix + 1 <= low:
            value += 1
        else:
            prefix, bits = with_next_word(prefix, bits, words)


def discrete_laplace(scale: Fraction, size: int, words: WordSource) -> Ints:
    """``size`` draws (int64) with P[x] proportional to exp(-|x|/scale); ``scale`` as
    ``exact_scale`` gives it.

    Tails are unbounded up to V = 1000; the event beyond, of probability e**-1000, saturates.
    """
    return _rejection_sample(size, lambda candidates: _laplace_block(scale, candidates, words))


def discrete_gaussian(sigma: Fraction, size: int, words: WordSource) -> Ints:
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


def _laplace_block(scale: Fraction, candidates: int, words: WordSource) -> Ints:
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


def _gaussian_block(sigma: Fraction, candidates: int, words: WordSource) -> Ints:
    """The accepted ones of so many candidates of algorithm 3."""
    # Any t gives the same distribution; the cap keeps |Y| an int64.
    t = min(math.floor(sigma) + 1, LARGEST)
    y = _laplace_block(Fraction(t), candidates, words)
    drawn = words(y.size)
    return y[gaussian_coins(np.abs(y), sigma, t, words, drawn)]


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

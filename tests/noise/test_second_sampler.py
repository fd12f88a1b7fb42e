"""The samplers against a second implementation, from the published pseudocode: on all bit strings
up to a depth, and on the same words.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from cloakwork.base.exact import exact_scale
from cloakwork.noise import sampler
from cloakwork.noise.source import _Keystream
from conftest import in_long_form
from noise.second_sampler import below_exp, bernoulli_exp, exp_between, gaussian, laplace, outcomes

WORD = 64


def bits_of(word, first=0, last=WORD):
    """The bits of a 64-bit word, the highest first."""
    return [int(word) >> (WORD - 1 - place) & 1 for place in range(first, last)]


of_the_second = pytest.mark.skipif(
    not in_long_form(True),
    reason="of the second sampler alone, no engine code runs: CLOAKWORK_RUNS=1",
)


@of_the_second
@pytest.mark.parametrize("gamma", [Fraction(1, 3), Fraction(1), Fraction(5, 2), Fraction(1, 64)])
def test_algorithm_1_has_its_probability(gamma):
    """On all strings of 14 bits: the true probability lies between what is decided and what may
    be.
    """
    found, undecided = outcomes(lambda bit: bernoulli_exp(gamma, bit), 14)
    least, most = exp_between(gamma, 40)
    assert found.get(True, 0) <= least
    assert most <= found.get(True, 0) + undecided
    assert undecided < Fraction(1, 50)


@of_the_second
@pytest.mark.parametrize(("t", "s"), [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_algorithm_2_has_its_masses(t, s):
    """On all strings of 12 bits."""
    found, undecided = outcomes(lambda bit: laplace(t, s, bit), 12)
    r = math.exp(-s / t)
    for value in range(-6, 7):
        mass = (1 - r) / (1 + r) * r ** abs(value)
        assert found.get(value, 0) <= mass <= found.get(value, 0) + undecided
    assert undecided < 0.5


@of_the_second
@pytest.mark.parametrize("square", [Fraction(1, 4), Fraction(9, 4)])
def test_algorithm_3_has_its_masses(square):
    """On all strings of 12 bits."""
    found, undecided = outcomes(lambda bit: gaussian(square, bit), 12)
    total = mpmath.nsum(lambda x: mpmath.exp(-(x**2) / (2 * float(square))), [-60, 60])
    for value in range(-4, 5):
        mass = math.exp(-(value**2) / (2 * float(square))) / float(total)
        assert found.get(value, 0) <= mass <= found.get(value, 0) + undecided
    assert undecided < 0.8


@pytest.mark.parametrize("gamma", [Fraction(1, 7), Fraction(1), Fraction(9, 4), Fraction(6)])
def test_our_coin_falls_as_the_series_says(gamma):
    """On all prefixes of 10 bits; where these do not decide, it asks for more, and only there."""
    for prefix in range(1 << 10):
        bits = bits_of(prefix, WORD - 10)
        asked = []

        def words(size, asked=asked):
            asked.append(size)
            return np.array([1 << 63], dtype=np.uint64)

        falls = sampler.falls_below_exp(prefix, 10, gamma, words)
        expected = below_exp(bits, gamma)
        if expected is None:
            assert asked == [1]
            expected = below_exp([*bits, 1, *[0] * 63], gamma)
        else:
            # Bounds of the exponential may be a unit apart at so few bits.
            assert len(asked) <= 1
        assert falls == expected


class Requests:
    """A source of words that keeps what it gave, by request."""

    def __init__(self, seed):
        self.source, self.given = _Keystream(seed), []

    def __call__(self, size):
        self.given.append(self.source(size))
        return self.given[-1]


def laplace_again(scale, given):
    """What algorithm 2 accepts of the words of one request for each of its draws: U, the coin with
    the sign, V.
    """
    t, s = scale.numerator, scale.denominator
    fair = (1 << WORD) // t * t
    uniforms, tossed, geometric = given
    below = [int(word) % t for word in uniforms.tolist() if int(word) < fair]
    heads = [
        (u, word & 1)
        for u, word in zip(below, tossed.tolist(), strict=True)
        if certain(below_exp(bits_of(word, 0, WORD - 1), Fraction(u, t)))
    ]
    found = []
    for (u, is_negative), word in zip(heads, geometric.tolist(), strict=True):
        v = 0
        # Exp(-1) v times in a row: the same uniform real lies below exp(-v).
        while certain(below_exp(bits_of(word), Fraction(v + 1))):
            v += 1
        size = (u + t * v) // s
        if not (is_negative and size == 0):
            found.append(-size if is_negative else size)
    return found


def certain(decided):
    """No word of these tests leaves a coin open; one in 2**45 would."""
    assert decided is not None
    return decided


SCALES = [Fraction(1, 2), Fraction(1), Fraction(3), Fraction(17, 4), Fraction(7200)]


@pytest.mark.parametrize("scale", [*SCALES, exact_scale(1 / 3)])
def test_laplace_noise_on_the_same_words(scale):
    """Candidate by candidate, value by value."""
    words = Requests(3)
    ours = sampler._laplace_block(scale, 120, words)
    assert len(words.given) == 3
    assert ours.tolist() == laplace_again(scale, words.given)
    assert len(ours) > 30


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(1), Fraction(7, 2), Fraction(87, 2)])
def test_gaussian_noise_on_the_same_words(sigma):
    """Candidates by algorithm 2, and the coin of algorithm 3."""
    words = Requests(5)
    ours = sampler._gaussian_block(sigma, 200, words)
    *given, tossed = words.given
    t = math.floor(sigma) + 1
    candidates = laplace_again(Fraction(t), given)
    square = sigma**2
    again = [
        y
        for y, word in zip(candidates, tossed.tolist(), strict=True)
        if certain(below_exp(bits_of(word, 0, WORD - 1), (abs(y) - square / t) ** 2 / (2 * square)))
    ]
    assert ours.tolist() == again
    assert len(again) > 30


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("laplace_coins", lambda right: lambda u, p, *rest: right(u, p + 1, *rest)),
        ("draw_geometric", lambda right: lambda *given: right(*given) + 1),
        ("_uniform_below", lambda right: lambda bound, *rest: right(bound - 1, *rest)),
        ("scale_and_shift", lambda right: lambda scale: (right(scale)[0], right(scale)[1] + 1)),
    ],
)
def test_a_planted_fault_is_found(name, wrong, monkeypatch):
    """A scale off by one in the coin, a geometric that starts at 1, a uniform with one value too
    few, half the scale.
    """
    monkeypatch.setattr(sampler, name, wrong(getattr(sampler, name)))
    words = Requests(3)
    ours = sampler._laplace_block(Fraction(17, 4), 400, words).tolist()
    try:
        again = laplace_again(Fraction(17, 4), words.given)
    except ValueError:
        # Another number of heads.
        return
    assert ours != again

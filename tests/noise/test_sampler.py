"""The samplers settle each draw exactly: by more bits where the first leave it open."""

from fractions import Fraction

import numpy as np
import pytest

from cloakwork.base.exact import exp_bounds
from cloakwork.noise import sampler
from noise.draws import bits_of_exp, fed


@pytest.mark.parametrize(("off", "heads"), [(-1, True), (1, False)])
def test_an_ambiguous_coin_takes_more_bits_of_the_same_uniform(off, heads):
    """A prefix equal to the threshold's is settled by the bits that follow it."""
    u, p = 3, 7
    threshold = bits_of_exp(Fraction(u, p), 63 + 64)
    prefix, rest = threshold >> 64, (threshold & ((1 << 64) - 1)) + off
    drawn = np.array([prefix << 1], dtype=np.uint64)
    found = sampler.laplace_coins(np.array([u], dtype=np.uint64), p, fed(rest), drawn)
    assert found.tolist() == [heads]


def test_a_coin_that_stays_ambiguous_goes_on():
    """Two words equal to the threshold's bits are not enough; the third decides."""
    x = Fraction(3, 7)
    bits = bits_of_exp(x, 63 + 192)
    words = [(bits >> shift) & ((1 << 64) - 1) for shift in (128, 64, 0)]
    assert sampler.falls_below_exp(bits >> 192, 63, x, fed(words[0], words[1], words[2] - 1))
    assert not sampler.falls_below_exp(bits >> 192, 63, x, fed(words[0], words[1], words[2] + 1))


@pytest.mark.parametrize(("off", "value"), [(-1, 2), (1, 1)])
def test_an_ambiguous_geometric_takes_more_bits(off, value):
    """A word equal to the second threshold's is settled by the bits that follow it."""
    bits = bits_of_exp(Fraction(2), 128)
    words = fed(bits >> 64, (bits & ((1 << 64) - 1)) + off)
    assert sampler.draw_geometric(words, 1).tolist() == [value]


def test_the_geometric_goes_on_beyond_one_word():
    """A word of zeros is not the end of the tail."""
    bits = bits_of_exp(Fraction(50), 128)
    assert sampler.draw_geometric(fed(0, (bits & ((1 << 64) - 1)) - 1), 1).tolist() == [50]


def test_the_fast_exponential_keeps_its_proved_error():
    """Within a relative 2**-50 of the truth, at random points and at the cells' ends."""
    x = np.concatenate(
        [
            np.random.default_rng(5).random(2_000),
            np.arange(256) / 256,
            np.arange(1, 257) / 256 - 2**-53,
        ]
    )
    for at, found in zip(x, sampler.exp_minus(x), strict=True):
        low, high = exp_bounds(Fraction(at), 120)
        assert abs(Fraction(found) * 2**120 - low) <= Fraction(high, 2**50) + (high - low)


@pytest.mark.parametrize(
    "x",
    [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(44), Fraction(1, 10**12)],
)
def test_the_enclosure_holds_and_is_tight(x):
    """Against mpmath at twice the precision."""
    low, high = exp_bounds(x, 128)
    assert low <= bits_of_exp(x, 128) <= high
    assert high - low <= 2

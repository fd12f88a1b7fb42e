"""The samplers settle each draw exactly, by more bits where the first leave it open; Gaussian noise
and coins are exact in distribution.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from cloakwork.base.exact import LARGEST_SCALE, drawn_rate, drawn_sigma, exact_scale, exp_bounds
from cloakwork.errors import MechanismError
from cloakwork.noise import reproducible, sampler, secret
from cloakwork.noise import source as noise
from conftest import in_long_form
from noise.draws import FALSE_ALARM, bits_of_exp, fed, law_p_value, two_sample_p_value
from noise.opendp_sampler import drawn_by_opendp


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
            np.random.default_rng(5).random(1_000),
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


pytestmark = pytest.mark.true_noise  # what is tested is the source, or a stream of it

SIGMAS = [0.3, 1.0, 7.5, 43.5, 1000.0]

WORD = 1 << 64


def masses(sigma):
    """Every integer that matters, and its mass: exp(-x^2/(2 sigma^2)) over its sum."""
    x = np.arange(-math.ceil(20 * sigma) - 1, math.ceil(20 * sigma) + 2)
    weights = np.exp(-((x / sigma) ** 2) / 2)
    return x, weights / math.fsum(weights)


def cuts(sigma):
    """At most 73 integers, from four and a half sigmas below zero to as many above."""
    return np.unique(np.rint(np.linspace(-4.5, 4.5, 73) * sigma))


def against_the_law(values, sigma):
    """The p-value of draws against the exact mass function."""
    x, mass = masses(sigma)
    tails = np.cumsum(mass[::-1])[::-1]
    return law_p_value(values, cuts(sigma), tails[np.searchsorted(x, cuts(sigma))])


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("source", [secret(), reproducible(7)], ids=["secret", "reproducible"])
def test_values_follow_the_mass_function(source, sigma):
    """Over the whole range."""
    assert against_the_law(source.gaussian_values(sigma, 150_000), sigma) > FALSE_ALARM


@pytest.mark.parametrize("sigma", SIGMAS)
def test_tails_are_not_cut(sigma):
    """Values beyond 3.5 sigma come as often as they should, on either side."""
    x, mass = masses(sigma)
    far, size = math.ceil(3.5 * sigma), 300_000
    values = secret().gaussian_values(sigma, size)
    for side in (values, -values):
        observed = int((side >= far).sum())
        assert binomtest(observed, size, mass[x >= far].sum()).pvalue > FALSE_ALARM


@pytest.mark.parametrize("sigma", [7.5, *in_long_form(1.0, 1000.0)])
def test_ours_and_opendp_agree(sigma):
    """Our sampler and OpenDP's draw the same distribution."""
    ours = secret().gaussian_values(sigma, 30_000)
    theirs = drawn_by_opendp("gaussian", sigma, 30_000)
    assert two_sample_p_value(ours, theirs, cuts(sigma)) > FALSE_ALARM


def test_a_tiny_sigma_draws_zero():
    """At a hundredth of a grid step noise is zero but for a chance of e**-5000; below 2**-7 sigma
    is rounded up.
    """
    assert not secret().gaussian_values(0.01, 10_000).any()
    assert not secret().gaussian_values(1e-300, 1_000).any()


@pytest.mark.parametrize("sigma", [1e12, 2.0**53])
def test_large_sigmas_do_not_overflow(sigma):
    """Second moment and balance of signs at the largest sigmas: seven standard errors, 1e-11 by
    chi-squared's exact tails.
    """
    values = secret().gaussian_values(sigma, 200_000).astype(float)
    assert abs(((values / sigma) ** 2).mean() - 1) < 7 * math.sqrt(2 / 200_000)
    assert abs((values > 0).mean() - 0.5) < 7 * 0.5 / math.sqrt(200_000)


def test_a_biased_coin_is_noticed(monkeypatch):
    """The comparison fails on a threshold that is off by up to a tenth."""
    right = sampler.gaussian_thresholds
    monkeypatch.setattr(
        sampler,
        "gaussian_thresholds",
        lambda y, sigma, t: (
            right(y, sigma, t) * (1 - 0.1 * np.minimum(y / float(3 * sigma), 1))
        ).astype(np.uint64),
    )
    assert against_the_law(reproducible(1).gaussian_values(43.5, 500_000), 43.5) < 1e-6


def test_a_forgotten_correction_is_noticed(monkeypatch):
    """The comparison fails where candidates are centred on sigma instead of sigma^2 / t."""
    right = sampler.gaussian_thresholds
    monkeypatch.setattr(
        sampler, "gaussian_thresholds", lambda y, sigma, t: right(y, sigma, float(sigma))
    )
    assert against_the_law(reproducible(1).gaussian_values(7.5, 400_000), 7.5) < 1e-6


def test_a_sigma_off_by_a_hundredth_is_noticed():
    """The comparison tells 1 % less and 1 % more noise apart from what was asked."""
    for factor, is_right in ((0.99, False), (1.0, True), (1.01, False)):
        values = reproducible(1).gaussian_values(43.5 * factor, 1_000_000)
        found = against_the_law(values, 43.5)
        assert found > 1e-3 if is_right else found < 1e-6


def test_every_draw_settled_late_is_unbiased(monkeypatch):
    """With a margin that calls every coin ambiguous the exact path decides all of them, and the
    distribution stays.
    """
    monkeypatch.setattr(sampler, "MARGIN", np.uint64(1 << 63))
    assert against_the_law(reproducible(3).gaussian_values(7.5, 1_000), 7.5) > 1e-3


@pytest.mark.parametrize("sigma", [2.0**-60, 0.01, 0.3, 1 / 3, 1.0, 43.5, 999.999, 1e6, 2.0**53])
def test_thresholds_keep_their_proved_error(sigma):
    """Within an eighth of the margin of the truth, from the peak to where the coin is never
    heads.
    """
    exact, t = Fraction(sigma), min(math.floor(sigma) + 1, int(LARGEST_SCALE))
    far = (np.random.default_rng(5).random(300) * 12 * sigma).astype(np.int64)
    y = np.concatenate([far, np.arange(5), [int(1001 * t)]]).astype(np.int64)
    for at, found in zip(y, sampler.gaussian_thresholds(y, exact, t), strict=True):
        x = (int(at) - exact**2 / t) ** 2 / (2 * exact**2)
        low, high = exp_bounds(x, 63) if x < 100 else (0, 1)
        assert low - 2**14 <= int(found) <= high + 2**14


@pytest.mark.parametrize(("off", "heads"), [(-1, True), (1, False)])
@pytest.mark.parametrize(
    ("y", "sigma"), [(3, Fraction(7, 2)), (11, Fraction(3)), (1, Fraction(1, 2))]
)
def test_an_ambiguous_gaussian_coin_takes_more_bits_of_the_same_uniform(y, sigma, off, heads):
    """A prefix equal to the threshold's is settled by the bits that follow it."""
    t = math.floor(sigma) + 1
    threshold = bits_of_exp((y - sigma**2 / t) ** 2 / (2 * sigma**2), 63 + 64)
    prefix, rest = threshold >> 64, (threshold % WORD) + off
    drawn = np.array([prefix << 1], dtype=np.uint64)
    found = sampler.gaussian_coins(np.array([y]), sigma, t, fed(rest), drawn)
    assert found.tolist() == [heads]


def test_a_hopeless_coin_is_settled_without_computing_its_chance():
    """exp(-2**100) has no bounds of workable size; a uniform that starts with zeros is settled by
    its first one.
    """
    assert not sampler.falls_below_exp(1, 63, Fraction(2**100), fed())
    assert not sampler.falls_below_exp(0, 63, Fraction(2**100), fed(0, 0, 1))
    x = Fraction(70)
    bits = bits_of_exp(x, 63 + 128)
    assert bits >> 128 == 0
    last, first = bits % WORD, (bits >> 64) % WORD
    assert sampler.falls_below_exp(0, 63, x, fed(first, last - 1))
    assert not sampler.falls_below_exp(0, 63, x, fed(first, last + 1))


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.inf, math.nan, 2.0**54])
def test_impossible_sigmas_are_refused(sigma):
    """In one line, before anything is drawn."""
    for draw in (
        drawn_sigma,
        lambda s: secret().gaussian_values(s, 1),
    ):
        with pytest.raises(MechanismError, match="gaussian noise"):
            draw(sigma)


@given(st.floats(min_value=5e-324, max_value=2.0**53))
def test_what_is_drawn_is_at_least_what_was_asked(sigma):
    """And the same, bit for bit, from 2**-7 on."""
    drawn = drawn_sigma(sigma)
    assert drawn == sigma or (sigma < drawn <= sigma + 2.0**-60 and sigma < 2.0**-7)
    assert Fraction(drawn) == exact_scale(sigma)


def test_a_seed_repeats():
    """All new draws, and no two seeds alike."""
    first, again, other = reproducible(1), reproducible(1), reproducible(2)
    drawn = [
        (
            s.gaussian_values(50.0, 100).tolist(),
            s.coins(0.5, 200).tolist(),
        )
        for s in (first, again, other)
    ]
    assert drawn[0] == drawn[1]
    assert all(a != b for a, b in zip(drawn[0], drawn[2], strict=True))
    assert secret().gaussian_values(3.0, 0).size == secret().coins(0.3, 0).size == 0


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.999, Fraction(1, 3), Fraction(1, 1000)])
@pytest.mark.parametrize("source", [secret(), reproducible(4)], ids=["secret", "reproducible"])
def test_coins_show_heads_at_their_rate(source, rate):
    """A binomial count, and neighbours that do not depend on each other."""
    heads = source.coins(rate, 400_000)
    assert heads.dtype == bool
    assert binomtest(int(heads.sum()), 400_000, float(rate)).pvalue > FALSE_ALARM
    pairs = int((heads[::2] & heads[1::2]).sum())
    assert binomtest(pairs, 200_000, float(rate) ** 2).pvalue > FALSE_ALARM


def test_a_coin_off_by_a_hundredth_is_noticed():
    """The binomial test tells a rate of .5 from one of .505 in as many draws: six deviations."""
    heads = int(reproducible(4).coins(0.505, 400_000).sum())
    assert binomtest(heads, 400_000, 0.5).pvalue < 1e-6


@pytest.mark.parametrize(
    "rate", [Fraction(1, 3), Fraction(2, 7), Fraction(0.05), Fraction(1, 2), Fraction(5, 2**70)]
)
def test_a_coin_is_its_rate_bit_by_bit(rate):
    """A uniform just below the rate's 192 bits is heads, the one at or just above it tails."""
    bits = rate.numerator * 2**192 // rate.denominator
    at_rate = rate * 2**192 == bits

    def coin(uniform):
        source = noise._Source(
            words=fed(*(uniform >> shift & (WORD - 1) for shift in (128, 64, 0))), private=False
        )
        return source.coins(rate, 1).tolist()

    assert coin(bits - 1) == [True]
    assert coin(bits + 1) == [False]
    if at_rate:
        assert coin(bits) == [False]


def test_certain_coins():
    """At rates 0 and 1 nothing is left to chance, nor drawn."""
    source = noise._Source(words=fed(), private=False)
    assert source.coins(1.0, 5).all()
    assert not source.coins(0.0, 5).any()


@pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan, math.inf, Fraction(4, 3)])
def test_impossible_rates_are_refused(rate):
    """In one line."""
    with pytest.raises(MechanismError, match="between 0 and 1"):
        secret().coins(rate, 1)
    with pytest.raises(MechanismError, match="between 0 and 1"):
        drawn_rate(rate)


@given(st.fractions(0, 1) | st.floats(0, 1))
def test_the_rate_charged_is_never_below_the_rate_drawn(rate):
    """And the least float that is not; a float is charged as it is."""
    charged = drawn_rate(rate)
    assert Fraction(charged) >= Fraction(rate)
    assert charged == 0 or Fraction(math.nextafter(charged, 0)) < Fraction(rate)

"""The noise is what it says: exact in distribution, unbiased where a draw is settled late, never
wrapping.
"""

import inspect
import math
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import binomtest, chi2

from cloakwork.base.exact import drawn_scale
from cloakwork.errors import MechanismError
from cloakwork.noise import Addresses, keyed, reproducible, sampler, secret
from cloakwork.noise import source as noise
from conftest import in_long_form
from noise.draws import FALSE_ALARM, fed, law_p_value, p_value, two_sample_p_value
from noise.opendp_sampler import drawn_by_opendp

pytestmark = pytest.mark.true_noise  # what is tested is the source, or a stream of it

SCALES = [0.01, 0.3, 1.0, 7.5, 7200.0]


def tail(scale, at_least):
    """Pr[DLap(scale) >= at_least], exact to double precision."""
    if at_least < 1:
        return 1 - tail(scale, 1 - at_least)
    return math.exp(-at_least / scale) / (1 + math.exp(-1 / scale))


def cuts(scale):
    """At most 81 integers, from ten scales below zero to ten above."""
    return np.unique(np.rint(np.linspace(-10, 10, 81) * scale))


def against_the_law(values, scale):
    """The p-value of draws against the exact mass function."""
    return law_p_value(values, cuts(scale), [tail(scale, cut) for cut in cuts(scale)])


@pytest.mark.parametrize("scale", SCALES[1:])
@pytest.mark.parametrize("source", [secret(), reproducible(7)], ids=["secret", "reproducible"])
def test_values_follow_the_mass_function(source, scale):
    """Over the whole range."""
    assert against_the_law(source.laplace_values(scale, 150_000), scale) > FALSE_ALARM


@pytest.mark.parametrize("scale", SCALES[1:])
def test_tails_are_not_cut(scale):
    """Far values come as often as they should, both sides together."""
    size = 400_000
    far = math.ceil(scale * math.log(size / 100)) + 1
    observed = int((np.abs(secret().laplace_values(scale, size)) >= far).sum())
    assert binomtest(observed, size, 2 * tail(scale, far)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("scale", [7.5, *in_long_form(1.0, 7200.0)])
def test_ours_and_opendp_agree(scale):
    """Our sampler and OpenDP's draw the same distribution."""
    ours = secret().laplace_values(scale, 30_000)
    theirs = drawn_by_opendp("laplace", scale, 30_000)
    assert two_sample_p_value(ours, theirs, cuts(scale)) > FALSE_ALARM


def test_a_tiny_scale_draws_zero():
    """At a hundredth of a grid step noise is zero but for a chance of e**-100; below 2**-7 the
    scale is rounded up.
    """
    assert not secret().laplace_values(0.01, 10_000).any()
    assert not secret().laplace_values(1e-300, 100).any()


@pytest.mark.parametrize("scale", [1e12, 2.0**53])
def test_large_scales_do_not_overflow(scale):
    """Mean magnitude and balance of signs at the largest scales: seven standard errors, 1e-11 by
    the gamma's exact tails.
    """
    values = secret().laplace_values(scale, 100_000).astype(float)
    assert abs(np.abs(values).mean() / scale - 1) < 7 / math.sqrt(100_000)
    assert abs((values > 0).mean() - 0.5) < 7 * 0.5 / math.sqrt(100_000)


def test_a_biased_coin_is_noticed(monkeypatch):
    """The comparison fails on a threshold that is off by up to a tenth."""
    right = sampler.laplace_thresholds
    monkeypatch.setattr(
        sampler,
        "laplace_thresholds",
        lambda u, p: (right(u, p) * (1 - 0.1 * (u / p))).astype(np.uint64),
    )
    assert against_the_law(reproducible(1).laplace_values(7200.0, 500_000), 7200.0) < 1e-6


def test_a_biased_geometric_is_noticed(monkeypatch):
    """The comparison fails on thresholds of the geometric that are a twentieth too low."""
    wrong = (sampler._geometric_thresholds() * 0.95).astype(np.uint64)
    monkeypatch.setattr(sampler, "_geometric_thresholds", lambda: wrong)
    sampler._geometric_table.cache_clear()
    try:
        assert against_the_law(reproducible(1).laplace_values(7.5, 400_000), 7.5) < 1e-6
    finally:
        sampler._geometric_table.cache_clear()


def test_every_draw_settled_late_is_unbiased(monkeypatch):
    """With a margin that calls every coin ambiguous the exact path decides all of them, and the
    distribution stays.
    """
    monkeypatch.setattr(sampler, "MARGIN", np.uint64(1 << 63))
    assert against_the_law(reproducible(3).laplace_values(7.5, 2_000), 7.5) > 1e-3


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan, 2.0**54])
def test_impossible_scales_are_refused(scale):
    """In one line, before anything is drawn."""
    with pytest.raises(MechanismError):
        drawn_scale(scale)
    with pytest.raises(MechanismError):
        secret().laplace_values(scale, 1)


@pytest.mark.parametrize("scale", [2.0**-7, 0.01, 0.1, 1 / 3, 7200.0, 1e12])
def test_scales_are_drawn_bit_for_bit(scale):
    """What an event charges for is what is drawn."""
    assert scale == drawn_scale(scale)


def test_uniform_integers_are_uniform():
    """Each outcome of a small bound; range for a mixture of bounds up to the largest."""
    draws = secret().uniform(np.full(60_000, 6, dtype=np.int64))
    observed = np.bincount(draws, minlength=6)
    assert p_value(observed, 60_000, [1 / 6] * 6) > FALSE_ALARM
    bounds = np.array([1, 2, 3, 2**62 + 1, 2**63 - 1] * 200, dtype=np.int64)
    draws = secret().uniform(bounds)
    assert ((draws >= 0) & (draws < bounds)).all()
    assert secret().uniform(np.empty(0, dtype=np.int64)).size == 0


def test_a_large_bound_rejects_the_last_round():
    """A word of the last, partial round is drawn again."""
    bound = 3 << 61
    source = noise._Source(words=fed((1 << 64) - 1, 5), private=False)
    assert source.uniform(np.array([bound])).tolist() == [5]


def test_permutations_are_uniform():
    """All 24 orders of four things, equally often."""
    source = reproducible(11)
    seen = Counter(tuple(source.permutation(4).tolist()) for _ in range(24_000))
    statistic = sum((seen[order] - 1_000) ** 2 / 1_000 for order in permutations(range(4)))
    assert chi2.sf(statistic, 23) > 1e-3
    assert sorted(secret().permutation(1_000).tolist()) == list(range(1_000))


def test_names_are_distinct_lower_case_letters():
    """Fresh ids carry nothing but chance."""
    names = secret().stream().names(Addresses.of_cases(np.arange(20_000)))
    assert len(set(names)) == 20_000
    assert all(
        len(name) == keyed.NAME_LENGTH and name.isalpha() and name.isascii() and name.islower()
        for name in names
    )
    observed = Counter("".join(names)).values()
    assert p_value([*observed], 20_000 * keyed.NAME_LENGTH, [1 / 26] * 26) > FALSE_ALARM
    assert secret().stream().names(Addresses.of_cases(np.arange(0))) == []


def test_a_seed_repeats_and_says_that_it_is_not_private():
    """Tests may repeat a run; a release never can."""
    first, again, other = reproducible(1), reproducible(1), reproducible(2)
    for source in (first, again, other):
        assert not source.private
    assert first.laplace_values(50.0, 100).tolist() == again.laplace_values(50.0, 100).tolist()
    assert first.stream() == again.stream() != again.stream()
    assert first.laplace_values(50.0, 100).tolist() != other.laplace_values(50.0, 100).tolist()
    assert (
        secret().laplace_values(50.0, 100).tolist() != secret().laplace_values(50.0, 100).tolist()
    )
    assert secret().private
    assert secret().stream().private
    assert secret().stream() != secret().stream()


def test_a_source_of_a_stream_gives_all_words_asked_for_and_none_twice():
    """So that what is drawn for a later part is uniform, and the same whenever it is drawn."""
    stream = secret().stream()
    words, again = (noise.source_of(stream).words for _ in range(2))
    drawn = [words(size) for size in range(9)]
    assert [len(each) for each in drawn] == list(range(9))
    drawn = np.concatenate(drawn)
    assert len(np.unique(drawn)) == len(drawn)
    assert np.array_equal(np.concatenate([again(size) for size in range(9)]), drawn)
    other = noise.source_of(stream.part("another")).words(9)
    assert not np.isin(other, drawn).any()


def test_no_other_generator_stands_behind_the_source():
    """Neither numpy's nor Python's generator is used in the noise or its sampler."""
    for module in (noise, sampler):
        source = inspect.getsource(module)
        assert "np.random" not in source
        assert "import random" not in source

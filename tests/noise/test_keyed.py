"""Keyed draws: the same distributions as the other noise, by address, and nothing but the key and
the address decides.
"""

import inspect
import math
from dataclasses import replace

import numpy as np
import pytest

from cloakwork.errors import MechanismError
from cloakwork.noise import Addresses, Stream, keyed, reproducible, sampler, secret
from noise import test_sampler, test_source
from noise.draws import FALSE_ALARM, p_value

pytestmark = pytest.mark.true_noise  # what is tested is the source, or a stream of it

AT = Addresses(np.repeat(np.arange(40_000), 10), np.tile(np.arange(10), 40_000))
"""Ten events in each of 40,000 cases."""


def test_blocks_are_those_of_aes_256():
    """The example of FIPS 197, appendix C.3."""
    stream = Stream(bytes(range(32)), private=False)
    at = Addresses(np.array([0x7766554433221100]), np.array([0xFFEEDDCC]))
    first, second = stream.words(at, 0xBBAA9988)
    assert (first[0], second[0]) == (0xBF456751CAB7A28E, 0x8960494B9049FCEA)


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 7200.0])
@pytest.mark.parametrize("source", [secret(), reproducible(7)], ids=["secret", "reproducible"])
def test_laplace_values_follow_the_mass_function(source, scale):
    """Over the whole range."""
    drawn = source.stream().laplace_values(scale, AT)
    assert test_source.against_the_law(drawn, scale) > FALSE_ALARM


@pytest.mark.parametrize("sigma", [0.3, 1.0, 43.5])
def test_gaussian_values_follow_the_mass_function(sigma):
    """Over the whole range."""
    drawn = secret().stream().gaussian_values(sigma, AT)
    assert test_sampler.against_the_law(drawn, sigma) > FALSE_ALARM


@pytest.mark.parametrize("scale", [1e12, 2.0**53])
def test_large_scales_do_not_overflow(scale):
    """Mean magnitude and balance of signs at the largest scales: seven standard errors, 1e-11 by
    the gamma's exact tails.
    """
    values = secret().stream().laplace_values(scale, AT.at(slice(100_000))).astype(float)
    assert abs(np.abs(values).mean() / scale - 1) < 7 / math.sqrt(100_000)
    assert abs((values > 0).mean() - 0.5) < 7 * 0.5 / math.sqrt(100_000)


@pytest.mark.parametrize("draw", ["laplace_values", "gaussian_values"])
@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan, 2.0**54])
def test_what_cannot_be_drawn_is_refused(draw, scale):
    """Not drawn at another scale in silence."""
    with pytest.raises(MechanismError, match="cannot be drawn"):
        getattr(secret().stream(), draw)(scale, AT)


def test_uniform_integers_are_uniform():
    """Also below a bound for which a quarter of all words is refused."""
    drawn = secret().stream().uniform(np.full(len(AT), 5), AT)
    assert p_value(np.bincount(drawn, minlength=5), len(AT), [0.2] * 5) > FALSE_ALARM
    bound = (1 << 62) + 1
    large = secret().stream().uniform(np.full(len(AT), bound), AT)
    counts = np.bincount(large // (bound // 4 + 1), minlength=4)
    assert p_value(counts, len(AT), [0.25] * 4) > FALSE_ALARM
    with pytest.raises(ValueError, match="at least 1"):
        secret().stream().uniform(np.zeros(1, np.int64), AT.at(slice(1)))


def test_orders_are_uniform():
    """Each of the six orders of three cases comes as often."""
    three, stream = Addresses.of_cases(np.arange(3)), reproducible(1).stream()
    orders = [tuple(stream.part(str(i)).order(three)) for i in range(6_000)]
    counts = [orders.count(order) for order in sorted(set(orders))]
    assert p_value(counts, 6_000, [1 / 6] * 6) > FALSE_ALARM


DRAWS = {
    "laplace": lambda stream, at: stream.laplace_values(7.5, at),
    "gaussian": lambda stream, at: stream.gaussian_values(7.5, at),
    "uniform": lambda stream, at: stream.uniform(at.cases % 7 + 3, at),
    "words": lambda stream, at: stream.words(at)[1],
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_draw_depends_on_its_address_alone(draw):
    """Some of the addresses, in another order, draw what they draw among all of them."""
    stream, chosen = reproducible(1).stream(), np.random.default_rng(1).permutation(len(AT))[:999]
    assert draw(stream, AT.at(chosen)).tolist() == draw(stream, AT)[chosen].tolist()


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_other_keys_cases_positions_and_parts_draw_anew(draw):
    """Independent values agree about as often as chance says: never nearly all of 1,000."""
    stream, at = reproducible(1).stream(), AT.at(slice(1_000))
    seen = draw(stream, at)
    later = Addresses(at.cases + 100, at.positions)
    behind = Addresses(at.cases, at.positions + 10)
    others = [
        draw(reproducible(2).stream(), at),
        draw(stream.part("a"), at),
        draw(stream.part("b"), at),
        draw(stream, later),
        draw(stream, behind),
    ]
    assert all((seen == other).mean() < 0.5 for other in others)
    assert (others[1] == others[2]).mean() < 0.5


def test_an_order_is_that_of_any_part():
    """Of two addresses the same comes first, whatever others there are."""
    stream, cases = reproducible(1).stream(), Addresses.of_cases(np.arange(1_000))
    whole, some = stream.order(cases), np.arange(0, 1_000, 7)
    assert some[stream.order(cases.at(some))].tolist() == [i for i in whole if i % 7 == 0]


def test_late_settled_coins_and_geometrics_draw_the_same(monkeypatch):
    """Further bits come from the address: settled exactly, all 300 draws are what they were, in any
    order.
    """
    stream, at = reproducible(1).stream(), AT.at(slice(300))
    usual = stream.laplace_values(7.5, at), stream.gaussian_values(7.5, at)
    monkeypatch.setattr(sampler, "MARGIN", np.uint64(1 << 63))
    monkeypatch.setattr(sampler, "geometric_by_table", lambda words: np.full(len(words), -1))
    exact = stream.laplace_values(7.5, at), stream.gaussian_values(7.5, at)
    assert [each.tolist() for each in usual] == [each.tolist() for each in exact]


def test_a_biased_coin_is_noticed(monkeypatch):
    """The comparison with the law fails on a threshold that is off by up to a tenth."""
    right = sampler.laplace_thresholds
    monkeypatch.setattr(
        sampler,
        "laplace_thresholds",
        lambda u, p: (right(u, p) * (1 - 0.1 * (u / p))).astype(np.uint64),
    )
    more = Addresses(np.arange(500_000), np.zeros(500_000, np.int64))
    drawn = reproducible(1).stream().laplace_values(7200.0, more)
    assert test_source.against_the_law(drawn, 7200.0) < 1e-6


def test_keys_are_fresh_and_do_not_show():
    """Each stream has its own; none is printed, as in a traceback; parts have keys of their own."""
    one, other = secret().stream(), secret().stream()
    assert len(one.secret) == 32
    assert one.secret != other.secret
    assert one.secret.hex() not in repr(one)
    assert str(one.secret) not in repr(one)
    assert len({one.secret, one.part("a").secret, one.part("b").secret, one.key("a")}) == 4
    assert one.key("a") == replace(one).key("a")


def test_a_stream_moves_no_other_draw():
    """A seeded run draws the same for what it decides, whether a rewrite takes a stream or not."""
    plain, streaming = reproducible(1), reproducible(1)
    streaming.stream()
    assert plain.laplace_values(5.0, 20).tolist() == streaming.laplace_values(5.0, 20).tolist()


def test_no_other_generator_stands_behind_it():
    """Neither numpy's nor Python's."""
    source = inspect.getsource(keyed)
    assert "np.random" not in source
    assert "import random" not in source

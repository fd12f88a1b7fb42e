"""Coarse Gaussians composed with other events and in Poisson samples, against exact figures and
against accountants that know nothing of them; losses of discrete Gaussian noise.
"""

import math

import numpy as np
import pytest

from cloakwork.accounting import distributions
from cloakwork.accounting.distributions import (
    Distribution,
    _losses_of,
    added_up,
    distribution_of,
    epsilon_of_mixture,
    epsilon_of_samples,
    leaf_distributions,
)
from cloakwork.accounting.events import cost, delta_at
from cloakwork.accounting.leaf_events import LeafCounts, epsilon_of_normal, leaves_of, mu_of_cost
from cloakwork.base.costs import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDelta,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
)
from conftest import in_long_form

DELTA = 1e-5
GRID = 2**13


def tables(mu: float, cells: int = 64) -> PrivacyEvent:
    """A vector of norm ``GRID`` in so many cells."""
    each = math.ceil(GRID / math.sqrt(cells))
    return Repeated(times=cells, event=DiscreteGaussian(sigma=GRID / mu, sensitivity=each))


FINE: dict[str, PrivacyEvent] = {
    "gaussian": DiscreteGaussian(sigma=5.0),
    "gaussian and a threshold": Composed(
        events=(DiscreteGaussian(sigma=5.0), EpsilonDelta(epsilon=0.0, delta=2e-6))
    ),
    "laplace": DiscreteLaplace(scale=2.0),
    "a profile": Repeated(times=3, event=DiscreteLaplace(scale=15.0)),
    "a black box": EpsilonDelta(epsilon=0.5, delta=1e-6),
    "a sample": PoissonSampled(rate=0.2, event=DiscreteLaplace(scale=1.0)),
}


@pytest.mark.parametrize("name", FINE)
def test_it_costs_less_than_shares_of_delta(name: str) -> None:
    """And no less than either part alone at the whole of delta."""
    fine, coarse = FINE[name], tables(0.35)
    spent = cost(Composed(events=(fine, coarse)), DELTA).epsilon
    shared = cost(fine, DELTA / 2).epsilon + cost(coarse, DELTA / 2).epsilon
    assert spent < shared
    assert spent > max(cost(fine, DELTA).epsilon, cost(coarse, DELTA).epsilon)


def test_gaussians_of_both_sorts_add_up_as_squares() -> None:
    """Noise of 5 counts and noise on a fine grid cost what one normal number does."""
    spent = cost(Composed(events=(DiscreteGaussian(sigma=5.0), tables(0.35))), DELTA).epsilon
    normal = epsilon_of_normal(math.hypot(0.2, 0.35), DELTA)
    assert spent == pytest.approx(normal, rel=1e-3)


def test_noise_of_both_sorts_just_above_and_below_the_limit() -> None:
    """By the distribution of its own that the coarse noise has a step below."""
    laplace = DiscreteLaplace(scale=2.0)
    below = Composed(events=(laplace, DiscreteGaussian(sigma=1000.0, sensitivity=700)))
    above = Composed(events=(laplace, DiscreteGaussian(sigma=1000.0 + 1e-9, sensitivity=700)))
    exact = distribution_of(leaves_of(below)).epsilon_at(DELTA)
    assert exact * (1 - 1e-5) <= cost(above, DELTA).epsilon <= exact * 1.001


@pytest.mark.parametrize(("scale", "mu"), [(2.0, 0.35), (1.0, 1.0), (20.0, 0.2)])
def test_it_is_what_integration_finds(scale: float, mu: float) -> None:
    """Randomised response and a normal number, by summing their losses on a fine lattice."""
    epsilon0 = 1 / scale
    fine = EpsilonDelta(epsilon=epsilon0)
    spent = epsilon_of_mixture(leaves_of(fine), leaves_of(tables(mu)), DELTA)
    likely = math.exp(epsilon0) / (1 + math.exp(epsilon0))

    def delta(epsilon: float) -> float:
        found = 0.0
        for share, loss in ((likely, epsilon0), (1 - likely, -epsilon0)):
            rest = (epsilon - loss) / mu
            upper = math.erfc((rest - mu / 2) / math.sqrt(2)) / 2
            lower = math.erfc((rest + mu / 2) / math.sqrt(2)) / 2
            found += share * (upper - math.exp(epsilon - loss) * lower)
        return found

    assert delta(spent) <= DELTA
    assert delta(spent * (1 - 2e-3) - 1e-4) > DELTA


def test_the_order_of_events_makes_no_difference() -> None:
    events = [FINE["gaussian and a threshold"], tables(0.2), tables(0.1, 8), FINE["laplace"]]
    one = cost(Composed(events=tuple(events)), DELTA).epsilon
    assert cost(Composed(events=tuple(events[::-1])), DELTA).epsilon == pytest.approx(one)


@pytest.mark.parametrize("sigma", [0.76, 4.4])
def test_a_delta_alone_needs_no_finer_grid(sigma: float) -> None:
    """As of a threshold: it costs what the noise does at the delta that is left, on its grid."""
    noise, alone = DiscreteGaussian(sigma=sigma), EpsilonDelta(epsilon=0.0, delta=1e-4)
    spent = cost(Composed(events=(noise, alone)), 1e-3).epsilon
    left = cost(noise, (1e-3 - 1e-4) / (1 - 1e-4)).epsilon
    assert left * (1 - 1e-12) <= spent <= left * (1 + 1e-6)
    steps = [leaf_distributions(leaves)[0] for leaves in (((noise, 1), (alone, 1)), ((noise, 1),))]
    assert steps[0] == steps[1]


def test_small_black_boxes_are_added_up() -> None:
    tiny = EpsilonDelta(epsilon=1e-6, delta=1e-6)
    left, epsilon, delta = added_up(((tiny, 3), (DiscreteLaplace(scale=1.0), 1)))
    assert left == ((DiscreteLaplace(scale=1.0), 1),)
    assert 3e-6 <= epsilon <= 3.0001e-6
    assert 3e-6 <= delta <= 3.0001e-6
    spent = cost(Composed(events=(tiny, tables(0.35))), DELTA).epsilon
    assert spent == pytest.approx(cost(tables(0.35), DELTA - 1e-6).epsilon, abs=1e-5)


def test_samples_of_coarse_noise_are_composed_too() -> None:
    """They cost what a sample with noise that has a distribution of its own does."""
    laplace = DiscreteLaplace(scale=2.0)
    fine, coarse = (DiscreteGaussian(sigma=s, sensitivity=500) for s in (1000.0, 1000.0 + 1e-9))
    events = [
        Composed(events=(laplace, Repeated(times=5, event=PoissonSampled(rate=0.1, event=noise))))
        for noise in (fine, coarse)
    ]
    exact = distribution_of(leaves_of(events[0])).epsilon_at(DELTA)
    spent = cost(events[1], DELTA).epsilon
    # Noise so near to the limit has a surcharge that shows: 2e-4 a run.
    assert exact * (1 - 1e-5) <= spent <= exact + 2e-3


def test_what_neither_derivation_covers_is_charged_by_shares() -> None:
    extreme = DiscreteGaussian(sigma=1.0, sensitivity=11)
    fine = DiscreteLaplace(scale=1.0)
    assert epsilon_of_mixture(((fine, 1),), ((extreme, 1),), DELTA) == math.inf
    assert cost(Composed(events=(extreme, fine)), DELTA).epsilon < math.inf


def test_delta_at_an_epsilon_is_its_inverse() -> None:
    event = Composed(events=(FINE["laplace"], tables(0.35)))
    spent = cost(event, DELTA).epsilon
    assert delta_at(event, spent) == pytest.approx(DELTA, rel=1e-3)


def test_the_cheaper_derivation_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many cells near the limit, the one that holds without samples alone."""
    coarse = Repeated(times=40_000, event=DiscreteGaussian(sigma=1001.0, sensitivity=1))
    fine = DiscreteLaplace(scale=2.0)
    spent = epsilon_of_mixture(((fine, 1),), leaves_of(coarse), DELTA)
    monkeypatch.setattr(distributions, "rounding_of", lambda _: None)
    assert spent < epsilon_of_mixture(((fine, 1),), leaves_of(coarse), DELTA)


@pytest.mark.parametrize("broken", ["cells are counted once", "other events are forgotten"])
def test_broken_sums_are_found(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """Twins that charge less than the exact sum just below the limit."""
    noise = [DiscreteGaussian(sigma=sigma, sensitivity=100) for sigma in (1000.0, 1000.0 + 1e-9)]
    fine = DiscreteLaplace(scale=2.0)
    exact = distribution_of(((fine, 1), (noise[0], 9))).epsilon_at(DELTA)
    assert epsilon_of_mixture(((fine, 1),), ((noise[1], 9),), DELTA) >= exact * (1 - 1e-5)
    taken = distributions._distribution_of

    def twin(leaves: LeafCounts, moves: distributions.Moves) -> Distribution:
        if broken == "other events are forgotten":
            return taken((), moves)
        return taken(leaves, tuple(((rate, move / 3), times) for (rate, move), times in moves))

    monkeypatch.setattr(distributions, "_distribution_of", twin)
    assert epsilon_of_mixture(((fine, 1),), ((noise[1], 9),), DELTA) < exact * 0.99


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (2.0, 1e-5), (8.0, 1e-10)])
def test_the_move_of_a_cost(epsilon: float, delta: float) -> None:
    assert epsilon_of_normal(mu_of_cost(epsilon, delta), delta) == pytest.approx(epsilon)
    assert np.isinf(epsilon_of_normal(1.0, 0.0))


SAMPLED_DELTA = 1e-6
FINE_GRID = 2**24


def steps(rate: float, noise: float, times: int, cells: int) -> PrivacyEvent:
    """Samples with a vector of norm ``FINE_GRID`` and noise of so many times that."""
    sensitivity = math.ceil(FINE_GRID / math.sqrt(cells))
    one = DiscreteGaussian(sigma=noise * FINE_GRID, sensitivity=sensitivity)
    sampled = PoissonSampled(rate=rate, event=Repeated(times=cells, event=one))
    return Repeated(times=times, event=sampled)


@pytest.mark.parametrize(
    ("rate", "noise", "times", "cells"),
    [
        (0.1, 2.0, 60, 2),
        (0.5, 8.0, 50, 1),
        *in_long_form((0.01, 1.0, 1000, 10_000), (0.001, 0.6, 5000, 100)),
    ],
)
def test_it_costs_what_the_continuous_noise_costs(
    rate: float, noise: float, times: int, cells: int
) -> None:
    """A little more, never less; and far less than without the sample."""
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent  # takes seconds to load
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), times)
    continuous = accountant.get_epsilon(SAMPLED_DELTA)
    charged = cost(steps(rate, noise, times, cells), SAMPLED_DELTA).epsilon
    assert continuous <= charged <= continuous * 1.001
    assert charged < cost(steps(1.0, noise, times, cells), SAMPLED_DELTA).epsilon / 2


@pytest.mark.parametrize(
    ("rate", "moved", "times"),
    [(0.1, 1500, 10), *in_long_form((0.5, 1000, 1), (0.02, 2000, 50))],
)
def test_it_costs_no_less_than_the_discrete_noise(rate: float, moved: int, times: int) -> None:
    """By its own distribution, just above where that is no longer used."""
    event = PoissonSampled(rate=rate, event=DiscreteGaussian(sigma=1001.0, sensitivity=moved))
    exact = distribution_of(((event, times),)).epsilon_at(SAMPLED_DELTA)
    assert exact <= epsilon_of_samples(((event, times),), SAMPLED_DELTA) <= exact * 1.001


def test_the_pointwise_bounds_hold() -> None:
    """Of a discrete Gaussian and a rounded normal, as the module derives them, as far as floats can
    tell: for a sigma so small that they differ.
    """
    sigma = 2.0
    noise = np.arange(-30, 31)
    weights = np.exp(-(noise**2) / (2 * sigma**2))
    discrete = weights / weights.sum()

    def cumulative(x: float) -> float:
        return math.erfc(-x / (sigma * math.sqrt(2))) / 2

    # From the lower tail, where differences keep their digits.
    low = [cumulative(-abs(x) + 0.5) - cumulative(-abs(x) - 0.5) for x in noise.tolist()]
    rounded = np.array(low)
    assert (discrete <= rounded * math.exp(1 / (24 * sigma**2)) * (1 + 1e-9)).all()
    assert (rounded <= discrete * np.exp(noise**2 / (8 * sigma**4)) * (1 + 1e-9)).all()


def test_other_samples_cost_what_they_did() -> None:
    """Where something else is in the sample, or noise is fine, nothing is found here."""
    coarse = DiscreteGaussian(sigma=5000.0, sensitivity=500)
    for other in (DiscreteLaplace(scale=2.0), DiscreteGaussian(sigma=900.0)):
        event = PoissonSampled(rate=0.1, event=Composed(events=(coarse, other)))
        assert epsilon_of_samples(((event, 1),), SAMPLED_DELTA) == math.inf
    far = PoissonSampled(rate=0.1, event=DiscreteGaussian(sigma=5000.0, sensitivity=500_000))
    assert epsilon_of_samples(((far, 1),), SAMPLED_DELTA) == math.inf
    assert epsilon_of_samples(((PoissonSampled(rate=0.1, event=coarse), 1),), 0.0) == math.inf


def test_delta_and_epsilon_agree() -> None:
    event = steps(0.05, 2.0, 20, 50)
    epsilon = cost(event, SAMPLED_DELTA).epsilon
    assert delta_at(event, epsilon) == pytest.approx(SAMPLED_DELTA, rel=1e-3)
    mixed = Composed(events=(event, DiscreteGaussian(sigma=1e6, sensitivity=100_000)))
    assert epsilon < cost(mixed, SAMPLED_DELTA).epsilon < epsilon + 1


@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.137, 47.3])
@pytest.mark.parametrize("sensitivity", [1, 7])
@pytest.mark.parametrize("step", [0.00173, 0.05])
def test_masses_are_read_to_the_last_bit(sigma: float, sensitivity: int, step: float) -> None:
    """Of fine and coarse noise, of one step and of several, on fine and coarse grids."""
    reach = math.ceil(11.6 * sigma) + sensitivity
    from dp_accounting.pld.privacy_loss_distribution import from_discrete_gaussian_mechanism

    found = from_discrete_gaussian_mechanism(
        sigma, sensitivity, reach, value_discretization_interval=step, use_connect_dots=True
    )
    dense = found._pmf_remove.to_dense_pmf()
    losses = _losses_of(found._pmf_remove, step)
    assert losses.lowest == dense._lower_loss
    assert losses.infinite == dense._infinity_mass
    assert np.array_equal(losses.masses, dense._probs)

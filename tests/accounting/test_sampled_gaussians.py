"""Poisson samples with coarse Gaussian noise, against two accountants that know nothing of it."""

import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.pld import PLDAccountant

from cloakwork.accounting.distributions import distribution_of, epsilon_of_samples
from cloakwork.accounting.events import cost, delta_at
from cloakwork.base.costs import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
)

DELTA = 1e-6
GRID = 2**24


def steps(rate: float, noise: float, times: int, cells: int) -> PrivacyEvent:
    """Samples with a vector of norm ``GRID`` and noise of so many times that."""
    sensitivity = math.ceil(GRID / math.sqrt(cells))
    one = DiscreteGaussian(sigma=noise * GRID, sensitivity=sensitivity)
    sampled = PoissonSampled(rate=rate, event=Repeated(times=cells, event=one))
    return Repeated(times=times, event=sampled)


@pytest.mark.parametrize(
    ("rate", "noise", "times", "cells"),
    [(0.01, 1.0, 1000, 10_000), (0.1, 2.0, 60, 2), (0.001, 0.6, 5000, 100), (0.5, 8.0, 50, 1)],
)
def test_it_costs_what_the_continuous_noise_costs(
    rate: float, noise: float, times: int, cells: int
) -> None:
    """A little more, never less; and far less than without the sample."""
    accountant = PLDAccountant()
    accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), times)
    continuous = accountant.get_epsilon(DELTA)
    charged = cost(steps(rate, noise, times, cells), DELTA).epsilon
    assert continuous <= charged <= continuous * 1.001
    assert charged < cost(steps(1.0, noise, times, cells), DELTA).epsilon / 2


@pytest.mark.parametrize(
    ("rate", "moved", "times"), [(0.1, 1500, 10), (0.5, 1000, 1), (0.02, 2000, 50)]
)
def test_it_costs_no_less_than_the_discrete_noise(rate: float, moved: int, times: int) -> None:
    """By its own distribution, just above where that is no longer used."""
    event = PoissonSampled(rate=rate, event=DiscreteGaussian(sigma=1001.0, sensitivity=moved))
    exact = distribution_of(((event, times),)).epsilon_at(DELTA)
    assert exact <= epsilon_of_samples(((event, times),), DELTA) <= exact * 1.001


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
        assert epsilon_of_samples(((event, 1),), DELTA) == math.inf
    far = PoissonSampled(rate=0.1, event=DiscreteGaussian(sigma=5000.0, sensitivity=500_000))
    assert epsilon_of_samples(((far, 1),), DELTA) == math.inf
    assert epsilon_of_samples(((PoissonSampled(rate=0.1, event=coarse), 1),), 0.0) == math.inf


def test_delta_and_epsilon_agree() -> None:
    event = steps(0.05, 1.0, 20, 50)
    epsilon = cost(event, DELTA).epsilon
    assert delta_at(event, epsilon) == pytest.approx(DELTA, rel=1e-3)
    mixed = Composed(events=(event, DiscreteGaussian(sigma=1e6, sensitivity=100_000)))
    assert epsilon < cost(mixed, DELTA).epsilon < epsilon + 1

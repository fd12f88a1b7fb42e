"""Noise found for a budget costs no more than the budget, and little less."""

import math
import time
from fractions import Fraction
from itertools import product

import mpmath
import pytest

from cloakwork.accounting.calibrate import largest_delta, partition_threshold, smallest_scale, threshold_delta
from cloakwork.accounting.events import cost
from cloakwork.budget import Cost
from cloakwork.errors import MechanismError
from cloakwork.privacy_event import DiscreteGaussian, DiscreteLaplace, EpsilonDelta, PoissonSampled, Repeated


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.3, 0.7, 1.0, 2.5, 17 / 3])
@pytest.mark.parametrize("sensitivity", [1, 5, 7200])
def test_one_laplace_measurement_gets_exactly_its_scale(epsilon, sensitivity):
    """sensitivity / epsilon, to the last float or the one beside it, and never above the budget."""
    scale = smallest_scale(lambda b: DiscreteLaplace(scale=b, sensitivity=sensitivity), Cost(epsilon=epsilon))
    assert scale == pytest.approx(sensitivity / epsilon, rel=1e-15)
    assert cost(DiscreteLaplace(scale=scale, sensitivity=sensitivity), 0.0).epsilon <= epsilon


@pytest.mark.parametrize(
    "event_of_scale",
    [
        lambda b: DiscreteGaussian(sigma=b),
        lambda b: Repeated(times=11, event=DiscreteGaussian(sigma=b)),
        lambda b: DiscreteGaussian(sigma=b, sensitivity=86_400),
        lambda b: Repeated(times=20, event=PoissonSampled(rate=0.05, event=DiscreteLaplace(scale=b))),
    ],
)
def test_composed_noise_meets_the_budget_closely(event_of_scale):
    """The scale found costs at most the budget; a thousandth less noise would cost more."""
    target = Cost(epsilon=1.0, delta=1e-6)
    scale = smallest_scale(event_of_scale, target)
    assert cost(event_of_scale(scale), target.delta).epsilon <= target.epsilon
    assert cost(event_of_scale(scale * 0.999), target.delta).epsilon > target.epsilon


@pytest.mark.parametrize(("epsilon", "delta", "about"), [(1.0, 1e-4, 43.45), (0.1, 1e-4, 334.2), (2.0, 1e-6, 30.42)])
def test_many_gaussians_are_calibrated_quickly(epsilon, delta, about):
    """186 counts, as a prefix tree measures: near the continuous Gaussian's figure, and in seconds."""
    begin = time.perf_counter()
    sigma = smallest_scale(
        lambda b: Repeated(times=186, event=DiscreteGaussian(sigma=b)), Cost(epsilon=epsilon, delta=delta)
    )
    assert sigma == pytest.approx(about, rel=1e-3)
    assert time.perf_counter() - begin < 20


def test_an_impossible_budget_is_refused():
    """Where the cost does not depend on the noise, or delta is zero for Gaussian noise."""
    with pytest.raises(MechanismError, match="no amount of noise"):
        smallest_scale(lambda b: EpsilonDelta(epsilon=3.0), Cost(epsilon=1.0))
    with pytest.raises(MechanismError, match="no amount of noise"):
        smallest_scale(lambda b: DiscreteGaussian(sigma=b), Cost(epsilon=1.0))


def exact_delta(scale, tau, max_cases):
    """m Pr[m + DLap(scale) >= tau] at 60 digits."""
    with mpmath.workdps(60):
        b, j = mpmath.mpf(scale), tau - max_cases
        upper = mpmath.exp(-j / b) / (1 + mpmath.exp(-1 / b))
        if j < 1:
            upper = 1 - mpmath.exp(-(1 - j) / b) / (1 + mpmath.exp(-1 / b))
        return max_cases * upper


def test_the_design_s_thresholds():
    """m = 1: 10; m = 5: 57."""
    assert partition_threshold(1.0, 1e-4) == 10
    assert partition_threshold(5.0, 1e-4, 5) == 57


@pytest.mark.parametrize(
    ("epsilon", "delta", "max_cases"),
    list(product([0.01, 0.1, 0.3, 1.0, 2.5, 10.0], [1e-3, 1e-4, 1e-6, 1e-9, 1e-12], [1, 2, 5, 50])),
)
def test_the_threshold_is_the_least_that_keeps_delta(epsilon, delta, max_cases):
    """Checked at 60 digits: tau keeps to delta, tau - 1 does not."""
    scale = max_cases / epsilon
    if 1 / scale < -math.log1p(-delta):
        with pytest.raises(MechanismError, match="too large for delta"):
            partition_threshold(scale, delta, max_cases)
        return
    tau = partition_threshold(scale, delta, max_cases)
    wanted = mpmath.mpf(repr(delta))
    assert exact_delta(scale, tau, max_cases) <= wanted < exact_delta(scale, tau - 1, max_cases)
    spent = threshold_delta(scale, tau, max_cases)
    assert spent <= delta
    assert exact_delta(scale, tau, max_cases) <= spent <= float(exact_delta(scale, tau, max_cases)) * (1 + 1e-15)


@pytest.mark.parametrize("tau", [-5, 0, 1, 2, 40, 1000])
def test_the_spent_delta_is_rounded_up(tau):
    """On both sides of zero and where it nearly vanishes."""
    spent = threshold_delta(1.0, tau)
    assert 0 < spent <= 1
    assert Fraction(repr(spent)) > 0
    assert mpmath.mpf(spent) >= exact_delta(1.0, tau, 1) * (1 - mpmath.mpf(2) ** -60)


@pytest.mark.parametrize(
    ("scale", "delta", "max_cases"), [(0.0, 1e-6, 1), (1.0, 0.0, 1), (1.0, 1.0, 1), (1.0, 1e-6, 0)]
)
def test_senseless_thresholds_are_refused(scale, delta, max_cases):
    """In one line."""
    with pytest.raises(MechanismError):
        partition_threshold(scale, delta, max_cases)


def test_the_largest_delta():
    """A tenth of one over the declared bound; a millionth where none is declared."""
    assert largest_delta(1000) == 1e-4
    assert largest_delta(1) == 0.1
    assert largest_delta(None) == 1e-6
    assert Fraction(repr(largest_delta(3))) <= Fraction(1, 30)

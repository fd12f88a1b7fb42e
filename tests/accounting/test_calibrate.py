"""Noise found for a budget costs no more than the budget, and little less."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import pytest

from cloakwork.accounting.calibrate import (
    gaussian_threshold,
    gaussian_threshold_delta,
    laplace_scale,
    largest_delta,
    partition_threshold,
    smallest_scale,
    threshold_delta,
    truncation_bound,
)
from cloakwork.accounting.events import cost, upper_bound_epsilon
from cloakwork.accounting.leaf_events import truncation_delta
from cloakwork.base.costs import (
    Composed,
    Cost,
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDelta,
    NonPrivate,
    PoissonSampled,
    Repeated,
    TruncatedGeometric,
)
from cloakwork.errors import MechanismError
from conftest import in_long_form


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.3, 0.7, 1.0, 2.5, 17 / 3])
@pytest.mark.parametrize("sensitivity", [1, 5, 7200])
def test_one_laplace_measurement_gets_exactly_its_scale(epsilon, sensitivity):
    """sensitivity / epsilon, to the last float or the one beside it, and never above the budget."""
    scale = smallest_scale(
        lambda b: DiscreteLaplace(scale=b, sensitivity=sensitivity), Cost(epsilon=epsilon)
    )
    assert scale == pytest.approx(sensitivity / epsilon, rel=1e-15)
    assert cost(DiscreteLaplace(scale=scale, sensitivity=sensitivity), 0.0).epsilon <= epsilon


@pytest.mark.parametrize("epsilon", [0.017, 0.021])
def test_noise_costs_no_more_than_the_decimal_that_was_written(epsilon: float) -> None:
    """Which is less than the binary fraction nearest to it."""
    assert Fraction(epsilon) > Fraction(f"{epsilon}") >= 7 / Fraction(laplace_scale(epsilon, 7))


@pytest.mark.parametrize(
    "event_of_scale",
    [
        lambda b: DiscreteGaussian(sigma=b),
        lambda b: Repeated(times=11, event=DiscreteGaussian(sigma=b)),
        lambda b: DiscreteGaussian(sigma=b, sensitivity=86_400),
        lambda b: Repeated(
            times=20, event=PoissonSampled(rate=0.05, event=DiscreteLaplace(scale=b))
        ),
    ],
)
def test_composed_noise_meets_the_budget_closely(event_of_scale):
    """The scale found costs at most the budget; a thousandth less noise would cost more."""
    target = Cost(epsilon=1.0, delta=1e-6)
    scale = smallest_scale(event_of_scale, target)
    assert cost(event_of_scale(scale), target.delta).epsilon <= target.epsilon
    assert cost(event_of_scale(scale * 0.999), target.delta).epsilon > target.epsilon


@pytest.mark.parametrize(
    ("epsilon", "delta", "about"),
    [(2.0, 1e-6, 30.42), *in_long_form((1.0, 1e-4, 43.45), (0.1, 1e-4, 334.2))],
)
def test_many_gaussians_are_calibrated_in_few_steps(epsilon, delta, about):
    """186 counts, as a prefix tree measures: near the continuous Gaussian's figure, and few scales
    tried.
    """
    tried = []

    def counts(sigma):
        tried.append(sigma)
        return Repeated(times=186, event=DiscreteGaussian(sigma=sigma))

    assert smallest_scale(counts, Cost(epsilon=epsilon, delta=delta)) == pytest.approx(
        about, rel=1e-3
    )
    assert len(set(tried)) < 24


@pytest.mark.parametrize(
    "event",
    [
        DiscreteLaplace(scale=3.0),
        Repeated(times=40, event=DiscreteLaplace(scale=20.0)),
        Repeated(times=40, event=DiscreteGaussian(sigma=30.0)),
        Composed(events=(EpsilonDelta(epsilon=0.5, delta=1e-7), DiscreteGaussian(sigma=30.0))),
        Composed(
            events=(
                TruncatedGeometric(scale=4.0, bound=60),
                Repeated(times=9, event=DiscreteLaplace(scale=20.0)),
            )
        ),
        Repeated(times=20, event=PoissonSampled(rate=0.1, event=DiscreteLaplace(scale=3.0))),
    ],
)
def test_a_search_begins_where_the_target_is_met(event):
    """What closed forms alone say is never less than the cost."""
    assert upper_bound_epsilon(event, 1e-6) >= cost(event, 1e-6).epsilon > 0
    assert (
        upper_bound_epsilon(Composed(events=(event, NonPrivate(reason="for a test"))), 1e-6)
        == math.inf
    )


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


@pytest.mark.parametrize("find", [partition_threshold, truncation_bound])
def test_a_delta_below_what_can_be_told_is_refused(find) -> None:
    """In place of a search without end."""
    assert find(1.0, 1e-59, 1) > 100
    with pytest.raises(MechanismError, match="delta must lie between 1e-60 and 1; it is 1e-120"):
        find(1.0, 1e-120, 1)


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
    assert (
        exact_delta(scale, tau, max_cases)
        <= spent
        <= float(exact_delta(scale, tau, max_cases)) * (1 + 1e-15)
    )


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


def exact_truncation(scale, bound, moved):
    """Mass of truncated geometric noise in (bound - moved, bound], summed at 40 digits."""
    with mpmath.workdps(40):
        r = mpmath.exp(-1 / mpmath.mpf(scale))
        weights = [r ** abs(x) for x in range(-bound, bound + 1)]
        return mpmath.fsum(weights[len(weights) - moved :]) / mpmath.fsum(weights)


@pytest.mark.parametrize(
    ("epsilon", "delta", "max_cases"),
    list(product([0.05, 0.3, 1.0, 4.0], [1e-2, 1e-4, 1e-9], [1, 2, 5])),
)
def test_the_truncation_is_the_least_that_keeps_delta(epsilon, delta, max_cases):
    """Against sums over the noise; no tau is above that of Laplace noise; for one case the closed
    form holds.
    """
    scale = max_cases / epsilon
    bound = truncation_bound(scale, delta, max_cases)
    spent, exact = (
        truncation_delta(scale, bound, max_cases),
        exact_truncation(scale, bound, max_cases),
    )
    assert spent <= delta
    with mpmath.workdps(60):
        ratio = mpmath.mpf(spent.numerator) / spent.denominator / exact
        assert abs(ratio - 1) < mpmath.mpf(10) ** -35
    assert bound == max_cases or exact_truncation(scale, bound - 1, max_cases) > delta
    if 1 / scale >= -math.log1p(-delta):
        assert bound + 1 <= partition_threshold(scale, delta, max_cases)
    if max_cases == 1:
        r = math.exp(-epsilon)
        assert bound == max(
            1, math.ceil(scale * math.log((1 - r + 2 * delta * r) / (delta * (1 + r))))
        )


def test_many_counts_moved_together_leave_no_more_than_one():
    """The truncation's delta is superadditive: splitting a move lowers it."""
    for scale, bound in ((1.0, 9), (10.0, 63), (0.4, 6)):
        deltas = [
            truncation_delta(scale, bound, moved) if moved else 0 for moved in range(bound + 1)
        ]
        for one in range(1, bound):
            for other in range(1, bound - one + 1):
                assert deltas[one] + deltas[other] <= deltas[one + other]


def test_a_move_beyond_the_bound_is_not_private():
    """It is charged the whole of delta."""
    assert truncation_delta(1.0, 3, 4) == 1


def exact_gaussian(sigma, tau, max_cases):
    """m Pr[m + N >= tau], summed at 40 digits."""
    with mpmath.workdps(40):
        reach = math.ceil(30 * sigma) + abs(tau) + 2
        masses = [
            mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * mpmath.mpf(sigma) ** 2))
            for x in range(-reach, reach + 1)
        ]
        return (
            max_cases * mpmath.fsum(masses[max(0, tau - max_cases + reach) :]) / mpmath.fsum(masses)
        )


@pytest.mark.parametrize(
    ("sigma", "delta", "max_cases"),
    list(product([0.3, 0.9, 1.0, 3.4, 26.5], [1e-2, 1e-4, 1e-9], [1, 5])),
)
def test_the_gaussian_threshold_keeps_delta(sigma, delta, max_cases):
    """Against sums over the noise: never too low, and at most one too high from sigma 1 on."""
    tau = gaussian_threshold(sigma, delta, max_cases)
    assert (
        exact_gaussian(sigma, tau, max_cases)
        <= gaussian_threshold_delta(sigma, tau, max_cases)
        <= delta
    )
    if sigma >= 1:
        assert exact_gaussian(sigma, tau - 2, max_cases) > delta


def test_a_gaussian_threshold_below_the_count_spends_everything():
    """Where the bound says nothing it says 1."""
    assert gaussian_threshold_delta(3.0, 1, 1) == 1.0
    assert 0.4 < gaussian_threshold_delta(3.0, 2, 1) <= 1.0


@pytest.mark.parametrize("find", [truncation_bound, gaussian_threshold])
@pytest.mark.parametrize(
    ("scale", "delta", "max_cases"), [(0.0, 1e-6, 1), (1.0, 0.0, 1), (1.0, 1.0, 1), (1.0, 1e-6, 0)]
)
def test_senseless_bounds_are_refused(find, scale, delta, max_cases):
    """In one line."""
    with pytest.raises(MechanismError):
        find(scale, delta, max_cases)

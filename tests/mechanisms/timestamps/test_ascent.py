"""Regressions over bins, fitted by gradient steps under noise."""

import numpy as np
import pytest

from cloakwork.kernel import Books, Cases, Factors, Kernel, Measured
from cloakwork.mechanisms.timestamps.regressions import (
    GradientSteps,
    bends_of_curves,
    cosines_over,
    distributions_of,
    fitted,
    steepest_step,
)
from cloakwork.noise import reproducible


def steps_of(mu, times=40):
    return GradientSteps(
        times=times, norm=2.0, inputs=2, outputs=3, multiplier=np.sqrt(times) / mu, max_cases=1
    )


@pytest.mark.parametrize("bins", [1, 3, 64])
def test_cosines_have_one_height(bins):
    """A mean square of 1, and no product with each other; zeros where bins are too few."""
    curves = cosines_over(bins, 5)
    products = curves.T @ curves / bins
    assert np.allclose(products, np.diag([1.0 if wave < bins else 0.0 for wave in range(1, 6)]))


def test_distributions_and_how_they_bend():
    """Without weights they are what is expected; their bends are the curves' covariance."""
    base, curves = np.log(np.array([0.5, 0.3, 0.2])), cosines_over(3, 2)
    shape = distributions_of(base, np.ones((4, 2)), np.zeros(4), curves)
    assert np.allclose(shape, [[0.5, 0.3, 0.2]] * 4)
    drawn = np.repeat(np.arange(3), [5, 3, 2])
    assert np.allclose(bends_of_curves(base + 7, curves), np.cov(curves[drawn].T, bias=True))


def test_steps_reach_what_cases_are_like():
    """Half of them lie in the first bin and half in the last: with little noise that is found."""
    bins, steps = 4, steps_of(mu=20.0)
    cases = Cases.of([("a",)] * 100 + [("b",)] * 100, "ab")
    curves, base = cosines_over(bins, 3), np.zeros(bins)
    place = 3 * (cases.codes == 1)
    inputs = np.eye(2)[np.zeros(200, np.int64)]

    def gradient(weights, batch, step):
        known = np.eye(2)[np.zeros(len(batch), np.int64)]
        expected = distributions_of(base, known, weights, curves) @ curves
        back = curves[3 * batch.codes] - expected
        return [Factors(known[:, None, :], back[:, None, :])]

    kernel = Kernel(
        Measured(cases, np.ones(200, np.int64)), Books.of(steps.event()), reproducible(1), 1
    )
    moments = inputs.T @ inputs / 200
    weights = fitted(gradient, steps, kernel, 200, moments, bends_of_curves(base, curves))
    found = distributions_of(base, np.eye(2)[:1], weights, curves)[0]
    assert found[0] == pytest.approx(np.mean(place == 0), abs=0.1)
    assert found[3] == pytest.approx(np.mean(place == 3), abs=0.1)


def test_more_cases_are_learned_from_faster():
    """In proportion: noise then moves a mean by less."""
    assert steepest_step(steps_of(0.2), 200) == pytest.approx(2 * steepest_step(steps_of(0.2), 100))


@pytest.mark.parametrize("max_cases", [1, 20])
def test_noise_alone_moves_weights_as_far_whatever_a_unit_has(max_cases):
    """By about 1 over all steps: noise for units of many cases makes steps shorter, not weights
    wilder.
    """
    steps = GradientSteps(
        times=48, norm=3.0, inputs=20, outputs=13, multiplier=np.sqrt(48) / 0.3, max_cases=max_cases
    )
    cases = Cases.of([("a",)] * 10, "a")
    kernel = Kernel(
        Measured(cases, np.ones(10, np.int64)),
        Books.of(steps.event()),
        reproducible(1),
        max_cases,
    )

    def gradient(weights, batch, step):
        return [Factors(np.zeros((len(batch), 1, 20)), np.zeros((len(batch), 1, 13)))]

    weights = fitted(gradient, steps, kernel, 1_000, np.zeros((20, 20)), np.zeros((13, 13)))
    assert 0.5 < weights.std() < 1.2

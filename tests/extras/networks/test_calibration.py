"""Noise of gradient steps: enough, and hardly more."""

import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.costs import FREE, Composed, Cost, DiscreteLaplace
from cloakwork_extras.networks.steps import (
    multiplier_for,
    multiplier_of_mu,
    steps_event,
)

TARGET = Cost(epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("beside", [FREE, DiscreteLaplace(scale=4.0)], ids=["alone", "beside"])
def test_the_least_noise(beside):
    """It meets the target, and a hundredth less does not."""
    found = multiplier_for(20, 0.25, 100, 2, TARGET, beside)
    for factor, is_met in ((1.0, True), (0.99, False)):
        event = Composed(events=(steps_event(20, 0.25, found * factor, 100, 2), beside))
        assert (cost(event, TARGET.delta).epsilon <= TARGET.epsilon) == is_met


def test_steps_on_everybody_are_one_normal_number():
    """Sixteen steps at four times the noise cost what one costs."""
    one = cost(steps_event(1, 1.0, 1 / 0.5, 100), 1e-6).epsilon
    many = cost(steps_event(16, 1.0, multiplier_of_mu(16, 0.5), 100), 1e-6).epsilon
    assert many == pytest.approx(one, rel=1e-3)

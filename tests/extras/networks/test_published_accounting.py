"""The epsilon that the papers report, and the noise that they take for it."""

import math

import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.costs import DiscreteGaussian, PoissonSampled, Repeated
from cloakwork_extras.networks.published import (
    least_epsilon,
    noise_multiplier,
    reported_epsilon,
)


@pytest.mark.parametrize(
    ("multiplier", "steps", "printed"), [(15.0, 20_000, 1.9346), (4.0, 1_500, 2.0389)]
)
def test_what_the_notebooks_of_travag_print(multiplier: float, steps: int, printed: float) -> None:
    """On sepsis, 64 of 1,039 cases in a batch, delta .01: for the decoder and the discriminator,
    each by itself.
    """
    found = reported_epsilon(64 / 1039, multiplier, steps, 1e-2)
    assert found == pytest.approx(printed, rel=1e-3)


def test_it_is_above_what_our_accountant_derives() -> None:
    """The reported figure bounds the sampled sums themselves; what is wrong is what they leave
    out.
    """
    sampled = PoissonSampled(rate=0.06, event=DiscreteGaussian(sigma=4.0))
    derived = cost(Repeated(times=200, event=sampled), 1e-3).epsilon
    assert derived < reported_epsilon(0.06, 4.0, 200, 1e-3) < 2 * derived


@pytest.mark.parametrize(("rate", "steps"), [(0.06, 300), (1.0, 20)])
def test_the_noise_is_the_least_that_is_reported_as_epsilon(rate: float, steps: int) -> None:
    multiplier = noise_multiplier(rate, steps, 1.0, 1e-4)
    assert reported_epsilon(rate, multiplier, steps, 1e-4) <= 1
    assert reported_epsilon(rate, 0.999 * multiplier, steps, 1e-4) > 1


def test_no_noise_brings_the_figure_below_the_least() -> None:
    """The largest order that is tried leaves its share of delta."""
    assert least_epsilon(1e-4) == pytest.approx(math.log(1e4) / 511)
    assert reported_epsilon(0.01, 1e6, 1, 1e-4) >= least_epsilon(1e-4)

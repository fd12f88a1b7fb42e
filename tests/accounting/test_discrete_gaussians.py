"""Losses of discrete Gaussian noise, against those of the accountant that they are taken from."""

import math

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_discrete_gaussian_mechanism

from cloakwork.accounting.distributions import _cells_of, gaussian_distribution


@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.137, 47.3])
@pytest.mark.parametrize("sensitivity", [1, 7])
@pytest.mark.parametrize("step", [0.00173, 0.05])
def test_they_are_the_same_to_the_last_bit(sigma: float, sensitivity: int, step: float) -> None:
    """Fine and coarse noise, of one step and of several, on fine and coarse grids."""
    reach = math.ceil(11.6 * sigma) + sensitivity
    expected = from_discrete_gaussian_mechanism(
        sigma, sensitivity, reach, value_discretization_interval=step, use_connect_dots=True
    )
    found = gaussian_distribution(sigma, sensitivity, reach, step)
    one, other = (each._pmf_remove.to_dense_pmf() for each in (expected, found))
    assert found._pmf_add is found._pmf_remove
    assert one._lower_loss == other._lower_loss
    assert one._infinity_mass == other._infinity_mass
    assert np.array_equal(one._probs, other._probs)
    lowest, masses = _cells_of(expected._pmf_remove)
    assert lowest == one._lower_loss
    assert np.array_equal(masses, one._probs)

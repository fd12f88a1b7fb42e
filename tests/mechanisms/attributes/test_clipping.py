"""What vectors of cases are clipped to."""

import numpy as np
import pytest

from cloakwork.mechanisms.attributes.contributions import best_norm

NORMS = np.array([1.0, 2.0, 16.0])
TIMES = np.array([500.0, 400.0, 100.0])


@pytest.mark.parametrize(("sigma", "norm"), [(1e-6, 16.0), (1e3, 1.0)])
def test_little_noise_clips_nothing_and_much_clips_all(sigma: float, norm: float) -> None:
    """Where noise is all that counts, the smallest norm keeps most of each case for it."""
    assert best_norm(NORMS, TIMES, sigma) == norm


def test_between_both_the_norm_falls_as_noise_grows() -> None:
    """Step by step."""
    found = [best_norm(NORMS, TIMES, sigma) for sigma in (0.01, 0.1, 1.0, 10.0)]
    assert found == sorted(found, reverse=True)
    assert len(set(found)) > 1

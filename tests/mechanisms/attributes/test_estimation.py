"""Counts without their noise, as far as it can be told."""

import numpy as np
import pytest

from cloakwork.mechanisms.attributes.tables import expected_beside, expected_counts

RANDOM = np.random.default_rng(11)
"""Made-up counts; no guarantee rests on them."""


def test_most_counts_that_are_none_are_found_to_be_none():
    """And large ones are kept: far less error than the noisy counts have."""
    truth = np.zeros(500)
    truth[:10] = 200.0
    noisy = truth + RANDOM.normal(0, 10, 500)
    found = expected_counts(noisy, 10.0)
    assert (found > 0).all()
    assert np.abs(found - truth).sum() < np.abs(noisy - truth).sum() / 5
    assert found[:10].mean() == pytest.approx(200, rel=0.1)


def test_counts_that_are_alike_are_found_to_be_alike():
    noisy = 30 + RANDOM.normal(0, 10, 300)
    found = expected_counts(noisy, 10.0)
    assert np.abs(found - 30).mean() < 4


def test_what_is_like_the_guess_is_drawn_to_it_and_what_is_not_is_kept():
    guess = np.full((4, 50), 20.0)
    truth = guess.copy()
    truth[0, 0] = 400.0
    noisy = truth + RANDOM.normal(0, 8, truth.shape)
    found = expected_beside(noisy, guess, 8.0)
    assert found.shape == guess.shape
    assert found[0, 0] == pytest.approx(400, rel=0.1)
    assert np.abs(found - truth)[1:].mean() < 2


@pytest.mark.parametrize(
    "counts", [[], [0.0], [-5.0], [-1e9, 1e9], [1e15], [-1e15], np.zeros(50_000)]
)
@pytest.mark.parametrize("sigma", [1e-6, 1.0, 1e9])
def test_nothing_overflows(counts, sigma):
    counts = np.array(counts, np.float64)
    for found in (
        expected_counts(counts, sigma),
        expected_beside(counts, np.full(len(counts), 1e-9), sigma),
    ):
        assert np.isfinite(found).all()
        assert (found > 0).all()

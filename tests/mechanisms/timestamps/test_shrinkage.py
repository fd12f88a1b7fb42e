"""Distributions of noisy histograms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.mechanisms.timestamps.shrinkage import distributions

FLAT = np.full((1, 4), 0.25)


def test_without_noise_the_histogram_comes_out():
    cells = np.array([[10.0, 0, 20, 30, 5, 0, 35]])
    found = distributions(cells, 1e-6, cells.sum(axis=1))
    assert found == pytest.approx(cells / 100, abs=1e-6)
    flat = np.full((1, 7), 1 / 7)
    found = distributions(cells, 1e-6, cells.sum(axis=1), flat)
    assert found == pytest.approx(cells / 100, abs=1e-6)


def test_in_noise_alone_what_is_expected_comes_out():
    expected = np.array([[0.1, 0.2, 0.3, 0.4]])
    found = distributions(np.zeros((1, 4)), 1e6, np.ones(1), expected)
    assert found == pytest.approx(expected, abs=1e-3)
    assert distributions(np.zeros((1, 4)), 1e6, np.ones(1)) == pytest.approx(FLAT, abs=1e-3)


def test_where_nothing_is_expected_nothing_is_found():
    expected = np.array([[0.5, 0.5, 0.0, 0.0]])
    found = distributions(np.array([[5.0, 5, 900, 900]]), 1.0, np.array([1810.0]), expected)
    assert found[0, 2:].sum() == 0


def test_a_tail_of_noise_is_empty():
    """Of 1,000 cases in two bins, noise of 5 in the other 30 leaves next to nothing in the tail."""
    rng = np.random.default_rng(2)
    tails = []
    for _ in range(200):
        noisy = rng.normal(0, 5, (1, 32))
        noisy[0, :2] += 500
        tails.append(distributions(noisy, 5.0, np.array([1000.0]))[0, 16:].sum())
    assert np.mean(tails) < 0.005


def test_rows_are_by_themselves():
    cells = np.array([[10.0, 0, 20, 30], [1, 2, 3, 4]])
    both = distributions(cells, 2.0, np.array([60.0, 10]), np.repeat(FLAT, 2, axis=0))
    for row in range(2):
        one = distributions(cells[row : row + 1], 2.0, cells[row : row + 1].sum(axis=1), FLAT)
        assert both[row] == pytest.approx(one[0])


@given(
    st.integers(1, 40).flatmap(
        lambda bins: st.lists(
            st.lists(st.floats(-1e9, 1e9), min_size=bins, max_size=bins), min_size=0, max_size=4
        ).map(lambda rows: np.array(rows).reshape(-1, bins))
    ),
    st.floats(1e-3, 1e9),
    st.floats(0, 1e6),
)
def test_whatever_the_answers_are_distributions_come_out(noisy, sigma, mass):
    found = distributions(noisy, sigma, np.full(len(noisy), mass))
    assert found.shape == noisy.shape
    assert (found >= 0).all()
    assert found.sum(axis=1) == pytest.approx(np.ones(len(noisy)))

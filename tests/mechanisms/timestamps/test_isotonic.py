"""The isotonic projection, against scipy's."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from cloakwork.mechanisms.timestamps.completion import isotonic_projection, spread_pooled

CASES = st.lists(st.lists(st.integers(-1000, 1000), max_size=12), max_size=8)


def offsets_of(cases: list[list[int]]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(case) for case in cases])]).astype(np.int64)


@given(CASES)
def test_projects_each_case_as_scipy_does(cases: list[list[int]]) -> None:
    """Case by case; neighbouring cases do not see each other."""
    values = np.array([value for case in cases for value in case], np.float64)
    expected = [isotonic_regression(np.array(case, float)).x for case in cases if case]
    assert isotonic_projection(values, offsets_of(cases)) == pytest.approx(
        np.concatenate([[], *expected])
    )


def test_order_is_exact() -> None:
    """No rounding error leaves a later value below an earlier one, far from zero either."""
    values = np.random.default_rng(1).normal(size=20_000).cumsum() * 1e9 + 1e12
    projected = isotonic_projection(values, np.arange(0, 20_001, 50))
    assert (np.diff(projected.reshape(-1, 50), axis=1) >= 0).all()


def test_a_late_fall_pools_the_whole_case() -> None:
    """The worst case for pooling one neighbour at a time."""
    values = np.concatenate([np.arange(2000.0), [-1e9]])
    assert len(set(isotonic_projection(values, np.array([0, 2001])).tolist())) == 1


def test_values_in_order_stay() -> None:
    """Projection is a projection."""
    values = np.array([1.0, 1.0, 2.0, 0.0, 5.0])
    assert isotonic_projection(values, np.array([0, 3, 3, 5])).tolist() == values.tolist()


@given(CASES)
def test_spreading_keeps_order_and_the_mean_of_what_was_pooled(cases: list[list[int]]) -> None:
    """No run of equal values is left, none reaches past half of the way to its neighbour, and none
    moves as a whole.
    """
    offsets = offsets_of(cases)
    pooled = isotonic_projection(
        np.array([value for case in cases for value in case], np.float64), offsets
    )
    apart = spread_pooled(pooled, offsets, np.full(len(pooled), 7))
    for begin, end in pairwise(offsets):
        before, after = pooled[begin:end], apart[begin:end]
        assert (np.diff(after) > 0).all()
        for value in np.unique(before):
            run = after[before == value]
            assert run.mean() == pytest.approx(value, abs=1e-6)
            assert (np.diff(run) <= 7 + 1e-9).all()


def test_spreading_shrinks_where_a_neighbour_is_near() -> None:
    """Three values tied two steps before the next one stay within one step of their place."""
    apart = spread_pooled(
        np.array([5.0, 5.0, 5.0, 7.0]), np.array([0, 4]), np.array([1, 10, 10, 10])
    )
    assert apart == pytest.approx([4.1, 5.0, 5.9, 7.0])
    assert spread_pooled(np.array([5.0, 5.0]), np.array([0, 2]), np.array([1, 4])).tolist() == [
        3.0,
        7.0,
    ]
    assert len(spread_pooled(np.zeros(0), np.array([0]), np.zeros(0, np.int64))) == 0

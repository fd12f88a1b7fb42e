"""The isotonic projection, against scipy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from cloakwork.mechanisms.timestamps.isotonic import project

CASES = st.lists(st.lists(st.integers(-1000, 1000), max_size=12), max_size=8)


def offsets_of(cases: list[list[int]]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(case) for case in cases])]).astype(np.int64)


@given(CASES)
def test_projects_each_case_as_scipy_does(cases: list[list[int]]) -> None:
    """Case by case; neighbouring cases do not see each other."""
    values = np.array([value for case in cases for value in case], np.float64)
    expected = [isotonic_regression(np.array(case, float)).x for case in cases if case]
    assert project(values, offsets_of(cases)) == pytest.approx(np.concatenate([[], *expected]))


def test_order_is_exact() -> None:
    """No rounding error leaves a later value below an earlier one, far from zero either."""
    values = np.random.default_rng(1).normal(size=20_000).cumsum() * 1e9 + 1e12
    projected = project(values, np.arange(0, 20_001, 50))
    assert (np.diff(projected.reshape(-1, 50), axis=1) >= 0).all()


def test_a_late_fall_pools_the_whole_case() -> None:
    """The worst case for pooling one neighbour at a time."""
    values = np.concatenate([np.arange(2000.0), [-1e9]])
    assert len(set(project(values, np.array([0, 2001])).tolist())) == 1


def test_values_in_order_stay() -> None:
    """Projection is a projection."""
    values = np.array([1.0, 1.0, 2.0, 0.0, 5.0])
    assert project(values, np.array([0, 3, 3, 5])).tolist() == values.tolist()

"""Local noise as PRIPEL has it."""

import math

import numpy as np
import pytest

from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.kernel import Cases, Column, Columns, Randomness
from cloakwork.mechanisms.steps import Listed, Numbers
from cloakwork.noise import reproducible
from cloakwork_extras.pripel import (
    bounded_laplace,
    times_as_published,
    values_as_published,
)

RUNS = 40_000
ROWS = np.zeros(RUNS, np.int64)
EVERY = np.arange(2)


def random() -> Randomness:
    return Randomness(reproducible(1))


def texts(codes: list[int], alphabet: tuple[str, ...]) -> Column:
    missing = np.array(codes) < 0
    return Column(np.zeros(len(codes)), missing, np.array(codes), alphabet)


@pytest.mark.parametrize(
    ("alphabet", "kept"),
    [
        (("false", "true"), math.e**2 / (math.e**2 + 1)),
        (("x", "y", "z"), math.e / (math.e + 2)),
    ],
)
def test_values_stay_as_often_as_published(alphabet: tuple[str, ...], kept: float) -> None:
    """Randomised response of truth values at epsilon, the exponential mechanism of others."""
    column = texts([1, -1], alphabet)
    found = values_as_published(column, ROWS, 2.0, random(), is_number=False)
    assert isinstance(found, Listed)
    assert abs((found.codes == 1).mean() - kept) < 0.01
    assert set(found.codes) == set(range(len(alphabet)))
    assert found.domain == ((False, True) if alphabet[0] == "false" else alphabet)
    missing = values_as_published(column, ROWS + 1, 2.0, random(), is_number=False)
    assert isinstance(missing, Listed)
    assert (missing.codes == -1).all()


def test_numbers_have_the_density_of_laplace_noise_inside_the_range() -> None:
    """Of 0 in [0, 10] at epsilon 2: how many lie below 5, by hand."""
    noisy = bounded_laplace(np.zeros(RUNS), 0.0, 10.0, 2.0, random())
    assert noisy.min() >= 0
    assert noisy.max() <= 10
    share = (1 - math.exp(-1)) / (1 - math.exp(-2))
    assert abs((noisy < 5).mean() - share) < 0.01


@pytest.mark.parametrize("epsilon", [1e-5, 1.0, 100.0])
@pytest.mark.parametrize("edges", [(0.0, 0.0), (-1e308, 1e308), (3.0, 3.0 + 1e-300)])
def test_every_range_and_epsilon_gives_numbers_inside(
    epsilon: float, edges: tuple[float, float]
) -> None:
    low, high = edges
    noisy = bounded_laplace(np.array([low, high]), low, high, epsilon, random())
    assert ((noisy >= low) & (noisy <= high)).all()


def test_missing_numbers_stay_and_a_column_without_values_is_empty() -> None:
    column = Column(np.array([4.0, 0.0]), np.array([False, True]), np.array([-1, -1]))
    found = values_as_published(column, EVERY, 1.0, random(), is_number=True)
    assert isinstance(found, Numbers)
    assert found.values[0] == 4.0
    assert np.isnan(found.values[1])
    empty = Column(np.zeros(2), np.array([True, True]), np.array([-1, -1]))
    listed = values_as_published(empty, EVERY, 1.0, random(), is_number=False)
    assert isinstance(listed, Listed)
    assert (listed.codes.tolist(), listed.domain) == ([-1, -1], ())
    numbers = values_as_published(empty, EVERY, 1.0, random(), is_number=True)
    assert isinstance(numbers, Numbers)
    assert np.isnan(numbers.values).all()


@pytest.mark.parametrize("known", [True, False])
def test_times_never_descend_and_none_is_missing(known: bool) -> None:
    """Also of gaps of thousands of years, one after another, and without any time."""
    stamps = np.array([0, 5, 3 * 10**17, 7, 8, 10], np.int64)
    times = Column.of_times(
        stamps, np.array([False, True, False, False, False, False]) | (not known)
    )
    source = Cases(("a",), np.zeros(6, np.int64), np.array([0, 3, 6]), Columns({TIMESTAMPS: times}))
    made = Cases(("a",), np.zeros(200, np.int64), np.array([0, 100, 200]))
    event = np.tile(np.array([0, 2]), 100)
    found = times_as_published(source, made, EVERY, event, 1.0, random()).microseconds
    steps = np.diff(found.reshape(2, 100))
    assert (steps >= 0).all()
    assert steps.any() == known

"""How values change places between classes: evenly, and no farther than needed."""

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from cloakwork.mechanisms.kanon.value_exchange import (
    Groups,
    TClosenessGoal,
    exchange_values,
    redistribute,
)
from cloakwork.noise import reproducible


@pytest.mark.parametrize("sizes", [[5] * 40, [10] * 100, [5, 7, 9, 11] * 15 + [1000]])
def test_redistribution_is_even(sizes: list[int]) -> None:
    """Every cell of n values is within 1/n of all values, large ones within a hundredth."""
    cells = np.repeat(np.arange(len(sizes)), sizes)
    codes = np.arange(len(cells))
    spread = redistribute(codes, cells, np.ones(len(cells), np.bool_))
    assert sorted(spread) == sorted(codes)
    for cell, size in enumerate(sizes):
        assert wasserstein_distance(spread[cells == cell], codes) / (len(codes) - 1) <= max(
            1 / size, 0.01
        )


def test_exchange_moves_values_no_farther_than_needed() -> None:
    """Of 1,000 uniform values in 20 cells whose means drift, the mean change stays below what a
    random redistribution makes.
    """
    cells = np.repeat(np.arange(20), 50)
    codes = np.argsort(np.argsort(np.arange(1000) % 50 * 20 + cells * 7))
    positions = np.linspace(0, 1, 1000)
    goal, groups = TClosenessGoal(0.05, positions), Groups.of_cells(cells)
    assert goal.measure(codes, groups).max() > 0.05
    moved = exchange_values(codes, cells, [groups], goal, reproducible(1))
    assert goal.measure(moved, groups).max() <= 0.05
    anywhere = codes[reproducible(2).permutation(1000)]
    assert (
        np.abs(positions[moved] - positions[codes]).mean()
        < 0.1 * np.abs(positions[anywhere] - positions[codes]).mean()
    )

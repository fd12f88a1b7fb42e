"""Durations by rank."""

import numpy as np

from cloakwork.kernel import Randomness
from cloakwork.mechanisms.timestamps.bins import LogBins
from cloakwork.mechanisms.timestamps.drawing import ManyDraws
from cloakwork.mechanisms.timestamps.regression import ALIKE, durations_by_rank
from cloakwork.noise import reproducible

BINS = LogBins.up_to(1_000_000, 16)


def drawn(shape, place, seed=1):
    durations = durations_by_rank(shape, place, BINS, ManyDraws(Randomness(reproducible(seed))))
    return durations, BINS.place(durations)


def test_what_is_drawn_follows_the_distributions():
    """Closely: quantiles lie evenly in each group of cases."""
    shape = np.tile(np.linspace(1, 3, 16) / np.linspace(1, 3, 16).sum(), (1600, 1))
    _, bins = drawn(shape, np.zeros(1600, np.int64))
    counts = np.bincount(bins, minlength=16)
    assert np.abs(counts - 1600 * shape[0]).max() <= ALIKE


def test_longer_sums_of_gaps_get_longer_durations():
    """Among cases that are expected to take alike."""
    shape = np.full((800, 16), 1 / 16)
    place = np.repeat([3, 12], 400)
    durations, _ = drawn(shape, place)
    order = np.argsort(np.argsort(durations))
    assert order[place == 12].mean() > order[place == 3].mean() + 200


def test_a_distribution_without_choice_is_kept_whatever_the_gaps():
    """Of one bin alone, and for a single case."""
    for size in (1, 3, 50):
        shape = np.zeros((size, 16))
        shape[:, 5] = 1
        _, bins = drawn(shape, np.arange(size) % 16)
        assert set(bins.tolist()) == {5}

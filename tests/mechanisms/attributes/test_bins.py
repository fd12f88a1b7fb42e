"""Bins of a declared range, and numbers drawn from them."""

import numpy as np
import pytest

from cloakwork.mechanisms.attributes.bins import MOST_BINS, UNIT, Bins

RANGES = [
    (0.0, 10_000.0),
    (0.0, 500.0),
    (0.0, 30.0),
    (0.0, 1.0),
    (0.0, 1e-7),
    (0.0, 1e12),
    (1.0, 1e9),
    (0.37, 88.1),
    (-40.0, 60.0),
    (-1e6, -1.0),
    (1990.0, 2014.0),
    (5.0, 5.5),
]


@pytest.mark.parametrize("fineness", [0, 1, 2])
@pytest.mark.parametrize("limits", RANGES)
def test_bins_are_few_ascending_and_fill_the_range(limits, fineness):
    bins = Bins.of_range(*limits, fineness)
    assert (np.diff(bins.edges) > 0).all()
    assert (bins.edges[0], bins.edges[-1]) == limits
    assert 5 <= bins.count <= MOST_BINS[fineness] + 1
    inside = np.linspace(*limits, 1000)
    assert set(bins.of(inside)) <= set(range(bins.count))
    assert bins.of(np.array([-1e300, 1e300])).tolist() == [0, bins.count - 1]


@pytest.mark.parametrize("fineness", [0, 1, 2])
@pytest.mark.parametrize("limits", RANGES)
def test_a_number_that_is_drawn_lies_in_its_bin(limits, fineness):
    bins = Bins.of_range(*limits, fineness)
    every = np.repeat(np.arange(bins.count), 5)
    chance = np.tile([0, 1, UNIT // 3, UNIT // 2, UNIT - 1], bins.count)
    drawn = bins.draw(every, chance)
    assert ((limits[0] <= drawn) & (drawn <= limits[1])).all()
    assert bins.of(drawn).tolist() == every.tolist()
    assert np.isfinite(drawn).all()


def test_edges_and_grain_follow_from_the_range():
    bins = Bins.of_range(0.0, 1000.0)
    assert bins.edges.tolist() == [0, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    assert bins.zero
    whole = bins.draw(np.full(50, 7), np.linspace(0, UNIT - 1, 50).astype(np.int64))
    assert (whole == np.round(whole)).all()
    tenths = Bins.of_range(0.0, 500.0)
    some = tenths.draw(np.full(50, 7), np.linspace(0, UNIT - 1, 50).astype(np.int64))
    assert all(number == round(number, 1) for number in some.tolist())
    assert Bins.of_range(-10.0, 10.0).edges.tolist() == list(range(-10, 11, 2))


@pytest.mark.parametrize("limits", RANGES)
def test_finer_bins_are_more(limits):
    """But for a range that has fewer numbers."""
    counts = [Bins.of_range(*limits, fineness).count for fineness in (0, 1, 2)]
    assert counts == sorted(counts)
    assert Bins.of_range(0.0, 10_000.0, 2).edges[-3:].tolist() == [9800.0, 9900.0, 10_000.0]
    assert 35.0 in Bins.of_range(0.0, 10_000.0, 2).edges


def test_zero_has_a_bin_of_its_own():
    """An amount of nothing is no small amount."""
    bins = Bins.of_range(0.0, 100.0)
    assert bins.of(np.array([0.0, -5.0, 0.01])).tolist() == [0, 0, 1]
    assert bins.draw(np.array([0, 0]), np.array([0, UNIT - 1])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("limits", [(-5e-324, 0.0), (0.0, 5e-324), (0.0, 1e-320), (1.0, 1 + 2e-16)])
def test_ranges_of_next_to_nothing_have_bins(limits):
    """A run would stop on them, when its budget is spent."""
    bins = Bins.of_range(*limits)
    assert (bins.edges[0], bins.edges[-1]) == limits
    assert bins.of(np.array(limits)).tolist()[0] == 0

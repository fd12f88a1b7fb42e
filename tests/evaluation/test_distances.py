"""Distances by group: against their definitions, by hand and by other libraries."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from cloakwork.evaluation.distances import (
    MISSING,
    bins_of,
    kolmogorov_smirnov,
    round_edges,
    total_variation,
    wasserstein,
    weighted_mean,
)

MEMBERS = st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 4)), max_size=30)


def sides(members):
    """Groups and codes as arrays."""
    array = np.array(members, np.int64).reshape(-1, 2)
    return array[:, 0], array[:, 1]


@given(MEMBERS, MEMBERS)
def test_total_variation_of_each_group(source, release):
    """Half the sum of the differences of shares; 1 where one side lacks the group, NaN where both
    do.
    """
    found = total_variation(sides(source), sides(release), 4, 5)
    for group in range(4):
        before, after = ([c for g, c in side if g == group] for side in (source, release))
        if not before and not after:
            assert np.isnan(found[group])
        elif not before or not after:
            assert found[group] == 1
        else:
            differences = [
                abs(before.count(code) / len(before) - after.count(code) / len(after))
                for code in range(-1, 5)
            ]
            assert found[group] == pytest.approx(sum(differences) / 2)


@given(MEMBERS, MEMBERS)
def test_wasserstein_of_each_group(source, release):
    """As scipy has it, group by group; ties are no trouble."""
    (group, values), (groups, others) = sides(source), sides(release)
    found = wasserstein((group, values / 3), (groups, others / 3), 4)
    for each in range(4):
        before, after = values[group == each] / 3, others[groups == each] / 3
        if len(before) and len(after):
            assert found[each] == pytest.approx(wasserstein_distance(before, after), abs=1e-12)
        else:
            assert np.isnan(found[each])


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=20),
    st.lists(st.integers(0, 5), min_size=1, max_size=20),
)
def test_the_largest_difference_of_distribution_functions(source, release):
    """By its definition, with ties."""
    before, after = np.array(source, np.float64), np.array(release, np.float64)
    differences = [abs((before <= x).mean() - (after <= x).mean()) for x in range(6)]
    assert kolmogorov_smirnov(before, after) == pytest.approx(max(differences))


def test_of_nothing():
    """There is no distance from or to an empty sample."""
    empty, one = np.zeros(0), np.ones(1)
    assert kolmogorov_smirnov(empty, one) is None
    assert kolmogorov_smirnov(one, empty) is None
    assert weighted_mean(np.array([np.nan, 2.0]), np.array([5, 0])) is None
    assert weighted_mean(np.array([np.nan, 2.0, 4.0]), np.array([5, 1, 3])) == 3.5


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_edges_are_round_and_cover_the_range(least, span):
    """8 to 21 bins of one round width."""
    most = least + span
    edges = round_edges(least, most)
    width = (edges[-1] - edges[0]) / (len(edges) - 1)
    assert 8 <= len(edges) - 1 <= 21
    assert edges[0] <= least + 1e-6 * width
    assert edges[-1] >= most - 1e-6 * width
    assert f"{width:.6e}".split("e")[0] in {"1.000000", "2.000000", "2.500000", "5.000000"}


def test_edges_of_ranges_that_people_declare():
    """By hand; one number alone is a bin."""
    assert round_edges(0, 500).tolist() == [25 * i for i in range(21)]
    assert round_edges(0, 30).tolist() == [2 * i for i in range(16)]
    assert round_edges(0, 1000).tolist() == [50 * i for i in range(21)]
    assert len(round_edges(7, 7)) == 2


def test_bins_hold_their_lower_edges():
    """What lies beyond the edges is in the outer bins; NaN is missing."""
    edges = np.array([0.0, 2.0, 4.0])
    values = np.array([-5, 0, 1.9, 2, 4, 99, np.nan])
    assert bins_of(values, edges).tolist() == [0, 0, 0, 1, 1, 1, MISSING]

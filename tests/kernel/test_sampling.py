"""Vectors of which each case counts for a few units: how many, and which."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from cloakwork.base.arrays import Ints
from cloakwork.kernel import Cases, Clip, Entries
from cloakwork.kernel.vectors import sampled_sums, vectors_of
from cloakwork.noise import reproducible
from conftest import runs

SIZES = (1, -2, 3)


def drawn(values: list[list[int]], clip: Clip, weight: list[int], seed: int = 1) -> Ints:
    """The sum over cases whose value at key k is ``values[case][k]``."""
    case = np.repeat(np.arange(len(values)), [len(row) for row in values])
    key = np.concatenate([np.arange(len(row)) for row in values]).astype(np.int64)
    found = Entries(case, np.concatenate([[0] * 0, *values]).astype(np.int64), key)
    cases = Cases(("a",), np.zeros(len(values), np.int64), np.arange(len(values) + 1))
    sums = sampled_sums(
        vectors_of(cases, lambda _: found, clip), clip, np.array(weight), reproducible(seed)
    )
    return sums.at(np.arange(4))


@pytest.mark.parametrize("most", [1, 2, 4, 5])
def test_every_set_of_units_is_equally_likely(most: int) -> None:
    """Of 1, 2 and 3 units, by exact counting: without replacement, whether the larger part is kept
    or dropped.
    """
    units = np.repeat([0, 1, 2], np.abs(SIZES))
    clip = Clip("l1", most, most, sampled=True)
    expected = Counter(
        tuple(np.bincount(units[list(kept)], minlength=3) * np.sign(SIZES))
        for kept in combinations(range(6), most)
    )
    seen = Counter(tuple(drawn([[*SIZES]], clip, [1], seed)[:3]) for seed in range(3000))
    assert seen.keys() <= expected.keys()
    total = sum(expected.values())
    share = [expected[outcome] / total for outcome in expected]
    counted = [seen[outcome] for outcome in expected]
    assert chisquare(counted, np.array(share) * 3000).pvalue > 1e-9


@given(
    st.lists(st.lists(st.integers(-9, 9), min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(1, 12),
    st.data(),
)
@settings(max_examples=runs(60), deadline=None)
def test_a_case_moves_sums_by_the_clip_at_most(
    values: list[list[int]], most: int, data: st.DataObject
) -> None:
    """Its weight times that; never by more than it has; and by all of it where that is within."""
    weight = [data.draw(st.integers(0, 4)) for _ in values]
    for row, times in zip(values, weight, strict=True):
        whole = np.abs(row).sum()
        found = drawn([row], Clip("l1", most, most, sampled=True), [times])
        assert np.abs(found).sum() == times * min(most, whole)
        of_one = drawn([row], Clip("max", 1, most, sampled=True), [times])
        assert np.abs(of_one).sum() == times * min(most, np.count_nonzero(row))
        assert np.abs(of_one).max() <= times


def test_each_case_draws_for_itself() -> None:
    """Ten thousand cases alike, of one unit each, fall on both of two keys: all on one has
    probability 2**-9999.
    """
    found = drawn([[1, 1]], Clip("l1", 1, 1, sampled=True), [10_000])
    assert found.sum() == 10_000
    assert found[:2].min() > 4_000


def test_a_sampled_clip_bounds_what_is_drawn() -> None:
    """Units of an l1 vector need a cell each; for l2, or values above 1, nothing is drawn."""
    for clip in (("l1", 4, 3), ("l2", 4, 4), ("max", 2, 4)):
        with pytest.raises(ValueError, match="units are drawn"):
            Clip(*clip, sampled=True)

"""Cases of variants, made range by range."""

from itertools import pairwise

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.log.eventlog import ACTIVITY, CASE_ID
from cloakwork.log.variants import CasesOfVariants, log_of_variants

COUNTED = st.lists(
    st.tuples(st.lists(st.sampled_from("abc"), max_size=3).map(tuple), st.integers(-1, 5)),
    max_size=5,
    unique_by=lambda each: each[0],
)


@given(COUNTED, st.integers(1, 7))
def test_ranges_are_parts_of_the_whole(
    counted: list[tuple[tuple[str, ...], int]], width: int
) -> None:
    """Cases, ids, events and indexes, of whatever range; and how many events those before have."""
    variants, cases = [each for each, _ in counted], np.array([n for _, n in counted], np.int64)
    expected = [variant for variant, times in counted for _ in range(times)]

    made = CasesOfVariants.of(variants, cases)

    assert made.case_count == len(expected)
    assert made.event_count == sum(map(len, expected))
    found, ids = [], []
    for first in range(0, len(expected) + 1, width):
        part = made.made(first, min(first + width, len(expected)))
        assert made.events_until(first) == sum(map(len, expected[:first]))
        assert part.events.schema == {ACTIVITY: pl.String}
        labels = part.events[ACTIVITY].to_list()
        bounds = part.offsets.tolist()
        found += [tuple(labels[a:b]) for a, b in pairwise(bounds)]
        ids += part.cases[CASE_ID].to_list()
        assert part.index_of_case.tolist() == list(range(first, first + part.cases.height))
    assert found == expected
    assert ids == [str(number) for number in range(len(expected))]
    assert made.events_until(len(expected)) == made.event_count
    assert made.offsets_of_cases().tolist() == [0, *np.cumsum([len(each) for each in expected])]
    whole = log_of_variants(variants, cases)
    assert (whole.cases.height, whole.case_index) == (len(expected), None)


def test_a_range_costs_nothing_for_the_cases_outside_of_it() -> None:
    """Of two variants of a million million cases each."""
    made = CasesOfVariants.of([("a",), ("b", "c")], np.array([10**12, 10**12]))
    part = made.made(10**12 - 1, 10**12 + 1)
    assert part.events[ACTIVITY].to_list() == ["a", "b", "c"]
    assert made.events_until(10**12 + 1) == 10**12 + 2

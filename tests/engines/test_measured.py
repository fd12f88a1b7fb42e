"""From a variant histogram to what a kernel answers from: each case and each unit, once."""

from collections import Counter

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.engines.measured import measured_of
from cloakwork.noise import reproducible

SCHEMA = {"variant": pl.List(pl.String), "cases": pl.Int64}
BY_UNIT = {**SCHEMA, "unit": pl.List(pl.String), "cases_of_unit": pl.List(pl.Int64)}

VARIANTS = st.lists(st.sampled_from(["a", "b", "a b", ""]), min_size=1, max_size=2).map(tuple)


def of(rows, schema=SCHEMA, seed=0):
    return measured_of(pl.DataFrame(rows, schema=schema, orient="row"), reproducible(seed))


def counts_of(seen):
    return dict(zip(seen.cases.variants(), seen.counts.tolist(), strict=True))


@given(st.dictionaries(VARIANTS, st.integers(1, 9)))
def test_counts_are_those_of_the_histogram(histogram):
    seen = of([(list(variant), cases) for variant, cases in histogram.items()])
    assert counts_of(seen) == histogram
    assert seen.owners is None
    variants, counts = seen.by_variant()
    assert dict(zip(variants, counts.tolist(), strict=True)) == histogram
    assert variants == sorted(histogram)


def test_the_order_of_cases_is_random():
    """Each of six orders comes: a query that goes by the order of a batch cannot go unnoticed."""
    rows = [([label], 1) for label in "abc"]
    orders = Counter(tuple(of(rows, seed=seed).cases.variants()) for seed in range(120))
    assert len(orders) == 6


@given(st.lists(st.tuples(VARIANTS, st.integers(1, 3), st.sampled_from([None, "u", "v", ""]))))
def test_units_own_their_cases(rows):
    """Cases without a unit are units of their own."""
    by_row = Counter()
    for variant, cases, unit in rows:
        by_row[variant, unit] += cases
    seen = of([(list(v), cases, [unit], [cases]) for (v, unit), cases in by_row.items()], BY_UNIT)
    variants, owners = seen.cases.variants(), seen.owners
    assert counts_of(seen) == sum_by(lambda variant, unit: variant, by_row)
    owned = {}
    for row, unit, cases in zip(owners.row, owners.unit, owners.cases, strict=True):
        owned.setdefault(int(unit), Counter())[variants[row]] += int(cases)
    assert set(owned) == set(range(owners.units))
    expected = [
        (variant,) for (variant, unit), n in by_row.items() if unit is None for _ in range(n)
    ]
    for name in {unit for _, unit in by_row} - {None}:
        own = {variant: n for (variant, unit), n in by_row.items() if unit == name}
        expected.append(tuple(sorted(Counter(own).elements())))
    assert sorted(tuple(sorted(each.elements())) for each in owned.values()) == sorted(expected)


def sum_by(key, counted):
    found = Counter()
    for names, number in counted.items():
        found[key(*names)] += number
    return dict(found)


def test_an_empty_histogram_is_a_log_without_cases():
    for schema in (SCHEMA, BY_UNIT):
        seen = of([], schema)
        assert len(seen.cases) == len(seen.counts) == 0
        assert seen.by_variant()[0] == []
    assert seen.owners.units == 0
    assert len(seen.owners.row) == 0


def test_cases_without_events_are_cases():
    seen = of([([], 4), (["a"], 1)])
    assert counts_of(seen) == {(): 4, ("a",): 1}
    assert seen.counts.dtype == np.int64

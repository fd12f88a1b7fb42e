"""The variant histogram."""

from dataclasses import replace

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

from cloakwork.engines.batches import in_batches
from cloakwork.mechanisms.aggregates import VARIANT_COUNTS_SCHEMA, VariantCounts
from contracts.sample_logs import log_of


def counted(summary: pl.DataFrame) -> dict[tuple[str, ...], int]:
    return {tuple(variant): cases for variant, cases in summary.rows()}


def test_counts_cases_of_each_variant() -> None:
    """Cases without events are a variant too."""
    summary = VariantCounts().of(log_of([["a", "b"], ["b"], ["a", "b"], [], ["b", "a"]]))
    assert counted(summary) == {("a", "b"): 2, ("b",): 1, (): 1, ("b", "a"): 1}
    assert summary.schema == VARIANT_COUNTS_SCHEMA


def test_merges_batches() -> None:
    """The same variant in two batches is one row."""
    parts = pl.concat(
        [VariantCounts().of(log_of([["a"], [], ["b"]])), VariantCounts().of(log_of([["a"], []]))]
    )
    assert counted(VariantCounts().merge(parts)) == {("a",): 2, (): 2, ("b",): 1}


def test_empty_log_has_an_empty_summary() -> None:
    """No rows, the same columns; also when nothing is merged."""
    summary = VariantCounts().of(log_of([]))
    assert summary.height == 0
    assert summary.schema == VariantCounts().merge(summary).schema == VARIANT_COUNTS_SCHEMA


def test_a_log_of_empty_cases() -> None:
    """One variant, the empty one."""
    assert counted(VariantCounts().of(log_of([[], [], []]))) == {(): 3}


def persons_of(summary: pl.DataFrame) -> dict[tuple[str, ...], dict[str | None, int]]:
    """How many cases of each variant each person has."""
    rows = summary.select("variant", "unit", "cases_of_unit").rows()
    return {tuple(v): dict(zip(units, cases, strict=True)) for v, units, cases in rows}


def test_a_variant_is_one_row_whoever_its_cases_are_of() -> None:
    """Units and how many cases they have, those of none among them; the same from any batches."""
    log = log_of([["a"], ["b"], ["a"], ["a"], ["b"], []])
    persons = pl.Series("case:P", ["x", "y", None, "x", None, "y"], dtype=pl.String)
    log = replace(log, cases=log.cases.with_columns(persons))
    counting = VariantCounts("case:P")

    whole = counting.merge(counting.of(log))

    assert whole.columns == ["variant", "cases", "unit", "cases_of_unit"]
    assert persons_of(whole) == {(): {"y": 1}, ("a",): {None: 1, "x": 2}, ("b",): {None: 1, "y": 1}}
    of_case = np.array([2, 0, 1, 0, 2, 1])
    parts = [counting.of(batch) for batch in in_batches(log, of_case, 4)]
    assert_frame_equal(counting.merge(pl.concat(parts)), whole)
    assert_frame_equal(counting.merge(pl.concat(parts[::-1])), whole)
    nobody = VariantCounts("case:Q")
    assert persons_of(nobody.of(log)) == {(): {None: 1}, ("a",): {None: 3}, ("b",): {None: 2}}
    empty = counting.of(log_of([]))
    assert_frame_equal(counting.merge(empty), empty)


def test_the_histogram_does_not_grow_with_cases() -> None:
    """A row a variant, and a number in it: nothing is said of each case."""
    few, many = (VariantCounts().of(log_of([["a"], ["a", "b"]] * times)) for times in (1, 500))
    assert few.estimated_size() == many.estimated_size()

"""The variant histogram."""

import polars as pl

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

"""Contribution bounding: declared facts are enforced, and every unit keeps a random few of its
cases; and the variant histogram.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from cloakwork.log.eventlog import ACTIVITY, EventLog
from cloakwork.mechanisms.aggregates import VARIANT_COUNTS_SCHEMA, VariantCounts
from cloakwork.mechanisms.bound import BoundContributions, BoundParams
from cloakwork.mechanisms.steps import Decision, MapCases
from cloakwork.noise import secret
from cloakwork.testing.contract_logs import Batches
from contracts.sample_logs import log_of


def bounded(log: EventLog, **params: object) -> EventLog:
    """The log after bounding."""
    action = BoundContributions().rewrite(
        BoundParams(**params), Decision(pl.DataFrame()), secret().stream()
    )
    assert isinstance(action, MapCases)
    return action.apply(log)


def courses(log: EventLog) -> list[list[str]]:
    """The labels of each case."""
    labels = log.events[ACTIVITY].to_list()
    return [labels[begin:end] for begin, end in zip(log.offsets, log.offsets[1:], strict=False)]


def test_undeclared_labels_go_then_long_cases_are_cut() -> None:
    """Labels first, so that a case is cut to its first declared events; cases left empty go."""
    log = log_of([["a", "x", "b", "c"], ["x"], [], ["a"]])
    assert courses(bounded(log, alphabet=("a", "b", "c"), longest_case=2)) == [["a", "b"], ["a"]]


def test_events_without_a_label_go() -> None:
    """An event without an activity is no event."""
    log = log_of([["a", "b"]])
    blank = log.events.with_columns(
        pl.when(pl.col(ACTIVITY) == "b").then(None).otherwise(ACTIVITY).alias(ACTIVITY)
    )
    assert courses(bounded(EventLog(blank, log.cases, log.offsets))) == [["a"]]


@given(st.lists(st.sampled_from(["p", "q", "r", None]), max_size=30), st.integers(1, 4))
def test_no_unit_keeps_more_than_its_cases(owners: list[str | None], max_cases: int) -> None:
    """At most ``max_cases`` of each owner, all it has where it has fewer; cases without an owner
    all stay.
    """
    log = log_of([["a"]] * len(owners))
    owned = EventLog(
        log.events, log.cases.with_columns(pl.Series("case:owner", owners, pl.String)), log.offsets
    )
    kept = Counter(
        bounded(owned, attribute="case:owner", max_cases=max_cases).cases["case:owner"].to_list()
    )
    had = Counter(owners)
    assert {
        who: count if who is None else min(count, max_cases) for who, count in had.items()
    } == dict(kept)


def test_which_cases_stay_is_uniform() -> None:
    """Of three cases of one person each stays alone equally often (chi-squared, false alarms below
    1e-10).
    """
    runs = 6000
    log = log_of([["a"]] * 3 * runs)
    owners = pl.Series("case:owner", [str(i // 3) for i in range(3 * runs)])
    owned = EventLog(
        log.events, log.cases.with_columns(owners, place=pl.Series([0, 1, 2] * runs)), log.offsets
    )
    kept = bounded(owned, attribute="case:owner", max_cases=1).cases["place"].to_numpy()
    counts = np.bincount(kept, minlength=3)
    assert runs == counts.sum()
    assert ((counts - runs / 3) ** 2 / (runs / 3)).sum() < 50


def test_an_empty_log_stays_empty() -> None:
    """Nothing to bound."""
    assert (
        bounded(
            log_of([]), attribute="case:owner", max_cases=1, longest_case=1, alphabet=("a",)
        ).cases.height
        == 0
    )


def counted(summary: pl.DataFrame) -> dict[tuple[str, ...], int]:
    return {tuple(variant): cases for variant, cases in summary.rows()}


def test_counts_cases_of_each_variant() -> None:
    """Cases without events are a variant too."""
    summary = VariantCounts().of(log_of([["a", "b"], ["b"], ["a", "b"], [], ["b", "a"]]))
    assert counted(summary) == {("a", "b"): 2, ("b",): 1, (): 1, ("b", "a"): 1}
    assert summary.schema == VARIANT_COUNTS_SCHEMA


def test_empty_log_has_an_empty_summary() -> None:
    """No rows, the same columns; also when nothing is merged."""
    summary = VariantCounts().of(log_of([]))
    assert summary.height == 0
    assert summary.schema == VariantCounts().merge(summary).schema == VARIANT_COUNTS_SCHEMA


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
    of_case = np.array([3, 0, 1, 0, 3, 1])
    parts = [counting.of(batch) for batch in Batches.of(log, of_case)]
    assert_frame_equal(counting.merge(pl.concat(parts)), whole)
    assert_frame_equal(counting.merge(pl.concat(parts[::-1])), whole)
    nobody = VariantCounts("case:Q")
    assert persons_of(nobody.of(log)) == {(): {None: 1}, ("a",): {None: 3}, ("b",): {None: 2}}
    empty = counting.of(log_of([]))
    assert_frame_equal(counting.merge(empty), empty)

"""Contribution bounding: declared facts are enforced, and every unit keeps a random few of its
cases.
"""

from collections import Counter

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.log.eventlog import ACTIVITY, EventLog
from cloakwork.mechanisms.bound import BoundContributions, BoundParams
from cloakwork.mechanisms.steps import Decision, MapCases
from cloakwork.noise import secret
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

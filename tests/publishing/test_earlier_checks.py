"""What a measurement on a released log says of a claim of version 0.1.0."""

import re
from typing import Any

import numpy as np
import polars as pl
import pytest

from cloakwork.log.eventlog import ACTIVITY, CASE_ID, EventLog
from cloakwork.publishing.advisories import (
    Advisory,
    shipped_advisories,
)
from cloakwork.publishing.earlier_checks import measure_advisory, measure_as_0_1_0
from publishing.earlier_releases import INSERTED, METRIC, A, B, K, T, timed


def log_of(cases: list[list[tuple[str, Any]]], ages: list[Any] | None = None) -> EventLog:
    """Cases of events with an activity and a value each."""
    rows = [
        {
            CASE_ID: str(number),
            ACTIVITY: activity,
            "value": value,
            "case:age": None if ages is None else ages[number],
        }
        for number, events in enumerate(cases)
        for activity, value in events
    ]
    return EventLog.from_polars(
        pl.DataFrame(rows, schema_overrides={"value": pl.String, "case:age": pl.Float64})
    )


def advisory(measure: str) -> Advisory:
    return next(each for each in shipped_advisories() if each.measure == measure)


def test_events_without_attributes_are_left_out_where_their_activity_has_some() -> None:
    """Three cases a, b; in one of them b was inserted. Where b never has a value, the file cannot
    tell.
    """
    told = log_of([[("a", "x"), ("b", "y")], [("a", "x"), ("b", "y")], [("a", "x"), ("b", None)]])
    untold = log_of([[("a", "x"), ("b", None)]] * 3)
    measure = advisory("k without empty events")

    shown = measure_as_0_1_0(told, K)
    assert shown is not None and shown.holds
    assert measure_advisory(told, measure, K, raw_times=False) == (
        True,
        "without events that have no attributes, the smallest group holds 1 released cases",
    )
    assert measure_advisory(untold, measure, K, raw_times=False) == (
        None,
        "without events that have no attributes, the smallest group holds 3 released cases",
    )


@pytest.mark.parametrize(
    ("cases", "raw_times", "is_so"),
    [
        ([[A, B]] * 2 + [[A, INSERTED]], True, True),
        ([[A, B]] * 3, True, False),
        ([[A, INSERTED]] * 3, True, None),
        ([[A, B]] * 3 + [[A, INSERTED]] * 3, True, None),
        ([[A, A]] * 2 + [[A, ("a", None, True)]], True, False),
        ([[A, A]] * 2 + [[A, ("a", None, True)]], False, True),
        ([[INSERTED]] * 3, True, False),
        ([[A, ("b", "y", False)]] * 3, False, None),
    ],
    ids=[
        "inserted events have no time",
        "every event has one",
        "an activity that never has a time: it cannot tell",
        "k holds without them: it cannot tell",
        "an event with a raw time was not inserted",
        "times that were written anew tell nothing",
        "no event has anything",
        "times that are missing though written anew",
    ],
)
def test_a_raw_time_is_an_attribute_that_inserted_events_lack(
    cases: list[list[tuple[str, str | None, bool]]], raw_times: bool, is_so: bool | None
) -> None:
    found = measure_advisory(
        timed(cases), advisory("k without empty events"), K, raw_times=raw_times
    )

    assert found is not None and found[0] is is_so, found


def test_one_outlier_does_not_make_classes_close_by_ranks() -> None:
    """Two variants, one of the young and one of the old, and one case that is 10,000 years old."""
    cases = [[("a", None)]] * 50 + [[("b", None)]] * 50
    ages = (
        [20.0 + number % 3 for number in range(50)]
        + [80.0 + number % 3 for number in range(49)]
        + [10_000.0]
    )
    log = log_of(cases, ages)

    then = measure_as_0_1_0(log, T)
    assert then is not None and then.holds
    so, seen = measure_advisory(log, advisory("closeness by ranks"), T, raw_times=False) or (
        False,
        "",
    )
    assert so and re.search(r"lies 0\.25\d* away", seen), seen


def test_an_attribute_that_is_recorded_only_for_some_tells() -> None:
    """Of one variant every case has the value, of the other none."""
    log = log_of([[("a", None)]] * 10 + [[("b", None)]] * 10, [1.0] * 10 + [None] * 10)

    then = measure_as_0_1_0(log, T)
    assert then is not None and then.holds
    assert measure_advisory(log, advisory("closeness with missing values"), T, raw_times=False) == (
        True,
        "by missing values some group lies at least 0.5 away, t is 0.2",
    )


def test_the_meaning_then_is_what_version_0_1_0_measured() -> None:
    """By hand: ages 0 to 10 in two classes of two, ranges of 10: 0, 10 against 4, 6 lies .2 from
    all four.
    """
    log = log_of([[("a", None)]] * 2 + [[("b", None)]] * 2, [0.0, 10.0, 4.0, 6.0])
    seen = measure_as_0_1_0(log, T)

    assert (
        seen is not None
        and seen.seen.startswith("the farthest group lies 0.2 from all values")
        and seen.holds
    )
    assert not measure_as_0_1_0(log, T | {"t": 0.19}).holds  # type: ignore[union-attr]
    diverse = {
        "kind": "l-diversity",
        "l": 2.0,
        "attribute": "case:age",
        "variety": "distinct",
        "classes": "variants",
    }
    assert measure_as_0_1_0(log, diverse).holds  # type: ignore[union-attr]
    assert not measure_as_0_1_0(log, diverse | {"l": 3.0}).holds  # type: ignore[union-attr]
    assert measure_as_0_1_0(log, METRIC) is None


def test_a_log_without_cases_settles_nothing_and_breaks_nothing() -> None:
    empty = log_of([[("a", None)]]).keep_cases(np.zeros(0, np.int64))

    for guarantee in (
        K,
        T,
        {
            "kind": "l-diversity",
            "l": 2.0,
            "attribute": "x",
            "variety": "entropy",
            "classes": "prefixes",
        },
    ):
        assert (
            measure_as_0_1_0(empty, guarantee) is None or measure_as_0_1_0(empty, guarantee).holds
        )  # type: ignore[union-attr]

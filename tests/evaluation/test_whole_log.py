"""What times and attributes lost, as distributions: figures by hand."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from math import log10

import numpy as np
import polars as pl
import pytest

from cloakwork.evaluation.distances import coded
from cloakwork.evaluation.whole_log import (
    WholeLogUtility,
    compare_whole_logs,
    profile_distance,
    week_slots,
)
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from contracts.sample_logs import BEGIN, log_of


def at(*hours):
    """Times so many hours after the beginning; None for none."""
    return [None if hour is None else BEGIN + timedelta(hours=hour) for hour in hours]


def with_events(log, **columns):
    """The log with columns of its events."""
    series = [pl.Series(name, values) for name, values in columns.items()]
    return replace(log, events=log.events.with_columns(series))


def with_cases(log, **columns):
    """The log with attributes of its cases."""
    series = [pl.Series(f"case:{name}", values) for name, values in columns.items()]
    return replace(log, cases=log.cases.with_columns(series))


def test_durations_by_hand():
    """Durations 0, 2 and 4 hours against 2 and 6: 2 hours have to be moved on average, of a mean of
    2. A case without times has none; one event takes no time; times missing at an end do not count.
    """
    source = log_of(["a", "ab", "abc", "ab"], [at(5), at(0, 2), at(1, 5, None), at(None, None)])
    release = log_of(["ab", "ab"], [at(0, 2), at(3, 9)])
    # Sorted: 0, 2, 4 against 2, 6: by thirds and halves |0-2|/3 + |2-2|/6 + |2-6|/6 + |4-6|/3.
    assert compare_whole_logs(source, release).case_durations == pytest.approx((2 + 2 + 2) / 3 / 2)


def test_waiting_times_by_hand():
    """Pairs that both have, by the source's counts; ties are gaps of 0, neighbours of a missing
    time have none.
    """
    source = log_of(
        ["ab", "ab", "bc", "cd", "acb"], [at(0, 1), at(3, 3), at(0, 9), at(0, 1), at(0, None, 5)]
    )
    release = log_of(["ab", "bc", "xy"], [at(0, 0), at(0, 99), at(0, 1)])
    one_hour = log10(3601)
    ab = one_hour / 2  # {0, one hour} against {0}
    bc = abs(log10(1 + 9 * 3600) - log10(1 + 99 * 3600))
    found = compare_whole_logs(source, release)
    assert found.waiting_times == pytest.approx((2 * ab + 1 * bc) / 3)
    first = found.pairs[0]
    assert (first.first, first.second, first.times) == ("a", "b", 2)
    assert (first.source_median, first.source_zeros, first.released_zeros) == (0.5, 0.5, 1)
    assert len(found.pairs) == 2


def test_an_activity_without_a_name_is_left_out():
    """As ``bound`` drops it: its neighbours follow one another."""
    source = log_of(["ab"], [at(0, 2)])
    gap = with_events(log_of(["axb"], [at(0, 1, 2)]), **{ACTIVITY: ["a", None, "b"]})
    assert compare_whole_logs(gap, source).waiting_times == 0


def apart(stamps, others, days_from=None):
    """The distance of two profiles of the week."""
    return profile_distance(week_slots(stamps, days_from), week_slots(others, days_from))


def test_hours_of_the_week():
    """Monday 0 o'clock UTC is the first hour, whatever the year; half of the events lie in another
    one.
    """
    monday = datetime(2024, 1, 1, tzinfo=UTC)
    stamps = np.array([monday.timestamp() * 1e6] * 4, np.int64)
    weeks_later = stamps + np.array([0, 7, 14, 700]) * 86_400_000_000
    assert apart(stamps, weeks_later) == 0
    one_hour_later = stamps + np.array([0, 0, 1, 1]) * 3_600_000_000
    assert apart(stamps, one_hour_later) == 0.5
    assert apart(stamps, stamps[:0]) == 1
    assert apart(stamps[:0], stamps) is None


def test_weekdays_in_the_zone_of_the_log():
    """Days begin at 23 o'clock UTC in winter and 22 in summer; both are one weekday, the next day
    is another.
    """
    winter = timezone(timedelta(hours=1))
    epoch = datetime(2000, 1, 1, tzinfo=winter)
    july = int(datetime(2006, 7, 3, tzinfo=timezone(timedelta(hours=2))).timestamp() * 1e6)
    january = int(datetime(2006, 1, 2, tzinfo=winter).timestamp() * 1e6)
    mondays, tuesday = np.array([july, january]), np.array([january + 86_400_000_000])
    assert apart(mondays[:1], mondays[1:], epoch) == 0
    assert apart(mondays, tuesday, epoch) == 1
    log, other = log_of(["a"], [[BEGIN]]), log_of(["a"], [[BEGIN + timedelta(days=1)]])
    found = compare_whole_logs(log, other, days_from=BEGIN)
    assert (found.weekdays, found.hours_of_week) == (1, None)


def test_attributes_per_activity_by_hand():
    """Missing is a value; an activity that the release lacks differs wholly; one of the release's
    own does not count. Activities weigh by their values in the source, or by their events.
    """
    source = with_events(log_of(["aab", "ac"]), colour=["red", "red", None, "blue", "red"])
    release = with_events(log_of(["ab", "ax"]), colour=["red", "green", "red", "blue"])
    found = compare_whole_logs(source, release, attributes=["colour"])
    # a: two of three red against all; b: green where there is nothing; c: not in the release.
    assert found.attributes_per_activity == pytest.approx((3 * (1 / 3) + 0 * 1 + 1 * 1) / 4)
    assert found.attributes_over_all == pytest.approx((3 * (1 / 3) + 1 * 1 + 1 * 1) / 5)
    (item,) = found.attributes
    assert (item.missing_source, item.missing_released, item.numbers) == (0.2, 0, None)
    empty = with_events(log_of(["ab"]), colour=[None, None])
    found = compare_whole_logs(empty, release, attributes=["colour"])
    assert found.attributes_per_activity == found.attributes_over_all == 1


def test_case_attributes_and_two_way_tables_by_hand():
    """Each attribute alone agrees; together they do not. Of an attribute of events the first value
    counts.
    """
    source = with_cases(log_of(["a"] * 4), one=[1, 1, 2, 2], two=["x", "x", "y", "y"])
    release = with_cases(log_of(["a"] * 4), one=[1, 1, 2, 2], two=["x", "y", "x", "y"])
    found = compare_whole_logs(source, release, attributes=["case:one", "case:two"])
    assert (found.case_attributes, found.two_way_tables) == (0, 0.5)
    assert found.attributes_per_activity is None
    first = with_events(log_of(["ab"]), seen=[None, 7], known=["k", None])
    other = with_events(log_of(["ab"]), seen=[7, 9], known=[None, "k"])
    assert compare_whole_logs(first, other, attributes=["seen", "known"]).two_way_tables == 0


def test_numbers():
    """Declared ranges are cut into bins, and what lies outside is in the outer ones; few numbers
    stay as they are, many are cut over the source's range.
    """
    source = with_events(log_of(["aa"]), sum=[3.0, 700.0])
    release = with_events(log_of(["aa"]), sum=[20.0, 499.0])
    ranges = {"sum": (0.0, 500.0)}
    found = compare_whole_logs(source, release, attributes=["sum"], ranges=ranges)
    assert found.attributes_per_activity == 0
    assert found.numbers == 0.5
    assert compare_whole_logs(source, release, attributes=["sum"]).attributes_per_activity == 1
    many = with_events(log_of(["a" * 40]), sum=list(range(40)))
    shifted = with_events(log_of(["a" * 40]), sum=[number + 0.3 for number in range(40)])
    assert compare_whole_logs(many, shifted, attributes=["sum"]).attributes_per_activity < 0.03


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([True, False], [False, True], 0.0),
        ([1, 2], [1.0, 2.0], 0.0),
        ([["x"], ["x", "y"]], [["x"], ["y", "x"]], 0.5),
        ([BEGIN, None], [BEGIN, None], 0.0),
        ([float("nan"), 1.0], [None, 1.0], 0.0),
        (["07", "12"], [7, 12], 0.0),
        (["true", "False"], [False, True], 0.0),
        (["True", "false"], [True, False], 0.0),
        (["true", None], [True, True], 0.5),
    ],
)
def test_values_of_every_type(before, after, expected):
    """The same value is the same, whatever type holds it; the order inside a list counts."""
    logs = [with_events(log_of(["aa"]), what=values) for values in (before, after)]
    assert compare_whole_logs(*logs, attributes=["what"]).attributes_per_activity == expected


def test_what_cannot_be_compared_is_a_note():
    """Other types, and attributes that neither log has."""
    source = with_events(log_of(["aa"]), what=[1, 2])
    release = with_events(log_of(["aa"]), what=["1-5", "1-5"])
    found = compare_whole_logs(source, release, attributes=["what", "who"])
    assert len(found.notes) == 2
    assert found.attributes_per_activity is None
    column = coded(source, log_of(["aa"]), "what", None)
    assert not isinstance(column, str)
    assert column.release.tolist() == [-1, -1]


def test_empty_logs():
    """An empty release loses everything that can be lost; an empty source nothing."""
    source = with_cases(
        with_events(log_of(["ab", "ab"], [at(0, 1), at(0, 2)]), what=["x", "y", "x", "y"]),
        one=["p", "q"],
    )
    empty = EventLog.empty()
    found = compare_whole_logs(source, empty, attributes=["what", "case:one"])
    assert (found.case_durations, found.waiting_times, found.hours_of_week) == (None, None, 1)
    assert (found.attributes_per_activity, found.case_attributes) == (1, 1)
    assert found.two_way_tables == 1
    nothing = compare_whole_logs(empty, empty)
    assert nothing == WholeLogUtility(curves=nothing.curves)
    without = replace(source, events=source.events.drop(TIMESTAMP))
    assert compare_whole_logs(without, without) == WholeLogUtility()
    assert compare_whole_logs(empty, source, attributes=["what"]).attributes_per_activity is None

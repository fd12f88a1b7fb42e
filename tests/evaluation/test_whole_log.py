"""What times and attributes lost, as distributions: figures by hand."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from math import log10

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from cloakwork.evaluation.distances import (
    MISSING,
    bins_of,
    coded,
    kolmogorov_smirnov,
    round_edges,
    total_variation,
    wasserstein,
    weighted_mean,
)
from cloakwork.evaluation.whole_log import (
    WeekClock,
    WholeLogUtility,
    attribute_figures,
    compare_whole_logs,
    profile_distance,
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


def test_an_activity_without_a_name_is_left_out():
    """As ``bound`` drops it: its neighbours follow one another."""
    source = log_of(["ab"], [at(0, 2)])
    gap = with_events(log_of(["axb"], [at(0, 1, 2)]), **{ACTIVITY: ["a", None, "b"]})
    assert compare_whole_logs(gap, source).waiting_times == 0


def apart(stamps, others, days_from=None):
    """The distance of two profiles of the week."""
    clock = WeekClock(days_from=days_from)
    return profile_distance(clock.slots_of(stamps), clock.slots_of(others))


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


def test_hours_of_local_clocks():
    """Nine o'clock in Rome is one hour in winter and in summer, and two in UTC."""
    winter = int(datetime(2024, 1, 1, 8, tzinfo=UTC).timestamp() * 1e6)
    summer = int(datetime(2024, 7, 1, 7, tzinfo=UTC).timestamp() * 1e6)
    stamps = np.array([winter, summer])
    assert WeekClock("Europe/Rome").slots_of(stamps).tolist() == [9, 9]
    assert WeekClock().slots_of(stamps).tolist() == [8, 7]


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
    found = compare_whole_logs(log, other, clock=WeekClock(days_from=BEGIN))
    assert (found.weekdays, found.hours_of_week) == (1, None)


def test_months_by_hand():
    """A quarter of the events lie in another stretch of 30 days; before 1970, too."""
    log = log_of(["ab", "ab"], [[BEGIN, BEGIN], [BEGIN, BEGIN]])
    early = BEGIN - timedelta(days=30 * 500)
    other = log_of(["ab", "ab"], [[BEGIN, BEGIN], [early, BEGIN]])
    assert compare_whole_logs(log, other).months == 0.25
    assert compare_whole_logs(other, other).months == 0


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
    assert (found.case_durations, found.waiting_times) == (None, None)
    assert (found.hours_of_week, found.months) == (1, 1)
    assert (found.attributes_per_activity, found.case_attributes) == (1, 1)
    assert found.two_way_tables == 1
    nothing = compare_whole_logs(empty, empty)
    assert nothing == WholeLogUtility(curves=nothing.curves)
    without = replace(source, events=source.events.drop(TIMESTAMP))
    assert compare_whole_logs(without, without) == WholeLogUtility()
    assert compare_whole_logs(empty, source, attributes=["what"]).attributes_per_activity is None


def log_with(sequences, kinds, ages):
    log = log_of(sequences)
    return replace(
        log,
        events=log.events.with_columns(pl.Series("kind", kinds, pl.String)),
        cases=log.cases.with_columns(pl.Series("case:age", ages, pl.Int64)),
    )


def test_the_largest_losses_come_first():
    """An activity weighs as many events as it has; one without the attribute is not there."""
    source = log_with(["aab", "ab"], ["x", "x", "y", "x", "y"], [1, 2])
    release = log_with(["aac", "ab"], ["y", "x", None, "x", "x"], [1, 1])
    columns = [coded(source, release, name, None) for name in ("kind", "case:age")]
    found = attribute_figures(source, release, columns)
    at = [(each.first, each.second, each.distance) for each in found["at_activities"]]
    # At b (two events) y became x; at a (three) one of three.
    assert at == [("kind", "b", 1.0), ("kind", "a", pytest.approx(1 / 3))]
    (table,) = found["pairs_of_attributes"]
    assert {table.first, table.second} == {"kind", "case:age"}
    # (x, 1), (x, 2) against (y, 1), (x, 1).
    assert table.distance == found["two_way_tables"] == 0.5
    same = attribute_figures(source, source, [coded(source, source, "kind", None)])
    assert same["at_activities"] == same["pairs_of_attributes"] == ()
    assert same["two_way_tables"] is None


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

"""What a case contributes to the tables of times: never more than the clip; bins of spans,
and slots of a week.
"""

from datetime import UTC, datetime, timedelta, timezone
from itertools import product
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.base.facts import UNIX_EPOCH, Window
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.kernel import Cases, Clip, Column, Columns, vectors_of
from cloakwork.kernel.perturb import Grid
from cloakwork.mechanisms.timestamps.bins import DAY, HOUR, Clock, LogBins
from cloakwork.mechanisms.timestamps.tables import (
    CLIPS,
    UNIT_NORM,
    WEEK_PARTS,
    StartTable,
    gaps_in,
    hours_of,
    totals_groups,
    totals_in,
)

CLOCK = Clock.of(Grid(UNIX_EPOCH, timedelta(seconds=1)))
BINS = LogBins.up_to(86_400 * 365, 32)
WINDOW = Window(start=UNIX_EPOCH, end=UNIX_EPOCH + timedelta(days=400))
ROW_OF = np.array([[0, 1], [-1, 2]])
QUERIES = {
    "window": StartTable.within(CLOCK, WINDOW, 40).period_query,
    "gaps": gaps_in(CLOCK, BINS, None),
    "gaps-by-activity": gaps_in(CLOCK, BINS, np.array([[0, 1], [0, 1]])),
    "gaps-by-pair": gaps_in(CLOCK, BINS, ROW_OF),
    "starts": StartTable.within(CLOCK, WINDOW, 40).query,
    "hours": hours_of(CLOCK),
    "totals": totals_in(CLOCK, BINS, 2),
}
MOMENTS = (None, -(10**15), 0, HOUR, 3 * DAY, 10**17)
"""Among them a time before the window, and one that no calendar holds."""


def cases_of(labels, times):
    """Cases by the places of their labels in ``ab``, with a time or None for each event."""
    flat = [time for case in times for time in case]
    missing = np.array([time is None for time in flat], np.bool_)
    values = np.array([time or 0 for time in flat], np.int64)
    codes = np.array([code for case in labels for code in case], np.int64)
    offsets = np.cumsum([0, *map(len, labels)]).astype(np.int64)
    columns = Columns({TIMESTAMPS: Column.of_times(values, missing)})
    return Cases(("a", "b"), codes, offsets, columns)


def universe():
    """All cases of up to three events of two labels, each with one of a few times, in order."""
    found = []
    for length in range(4):
        for labels in product((0, 1), repeat=length):
            for times in product(MOMENTS, repeat=length):
                known = [time for time in times if time is not None]
                if known == sorted(known):
                    found.append((labels, times))
    return cases_of([labels for labels, _ in found], [times for _, times in found])


def squares(cases, query, clip):
    """The square of the norm of each case's vector."""
    vectors = vectors_of(cases, query, clip)
    total = np.zeros(len(cases), np.int64)
    np.add.at(total, vectors.case, vectors.value**2)
    return total


@pytest.mark.parametrize("name", CLIPS)
def test_exhaust_no_case_moves_a_table_by_more_than_one(name):
    """And hardly by less, where it counts at all; without the clip it does."""
    cases = universe()
    found = squares(cases, QUERIES[name], CLIPS[name])
    assert found.max() <= UNIT_NORM**2
    counted = found[found > 0]
    assert counted.size
    if name in ("starts", "window"):
        assert counted.min() > 0.999 * UNIT_NORM**2
    loose = Clip("l2", 1 << 24, 1 << 10)
    if name != "window":
        assert squares(cases, QUERIES[name], loose).max() > UNIT_NORM**2


@pytest.mark.parametrize("name", CLIPS)
def test_the_longest_case_weighs_no_more(name):
    """A case of 5,000 events, all gaps alike or all different."""
    rng = np.random.default_rng(3)
    alike = np.arange(5000) * HOUR
    other = np.cumsum(rng.integers(1, 10**12, 5000))
    labels = [rng.integers(0, 2, 5000).tolist()] * 2
    cases = cases_of(labels, [alike.tolist(), other.tolist()])
    assert squares(cases, QUERIES[name], CLIPS[name]).max() <= UNIT_NORM**2


def test_events_count_alike_in_cases_of_usual_norms():
    """And a case of more of them by no more than the clip, which without it they exceed."""
    query = hours_of(CLOCK, UNIT_NORM // 4)
    cases = cases_of([[0], [0, 1], [0] * 40], [[0], [0, 30 * HOUR], [0] * 40])
    found = squares(cases, query, CLIPS["hours"])
    one = sum(int(part * (UNIT_NORM // 4)) ** 2 for part in WEEK_PARTS)
    assert found[:2].tolist() == [one, 2 * one]
    assert 0.999 * UNIT_NORM**2 < found[2] <= UNIT_NORM**2
    assert squares(cases, query, Clip("l2", 1 << 24, 1 << 10))[2] > 100 * UNIT_NORM**2
    assert squares(universe(), query, CLIPS["hours"]).max() <= UNIT_NORM**2


def entries(name, labels, times):
    """What one case weighs, by key."""
    vectors = vectors_of(cases_of([labels], [times]), QUERIES[name], CLIPS[name])
    return dict(zip(vectors.keys[vectors.key].tolist(), vectors.value.tolist(), strict=True))


def test_a_case_weighs_one_in_each_group_spread_over_its_occurrences():
    times = [0, HOUR, 2 * HOUR, 2 * HOUR + DAY]
    found = entries("gaps-by-pair", [0, 0, 0, 1], times)
    hour, day = BINS.place(np.array([3_600, 86_400])).tolist()
    # a a twice after an hour, a b once after a day: two groups of one cell each.
    one = int(UNIT_NORM / 2**0.5)
    assert found == {hour: one, len(BINS) + day: one}
    assert entries("gaps-by-pair", [1, 0], [0, HOUR]) == {}


def test_a_gap_spans_events_without_a_time():
    found = entries("gaps", [0, 1, 0], [0, None, HOUR])
    assert found == {int(BINS.place(np.array([3_600]))[0]): UNIT_NORM}


def test_what_lies_outside_counts_at_the_edge():
    longest = entries("gaps", [0, 0], [0, 10**17])
    assert list(longest) == [len(BINS) - 1]
    table = StartTable.within(CLOCK, WINDOW, 40)
    early, late = (entries("starts", [0], [time]) for time in (-(10**15), 10**17))
    assert min(early) == 0
    assert min(late) == table.periods - 1


def test_weekday_and_hour_of_a_start():
    """1970-01-01 was a Thursday."""
    table = StartTable.within(CLOCK, WINDOW, 40)
    found = entries("starts", [0], [5 * HOUR])
    assert sorted(found) == [0, table.periods + 3, table.periods + 7 + 5]


def test_lengths_fall_into_classes():
    lengths = np.array([2, 3, 4, 5, 64, 65])
    classes = totals_groups(np.zeros(6, np.int64), lengths, 1)[2] - 2
    assert classes.tolist() == [0, 1, 1, 2, 5, 6]


def test_days_of_periods_share_their_weight():
    table = StartTable.within(CLOCK, WINDOW, 40)
    assert table.periods <= 40
    assert table.days % 7 == 0
    trend = np.arange(table.periods, dtype=np.float64)
    weekdays = np.array([1.0, 0, 0, 0, 0, 0, 0])
    weights = table.day_weights(trend, weekdays)
    assert weights[4::7].sum() == weights.sum()
    assert weights[: table.days].sum() == 0


def test_a_window_is_where_noisy_counts_stand_out():
    """With a period on either side; and some window where nothing does."""
    table = StartTable.within(CLOCK, WINDOW, 40)
    noisy = np.zeros(table.periods)
    noisy[10:13] = [50, 30, 70]
    found = table.window_of(noisy, 10.0)
    days = table.days
    assert found.start == UNIX_EPOCH + timedelta(days=9 * days)
    assert found.end == UNIX_EPOCH + timedelta(days=14 * days)
    for nothing in (np.zeros(table.periods), np.full(table.periods, -5.0)):
        assert WINDOW.start <= table.window_of(nothing, 10.0).start < WINDOW.end


@given(st.integers(1, 4_000_000_000), st.integers(1, 128))
def test_bins_part_all_spans(longest, bins):
    """Every span has one bin, and what is drawn of a bin lies in it."""
    found = LogBins.up_to(longest, bins)
    assert 1 <= len(found) <= max(bins, 2)
    assert found.edges[0] == 0
    assert found.edges[-1] == longest + 1
    assert (np.diff(found.edges) > 0).all()
    steps = np.array([0, 1, longest // 2, longest, longest + 5, -3])
    place = found.place(steps)
    inside = np.clip(steps, 0, longest)
    assert (found.edges[place] <= inside).all()
    assert (inside < found.edges[place + 1]).all()
    every = np.arange(len(found))
    for part in (0.0, 0.5, 1 - 2**-53):
        assert (found.place(found.inside(every, np.full(len(found), part))) == every).all()


def test_short_spans_have_bins_of_their_own():
    """Where the grid allows no finer ones."""
    assert LogBins.up_to(1000, 64).edges[:4].tolist() == [0, 1, 2, 3]


def test_slots_of_a_week():
    clock = Clock.of(Grid(UNIX_EPOCH, timedelta(seconds=1)))
    assert (clock.hours, clock.slots) == (24, 168)
    monday = datetime(2024, 1, 1, 9, 30, tzinfo=UTC)
    steps = clock.grid.nearest(np.array([int(monday.timestamp()) * 1_000_000]))
    assert clock.slot(steps).tolist() == [9]
    assert clock.steps(clock.local(steps)).tolist() == steps.tolist()


def test_the_steps_of_a_window_lie_in_it():
    """Of one that holds none, the first behind its start, twice."""
    clock = Clock.of(Grid(UNIX_EPOCH, timedelta(minutes=7)))
    for minutes, steps in ((30, (2, 4)), (9, (2, 2)), (28, (2, 4))):
        ends = [UNIX_EPOCH + timedelta(minutes=each) for each in (8, minutes)]
        assert clock.inside(Window(start=ends[0], end=ends[1])) == steps


@pytest.mark.parametrize("hours", [-11, 0, 1, 13])
def test_a_clock_of_days_counts_local_ones(hours):
    zone = timezone(timedelta(hours=hours))
    clock = Clock.of(Grid(datetime(2000, 1, 1, tzinfo=zone), timedelta(days=1)))
    assert clock.slots == 7
    tuesday = datetime(2024, 1, 2, tzinfo=zone)
    steps = clock.grid.nearest(np.array([int(tuesday.timestamp()) * 1_000_000]))
    assert clock.slot(steps).tolist() == [1]
    assert clock.steps(clock.local(steps)).tolist() == steps.tolist()


@pytest.mark.parametrize("zone", ["Europe/Amsterdam", "America/St_Johns", "Pacific/Apia", "UTC"])
def test_clocks_of_a_zone_know_summer_time(zone):
    """Hours of the week are what Python's own library says, for ninety years; and back, but where a
    clock shows an hour twice.
    """
    clock = Clock.of(Grid(UNIX_EPOCH, timedelta(minutes=30)), zone)
    steps = np.arange(0, 90 * 366 * 48, 1_001)
    instants = [UNIX_EPOCH + timedelta(minutes=30) * int(step) for step in steps]
    local = [instant.astimezone(ZoneInfo(zone)) for instant in instants]
    assert clock.slot(steps).tolist() == [each.weekday() * 24 + each.hour for each in local]
    back = clock.steps(clock.local(steps))
    once = [each.utcoffset() == each.replace(fold=1 - each.fold).utcoffset() for each in local]
    assert (back == steps)[np.array(once)].all()
    assert np.abs(back - steps).max() <= 48


def test_a_time_that_clocks_leap_over_lies_beside_it():
    """On 31 March 2024 clocks in Amsterdam go from 2 to 3 o'clock."""
    clock = Clock.of(Grid(UNIX_EPOCH, timedelta(minutes=1)), "Europe/Amsterdam")
    begins = int((datetime(2024, 3, 31, tzinfo=UTC) - UNIX_EPOCH).total_seconds() * 1_000_000)
    hours = begins + np.array([1.5, 2.5, 3.5]) * HOUR
    assert (clock.local(clock.steps(hours.astype(np.int64))) - begins).tolist() in (
        [1.5 * HOUR, 1.5 * HOUR, 3.5 * HOUR],
        [1.5 * HOUR, 3.5 * HOUR, 3.5 * HOUR],
    )


def test_the_calendars_ends_have_clocks():
    """Times beyond every calendar are those of its edge."""
    clock = Clock.of(Grid(UNIX_EPOCH, timedelta(seconds=1)), "Europe/Amsterdam")
    ends = np.array([-(1 << 60), 1 << 60])
    assert (np.abs(clock.local(ends) - clock.grid.microseconds(ends)) < 24 * HOUR).all()

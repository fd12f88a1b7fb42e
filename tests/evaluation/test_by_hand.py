"""Control flow, times and models of two logs beside each other: figures and curves by hand."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import polars as pl
import pytest

from cloakwork.evaluation.control_flow import MOST_STEPS, FlowStep, flow_graph, histogram
from cloakwork.evaluation.learning import LearnedFrom, learned_from
from cloakwork.evaluation.times import TimeUtility, compare_times, duration_curve, profile_curve
from cloakwork.log.eventlog import TIMESTAMP, EventLog
from contracts.sample_logs import BEGIN, log_of


def at(*hours):
    """Times so many hours after the beginning; None for none."""
    return [None if hour is None else BEGIN + timedelta(hours=hour) for hour in hours]


def test_figures_by_hand():
    """Two cases; an inserted event counts nowhere, and gaps beside it neither."""
    before = log_of(["abc", "ab", "ab"], [at(0, 1, 1), at(0, 4), at(0, None)])
    after = replace(
        before,
        events=before.events.with_columns(
            pl.Series(TIMESTAMP, [*at(0, 2, 3), *at(1, 5), *at(0, 9)])
        ),
    )
    found = compare_times(before, after)
    assert found.events == 6
    assert found.error_mean == pytest.approx((0 + 1 + 2 + 1 + 1 + 0) / 6)
    assert found.error_median == 1
    assert (found.duration_source_mean, found.duration_released_mean) == (
        pytest.approx(5 / 3),
        pytest.approx(7 / 3),
    )
    assert (found.duration_source_median, found.duration_released_median) == (1, 3)
    assert found.duration_distance == pytest.approx(2 / 3)
    assert (found.zeros_source, found.zeros_released) == (pytest.approx(1 / 3), 0)
    assert (found.gap_source_median, found.gap_released_median) == (1, 2)


def test_edges():
    """No times, no events, other events."""
    log = log_of(["ab"], [at(0, 1)])
    bare = replace(log, events=log.events.drop(TIMESTAMP))
    assert compare_times(log, bare) == TimeUtility(notes=("there are no times to compare",))
    assert compare_times(log_of([]), log_of([])).events == 0
    assert "cannot be compared" in compare_times(log, log_of(["a"], [at(0)])).notes[0]
    assert compare_times(log_of(["a"], [at(0)]), log_of(["a"], [at(2)])).gap_source_median is None


def test_durations_lie_in_classes_of_a_power_of_ten():
    """Below a second, a second to 1.78, ten seconds, and longer than a year."""
    source = np.array([0.0, 1.0, 1.5, 10.0])
    curve = duration_curve(source, np.array([1e9]))
    assert curve.source[:6] == (0.25, 0.5, 0, 0, 0, 0.25)
    assert sum(curve.source) == sum(curve.released) == 1
    assert len(curve.source) == len(curve.released)
    places = [place for place, _ in curve.marks]
    assert places == sorted(places)
    assert 0 < places[0] < places[-1] <= 1
    # A mark stands where the class of its time begins.
    assert places[0] == pytest.approx(1 / len(curve.source), abs=1e-4)
    empty = duration_curve(np.zeros(0), np.zeros(0))
    assert set(empty.source) == set(empty.released) == {0}


def test_profiles_begin_on_monday():
    """Hours of the week, or its days."""
    curve = profile_curve(np.array([0, 0, 167]), np.array([1]), 168)
    assert curve.source[0] == pytest.approx(2 / 3, abs=1e-6)
    assert curve.released[1] == 1
    assert curve.marks[0] == (0, "Mon")
    assert len(profile_curve(np.array([6]), np.array([0]), 7).source) == 7


def graph(source, release, most=MOST_STEPS):
    """The graph of two small logs."""
    return flow_graph(source, release, (histogram(source), histogram(release)), most)


def test_steps_by_hand():
    """Beginnings and ends among them; medians of the hours that are known; shares of all steps."""
    source = log_of(["ab", "ab", "ab", "", "ac"], [at(0, 1), at(0, 3), at(0, None), [], at(0, 0)])
    release = log_of(["ab", "b"], [at(0, 5), at(0)])
    found = graph(source, release)
    steps = {(step.first, step.second): step for step in found.steps}
    assert steps[None, "a"] == FlowStep(first=None, second="a", source=4, released=1)
    assert steps["b", None] == FlowStep(first="b", second=None, source=3, released=2)
    assert steps["a", "b"] == FlowStep(
        first="a", second="b", source=3, released=1, source_median=2.0, released_median=5.0
    )
    assert steps[None, "b"].source == 0
    assert steps["a", "c"].released_median is None
    assert (found.source_share, found.released_share) == (1.0, 1.0)
    # Of 12 steps in the source and 5 in the release, those with the largest shares come first.
    assert [(step.first, step.second) for step in graph(source, release, 2).steps] == [
        ("b", None),
        (None, "a"),
    ]
    assert graph(source, release, 2).source_share == pytest.approx(7 / 12)


def test_every_log_has_a_graph():
    """Without events, without cases, without times."""
    log = log_of(["ab"])
    for empty in (EventLog.empty(), log_of([""])):
        assert graph(empty, empty).steps == ()
        assert graph(empty, empty).source_share is None
        assert graph(log, empty).released_share is None
        assert {step.source for step in graph(empty, log).steps} == {0}
    bare = EventLog(log.events.drop(TIMESTAMP), log.cases, log.offsets)
    assert {step.source_median for step in graph(bare, log).steps} == {None}


def test_next_activities_by_hand():
    """The first of five cases is held out; the longest known beginning decides."""
    source = log_of(["abcd", "xbd", "xbd", "abcd", "xbd"])
    found = learned_from(source, log_of(["abc", "xbd", "xbd"]))
    # Of the source: after ab comes c. Of the release: after abc a case ends, and d is not learned.
    assert found.next_activity_source == 1.0
    assert found.next_activity_released == pytest.approx(3 / 4)
    # Nothing is known after b but c or d by the one activity, and after x nothing at all.
    unknown = learned_from(source, log_of(["yb", "yb", "bcd"]))
    # a: the most frequent of all, b or the end, which is the later one; b: the end; c: d; d: end.
    assert unknown.next_activity_released == pytest.approx(2 / 4)


def test_remaining_times_by_hand():
    """Medians by last activity and place, in hours; a missing time is neither learned nor tried."""
    held = ["ab"], [at(0, 8)]
    others = ["ab"] * 3, [at(0, 4), at(0, 6), at(0, 6)]
    source = log_of(held[0] + others[0], held[1] + others[1])
    found = learned_from(source, log_of(["ab", "a"], [at(0, 9), at(5)]))
    assert found.remaining_hours_source == pytest.approx((2 + 0) / 2)
    # Of 9 and 0 hours after a as the first activity, the upper middle.
    assert found.remaining_hours_released == pytest.approx((1 + 0) / 2)
    missing = log_of(["ab", "ab"], [at(0, None), at(0, 4)])
    assert learned_from(missing, missing).remaining_hours_source == pytest.approx(4.0)


def test_every_log_has_an_answer():
    """None where there is nothing to learn from, or to try it on."""
    log, empty = log_of(["ab"] * 6), EventLog.empty()
    assert learned_from(empty, log) == LearnedFrom()
    assert learned_from(log, empty).next_activity_released is None
    assert learned_from(log, empty).next_activity_source == 1.0
    assert learned_from(log_of(["ab"]), log).next_activity_source is None
    assert learned_from(log_of(["", "ab"]), log) == LearnedFrom()
    bare = EventLog(log.events.drop(TIMESTAMP), log.cases, log.offsets)
    assert learned_from(bare, log).remaining_hours_released is None
    without_times = log_of(["ab"] * 6, [at(None, None)] * 6)
    assert learned_from(without_times, log).remaining_hours_released is None

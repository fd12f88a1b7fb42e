"""What times lost: figures and curves by hand, and in the internal report of a release."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import polars as pl
import pytest

from cloakwork import apply, load_policy, make_plan, publish, read_log
from cloakwork.evaluation.times import TimeUtility, compare_times, duration_curve, profile_curve
from cloakwork.log.eventlog import TIMESTAMP
from conftest import EXAMPLES, ROOT, hurried
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
    first = found.pairs[0]
    assert (first.first, first.second, first.times) == ("a", "b", 2)
    assert (first.source_mean, first.released_mean) == (2.5, 3)


def test_edges():
    """No times, no events, other events."""
    log = log_of(["ab"], [at(0, 1)])
    bare = replace(log, events=log.events.drop(TIMESTAMP))
    assert compare_times(log, bare) == TimeUtility(notes=("there are no times to compare",))
    assert compare_times(log_of([]), log_of([])).events == 0
    assert "cannot be compared" in compare_times(log, log_of(["a"], [at(0)])).notes[0]
    assert compare_times(log_of(["a"], [at(0)]), log_of(["a"], [at(2)])).gap_source_median is None


def test_the_internal_report_says_what_times_lost(tmp_path):
    """The shipped policy on the shipped log: figures in the report, none of them outside
    ``internal``.
    """
    policy = load_policy(hurried(ROOT / "policies" / "kanon-dp-timestamps.yaml", tmp_path))
    log = read_log(EXAMPLES / "hospital.xes.gz")
    release = apply(make_plan(policy), log, ledger=f"sqlite:///{tmp_path}/ledger.db")
    times = release.internal.utility["times"]
    assert 0.3 < times["error_mean"] < 3
    assert times["zeros_released"] < times["zeros_source"]
    assert len(times["pairs"]) == 10
    publish(release, tmp_path / "out")
    inside = (tmp_path / "out" / "internal" / "report.html").read_text("utf-8")
    assert "Hours from one activity to the next" in inside
    assert "Error of a time, mean" in inside
    for file in (tmp_path / "out").glob("*.*"):
        assert b"error_mean" not in file.read_bytes()


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

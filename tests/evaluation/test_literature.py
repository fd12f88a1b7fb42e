"""Figures that papers print, by hand on small logs; and twins that must give another figure."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from cloakwork.errors import MechanismError
from cloakwork.evaluation.control_flow import (
    activity_distance_error,
    activity_distances,
    cycle_time_error,
    df_representativeness,
    histogram,
    hours_of_steps,
    modified_traces,
    ordinary_cases,
    published_figures,
)
from cloakwork.evaluation.utility import measured
from cloakwork.log.eventlog import TIMESTAMP, EventLog
from contracts.sample_logs import log_of

SOURCE = {("a", "b", "c"): 6, ("a", "c"): 3, ("a", "b", "b"): 1}
MOVED = {("a", "b", "c"): 7, ("a", "c"): 3}


def timed(cases: list[list[tuple[str, float]]]) -> EventLog:
    """A log of cases, each of activities and the hours at which they happen."""
    log = log_of([[label for label, _ in case] for case in cases])
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    hours = [hour for case in cases for _, hour in case]
    times = pl.Series([begin + timedelta(hours=hour) for hour in hours]).dt.cast_time_unit("us")
    return replace(log, events=log.events.with_columns(times.alias(TIMESTAMP)))


def test_modified_traces_are_those_that_moved() -> None:
    """One case of the rare variant moved; of two identical logs none did."""
    assert modified_traces(SOURCE, MOVED) == 1
    assert modified_traces(SOURCE, SOURCE) == 0
    assert modified_traces(SOURCE, {}) == 10


def test_representativeness_by_hand() -> None:
    """Counts ab 7, bc 6, ac 3, bb 1; released 7, 7, 3, 0: ratios 1, 7/6, 1, 0. One standard
    deviation is .46, so all but bb are near the expected ratio of 1.
    """
    assert df_representativeness(SOURCE, MOVED) == 3 / 4
    assert df_representativeness(SOURCE, SOURCE) == 1.0
    assert df_representativeness({("a",): 3}, {("a",): 3}) is None
    # Half as many cases at the same shares are as representative.
    halved = {variant: cases / 2 for variant, cases in SOURCE.items()}
    assert df_representativeness(SOURCE, halved) == 1.0  # type: ignore[arg-type]


def test_activities_in_like_contexts_are_near() -> None:
    """b and x stand between a and c alike; d, which ends cases, is far from both."""
    log = {("a", "b", "c"): 5, ("a", "x", "c"): 5, ("c", "a", "d"): 5}
    distances = activity_distances(log, ["a", "b", "c", "d", "x"])
    assert np.allclose(distances, distances.T)
    assert np.allclose(np.diag(distances), 0.0)
    assert distances[1, 4] == pytest.approx(0.0)
    assert distances[1, 3] > 0.5
    assert np.allclose(activity_distances(log, ["a", "nowhere"])[1, 0], 1.0)
    assert activity_distance_error(log, log) == 0.0
    assert activity_distance_error(log, {("a", "b", "c"): 5, ("c", "x", "a"): 5}) > 0.1
    assert activity_distance_error({("a",): 2}, {}) is None


def test_cycle_times_and_hours_by_hand() -> None:
    """b comes after 2 and 4 hours, c after 1; released b after 6 (error 1, as the cap), c gone."""
    source = timed([[("a", 0), ("b", 2), ("c", 3)], [("a", 0), ("b", 4)]])
    release = timed([[("a", 0), ("b", 6)]])
    before, after = hours_of_steps(source), hours_of_steps(release)
    assert cycle_time_error(before, before) == 0.0
    assert cycle_time_error(before, after) == 1.0
    near = hours_of_steps(timed([[("a", 0), ("b", 3.3), ("c", 4.3)]]))
    assert cycle_time_error(before, near) == pytest.approx(0.05)
    found = published_figures((source, release), (histogram(source), histogram(release)))
    # ab: 6 hours in both logs; bc: 1 hour against none.
    assert found.dfg_hours_distance == pytest.approx(0.5)
    assert found.dfg_hours_distance_sorted == pytest.approx(0.5)
    swapped = timed([[("a", 0), ("c", 6), ("b", 7)]])
    other = published_figures((source, swapped), (histogram(source), histogram(swapped)))
    # Which step has the hours matters to the one, and not to the other.
    assert other.dfg_hours_distance == pytest.approx((6 + 1 + 6 + 1) / 4)
    assert other.dfg_hours_distance_sorted == pytest.approx(0.0)


def test_a_forest_knows_what_it_was_not_shown() -> None:
    """Cases of the source look ordinary, cases backwards do not."""
    pytest.importorskip("sklearn")
    source = {("a", "b", "c", "d"): 500, ("a", "c", "d"): 30, ("d", "a"): 3}
    ordinary = ordinary_cases(source, {("a", "b", "c", "d"): 10})
    strange = ordinary_cases(source, {("d", "a"): 10})
    assert ordinary == 1.0
    assert strange == 0.0
    assert ordinary_cases(source, {}) is None


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without scikit-learn a note stands where the figure would; nothing else fails."""
    monkeypatch.setitem(__import__("sys").modules, "sklearn.ensemble", None)
    with pytest.raises(MechanismError, match="scikit-learn is not installed"):
        ordinary_cases(SOURCE, MOVED)
    log = log_of([["a", "b"]] * 3)
    found = measured(log, log, seconds=0.1)
    assert found.ordinary_cases is None
    assert found.published is not None
    assert found.published.modified_traces == 0
    assert any("pip install 'cloakwork[mining]'" in note for note in found.notes)
    # Who asks for no model is told nothing of what it would take.
    assert measured(log, log).notes == ()

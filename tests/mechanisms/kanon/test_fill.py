"""Inserted events: marked from the step that inserts them to the last check, complete before, and
in no file.
"""

from collections import defaultdict
from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.base.facts import Facts, Unit
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.errors import MechanismError
from cloakwork.guarantees import ConfidenceBound, KAnonymity, LDiversity, TCloseness
from cloakwork.guarantees.inserted import without_visible_insertions
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.mechanisms.kanon.closeness import Closeness
from cloakwork.mechanisms.kanon.fill import Fill, FillParams
from cloakwork.mechanisms.steps import Decision, MapCases, RewriteStep
from cloakwork.noise import reproducible, secret
from cloakwork.testing import run_mechanism
from contracts.sample_logs import BEGIN, courses_of, log_of
from contracts.value_logs import with_values
from guarantees.measuring import measure

NONE = Decision(pl.DataFrame())
K = KAnonymity(kind="k-anonymity", k=3)


def filled(log: EventLog, **params: Any) -> EventLog:
    """One run of the step."""
    action = Fill().rewrite(FillParams(**params), NONE, secret().stream())
    assert isinstance(action, MapCases)
    return action.apply(log)


@st.composite
def marked_logs(draw: st.DrawFn) -> EventLog:
    """A log with two attributes, of which some values are missing, and inserted events, which have
    none.
    """
    sequences = draw(st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=12))
    log = log_of([[*sequence] for sequence in sequences])
    size = log.events.height
    inserted = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    for name in ("x", "^y.*$"):
        values = draw(st.lists(st.none() | st.integers(0, 3), min_size=size, max_size=size))
        log = with_values(
            log, name, pl.Series(values, dtype=pl.Int64).to_list() if any(values) else [1] * size
        )
    null = {
        name: pl.Series(name, [None] * size, dtype=kind) for name, kind in log.events.schema.items()
    }
    empty = pl.DataFrame({**null, ACTIVITY: log.events[ACTIVITY]})
    rows = pl.concat([log.events, empty])[np.where(inserted, size, 0) + np.arange(size)]
    return replace(log, events=rows, inserted=inserted)


@given(log=marked_logs(), times=st.booleans(), donors=st.sampled_from(["activity", "variant"]))
def test_every_inserted_event_is_a_copy(log: EventLog, times: bool, donors: Any) -> None:
    """Of one kept event of its activity, missing values included; kept events stay as they are."""
    result = filled(log, times=times, donors=donors)
    assert result.inserted is log.inserted
    assert courses_of(result) == courses_of(log)
    kept, lost = pl.Series(log.kept), pl.Series(~log.kept)
    assert result.events.filter(kept).equals(log.events.filter(kept))
    attributes = [name for name in log.events.columns if name != TIMESTAMP]
    known = set(
        log.events.filter(kept)
        .select(pl.nth(*(log.events.columns.index(name) for name in attributes)))
        .rows()
    )
    without = {
        activity for activity in log.events[ACTIVITY] if activity not in {row[0] for row in known}
    }
    for row in result.events.filter(lost).drop(TIMESTAMP).rows():
        assert row in known or (row[0] in without and set(row[1:]) == {None})
    stamps = result.events[TIMESTAMP]
    if not times:
        assert stamps.equals(log.events[TIMESTAMP])
        return
    lacking = {row[0] for row in result.events.filter(stamps.is_null()).rows()}
    assert lacking <= without
    steps = pl.DataFrame({"case": result.case_of, "time": stamps}).drop_nulls()
    assert (
        steps.select(pl.col("time").diff().over("case")).to_series().drop_nulls() >= timedelta(0)
    ).all()


@given(log=marked_logs())
def test_stripping_finds_what_shows(log: EventLog) -> None:
    """Against the definition, event by event."""
    columns = [name for name in log.events.columns if name != ACTIVITY]
    patterns: dict[str, set[tuple[bool, ...]]] = defaultdict(set)
    rows = [
        (row[ACTIVITY], tuple(row[name] is None for name in columns))
        for row in log.events.iter_rows(named=True)
    ]
    for (activity, pattern), kept in zip(rows, log.kept, strict=True):
        if kept:
            patterns[activity].add(pattern)
    stays = [
        bool(kept) or pattern in patterns[activity]
        for (activity, pattern), kept in zip(rows, log.kept, strict=True)
    ]
    assert without_visible_insertions(log).events[ACTIVITY].to_list() == [
        row[0] for row, stay in zip(rows, stays, strict=True) if stay
    ]
    full = filled(log, times=True)
    left = {activity for (activity, _), kept in zip(rows, log.kept, strict=True) if kept}
    shown = [activity for activity in full.events[ACTIVITY] if activity in left]
    assert without_visible_insertions(full).events[ACTIVITY].to_list() == shown


@given(log=marked_logs(), data=st.data())
def test_values_hold_with_inserted_events_and_without(log: EventLog, data: st.DataObject) -> None:
    """What inserted events hold dilutes nothing: the mechanism meets both, or refuses; missing
    values included.
    """
    classes: Any = data.draw(st.sampled_from(["variants", "prefixes"]))
    goal: TCloseness | LDiversity = data.draw(
        st.sampled_from(
            [
                TCloseness(kind="t-closeness", t=0.3, attribute="x", classes=classes),
                TCloseness(
                    kind="t-closeness", t=0.3, attribute="x", classes=classes, scale="range"
                ),
                TCloseness(kind="t-closeness", t=0.4, attribute="timestamps", classes=classes),
                LDiversity(kind="l-diversity", l=2, attribute="x", classes=classes),
                LDiversity(
                    kind="l-diversity", l=1.5, attribute="x", variety="entropy", classes=classes
                ),
            ]
        )
    )
    offer: Any = Closeness().offer(goal, Facts(), {})
    complete = filled(log)
    summary = Closeness().step(offer.params, Facts()).summary.of(complete)
    try:
        decision = Closeness().decide(offer.params, summary, secret())
    except MechanismError:
        return
    action = Closeness().rewrite(offer.params, decision, secret().stream())
    assert isinstance(action, MapCases)
    result = action.apply(complete)
    for part in (result, replace(result, inserted=None)):
        found = measure(part, goal, Unit())
        assert found is not None
        assert found.holds, found.seen


def test_fillers_that_dilute_are_found() -> None:
    """Ten events of one class, of which five are inserted, hold half of each value; the kept ones
    hold one.
    """
    log = with_values(
        log_of([["a"]] * 10 + [["a", "b"]] * 10), "x", [1] * 5 + [2] * 5 + [1, 1] * 5 + [2, 2] * 5
    )
    inserted = np.isin(np.arange(30), np.arange(5, 10))
    goals = (
        TCloseness(kind="t-closeness", t=0.1, attribute="x"),
        LDiversity(kind="l-diversity", l=2, attribute="x"),
    )
    for goal in goals:
        for marks, holds in ((None, True), (inserted, False)):
            found = measure(replace(log, inserted=marks), goal, Unit())
            assert found is not None
            assert found.holds == holds, found.seen


def test_fillers_that_dilute_confidence_are_found() -> None:
    """What inserted events hold does not count as a value that somebody has."""
    log = with_values(log_of([["a", "a"]] * 4), "x", [1, 2] * 4)
    goal = ConfidenceBound(kind="confidence-bound", L=1, K=2, C=0.5, attribute="x")
    marks = np.array([False, True] * 4)
    whole = measure(log, goal.model_copy(update={"C": 1.0}), Unit())
    alone = measure(replace(log, inserted=marks), goal, Unit())
    assert whole is not None
    assert whole.holds
    assert alone is not None
    assert not alone.holds


def test_an_activity_that_nobody_kept_is_taken_away_and_counted_again() -> None:
    """Nothing can be copied: k has to hold without these events, or the release stops."""
    log = log_of([["a", "b"]] * 2 + [["a", "b"]] * 2)
    marks = np.array([False, True] * 2 + [False, True] * 2)
    full = filled(replace(log, inserted=marks))
    assert without_visible_insertions(full).events[ACTIVITY].to_list() == ["a"] * 4
    found = measure(full, K, Unit())
    assert found is not None
    assert found.holds
    mixed = replace(
        log_of([["a", "b", "b"]] * 3),
        inserted=np.array([False, True, False] + [False, False, True] * 2),
    )
    bare = mixed.events.with_columns(pl.when(pl.Series(mixed.kept)).then(pl.col("org:resource")))
    found = measure(replace(mixed, events=bare), K, Unit())
    assert found is not None
    assert found.holds  # ("a", "b") three times
    apart = replace(log_of([["a", "b"]] * 3), inserted=np.array([False, True] + [False, False] * 2))
    bare = apart.events.with_columns(pl.when(pl.Series(apart.kept)).then(pl.col("org:resource")))
    found = measure(replace(apart, events=bare), K, Unit())
    assert found is not None
    assert not found.holds
    assert (
        found.seen
        == "the smallest group holds 1 released cases, once inserted events are recognised"
    )


def test_times_lie_between_neighbours_or_a_gap_away() -> None:
    """In the unit of the log; inside the span of its times."""
    hours = [[0, 1, 2], [0, 1, 2], [0, 1, 2], [5, None, 9], [None, 1, 2], [0, 1, None]]
    times = [
        [None if hour is None else BEGIN + timedelta(hours=hour) for hour in case] for case in hours
    ]
    log = log_of([["a", "b", "c"]] * 6, times)
    marks = log.events[TIMESTAMP].is_null().to_numpy()
    result = filled(replace(log, inserted=marks), times=True).events[TIMESTAMP].to_list()
    assert result[10] in [BEGIN + timedelta(hours=hour) for hour in range(5, 10)]
    assert result[12] == BEGIN
    assert result[17] in [BEGIN + timedelta(hours=hour) for hour in (2, 5, 6, 7, 8, 9)]


def test_copies_are_of_the_same_number_in_the_case() -> None:
    """An attribute of only the first event of an activity is not on an inserted second one."""
    log = log_of([["a", "a"]] * 9)
    log = replace(
        with_values(log, "x", [1, None] * 9), inserted=np.array([False] * 14 + [True] * 4)
    )
    bare = log.events.with_columns(pl.when(pl.Series(log.kept)).then("x"))
    assert filled(replace(log, events=bare)).events["x"].to_list() == [1, None] * 9


def at(*case_times: list[str | None]) -> EventLog:
    """A log of the activities a, b, c at these times; an event without one is inserted."""
    times = [
        [None if each is None else datetime.fromisoformat(each + "+00:00") for each in case]
        for case in case_times
    ]
    log = log_of([["a", "b", "c"][: len(case)] for case in case_times], times)
    return replace(log, inserted=log.events[TIMESTAMP].is_null().to_numpy())


def test_midnights_of_another_zone_stay_midnights() -> None:
    """Of Paris, in winter and in summer; at neither end of a case and not between is there any
    other time of day.
    """
    midnights = ["2024-01-02T23:00:00", "2024-07-02T22:00:00"]
    kept = [
        [f"{each[:8]}01T08:31:17.250", each, f"{each[:8]}09T17:01:02"] for each in midnights * 6
    ]
    lost = [[first, None, last] for first, _, last in kept] + [
        [first, None] for first, _, _ in kept
    ]
    log = at(*kept, *lost)  # type: ignore[arg-type]
    full = filled(log, times=True)
    times = full.events.filter(pl.Series(full.inserted))[TIMESTAMP]
    assert set(times.dt.time()) <= {time(22), time(23)}
    assert without_visible_insertions(full, by_time=True).events.height == full.events.height


def test_a_time_without_room_is_stripped() -> None:
    """Between seconds there is no midnight, and no whole minute; where times are not raw, nobody
    looks.
    """
    day, minute = "2024-01-0{}T00:00:00", "2024-01-0{}T10:07:00"
    for shape in (day, minute):
        kept = [
            [f"2024-01-0{row}T00:00:00", shape.format(row), f"2024-01-0{row}T23:59:59.5"]
            for row in range(1, 9)
        ]
        gap: list[str | None] = ["2024-01-09T10:00:00.100", None, "2024-01-09T10:00:00.900"]
        log = at(*kept, gap)
        full = filled(log, times=True)
        assert without_visible_insertions(full).events.height == full.events.height
        assert (
            without_visible_insertions(full, by_time=True).events.height == full.events.height - 1
        )


@given(data=st.data())
def test_times_keep_order_and_precision(data: st.DataObject) -> None:
    """Ascending in each case, wherever events are inserted; never shown by precision where a whole
    unit lies between. Between two events of a case no midnight may lie, so an activity all of whose
    kept times are quarters of an hour is left aside.
    """
    units = data.draw(st.lists(st.sampled_from([60_000, 1_000, 1]), min_size=3, max_size=3))
    size = data.draw(st.integers(1, 12))
    sequences, times = [], []
    for row in range(size):
        steps = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=6))
        sequences.append(["abc"[step] for step in steps])
        spread = [BEGIN + timedelta(days=row, minutes=97 * place) for place in range(len(steps))]
        off = [data.draw(st.integers(0, 59)) for _ in steps]
        times.append(
            [
                each + timedelta(milliseconds=units[step] * o)
                for each, step, o in zip(spread, steps, off, strict=True)
            ]
        )
    log = log_of(sequences, times)
    marks = np.array(
        data.draw(st.lists(st.booleans(), min_size=log.events.height, max_size=log.events.height))
    )
    log = replace(log, inserted=marks)
    bare = log.events.with_columns(pl.when(pl.Series(~marks)).then(TIMESTAMP))
    full = filled(replace(log, events=bare), times=True)
    steps = pl.DataFrame({"case": full.case_of, "time": full.events[TIMESTAMP]}).drop_nulls()
    assert (
        steps.select(pl.col("time").diff().over("case")).to_series().drop_nulls() >= timedelta(0)
    ).all()
    known = full.events.with_columns(kept=pl.Series(~marks), ms=pl.col(TIMESTAMP).dt.epoch("ms"))
    finest = known.with_columns(
        unit=pl.when(pl.col("ms") % 60_000 == 0)
        .then(2)
        .when(pl.col("ms") % 1_000 == 0)
        .then(1)
        .otherwise(0)
    )
    for part in finest.drop_nulls("ms").partition_by(ACTIVITY):
        kept = part.filter("kept")
        if (kept["ms"] % 900_000 == 0).all():
            continue
        assert kept["unit"].min() <= part["unit"].min()  # type: ignore[operator]


def test_nothing_inserted_changes_nothing() -> None:
    """Nor does an empty log."""
    log = log_of([["a"]] * 3)
    for each in (log, replace(log, inserted=np.zeros(3, np.bool_)), EventLog.empty()):
        assert filled(each, times=True) is each


class Forgetful(Fill):
    """A step that makes its log anew."""

    name = "test/forgetful"

    def step(self, params: FillParams, facts: Facts) -> RewriteStep:
        """Like any step that treats attributes."""
        return replace(super().step(params, facts), lineage=Lineage())

    def rewrite(self, params: FillParams, decision: Decision, noise: Any) -> MapCases:
        """Without the marks."""
        return MapCases(lambda log: EventLog(log.events, log.cases, log.offsets))


def test_a_step_that_forgets_the_marks_is_refused() -> None:
    """In silence, inserted events would count for real."""
    from cloakwork import load_policy, make_plan
    from cloakwork.run.run import Run
    from cloakwork.run.steps import GrantedStep

    step = GrantedStep.of(Forgetful(), FillParams(), Facts())
    log = replace(log_of([["a"]] * 3), inserted=np.zeros(3, np.bool_))
    run = Run(plan=make_plan(load_policy("kanon-control-flow")), noise=reproducible(1))
    with pytest.raises(MechanismError, match="which events are inserted"):
        run.take_step(step, log)


def test_marks_are_one_for_each_event() -> None:
    """A log whose rows changed under the marks does not exist."""
    log = replace(log_of([["a", "b"]] * 3), inserted=np.zeros(6, np.bool_))
    with pytest.raises(ValueError, match="one for each event"):
        replace(log, events=log.events[:3])
    assert log.keep_cases(np.array([2])).inserted is not None
    assert log.keep_events(np.arange(6) > 3).kept.tolist() == [True] * 2


def test_a_k_anonymiser_marks_what_it_inserts() -> None:
    """Three cases of one variant take in a fourth, which lacks an event."""
    log = log_of([["a", "b"]] * 3 + [["a"]])
    result = run_mechanism("kanon/optimal", log, k=4)
    assert result.inserted is not None
    assert result.inserted.sum() == 1
    assert result.events.filter(pl.Series(result.inserted))[ACTIVITY].to_list() == ["b"]


def test_what_the_step_declares() -> None:
    """It stays inside columns."""
    lineage = Fill().step(FillParams(columns=("x",)), Facts()).lineage
    assert lineage.fills
    assert lineage.reads == {"x", CONTROL_FLOW}
    assert lineage.writes == {"x", METADATA}

"""Inserted events: marked from the step that inserts them to the last check, complete before, and
in no file. Whoever takes away those that stand out must not get back the variants that nobody else
has, and sees no event that begins its day at another hour than all others.
"""

from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.api import make_plan
from cloakwork.base.arrays import Words
from cloakwork.base.facts import Facts, Unit
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.engines.batched import LocalEngine
from cloakwork.engines.batches import collected
from cloakwork.engines.memory import MemoryEngine
from cloakwork.errors import GuaranteeBroken, MechanismError
from cloakwork.guarantees import ConfidenceBound, KAnonymity, LDiversity, TCloseness
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.log.formats import read_log
from cloakwork.mechanisms.kanon import fill
from cloakwork.mechanisms.kanon.closeness import Closeness
from cloakwork.mechanisms.kanon.fill import Fill, FillParams
from cloakwork.mechanisms.steps import Decision, MapCases, RewriteStep
from cloakwork.noise import Addresses, Noise, Stream, reproducible, secret
from cloakwork.plan.policies import load_policy
from cloakwork.plan.sentences import caveat_in_words
from cloakwork.run.run import Run
from cloakwork.run.steps import GrantedStep
from cloakwork.testing import run_mechanism
from cloakwork.testing.contract_logs import Batches
from conftest import EXAMPLES, ROOT, hurried, runs
from contracts.sample_logs import BEGIN, courses_of, log_of
from contracts.value_logs import with_values
from guarantees.measuring import measure, without_visible_insertions
from mechanisms.kanon.test_closeness import varied, within

NONE = Decision(pl.DataFrame())
K = KAnonymity(kind="k-anonymity", k=3)


def measured(log: EventLog, goal: Any) -> Any:
    """What the independent checker finds."""
    found = measure(log, goal, Unit())
    assert found is not None
    return found


def filled(log: EventLog, noise: Noise | None = None, **params: Any) -> EventLog:
    """One run of the step."""
    step = Fill().step(FillParams(**params), Facts())
    engine = MemoryEngine()
    summary = engine.summarise(log, step.summary)
    return engine.rewrite(log, step.rewrite(Decision(summary), (noise or secret()).stream()))


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
    goals: list[TCloseness | LDiversity] = [
        within(0.3, "x", classes=classes),
        within(0.3, "x", classes=classes, scale="range"),
        within(0.4, "timestamps", classes=classes),
        varied(2, "x", classes=classes),
        varied(1.5, "x", variety="entropy", classes=classes),
    ]
    goal = data.draw(st.sampled_from(goals))
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
        assert measured(part, goal).holds


def test_fillers_that_dilute_are_found() -> None:
    """Ten events of one class, of which five are inserted, hold half of each value; the kept ones
    hold one.
    """
    log = with_values(
        log_of([["a"]] * 10 + [["a", "b"]] * 10), "x", [1] * 5 + [2] * 5 + [1, 1] * 5 + [2, 2] * 5
    )
    inserted = np.isin(np.arange(30), np.arange(5, 10))
    for goal in (within(0.1, "x"), varied(2, "x")):
        for marks, holds in ((None, True), (inserted, False)):
            assert measured(replace(log, inserted=marks), goal).holds == holds


def test_fillers_that_dilute_confidence_are_found() -> None:
    """What inserted events hold does not count as a value that somebody has."""
    log = with_values(log_of([["a", "a"]] * 4), "x", [1, 2] * 4)
    goal = ConfidenceBound(kind="confidence-bound", L=1, K=2, C=0.5, attribute="x")
    marks = np.array([False, True] * 4)
    assert measured(log, goal.model_copy(update={"C": 1.0})).holds
    assert not measured(replace(log, inserted=marks), goal).holds


def test_an_activity_that_nobody_kept_is_taken_away_and_counted_again() -> None:
    """Nothing can be copied: k has to hold without these events, or the release stops."""
    log = log_of([["a", "b"]] * 2 + [["a", "b"]] * 2)
    marks = np.array([False, True] * 2 + [False, True] * 2)
    full = filled(replace(log, inserted=marks))
    assert without_visible_insertions(full).events[ACTIVITY].to_list() == ["a"] * 4
    assert measured(full, K).holds
    mixed = replace(
        log_of([["a", "b", "b"]] * 3),
        inserted=np.array([False, True, False] + [False, False, True] * 2),
    )
    bare = mixed.events.with_columns(pl.when(pl.Series(mixed.kept)).then(pl.col("org:resource")))
    assert measured(replace(mixed, events=bare), K).holds  # ("a", "b") three times
    apart = replace(log_of([["a", "b"]] * 3), inserted=np.array([False, True] + [False, False] * 2))
    bare = apart.events.with_columns(pl.when(pl.Series(apart.kept)).then(pl.col("org:resource")))
    found = measured(replace(apart, events=bare), K)
    assert not found.holds
    recognised = "the smallest group holds 1 released cases, once inserted events are recognised"
    assert found.seen == recognised


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


def most_lent(seed: int) -> int:
    """How often the value that most inserted events copied was copied: of twelve, each of which one
    kept event has, for nine inserted ones.
    """
    log = log_of([["a"]] * 21)
    log = replace(with_values(log, "x", list(range(21))), inserted=np.arange(21) >= 12)
    copied = filled(log, reproducible(seed)).events["x"][12:]
    return max(Counter(copied.to_list()).values())


def test_nobody_lends_twice_while_others_have_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is copied again and again shows the copies; a mechanism whose inserted events draw each
    for itself is found.
    """
    assert {most_lent(seed) for seed in range(20)} == {1}
    copies = fill._copies

    def by_chance(found: pl.DataFrame) -> pl.DataFrame:
        lenders = found.filter("lends")
        drawn = lenders.sample(lenders.height, with_replacement=True, seed=found.height)
        return copies(pl.concat([found.filter(~pl.col("lends")), drawn]))

    monkeypatch.setattr(fill, "_copies", by_chance)
    assert max(most_lent(seed) for seed in range(20)) > 1


def many_inserted() -> EventLog:
    """200 cases of two variants, of which three in ten events are inserted; days, and times."""
    draws = np.random.default_rng(5)
    courses = [["a", "b", "b", "c"] if each else ["a", "c"] for each in draws.integers(0, 2, 200)]
    times = [
        [BEGIN + timedelta(days=row + step, minutes=7 * (step % 2)) for step in range(len(course))]
        for row, course in enumerate(courses)
    ]
    log = log_of(courses, times)
    marks = draws.random(log.events.height) < 0.3
    attributes = [name for name in log.events.columns if name != ACTIVITY]
    bare = pl.when(pl.Series(~marks)).then(pl.col(attributes)).name.keep()
    return replace(log, events=log.events.with_columns(bare), inserted=marks)


def in_batches(batches: int, **params: Any) -> pl.DataFrame:
    """The events of ``many_inserted``, filled in so many batches by the same key."""
    step, engine = Fill().step(FillParams(**params), Facts()), LocalEngine()
    parted = engine.store(Batches.random(many_inserted(), batches).load, batches)
    stream = reproducible(4).stream()
    action = step.rewrite(Decision(engine.summarise(parted, step.summary)), stream)
    return collected(engine.rewrite(parted, action)).events


@pytest.mark.parametrize("donors", ["activity", "variant"])
def test_batches_draw_what_the_whole_log_draws(
    donors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last value. Who draws by the row in a batch is found."""
    whole = in_batches(1, times=True, donors=donors)
    assert whole.null_count().sum_horizontal().item() == 0
    for batches in (3, 20):
        assert in_batches(batches, times=True, donors=donors).equals(whole)
    words = Stream.words

    def by_row(stream: Stream, at: Addresses, draw: int = 0) -> tuple[Words, Words]:
        return words(stream, Addresses.of_cases(np.arange(len(at))), draw)

    monkeypatch.setattr(Stream, "words", by_row)
    wrong = [in_batches(batches, times=True, donors=donors) for batches in (1, 3)]
    assert not wrong[0].equals(wrong[1])


def test_nothing_inserted_changes_nothing() -> None:
    """Nor does an empty log."""
    log = log_of([["a"]] * 3)
    for each in (log, replace(log, inserted=np.zeros(3, np.bool_)), EventLog.empty()):
        assert filled(each, times=True).events.equals(each.events)


class Forgetful(Fill):
    """A step that makes its log anew."""

    name = "test/forgetful"

    def step(self, params: FillParams, facts: Facts) -> RewriteStep:
        """Like any step that treats attributes."""
        return replace(super().step(params, facts), lineage=Lineage(), summary=None)

    def rewrite(self, params: FillParams, decision: Decision, noise: Any) -> MapCases:
        """Without the marks."""
        return MapCases(lambda log: EventLog(log.events, log.cases, log.offsets))


def test_a_step_that_forgets_the_marks_is_refused() -> None:
    """In silence, inserted events would count for real."""
    step = GrantedStep.of(Forgetful(), FillParams(), Facts())
    log = replace(log_of([["a"]] * 3), inserted=np.zeros(3, np.bool_))
    run = Run(
        plan=make_plan(load_policy(ROOT / "policies" / "kanon-control-flow.yaml")),
        noise=reproducible(1),
    )
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


def released(policy: Path, log: EventLog, seed: int = 3) -> EventLog:
    """The release that a policy makes of a log."""
    return Run(plan=make_plan(load_policy(policy)), noise=reproducible(seed)).release(log, None).log


def stripped_variants(log: EventLog, lacking: list[str]) -> Counter[tuple[str, ...]]:
    """How many cases have which activities, without the events that have no value of any of
    ``lacking``.
    """
    rows = pl.DataFrame({"case": log.case_of, "activity": log.events[ACTIVITY]}).with_columns(
        there=~log.events.select(pl.all_horizontal(pl.col(lacking).is_null())).to_series()
    )
    lists: list[list[str]] = [[] for _ in range(log.cases.height)]
    for case, activity, there in rows.rows():
        if there:
            lists[case].append(activity)
    return Counter(map(tuple, lists))


def test_the_shipped_policy_on_the_shipped_log(tmp_path: Path) -> None:
    """On version 0.1.0, 144 of 1,040 cases fell below k = 20, one of them alone."""
    policy = hurried(ROOT / "policies" / "kanon-with-generalised-attributes.yaml", tmp_path, 0.2)
    release = released(policy, read_log(EXAMPLES / "hospital.xes.gz"))
    found = stripped_variants(release, ["department", "org:resource"])
    below = {variant: count for variant, count in found.items() if count < 20}
    assert sum(below.values()) == 0, (
        f"{sum(below.values())} cases below k, smallest {min(below.values())}"
    )


def raw_times(folder: Path) -> Path:
    """A policy of k = 5 that releases times as they are."""
    names = ("name", "owner", "purpose", "dataset")
    document = {
        "apiVersion": "cloakwork/v1",
        "kind": "PrivacyPolicy",
        "metadata": {**dict.fromkeys(names, "test"), "version": "1.0.0"},
        "spec": {
            "unit": "case",
            "attributes": {
                "case:concept:name": {"role": "identifier"},
                "concept:name": {"role": "control-flow"},
                "time:timestamp": {"role": "timestamp", "treatment": "keep"},
                "*": {"treatment": "drop"},
            },
            "guarantees": [{"kind": "k-anonymity", "k": 5, "over": ["control-flow"]}],
            "expose": {"timestamps": "the partner needs the times of all events"},
        },
    }
    policy = folder / "policy.yaml"
    policy.write_text(yaml.safe_dump(document), "utf-8")
    return policy


def test_raw_times(tmp_path: Path) -> None:
    """Where times are released as they are, inserted events have one, too: between their
    neighbours, in full hours like all others. 20 cases are of one variant; 4 lack an event at the
    beginning, in the middle or at the end, or two of them.
    """
    courses = ["abcd"] * 20 + ["bcd", "acd", "abc", "ad"]
    times = [
        [BEGIN + timedelta(days=row, hours=3 * step) for step in range(len(each))]
        for row, each in enumerate(courses)
    ]
    log = log_of(courses, times)
    release = released(raw_times(tmp_path), log)
    assert min(stripped_variants(release, [TIMESTAMP]).values()) >= 5
    times = release.events[TIMESTAMP]
    assert (times.dt.truncate("1h") == times).all()
    steps = pl.DataFrame({"case": release.case_of, "time": times}).select(
        pl.col("time").diff().over("case")
    )
    assert (steps.to_series().drop_nulls() >= timedelta(0)).all()


@pytest.mark.parametrize("seed", range(runs(2)))
@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris"])
def test_raw_times_are_as_precise_as_those_of_their_activity(
    tmp_path: Path, zone: str, seed: int
) -> None:
    """A laboratory reports days, everybody else seconds: an inserted report at 14:27:31 is known
    for what it is, and so is one at midnight of the wrong season.
    """
    courses = (
        [["register", "report", "end"]] * 40
        + [["register", "end"]] * 2
        + [["register", "report"]] * 2
    )
    at = {"register": timedelta(hours=9, minutes=1, seconds=7), "report": timedelta(days=1)}
    at["end"] = timedelta(days=2, hours=15, minutes=33, seconds=41)
    first = datetime(2024, 3, 1, tzinfo=ZoneInfo(zone))
    times = [
        [
            (first + timedelta(days=3 * row) + at[each] + noise(row, each)).astimezone(UTC)
            for each in course
        ]
        for row, course in enumerate(courses)
    ]
    release = released(raw_times(tmp_path), log_of(courses, times), seed)
    local = release.events[TIMESTAMP].dt.convert_time_zone(zone)
    known = release.events.select(ACTIVITY, midnight=local.dt.time() == time(0))
    shows = known.select((pl.col(ACTIVITY) == "report") & ~pl.col("midnight")).to_series()
    found = stripped_variants(release.keep_events(~shows.to_numpy()), [ACTIVITY])
    assert min(found.values()) >= 5, (
        f"{shows.sum()} reports show; smallest group {min(found.values())}"
    )


def noise(row: int, activity: str) -> timedelta:
    """Some minutes and seconds, but for reports."""
    return timedelta(seconds=0 if activity == "report" else 61 * row)


def test_no_room_for_such_a_time_is_no_release(tmp_path: Path) -> None:
    """Neighbours that lie in the same second have no midnight between them: one plain line instead
    of a release.
    """
    courses = [["register", "report", "end"]] * 20 + [["register", "end"]] * 2
    times = [
        [BEGIN + timedelta(days=3 * row + step, seconds=step % 2 - 1) for step in range(3)]
        for row in range(20)
    ]
    times = [
        [first - timedelta(seconds=row), BEGIN + timedelta(days=3 * row + 1), last]
        for row, (first, _, last) in enumerate(times)
    ]
    times += [
        [
            BEGIN + timedelta(days=90, hours=9, seconds=1),
            BEGIN + timedelta(days=90, hours=9, seconds=1.5),
        ]
    ] * 2
    with pytest.raises(GuaranteeBroken, match="once inserted events are recognised"):
        released(raw_times(tmp_path), log_of(courses, times))


def test_the_warning_says_what_happens_to_raw_times(tmp_path: Path) -> None:
    """They are not copied."""
    plan = make_plan(load_policy(raw_times(tmp_path)))
    told = [caveat_in_words(each) for each in plan.warnings]
    about = [line for line in told if "inserts" in line]
    assert len(about) == 1
    assert "copy" not in about[0]
    assert "drawn between" in about[0]


ZONE = "Europe/Berlin"
Course = tuple[list[str], int, int]
"""Activities, the month in 2024 in which they happen, and how many such cases there are."""


def released_days(courses: list[Course], tmp_path: Path) -> EventLog:
    """The release of cases whose events happen some days apart, each at local midnight."""
    variants, times = [], []
    for activities, month, cases in courses:
        first = datetime(2024, month, 1, tzinfo=ZoneInfo(ZONE))
        for case in range(cases):
            days = [first + timedelta(days=case % 15 + 5 * step) for step in range(len(activities))]
            variants.append(activities)
            times.append([day.astimezone(UTC) for day in days])
    return released(raw_times(tmp_path), log_of(variants, times))


WINTER_WITHOUT_B: Course = (["a", "c"], 1, 2)
COURSES: dict[str, list[Course]] = {
    "b in summer only": [(["a", "b", "c"], 6, 40), (["d", "d"], 1, 20), WINTER_WITHOUT_B],
    "b later in winter": [(["a", "b", "c"], 6, 40), (["a", "b", "c"], 12, 12), WINTER_WITHOUT_B],
    "b in September and December": [
        (["a", "b", "c"], 9, 20),
        (["a", "b", "c"], 12, 20),
        (["a", "c"], 10, 2),
    ],
}


@pytest.mark.parametrize("name", COURSES)
def test_all_days_begin_at_local_midnight(tmp_path: Path, name: str) -> None:
    """Whoever knows the zone sees no event that begins its day at another hour."""
    release = released_days(COURSES[name], tmp_path)
    local = release.events[TIMESTAMP].dt.convert_time_zone(ZONE).dt.time()
    shows = release.events.filter(local != pl.lit(time(0)))
    assert shows.height == 0, shows.select(ACTIVITY, TIMESTAMP).rows()


def test_two_times_an_hour_apart_are_no_season() -> None:
    """15:11 in October and 14:11 in January are no days of a zone: their activity has no time of
    day, to the mechanism as to the check. On ccc19 the check refused every release with raw times.
    """
    kept = [datetime(2018, 10, 17, 15, 11, tzinfo=UTC), datetime(2019, 1, 16, 14, 11, tzinfo=UTC)]
    inserted = [datetime(2018, 10, 11, 12, 14, tzinfo=UTC)]
    log = log_of([["x"]] * 3, [[each] for each in kept + inserted])
    marked = replace(log, inserted=np.array([False, False, True]))
    assert without_visible_insertions(marked, by_time=True).events.height == 3

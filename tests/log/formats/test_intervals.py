"""Logs that say when work began: read with service times, written with starts, the same everywhere
in between.
"""

from collections import defaultdict, deque
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import cloakwork.pm4py
from cloakwork.api import load_policy, release, verify
from cloakwork.base.errors import LogError, PolicyError
from cloakwork.engines.batched import LocalEngine
from cloakwork.engines.batches import collected
from cloakwork.evaluation.utility import measured
from cloakwork.evaluation.whole_log import compare_whole_logs
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.formats import InputOptions, ReadRequest, read_log, write_log
from cloakwork.log.formats.intervals import (
    as_asked,
    with_service_times,
    with_starts,
)
from cloakwork.log.formats.reading import log_of_table, open_rows
from cloakwork.log.formats.round_trip import TypesReadBack
from cloakwork.log.formats.source import Format
from cloakwork.log.limits import Limits
from cloakwork.publishing.publish import Published
from cloakwork.run.prepare import SourceFigures
from conftest import runs
from log_equality import assert_same_log

BEGIN = datetime(2024, 3, 1, 8, tzinfo=UTC)
STARTS = InputOptions(starts="start_timestamp")
POLICY = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: work, version: 1.0.0, owner: dpo@clinic.example, purpose: trials, dataset: work}
spec:
  input: {starts: START}
  attributes:
    "case:concept:name": {role: identifier}
    "concept:name": {role: control-flow}
    "time:timestamp": {role: timestamp, treatment: keep}
    "service_time": SERVICE
    "*": {treatment: drop}
  guarantees: [{kind: k-anonymity, k: 2, over: [control-flow]}LOCAL]
  expose: {EXPOSED timestamps: shown on purpose}
  output: {format: FORMAT, report: [json]}
"""


def frame(cases: int = 6) -> pl.DataFrame:
    """Three events a case; the second lasts 90.5 seconds, the last has no start."""
    rows = []
    for case in range(cases):
        for place, (name, seconds) in enumerate((("a", 0.0), ("b", 90.5), ("c", None))):
            ended = BEGIN + timedelta(days=case, minutes=5 * place)
            start = None if seconds is None else ended - timedelta(seconds=seconds)
            rows.append((f"c{case}", name, ended, start))
    names = (CASE_ID, ACTIVITY, TIMESTAMP, "start_timestamp")
    return pl.DataFrame(rows, schema=names, orient="row")


def service(log: EventLog) -> list[int | None]:
    return log.events["service_time"].to_list()


def policy_file(
    folder: Path,
    *,
    start: str = "start_timestamp",
    written: str = "xes",
    rule: str = "{treatment: keep}",
    local: str = "",
) -> Path:
    """A policy that releases service times as they are, or under ``local`` noise."""
    file = folder / "policy.yaml"
    exposed = "" if local else "service_time: shown on purpose, "
    words = {"START": start, "SERVICE": rule, "LOCAL": local, "EXPOSED": exposed}
    text = POLICY.replace("FORMAT", written)
    for word, value in words.items():
        text = text.replace(word, value)
    file.write_text(text)
    return file


def in_lifecycle(table: pl.DataFrame) -> pl.DataFrame:
    """The same log with two events for one."""
    ends = table.drop("start_timestamp").with_columns(
        pl.lit("COMPLETE").alias("lifecycle:transition")
    )
    starts = (
        table.filter(pl.col("start_timestamp").is_not_null())
        .with_columns(pl.col("start_timestamp").alias(TIMESTAMP))
        .drop("start_timestamp")
        .with_columns(pl.lit("start").alias("lifecycle:transition"))
    )
    return pl.concat([starts, ends])


def written_log(folder: Path, form: str) -> Path:
    """The log of ``frame`` in a file."""
    path = folder / f"raw.{form}"
    if form == "parquet":
        frame().write_parquet(path)
    elif form == "csv":
        times = pl.col(TIMESTAMP, "start_timestamp").dt.strftime("%d.%m.%Y %H:%M:%S%.6f")
        frame().with_columns(times).write_csv(path)
    else:
        write_log(EventLog.from_polars(frame()), path, "xes")
    return path


@pytest.mark.parametrize("form", ["xes", "csv", "parquet", "table"])
def test_starts_become_service_times(tmp_path: Path, form: str) -> None:
    """In whole seconds, rounded down; of a table in the way that its times are written."""
    options = STARTS
    if form == "csv":
        options = InputOptions(starts="start_timestamp", time_format="%d.%m.%Y %H:%M:%S.%f")
    source = frame() if form == "table" else written_log(tmp_path, form)
    for asked in ({}, {"keep": lambda _: False}):
        if form == "table" and asked:
            continue
        log = read_log(source, options=options, **asked)
        assert service(log) == [0, 90, None] * 6
        assert "start_timestamp" not in log.events.columns
    # Unasked, a start stays the attribute that it was.
    assert "service_time" not in read_log(frame()).events.columns


def test_pairs_of_the_lifecycle_are_one_event() -> None:
    """And other states stay events."""
    table = in_lifecycle(frame())
    suspended = table.head(1).with_columns(pl.lit("suspend").alias("lifecycle:transition"))
    options = InputOptions(starts="lifecycle:transition")
    log = read_log(pl.concat([table, suspended]), options=options)
    assert log.event_count == 19
    of_pairs = log.events.filter(pl.col("lifecycle:transition") == "COMPLETE")
    assert of_pairs["service_time"].to_list() == [0, 90, None] * 6


@settings(max_examples=runs(60))
@given(
    events=st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from(["a", "b", None]),
            st.sampled_from(["start", "complete", "Complete", "schedule", None]),
            st.integers(0, 9),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_a_completion_takes_the_earliest_open_start(
    events: list[tuple[int, str | None, str | None, int]],
) -> None:
    """As a plain loop has it, whatever is missing, opened twice or never closed."""
    table = pl.DataFrame(
        {
            CASE_ID: [f"c{case}" for case, *_ in events],
            ACTIVITY: pl.Series([name for _, name, *_ in events], dtype=pl.String),
            TIMESTAMP: [BEGIN + timedelta(seconds=second) for *_, second in events],
            "lifecycle:transition": pl.Series([state for *_, state, _ in events], dtype=pl.String),
        }
    )
    raw = EventLog.from_polars(table)
    expected: list[int | None] = []
    times = raw.microseconds.to_list()
    states = raw.events["lifecycle:transition"].to_list()
    open_starts: dict[tuple[int, str | None], deque[int]] = defaultdict(deque)
    for row, (case, name) in enumerate(zip(raw.case_of, raw.events[ACTIVITY], strict=True)):
        state = (states[row] or "").lower()
        waiting = open_starts[int(case), name]
        if state == "start":
            waiting.append(times[row])
            continue
        is_paired = state == "complete" and waiting
        expected.append((times[row] - waiting.popleft()) // 1_000_000 if is_paired else None)
    request = ReadRequest(options=InputOptions(starts="lifecycle:transition"))
    log = with_service_times(raw, request)
    assert service(log) == expected
    assert log.case_count == raw.case_count
    # No case changes what another one is read as: neighbouring logs stay neighbours.
    for case in range(raw.case_count):
        alone = with_service_times(raw.keep_cases(np.array([case])), request)
        assert alone.events.equals(log.keep_cases(np.array([case])).events)


@given(
    seconds=st.lists(
        st.one_of(st.none(), st.floats(), st.floats(0, 1e6), st.integers(-9, 10**12).map(float)),
        min_size=1,
        max_size=20,
    )
)
def test_no_start_lies_behind_its_completion(seconds: list[float | None]) -> None:
    """Whatever noise made of service times; and read again it is what was written."""
    table = pl.DataFrame({CASE_ID: ["c"] * len(seconds), ACTIVITY: "a", TIMESTAMP: BEGIN})
    noisy = table.with_columns(pl.Series("service_time", seconds, dtype=pl.Float64))
    log = EventLog.from_polars(noisy)
    out = with_starts(log, STARTS)
    starts = out.events["start_timestamp"]
    assert "service_time" not in out.events.columns
    assert (starts <= out.events[TIMESTAMP]).fill_null(True).all()
    again = with_service_times(out, ReadRequest(options=STARTS))
    twice = with_service_times(with_starts(again, STARTS), ReadRequest(options=STARTS))
    assert service(again) == service(twice)
    for given_seconds, read in zip(seconds, service(again), strict=True):
        if given_seconds is not None and 0 <= given_seconds < 1e6:
            assert read == int(given_seconds)


@pytest.mark.parametrize("form", ["xes", "csv", "parquet"])
def test_what_is_checked_is_what_a_reader_reads(tmp_path: Path, form: Format) -> None:
    """A column of service times as the file gives it back, also where nobody has one."""
    for chosen in (slice(None), slice(2, 3)):
        log = read_log(frame()[chosen], options=STARTS)
        types = TypesReadBack(form, ReadRequest(options=STARTS))
        expected = types.read_back(log, types.merge(types.of(log)))
        path = tmp_path / f"log{chosen.start}.{form}"
        write_log(log, path, form, options=STARTS)
        read = read_log(path, options=STARTS)
        assert_same_log(
            EventLog(read.events, read.cases, read.offsets),
            EventLog(expected.events, expected.cases, expected.offsets),
        )


def test_a_log_in_batches_has_the_same_service_times(tmp_path: Path) -> None:
    path = tmp_path / "pairs.parquet"
    in_lifecycle(frame(40)).write_parquet(path)
    options = InputOptions(starts="lifecycle:transition")
    rows = open_rows(path, options=options)
    opened = LocalEngine().open(rows, lambda log: log, None, SourceFigures()).log
    whole = read_log(path, options=options)
    batched = collected(opened).to_polars().sort(CASE_ID, TIMESTAMP)
    assert batched.equals(whole.to_polars().sort(CASE_ID, TIMESTAMP))


STATES = InputOptions(activity_with="lifecycle:transition")


@pytest.mark.parametrize("form", ["xes", "csv", "parquet", "table"])
def test_a_state_becomes_part_of_the_activity(tmp_path: Path, form: str) -> None:
    """The same of files, of tables, and in batches; where there is none, the activity stays."""
    table = in_lifecycle(frame()).with_columns(
        pl.when(pl.col(ACTIVITY) != "c").then("lifecycle:transition").alias("lifecycle:transition")
    )
    source = tmp_path / f"states.{form}"
    if form == "xes":
        write_log(EventLog.from_polars(table), source, "xes")
    elif form == "table":
        table.write_parquet(source)
    else:
        getattr(table, f"write_{form}")(source)
    asked = {} if form == "table" else {"keep": lambda _: False}
    log = read_log(table if form == "table" else source, options=STATES, **asked)
    counted = log.events[ACTIVITY].value_counts().rows()
    expected = {"a+start": 6, "a+COMPLETE": 6, "b+start": 6, "b+COMPLETE": 6, "c": 6}
    assert dict(counted) == expected
    rows = open_rows(source, options=STATES) if form != "table" else None
    if rows is not None:
        opened = LocalEngine().open(rows, lambda each: each, None, SourceFigures()).log
        assert dict(collected(opened).events[ACTIVITY].value_counts().rows()) == expected
    # Pairs are made first, by the activity alone.
    both = STATES.model_copy(update={"starts": "lifecycle:transition"})
    paired = read_log(table.filter(pl.col(ACTIVITY) != "c"), options=both)
    assert dict(paired.events[ACTIVITY].value_counts().rows()) == {"a+COMPLETE": 6, "b+COMPLETE": 6}


def test_what_is_no_text_is_no_part_of_an_activity(tmp_path: Path) -> None:
    """One case's value would change how another's is spelt. In a file it is its characters."""
    table = frame().with_columns(pl.lit(1.5).alias("weight"))
    asked = InputOptions(activity_with="weight")
    with pytest.raises(LogError, match="'weight' holds Float64"):
        read_log(table, options=asked)
    table.with_columns(pl.lit("1.50").alias("weight")).write_csv(tmp_path / "log.csv")
    read = read_log(tmp_path / "log.csv", options=asked)
    assert set(read.events[ACTIVITY]) == {"a+1.50", "b+1.50", "c+1.50"}
    with pytest.raises(LogError, match="has no column 'mass'"):
        read_log(table, options=InputOptions(activity_with="mass"))


def test_a_release_has_states_in_its_activities(tmp_path: Path) -> None:
    """As the policy reads them, which the claim is about; verify reads them as they are."""
    text = policy_file(tmp_path, rule="{treatment: drop}").read_text()
    states = text.replace("starts: start_timestamp", "activity_with: lifecycle:transition")
    (tmp_path / "states.yaml").write_text(states.replace("format: xes", "format: auto"))
    in_lifecycle(frame()).write_csv(tmp_path / "log.csv")
    for engine in ("memory", "local"):
        out = tmp_path / engine
        policy = load_policy(tmp_path / "states.yaml")
        made = release(policy, tmp_path / "log.csv", out, engine=engine)
        verify(out)
        found = set(read_log(made.log).events[ACTIVITY])
        assert found == {"a+start", "a+COMPLETE", "b+start", "b+COMPLETE", "c+COMPLETE"}


STATED: Final = """<?xml version="1.0"?><log xmlns="http://www.xes-standard.org/">{}</log>"""
EVENT: Final = (
    '<trace><string key="concept:name" value="c{}"/><event><int key="code" value="007"/>'
    '<string key="concept:name" value="a"/>'
    '<date key="time:timestamp" value="2024-01-01T00:00:00Z"/>'
    '<{} key="lifecycle:transition" value="{}"/></event></trace>'
)


@pytest.mark.parametrize("more", [("string", "x"), ("float", "1.5"), ("boolean", "true"), None])
@pytest.mark.parametrize("activity", ["concept:name", "code"])
def test_no_case_changes_how_another_is_read(
    tmp_path: Path, more: tuple[str, str] | None, activity: str
) -> None:
    """Whatever kind its state is of: all are read as the characters that the file has."""
    traces = [EVENT.format(case, "int", "007") for case in range(3)]
    traces += [EVENT.format(9, *more)] if more else []
    (tmp_path / "log.xes").write_text(STATED.format("".join(traces)))
    log = read_log(tmp_path / "log.xes", options=STATES, activity=activity)
    name = "a" if activity == ACTIVITY else "007"
    texts = log.text_of(activity)
    assert texts is not None
    assert texts[:3].to_list() == [f"{name}+007"] * 3
    assert log.events[activity][:3].to_list() == [f"{name}+007"] * 3


def test_activities_of_a_table_stay_texts() -> None:
    """Numbers are refused as they are without a state; a column of its own keeps its state."""
    table = frame().with_columns(pl.lit("start").alias("state"))
    asked = InputOptions(activity_with="state")
    with pytest.raises(LogError, match="'concept:name' holds Float64"):
        read_log(table.with_columns(pl.lit(1.5).alias(ACTIVITY)), options=asked)
    own = log_of_table(table.with_columns(pl.lit("s").alias("step")), asked, "step")
    assert set(own.events["step"]) == {"s+start"}


def test_a_label_over_the_limit_of_a_value_is_missing() -> None:
    """It was charged, and the release then refused."""
    table = frame().with_columns(pl.lit("s" * 700).alias("state"))
    table = table.with_columns(pl.lit("a" * 700).alias(ACTIVITY))
    log = EventLog.from_polars(table)
    request = ReadRequest(
        options=InputOptions(activity_with="state"), limits=Limits(value_size=1024)
    )
    assert as_asked(log, request).events[ACTIVITY].null_count() == 18


def test_pairs_go_by_the_spelling_of_an_activity(tmp_path: Path) -> None:
    """One string more made numbers, which were alike, texts, which are not."""
    event = (
        '<event><int key="code" value="{}"/><date key="time:timestamp" value="{}"/>'
        '<string key="lifecycle:transition" value="{}"/></event>'
    )
    times = ("2024-01-01T00:00:00Z", "2024-01-01T00:01:00Z")
    events = event.format("007", times[0], "start") + event.format("7", times[1], "complete")
    trace = f'<trace><string key="concept:name" value="c0"/>{events}</trace>'
    more = event.replace("<int", "<string").format("z", times[0], "complete")
    other = f'<trace><string key="concept:name" value="c1"/>{more}</trace>'
    found = []
    for traces in (trace, trace + other):
        (tmp_path / "log.xes").write_text(STATED.format(traces))
        options = InputOptions(starts="lifecycle:transition")
        log = read_log(tmp_path / "log.xes", options=options, activity="code")
        found.append(service(log)[0])
    assert found == [None, None]


@pytest.mark.parametrize("name", [ACTIVITY, TIMESTAMP, "case:x", "start_timestamp", "service_time"])
def test_what_is_no_state_is_refused(name: str) -> None:
    """A release would be charged, and then fail, or have no state."""
    with pytest.raises(ValidationError, match="another attribute of events"):
        InputOptions(activity_with=name, starts="start_timestamp")


@pytest.mark.parametrize(
    "said",
    [
        "attributes: {'lifecycle:transition': {treatment: pseudonymise}",
        "attributes: {'lifecycle:*': {treatment: pseudonymise}",
        "unit: {attribute: 'lifecycle:transition', level: event}",
        "guarantees: [{kind: local-dp, epsilon: 1, over: ['lifecycle:transition']}",
    ],
)
def test_a_state_has_no_rule_of_its_own(tmp_path: Path, said: str) -> None:
    """Its values would be released in the activity whatever the rule, or the claim, says."""
    text = policy_file(tmp_path, rule="{treatment: drop}").read_text()
    states = text.replace("starts: start_timestamp", "activity_with: lifecycle:transition")
    head, _, rest = said.partition(": ")
    if head == "unit":
        states = states.replace("spec:\n", f"spec:\n  {said}\n")
    elif head == "attributes":
        states = states.replace("  attributes:\n", f"  attributes:\n    {rest[1:]}\n")
    else:
        states = states.replace("over: [control-flow]}", f"over: [control-flow]}}, {rest[1:]}")
    (tmp_path / "states.yaml").write_text(states)
    with pytest.raises(PolicyError, match="is read as part of the activity"):
        load_policy(tmp_path / "states.yaml")


@pytest.mark.parametrize("form", ["xes.gz", "csv", "parquet"])
def test_a_release_has_starts_again(tmp_path: Path, form: str) -> None:
    """As pm4py writes them; verify reads them as service times, and its stamp covers them."""
    policy = load_policy(policy_file(tmp_path, written=form))
    made = release(policy, written_log(tmp_path, "xes"), tmp_path / "out", engine="memory")
    found = verify(tmp_path / "out")
    assert {each.name for each in found.statement.released} >= {"service_time", TIMESTAMP}
    assert "starts-from-service" in {each.kind for each in found.statement.caveats}
    table = cloakwork.pm4py.read(made.log)
    took = (table[TIMESTAMP] - table["start_timestamp"]).dt.total_seconds().dropna()
    assert "service_time" not in table
    assert sorted(took) == [0.0] * 6 + [90.0] * 6
    # What it keeps of service times is a figure of its own.
    kept = made.release.internal.utility["whole_log"]
    assert isinstance(kept, dict)
    assert kept["service_times"] == 0.0


def test_pm4py_reads_the_starts(tmp_path: Path) -> None:
    pm4py = pytest.importorskip("pm4py")
    table = pm4py.read_xes(str(_noised(tmp_path).log)).dropna()
    assert len(table)
    assert (table["start_timestamp"] <= table[TIMESTAMP]).all()


def _noised(folder: Path) -> Published:
    local = ", {kind: local-dp, epsilon: 2.0, over: [service_time]}"
    rule = "{role: sensitive, type: integer, range: [0, 3600]}"
    policy = load_policy(policy_file(folder, rule=rule, local=local))
    return release(policy, written_log(folder, "xes"), folder / "out", engine="memory")


def test_starts_under_noise_are_covered_by_the_noise_on_service_times(tmp_path: Path) -> None:
    """The claim is over service_time, and the released starts follow from what it released."""
    made = _noised(tmp_path)
    assert verify(tmp_path / "out").statement.guarantees[1].guarantee.over == ("service_time",)
    released = read_log(made.log)
    spans = (released.events[TIMESTAMP] - released.events["start_timestamp"]).dt.total_seconds()
    held = spans.drop_nulls()
    assert len(held) > 0
    assert held.is_between(0, 3600).all()
    # No more than one in a million draws leaves all of them as they were.
    assert held.sort().to_list() != [0] * 6 + [90] * 6


def test_of_groups_of_service_times_no_start_is_made(tmp_path: Path) -> None:
    """The groups are released under their own name, and nothing is said of starts."""
    rule = "{treatment: generalise, bins: [0, 60, 3600]}"
    made = release(
        load_policy(policy_file(tmp_path, rule=rule)),
        written_log(tmp_path, "xes"),
        tmp_path / "out",
    )
    found = verify(tmp_path / "out").statement
    assert "starts-from-service" not in {each.kind for each in found.caveats}
    columns = read_log(made.log).events.columns
    assert "service_time" in columns
    assert "start_timestamp" not in columns


def test_a_table_without_service_times_is_released(tmp_path: Path) -> None:
    """It was charged, and then refused, as no column held a start."""
    policy = policy_file(tmp_path, written="csv", rule="{treatment: drop}")
    made = release(policy, written_log(tmp_path, "xes"), tmp_path / "out", engine="memory")
    assert "start_timestamp" not in (made.folder / "log.csv").read_text().splitlines()[0]


def test_a_log_that_says_of_no_event_when_work_began_is_released(tmp_path: Path) -> None:
    """Its starts are all missing: it was charged, and then refused, as no column held one."""
    policy = load_policy(policy_file(tmp_path, start="no_such_time", written="csv"))
    made = release(policy, written_log(tmp_path, "xes"), tmp_path / "out", engine="memory")
    starts = pl.read_csv(made.log)["start_timestamp"]
    assert starts.null_count() == len(starts) > 0


def test_starts_that_are_left_out_are_told(tmp_path: Path) -> None:
    """And what to write to keep them; where the policy says it, nothing is left out."""
    text = policy_file(tmp_path).read_text()
    plain = text.replace("  input: {starts: start_timestamp}\n", "")
    plain = plain.replace('    "service_time": {treatment: keep}\n', "")
    plain = plain.replace("service_time: shown on purpose, ", "")
    (tmp_path / "plain.yaml").write_text(plain)
    path = written_log(tmp_path, "xes")
    out = tmp_path / "plain"
    notes = release(load_policy(tmp_path / "plain.yaml"), path, out).release.internal.notes
    said = "when work began was not read: under spec.input say starts: start_timestamp"
    assert said in notes
    policy = load_policy(policy_file(tmp_path))
    kept = release(policy, path, tmp_path / "kept").release.internal.notes
    assert said not in kept
    assert any("when work began was read from 'start_timestamp'" in each for each in kept)


def test_a_start_that_is_no_time_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    table = frame().with_columns(pl.lit("soon \x1b[31m").alias("start_timestamp"))
    table.write_csv(path)
    with pytest.raises(LogError) as error:
        read_log(path, options=STARTS)
    assert str(error.value).count("\n") == 0
    assert "\x1b" not in str(error.value)
    assert "line 2" in str(error.value) or ":2:" in str(error.value)
    # XES states the type of each value: a text that is no time is a missing start.
    xes = tmp_path / "bad.xes"
    write_log(
        EventLog.from_polars(table.with_columns(pl.lit("soon").alias("start_timestamp"))),
        xes,
        "xes",
    )
    assert service(read_log(xes, options=STARTS)) == [None] * 18


def test_a_name_that_no_column_has_is_refused_before_any_charge(tmp_path: Path) -> None:
    misspelt = InputOptions(starts="start_timestmap")
    path = tmp_path / "log.csv"
    frame().write_csv(path)
    with pytest.raises(LogError, match="did you mean 'start_timestamp'") as error:
        read_log(path, options=misspelt)
    assert str(error.value).count("\n") == 0
    with pytest.raises(LogError, match="starts names"):
        read_log(frame(), options=misspelt)
    policy = load_policy(policy_file(tmp_path, start="start_timestmap"))
    for log in (path, frame()):
        with pytest.raises(LogError, match="start_timestmap"):
            release(policy, log, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    # In XES an event may lack any attribute, so that nothing may hang on it.
    xes = tmp_path / "log.xes"
    write_log(read_log(frame()), xes, "xes")
    assert "service_time" not in read_log(xes, options=misspelt).events.columns


def test_service_times_are_a_measure_of_their_own() -> None:
    """Ten times as long is one power of ten; starts alone move nothing else."""
    source = read_log(frame(), options=STARTS)
    longer = EventLog(
        source.events.with_columns(pl.col("service_time") * 10 + 9), source.cases, source.offsets
    )
    found = compare_whole_logs(source, longer)
    assert found.service_times == pytest.approx(1.0)
    assert found.waiting_times == 0.0
    assert compare_whole_logs(source, source).service_times == 0.0
    utility = measured(source, longer)
    assert utility.whole_log is not None
    assert utility.whole_log.service_times == pytest.approx(1.0)
    assert np.isclose(utility.whole_log.case_durations or 0.0, 0.0)


@pytest.mark.parametrize("name", ["start_timestamp", "lifecycle:transition"])
def test_service_times_of_the_source_are_not_read(name: str) -> None:
    """Whether or not any event has a start: else one case changes what all others say."""
    table = frame().drop("start_timestamp").with_columns(pl.lit(777).alias("service_time"))
    log = EventLog.from_polars(table)
    asked = as_asked(log, ReadRequest(options=InputOptions(starts=name)))
    assert "service_time" not in asked.events.columns


@pytest.mark.parametrize("name", ["start_timestamp", "service_time"])
def test_how_the_source_spells_service_times_is_forgotten(name: str, tmp_path: Path) -> None:
    """One value that no number is spelt as keeps the characters of all of them, and what is
    measured goes by characters: those of the times that were computed.
    """
    events = "".join(
        f"<event><string key='concept:name' value='a'/><int key='service_time' value='{spelt}'/>"
        "<date key='start_timestamp' value='2024-05-05T00:00:00Z'/>"
        "<date key='time:timestamp' value='2024-05-05T01:00:00Z'/></event>"
        for spelt in ("0777", "5")
    )
    log = tmp_path / "log.xes"
    log.write_text(f"<log><trace>{events}</trace></log>", "utf-8")
    read = read_log(log, options=InputOptions(starts=name))
    texts = read.text_of("service_time")
    assert texts is not None and "0777" not in texts.to_list()
    if name == "start_timestamp":
        assert texts.to_list() == ["3600", "3600"]

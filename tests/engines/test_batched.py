"""Batches on disk: what is released is what the engine in memory releases."""

import gc
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

import cloudpickle
import numpy as np
import polars as pl
import pytest

import cloakwork
from cloakwork.base import progress
from cloakwork.base.progress import heard_by
from cloakwork.engines.base import Engine, part_bounds
from cloakwork.engines.base import shuffled as shuffled_log
from cloakwork.engines.batched import BatchedLog, LocalEngine
from cloakwork.engines.batches import collected
from cloakwork.engines.executors import InThisProcess
from cloakwork.engines.memory import MemoryEngine
from cloakwork.engines.workspace import Workspace
from cloakwork.errors import MechanismError
from cloakwork.log.eventlog import CASE_ID, EventLog
from cloakwork.noise import reproducible
from cloakwork.plan.model import Plan
from cloakwork.run.prepare import SourceFigures, prepared_log
from cloakwork.run.run import Run, finished
from cloakwork.run.search_cache import SearchCache
from log_equality import assert_same_log

R = TypeVar("R")
ROOT = Path(__file__).parents[2]
LONG = "CLOAKWORK_RUNS" in os.environ
PERSON = "case:patient"
PROCESS_ONLY = ("workspace", "executor", "owned")
"""What a log in batches has beside its data."""
SOME_POLICIES = (
    "dp-per-person",
    "dp-whole-log",
    "kanon-dp-timestamps",
    "kanon-with-generalised-attributes",
)


@pytest.fixture(scope="module")
def small() -> EventLog:
    """Some hundred cases of the shipped hospital log; three of a person, some of nobody."""
    log = cloakwork.read_log(ROOT / "examples" / "logs" / "hospital.xes.gz").keep_cases(
        np.arange(300)
    )
    person = [None if case % 7 == 0 else f"p{case % 100}" for case in range(300)]
    return replace(log, cases=log.cases.with_columns(pl.Series(PERSON, person)))


@cache
def plan_of(name: str) -> Plan:
    return cloakwork.make_plan(cloakwork.load_policy(ROOT / "policies" / f"{name}.yaml"))


@pytest.fixture(scope="module")
def searches(tmp_path_factory: pytest.TempPathFactory) -> SearchCache:
    """What was found for a summary need not be searched again for an equal one."""
    return SearchCache(tmp_path_factory.mktemp("searches"), bytes(32))


Released = Callable[[str, Engine], EventLog]


@pytest.fixture(scope="module")
def released(small: EventLog, searches: SearchCache) -> Released:
    """The cases of a release of ``small`` in their order, drawn from a fixed seed."""

    def made(name: str, engine: Engine) -> EventLog:
        plan, noise = plan_of(name), reproducible(11)
        unit = plan.facts.unit.attribute
        opened = engine.open(small, partial(prepared_log, plan=plan), unit, SourceFigures()).log
        run = Run(plan=plan, engine=engine, noise=noise, searches=searches)
        parts = finished(run.steps(opened)[0], plan, engine, noise).batches()
        return EventLog.from_polars(pl.concat([part.to_polars() for part in parts]))

    return made


@pytest.fixture(scope="module")
def in_memory(released: Released) -> Callable[[str], EventLog]:
    """What the engine in memory releases under a policy, made once for each."""
    return cache(lambda name: released(name, MemoryEngine()))


@pytest.mark.parametrize("batches", [1, 9, *[60] * LONG])
@pytest.mark.parametrize("name", SOME_POLICIES)
def test_every_engine_releases_the_same(
    small: EventLog,
    in_memory: Callable[[str], EventLog],
    released: Released,
    name: str,
    batches: int,
) -> None:
    """Decisions, noise, ids and order: with the same seed, whatever the batches and parts."""
    events = small.events.height
    engine = LocalEngine(batch_events=max(1, events // batches), part_events=events // 3)
    assert_same_log(in_memory(name), released(name, engine))


class Twice:
    """Every task runs twice, and what came first is lost: as where a machine fails behind it."""

    def run(self, task: Callable[[int], R], places: int) -> Iterator[R]:
        for place in range(places):
            task(place)
            yield task(place)


def test_a_task_that_runs_again_draws_the_same(
    in_memory: Callable[[str], EventLog], released: Released
) -> None:
    """Of two attempts exactly one counts, and both write the same."""
    again = LocalEngine(executor=Twice(), batch_events=400, part_events=800)
    name = "kanon-dp-timestamps"
    assert_same_log(in_memory(name), released(name, again))


def batched(log: EventLog, unit: str | None = None) -> tuple[LocalEngine, BatchedLog]:
    engine = LocalEngine(batch_events=max(1, log.events.height // 20))
    opened = engine.open(log, lambda each: each, unit, SourceFigures()).log
    assert isinstance(opened, BatchedLog)
    return engine, opened


def test_all_cases_of_a_person_lie_in_one_batch(small: EventLog) -> None:
    """Cases of nobody are spread; nothing is lost, and the order of cases is known."""
    _, log = batched(small, PERSON)
    found = list(log.results(lambda _, batch: batch.cases[PERSON].drop_nulls().unique().to_list()))
    persons = [person for of_batch in found for person in of_batch]
    assert len(persons) == len(set(persons)) == small.cases[PERSON].drop_nulls().n_unique()
    alone = list(log.results(lambda _, batch: batch.cases[PERSON].null_count()))
    assert max(alone) < sum(alone)
    together = collected(log)
    assert together.index_of_case.tolist() == list(range(300))
    assert together.cases.equals(small.cases)
    assert together.events.equals(small.events)


def test_bounding_holds_where_a_person_is_spread_over_the_source(small: EventLog) -> None:
    """At most so many cases of each person are left, in whatever batches they were read."""
    plan = plan_of("dp-per-person")
    unit, most = plan.facts.unit.attribute, plan.facts.unit.max_cases
    assert (unit, most) == (PERSON, 2)
    engine = LocalEngine(batch_events=50)
    opened = engine.open(small, partial(prepared_log, plan=plan), unit, SourceFigures()).log
    run = Run(plan=plan, engine=engine, noise=reproducible(3))
    cut, _ = run.steps(opened, plan.steps[:1])
    counts = collected(cut).cases.drop_nulls(unit).group_by(unit).len()["len"]
    assert counts.max() == most


def test_cases_of_one_id_are_refused_wherever_they_lie(small: EventLog) -> None:
    """A log in memory may hold them; k would count one case of the source twice."""
    ids = pl.Series(CASE_ID, [f"c{case % 150}" for case in range(300)])
    log = replace(small, cases=small.cases.with_columns(ids))
    for batches in (1, 4, 7):
        engine = LocalEngine(batch_events=log.event_count // batches)
        with pytest.raises(MechanismError, match="the id of an earlier case"):
            Run(plan=plan_of("kanon-control-flow"), noise=reproducible(1), engine=engine).release(
                log, None
            )


def test_files_go_when_no_log_needs_them(small: EventLog, tmp_path: Path) -> None:
    """So that a run holds about one copy of the log, not one for each step."""
    space = Workspace(tmp_path)
    engine = LocalEngine(workspace=space, batch_events=small.events.height // 4)
    log = engine.open(small, lambda each: each, None, SourceFigures()).log
    before = sorted(space.path.iterdir())
    # Four batches, and the numbers of their cases.
    assert len(before) == 5
    shuffled = engine.shuffle(log, reproducible(1).stream())
    del log
    gc.collect()
    left = sorted(space.path.iterdir())
    assert len(left) == len(shuffled.files)
    assert not set(left) & set(before)


def test_ids_are_fresh_and_the_order_is_random(small: EventLog) -> None:
    """Over all batches, not inside each."""
    engine, log = batched(small)
    shuffled = engine.shuffle(log, reproducible(2).stream())
    found = pl.concat([part.cases for part in shuffled.batches()])
    assert found[CASE_ID].n_unique() == 300
    assert not set(found[CASE_ID]) & set(small.cases[CASE_ID])
    assert found[PERSON].to_list() != small.cases[PERSON].to_list()
    # What the reader noted is internal.
    noted = replace(small, notes=("rows left out: 3",))
    assert shuffled_log(noted, reproducible(2).stream()).notes == ()


def test_files_follow_from_what_is_released(small: EventLog) -> None:
    """Not from how many events were dropped before, nor from the batches or the engine."""
    events = small.events.height
    most = events // 20
    engine = LocalEngine(batch_events=events // 8, part_events=most)
    log = engine.open(small, lambda each: each, None, SourceFigures()).log
    assert isinstance(log, BatchedLog)
    tenth = log.changed_by(
        lambda batch: batch.keep_cases(np.flatnonzero(batch.index_of_case % 10 == 0))
    )
    for source in (log, tenth):
        released = list(engine.shuffle(source, reproducible(6).stream()).batches())
        cases = [part.case_count for part in released]
        expected = part_bounds(sum(cases), sum(part.event_count for part in released), most)
        assert cases == np.diff(expected).tolist()
    assert len(cases) == 2


@pytest.mark.parametrize("cases", [0, 1, 2, 7, 1000])
@pytest.mark.parametrize("events", [0, 999, 1000, 1999, 2000, 50_000])
def test_bounds_of_files(cases: int, events: int) -> None:
    """All cases, in files of equally many; one file where there is nothing to divide."""
    bounds = part_bounds(cases, events, 1000)
    sizes = np.diff(bounds)
    assert (bounds[0], bounds[-1]) == (0, cases)
    assert len(sizes) == max(1, min(cases, events // 1000))
    assert sizes.max() - sizes.min() <= 1


def test_a_log_without_cases(small: EventLog) -> None:
    """It has its columns, one batch, and a release without cases."""
    none = small.keep_cases(np.zeros(0, np.int64))
    engine, log = batched(none, PERSON)
    assert (log.case_count, log.event_count) == (0, 0)
    shuffled = collected(engine.shuffle(log, reproducible(2).stream()))
    assert shuffled.cases.columns == small.cases.columns
    assert shuffled.events.schema == small.events.schema


def test_a_release_in_batches_is_checked_and_counted(
    small: EventLog, searches: SearchCache
) -> None:
    """``execute`` from end to end; its figures are those of memory."""
    plan = plan_of("kanon-dp-timestamps")
    on_disk = LocalEngine(executor=InThisProcess(), batch_events=300, part_events=700)
    releases = [
        Run(plan=plan, noise=reproducible(4), engine=engine, searches=searches).release(small, None)
        for engine in (MemoryEngine(), on_disk)
    ]
    first, second = releases
    assert [verdict.observed for verdict in first.verdicts] == [
        verdict.observed for verdict in second.verdicts
    ]
    assert first.internal.source == second.internal.source
    assert (first.log.case_count, first.log.event_count) == (
        second.log.case_count,
        second.log.event_count,
    )
    assert len(list(second.log.batches())) > 1


def test_long_work_says_how_far_it_is(small: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """From reading to the shuffle no stage is silent, where each of its batches takes long."""
    monkeypatch.setattr(progress, "SILENT_FOR", 0.0)
    said: list[str] = []
    with heard_by(said.append):
        engine, log = batched(small)
        shuffled = engine.shuffle(log, reproducible(2).stream())
        assert shuffled.case_count == 300
    stages = list(
        dict.fromkeys(message.rpartition(" of ")[0].rstrip("0123456789") for message in said)
    )
    assert stages == [
        "preparing batch ",
        "numbering cases: batch ",
        "dividing batch ",
        "writing batch ",
    ]


def held_bytes(log: EventLog, space: Workspace) -> list[int]:
    """Bytes of what this process holds of a log in four batches, and so sends with each task: as it
    was read, with cases chosen, and shuffled.
    """
    engine = LocalEngine(workspace=space, batch_events=log.events.height // 4)
    read = engine.open(log, lambda each: each, None, SourceFigures()).log
    assert isinstance(read, BatchedLog)
    chosen = engine.choose_cases(read, lambda batch: batch.slice_cases(1, batch.case_count))
    shuffled = engine.shuffle(chosen, reproducible(2).stream())
    assert shuffled.case_count == log.case_count - 4
    logs = (read, chosen, shuffled)
    return [len(cloudpickle.dumps(replace(each, **dict.fromkeys(PROCESS_ONLY)))) for each in logs]


def test_what_is_held_does_not_grow_with_cases(small: EventLog, tmp_path: Path) -> None:
    """A byte for each of ten times as many would fail: what is known of a case lies in files."""
    space = Workspace(tmp_path)
    ten_times = small.keep_cases(np.repeat(np.arange(300), 10))
    ids = pl.Series(CASE_ID, [f"c{case}" for case in range(3000)])
    ten_times = replace(ten_times, cases=ten_times.cases.with_columns(ids))
    few, many = held_bytes(small, space), held_bytes(ten_times, space)
    assert all(abs(more - less) < 270 for less, more in zip(few, many, strict=True))


def test_what_is_made_of_a_batch_is_made_once_and_kept(small: EventLog, tmp_path: Path) -> None:
    """From one pass to the next, in files that go with the last who may ask; what nobody may write
    to stays so.
    """
    engine = LocalEngine(workspace=Workspace(tmp_path), batch_events=200)
    log = engine.open(small, lambda log: log, None, SourceFigures()).log
    assert isinstance(log, BatchedLog) and len(log.files) > 3
    made: list[int] = []

    def make(place: int, batch: EventLog) -> np.ndarray:
        made.append(place)
        found = batch.index_of_case.copy()
        found.flags.writeable = False
        return found

    def look(found: np.ndarray) -> list[int]:
        assert not found.flags.writeable
        return found.tolist()

    before = len(list(tmp_path.rglob("*.batch")))
    results = log.results_of(make)
    first = list(results(look))
    assert list(results(look)) == first
    assert sorted(np.concatenate(first).tolist()) == list(range(small.case_count))
    assert made == list(range(len(log.files)))
    assert len(list(tmp_path.rglob("*.batch"))) == before + len(log.files)
    del results
    gc.collect()
    assert len(list(tmp_path.rglob("*.batch"))) == before

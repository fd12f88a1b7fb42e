"""Logs on Spark: what is read, and that it releases what the engine in memory releases."""

import hashlib
import os
import secrets
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import polars as pl
import pytest

from cloakwork.accounting.ledger import Ledger
from cloakwork.engines.batch_files import BatchFile
from cloakwork.engines.batches import collected
from cloakwork.engines.executors import Executor
from cloakwork.engines.spark import SparkEngine, spark_engine
from cloakwork.engines.spark_rows import SparkSource, rows_of
from cloakwork.engines.spark_tasks import sealed
from cloakwork.errors import CloakworkError, LogError, MechanismError
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.io.options import InputOptions
from cloakwork.log.io.reading import read_log
from cloakwork.log.io.request import TableRequest
from cloakwork.log.limits import Limits
from cloakwork.mechanisms.registry import catalogue
from cloakwork.noise import reproducible
from cloakwork.run.all_cases import SourceFigures
from cloakwork.testing.asking_contract import MechanismRuns
from cloakwork.testing.contract import MechanismContract
from cloakwork.testing.contract_logs import BATCH_LOG, assert_same_log
from conftest import EXAMPLES
from contracts import test_mechanism_contract
from drawn_entropy import entropy_of
from spark_session import missing, spark_session

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

LONG = "CLOAKWORK_RUNS" in os.environ
REQUEST = TableRequest(
    InputOptions(), None, frozenset(), ACTIVITY, TIMESTAMP, False, Limits(), "refuse"
)
SAMPLE = {"attributes/redact", "kanon/pretsa", "timestamps/laplace"}
"""What the short form tries: keys, marks, noise. The command tries units, counts and bounding."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)  # executors cannot import it
    try:
        with spark_session(tmp_path_factory.mktemp("spark")) as found:
            yield found
    finally:
        cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture
def engine(session: Any, tmp_path: Path) -> SparkEngine:
    return spark_engine(session, tmp_path / "storage", batch_events=120)


class EachStepByTasks(SparkEngine):
    """What a step may ask for: all cases of a unit lie in one batch. Each step is carried out by
    tasks that write its batches.
    """

    def open(self, source: Any, prepare: Any, unit: str | None, seen: Any) -> Any:
        return super().open(source, prepare, "case:unit", seen)

    def rewrite(self, log: Any, action: Any) -> Any:
        return self.choose_cases(super().rewrite(log, action), as_it_is)


def flat_log(cases: int = 60) -> pl.DataFrame:
    """A table of cases that take turns in the file, with ties in times and missing values."""
    draw = np.random.default_rng(3)
    rows = 5 * cases
    case = draw.integers(0, cases, rows)
    return pl.DataFrame(
        {
            CASE_ID: [None if i % 97 == 0 else f"case {each}" for i, each in enumerate(case)],
            ACTIVITY: draw.choice(["a", "b", "c"], rows),
            TIMESTAMP: pl.Series(draw.integers(0, 6, rows) * 3_600_000_000).cast(
                pl.Datetime("us", "UTC")
            ),
            "cost": pl.Series(draw.integers(0, 99, rows)).cast(pl.Decimal(18, 2)),
            "weight": draw.random(rows),
            "case:person": [f"person {each % 7}" for each in case],
        }
    )


def in_files(table: pl.DataFrame, folder: Path, files: int = 3) -> Path:
    """The table in files; the first has most rows."""
    folder.mkdir()
    bounds = [0, *(table.height - 10 * np.arange(files - 1, 0, -1)).tolist(), table.height]
    for place in range(files):
        table[bounds[place] : bounds[place + 1]].write_parquet(folder / f"part {place}.parquet")
    return folder


def opened(engine: SparkEngine, source: object, unit: str | None = None) -> EventLog:
    log = engine.open(source, as_it_is, unit, SourceFigures()).log
    return collected(log)


def as_it_is(log: EventLog) -> EventLog:
    return log


def contract_of(name: str) -> type[MechanismRuns]:
    found = [
        each
        for each in vars(test_mechanism_contract).values()
        if isinstance(each, type)
        and issubclass(each, MechanismContract)
        and each is not MechanismContract
        and each.mechanism.name == name
    ]
    return found[0]


def test_parquet_is_read_as_in_memory(engine: SparkEngine, tmp_path: Path) -> None:
    """Rows of several files, without ids, with decimals; the order is that of files and rows."""
    table = flat_log()
    table.write_parquet(tmp_path / "whole.parquet")
    in_memory = read_log(tmp_path / "whole.parquet")
    log = opened(engine, SparkSource(in_files(table, tmp_path / "log"), REQUEST))
    assert_same_log(in_memory, log)


@pytest.mark.parametrize("name", sorted(catalogue()) if LONG else [*sorted(SAMPLE)])
def test_releases_what_memory_releases(engine: SparkEngine, name: str) -> None:
    contract = contract_of(name)()
    by_tasks = EachStepByTasks(**vars(engine))
    for params in contract.offers():
        in_memory = contract.run(params, BATCH_LOG, reproducible(1))
        on_spark = contract.run_on(by_tasks, params, BATCH_LOG, reproducible(1))
        assert_same_log(in_memory, on_spark)


def test_a_column_numbers_the_rows(engine: SparkEngine, tmp_path: Path) -> None:
    """Rows of a table or a DataFrame have the order of that column, however they lie and whatever
    partitions there are; all cases of a person lie in one batch.
    """
    table = flat_log()
    table.write_parquet(tmp_path / "whole.parquet")
    in_memory = read_log(tmp_path / "whole.parquet")
    numbered = table.with_row_index("n").with_columns(pl.col("n").cast(pl.Int64) * 3)
    permuted = numbered.sample(fraction=1, shuffle=True, seed=2)
    frame = engine.session.read.parquet(str(in_files(permuted, tmp_path / "log"))).repartition(5)
    frame.createOrReplaceTempView("events")
    by_person = engine.open(
        SparkSource(frame, REQUEST, "n"), as_it_is, "case:person", SourceFigures()
    ).log
    assert_same_log(in_memory, collected(by_person))
    persons = [set(batch.cases["case:person"]) for batch in by_person.batches()]
    assert len(persons) > 1
    assert sum(map(len, persons)) == len(set().union(*persons))
    assert_same_log(in_memory, opened(engine, SparkSource("spark:events", REQUEST, "n")))


def killed_after_output(task: Callable[[int], Any], marks: Path) -> Callable[[int], Any]:
    """A task whose process is killed when it has done all it does, but for the second time."""
    run = secrets.token_hex(8)

    def attempt(place: int) -> Any:
        result = task(place)
        if isinstance(result, BatchFile):
            content = hashlib.sha256(result.path.read_bytes()).hexdigest()
            (marks / f"{run} {place} {secrets.token_hex(4)}").write_text(content)
            if len(list(marks.glob(f"{run} {place} *"))) == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        return result

    return attempt


@dataclass(frozen=True)
class KilledAfterOutput:
    """An executor of which each task is killed once, after its output."""

    executor: Executor
    marks: Path

    def run(self, task: Callable[[int], Any], places: int) -> Iterator[Any]:
        return self.executor.run(killed_after_output(task, self.marks), places)


def test_a_task_that_is_killed_writes_the_same_bytes_again(
    engine: SparkEngine, tmp_path: Path
) -> None:
    """Of both attempts one counts, and the release is that of memory."""
    marks = tmp_path / "marks"
    marks.mkdir()
    contract = contract_of("timestamps/laplace")()
    params = next(contract.offers())
    log = many_times(BATCH_LOG, 50) if LONG else BATCH_LOG
    killing = EachStepByTasks(
        **vars(engine)
        | {"executor": KilledAfterOutput(engine.executor, marks), "batch_events": 100}
    )
    on_spark = contract.run_on(killing, params, log, reproducible(1))
    assert_same_log(contract.run(params, log, reproducible(1)), on_spark)
    attempts = defaultdict(list)
    for mark in marks.iterdir():
        attempts[mark.name.rpartition(" ")[0]].append(mark.read_text())
    assert len(attempts) >= (100 if LONG else 2)
    for contents in attempts.values():
        assert len(contents) == 2
        assert len(set(contents)) == 1


def test_keys_are_in_no_file_and_no_plan(engine: SparkEngine, tmp_path: Path) -> None:
    rows = rows_of(engine.session, SparkSource(in_files(flat_log(), tmp_path / "log"), REQUEST))
    salt = bytes(range(16))
    placed = rows.by_place(4, salt)
    assert "sha2" in explained(placed)
    assert salt.hex() not in explained(placed)
    folder, stream = engine.workspace.path, reproducible(1).stream()
    with sealed(lambda batches: iter([stream]), folder) as function:
        (file,) = folder.glob("*.task")
        assert stream.secret not in file.read_bytes()
        assert stream.secret not in cloudpickle.dumps(function)
    assert not file.exists()


def many_times(log: EventLog, copies: int) -> EventLog:
    """So many copies of the cases, each with an id of its own."""
    rows = np.tile(np.arange(log.cases.height), copies)
    copied = log.keep_cases(rows)
    ids = pl.Series(CASE_ID, [f"case {row}" for row in range(len(rows))])
    return replace(copied, cases=copied.cases.with_columns(ids))


def explained(frame: Any) -> str:
    """All plans of a query, as Spark shows and logs them."""
    return str(frame._jdf.queryExecution().toString())


def test_apply_releases_what_memory_releases(
    session: Any, tmp_path: Path, cloakwork: Callable[..., Any]
) -> None:
    """A table by name, its rows permuted, in batches of whole persons, with noise: the same values,
    one entry in the ledger, and a release that verifies.
    """
    events = read_log(EXAMPLES / "hospital.xes.gz").to_polars().with_row_index("n")
    events.write_parquet(tmp_path / "log.parquet")
    permuted = events.sample(fraction=1, shuffle=True, seed=2)
    frame = session.read.parquet(str(in_files(permuted, tmp_path / "log")))
    frame.createOrReplaceTempView("hospital")
    read, entries = [], []
    for log, engine in ((tmp_path / "log.parquet", "memory"), ("spark:hospital", "spark")):
        out, ledger = tmp_path / engine, f"sqlite:///{tmp_path / engine}.db"
        row = ("--column", "row=n") if engine == "spark" else ()
        words = ("--out", out, "--engine", engine, "--ledger", ledger, "--quiet", *row)
        with entropy_of("both"):
            said = cloakwork("apply", "dp-per-person", log, *words)
        assert said.code == 0, said.err
        assert cloakwork("verify", out).code == 0
        read.append(read_log(out / "log.xes.gz"))
        entries.append([record.state for record in Ledger(ledger).history()])
    assert_same_log(*read)
    assert entries == [["committed"], ["committed"]]


@pytest.mark.skipif(not LONG, reason="a server of Spark Connect: CLOAKWORK_RUNS=1")
def test_connect_reads_and_releases_the_same(tmp_path: Path) -> None:
    """In a process of its own: one may not speak both to a server and to classic Spark."""
    table = flat_log()
    table.write_parquet(tmp_path / "whole.parquet")
    folder = in_files(table, tmp_path / "log")
    path = os.pathsep.join(sys.path)
    said = subprocess.run(
        [sys.executable, "-c", BY_CONNECT, str(folder), str(tmp_path)],
        env={**os.environ, "SPARK_REMOTE": "local[2]", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    in_memory = read_log(tmp_path / "whole.parquet")
    assert pl.read_parquet(tmp_path / "events.parquet").equals(in_memory.events)
    assert pl.read_parquet(tmp_path / "cases.parquet").equals(in_memory.cases)


BY_CONNECT = """
import sys
from pathlib import Path
from cloakwork.engines.batches import collected
from cloakwork.engines.spark import spark_engine
from cloakwork.engines.spark_rows import SparkSource
from cloakwork.run.all_cases import SourceFigures
from engines.test_spark import REQUEST, as_it_is

folder, out = Path(sys.argv[1]), Path(sys.argv[2])
engine = spark_engine(storage=out / "storage", batch_events=120)
log = engine.open(SparkSource(folder, REQUEST), as_it_is, "case:person", SourceFigures()).log
whole = collected(log)
whole.events.write_parquet(out / "events.parquet")
whole.cases.write_parquet(out / "cases.parquet")
"""


def failing(place: int, batch: EventLog) -> None:
    raise LogError("log", f"batch {place} is odd", line=3) if place else ZeroDivisionError("secret")


def test_what_cannot_be_is_said_in_one_line(engine: SparkEngine, tmp_path: Path) -> None:
    """Rows in no order, numbers that are none, tables whose folders hold more, tasks that fail."""
    table = flat_log().with_row_index("n").with_columns(pl.col("n").cast(pl.Int64) // 2)
    folder = in_files(table, tmp_path / "log")
    frame = engine.session.read.parquet(str(folder))
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    for source, said in (
        (SparkSource(frame, REQUEST), "its rows have no order, which is part of the control flow"),
        (SparkSource(frame, REQUEST, "m"), "there is no column 'm' that numbers the rows"),
        (SparkSource(frame, REQUEST, "case:person"), "which numbers the rows, holds string"),
        (SparkSource(frame, REQUEST, "n"), "two rows have one number"),
        (SparkSource(tmp_path / "delta", REQUEST), "this is a Delta table"),
        (SparkSource(tmp_path / "log.csv", REQUEST), "reads Parquet and tables, not csv"),
        (SparkSource(tmp_path / "none", REQUEST), "PATH_NOT_FOUND"),
        (SparkSource("spark:no_such_table", REQUEST, "n"), "TABLE_OR_VIEW_NOT_FOUND"),
    ):
        with pytest.raises(CloakworkError) as error:
            opened(engine, source)
        assert said in str(error.value)
        assert "\n" not in str(error.value)
    log = engine.open(SparkSource(folder, REQUEST), as_it_is, None, SourceFigures()).log
    with pytest.raises(MechanismError, match=r"^spark: a task failed: ZeroDivisionError on an"):
        log.each_batch(failing)
    with pytest.raises(LogError, match=r"^log:3: batch 1 is odd$"):
        log.each_batch(lambda place, batch: failing(place or 1, batch))

"""Logs on Spark: what is read, and that it releases what the engine in memory releases."""

import hashlib
import os
import pickle
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import cloudpickle
import numpy as np
import polars as pl
import pytest

from cloakwork.api import release, verify
from cloakwork.base.files import lock_file
from cloakwork.cli import main
from cloakwork.engines.batch_files import BatchFile, write_batch
from cloakwork.engines.batches import collected
from cloakwork.engines.workspace import new_paths
from cloakwork.errors import CloakworkError, LogError, MechanismError
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.formats import read_log
from cloakwork.log.formats.options import InputOptions
from cloakwork.log.formats.row_source import ReadRequest
from cloakwork.log.limits import Limits
from cloakwork.mechanisms.registry import catalogue
from cloakwork.noise import reproducible
from cloakwork.plan.planner import make_plan
from cloakwork.run.prepare import SourceFigures
from cloakwork.run.reading import registered_engine
from cloakwork.testing.contract import MechanismContract, MechanismRuns
from cloakwork.testing.contract_logs import BATCH_LOG, assert_same_log
from cloakwork_extras.spark.spark import SparkEngine, spark_engine
from cloakwork_extras.spark.spark_rows import SparkRows, SparkSource, rows_of
from cloakwork_extras.spark.spark_tasks import ArrowTask, SparkExecutor, in_one_line, sealed
from conftest import EXAMPLES, ROOT
from contracts import test_mechanism_contract
from counterexamples.small import small_policy
from drawn_entropy import entropy_of
from run.test_prepare import HISTORIES, extract, growing
from spark_session import missing, spark_session

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

LONG = "CLOAKWORK_RUNS" in os.environ
REQUEST = ReadRequest(options=InputOptions(), limits=Limits())
SAMPLE = ("timestamps/laplace",)
"""What the short form tries: two passes, and noise by the addresses of events."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)  # executors cannot import it
    # Workers that share these tests start a Java machine one after the other, never two at once.
    lock = lock_file(tmp_path_factory.getbasetemp().parent / "spark.lock")
    try:
        with spark_session(tmp_path_factory.mktemp("spark")) as found:
            yield found
    finally:
        lock.release()
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
        and hasattr(each, "mechanism")
        and each.mechanism.name == name
    ]
    return found[0]


def test_tables_are_read_as_in_memory(engine: SparkEngine, tmp_path: Path) -> None:
    """Rows of several files, without ids, with decimals, are in the order of files and rows; or in
    that of a column that numbers them, however they lie and whatever partitions there are. All
    cases of a person lie in one batch.
    """
    table = flat_log()
    table.write_parquet(tmp_path / "whole.parquet")
    in_memory = read_log(tmp_path / "whole.parquet")
    files = in_files(table, tmp_path / "in order")
    assert_same_log(in_memory, opened(engine, SparkSource(files, REQUEST)))
    numbered = table.with_row_index("n").with_columns(pl.col("n").cast(pl.Int64) * 3)
    permuted = numbered.sample(fraction=1, shuffle=True, seed=2)
    frame = engine.session.read.parquet(str(in_files(permuted, tmp_path / "log"))).repartition(5)
    frame.createOrReplaceTempView("events")
    by_person = engine.open(
        SparkSource("spark:events", REQUEST, "n"), as_it_is, "case:person", SourceFigures()
    ).log
    assert_same_log(in_memory, collected(by_person))
    persons = [set(batch.cases["case:person"]) for batch in by_person.batches()]
    assert len(persons) > 1
    assert sum(map(len, persons)) == len(set().union(*persons))


def test_commands_read_tables_by_files_that_go_with_them(
    engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Whatever order Spark writes rows in; the times are the same moments."""
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("CLOAKWORK_WORK", str(tmp_path / "work"))
    table = flat_log().with_row_index("n").with_columns(pl.col("n").cast(pl.Int64))
    table.write_parquet(tmp_path / "whole.parquet")
    permuted = table.sample(fraction=1, shuffle=True, seed=2)
    files = engine.session.read.parquet(str(in_files(permuted, tmp_path / "log")))
    files.createOrReplaceTempView("events")
    # Its default is another file system, as on most clusters, and rows do not go there.
    engine.session.conf.set("fs.defaultFS", "viewfs:///")
    found = registered_engine("spark").in_files("spark:events")
    engine.session.conf.unset("fs.defaultFS")
    columns = {"row": "n"}
    in_memory = read_log(tmp_path / "whole.parquet", columns=columns)
    assert_same_log(in_memory, read_log(found.path, columns=columns))
    found.close()
    policy = small_policy(tmp_path)
    outcomes = []
    for log in ("spark:events", str(tmp_path / "whole.parquet")):
        code = main(["policy", "lint", str(policy), log, "--column", "row=n"])
        outcomes.append((code, capsys.readouterr().out))
    assert outcomes[0] == outcomes[1]
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.parametrize("starts", ["began", "lifecycle:transition"])
def test_starts_are_read_as_in_memory(engine: SparkEngine, tmp_path: Path, starts: str) -> None:
    """A column of starts, and pairs of states: both become service times, and pairs one event."""
    table = flat_log()
    draw = np.random.default_rng(4)
    table = table.with_columns(
        (pl.col(TIMESTAMP) - pl.duration(seconds=pl.col("weight") * 9_000)).alias("began"),
        pl.Series("lifecycle:transition", draw.choice(["start", "complete", "skip"], table.height)),
    )
    table.write_parquet(tmp_path / "whole.parquet")
    request = replace(REQUEST, options=InputOptions(starts=starts))
    in_memory = read_log(tmp_path / "whole.parquet", options=request.options)
    assert in_memory.events["service_time"].drop_nulls().n_unique() > 2
    files = in_files(table, tmp_path / "files")
    assert_same_log(in_memory, opened(engine, SparkSource(files, request)))
    # So do states as parts of activities.
    asked = InputOptions(activity_with="lifecycle:transition")
    states = read_log(tmp_path / "whole.parquet", options=asked)
    source = SparkSource(files, replace(REQUEST, options=asked))
    assert_same_log(states, opened(engine, source))


@pytest.mark.parametrize("name", sorted(catalogue()) if LONG else SAMPLE)
def test_releases_what_memory_releases(
    engine: SparkEngine, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a task is killed after its output. The short form takes one way to set a mechanism."""
    contract = contract_of(name)()
    by_tasks = EachStepByTasks(**vars(engine))
    kill_tasks(monkeypatch, tmp_path / "marks", most=1)
    for params in islice(contract.offers(), None if LONG else 1):
        in_memory = contract.run(params, BATCH_LOG, reproducible(1))
        on_spark = contract.run(params, BATCH_LOG, reproducible(1), engine=by_tasks)
        assert_same_log(in_memory, on_spark)
    assert_killed_and_repeated(tmp_path / "marks", least=1)


def kill_tasks(monkeypatch: pytest.MonkeyPatch, marks: Path, most: int) -> None:
    """The first attempts of the next tasks of Spark are killed, each when it has done its work."""
    marks.mkdir()
    results = SparkExecutor.results

    def with_kills(executor: SparkExecutor, frame: Any, task: ArrowTask) -> list[Path]:
        return results(executor, frame, killed_after_output(task, marks, most))

    monkeypatch.setattr(SparkExecutor, "results", with_kills)


def killed_after_output(task: ArrowTask, marks: Path, most: int) -> ArrowTask:
    """``task``, whose process is killed at its end, but for its second attempt. Each attempt leaves
    a mark: digests of the files that it wrote.
    """
    job = secrets.token_hex(8)

    def attempt(rows: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        found = list(task(rows))
        context = TaskContext.get()
        assert context is not None
        number = context.attemptNumber()
        if number or len(list(marks.glob("* 0"))) < most:
            mark = marks / f"{job} {context.partitionId()} {number}"
            mark.write_text(" ".join(digest for batch in found for digest in digests_in(batch)))
            if number == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        yield from found

    return attempt


def digests_in(outcomes: Any) -> list[str]:
    """Of each file that a task wrote, by what it returns."""
    found = []
    for content in outcomes.column("result").to_pylist():
        result = pickle.loads(pickle.loads(content).read_bytes())
        first = result[0] if isinstance(result, tuple) else result
        file = getattr(first, "file", first)
        if isinstance(file, BatchFile):
            found.append(hashlib.sha256(file.path.read_bytes()).hexdigest())
        elif isinstance(file, str):
            found.append(file)  # of a part of the release
    return found


def assert_killed_and_repeated(marks: Path, least: int) -> None:
    """So many first attempts were killed; the second ones wrote the same bytes."""
    firsts = sorted(marks.glob("* 0"))
    assert len(firsts) >= least
    written = 0
    for first in firsts:
        digests = first.read_text()
        assert first.with_name(f"{first.name[:-1]}1").read_text() == digests
        written += len(digests.split())
    assert written


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


def explained(frame: Any) -> str:
    """All plans of a query, as Spark shows and logs them."""
    return str(frame._jdf.queryExecution().toString())


def hospital(session: Any, tmp_path: Path) -> tuple[Path, Any]:
    """A shipped log in a file with a column ``n`` that numbers its rows, and as a DataFrame of
    these rows in another order.
    """
    events = read_log(EXAMPLES / "hospital.xes.gz").to_polars().with_row_index("n")
    events.write_parquet(tmp_path / "log.parquet")
    permuted = events.sample(fraction=1, shuffle=True, seed=2)
    return tmp_path / "log.parquet", session.read.parquet(str(in_files(permuted, tmp_path / "log")))


def states_in(ledger: str) -> list[str]:
    return [record.state for record in Ledger(ledger).history()]


@pytest.mark.skipif(not LONG, reason="a release by the command line: CLOAKWORK_RUNS=1")
def test_apply_releases_what_memory_releases(
    session: Any,
    tmp_path: Path,
    cloakwork: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table by name, its rows permuted, in batches of whole persons, with noise, while tasks are
    killed after their output: the same values, one ledger entry, and a release that verifies.
    """
    path, frame = hospital(session, tmp_path)
    frame.createOrReplaceTempView("hospital")
    kill_tasks(monkeypatch, tmp_path / "marks", most=3)
    read = []
    for log, engine in ((path, "memory"), ("spark:hospital", "spark")):
        out, ledger = tmp_path / engine, f"sqlite:///{tmp_path / engine}.db"
        row = ("--column", "row=n") if engine == "spark" else ()
        words = ("--out", out, "--engine", engine, "--ledger", ledger, "--quiet", *row)
        with entropy_of("both"):
            said = cloakwork("apply", "dp-per-person", log, *words)
        assert said.code == 0, said.err
        assert cloakwork("verify", out).code == 0
        read.append(read_log(out / "log.xes.gz"))
        assert states_in(ledger) == ["committed"]
    assert_same_log(*read)
    assert_killed_and_repeated(tmp_path / "marks", least=3)


@pytest.mark.skipif(not LONG, reason="a hundred killed tasks: CLOAKWORK_RUNS=1")
def test_a_hundred_tasks_killed_after_output(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a DataFrame, in many batches and several parts: the release of memory, one committed
    entry, and ``verify`` passes.
    """
    path, frame = hospital(session, tmp_path)
    policy = ROOT / "policies" / "dp-per-person.yaml"
    kill_tasks(monkeypatch, tmp_path / "marks", most=100)
    events = frame.count()
    on_spark = spark_engine(
        session, tmp_path / "storage", batch_events=-(-events // 20), part_events=200
    )
    runs: list[tuple[str, Any, dict[str, str] | None]] = [
        ("memory", "memory", path, None),
        ("spark", on_spark, frame, {"row": "n"}),
    ]
    read = []
    for name, engine, log, columns in runs:
        ledger = f"sqlite:///{tmp_path / name}.db"
        with entropy_of("both"):
            made = release(
                policy, log, tmp_path / name, ledger=ledger, columns=columns, engine=engine
            )
        verify(tmp_path / name)
        read.append(read_log(made.log))
        assert states_in(ledger) == ["committed"]
    assert made.part_count > 1
    assert_same_log(*read)
    assert_killed_and_repeated(tmp_path / "marks", least=100)


@pytest.mark.skipif(not LONG, reason="four releases: CLOAKWORK_RUNS=1")
def test_windows_release_what_memory_releases(session: Any, tmp_path: Path) -> None:
    """Of a DataFrame, its rows permuted, on the engine by its name: each case with the window that
    had it first, though it starts in another one in the next extract.
    """
    runs = []
    some = tuple(range(0, len(HISTORIES), 5))
    for engine in ("memory", "spark"):
        ledger, read = f"sqlite:///{tmp_path / engine}.db", []
        for number, window in enumerate(("2026-09", "2026-10")):
            plan = make_plan(growing(), window=window)
            frame, columns = frame_of(session, extract(number, some), tmp_path, engine)
            out = tmp_path / f"{engine}-{window}"
            with entropy_of("both"):
                made = release(plan, frame, out, ledger=ledger, columns=columns, engine=engine)
            verify(out)
            read.append(read_log(made.log))
        assert states_in(ledger) == ["committed", "committed"]
        runs.append(read)
        (note,) = [each for each in made.release.internal.notes if "start in window" in each]
        assert "; 0 of them were left out" not in note
    in_memory, on_spark = runs
    for one, other in zip(in_memory, on_spark, strict=True):
        assert_same_log(one, other)


def frame_of(
    session: Any, log: EventLog, folder: Path, engine: str
) -> tuple[Any, dict[str, str] | None]:
    """The log at a path, or as a DataFrame of its rows in another order, and what numbers them."""
    name = folder / secrets.token_hex(4)
    table = log.to_polars().with_row_index("n")
    if engine == "memory":
        table.drop("n").write_parquet(name)
        return name, None
    permuted = table.sample(fraction=1, shuffle=True, seed=2)
    return session.read.parquet(str(in_files(permuted, name))), {"row": "n"}


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
from cloakwork_extras.spark.spark import spark_engine
from cloakwork_extras.spark.spark_rows import SparkSource
from cloakwork.run.prepare import SourceFigures
from cloakwork.run.reading import registered_engine
from engines.test_spark import REQUEST, as_it_is

folder, out = Path(sys.argv[1]), Path(sys.argv[2])
engine = spark_engine(storage=out / "storage", batch_events=120)
log = engine.open(SparkSource(folder, REQUEST), as_it_is, "case:person", SourceFigures()).log
whole = collected(log)
whole.events.write_parquet(out / "events.parquet")
whole.cases.write_parquet(out / "cases.parquet")
"""


@pytest.mark.parametrize("lost", ["Py4JNetworkError", "Py4JError"])
def test_a_process_of_spark_that_is_gone_is_told_without_what_its_jvm_says(lost: str) -> None:
    raised = getattr(pytest.importorskip("py4j.protocol"), lost)("EOF\n\tat a row of the log")
    with pytest.raises(MechanismError) as told, in_one_line("a task"):
        raise raised
    said = f"a process of Spark ended ({lost}); Spark's own log says more"
    assert str(told.value) == f"spark: a task failed: {said}"


def test_a_table_that_spark_cannot_write_is_told_without_values_and_ends_spark(
    engine: SparkEngine,
) -> None:
    """Other tasks would make the work folder again after it was removed, readable for all."""
    rows = engine.session.sql("SELECT CAST(value AS INT) AS n FROM VALUES ('secret') AS (value)")
    rows.createOrReplaceTempView("misread")
    with patch.object(type(engine.session), "stop") as stop, pytest.raises(MechanismError) as told:
        registered_engine("spark").in_files("spark:misread")
    assert "secret" not in str(told.value)
    assert stop.called


def failing(place: int, batch: EventLog) -> None:
    raise LogError("log", f"batch {place} is odd", line=3) if place else ZeroDivisionError("secret")


def test_what_cannot_be_is_said_in_one_line(
    engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in no order, numbers that are none, tables whose folders hold more, tasks that fail."""
    table = flat_log().with_row_index("n").with_columns(pl.col("n").cast(pl.Int64) // 2)
    folder = in_files(table, tmp_path / "log")
    frame = engine.session.read.parquet(str(folder))
    # Two cases that lie in two batches, under this salt, and whose first rows have one number.
    salted = SparkRows.by_place
    monkeypatch.setattr(SparkRows, "by_place", lambda rows, places, _: salted(rows, places, b"a"))
    two = pl.DataFrame(
        {
            CASE_ID: ["a", "b"] * 120,
            ACTIVITY: "x",
            "n": [0, 0, *range(1, 239)],
            TIMESTAMP: "2024-01-01",
        }
    )
    alike = engine.session.createDataFrame(two.rows(), two.columns)
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    unsigned = tmp_path / "unsigned.parquet"
    table.with_columns(pl.col("n").cast(pl.UInt64)).write_parquet(unsigned)
    sources = (
        (SparkSource(frame, REQUEST), "its rows have no order, which is part of the control flow"),
        (SparkSource(frame, REQUEST, "m"), "there is no column 'm' that numbers the rows"),
        (SparkSource(frame, REQUEST, "case:person"), "which numbers the rows, holds string"),
        (SparkSource(frame, REQUEST, "n"), "two rows have one number"),
        (SparkSource(alike, REQUEST, "n"), "two rows have one number"),
        (SparkSource(tmp_path / "delta", REQUEST), "this is a Delta table"),
        (SparkSource(tmp_path / "log.csv", REQUEST), "reads Parquet and tables, not csv"),
        (
            SparkSource(unsigned, REQUEST),
            "column 'n' holds whole numbers of 64 bits without a sign",
        ),
        (SparkSource(tmp_path / "none", REQUEST), "PATH_NOT_FOUND"),
        (SparkSource("spark:no_such\ntable", REQUEST, "n"), "spark:no_such table failed"),
    )
    for source, said in sources if LONG else sources[:5]:
        with pytest.raises(CloakworkError) as error:
            opened(engine, source)
        assert said in str(error.value)
        assert "\n" not in str(error.value)
    paths = [new_paths(engine.workspace)() for _ in range(2)]
    log = engine.stored(tuple(write_batch(BATCH_LOG, path) for path in paths))
    with pytest.raises(MechanismError, match=r"^spark: a task failed: ZeroDivisionError on an"):
        list(log.results(failing))
    with pytest.raises(LogError, match=r"^log:3: batch 1 is odd$"):
        list(log.results(lambda place, batch: failing(place or 1, batch)))

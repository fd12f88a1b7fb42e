"""The engine on Spark: batches on storage that driver and executors share, one task a batch."""

import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.errors import LogError, MechanismError
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import values_of
from cloakwork.engines.base import EVENTS_OF_A_BATCH, EVENTS_OF_A_PART, Opened
from cloakwork.engines.batch_files import BatchFile, write_batch
from cloakwork.engines.batched import BatchedEngine, BatchedLog, LocalEngine
from cloakwork.engines.workspace import WORK_FOLDER, Workspace
from cloakwork.log.eventlog import Aggregate, Change, EventLog, notes_on_cases, row_place
from cloakwork.log.formats.column_names import ColumnNames
from cloakwork.log.formats.row_source import ReadRequest, collected
from cloakwork.log.formats.tables import FileTable, TableSource
from cloakwork_extras.spark.spark_rows import PLACE, ROW, SparkSource, case_id_column, rows_of
from cloakwork_extras.spark.spark_tasks import (
    SparkExecutor,
    in_one_line,
    is_local,
    outcome,
    result_in,
    usable_session,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def spark_engine(
    session: "SparkSession | None" = None,
    storage: Path | None = None,
    *,
    batch_events: int = EVENTS_OF_A_BATCH,
    part_events: int = EVENTS_OF_A_PART,
) -> "SparkEngine":
    """The engine on ``session``; by default the active one, else a new one as Spark's configuration
    says.

    ``storage``: a folder that the driver and all executors see under this path, for batches of the
    raw log; by default ``$CLOAKWORK_WORK``, or one on this machine where all of Spark runs on it.
    Raises MechanismError, MissingExtra or OutputError where that cannot be.
    """
    session = usable_session(session)
    # By default the folder is one of this machine's, which executors elsewhere cannot see.
    if storage is None and WORK_FOLDER not in os.environ and not is_local(session):
        raise MechanismError(
            "spark",
            "executors run on other machines: name a folder that all of them share, for batches of "
            f"the raw log ({WORK_FOLDER}, or storage= in Python)",
        )
    workspace = Workspace(storage)
    executor = SparkExecutor(session, workspace.path)
    return SparkEngine(
        executor,
        workspace,
        name="spark",
        batch_events=batch_events,
        part_events=part_events,
        session=session,
    )


@dataclass(frozen=True)
class SparkEngine(BatchedEngine):
    """A ``BatchedEngine`` whose tasks Spark runs, and whose batches it makes of rows."""

    session: Any = None

    @in_one_line("reading the log")
    def open(
        self,
        source: object,
        prepare: Change,
        unit: str | None,
        seen: Aggregate,
    ) -> Opened:
        """See ``Engine``. ``source``: a ``SparkSource``, or a log that the driver holds."""
        if not isinstance(source, SparkSource):
            return self._in_driver().open(source, prepare, unit, seen)
        rows = rows_of(self.session, source)
        places = max(1, -(-rows.count // self.batch_events))
        folder = self.workspace.path
        request = replace(source.request, keep=None)  # columns are chosen; it may hold anything
        making = BatchMaking(source.label, rows.names, request, rows.as_text, prepare, seen)

        def write_batches(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
            for place, frame in tables_by_place(batches):
                # A name of its own, which nobody can guess: Spark may run a task twice.
                path = folder / f"{secrets.token_hex(12)}.batch"
                yield outcome(place, partial(making.made, frame, path), folder)

        # The salt is drawn anew: who writes case ids cannot gather them in one place.
        placed = rows.by_place(places, secrets.token_bytes(16))
        found = SparkExecutor(self.session, folder).results(placed, write_batches)
        # A log without rows still becomes a batch, with its columns.
        made = [*map(result_in, found)] or [making.made(rows.no_rows(), folder / "no.batch")]
        notes = (*rows.notes, *_notes_on(made, rows.left_out))
        log = self.numbered(self.stored(tuple(each.file for each in made), unit=None, notes=notes))
        _require_own_numbers(source, log)
        # By unit only after numbering, which goes by the order of the source.
        if unit is not None:
            log = self.by_unit(log, unit, secrets.randbits(64))
        return Opened(log, seen.merge(pl.concat([each.seen for each in made])))

    def _in_driver(self) -> LocalEngine:
        """What opens a log that the driver holds; its tasks run on Spark all the same."""
        return LocalEngine(
            executor=self.executor,
            workspace=self.workspace,
            batch_events=self.batch_events,
            part_events=self.part_events,
        )


@frozen
class MadeBatch:
    """A batch that a task wrote, what the aggregate saw of its source, and notes on it.

    ``conflicts``: the case attributes of which a case names two values, and the row (from 0) where
    one first does.
    """

    file: BatchFile
    seen: pl.DataFrame
    notes: tuple[str, ...]
    conflicts: dict[str, int]


@frozen
class BatchMaking:
    """How rows of whole cases become a batch; fields as of ``SparkRows`` and ``Engine.open``."""

    label: str
    names: ColumnNames
    request: ReadRequest
    as_text: frozenset[str]
    prepare: Change
    seen: Aggregate

    def made(self, frame: pl.DataFrame, path: Path) -> MadeBatch:
        """The batch of the rows ``frame``, sorted by ``ROW``."""
        log, conflicts = self.read(frame)
        file = write_batch(self.prepare(log), path)
        return MadeBatch(file, self.seen.of(log), log.notes, conflicts)

    def read(self, frame: pl.DataFrame) -> tuple[EventLog, dict[str, int]]:
        """The log of these rows, as a reader of one file makes it of all, and the conflicts in it;
        ``case_index``: the number of a case's first row.
        """
        numbers = values_of(frame, ROW)
        # Rows come sorted, so equal numbers are neighbours.
        if (numbers.diff(null_behavior="drop") == 0).any():
            raise _not_numbered(self.label)
        table = FileTable(Path(self.label), self._columns(frame), lambda row: int(numbers[row]) + 1)
        log = collected(TableSource(table, self.names, self.request))
        # Conflicts are told by the row of the whole source, not by that of this batch.
        found = {
            name: int(numbers[int(place.removeprefix("row ")) - 1])
            for name, place in log.source.conflicts.items()
        }
        places = {name: row_place(row) for name, row in found.items()}
        # Notes on rows of this batch, or on all: they are said once, of all.
        elsewhere = {*self.names.notes, *notes_on_cases(0, log.source.conflicts)}
        own_notes = tuple(note for note in log.notes if note not in elsewhere)
        source = replace(log.source, conflicts=places)
        index = self._first_rows(frame)
        return replace(log, case_index=index, notes=own_notes, source=source), found

    def _columns(self, frame: pl.DataFrame) -> pl.DataFrame:
        columns: dict[str, pl.Series] = {}
        for name, full in self.names.kept.items():
            values = values_of(frame, name)
            is_text = full in self.request.text or name in self.as_text
            columns[name] = values.cast(pl.String) if is_text else values
        return pl.DataFrame(columns)

    def _first_rows(self, frame: pl.DataFrame) -> Ints:
        """The number of each case's first row, in the order of these."""
        ids = values_of(frame, case_id_column(self.names))
        rows = pl.DataFrame({"case": ids, "row": values_of(frame, ROW)})
        firsts = rows.group_by("case", maintain_order=True).agg(pl.col("row").first())
        return firsts["row"].to_numpy().astype(np.int64)


def tables_by_place(
    batches: Iterator["pa.RecordBatch"],
) -> Iterator[tuple[int, pl.DataFrame]]:
    """The rows of each place; ``batches`` are sorted by place and row."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    place: int | None = None
    # A batch may hold several places, and a place several batches.
    for batch in batches:
        places = batch.column(PLACE).to_numpy()
        starts = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)]
        for begin, end in pairwise(starts):
            if begin == end:
                continue
            if place is not None and places[begin] != place:
                yield place, _as_polars(held)
                held = []
            place = int(places[begin])
            held.append(batch.slice(begin, end - begin))
    if place is not None:
        yield place, _as_polars(held)


def _as_polars(batches: "list[pa.RecordBatch]") -> pl.DataFrame:
    """Times with a zone in UTC: Spark hands them on in the session's."""
    import pyarrow as pa

    table = pa.Table.from_batches(batches)
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            times = table.column(place).cast(pa.timestamp("us", "UTC"))
            table = table.set_column(place, field.name, times)
    return pl.DataFrame(table)


def _require_own_numbers(source: SparkSource, log: BatchedLog) -> None:
    """Refuse cases of which nobody can say which comes first."""
    cases = log.case_count
    # Each case's number is how many have a smaller first row: for two alike one is missing.
    ranks = np.memmap(log.numbers.path, np.int64, "r") if log.numbers and cases else np.arange(0)
    if int(ranks.sum()) < cases * (cases - 1) // 2:
        raise _not_numbered(source.label)


def _not_numbered(label: str) -> LogError:
    hint = "name a column that gives each row a number of its own: --column row=COLUMN"
    return LogError(label, "two rows have one number, so that their order is not known", hint=hint)


def _notes_on(made: Sequence[MadeBatch], left_out: int) -> tuple[str, ...]:
    """What the tasks did about irregularities, as a reader of all rows would say it."""
    conflicts: dict[str, int] = {}
    # The first row of all batches is the one that is said.
    for name, row in (each for batch in made for each in batch.conflicts.items()):
        conflicts[name] = min(row, conflicts.get(name, row))
    places = {name: row_place(row) for name, row in conflicts.items()}
    return (*notes_on_cases(left_out, places), *merged_notes([each.notes for each in made]))


def merged_notes(notes: list[tuple[str, ...]]) -> tuple[str, ...]:
    """The notes of all batches, each once, their counts (``what: 17``) added up."""
    counts: dict[str, int] = {}
    for note in (each for of_batch in notes for each in of_batch):
        # Only what ends in a number is counted; other notes are said once.
        what, _, count = note.rpartition(": ")
        key, number = (what, int(count)) if what and count.isdigit() else (note, 0)
        counts[key] = counts.get(key, 0) + number
    return tuple(f"{what}: {count}" if count else what for what, count in counts.items())

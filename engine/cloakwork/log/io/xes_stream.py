"""XES files as rows, in one pass and little memory: events of whole traces."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from cloakwork.log.arrays import Ints
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, CASE_PREFIX, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.log.io.column_layout import Kind, Layout, ValueRun, place_values, round_trips
from cloakwork.log.io.columns import (
    ColumnBuilder,
    ColumnRuns,
    Conflicting,
    Irregularities,
    MissingValues,
    TooManyKeys,
    first_conflict,
    first_repeated_id,
    irregularity_notes,
    read_kind,
    settled_kinds,
    typed_values,
)
from cloakwork.log.io.request import TableRequest
from cloakwork.log.io.row_source import (
    CELLS,
    MOST_ROWS,
    PLACE,
    ROW,
    Findings,
    RawChunk,
    ReadAgain,
)
from cloakwork.log.io.source import LogStream
from cloakwork.log.io.xes_fast import fast_chunks
from cloakwork.log.io.xes_full import full_chunks
from cloakwork.log.io.xes_markup import Declined
from cloakwork.log.naming import values_of
from cloakwork.log.spelling import SourceSpelling

_STANDARD_CASES: Final = {CASE_ID: pl.String()}
_STANDARD_EVENTS: Final = {ACTIVITY: pl.String(), TIMESTAMP: TIME_TYPE}


@dataclass
class _Attribute:
    """What is known of one attribute so far: its column's number, the kinds that it came in,
    whether its values give back their texts, and how many of its times name no zone.
    """

    number: str
    kinds: set[Kind] = field(default_factory=set)
    is_exact: bool = True
    zoneless: int = 0


@dataclass
class _Evidence:
    """What the traces so far say of attributes, and of irregularities."""

    attributes: dict[str, _Attribute] = field(default_factory=dict)
    irregular: Irregularities = field(default_factory=Irregularities)
    conflicts: dict[str, str] = field(default_factory=dict)
    missing: MissingValues = field(default_factory=MissingValues)
    traces: int = 0
    events: int = 0
    is_unordered: bool = False

    def of(self, name: str) -> _Attribute:
        """The attribute of this full name."""
        if name not in self.attributes:
            self.attributes[name] = _Attribute(str(len(self.attributes)))
        return self.attributes[name]


@dataclass(frozen=True, slots=True)
class XesColumn:
    """A column of a XES file's rows or cases: its number, its full name, the kind that its texts
    are read as; ``is_exact``: whether that gives them back.
    """

    number: str
    name: str
    kind: Kind
    is_exact: bool


class XesSource:
    """XES files, in this order; of ``request`` only what is said of XES counts."""

    def __init__(self, files: Sequence[Path], request: TableRequest) -> None:
        self._files, self._request = tuple(files), request
        self._is_plain = True
        self._bytes_read = 0
        self._evidence = _Evidence()
        self._kinds: Mapping[str, Kind] = dict.fromkeys(request.text, "text")

    def expected_rows(self) -> int:
        """About how many events there are."""
        size = sum(path.stat().st_size for path in self._files)
        return self._evidence.events * max(1, size) // max(1, self._bytes_read)

    def chunks(self) -> Iterator[RawChunk]:
        """The events of all files. Errors as of ``read_xes``; ``ReadAgain`` where a file turns out
        to be written otherwise than the fast reader reads it.
        """
        self._evidence = _Evidence()
        before, is_begun = 0, False
        for path in self._files:
            try:
                for chunk in self._chunks_of(path, before):
                    is_begun = True
                    yield chunk
            except (Declined, Conflicting):
                self._is_plain = False
                if is_begun or path != self._files[0]:
                    raise ReadAgain from None
                self._evidence = _Evidence()
                for chunk in self._chunks_of(path, before):
                    is_begun = True
                    yield chunk
            before += path.stat().st_size
        if self._evidence.is_unordered:
            self._kinds = {**self._settled(), **self._kinds}
            raise ReadAgain

    def assembler(self) -> "XesAssembler":
        """What makes logs of the rows."""
        evidence = self._evidence
        settled = self._settled()
        columns = [
            _settled_column(name, each, settled) for name, each in evidence.attributes.items()
        ]
        dates = [column.name for column in columns if column.kind == "date"]
        zoneless = sum(evidence.attributes[name].zoneless for name in dates)
        return XesAssembler(
            tuple(columns),
            replace(evidence.irregular, zoneless=zoneless),
            evidence.missing,
            {**settled, **self._kinds},
            self._files,
            replace(self._request, keep=None),
            evidence.conflicts,
        )

    def _settled(self) -> dict[str, Kind]:
        """The kinds of attributes that came in several."""
        attributes = self._evidence.attributes
        return settled_kinds({name: each.kinds for name, each in attributes.items()})

    def _chunks_of(self, path: Path, before: int) -> Iterator[RawChunk]:
        request = self._request
        name = path.name if len(self._files) > 1 else ""
        with LogStream(path, request.limits) as stream:
            collector = _Collector(self._evidence, self._kinds, request, name)
            read = fast_chunks if self._is_plain else full_chunks
            for _ in read(stream, collector):
                self._bytes_read = before + stream.taken
                if collector.is_full:
                    yield from collector.take(is_last=False)
            yield from collector.take(is_last=True)


class _Collector(ColumnBuilder):
    """Gathers runs of values as the readers find them in one file, and hands over what whole traces
    say.
    """

    def __init__(
        self, evidence: _Evidence, kinds: Mapping[str, Kind], request: TableRequest, file: str
    ) -> None:
        super().__init__(request.keep, kinds, limits=request.limits, on_excess=request.on_excess)
        self.irregular = evidence.irregular
        self._evidence, self._file = evidence, file
        self._first_trace, self._first_event = evidence.traces, evidence.events
        self._taken_traces = self._taken_events = 0
        self._waiting: dict[str, ColumnRuns] = {}

    def add_run(self, run: ValueRun) -> None:
        """Take in one run of an attribute that is read; errors as of ``ColumnBuilder``."""
        name = self.name_of(run.scope, run.key)
        if name is None or not len(run.rows):
            return
        kind = self.kind_of(name, run.kind)
        attribute = self._evidence.of(name)
        if len(self._evidence.attributes) > self.limits.attributes:
            raise TooManyKeys(name)
        typed, zoneless = typed_values(run, kind)
        attribute.kinds.add(kind)
        attribute.zoneless += zoneless
        is_time = name == TIMESTAMP and kind == "date"
        attribute.is_exact = attribute.is_exact and not is_time and round_trips(run.values, typed)
        column = self._waiting.setdefault(name, ColumnRuns())
        column.rows.append(run.rows)
        column.values.append(typed if is_time else run.values + "")
        column.lines.append(run.lines)

    @property
    def is_full(self) -> bool:
        """Whether there is enough for a chunk."""
        if self.traces - 1 <= self._taken_traces:
            return False
        events = self.events - self._taken_events
        columns = max(1, len(self._evidence.attributes))
        return events >= MOST_ROWS or events * columns >= CELLS

    def take(self, *, is_last: bool) -> Iterator[RawChunk]:
        """The traces that are known to be whole: all but the latest, or all of them."""
        case_of = np.concatenate([np.zeros(0, np.int64), *self._case_of])
        end_trace = self.traces if is_last else self.traces - 1
        if end_trace <= self._taken_traces:
            return
        held = int(np.searchsorted(case_of, end_trace))
        end_event = self._taken_events + held
        cases = self._table(CASE_PREFIX, self._taken_traces, end_trace)
        events = self._table("", self._taken_events, end_event)
        places = np.arange(self._taken_traces, end_trace) + self._first_trace
        rows = np.arange(self._taken_events, end_event) + self._first_event
        self._case_of = [case_of[held:]]
        self._taken_traces, self._taken_events = end_trace, end_event
        self._evidence.traces = self._first_trace + end_trace
        self._evidence.events = self._first_event + end_event
        yield self._chunk(
            pl.DataFrame({**cases, PLACE: places}),
            pl.DataFrame({**events, ROW: rows, PLACE: case_of[:held] + self._first_trace}),
        )

    def _chunk(self, cases: pl.DataFrame, rows: pl.DataFrame) -> RawChunk:
        """The chunk, what it lacks counted."""
        ids = self._column(cases, CASE_ID)
        missing = self._evidence.missing
        self._evidence.missing = MissingValues(
            ids=missing.ids + ids.null_count(),
            activities=missing.activities + self._column(rows, ACTIVITY).null_count(),
            times=missing.times + self._column(rows, TIMESTAMP).null_count(),
        )
        attribute = self._evidence.attributes.get(CASE_ID)
        is_there = attribute is not None and attribute.number in cases.columns
        return RawChunk(rows, attribute.number if attribute and is_there else None, cases)

    def _column(self, table: pl.DataFrame, name: str) -> pl.Series:
        attribute = self._evidence.attributes.get(name)
        if attribute is None or attribute.number not in table.columns:
            return pl.Series([None], dtype=pl.String).new_from_index(0, table.height)
        return values_of(table, attribute.number)

    def _table(self, scope: str, start: int, end: int) -> dict[str, pl.Series]:
        """The columns of the cases or the events from ``start`` to ``end`` in the file, by their
        numbers.
        """
        table: dict[str, pl.Series] = {}
        layout = Layout(end - start, None, min_rows_for_sparse=inf)
        for name, column in self._waiting.items():
            if name.startswith(CASE_PREFIX) != bool(scope) or not column.rows:
                continue
            whole = self._split(name, column, end)
            if not len(whole.rows[0]):
                continue
            if scope:
                self._note_conflict(name, whole)
            rows = whole.rows[0] - start
            self.irregular.repeated += int((np.diff(rows) == 0).sum())
            values = place_values(whole.values[0], rows, layout)
            table[self._evidence.of(name).number] = values
        return table

    def _split(self, name: str, column: ColumnRuns, end: int) -> ColumnRuns:
        """What a column says of rows before ``end``; the rest stays in waiting."""
        whole = self._in_file_order(column)
        rows, values, lines = whole.rows[0], whole.values[0], whole.lines[0]
        held = int(np.searchsorted(rows, end))
        before, behind = (None, None) if lines is None else (lines[:held], lines[held:])
        rest = ColumnRuns(rows=[rows[held:]], values=[values[held:]], lines=[behind])
        self._waiting[name] = rest if held < len(rows) else ColumnRuns()
        return ColumnRuns(rows=[rows[:held]], values=[values[:held]], lines=[before])

    def _in_file_order(self, column: ColumnRuns) -> ColumnRuns:
        """The runs of a column as one. Values of several kinds come in a run each: where one row
        has some of two, their order is known only to a reader that was told their kind.
        """
        rows = np.concatenate(column.rows)
        values = pl.concat(column.values, rechunk=True)
        lines = None
        if all(known is not None for known in column.lines):
            lines = np.concatenate([np.asarray(known, np.int64) for known in column.lines])
        if (np.diff(rows) < 0).any():
            order = np.argsort(rows, kind="stable")
            run_of = np.repeat(np.arange(len(column.rows)), [len(run) for run in column.rows])
            again = (np.diff(rows[order]) == 0) & (np.diff(run_of[order]) != 0)
            self._evidence.is_unordered |= bool(again.any())
            rows, values = rows[order], values.gather(order)
            lines = None if lines is None else lines[order]
        return ColumnRuns(
            rows=[rows], values=[values], lines=[None if lines is None else lines.tolist()]
        )

    def _note_conflict(self, name: str, column: ColumnRuns) -> None:
        if name in self._evidence.conflicts:
            return
        place = first_conflict(column, column.values)
        if place:
            self._evidence.conflicts[name] = _in_file(self._file, place)


@dataclass(frozen=True, slots=True)
class XesAssembler:
    """Makes logs of the cases of XES files."""

    columns: tuple[XesColumn, ...]
    irregular: Irregularities
    missing: MissingValues
    kinds: Mapping[str, Kind]
    files: tuple[Path, ...]
    request: TableRequest
    conflicts: Mapping[str, str]
    repeated: str = ""

    @property
    def surveyed(self) -> tuple[str, ...]:
        """Cases alone can repeat an id."""
        return ()

    def findings(self, rows: pl.DataFrame | None, cases: pl.DataFrame | None) -> Findings:
        """How many cases have the id of an earlier one."""
        number = next((each.number for each in self.columns if each.name == CASE_ID), None)
        if cases is None or number not in cases.columns:
            return Findings()
        ids = values_of(cases, number).drop_nulls()
        return Findings(repeated_ids=len(ids) - ids.n_unique())

    def settled(self, found: Findings) -> "XesAssembler":
        """Where an id is repeated, the files are read again to name the first place."""
        if not found.repeated_ids:
            return self
        missing = replace(self.missing, repeated_ids=found.repeated_ids)
        return replace(self, missing=missing, repeated=_first_repetition(self.files, self.request))

    def log_of(self, rows: pl.DataFrame, cases: pl.DataFrame | None = None) -> EventLog:
        """The log of whole traces; ``case_index``: where each stands in all files."""
        if cases is None:
            cases = pl.DataFrame(schema={PLACE: pl.Int64})
        cases, rows = _in_order(cases, PLACE), _in_order(rows, ROW)
        texts: dict[str, pl.Series] = {}
        case_table = self._table(cases, CASE_PREFIX, texts)
        event_table = self._table(rows, "", texts)
        places = cases[PLACE].to_numpy().astype(np.int64)
        case_of = np.searchsorted(places, rows[PLACE].to_numpy()).astype(np.int64)
        named = [each for each in self.columns if each.name != TIMESTAMP]
        exact = frozenset(each.name for each in named if each.is_exact)
        source = SourceSpelling(exact, texts, {}, dict(self.conflicts), self.repeated)
        notes = tuple(irregularity_notes(self.irregular, self.missing, self.kinds))
        log = EventLog.build(event_table, case_table, case_of, notes=notes, source=source)
        return replace(log, case_index=places)

    def _table(self, stored: pl.DataFrame, scope: str, texts: dict[str, pl.Series]) -> pl.DataFrame:
        """The columns of cases or of events as what they are; the texts of those that do not give
        them back go to ``texts``.
        """
        first = _STANDARD_CASES if scope else _STANDARD_EVENTS
        found: dict[str, pl.Series] = {}
        for column in self.columns:
            name = column.name
            if name.startswith(CASE_PREFIX) != bool(scope):
                continue
            text = _stored_values(stored, column)
            is_read = text.dtype == TIME_TYPE
            found[name] = text if is_read else read_kind(text, column.kind)[0]
            if not column.is_exact and name != TIMESTAMP:
                texts[name] = text
        height = stored.height
        return pl.DataFrame(
            {
                name: found[name] if name in found else _nulls(first[name], height)
                for name in dict.fromkeys([*first, *found])
            }
        )


def _settled_column(name: str, attribute: _Attribute, settled: Mapping[str, Kind]) -> XesColumn:
    """A column as all traces together say; the texts of whole numbers that are read as decimal ones
    are not given back.
    """
    if name in settled:
        return XesColumn(attribute.number, name, settled[name], settled[name] == "text")
    kind, is_exact = next(iter(attribute.kinds)), attribute.is_exact
    return XesColumn(attribute.number, name, kind, is_exact)


def _stored_values(stored: pl.DataFrame, column: XesColumn) -> pl.Series:
    if column.number in stored.columns:
        return values_of(stored, column.number)
    is_time = column.name == TIMESTAMP and column.kind == "date"
    return _nulls(TIME_TYPE if is_time else pl.String(), stored.height)


def _nulls(kind: pl.DataType, height: int) -> pl.Series:
    return pl.Series([None], dtype=kind).new_from_index(0, height)


def _in_order(table: pl.DataFrame, by: str) -> pl.DataFrame:
    return table if table[by].is_sorted() else table.sort(by)


def _in_file(file: str, place: str) -> str:
    """A place, with its file's name where there are several."""
    return f"{file} {place}" if file else place


class _CaseIds(ColumnBuilder):
    """Gathers nothing but the ids of traces, with their lines."""

    def __init__(self, request: TableRequest) -> None:
        super().__init__(lambda _: False, {}, limits=request.limits, on_excess=request.on_excess)
        self.found = ColumnRuns()

    def open_cases(self, traces: int, case_of: Ints) -> None:
        """Count traces alone."""
        super().open_cases(traces, case_of)
        self._case_of.clear()

    def add_run(self, run: ValueRun) -> None:
        """Take in the ids."""
        if self.name_of(run.scope, run.key) == CASE_ID:
            self.found.rows.append(run.rows)
            self.found.values.append(run.values + "")
            self.found.lines.append(run.lines)


def _first_repetition(files: Sequence[Path], request: TableRequest) -> str:
    """Where a trace first states the id of an earlier one; empty where none does."""
    known = pl.Series(dtype=pl.String)
    for path in files:
        ids = _CaseIds(request)
        with LogStream(path, request.limits) as stream:
            for _ in full_chunks(stream, ids):
                pass
        if not ids.found.rows:
            continue
        found = _behind(known, ids.found)
        place = first_repeated_id(found, found.values)
        if place:
            return _in_file(path.name if len(files) > 1 else "", place)
        known = pl.concat([known, *ids.found.values])
    return ""


def _behind(known: pl.Series, found: ColumnRuns) -> ColumnRuns:
    """The ids of one file behind those of the files before it."""
    before = len(known)
    rows = [np.arange(before) - before, *found.rows]
    return ColumnRuns(rows=rows, values=[known, *found.values], lines=[[0] * before, *found.lines])

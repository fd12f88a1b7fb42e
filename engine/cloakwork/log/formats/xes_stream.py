"""XES files as rows, in one pass and little memory: events of whole traces."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

import numpy as np
import polars as pl

from cloakwork.base.naming import values_of
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP
from cloakwork.log.formats.column_layout import Kind, Layout, ValueRun, place_values, round_trips
from cloakwork.log.formats.columns import (
    ColumnBuilder,
    ColumnRuns,
    Conflicting,
    Irregularities,
    MissingValues,
    TooManyKeys,
    first_conflict,
    settled_kinds,
    typed_values,
)
from cloakwork.log.formats.request import TableRequest
from cloakwork.log.formats.row_source import (
    CELLS,
    MOST_ROWS,
    PLACE,
    ROW,
    RawChunk,
    ReadAgain,
)
from cloakwork.log.formats.source import LogStream
from cloakwork.log.formats.xes_cases import XesAssembler, XesColumn, place_in_file
from cloakwork.log.formats.xes_fast import fast_chunks
from cloakwork.log.formats.xes_full import full_chunks
from cloakwork.log.formats.xes_markup import Declined


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
            runs = self._split(name, column, end)
            if not len(runs.rows[0]):
                continue
            if scope:
                self._note_conflict(name, runs)
            rows = runs.rows[0] - start
            self.irregular.repeated += int((np.diff(rows) == 0).sum())
            values = place_values(runs.values[0], rows, layout)
            table[self._evidence.of(name).number] = values
        return table

    def _split(self, name: str, column: ColumnRuns, end: int) -> ColumnRuns:
        """What a column says of rows before ``end``; the rest stays in waiting."""
        runs = self._in_file_order(column)
        rows, values, lines = runs.rows[0], runs.values[0], runs.lines[0]
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
            self._evidence.conflicts[name] = place_in_file(self._file, place)


def _settled_column(name: str, attribute: _Attribute, settled: Mapping[str, Kind]) -> XesColumn:
    """A column as all traces together say; the texts of whole numbers that are read as decimal ones
    are not given back.
    """
    if name in settled:
        return XesColumn(attribute.number, name, settled[name], settled[name] == "text")
    kind, is_exact = next(iter(attribute.kinds)), attribute.is_exact
    return XesColumn(attribute.number, name, kind, is_exact)

"""Logs of the traces of XES files, once all of them were read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.naming import named, values_of
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, CASE_PREFIX, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.log.formats.column_layout import Kind, ValueRun
from cloakwork.log.formats.columns import (
    ColumnBuilder,
    ColumnRuns,
    Irregularities,
    MissingValues,
    first_repeated_id,
    irregularity_notes,
    read_kind,
)
from cloakwork.log.formats.request import TableRequest
from cloakwork.log.formats.row_source import (
    PLACE,
    ROW,
    Findings,
)
from cloakwork.log.formats.source import LogStream
from cloakwork.log.formats.xes_full import full_chunks
from cloakwork.log.table import SourceSpelling

_STANDARD_CASES: Final = {CASE_ID: pl.String()}
_STANDARD_EVENTS: Final = {ACTIVITY: pl.String(), TIMESTAMP: TIME_TYPE}


@dataclass(frozen=True, slots=True)
class XesColumn:
    """A column of a XES file's rows or cases: its number, its full name, the kind that its texts
    are read as; ``is_exact``: whether that gives them back.
    """

    number: str
    name: str
    kind: Kind
    is_exact: bool


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


def _stored_values(stored: pl.DataFrame, column: XesColumn) -> pl.Series:
    if column.number in stored.columns:
        return values_of(stored, column.number)
    is_time = column.name == TIMESTAMP and column.kind == "date"
    return _nulls(TIME_TYPE if is_time else pl.String(), stored.height)


def _nulls(kind: pl.DataType, height: int) -> pl.Series:
    return pl.Series([None], dtype=kind).new_from_index(0, height)


def _in_order(table: pl.DataFrame, by: str) -> pl.DataFrame:
    return table if values_of(table, by).is_sorted() else table.sort(named(by))


def place_in_file(file: str, place: str) -> str:
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
            return place_in_file(path.name if len(files) > 1 else "", place)
        known = pl.concat([known, *ids.found.values])
    return ""


def _behind(known: pl.Series, found: ColumnRuns) -> ColumnRuns:
    """The ids of one file behind those of the files before it."""
    before = len(known)
    rows = [np.arange(before) - before, *found.rows]
    return ColumnRuns(rows=rows, values=[known, *found.values], lines=[[0] * before, *found.lines])

"""Tables read in stretches: what is learnt of each column on the way, and the logs that are made of
whole cases in the end.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.errors import LogError
from cloakwork.base.naming import values_of
from cloakwork.base.text import shown
from cloakwork.log.eventlog import (
    ACTIVITY,
    CASE_ID,
    CASE_PREFIX,
    TIME_TYPE,
    TIMESTAMP,
    EventLog,
    notes_on_cases,
)
from cloakwork.log.formats.column_names import ColumnNames
from cloakwork.log.formats.columns import NO_ACTIVITY, NO_TIME, OVERSIZED
from cloakwork.log.formats.flat import (
    EXACT_DIGITS,
    FileTable,
    counted_notes,
    irregular_times,
    left_out,
    most_digits,
    read_times,
    standard_first,
    to_simple_type,
    two_values,
)
from cloakwork.log.formats.request import TableRequest
from cloakwork.log.formats.row_numbers import (
    first_numbers,
    least_repeated,
    numbered_alike,
    repeated_number,
    whole_numbers,
)
from cloakwork.log.formats.row_source import ROW, Findings, RawChunk
from cloakwork.log.formats.type_evidence import TextKind, gives_texts_back, kind_of_texts, read_as
from cloakwork.log.table import FlatTable, row_place

WIDE: Final = (pl.UInt64, pl.Int128, pl.UInt128)
"""Whole numbers that may not fit into 64 bits with a sign."""


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column of the rows of a table: its number, its full name, and what it becomes.

    ``kind``: what its texts are read as, None where it holds no texts to be read; ``is_exact`` and
    ``has_texts``: as in ``SourceSpelling``.
    """

    number: str
    name: str
    dtype: pl.DataType
    kind: TextKind | None = None
    is_exact: bool = False
    has_texts: bool = False


@dataclass(frozen=True, slots=True)
class TableAssembler:
    """Makes logs of the cases of a table."""

    columns: tuple[StoredColumn, ...]
    file_notes: tuple[str, ...]
    counted: tuple[str, ...]
    rows_left_out: int
    refusal_of: Callable[[str, int], LogError] = field(repr=False)
    required: frozenset[str] = frozenset()
    numbered: tuple[Path, str] | None = None
    found: Findings = field(default_factory=Findings)

    @property
    def surveyed(self) -> tuple[str, ...] | None:
        """The columns of cases."""
        numbers = [each.number for each in self.columns if each.name.startswith(CASE_PREFIX)]
        return tuple(numbers) if len(numbers) > 1 or self.numbered is not None else None

    def findings(self, rows: pl.DataFrame | None, cases: pl.DataFrame | None = None) -> Findings:
        """Which attributes of cases differ within one, and where."""
        if rows is None or not rows.height:
            return Findings()
        table, exact = self._table(rows)
        source = table.spelling(table.row_of_case(table.cases()), exact)
        conflicts = {
            name: int(place.removeprefix("row ")) - 1 for name, place in source.conflicts.items()
        }
        if self.numbered is None:
            return Findings(frozenset(source.rows), conflicts)
        case_ids, numbers = table.frame[CASE_ID], pl.Series(table.row_numbers) + 1
        return Findings(
            frozenset(source.rows),
            conflicts,
            repeated_number=repeated_number(case_ids, numbers),
            first_numbers=(first_numbers(case_ids, numbers),),
        )

    def settled(self, found: Findings) -> "TableAssembler":
        """Raises LogError where one case names two values of an attribute that must have one, or
        numbers of rows leave their order open.
        """
        if self.numbered is not None:
            self._require_distinct(self.numbered, found)
        for name in sorted(self.required & found.conflicts.keys()):
            raise self.refusal_of(name, found.conflicts[name])
        return replace(self, found=found)

    @staticmethod
    def _require_distinct(numbered: tuple[Path, str], found: Findings) -> None:
        again = found.repeated_number
        if again is None and found.first_numbers:
            again = least_repeated(np.concatenate(found.first_numbers))
        if again is not None:
            raise numbered_alike(*numbered, again)

    def log_of(self, rows: pl.DataFrame, cases: pl.DataFrame | None = None) -> EventLog:
        """The log of whole cases; ``case_index``: the row of each case's first event."""
        table, exact = self._table(rows)
        of_cases = table.cases()
        case_of = table.row_of_case(of_cases)
        spelling = table.spelling(case_of, exact, self.found.differing)
        conflicts = {
            each.name: row_place(self.found.conflicts[each.name])
            for each in self.columns
            if each.name in self.found.conflicts
        }
        log = EventLog.build(
            table.event_columns(), of_cases, case_of, source=replace(spelling, conflicts=conflicts)
        )
        _, first = np.unique(case_of, return_index=True)
        notes = (
            *self.file_notes,
            *notes_on_cases(self.rows_left_out, conflicts),
            *self.counted,
        )
        return replace(standard_first(log), notes=notes, case_index=table.row_numbers[first])

    def _table(self, rows: pl.DataFrame) -> tuple[FlatTable, frozenset[str]]:
        """Those of the columns that ``rows`` have, by their names, in the order of the file; all
        of them, empty, where there are no rows.
        """
        if not rows[ROW].is_sorted():
            rows = rows.sort(ROW)
        frame: dict[str, pl.Series] = {}
        texts: dict[str, pl.Series] = {}
        exact: set[str] = set()
        for column in self.columns:
            if column.number in rows.columns:
                values = values_of(rows, column.number)
            elif rows.height:
                continue
            else:
                values = pl.Series(dtype=column.dtype)
            frame[column.name] = values if column.kind is None else read_as(values, column.kind)
            if column.has_texts:
                texts[column.name] = values
            if column.is_exact:
                exact.add(column.name)
        numbers = rows[ROW].to_numpy().astype(np.int64)
        table = _with_standard_columns(pl.DataFrame(frame), self.columns)
        return FlatTable(table, numbers, texts, 0), frozenset(exact)


def _with_standard_columns(frame: pl.DataFrame, columns: tuple[StoredColumn, ...]) -> pl.DataFrame:
    """The table with the times and the activities that no column of the file holds."""
    names = {column.name for column in columns}
    if TIMESTAMP not in names:
        frame = frame.with_columns(pl.lit(None, TIME_TYPE).alias(TIMESTAMP))
    if ACTIVITY not in names:
        frame = frame.with_columns(pl.lit(None, pl.String).alias(ACTIVITY))
    return frame


@dataclass(frozen=True, slots=True)
class TwoValues:
    """The refusal of an attribute of cases of which one names two values.

    ``first_rows``: where the first row of each of the files stands in all of them; ``line_of``: the
    line of a row (from 0) of a file, where rows have lines.
    """

    names: ColumnNames
    files: tuple[Path, ...]
    first_rows: tuple[int, ...]
    line_of: Callable[[Path, int], int | None] | None = None

    def __call__(self, name: str, row: int) -> LogError:
        """Of the attribute called ``name`` in full, at ``row`` (from 0) of all files."""
        if self.names.row_number is not None:
            return two_values(self.files[0], self.names, name, row, None)
        place = bisect_right(self.first_rows, row) - 1
        path, row = self.files[place], row - self.first_rows[place]
        line = self.line_of(path, row) if self.line_of else None
        return two_values(path, self.names, name, row, line)


class TableEvidence:
    """What a table's stretches say, one after the other: of its columns, and of irregularities.

    ``infers``: columns hold texts whose types are to be found; ``as_text``: those (by full names)
    that stay texts.
    """

    def __init__(self, names: ColumnNames, request: TableRequest, *, infers: bool = False) -> None:
        self.names, self.request, self.infers = names, request, infers
        self.as_text: set[str] = set()
        self.oversized = self.rows = 0
        self._numbers = {name: str(place) for place, name in enumerate(names.kept.values())}
        self._kinds: dict[str, TextKind] = {}
        self._fits: dict[str, bool] = {}
        self._dtypes: dict[str, pl.DataType] = {}
        self._dropped: dict[str, pl.DataType] = {}
        self._times: dict[str, Counter[str]] = {}
        self._without_case = self._no_activity = self._no_time = 0

    def take(self, table: FileTable) -> RawChunk:
        """The next stretch, under the file's names, as rows. ``LogError`` for a value that no log
        holds, as ``read_log`` raises it.
        """
        frame = table.frame.rename(self.names.kept)
        stored: dict[str, pl.Series] = {}
        for name in frame.columns:
            values = self._stored(table, name, values_of(frame, name))
            if values is None:
                self._dropped[name] = frame.schema[name]
                continue
            stored[self._numbers[name]] = values
            self._dtypes[name] = values.dtype
        left_out(table.path, self._dropped)
        first_row = self.rows
        self.rows += frame.height
        numbers = pl.int_range(first_row, self.rows, dtype=pl.Int64, eager=True)
        if table.numbers is not None and self.names.row_number is not None:
            numbers = whole_numbers(table.path, self.names.row_number, table.numbers) - 1
        return self._with_cases(pl.DataFrame({**stored, ROW: numbers}))

    def columns(self) -> tuple[StoredColumn, ...]:
        """The columns of the rows, as all stretches together say."""
        return tuple(self._column(name, dtype) for name, dtype in self._dtypes.items())

    def assembler(
        self, path: Path, notes: tuple[str, ...], refusal_of: Callable[[str, int], LogError]
    ) -> TableAssembler:
        """What makes logs of the rows; ``notes``: what the reader says beside."""
        irregular = [pair for found in self._times.values() for pair in _pairs(found)]
        return TableAssembler(
            self.columns(),
            (
                *self.names.notes,
                *notes,
                *counted_notes((self.oversized, OVERSIZED)),
                *left_out(path, self._dropped),
            ),
            counted_notes((self._no_activity, NO_ACTIVITY), (self._no_time, NO_TIME), *irregular),
            self._without_case,
            refusal_of,
            self.names.mapped - self.request.varying,
            None if self.names.row_number is None else (path, self.names.row_number),
        )

    def _stored(self, table: FileTable, name: str, values: pl.Series) -> pl.Series | None:
        """A column as it is kept; None for one that is left out."""
        if name in (TIMESTAMP, self.request.timestamp):
            return self._read_times(table, name, values)
        if self.infers and name not in self.request.spelt:
            if name not in self.as_text:
                self._kinds[name] = kind_of_texts(values, self._kinds.get(name, "empty"))
            return values
        if name not in (CASE_ID, ACTIVITY):
            digits = isinstance(values.dtype, pl.Decimal)
            if digits or values.dtype in WIDE:
                fits = _fits(values)
                self._fits[name] = fits and self._fits.get(name, True)
                self._kinds[name] = "decimals" if digits else "integers"
                return values.cast(pl.String)
        first_row = table.first_row
        return to_simple_type(table.path, name, values, self.request.times, first_row)

    def _read_times(self, table: FileTable, name: str, values: pl.Series) -> pl.Series:
        if values.dtype == TIME_TYPE:
            return values
        read = read_times(table, name, values, self.request)
        found = self._times.setdefault(name, Counter())
        for count, what in irregular_times(read, self.request):
            found[what] += count
        return read.values.cast(TIME_TYPE)

    def _with_cases(self, rows: pl.DataFrame) -> RawChunk:
        """The rows that have a case id; the others are counted."""
        case_id = self._numbers[CASE_ID]
        keys = values_of(rows, case_id)
        if keys.null_count():
            self._without_case += keys.null_count()
            rows = rows.filter(keys.is_not_null())
        if keys.dtype == pl.Null:
            rows = rows.with_columns(keys.cast(pl.String))
        self._no_activity += self._missing(rows, ACTIVITY)
        time = self.request.timestamp if self.request.timestamp in self._numbers else TIMESTAMP
        is_there = time in self._numbers
        self._no_time += self._missing(rows, time) if is_there else rows.height
        return RawChunk(rows, case_id)

    def _missing(self, rows: pl.DataFrame, name: str) -> int:
        number = self._numbers.get(name)
        return values_of(rows, number).null_count() if number in rows.columns else 0

    def _column(self, name: str, dtype: pl.DataType) -> StoredColumn:
        number = self._numbers[name]
        kind = self._kinds.get(name)
        if name in self._fits:
            fits = self._fits[name]
            is_decimal = kind == "decimals"
            return StoredColumn(
                number, name, dtype, kind if fits else None, False, fits and is_decimal
            )
        if name in self.as_text:
            return StoredColumn(number, name, dtype, is_exact=True)
        if kind is None:
            return StoredColumn(number, name, dtype)
        is_exact = gives_texts_back(kind)
        return StoredColumn(number, name, dtype, kind, is_exact, not is_exact)


def _fits(values: pl.Series) -> bool:
    """Whether whole numbers fit into 64 bits, and decimal ones into a floating-point number."""
    if isinstance(values.dtype, pl.Decimal):
        return most_digits(values) <= EXACT_DIGITS
    return values.cast(pl.Int64, strict=False).null_count() == values.null_count()


def _pairs(counts: Mapping[str, int]) -> list[tuple[int, str]]:
    return [(count, what) for what, count in counts.items()]


def require_same_columns(
    first: Path, columns: Sequence[str], path: Path, others: Sequence[str]
) -> None:
    """Refuse a file of a log of several whose columns are not those of the first one."""
    differing = [name for name in columns if name not in others]
    differing += [name for name in others if name not in columns]
    if differing:
        listed = ", ".join(f"'{shown(name)}'" for name in differing[:6])
        said = f"the columns are not those of {first.name}; only one of the two has {listed}"
        raise LogError(path, said, hint="write the files of one log alike")

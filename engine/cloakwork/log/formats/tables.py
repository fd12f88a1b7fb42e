"""Flat tables, one row an event: what is learnt of each column as a file is read in stretches, and
the logs that are made of whole cases in the end.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.errors import LogError, OutputError
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import LIFECYCLE, named, nulls, values_of
from cloakwork.base.text import shown
from cloakwork.log.eventlog import (
    ACTIVITY,
    CASE_ID,
    CASE_PREFIX,
    TIME_TYPE,
    TIMESTAMP,
    EventLog,
    FlatTable,
    SourceSpelling,
    notes_on_cases,
    read_alike,
    row_place,
)
from cloakwork.log.formats.column_names import MEANING, ColumnNames
from cloakwork.log.formats.intervals import as_asked
from cloakwork.log.formats.kinds import TYPES, Kind, gives_texts_back, inferred, joined_kinds
from cloakwork.log.formats.options import EPOCHS
from cloakwork.log.formats.row_source import (
    ROW,
    TEXT,
    Columns,
    Findings,
    RawChunk,
    ReadRequest,
    StoredColumn,
    in_row_order,
    text_columns,
)
from cloakwork.log.formats.source import too_long
from cloakwork.log.formats.written_times import ISO_TIMES, WrittenTimes, unreadable_time
from cloakwork.log.times import TIME_HINT, ParsedTimes, outside_calendar

NO_ACTIVITY: Final = "events without an activity"
NO_TIME: Final = "events without a timestamp"
NO_ZONE: Final = "timestamps without a zone (taken as UTC)"
OVERSIZED: Final = "values over the size limit, left out"
BLANK_LINES: Final = "blank lines, left out"
EXACT_DIGITS: Final = 15  # what a floating-point number keeps of a decimal one
WIDE: Final = (pl.UInt64, pl.Int128, pl.UInt128)
"""Whole numbers that may not fit into 64 bits with a sign."""

_DISTINCT_NUMBERS: Final = "give each row a number of its own"


@frozen
class FileTable:
    """A stretch of a file: its columns that are read, called as the file does, one row an event.

    ``line_of`` gives the line of a row (from 0), where rows have lines. ``first_row``: where the
    first row stands in the file. ``numbers``: those of the rows, where a column numbers them.
    ``texts`` and ``exact``: what the file says where ``frame`` holds no text (``SourceSpelling``).
    ``as_text``: columns that hold no numbers, whatever they look like.
    """

    path: Path
    frame: pl.DataFrame
    line_of: Callable[[int], int] | None = None
    first_row: int = 0
    numbers: pl.Series | None = None
    texts: Mapping[str, pl.Series] = field(default_factory=dict)
    exact: frozenset[str] = frozenset()
    as_text: frozenset[str] = frozenset()

    def line(self, row: int) -> int | None:
        """The line of a row, None where rows have none."""
        return self.line_of(row) if self.line_of else None


@dataclass
class _Column:
    """What is known so far of a column that is read.

    ``kind``: what its texts are or, of numbers that may not fit, what they can be read as; None:
    each stretch says the same type, ``dtype``, or it is left out (``dropped``). ``times``: how many
    of its times are irregular in some way.
    """

    number: str
    name: str
    kind: Kind | None = None
    dtype: pl.DataType | None = None
    dropped: pl.DataType | None = None
    is_exact: bool = False
    has_texts: bool = False
    times: Counter[str] = field(default_factory=Counter)

    def stored(self, *, infers: bool) -> StoredColumn:
        """As all stretches together have it."""
        dtype = self.dtype or pl.Null()
        if self.kind is None:
            return StoredColumn(self.number, self.name, None, dtype, self.is_exact, self.has_texts)
        # Texts that were inferred to be values are kept where these do not give them back.
        is_exact = infers and gives_texts_back(self.kind)
        has_texts = not is_exact if infers else self.kind == "float"
        return StoredColumn(
            self.number, self.name, self.kind, TYPES[self.kind], is_exact, has_texts
        )


class TableEvidence:
    """What a table's stretches say, one after the other: of its columns, and of irregularities.

    ``files``: those of the log, in their order. ``infers``: columns hold texts whose types are to
    be found. ``notes``: what the reader says beside. ``line_of``: the line of a row (from 0) of a
    file, where rows have lines.
    """

    def __init__(
        self,
        files: tuple[Path, ...],
        names: ColumnNames,
        request: ReadRequest,
        *,
        infers: bool = False,
        notes: tuple[str, ...] = (),
        line_of: Callable[[Path, int], int | None] | None = None,
    ) -> None:
        self.files, self.names, self.request = files, names, request
        self.rows = self.blank_lines = 0
        self._infers, self._notes, self._line_of = infers, notes, line_of
        self._columns = {
            name: _Column(str(place), name) for place, name in enumerate(names.kept.values())
        }
        starts = request.written.starts
        self._times = {TIMESTAMP, request.timestamp, starts} - {LIFECYCLE}
        self._first_rows: list[int] = []
        self._without_case = self._no_activity = self._no_time = self._oversized = 0

    def begin_file(self) -> None:
        """What comes next stands in the next of the files."""
        self._first_rows.append(self.rows)

    def take(self, table: FileTable) -> RawChunk:
        """The next stretch as rows. ``LogError`` for a value that no log holds."""
        full = self.names.kept
        frame = self._within_limits(table).rename(full)
        texts = {full[name]: text for name, text in table.texts.items()}
        exact = {full[name] for name in table.exact}
        as_text = {full[name] for name in table.as_text}
        stored: dict[str, pl.Series] = {}
        # Times last: that a log lacks its ids is said before what its times lack.
        for name in sorted(frame.columns, key=lambda name: name in self._times):
            if name in self._times:
                self._notes_on_dropped(table.path)
            column = self._columns[name]
            values, text = self._stored(table, column, values_of(frame, name), name in as_text)
            if values is None:
                column.dropped = frame.schema[name]
                continue
            column.dtype = values.dtype
            column.is_exact |= name in exact and name != self.request.timestamp
            stored[column.number] = values
            text = texts.get(name, text)
            if text is not None:
                column.has_texts = True
                stored[column.number + TEXT] = text
            elif column.kind is not None and name.startswith(CASE_PREFIX):
                # ``TableAssembler.surveyed`` names it, so that each chunk must have it.
                stored[column.number + TEXT] = nulls(frame.height, pl.Null())
        self._notes_on_dropped(table.path)
        first_row = self.rows
        self.rows += frame.height
        numbers = pl.int_range(first_row, self.rows, dtype=pl.Int64, eager=True)
        # A column numbers rows from 1, places count from 0.
        if table.numbers is not None and self.names.row_number is not None:
            numbers = _whole_numbers(table.path, self.names.row_number, table.numbers) - 1
        return self._with_cases(pl.DataFrame({**stored, ROW: numbers}))

    def assembler(self) -> "TableAssembler":
        """What makes logs of the rows."""
        irregular = [
            (count, what)
            for column in self._columns.values()
            for what, count in column.times.items()
        ]
        left_out = ((self.blank_lines, BLANK_LINES), (self._oversized, OVERSIZED))
        return TableAssembler(
            columns=tuple(
                column.stored(infers=self._infers)
                for column in self._columns.values()
                if column.dtype is not None and column.dropped is None
            ),
            file_notes=(
                *self.names.notes,
                *self._notes,
                *counted_notes(*left_out),
                *self._notes_on_dropped(self.files[0]),
            ),
            counted=counted_notes(
                (self._no_activity, NO_ACTIVITY), (self._no_time, NO_TIME), *irregular
            ),
            rows_left_out=self._without_case,
            files=self.files,
            first_rows=tuple(self._first_rows),
            names=self.names,
            required=self.names.mapped - frozenset(self.request.varying),
            line_of=self._line_of,
            request=replace(self.request, keep=None),
        )

    def _within_limits(self, table: FileTable) -> pl.DataFrame:
        """The columns of a stretch, texts over the limit missing; or they are refused."""
        frame, request = table.frame, self.request
        texts, most = text_columns(frame), request.bounds.value_size
        if not texts:
            return frame
        # In one query, which finds nothing in most logs; only then column by column.
        longest = frame.select(named(*texts).as_expr().cast(pl.String).str.len_bytes().max())
        cut: list[pl.Series] = []
        for name in texts:
            if (values_of(longest, name)[0] or 0) <= most:
                continue
            values = values_of(frame, name)
            over = (values.cast(pl.String).str.len_bytes() > most).fill_null(False)
            if request.on_excess == "refuse":
                row = int(over.arg_max() or 0)
                raise too_long(table.path, name, request.bounds, table.line(row))
            self._oversized += int(over.sum())
            cut.append(values.set(over, None).alias(name))
        return frame.with_columns(cut)

    def _stored(
        self, table: FileTable, column: _Column, values: pl.Series, as_text: bool
    ) -> tuple[pl.Series | None, pl.Series | None]:
        """A column as it is kept, None for one that is left out; and its texts, where the values do
        not give them back.
        """
        name = column.name
        if name in self._times:
            return self._read_times(table, column, values), None
        if self._infers and name not in self.request.spelt:
            so_far = column.kind or "empty"
            # A column that was text once stays text, whatever comes.
            if as_text or so_far == "text":
                column.kind = "text"
                return values, None
            typed, kind = inferred(values, "int" if so_far == "empty" else so_far)
            column.kind = joined_kinds(so_far, kind)
            return typed, None if gives_texts_back(kind) else values
        simple = to_simple_type(table.path, name, values, self.request.times, table.first_row)
        if simple is None or not may_not_fit(values) or name in (CASE_ID, ACTIVITY):
            return simple, None
        is_decimal = isinstance(values.dtype, pl.Decimal)
        # Whether all stretches stay numbers shows only behind the last.
        found: Kind = "text" if simple.dtype == pl.String else "float" if is_decimal else "int"
        column.kind = joined_kinds(column.kind or found, found)
        return simple, values.cast(pl.String) if found == "float" else None

    def _read_times(self, table: FileTable, column: _Column, values: pl.Series) -> pl.Series:
        if values.dtype == TIME_TYPE:
            return values
        read = read_times(table, column.name, values, self.request)
        zone = self.request.written.time_zone
        taken = NO_ZONE if zone is None else f"timestamps without a zone (taken as {zone})"
        column.times[taken] += read.zoneless
        column.times["timestamps that clocks showed twice (taken as the first)"] += read.repeated
        column.times["timestamps that clocks skipped (taken by the clock before)"] += read.skipped
        return read.values.cast(TIME_TYPE)

    def _notes_on_dropped(self, path: Path) -> list[str]:
        """On columns that are left out for their type; ``LogError`` where a log needs one."""
        dropped = {
            name: column.dropped
            for name, column in self._columns.items()
            if column.dropped is not None
        }
        for name in (CASE_ID, ACTIVITY):
            if name in dropped:
                said = f"the column for the {MEANING[name]} holds {dropped[name]}"
                hint = "convert it to text, or name another column"
                raise LogError(path, said, hint=hint)
        return [f"column '{shown(name)}' holds {kind}, left out" for name, kind in dropped.items()]

    def _with_cases(self, rows: pl.DataFrame) -> RawChunk:
        """The rows that have a case id; the others are counted."""
        case_id = self._columns[CASE_ID].number
        keys = values_of(rows, case_id)
        if keys.null_count():
            self._without_case += keys.null_count()
            rows = rows.filter(keys.is_not_null())
        if keys.dtype == pl.Null:
            rows = rows.with_columns(keys.cast(pl.String))
        self._no_activity += self._missing(rows, ACTIVITY)
        time = self.request.timestamp if self.request.timestamp in self._columns else TIMESTAMP
        is_there = time in self._columns
        self._no_time += self._missing(rows, time) if is_there else rows.height
        return RawChunk(rows, case_id)

    def _missing(self, rows: pl.DataFrame, name: str) -> int:
        column = self._columns.get(name)
        is_there = column and column.number in rows.columns
        return values_of(rows, column.number).null_count() if column and is_there else 0


@frozen
class TableAssembler:
    """Makes logs of the cases of a table.

    ``first_rows``: where the first row of each of the files stands in all of them; ``required``:
    attributes of cases that must name one value a case; ``found``: what shows in all cases, None:
    they are all that there are, and it shows in them.
    """

    columns: tuple[StoredColumn, ...]
    file_notes: tuple[str, ...]
    counted: tuple[str, ...]
    rows_left_out: int
    files: tuple[Path, ...]
    first_rows: tuple[int, ...]
    names: ColumnNames
    required: frozenset[str]
    line_of: Callable[[Path, int], int | None] | None = field(repr=False)
    request: ReadRequest
    found: Findings | None = None

    @property
    def surveyed(self) -> tuple[str, ...] | None:
        """The columns of cases."""
        of_cases = [each for each in self.columns if each.name.startswith(CASE_PREFIX)]
        if len(of_cases) == 1 and self.names.row_number is None:
            return None
        with_texts = [each for each in of_cases if each.kind is not None or each.has_texts]
        return (*(each.number for each in of_cases), *(each.number + TEXT for each in with_texts))

    def findings(self, rows: Columns, cases: pl.DataFrame | None = None) -> Findings:
        """Which attributes of cases differ within one, and where."""
        return self._findings(_Cases.of(self, rows)) if len(rows[ROW]) else Findings()

    def settled(self, found: Findings) -> "TableAssembler":
        """Raises LogError where one case names two values of an attribute that must have one, or
        numbers of rows leave their order open.
        """
        column = self.names.row_number
        if column is not None:
            # Equal numbers in one case, or in the first rows of two, leave an order open.
            again = found.repeated_number
            if again is None and found.first_numbers:
                firsts = pl.Series(np.concatenate(found.first_numbers))
                again = _least(firsts.filter(firsts.is_duplicated()))
            if again is not None:
                said = f"column '{shown(column)}' numbers two rows alike ({again})"
                raise LogError(self.files[0], said, hint=_DISTINCT_NUMBERS)
        for name in sorted(self.required & found.conflicts.keys()):
            raise self._two_values(name, found.conflicts[name])
        return replace(self, found=found)

    def log_of(self, rows: Columns, cases: pl.DataFrame | None = None) -> EventLog:
        """The log of whole cases; ``case_index``: the row of each case's first event."""
        read = _Cases.of(self, rows)
        found = self.found
        if found is None:
            found = self._findings(read)
            self.settled(found)
        conflicts = {
            each.name: row_place(found.conflicts[each.name])
            for each in self.columns
            if each.name in found.conflicts
        }
        log = EventLog.build(
            read.table.event_columns().select(ACTIVITY, TIMESTAMP, pl.exclude(ACTIVITY, TIMESTAMP)),
            read.cases,
            read.case_of,
            source=replace(read.spelling, conflicts=conflicts),
        )
        of_cases = notes_on_cases(self.rows_left_out, conflicts)
        of_cases += read_alike(read.cases, CASE_ID)
        _, first = np.unique(read.case_of, return_index=True)
        log = replace(
            log,
            notes=(*self.file_notes, *of_cases, *self.counted),
            case_index=read.table.row_numbers[first],
        )
        return as_asked(log, self.request)

    def table_of(self, rows: Columns) -> tuple[FlatTable, frozenset[str]]:
        """Those of the columns that ``rows`` have, by their names, in the order of the file; all
        of them, empty, where there are no rows. And those that are exact.
        """
        rows = in_row_order(rows)
        height = len(rows[ROW])
        frame: dict[str, pl.Series] = {}
        texts: dict[str, pl.Series] = {}
        exact: set[str] = set()
        for column in self.columns:
            if column.number not in rows and height:
                continue
            frame[column.name], text = column.read(rows, height)
            if text is not None:
                texts[column.name] = text
            if column.is_exact:
                exact.add(column.name)
        # Times and activities that no column of the file holds.
        names = {column.name for column in self.columns}
        if TIMESTAMP not in names:
            frame[TIMESTAMP] = nulls(height, TIME_TYPE)
        if ACTIVITY not in names:
            frame[ACTIVITY] = nulls(height)
        numbers = rows[ROW].to_numpy().astype(np.int64)
        return FlatTable(pl.DataFrame(frame), numbers, texts, 0), frozenset(exact)

    def _findings(self, read: "_Cases") -> Findings:
        source = read.spelling
        conflicts = {
            name: int(place.removeprefix("row ")) - 1 for name, place in source.conflicts.items()
        }
        differing = frozenset(source.rows)
        if self.names.row_number is None:
            return Findings(differing, conflicts)
        numbers = pl.Series(read.table.row_numbers) + 1
        rows = pl.DataFrame({"case": read.table.frame[CASE_ID], "number": numbers})
        rows = rows.filter(pl.col("case").is_not_null())
        firsts = rows.group_by("case").agg(pl.col("number").min())
        return Findings(
            differing,
            conflicts,
            repeated_number=_least(rows.filter(rows.is_duplicated())["number"]),
            first_numbers=(firsts["number"].to_numpy(),),
        )

    def _two_values(self, name: str, row: int) -> LogError:
        """The refusal of an attribute of cases of which one names two values, at ``row`` (from 0)
        of all files.
        """
        path, line = self.files[0], None
        if self.names.row_number is None:
            # The row stands in the last file that begins at it or before.
            place = bisect_right(self.first_rows, row) - 1
            path, row = self.files[place], row - self.first_rows[place]
            line = self.line_of(path, row) if self.line_of else None
        column = next(of for of, full in self.names.kept.items() if full == name)
        said = f"column '{shown(column)}' names two values in one case"
        if line is None:
            said += f" (row {row + 1:,})"
        said += f", and spec.input or --column makes it '{shown(name)}', an attribute of cases"
        hint = "correct the file, or leave the column to the events"
        return LogError(path, said, line=line, hint=hint)


@frozen
class _Cases:
    """Rows as a table, its cases, and what its columns do not say."""

    table: FlatTable
    cases: pl.DataFrame
    case_of: Ints
    spelling: SourceSpelling

    @classmethod
    def of(cls, assembler: TableAssembler, rows: Columns) -> "_Cases":
        table, exact = assembler.table_of(rows)
        cases = table.cases()
        case_of = table.row_of_case(cases)
        differing = assembler.found.differing if assembler.found else frozenset[str]()
        return cls(table, cases, case_of, table.spelling(case_of, exact, differing))


class TableSource:
    """The rows of a table that lies in memory: one chunk. ``notes``: what its reader says."""

    def __init__(
        self,
        table: FileTable,
        names: ColumnNames,
        request: ReadRequest,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._table, self._names, self._request, self._notes = table, names, request, notes

    def expected_rows(self) -> int:
        """How many rows there are."""
        return self._table.frame.height

    def chunks(self, *, at_once: bool = False) -> Iterator[RawChunk]:
        """All of them."""
        table = self._table
        self._evidence = TableEvidence(
            (table.path,),
            self._names,
            self._request,
            notes=self._notes,
            line_of=lambda _, row: table.line(row),
        )
        self._evidence.begin_file()
        yield self._evidence.take(table)

    def assembler(self) -> TableAssembler:
        """What makes logs of the rows."""
        return self._evidence.assembler()


def counted_notes(*counts: tuple[int, str]) -> tuple[str, ...]:
    """What there is of each, where there is any."""
    return tuple(f"{what}: {count}" for count, what in counts if count)


def to_simple_type(
    path: Path,
    name: str,
    column: pl.Series,
    times: WrittenTimes = ISO_TIMES,
    first_row: int = 0,
    *,
    exact: bool | None = None,
) -> pl.Series | None:
    """The values of a column as String, Int64, Float64, Boolean or UTC time; None when they are
    none of these. ``times`` says of which zone times are that name none; ``first_row``: where the
    first value stands in the file. ``exact``: whether the values stay numbers, where ``column`` is
    a piece of one (``is_exact``).
    """
    dtype = column.dtype
    if dtype in (pl.String, pl.Null) or name == TIMESTAMP:
        return column
    # Only these types spell a value in the same way whatever other values the column holds.
    if name in (CASE_ID, ACTIVITY):
        spelt = dtype.is_integer() or dtype in (pl.Categorical, pl.Enum)
        return column.cast(pl.String) if spelt else None
    if dtype == pl.Boolean:
        return column
    if dtype.is_integer() or isinstance(dtype, pl.Decimal):
        stays = is_exact(column) if exact is None else exact
        number = pl.Int64 if dtype.is_integer() else pl.Float64
        return column.cast(number if stays else pl.String)
    if dtype.is_numeric():
        return column.cast(pl.Float64)
    if dtype in (pl.Date, pl.Datetime):
        return _as_utc(path, name, column, times, first_row).values
    return column.cast(pl.String) if dtype in (pl.Categorical, pl.Enum, pl.Time) else None


def may_not_fit(column: pl.Series) -> bool:
    """Whether the type of a column has values that are more than a number of a log holds."""
    return isinstance(column.dtype, pl.Decimal) or column.dtype in WIDE


def is_exact(column: pl.Series) -> bool:
    """Whether every value of a column of whole or decimal numbers is one that a log holds as a
    number: in 64 bits, or with at most 15 digits.
    """
    if isinstance(column.dtype, pl.Decimal):
        digits = column.cast(pl.String).str.count_matches(r"\d")
        most: object = digits.max()
        return not isinstance(most, int) or most <= EXACT_DIGITS
    return column.cast(pl.Int64, strict=False).null_count() == column.null_count()


def read_times(table: FileTable, name: str, times: pl.Series, request: ReadRequest) -> ParsedTimes:
    """A column of times in UTC; ``LogError`` for a value that is none."""
    written = request.times
    # Numbers are read as the digits that a text would have; NaN has none, and is told below.
    if times.dtype.is_numeric() and written.form in EPOCHS:
        digits = times.cast(pl.Decimal(38, 6), strict=False).cast(pl.String)
        times = digits.fill_null(times.cast(pl.String))
    if times.dtype == pl.String:
        read = written.read(times)
        bad = (read.values.is_null() & times.is_not_null()).arg_true()
        if len(bad):
            row = int(bad[0])
            raise unreadable_time(table.path, table.line(row), times, row, written, table.first_row)
        return read
    if times.dtype in (pl.Date, pl.Datetime):
        return _as_utc(table.path, name, times, written, table.first_row)
    if times.dtype != pl.Null:
        raise LogError(
            table.path,
            f"the time column holds {times.dtype}, not timestamps",
            hint="name the time column, or say time_format: epoch-seconds under spec.input",
        )
    return ParsedTimes(times.cast(TIME_TYPE), 0)


def _as_utc(
    path: Path, name: str, times: pl.Series, written: WrittenTimes, first_row: int
) -> ParsedTimes:
    """Days and times as UTC microseconds.

    ``LogError`` for a time outside the years 1 to 9999, which no writer and no Python can say.
    """
    outside = outside_calendar(times)
    if outside.any():
        row = first_row + int(outside.fill_null(False).arg_max() or 0) + 1
        said = f"'{shown(name)}' holds a time outside the years 1 to 9999 in row {row:,}"
        raise LogError(path, said, hint=TIME_HINT)
    if isinstance(times.dtype, pl.Datetime) and times.dtype.time_zone:
        return ParsedTimes(times.cast(TIME_TYPE), 0)
    return written.localised(times)


def require_same_columns(
    first: Path, columns: Sequence[str], path: Path, others: Sequence[str]
) -> None:
    """Refuse a file of a log of several whose columns are not those of the first one."""
    differing = [name for name in columns if name.strip() and name not in others]
    differing += [name for name in others if name.strip() and name not in columns]
    if differing:
        listed = ", ".join(f"'{shown(name)}'" for name in differing[:6])
        said = f"the columns are not those of {first.name}; only one of the two has {listed}"
        raise LogError(path, said, hint="write the files of one log alike")


def flat_table(log: EventLog, path: Path) -> pl.DataFrame:
    """One row an event. ``OutputError`` when cases lack an id or share one: a flat table would
    merge or lose them.
    """
    ids = log.cases[CASE_ID]
    if ids.null_count() or ids.n_unique() != len(ids):
        raise OutputError(
            f"{path}: cases without an id of their own cannot be told apart in a table; write XES"
        )
    return log.to_polars()


def _whole_numbers(path: Path, column: str, values: pl.Series) -> pl.Series:
    """The numbers of rows (whole, or such texts) as Int64; ``LogError`` where a row has none."""
    read = values
    if values.dtype == pl.String or values.dtype.is_integer():
        read = values.cast(pl.Int64, strict=False)
    elif values.dtype != pl.Null:
        said = f"column '{shown(column)}', which numbers the rows, holds {values.dtype}"
        raise LogError(path, said, hint=_DISTINCT_NUMBERS)
    if read.null_count() or (read.dtype != pl.Int64 and len(read)):
        said = f"column '{shown(column)}' does not number every row"
        raise LogError(path, said, hint=_DISTINCT_NUMBERS)
    return read.cast(pl.Int64)


def _least(numbers: pl.Series) -> int | None:
    least: object = numbers.min()
    return least if isinstance(least, int) else None

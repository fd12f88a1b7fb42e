"""Flat tables, one row an event: how a table becomes a log and back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.errors import LogError, OutputError
from cloakwork.base.naming import values_of
from cloakwork.base.text import shown
from cloakwork.log.eventlog import (
    ACTIVITY,
    CASE_ID,
    TIME_TYPE,
    TIMESTAMP,
    EventLog,
    log_of_table,
)
from cloakwork.log.formats.column_names import MEANING, ColumnNames
from cloakwork.log.formats.columns import NO_ACTIVITY, NO_TIME, NO_ZONE, OVERSIZED
from cloakwork.log.formats.request import TableRequest
from cloakwork.log.formats.row_numbers import (
    first_numbers,
    least_repeated,
    numbered_alike,
    repeated_number,
    whole_numbers,
)
from cloakwork.log.formats.source import too_long
from cloakwork.log.formats.time_faults import unreadable_time
from cloakwork.log.formats.time_patterns import EPOCHS
from cloakwork.log.formats.written_times import ISO_TIMES, WrittenTimes
from cloakwork.log.limits import Limits, OnExcess
from cloakwork.log.times import TIME_HINT, ParsedTimes, outside_calendar

EXACT_DIGITS: Final = 15  # what a floating-point number keeps of a decimal one


@dataclass(frozen=True, slots=True)
class FileTable:
    """The columns of a file that are read, called as the file does, one row an event.

    ``line_of`` gives the line of a row (from 0), where rows have lines. ``notes``: what the reader
    did about irregularities. ``texts`` and ``exact``: what the file says where ``frame`` holds no
    text (``SourceSpelling``). ``first_row``: where the first row stands in the file, of which this
    may be a stretch. ``numbers``: those of the rows, where a column numbers them.
    """

    path: Path
    frame: pl.DataFrame
    line_of: Callable[[int], int] | None = None
    notes: tuple[str, ...] = ()
    texts: Mapping[str, pl.Series] = field(default_factory=dict)
    exact: frozenset[str] = frozenset()
    first_row: int = 0
    numbers: pl.Series | None = None

    def in_order(self, names: ColumnNames) -> "FileTable":
        """The rows in the order of their numbers, where they have any; ``LogError`` for numbers
        that leave it open.
        """
        if self.numbers is None or names.row_number is None:
            return self
        numbers = whole_numbers(self.path, names.row_number, self.numbers)
        case_id = next(name for name, full in names.kept.items() if full == CASE_ID)
        case_ids = values_of(self.frame, case_id)
        again = repeated_number(case_ids, numbers)
        if again is None:
            again = least_repeated(first_numbers(case_ids, numbers))
        if again is not None:
            raise numbered_alike(self.path, names.row_number, again)
        order = numbers.arg_sort()
        return replace(
            self,
            frame=self.frame[order],
            line_of=None,
            texts={name: text.gather(order) for name, text in self.texts.items()},
            numbers=numbers.gather(order),
        )

    def number(self, row: int) -> int:
        """What a row is called, from 0: its number less one, where rows have numbers."""
        if self.numbers is not None:
            return int(self.numbers[row]) - 1
        return self.first_row + row

    def line(self, row: int) -> int | None:
        """The line of a row, None where rows have none."""
        return self.line_of(row) if self.line_of else None


def log_of_file(table: FileTable, names: ColumnNames, request: TableRequest) -> EventLog:
    """The log that a table holds; rows without a case id are left out and noted. ``LogError`` when
    a text in the time column is no time, or a case names two values of an attribute of cases that
    the options took from a column.
    """
    table = table.in_order(names)
    path, kept = table.path, names.kept
    renamed, of_types = _with_simple_types(path, table.frame.rename(kept), request)
    timed, irregular = _with_times(table, renamed, request)
    full = {kept[name]: text for name, text in table.texts.items()}
    full |= _texts_of_decimals(table.frame.rename(kept), timed)
    _require_one_value_a_case(table, timed, full, names, request)
    has_activity = ACTIVITY in timed.columns
    if not has_activity:
        timed = timed.with_columns(pl.lit(None, pl.String).alias(ACTIVITY))
    exact = frozenset(kept[name] for name in table.exact)
    numbers = None if table.numbers is None else table.numbers.to_numpy() - 1
    log = log_of_table(timed, full, exact - {request.timestamp}, numbers)
    events = log.events
    counted = counted_notes(
        (events[ACTIVITY].null_count() if has_activity else 0, NO_ACTIVITY),
        (_missing_times(log, request), NO_TIME),
        *irregular,
    )
    log = standard_first(log)
    return replace(log, notes=(*names.notes, *table.notes, *of_types, *log.notes, *counted))


def counted_notes(*counts: tuple[int, str]) -> tuple[str, ...]:
    """What there is of each, where there is any."""
    return tuple(f"{what}: {count}" for count, what in counts if count)


def _missing_times(log: EventLog, request: TableRequest) -> int:
    """How many events have no time."""
    name = request.timestamp if request.timestamp in log.events.columns else TIMESTAMP
    return values_of(log.events, name).null_count()


def _require_one_value_a_case(
    table: FileTable,
    frame: pl.DataFrame,
    texts: Mapping[str, pl.Series],
    names: ColumnNames,
    request: TableRequest,
) -> None:
    """Refuse a column that the options call one of cases and that differs within a case."""
    for name in sorted(names.mapped - request.varying):
        if name not in frame.columns:
            continue
        values = texts.get(name, values_of(frame, name)).cast(pl.String)
        rows = pl.DataFrame({"case": frame[CASE_ID].cast(pl.String), "value": values})
        rows = rows.with_row_index("row").drop_nulls()
        other = rows.filter(pl.col("value") != pl.col("value").first().over("case"))
        if other.height:
            row = int(other["row"][0])
            raise two_values(table.path, names, name, table.number(row), table.line(row))


def two_values(path: Path, names: ColumnNames, name: str, row: int, line: int | None) -> LogError:
    """The refusal of an attribute of cases (by its full name) of which one names two values."""
    column = next(of for of, full in names.kept.items() if full == name)
    said = f"column '{shown(column)}' names two values in one case"
    if line is None:
        said += f" (row {row + 1:,})"
    return LogError(
        path,
        f"{said}, and spec.input or --column makes it '{shown(name)}', an attribute of cases",
        line=line,
        hint="correct the file, or leave the column to the events",
    )


def _with_simple_types(
    path: Path, frame: pl.DataFrame, request: TableRequest
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The same table in the few types that a log has, and notes on columns that have none and were
    left out.
    """
    columns = {
        name: values_of(frame, name)
        if name == request.timestamp
        else to_simple_type(path, name, values_of(frame, name), request.times)
        for name in frame.columns
    }
    kept = {name: column for name, column in columns.items() if column is not None}
    dropped = {name: frame.schema[name] for name in columns if name not in kept}
    return pl.DataFrame(kept), left_out(path, dropped)


def left_out(path: Path, dropped: Mapping[str, pl.DataType]) -> tuple[str, ...]:
    """Notes on columns that are left out for their type; ``LogError`` where a log needs one."""
    for name in (CASE_ID, ACTIVITY):
        if name in dropped:
            said = f"the column for the {MEANING[name]} holds {dropped[name]}"
            raise LogError(path, said, hint="convert it to text, or name another column")
    return tuple(f"column '{shown(name)}' holds {kind}, left out" for name, kind in dropped.items())


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


def is_exact(column: pl.Series) -> bool:
    """Whether every value of a column of whole or decimal numbers is one that a log holds as a
    number: in 64 bits, or with at most 15 digits.
    """
    if isinstance(column.dtype, pl.Decimal):
        return most_digits(column) <= EXACT_DIGITS
    return column.cast(pl.Int64, strict=False).null_count() == column.null_count()


def _texts_of_decimals(given: pl.DataFrame, read: pl.DataFrame) -> dict[str, pl.Series]:
    """Decimal numbers as they are written, where they were read as others: with more digits in one
    row they would have stayed texts in all.
    """
    return {
        name: values_of(given, name).cast(pl.String)
        for name, kind in given.schema.items()
        if isinstance(kind, pl.Decimal) and read.schema.get(name) == pl.Float64
    }


def most_digits(decimals: pl.Series) -> int:
    """The most digits that one of the numbers is written with."""
    digits = decimals.cast(pl.String).str.count_matches(r"\d")
    return int(digits.max() or 0)  # type: ignore[arg-type]  # a number


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


def standard_first(log: EventLog) -> EventLog:
    """The log with the activities and the times before the other columns of events."""
    events = log.events.select(ACTIVITY, TIMESTAMP, pl.exclude(ACTIVITY, TIMESTAMP))
    return replace(log, events=events)


def _with_times(
    table: FileTable, frame: pl.DataFrame, request: TableRequest
) -> tuple[pl.DataFrame, list[tuple[int, str]]]:
    """The same table with its times as UTC, and how many of them were read by a rule that the
    author should know of.
    """
    irregular: list[tuple[int, str]] = []
    for name in (TIMESTAMP, request.timestamp):
        if name not in frame.columns or frame.schema[name] == TIME_TYPE:
            continue
        read = read_times(table, name, values_of(frame, name), request)
        frame = frame.with_columns(read.values.cast(TIME_TYPE).alias(name))
        irregular += irregular_times(read, request)
    if TIMESTAMP not in frame.columns:
        frame = frame.with_columns(pl.lit(None, TIME_TYPE).alias(TIMESTAMP))
    return frame, irregular


def irregular_times(read: ParsedTimes, request: TableRequest) -> list[tuple[int, str]]:
    """How many times of a column were read by a rule that the author should know of."""
    zone = request.options.time_zone
    taken = NO_ZONE if zone is None else f"timestamps without a zone (taken as {zone})"
    return [
        (read.zoneless, taken),
        (read.repeated, "timestamps that clocks showed twice (taken as the first)"),
        (read.skipped, "timestamps that clocks skipped (taken by the clock before)"),
    ]


def read_times(table: FileTable, name: str, times: pl.Series, request: TableRequest) -> ParsedTimes:
    """A column of times in UTC; ``LogError`` for a value that is none."""
    written = request.times
    if times.dtype.is_integer() and written.form in EPOCHS:
        times = times.cast(pl.String)
    if times.dtype == pl.Float64 and written.form in EPOCHS:
        times = times.cast(pl.Decimal(38, 6)).cast(pl.String)
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


def within_value_size(
    path: Path,
    frame: pl.DataFrame,
    limits: Limits,
    on_excess: OnExcess,
    line_of: Callable[[int], int] | None = None,
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The same table, texts over the limit missing, and a note on how many were; ``LogError`` where
    they are refused.
    """
    checked, count = texts_within(path, frame, limits, on_excess, line_of)
    return checked, counted_notes((count, OVERSIZED))


def texts_within(
    path: Path,
    frame: pl.DataFrame,
    limits: Limits,
    on_excess: OnExcess,
    line_of: Callable[[int], int] | None = None,
) -> tuple[pl.DataFrame, int]:
    """The same table, texts over the limit missing, and how many were; ``LogError`` where they are
    refused.
    """
    within: dict[str, pl.Series] = {}
    count = 0
    for name, dtype in frame.schema.items():
        values = values_of(frame, name)
        within[name] = values
        if dtype not in (pl.String, pl.Categorical, pl.Enum):
            continue
        over = values.cast(pl.String).str.len_bytes() > limits.value_size
        if not over.any():
            continue
        if on_excess == "refuse":
            row = int(over.fill_null(False).arg_max() or 0)
            raise too_long(path, name, limits, line_of(row) if line_of else None)
        within[name] = values.set(over.fill_null(False), None)
        count += int(over.sum())
    return pl.DataFrame(within), count


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


def text_bytes(table: pl.DataFrame) -> Ints:
    """How many bytes of text each row holds: int64."""
    texts = [
        values_of(table, name).cast(pl.String).str.len_bytes().fill_null(0)
        for name, kind in table.schema.items()
        if kind in (pl.String, pl.Categorical, pl.Enum)
    ]
    sizes = np.zeros(table.height, np.int64)
    for text in texts:
        sizes += text.to_numpy().astype(np.int64)
    return sizes

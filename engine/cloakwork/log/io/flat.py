"""Flat tables, one row an event: which column is which, and how a table becomes a log and back."""

import difflib
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

import polars as pl

from cloakwork.errors import LogError, OutputError
from cloakwork.log.eventlog import (
    ACTIVITY,
    CASE_ID,
    CASE_PREFIX,
    TIME_TYPE,
    TIMESTAMP,
    EventLog,
    log_of_table,
)
from cloakwork.log.io.columns import NO_ACTIVITY, NO_TIME, NO_ZONE, OVERSIZED
from cloakwork.log.io.source import shown, too_long
from cloakwork.log.io.times import TIME_HINT, outside_calendar, parse_times
from cloakwork.log.limits import Limits, OnExcess
from cloakwork.log.naming import values_of

_EXACT_DIGITS: Final = 15  # what a floating-point number keeps of a decimal one
_OTHER_CASE_PREFIX: Final = "CASE_"
_COMMON: Final = {
    CASE_ID: (CASE_ID, "case_id", "caseid", "case id", "case", "case_concept_name", "trace_id"),
    ACTIVITY: (
        ACTIVITY,
        "activity",
        "event",
        "activity_name",
        "event_name",
        "task",
        "concept_name",
    ),
    TIMESTAMP: (
        TIMESTAMP,
        "timestamp",
        "time",
        "complete_time",
        "completetime",
        "complete timestamp",
        "end_time",
        "event_time",
        "datetime",
        "date",
        "time_timestamp",
    ),
}
_MEANING: Final = {CASE_ID: "case id", ACTIVITY: "activity", TIMESTAMP: "timestamp"}


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Which columns of a table are read (``kept``: the file's name -> the full name), and what was
    guessed about them.
    """

    kept: dict[str, str]
    notes: tuple[str, ...]

    @property
    def standard(self) -> frozenset[str]:
        """The three standard names."""
        return frozenset(_COMMON)

    def build(
        self,
        path: Path,
        frame: pl.DataFrame,
        *,
        line_of: Callable[[int], int] | None = None,
        notes: tuple[str, ...] = (),
        texts: Mapping[str, pl.Series] = MappingProxyType({}),
        exact: Collection[str] = (),
    ) -> EventLog:
        """The log that ``frame`` (columns as the file names them) holds.

        Rows without a case id are left out and noted. ``LogError`` when a text in the time column
        is no time; ``line_of`` gives the line of a row (from 0), where rows have lines. ``notes``
        are added to the log's; ``texts`` and ``exact``, by the file's names: what the file says
        where ``frame`` holds no text (``SourceSpelling``).
        """
        renamed, left_out = _with_simple_types(path, frame.rename(self.kept))
        if TIMESTAMP in renamed.columns:
            timed, zoneless = _with_times(path, renamed, line_of)
        else:
            timed, zoneless = _without_times(renamed), 0
        full = {self.kept[name]: text for name, text in texts.items()}
        full |= _texts_of_decimals(frame.rename(self.kept), timed)
        log = log_of_table(timed, full, frozenset(self.kept[name] for name in exact))
        counts = (
            (log.events[ACTIVITY].null_count(), NO_ACTIVITY),
            (log.events[TIMESTAMP].null_count(), NO_TIME),
            (zoneless, NO_ZONE),
        )
        counted = tuple(f"{what}: {count}" for count, what in counts if count)
        log = _standard_first(log)
        return replace(log, notes=(*self.notes, *notes, *left_out, *log.notes, *counted))


def _with_simple_types(path: Path, frame: pl.DataFrame) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The same table in the few types that a log has, and notes on columns that have none and were
    left out.
    """
    columns = {name: to_simple_type(path, name, values_of(frame, name)) for name in frame.columns}
    missing = [name for name in (CASE_ID, ACTIVITY) if name in columns and columns[name] is None]
    if missing:
        said = f"the column for the {_MEANING[missing[0]]} holds {frame.schema[missing[0]]}"
        raise LogError(path, said, hint="convert it to text, or name another column")
    kept = {name: column for name, column in columns.items() if column is not None}
    notes = tuple(
        f"column '{shown(name)}' holds {frame.schema[name]}, left out"
        for name in columns
        if name not in kept
    )
    return pl.DataFrame(kept), notes


def to_simple_type(path: Path, name: str, column: pl.Series) -> pl.Series | None:
    """The values of a column as String, Int64, Float64, Boolean or UTC time; None when they are
    none of these.
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
    if dtype.is_integer():
        narrow = column.cast(pl.Int64, strict=False)
        all_fit = narrow.null_count() == column.null_count()
        return narrow if all_fit else column.cast(pl.String)
    if isinstance(dtype, pl.Decimal):
        is_exact = _most_digits(column) <= _EXACT_DIGITS
        return column.cast(pl.Float64 if is_exact else pl.String)
    if dtype.is_numeric():
        return column.cast(pl.Float64)
    if dtype in (pl.Date, pl.Datetime):
        return _as_utc(path, name, column)
    return column.cast(pl.String) if dtype in (pl.Categorical, pl.Enum, pl.Time) else None


def _texts_of_decimals(given: pl.DataFrame, read: pl.DataFrame) -> dict[str, pl.Series]:
    """Decimal numbers as they are written, where they were read as others: with more digits in one
    row they would have stayed texts in all.
    """
    return {
        name: values_of(given, name).cast(pl.String)
        for name, kind in given.schema.items()
        if isinstance(kind, pl.Decimal) and read.schema.get(name) == pl.Float64
    }


def _most_digits(decimals: pl.Series) -> int:
    """The most digits that one of the numbers is written with."""
    digits = decimals.cast(pl.String).str.count_matches(r"\d")
    return int(digits.max() or 0)  # type: ignore[arg-type]  # a number


def _as_utc(path: Path, name: str, times: pl.Series) -> pl.Series:
    """Days and times as UTC microseconds; those without a zone are taken as UTC.

    ``LogError`` for a time outside the years 1 to 9999, which no writer and no Python can say.
    """
    outside = outside_calendar(times)
    if outside.any():
        row = int(outside.fill_null(False).arg_max() or 0) + 1
        said = f"'{shown(name)}' holds a time outside the years 1 to 9999 in row {row:,}"
        raise LogError(path, said, hint=TIME_HINT)
    times = times.cast(pl.Datetime("us")) if times.dtype == pl.Date else times
    if isinstance(times.dtype, pl.Datetime) and times.dtype.time_zone:
        return times.cast(TIME_TYPE)
    return times.dt.replace_time_zone("UTC").cast(TIME_TYPE)


def _standard_first(log: EventLog) -> EventLog:
    events = log.events.select(ACTIVITY, TIMESTAMP, pl.exclude(ACTIVITY, TIMESTAMP))
    return replace(log, events=events)


def _without_times(frame: pl.DataFrame) -> pl.DataFrame:
    """The same table with a time column that holds none."""
    return frame.with_columns(pl.lit(None, TIME_TYPE).alias(TIMESTAMP))


def _with_times(
    path: Path, frame: pl.DataFrame, line_of: Callable[[int], int] | None
) -> tuple[pl.DataFrame, int]:
    """The same table with its time column as UTC, and how many times named no zone."""
    times = frame[TIMESTAMP]
    zoneless = 0
    if times.dtype == pl.String:
        read = parse_times(times)
        bad = (read.values.is_null() & times.is_not_null()).arg_true()
        if len(bad):
            raise LogError(
                path,
                "the timestamp cannot be read",
                line=line_of(int(bad[0])) if line_of else None,
                hint=f"{TIME_HINT}; how to convert a table: 'reading logs' in the documentation",
            )
        times, zoneless = read.values, read.zoneless
    elif times.dtype in (pl.Date, pl.Datetime):
        is_zoned = isinstance(times.dtype, pl.Datetime) and times.dtype.time_zone
        if not is_zoned:
            zoneless = len(times) - times.null_count()
        times = _as_utc(path, TIMESTAMP, times)
    elif times.dtype != pl.Null:
        raise LogError(
            path,
            f"the time column holds {times.dtype}, not timestamps",
            hint="name the time column, or convert it to timestamps",
        )
    return frame.with_columns(times.cast(TIME_TYPE).alias(TIMESTAMP)), zoneless


def standard_names(
    path: Path,
    header: Sequence[str],
    columns: Mapping[str, str] | None,
    keep: Callable[[str], bool] | None,
    *,
    timeless: bool = False,
) -> ColumnNames:
    """Find the standard columns in ``header``: as ``columns`` says, by their standard or else by a
    common name.

    ``timeless``: a table without a column called ``time:timestamp`` has no times. ``LogError`` when
    one is missing.
    """
    without_times = timeless and TIMESTAMP not in header
    required = [name for name in _COMMON if not (without_times and name == TIMESTAMP)]
    requested = columns or {}
    standard_of: dict[str, str] = {}
    notes: list[str] = []
    for standard in required:
        name = _find_standard_column(path, standard, header, requested)
        standard_of[name] = standard
        if name != standard and standard not in requested:
            notes.append(f"column '{shown(name)}' was taken as the {_MEANING[standard]}")
    kept: dict[str, str] = {}
    for name in header:
        full = standard_of.get(name) or full_name(name)
        if name in standard_of or keep is None or keep(full):
            kept[name] = full
    _refuse_collisions(path, kept)
    return ColumnNames(kept, tuple(notes))


def full_name(name: str) -> str:
    """The attribute name for a column: ``CASE_x`` is another way to write ``case:x``."""
    if name.startswith(_OTHER_CASE_PREFIX):
        return CASE_PREFIX + name.removeprefix(_OTHER_CASE_PREFIX)
    return name


def _find_standard_column(
    path: Path, standard: str, header: Sequence[str], columns: Mapping[str, str]
) -> str:
    requested = columns.get(standard)
    if requested:
        if requested in header:
            return requested
        message = f"there is no column {_in_quotes(requested)}"
        raise _missing_column(path, standard, message, (requested,), header)
    if standard in header:
        return standard
    taken = set(columns.values()) | {name for name in _COMMON if name in header}
    # Reversed: of two names that differ in case alone the first one counts.
    lowered = {name.strip().lower(): name for name in reversed(header) if name not in taken}
    for common in _COMMON[standard]:
        if common in lowered:
            return lowered[common]
    message = f"there is no column for the {_MEANING[standard]}"
    raise _missing_column(path, standard, message, _COMMON[standard], header)


def _missing_column(
    path: Path, standard: str, message: str, expected: Sequence[str], header: Sequence[str]
) -> LogError:
    line = 1 if path.suffix.lower() in {".csv", ".gz"} else None
    separator = _separator_hint(header)
    if line and separator:
        return LogError(
            path, "the separator of the columns is not recognised", line=line, hint=separator
        )
    more = ", ..." if len(header) > 12 else ""
    listed = ", ".join(_listed_name(name) for name in header[:12]) + more
    others = [name for name in header if name == standard or name not in _COMMON]
    similar = next(iter(_similar_names(expected, others)), None)
    column = "COLUMN"
    advice = "name the column that holds it:"
    if similar:
        advice = f"did you mean {_in_quotes(similar)}? then"
    if similar is not None and similar.isprintable() and len(similar) <= 60:
        column = similar
    option = f"--column {shlex.quote(f'{standard}={column}')}"
    hint = f"{advice} {option} (in Python: columns={ {standard: column} })"
    return LogError(path, f"{message}; the columns are {listed}", line=line, hint=hint)


def _separator_hint(header: Sequence[str]) -> str | None:
    """What to do about a CSV file whose separator is not recognised; None where nothing points to
    that.
    """
    if header and header[0].lower().startswith("sep="):
        return "remove the line 'sep=...'; columns are separated by , or ; or tab"
    if len(header) == 1 and "|" in header[0]:
        return "columns are separated by , or ; or tab, not by |; export the log again"
    return None


def _in_quotes(name: str) -> str:
    """A column's name in quotes, blanks around it included."""
    if name == name.strip():
        return f"'{shown(name)}'"
    return repr(name if len(name) <= 60 else name[:57] + "...")


def _listed_name(name: str) -> str:
    """A column's name in a list: in quotes only where blanks around it would not be seen."""
    return shown(name) if name == name.strip() else _in_quotes(name)


def _similar_names(expected: Sequence[str], header: Sequence[str]) -> Iterator[str]:
    lowered = {name.lower(): name for name in header}
    for name in expected:
        for match in difflib.get_close_matches(name.lower(), lowered, n=1):
            yield lowered[match]


def _refuse_collisions(path: Path, kept: Mapping[str, str]) -> None:
    by_name: dict[str, str] = {}
    for name, full in kept.items():
        if full in by_name:
            columns = f"'{shown(by_name[full])}' and '{shown(name)}'"
            raise LogError(
                path,
                f"columns {columns} both stand for '{shown(full)}'",
                hint="remove or rename one of them",
            )
        by_name[full] = name


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
    notes = (f"{OVERSIZED}: {count}",) if count else ()
    return pl.DataFrame(within), notes


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

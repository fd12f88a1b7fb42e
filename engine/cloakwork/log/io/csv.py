"""Reading and writing CSV: everything is text first; a column becomes numbers or truth values only if all of it does."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from cloakwork.errors import LogError
from cloakwork.log.eventlog import TIME_TYPE, EventLog
from cloakwork.log.io.flat import flat_table, standard_names
from cloakwork.log.io.output import open_output
from cloakwork.log.io.source import LogStream, empty_file, shown

_SEPARATORS: Final = ",;\t"
_BOM: Final = "\ufeff"
_WRITTEN: Final = "%Y-%m-%dT%H:%M:%S%.6f+00:00"
_ZONED: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?[+-]\d{2}:\d{2}$"
_INTEGER: Final = r"^[+-]?\d+$"
_MEND: Final = "mend that line, or export the file again"


def read_csv(
    path: Path, columns: Mapping[str, str] | None = None, keep: Callable[[str], bool] | None = None
) -> EventLog:
    """Read a CSV file, packed by gzip or not: one header line, one row an event; ``,``, ``;`` or tab between fields.

    Only the empty field is missing; ``NA`` and the like are values. ``LogError`` with its line for a file that is no
    such table.
    """
    with LogStream(path) as stream:
        data = stream.read()
    if not data.strip():
        raise empty_file(path)
    _refuse_other_encodings(path, data)
    separator, header = _header(path, data)
    named = [name for name in header if name.strip()]
    names = standard_names(path, named, columns, keep)
    table = _table(path, data, separator, header).select(list(names.kept))
    typed = table.with_columns(
        [_inferred(table[name]) for name, full in names.kept.items() if full not in names.standard]
    )
    unnamed = len(header) - len(named)
    notes = (f"columns without a name, left out: {unnamed}",) if unnamed else ()
    return names.build(path, typed, line_of=lambda row: _line_of(data, separator, row), notes=notes)


def _refuse_other_encodings(path: Path, data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise LogError(path, "the file is not in UTF-8", line=line, hint="save it as UTF-8") from None


def _header(path: Path, data: bytes) -> tuple[str, list[str]]:
    """The separator, and the column names in file order."""
    line = data.split(b"\n", 1)[0].decode().removeprefix(_BOM)
    seen = Counter(line)
    separator = max(_SEPARATORS, key=lambda char: seen[char])
    try:
        header = next(csv.reader(io.StringIO(_text(data)), delimiter=separator, strict=True), [])
    except csv.Error as error:
        raise LogError(path, f"the header cannot be read ({error})", line=1, hint=_MEND) from None
    repeated = [name for name, count in Counter(header).items() if count > 1 and name.strip()]
    if repeated:
        raise LogError(
            path, f"two columns are called '{shown(repeated[0])}'", line=1, hint="give each column a name of its own"
        )
    return separator, header


def _text(data: bytes) -> str:
    return data.decode().removeprefix(_BOM)


def _table(path: Path, data: bytes, separator: str, header: list[str]) -> pl.DataFrame:
    """All fields as text, null where empty; columns called as in ``header``."""
    try:
        table = pl.read_csv(data, separator=separator, infer_schema=False)
    except pl.exceptions.NoDataError:
        raise empty_file(path) from None
    except pl.exceptions.PolarsError as error:
        raise _broken_row(path, data, separator, len(header)) or LogError(
            path, f"the table cannot be read ({str(error).partition(chr(10))[0]})", hint=_MEND
        ) from None
    if table.width != len(header):
        raise LogError(path, "the header cannot be read", line=1, hint=_MEND)
    if _may_lack_fields(data, separator, table) and (broken := _broken_row(path, data, separator, len(header))):
        raise broken
    table.columns = [name if name.strip() else f"\0{place}" for place, name in enumerate(header)]
    return table.with_columns(pl.when(pl.all() != "").then(pl.all()))


def _may_lack_fields(data: bytes, separator: str, table: pl.DataFrame) -> bool:
    """Whether some row may have fewer fields than the header, which polars fills with nulls."""
    if table.width == 1 or not table[:, -1].null_count():
        return False
    blank = table.filter(pl.all_horizontal(pl.all().is_null())).height
    separators = data.count(separator.encode())
    return blank > 0 or b'"' in data or separators != (table.height + 1) * (table.width - 1)


def _broken_row(path: Path, data: bytes, separator: str, width: int) -> LogError | None:
    """The first row that has too few or too many fields or whose quotes do not fit; None when all rows are whole."""
    reader = csv.reader(io.StringIO(_text(data), newline=""), delimiter=separator, strict=True)
    start = 1
    try:
        for row in reader:
            if row and len(row) != width:
                said = f"the row has {len(row)} fields, the header {width}"
                return LogError(path, said, line=start, hint=_MEND)
            start = reader.line_num + 1
    except csv.Error as error:
        return LogError(path, f"the quotes do not fit ({error})", line=start, hint=_MEND)
    return None


def _line_of(data: bytes, separator: str, row: int) -> int:
    """The line on which data row ``row`` (from 0) starts."""
    reader = csv.reader(io.StringIO(_text(data), newline=""), delimiter=separator)
    for _ in range(row + 1):
        next(reader)
    return reader.line_num + 1


def _inferred(text: pl.Series) -> pl.Series:
    """A column as numbers, truth values or times, if every value reads as one; otherwise as it is."""
    if text.null_count() == len(text):
        return text
    present = text.null_count()
    integers = text.cast(pl.Int64, strict=False)
    if integers.null_count() == present and (integers.cast(pl.String) == text).all():
        return integers
    decimals = text.cast(pl.Float64, strict=False)
    if decimals.null_count() == present and decimals.is_finite().all() and not text.str.contains(_INTEGER).all():
        return decimals
    lowered = text.str.to_lowercase()
    if lowered.is_in(["true", "false"]).all():
        return lowered == "true"
    if text.str.contains(_ZONED).all():
        times = text.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%:z", strict=False, time_unit="us").cast(TIME_TYPE)
        return times if times.null_count() == present else text
    return text


def write_csv(log: EventLog, path: Path) -> None:
    """Write ``log`` as CSV (RFC 4180), packed by gzip when ``path`` ends in ``.gz``; times in UTC with their offset.

    ``OSError`` when it cannot be written.
    """
    table = flat_table(log, path)
    times = [name for name, dtype in table.schema.items() if isinstance(dtype, pl.Datetime)]
    table = table.with_columns(pl.col(times).dt.strftime(_WRITTEN))
    with open_output(path) as out:
        table.write_csv(out, line_terminator="\r\n")

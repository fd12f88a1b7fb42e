"""Reading and writing CSV: everything is text first; a column becomes numbers or truth values only if all of it does."""

import csv
import io
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from cloakwork.errors import LogError
from cloakwork.log.eventlog import EventLog
from cloakwork.log.io.columns import spelt_alike
from cloakwork.log.io.flat import flat_table, standard_names
from cloakwork.log.io.output import open_output
from cloakwork.log.io.source import LogStream, empty_file, shown
from cloakwork.log.io.times import parse_times
from cloakwork.log.naming import values_of

_SEPARATORS: Final = ",;\t"
_BOM: Final = "\ufeff"
_WRITTEN: Final = "%Y-%m-%dT%H:%M:%S%.6f+00:00"
_ZONED: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?[+-]\d{2}:\d{2}$"
_CODE: Final = r"^[+-]?(0\d|\d{16})"  # more digits than a decimal number keeps, or zeros in front: no number
_PROBED: Final = 32
_MEND: Final = "mend that line, or export the file again"


def read_csv(
    path: Path,
    columns: Mapping[str, str] | None = None,
    keep: Callable[[str], bool] | None = None,
    text: Collection[str] = (),
    *,
    timeless: bool = False,
) -> EventLog:
    """Read a CSV file, packed by gzip or not: one header line, one row an event; ``,``, ``;`` or tab between fields.

    Only the empty field is missing; ``NA`` and the like are values. Attributes in ``text`` stay text. ``timeless``: as in
    ``read_log``. ``LogError`` with its line for a file that is no such table.
    """
    with LogStream(path) as stream:
        data = stream.read()
    if not data.strip():
        raise empty_file(path)
    _refuse_other_encodings(path, data)
    separator, header = _header(path, data)
    named = [name for name in header if name.strip()]
    names = standard_names(path, named, columns, keep, timeless=timeless)
    table = _table(path, data, separator, header)[list(names.kept)]
    free = [name for name, full in names.kept.items() if full not in names.standard and full not in text]
    typed = table.with_columns([inferred(values_of(table, name)).alias(name) for name in free])
    exact = {name for name in free if spelt_alike(values_of(table, name), values_of(typed, name))}
    texts = {name: values_of(table, name) for name in free if name not in exact}
    unnamed = len(header) - len(named)
    notes = (f"columns without a name, left out: {unnamed}",) if unnamed else ()
    return names.build(
        path, typed, line_of=lambda row: _line_of(data, separator, row), notes=notes, texts=texts, exact=exact
    )


def _refuse_other_encodings(path: Path, data: bytes) -> None:
    try:
        if not data.isascii():
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
        _, header = next(_rows(data, separator), (1, []))
    except _BrokenQuotes as broken:
        raise LogError(path, f"the header cannot be read ({broken})", line=1, hint=_MEND) from None
    if not header:
        raise LogError(path, "the first line is empty", line=1, hint="name the columns there")
    repeated = [name for name, count in Counter(header).items() if count > 1 and name.strip()]
    if repeated:
        raise LogError(
            path, f"two columns are called '{shown(repeated[0])}'", line=1, hint="give each column a name of its own"
        )
    return separator, header


class _BrokenQuotes(Exception):
    def __init__(self, line: int, message: str) -> None:
        self.line = line
        super().__init__(message)


def _rows(data: bytes, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The rows as Python reads them, each with the line it starts on: slow, for the header and for finding a fault."""
    text = io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline="")
    reader = csv.reader(text, delimiter=separator, strict=True)
    line = 1
    try:
        for row in reader:
            yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise _BrokenQuotes(line, str(error)) from None


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
    if _may_be_broken(data, separator, table) and (broken := _broken_row(path, data, separator, len(header))):
        raise broken
    table.columns = [name if name.strip() else f"\0{place}" for place, name in enumerate(header)]
    return table.with_columns(pl.when(pl.all() != "").then(pl.all())) if b'""' in data else table


def _may_be_broken(data: bytes, separator: str, table: pl.DataFrame) -> bool:
    """Whether some row may have too few fields, which polars fills with nulls, or a quote that nothing closes."""
    if data.count(b'"') % 2:
        return True
    if table.width == 1 or not table[:, -1].null_count():
        return False
    blank = table.filter(pl.all_horizontal(pl.all().is_null())).height
    separators = data.count(separator.encode())
    return blank > 0 or b'"' in data or separators != (table.height + 1) * (table.width - 1)


def _broken_row(path: Path, data: bytes, separator: str, width: int) -> LogError | None:
    """The first row that has too few or too many fields or whose quotes do not fit; None when all rows are whole."""
    try:
        for line, row in _rows(data, separator):
            if row and len(row) != width:
                said = f"the row has {len(row)} fields, the header {width}"
                return LogError(path, said, line=line, hint=_MEND)
    except _BrokenQuotes as broken:
        return LogError(path, f"the quotes do not fit ({broken})", line=broken.line, hint=_MEND)
    return None


def _line_of(data: bytes, separator: str, row: int) -> int:
    """The line on which data row ``row`` (from 0) starts."""
    try:
        return next(itertools.islice(_rows(data, separator), row + 1, None))[0]
    except _BrokenQuotes as broken:  # polars is more lenient about quotes: the fault lies there
        return broken.line


def inferred(text: pl.Series) -> pl.Series:
    """A column as numbers, truth values or times, if every value reads as one; otherwise as it is."""
    if text.null_count() == len(text):
        return text
    probe = text.drop_nulls().head(_PROBED)  # most columns are settled by their first values
    for read in (_integers, _decimals, _truths, _times):
        if read(probe) is not None and (values := read(text)) is not None:
            return values
    return text


def _integers(text: pl.Series) -> pl.Series | None:
    values = text.cast(pl.Int64, strict=False)
    same = values.null_count() == text.null_count() and (values.cast(pl.String) == text).all()
    return values if same else None


def _decimals(text: pl.Series) -> pl.Series | None:
    values = text.cast(pl.Float64, strict=False)
    numbers = values.null_count() == text.null_count() and values.is_finite().all()
    return values if numbers and not text.str.contains(_CODE).any() else None


def _truths(text: pl.Series) -> pl.Series | None:
    lowered = text.str.to_lowercase()
    return lowered == "true" if lowered.is_in(["true", "false"]).all() else None


def _times(text: pl.Series) -> pl.Series | None:
    if not text.str.contains(_ZONED).all():
        return None
    values = parse_times(text).values
    return values if values.null_count() == text.null_count() else None


def written(values: pl.Series) -> pl.Series:
    """The fields that a column is written as: String."""
    return values.dt.strftime(_WRITTEN) if isinstance(values.dtype, pl.Datetime) else values.cast(pl.String)


def write_csv(log: EventLog, path: Path) -> None:
    """Write ``log`` as CSV (RFC 4180), packed by gzip when ``path`` ends in ``.gz``; times in UTC with their offset.

    ``OSError`` when it cannot be written.
    """
    table = flat_table(log, path)
    typed = [name for name, kind in table.schema.items() if kind != pl.String]
    table = table.with_columns([written(values_of(table, name)).alias(name) for name in typed])
    with open_output(path) as out:
        table.write_csv(out, line_terminator="\r\n")

"""Reading and writing CSV: everything is text first; a column becomes numbers or truth values only
if all of it does.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Ints
from cloakwork.base.errors import LogError
from cloakwork.base.naming import values_of
from cloakwork.base.text import first_line
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats.column_layout import round_trips
from cloakwork.log.formats.column_names import column_names, require_own_names
from cloakwork.log.formats.csv_grammar import CsvFault, Records, find_records, split_fields
from cloakwork.log.formats.encodings import decoded
from cloakwork.log.formats.flat import (
    FileTable,
    counted_notes,
    flat_table,
    log_of_file,
    within_value_size,
)
from cloakwork.log.formats.output import open_output
from cloakwork.log.formats.request import TableRequest
from cloakwork.log.formats.source import LogStream, empty_file
from cloakwork.log.limits import Limits, raising
from cloakwork.log.times import parse_times

_SEPARATORS: Final = ",;\t"
BOM: Final = b"\xef\xbb\xbf"
_IN_QUOTES: Final = re.compile(rb'"[^"]*"')
_WRITTEN: Final = "%Y-%m-%dT%H:%M:%S%.6f+00:00"
_ZONED: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?[+-]\d{2}:\d{2}$"
_TRUTHS: Final = (("true", "false"), ("True", "False"), ("TRUE", "FALSE"))
_DECIMAL_COMMA: Final = r"^-?(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:\.[0-9]{3})+),[0-9]+$"
"""Thousands in groups or not. ``007,5`` is no number; ``1.234`` may be a code like ``12.5``."""

_POINTS_ALONE: Final = r"^-?[0-9]+(?:\.[0-9]+)+$"

_PROBED: Final = 32
CORRECTION: Final = "correct that line, or export the file again"


def read_csv(path: Path, request: TableRequest) -> EventLog:
    """Read a CSV file, packed by gzip or not: one header, one record an event; ``,``, ``;`` or tab
    between fields, unless the options say otherwise.

    ``csv_grammar`` says what a record is. Only the empty field is missing; ``NA`` and the like are
    values. ``LogError`` with its line for a file that is no such table.
    """
    limits, options = request.limits, request.options
    with LogStream(path, limits) as stream:
        data = decoded(path, stream.read_all(), options.encoding)
    if not data.strip():
        raise empty_file(path)
    separator = options.delimiter or most_frequent_separator(data)
    try:
        found = find_records(data, separator)
    except CsvFault as fault:
        raise LogError(
            path, f"the table cannot be read ({fault})", line=fault.line, hint=CORRECTION
        ) from None
    header = read_header(path, found, separator, limits)
    named = [name for name in header if name.strip()]
    names = column_names(path, named, request)
    table, rows = read_table(path, found, separator, header)

    def line_of(row: int) -> int:
        return found.line(int(rows[row]))

    kept = table[list(names.kept)]
    checked, oversized = within_value_size(path, kept, limits, request.on_excess, line_of)
    free = [name for name, full in names.kept.items() if full not in request.spelt]
    as_text: set[str] = set()
    if options.decimal == ",":
        # With a decimal comma ``1.234`` is a code, or a thousand: no number to be inferred.
        as_text = {name for name in free if has_points_alone(values_of(checked, name))}
        checked = with_decimal_points(checked, free)
    typed, exact, texts = infer_types(checked, [name for name in free if name not in as_text])
    exact |= as_text
    blank_lines = int(found.blank.sum()) if len(header) > 1 else 0
    notes = counted_notes(
        (len(header) - len(named), "columns without a name, left out"),
        (blank_lines, "blank lines, left out"),
    )
    numbers = None if names.row_number is None else values_of(table, names.row_number)
    read = FileTable(
        path,
        typed,
        line_of,
        (*notes, *oversized),
        texts,
        frozenset(exact),
        numbers=numbers,
    )
    return log_of_file(read, names, request)


def split_table(
    path: Path, data: bytes, separator: str, limits: Limits, *, partial: bool
) -> tuple[list[str], pl.DataFrame]:
    """The named columns of a CSV text (UTF-8), and its fields as texts; of a ``partial`` one, which
    breaks off behind a line, the rows before one that is not whole. Errors as of ``read_csv``.
    """
    if not data.strip():
        raise empty_file(path)
    while True:
        try:
            found = find_records(data, separator)
            header = read_header(path, found, separator, limits)
            table, _ = read_table(path, found, separator, header)
        except CsvFault as fault:
            shorter = data[: data.rfind(b"\n", 0, len(data) - 1) + 1]
            if partial and len(shorter) > len(data) // 2:
                data = shorter
                continue
            raise LogError(
                path, f"the table cannot be read ({fault})", line=fault.line, hint=CORRECTION
            ) from None
        return [name for name in header if name.strip()], table


def has_points_alone(values: pl.Series) -> bool:
    """Whether some value has digits and points, and no comma."""
    return bool(values.str.contains(_POINTS_ALONE).any())


def with_decimal_points(table: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The table with a decimal point in each value of ``names`` that is a number with a decimal
    comma: each value by itself, whatever the others are.
    """
    changed = []
    for name in names:
        values = values_of(table, name)
        is_number = values.str.contains(_DECIMAL_COMMA)
        plain = values.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
        frame = pl.DataFrame({"given": values, "plain": plain, "number": is_number})
        chosen = pl.when("number").then("plain").otherwise("given")
        changed.append(frame.select(chosen).to_series().alias(name))
    return table.with_columns(changed)


def infer_types(
    table: pl.DataFrame, names: Sequence[str]
) -> tuple[pl.DataFrame, set[str], dict[str, pl.Series]]:
    """The table with the columns ``names`` typed; those that give back their texts, and the texts
    of the others.
    """
    inferred = {name: infer_type(values_of(table, name)) for name in names}
    typed = table.with_columns([values.alias(name) for name, values in inferred.items()])
    exact: set[str] = set()
    texts: dict[str, pl.Series] = {}
    for name, values in inferred.items():
        spelt = values_of(table, name)
        if round_trips(spelt, values):
            exact.add(name)
        else:
            texts[name] = spelt
    return typed, exact, texts


def most_frequent_separator(data: bytes) -> str:
    """The separator that the first line holds most often outside quotes."""
    end = data.find(b"\n")
    first = data[:end] if end >= 0 else data
    line = _IN_QUOTES.sub(b"", first)
    return max(_SEPARATORS, key=lambda char: line.count(char.encode()))


def read_header(path: Path, found: Records, separator: str, limits: Limits) -> list[str]:
    """The column names in file order."""
    if found.blank[0]:
        raise LogError(path, "the first line is empty", line=1, hint="name the columns there")
    width = int(found.separators[0]) + 1
    if width > limits.attributes:
        raise LogError(
            path,
            f"the file has {width:,} columns, the limit is {limits.attributes:,}",
            line=1,
            hint=raising("attributes", width),
        )
    header = [name.decode() for name in split_fields(found.data[: found.ends[0]], separator)]
    require_own_names(path, header)
    return header


def read_table(
    path: Path, found: Records, separator: str, header: list[str]
) -> tuple[pl.DataFrame, Ints]:
    """All fields as text, null where empty, columns called as in ``header``; and the record that
    each row is.

    polars reads the fields. It sees only files that the grammar has settled, and must find as many
    rows as that did.
    """
    width = len(header)
    blank = found.blank if width > 1 else np.zeros(len(found.starts), np.bool_)
    broken = np.flatnonzero((found.separators != width - 1) & ~blank)
    if len(broken):
        said = f"the row has {found.separators[broken[0]] + 1} fields, the header {width}"
        raise LogError(path, said, line=found.line(int(broken[0])), hint=CORRECTION)
    columns = [name if name.strip() else f"\0{place}" for place, name in enumerate(header)]
    rows = np.flatnonzero(~blank)[1:]
    if not len(rows):
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.String)), rows
    first = int(found.starts[rows[0]])
    # polars would take the mark for the beginning of a file, and leave it out.
    if found.data.startswith(BOM, first):
        said = "a byte order mark stands at the beginning of a row"
        raise LogError(
            path,
            said,
            line=found.line(int(rows[0])),
            hint="remove it; its place is before the header",
        )
    body, skipped = _without_blank_lines(found, blank)
    try:
        table = pl.read_csv(
            body,
            separator=separator,
            has_header=False,
            schema={str(place): pl.String for place in range(width)},
            skip_lines=skipped,
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise LogError(
            path, f"the table cannot be read ({first_line(error)})", hint=CORRECTION
        ) from None
    if table.shape != (len(rows), width):
        said = f"the file has {len(rows):,} rows, and {table.height:,} can be read"
        raise LogError(path, said, hint=CORRECTION)
    table.columns = columns
    # polars reads an empty field as null, and an empty quoted one as the empty text.
    if b'""' in body:
        table = table.with_columns(pl.when(pl.all() != "").then(pl.all()))
    return table, rows


def _without_blank_lines(found: Records, blank: Bools) -> tuple[bytes, int]:
    """The file without blank lines, and how many lines of it the header takes."""
    header_lines = found.data.count(b"\n", 0, found.ends[0]) + 1
    if not blank.any():
        return found.data, header_lines
    # 1 where a blank line begins and -1 where the next line does; the running sum is 1 inside.
    gone = np.zeros(len(found.data) + 1, np.int8)
    nexts = np.append(found.starts[1:], len(found.data))
    np.add.at(gone, found.starts[blank], 1)
    np.add.at(gone, nexts[blank], -1)
    kept = np.cumsum(gone[:-1], dtype=np.int8) == 0
    return np.frombuffer(found.data, np.uint8)[kept].tobytes(), header_lines


def infer_type(text: pl.Series) -> pl.Series:
    """A column as numbers, truth values or times if every value reads as one; else as it is."""
    if text.null_count() == len(text):
        return text
    probe = text.drop_nulls().head(_PROBED)  # most columns are settled by their first values
    for read in (_as_integers, _as_decimals, _as_truth_values, _as_times):
        if read(probe) is None:
            continue
        values = read(text)
        if values is not None:
            return values
    return text


def _as_integers(text: pl.Series) -> pl.Series | None:
    values = text.cast(pl.Int64, strict=False)
    if values.null_count() != text.null_count():
        return None
    return values if (values.cast(pl.String) == text).all() else None


def _as_decimals(text: pl.Series) -> pl.Series | None:
    """Numbers only where each is written as the number would be: ``1E5``, ``+4917``, ``401.90`` are
    codes.
    """
    values = text.cast(pl.Float64, strict=False)
    if values.null_count() != text.null_count() or not values.is_finite().all():
        return None
    return values if (values.cast(pl.String) == text).all() else None


def _as_truth_values(text: pl.Series) -> pl.Series | None:
    """Truth values only in one spelling: where ``TRUE`` stands beside ``true``, both stay what they
    are.
    """
    for true, false in _TRUTHS:
        if text.is_in([true, false]).all():
            return text == true
    return None


def _as_times(text: pl.Series) -> pl.Series | None:
    if not text.str.contains(_ZONED).all():
        return None
    values = parse_times(text).values
    return values if values.null_count() == text.null_count() else None


def field_texts(values: pl.Series) -> pl.Series:
    """The fields that a column is written as: String."""
    if isinstance(values.dtype, pl.Datetime):
        return values.dt.strftime(_WRITTEN)
    return values.cast(pl.String)


def write_csv(log: EventLog, path: Path) -> None:
    """Write ``log`` as CSV (RFC 4180), packed by gzip when ``path`` ends in ``.gz``; times in UTC
    with their offset.

    ``OSError`` when it cannot be written.
    """
    table = flat_table(log, path)
    typed = [name for name, kind in table.schema.items() if kind != pl.String]
    table = table.with_columns([field_texts(values_of(table, name)).alias(name) for name in typed])
    with open_output(path) as out:
        table.write_csv(out, line_terminator="\r\n")

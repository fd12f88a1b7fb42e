"""Reading and writing CSV: everything is text first; a column becomes numbers or truth values only
if all of it does.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.errors import LogError, first_line
from cloakwork.base.naming import values_of
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats.column_names import column_names, require_own_names
from cloakwork.log.formats.csv_records import BOM, CORRECTION, CsvBlocks, Records
from cloakwork.log.formats.options import InputOptions
from cloakwork.log.formats.row_source import RawChunk, Reader, ReadRequest
from cloakwork.log.formats.source import LogStream, likely_encoding, open_output
from cloakwork.log.formats.tables import (
    FileTable,
    TableAssembler,
    TableEvidence,
    flat_table,
    require_same_columns,
)
from cloakwork.log.limits import Limits, refuse_columns

_DECIMAL_COMMA: Final = r"^-?(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:\.[0-9]{3})+),[0-9]+$"
"""Thousands in groups or not. ``007,5`` is no number; ``1.234`` may be a code like ``12.5``."""

_POINTS_ALONE: Final = r"^-?[0-9]+(?:\.[0-9]+)+$"
"""Digits and points, and no comma."""


class CsvSource:
    """CSV files of one set of columns, in this order; packed by gzip or not. Each has one header,
    and one record an event; ``,``, ``;`` or tab between fields, unless the options say otherwise.

    ``csv_records`` says what a record is. Only the empty field is missing; ``NA`` and the like are
    values.
    """

    def __init__(self, files: Sequence[Path], request: ReadRequest) -> None:
        self._files = tuple(files)
        self._request = request
        self._bytes_read = 0
        self._evidence: TableEvidence | None = None

    def expected_rows(self) -> int:
        """About how many rows there are."""
        if self._evidence is None or not self._bytes_read:
            return 0
        size = sum(path.stat().st_size for path in self._files)
        return self._evidence.rows * max(1, size) // self._bytes_read

    def chunks(self, *, at_once: bool = False) -> Iterator[RawChunk]:
        """The rows of all files. ``LogError`` with its line for a file that is no such table."""
        request = self._request
        line_of = partial(_line_of, request.written, request.bounds)
        evidence: TableEvidence | None = None
        before = 0
        of_first: list[str] = []
        for path in self._files:
            with LogStream(path, request.bounds) as stream:
                header, blocks = csv_tables(CsvBlocks(stream, request.written))
                # The header of the first file tells the columns of all.
                of_first = of_first or header
                self._evidence = evidence = evidence or TableEvidence(
                    self._files,
                    column_names(path, header, request),
                    request,
                    infers=True,
                    line_of=line_of,
                )
                require_same_columns(self._files[0], of_first, path, header)
                evidence.begin_file()
                first_row = 0
                for found, table in blocks:
                    evidence.blank_lines += int(found.blank.sum())
                    self._bytes_read = before + stream.taken
                    yield evidence.take(_stretch(path, found, table, first_row, evidence))
                    first_row += table.height
                before += stream.taken

    def assembler(self) -> TableAssembler:
        """What makes logs of the rows."""
        assert self._evidence is not None  # noqa: S101 - asked after the last chunk
        return self._evidence.assembler()


def _stretch(
    path: Path, found: Records, table: pl.DataFrame, first_row: int, evidence: TableEvidence
) -> FileTable:
    """Some rows, of which ``table`` has all columns of the file as texts."""
    request = evidence.request
    names = evidence.names
    kept = table[list(names.kept)]
    as_text: frozenset[str] = frozenset()
    if request.written.decimal == ",":
        # With a decimal comma ``1.234`` is a code, or a thousand: no number to be inferred.
        free = [name for name, full in names.kept.items() if full not in request.spelt]
        as_text = frozenset(
            name for name in free if values_of(kept, name).str.contains(_POINTS_ALONE).any()
        )
        kept = with_decimal_points(kept, free)
    numbers = None if names.row_number is None else values_of(table, names.row_number)
    return FileTable(path, kept, found.line_of_row, first_row, numbers, as_text=as_text)


def _line_of(written: InputOptions, limits: Limits, path: Path, row: int) -> int | None:
    """The line of a row (from 0) of a file, found by reading it again."""
    with LogStream(path, limits) as stream:
        for found in CsvBlocks(stream, written):
            if row < len(found.rows):
                return found.line_of_row(row)
            row -= len(found.rows)
    return None


READER: Final = Reader(
    CsvSource, ("columns", "time_format", "time_zone", "delimiter", "encoding", "decimal")
)


def with_decimal_points(table: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The table with a decimal point in each value of ``names`` that is a number with a decimal
    comma: each value by itself, whatever the others are.
    """
    changed = []
    for name in names:
        values = values_of(table, name)
        is_number = values.str.contains(_DECIMAL_COMMA)
        # The points of thousands go, and then the comma becomes the decimal point.
        plain = values.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
        frame = pl.DataFrame({"given": values, "plain": plain, "number": is_number})
        chosen = pl.when("number").then("plain").otherwise("given")
        changed.append(frame.select(chosen).to_series().alias(name))
    return table.with_columns(changed)


def csv_tables(blocks: CsvBlocks) -> tuple[list[str], Iterator[tuple[Records, pl.DataFrame]]]:
    """The names of the columns in file order; and the records block by block, each with its fields
    as ``_read_table`` has them. ``LogError`` for what is no table.
    """
    path = blocks.stream.path
    found = iter(blocks)
    first = next(found)
    header = _read_header(path, first, blocks.separator, blocks.stream.limits)
    tables = (
        (each, _read_table(path, each, blocks.separator, header)) for each in chain([first], found)
    )
    return header, tables


def _read_header(path: Path, found: Records, separator: str, limits: Limits) -> list[str]:
    """The column names in file order."""
    if found.starts[0] == found.ends[0]:
        raise LogError(path, "the first line is empty", line=1, hint="name the columns there")
    # Counted before it is split: a forged header may name millions of columns.
    refuse_columns(path, "the file", int(found.separators[0]) + 1, limits, line=1)
    line = found.data[: found.ends[0]]
    fields = pl.read_csv(line, separator=separator, has_header=False, infer_schema=False)
    header = [name or "" for name in fields.row(0)]
    # Neither is seen on a screen: a second mark, and every other byte of what is UTF-16.
    if line.startswith(BOM) or header[0].startswith("\ufeff") or b"\0" in line:
        raise LogError(
            path,
            "a byte-order mark or a NUL stands in the names of the columns",
            line=1,
            hint="save the file as UTF-8, with one mark at most, or say under spec.input what it "
            f"is in: it looks like encoding: {likely_encoding(found.data)}",
        )
    require_own_names(path, header)
    return header


def _read_table(path: Path, found: Records, separator: str, header: list[str]) -> pl.DataFrame:
    """All fields as text, null where empty, columns called as in ``header``; a row for each of
    ``found.rows``.

    polars reads the fields. It sees only files that the grammar has settled, and must find as many
    rows as that did.
    """
    width = len(header)
    broken = np.flatnonzero((found.separators != width - 1) & ~found.blank)
    if len(broken):
        said = f"the row has {found.separators[broken[0]] + 1} fields, the header {width}"
        raise LogError(path, said, line=found.line(int(broken[0])), hint=CORRECTION)
    # A column without a name gets one of its own; nothing asks for it.
    columns = [name if name.strip() else f"\0{place}" for place, name in enumerate(header)]
    try:
        # With the header, as polars leaves out what stands before the first line that is not blank.
        table = pl.read_csv(
            found.data,
            separator=separator,
            has_header=False,
            schema={str(place): pl.String for place in range(width)},
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise LogError(
            path, f"the table cannot be read ({first_line(error)})", hint=CORRECTION
        ) from None
    # Where polars finds other rows than the grammar, one of them misreads the file.
    if table.shape != (len(found.starts), width):
        said = f"the file has {len(found.starts):,} lines, and {table.height:,} can be read"
        raise LogError(path, said, hint=CORRECTION)
    table.columns = columns
    # polars reads an empty field as null, and an empty quoted one as the empty text.
    if b'""' in found.data:
        table = table.with_columns(pl.when(pl.all() != "").then(pl.all()))
    return table[found.rows] if found.blank.any() else table[1:]


def field_texts(values: pl.Series) -> pl.Series:
    """The fields that a column is written as: String."""
    if isinstance(values.dtype, pl.Datetime):
        return values.dt.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00")
    return values.cast(pl.String)


def write_csv(log: EventLog, path: Path, options: InputOptions | None = None) -> None:
    """Write ``log`` as CSV (RFC 4180), packed by gzip when ``path`` ends in ``.gz``; times in UTC
    with their offset. ``options``: the names of columns, and the delimiter. ``OSError`` when it
    cannot be written.
    """
    table = flat_table(log, path)
    texts = [field_texts(values_of(table, name)).alias(name) for name in table.columns]
    table = table.with_columns(texts)
    options = options or InputOptions()
    table = table.rename(options.columns, strict=False)
    with open_output(path) as out:
        table.write_csv(out, line_terminator="\r\n", separator=options.delimiter or ",")

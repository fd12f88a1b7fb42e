"""Reading and writing CSV: everything is text first; a column becomes numbers or truth values only
if all of it does.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.errors import LogError, first_line
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import values_of
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats.column_names import column_names, require_own_names
from cloakwork.log.formats.csv_records import (
    BOM,
    CORRECTION,
    CsvBlocks,
    Records,
)
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

_WRITTEN: Final = "%Y-%m-%dT%H:%M:%S%.6f+00:00"
_DECIMAL_COMMA: Final = r"^-?(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:\.[0-9]{3})+),[0-9]+$"
"""Thousands in groups or not. ``007,5`` is no number; ``1.234`` may be a code like ``12.5``."""

_POINTS_ALONE: Final = r"^-?[0-9]+(?:\.[0-9]+)+$"


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
        line_of = _Lines(request.written, request.bounds)
        evidence: TableEvidence | None = None
        before = 0
        of_first: list[str] = []
        for path in self._files:
            with LogStream(path, request.bounds) as stream:
                blocks = CsvBlocks(stream, request.written)
                header: list[str] = []
                first_row = 0
                for found in blocks:
                    if not header:
                        header = read_header(path, found, blocks.separator, request.bounds)
                        # The header of the first file tells the columns of all.
                        of_first = of_first or header
                        evidence = evidence or TableEvidence(
                            self._files,
                            column_names(path, header, request),
                            request,
                            infers=True,
                            line_of=line_of,
                        )
                        require_same_columns(self._files[0], of_first, path, header)
                        evidence.begin_file()
                    assert evidence is not None  # noqa: S101 - the file is begun
                    self._evidence = evidence
                    table = read_table(path, found, blocks.separator, header)
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
    path: Path,
    found: Records,
    table: pl.DataFrame,
    first_row: int,
    evidence: TableEvidence,
) -> FileTable:
    """Some rows, of which ``table`` has all columns of the file as texts."""
    request = evidence.request
    names = evidence.names
    rows = found.rows

    def line_of(row: int) -> int:
        return found.line(int(rows[row]))

    kept = table[list(names.kept)]
    as_text: frozenset[str] = frozenset()
    if request.written.decimal == ",":
        # With a decimal comma ``1.234`` is a code, or a thousand: no number to be inferred.
        free = [name for name, full in names.kept.items() if full not in request.spelt]
        as_text = frozenset(name for name in free if has_points_alone(values_of(kept, name)))
        kept = with_decimal_points(kept, free)
    numbers = None if names.row_number is None else values_of(table, names.row_number)
    return FileTable(path, kept, line_of, first_row, numbers, as_text=as_text)


@frozen
class _Lines:
    """The lines of rows, found by reading a file again."""

    written: InputOptions
    limits: Limits

    def __call__(self, path: Path, row: int) -> int | None:
        """The line of a row (from 0) of a file."""
        with LogStream(path, self.limits) as stream:
            for found in CsvBlocks(stream, self.written):
                if row < len(found.rows):
                    return found.line(int(found.rows[row]))
                row -= len(found.rows)
        return None


READER: Final = Reader(
    CsvSource, ("columns", "time_format", "time_zone", "delimiter", "encoding", "decimal")
)


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
        # The points of thousands go, and then the comma becomes the decimal point.
        plain = values.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
        frame = pl.DataFrame({"given": values, "plain": plain, "number": is_number})
        chosen = pl.when("number").then("plain").otherwise("given")
        changed.append(frame.select(chosen).to_series().alias(name))
    return table.with_columns(changed)


def read_header(
    path: Path,
    found: Records,
    separator: str,
    limits: Limits,
) -> list[str]:
    """The column names in file order."""
    if found.starts[0] == found.ends[0]:
        raise LogError(
            path,
            "the first line is empty",
            line=1,
            hint="name the columns there",
        )
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


def blocks_of(
    path: Path, options: InputOptions, limits: Limits
) -> Iterator[tuple[str, list[str], Records]]:
    """The file block by block: what separates its fields, the names of its columns, the records."""
    with LogStream(path, limits) as stream:
        blocks = CsvBlocks(stream, options)
        for found in blocks:
            yield blocks.separator, read_header(path, found, blocks.separator, limits), found


def read_table(
    path: Path,
    found: Records,
    separator: str,
    header: list[str],
) -> pl.DataFrame:
    """All fields as text, null where empty, columns called as in ``header``; a row for each of
    ``found.rows``.

    polars reads the fields. It sees only files that the grammar has settled, and must find as many
    rows as that did.
    """
    width = len(header)
    broken = np.flatnonzero((found.separators != width - 1) & ~found.blank)
    if len(broken):
        said = f"the row has {found.separators[broken[0]] + 1} fields, the header {width}"
        raise LogError(
            path,
            said,
            line=found.line(int(broken[0])),
            hint=CORRECTION,
        )
    # A column without a name gets one of its own; nothing asks for it.
    columns = [name if name.strip() else f"\0{place}" for place, name in enumerate(header)]
    rows = found.rows
    if not len(rows):
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
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
    body, skipped = _without_blank_lines(found)
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
            path,
            f"the table cannot be read ({first_line(error)})",
            hint=CORRECTION,
        ) from None
    # Where polars finds other rows than the grammar, one of them misreads the file.
    if table.shape != (len(rows), width):
        said = f"the file has {len(rows):,} rows, and {table.height:,} can be read"
        raise LogError(path, said, hint=CORRECTION)
    table.columns = columns
    # polars reads an empty field as null, and an empty quoted one as the empty text.
    if b'""' in body:
        table = table.with_columns(pl.when(pl.all() != "").then(pl.all()))
    return table


def _without_blank_lines(found: Records) -> tuple[bytes, int]:
    """The file without blank lines, and how many lines of it the header takes."""
    header_lines = found.data.count(b"\n", 0, found.ends[0]) + 1
    blank = found.blank
    if not blank.any():
        return found.data, header_lines
    # 1 where a blank line begins and -1 where the next line does; the running sum is 1 inside.
    gone = np.zeros(len(found.data) + 1, np.int8)
    nexts = np.append(found.starts[1:], len(found.data))
    np.add.at(gone, found.starts[blank], 1)
    np.add.at(gone, nexts[blank], -1)
    kept = np.cumsum(gone[:-1], dtype=np.int8) == 0
    return np.frombuffer(found.data, np.uint8)[kept].tobytes(), header_lines


def field_texts(values: pl.Series) -> pl.Series:
    """The fields that a column is written as: String."""
    if isinstance(values.dtype, pl.Datetime):
        return values.dt.strftime(_WRITTEN)
    return values.cast(pl.String)


def write_csv(log: EventLog, path: Path, options: InputOptions | None = None) -> None:
    """Write ``log`` as CSV (RFC 4180), packed by gzip when ``path`` ends in ``.gz``; times in UTC
    with their offset. ``options``: the names of columns, and the delimiter. ``OSError`` when it
    cannot be written.
    """
    table = flat_table(log, path)
    typed = [name for name, kind in table.schema.items() if kind != pl.String]
    table = table.with_columns([field_texts(values_of(table, name)).alias(name) for name in typed])
    options = options or InputOptions()
    table = table.rename(options.columns, strict=False)
    with open_output(path) as out:
        table.write_csv(out, line_terminator="\r\n", separator=options.delimiter or ",")

"""Reading and writing CSV: everything is text first; a column becomes numbers or truth values only
if all of it does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Ints
from cloakwork.base.errors import LogError
from cloakwork.base.naming import values_of
from cloakwork.base.text import first_line
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats.column_names import column_names, require_own_names
from cloakwork.log.formats.csv_records import (
    BOM,
    CORRECTION,
    CsvBlocks,
    CsvFault,
    Records,
    find_records,
    split_fields,
)
from cloakwork.log.formats.options import InputOptions
from cloakwork.log.formats.row_source import RawChunk, Reader, ReadRequest
from cloakwork.log.formats.source import LogStream, empty_file, open_output
from cloakwork.log.formats.tables import (
    FileTable,
    TableAssembler,
    TableEvidence,
    TwoValues,
    counted_notes,
    flat_table,
    require_same_columns,
)
from cloakwork.log.formats.xes_write import Attribute, Extension
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
        self._files, self._request = tuple(files), request
        self._bytes_read = 0
        self._header: list[str] = []
        self._evidence: TableEvidence | None = None
        self._first_rows: list[int] = []
        self._blank_lines = self._unnamed = 0

    def expected_rows(self) -> int:
        """About how many rows there are."""
        if self._evidence is None or not self._bytes_read:
            return 0
        size = sum(path.stat().st_size for path in self._files)
        return self._evidence.rows * max(1, size) // self._bytes_read

    def chunks(self, *, at_once: bool = False) -> Iterator[RawChunk]:
        """The rows of all files. ``LogError`` with its line for a file that is no such table."""
        self._evidence = None
        self._first_rows, self._blank_lines = [], 0
        before = 0
        for path in self._files:
            with LogStream(path, self._request.bounds) as stream:
                blocks = CsvBlocks(stream, self._request.written)
                header: list[str] = []
                first_row = 0
                for found in blocks:
                    if not header:
                        header = read_header(path, found, blocks.separator, self._request.bounds)
                        named = [name for name in header if name.strip()]
                        # The header of the first file tells the columns of all.
                        if self._evidence is None:
                            names = column_names(path, named, self._request)
                            self._evidence = TableEvidence(names, self._request, infers=True)
                            self._header, self._unnamed = named, len(header) - len(named)
                        require_same_columns(self._files[0], self._header, path, named)
                        self._first_rows.append(self._evidence.rows)
                    table, rows = read_table(path, found, blocks.separator, header)
                    self._bytes_read = before + blocks.bytes_given
                    yield self._chunk(path, found, table, rows, first_row)
                    first_row += table.height
                before += stream.taken

    def assembler(self) -> TableAssembler:
        """What makes logs of the rows."""
        evidence = self._evidence
        assert evidence is not None  # noqa: S101 - asked after the last chunk, and a file has one
        notes = counted_notes(
            (self._unnamed, "columns without a name, left out"),
            (self._blank_lines, "blank lines, left out"),
        )
        line_of = _Lines(self._request.written, self._request.bounds)
        refusal_of = TwoValues(
            evidence.names,
            self._files,
            tuple(self._first_rows),
            line_of,
        )
        return evidence.assembler(self._files[0], notes, refusal_of)

    def _chunk(
        self,
        path: Path,
        found: Records,
        table: pl.DataFrame,
        rows: Ints,
        first_row: int,
    ) -> RawChunk:
        """Some rows: all columns of the file as texts, and the record that each row is."""
        request, evidence = self._request, self._evidence
        assert evidence is not None  # noqa: S101 - the file is begun
        names = evidence.names
        # In a table of one column a blank line is an empty field.
        if table.width > 1:
            self._blank_lines += int(found.blank.sum())

        def line_of(row: int) -> int:
            return found.line(int(rows[row]))

        kept = table[list(names.kept)]
        if request.written.decimal == ",":
            # With a decimal comma ``1.234`` is a code, or a thousand: no number to be inferred.
            free = [name for name, full in names.kept.items() if full not in request.spelt]
            with_points = [name for name in free if has_points_alone(values_of(kept, name))]
            evidence.as_text |= {names.kept[name] for name in with_points}
            kept = with_decimal_points(kept, free)
        numbers = None if names.row_number is None else values_of(table, names.row_number)
        return evidence.take(FileTable(path, kept, line_of, first_row, numbers))


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of rows, found by reading a file again."""

    written: InputOptions
    limits: Limits

    def __call__(self, path: Path, row: int) -> int | None:
        """The line of a row (from 0) of a file."""
        with LogStream(path, self.limits) as stream:
            for found in CsvBlocks(stream, self.written):
                rows = _rows_of(found)
                if row < len(rows):
                    return found.line(int(rows[row]))
                row -= len(rows)
        return None


READER: Final = Reader(
    CsvSource, ("columns", "time_format", "time_zone", "delimiter", "encoding", "decimal")
)


def split_table(
    path: Path,
    data: bytes,
    separator: str,
    limits: Limits,
    *,
    partial: bool,
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
            # A sample may break off inside a record: the same with one line less.
            shorter = data[: data.rfind(b"\n", 0, len(data) - 1) + 1]
            if partial and len(shorter) > len(data) // 2:
                data = shorter
                continue
            raise LogError(
                path,
                f"the table cannot be read ({fault})",
                line=fault.line,
                hint=CORRECTION,
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
    if found.blank[0]:
        raise LogError(
            path,
            "the first line is empty",
            line=1,
            hint="name the columns there",
        )
    # Counted before it is split: a forged header may name millions of columns.
    refuse_columns(path, "the file", int(found.separators[0]) + 1, limits, line=1)
    header = [name.decode() for name in split_fields(found.data[: found.ends[0]], separator)]
    require_own_names(path, header)
    return header


def read_table(
    path: Path,
    found: Records,
    separator: str,
    header: list[str],
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
        raise LogError(
            path,
            said,
            line=found.line(int(broken[0])),
            hint=CORRECTION,
        )
    # A column without a name gets one of its own; nothing asks for it.
    columns = [name if name.strip() else f"\0{place}" for place, name in enumerate(header)]
    rows = _rows_of(found)
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
    return table, rows


def _rows_of(found: Records) -> Ints:
    """The record that each row is: all behind the header but, in a table of several columns, lines
    without a byte.
    """
    if not found.separators[0]:
        return np.arange(1, len(found.starts))
    return np.flatnonzero(~found.blank)[1:].astype(np.int64)


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


def field_texts(values: pl.Series) -> pl.Series:
    """The fields that a column is written as: String."""
    if isinstance(values.dtype, pl.Datetime):
        return values.dt.strftime(_WRITTEN)
    return values.cast(pl.String)


def write_csv(
    log: EventLog,
    path: Path,
    annotations: tuple[Attribute, ...] = (),
    extensions: tuple[Extension, ...] = (),
) -> None:
    """Write ``log`` as CSV (RFC 4180), packed by gzip when ``path`` ends in ``.gz``; times in UTC
    with their offset. There is no place for ``annotations``. ``OSError`` when it cannot be written.
    """
    table = flat_table(log, path)
    typed = [name for name, kind in table.schema.items() if kind != pl.String]
    table = table.with_columns([field_texts(values_of(table, name)).alias(name) for name in typed])
    with open_output(path) as out:
        table.write_csv(out, line_terminator="\r\n")

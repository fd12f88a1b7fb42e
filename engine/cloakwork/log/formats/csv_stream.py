"""CSV files as rows, in one pass and little memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.naming import values_of
from cloakwork.log.formats.column_names import ColumnNames, column_names
from cloakwork.log.formats.csv import has_points_alone, read_header, read_table, with_decimal_points
from cloakwork.log.formats.csv_blocks import CsvBlocks
from cloakwork.log.formats.csv_grammar import Records
from cloakwork.log.formats.flat import FileTable, counted_notes, texts_within
from cloakwork.log.formats.request import TableRequest
from cloakwork.log.formats.row_source import RawChunk
from cloakwork.log.formats.source import LogStream
from cloakwork.log.formats.table_stream import (
    TableAssembler,
    TableEvidence,
    TwoValues,
    require_same_columns,
)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Some rows of a file: all its columns as texts, and the record that each row is."""

    header: list[str]
    found: Records
    table: pl.DataFrame
    rows: Ints
    bytes_given: int

    def line_of(self, row: int) -> int:
        """The line of a row (from 0)."""
        return self.found.line(int(self.rows[row]))


class CsvSource:
    """CSV files of one set of columns, in this order."""

    def __init__(self, files: Sequence[Path], request: TableRequest) -> None:
        self._files, self._request = tuple(files), request
        self._bytes_read = 0
        self._header: list[str] | None = None
        self._evidence: TableEvidence | None = None
        self._first_rows: list[int] = []
        self._blank_lines = self._unnamed = 0

    def expected_rows(self) -> int:
        """About how many rows there are."""
        if self._evidence is None or not self._bytes_read:
            return 0
        size = sum(path.stat().st_size for path in self._files)
        return self._evidence.rows * max(1, size) // self._bytes_read

    def chunks(self) -> Iterator[RawChunk]:
        """The rows of all files. Errors as of ``read_csv``."""
        self._header = self._evidence = None
        self._first_rows, self._blank_lines, self._unnamed = [], 0, 0
        before = 0
        for path in self._files:
            with LogStream(path, self._request.limits) as stream:
                first_row = 0
                for stretch in _stretches(stream, self._request):
                    self._bytes_read = before + stretch.bytes_given
                    evidence = self._evidence_of(path, stretch, is_first=not first_row)
                    yield self._chunk(path, stretch, evidence, first_row)
                    first_row += stretch.table.height
                before += stream.taken

    def assembler(self) -> TableAssembler:
        """What makes logs of the rows."""
        evidence = self._evidence
        assert evidence is not None  # noqa: S101 - asked after the last chunk, and a file has one
        notes = counted_notes(
            (self._unnamed, "columns without a name, left out"),
            (self._blank_lines, "blank lines, left out"),
        )
        line_of = CsvLines(replace(self._request, keep=None))
        refusal_of = TwoValues(evidence.names, self._files, tuple(self._first_rows), line_of)
        return evidence.assembler(self._files[0], notes, refusal_of)

    def _evidence_of(self, path: Path, stretch: _Stretch, *, is_first: bool) -> TableEvidence:
        """What is known of the columns; of a file's first stretch its header is looked at."""
        header = stretch.header
        named = [name for name in header if name.strip()]
        if self._header is None or self._evidence is None:
            names = column_names(path, named, self._request)
            self._evidence = TableEvidence(names, self._request, infers=True)
            self._header, self._unnamed = named, len(header) - len(named)
        if is_first:
            require_same_columns(self._files[0], self._header, path, named)
            self._first_rows.append(self._evidence.rows)
        if len(header) > 1:
            self._blank_lines += int(stretch.found.blank.sum())
        return self._evidence

    def _chunk(
        self, path: Path, stretch: _Stretch, evidence: TableEvidence, first_row: int
    ) -> RawChunk:
        request, names = self._request, evidence.names
        kept = stretch.table[list(names.kept)]
        limits, on_excess = request.limits, request.on_excess
        checked, oversized = texts_within(path, kept, limits, on_excess, stretch.line_of)
        evidence.oversized += oversized
        if request.options.decimal == ",":
            free = _free_columns(names, request)
            evidence.as_text |= {
                names.kept[name] for name in free if has_points_alone(values_of(checked, name))
            }
            checked = with_decimal_points(checked, free)
        numbers = None
        if names.row_number is not None:
            numbers = values_of(stretch.table, names.row_number)
        table = FileTable(path, checked, stretch.line_of, first_row=first_row, numbers=numbers)
        return evidence.take(table)


@dataclass(frozen=True, slots=True)
class CsvLines:
    """The lines of rows, found by reading a file again."""

    request: TableRequest

    def __call__(self, path: Path, row: int) -> int | None:
        """The line of a row (from 0) of a file."""
        with LogStream(path, self.request.limits) as stream:
            for stretch in _stretches(stream, self.request):
                if row < stretch.table.height:
                    return stretch.line_of(row)
                row -= stretch.table.height
        return None


def _stretches(stream: LogStream, request: TableRequest) -> Iterator[_Stretch]:
    """The rows of a file, block by block: one at least."""
    blocks = CsvBlocks(stream, request.options)
    header: list[str] = []
    for found in blocks:
        header = header or read_header(stream.path, found, blocks.separator, request.limits)
        table, rows = read_table(stream.path, found, blocks.separator, header)
        yield _Stretch(header, found, table, np.asarray(rows, np.int64), blocks.bytes_given)


def _free_columns(names: ColumnNames, request: TableRequest) -> list[str]:
    """The columns, as the file calls them, whose types are to be found."""
    return [name for name, full in names.kept.items() if full not in request.spelt]

"""Parquet files as rows, in one pass and little memory."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.errors import LogError
from cloakwork.base.naming import values_of
from cloakwork.base.text import shown, size_text
from cloakwork.log.formats.column_names import column_names
from cloakwork.log.formats.flat import FileTable, text_bytes, texts_within
from cloakwork.log.formats.parquet import (
    as_unreadable,
    has_one_spelling,
    in_utc,
    refuse_size,
    refuse_width,
    require_bytes,
)
from cloakwork.log.formats.parquet_rows import ParquetRows
from cloakwork.log.formats.request import TableRequest
from cloakwork.log.formats.row_source import CELLS, MOST_ROWS, RawChunk
from cloakwork.log.formats.subprocess_reader import any_zone
from cloakwork.log.formats.table_stream import (
    WIDE,
    TableAssembler,
    TableEvidence,
    TwoValues,
    require_same_columns,
)
from cloakwork.log.limits import raising

LEAST_ROWS: Final = 4096
"""In a chunk, however wide the table is."""

_SLICE_BYTES: Final = 64 << 20
"""Bytes of text that one chunk has, and one row more."""


class ParquetSource:
    """Parquet files of one set of columns, in this order."""

    def __init__(self, files: Sequence[Path], request: TableRequest) -> None:
        """Read what the files say of themselves. Errors as of ``read_parquet``."""
        self._files, self._request = tuple(files), request
        self._heights: list[int] = []
        self._text_bytes = 0
        schemas = []
        for path in self._files:
            require_bytes(path)
            with as_unreadable(path), any_zone():
                schemas.append(dict(pl.read_parquet_schema(path)))
                refuse_width(path, len(schemas[-1]), request.limits)
                height = pl.scan_parquet(path).select(pl.len()).collect().item()
            self._heights.append(height)
        self._header = list(schemas[0])
        named = [name for name in self._header if name.strip()]
        self._unnamed = len(self._header) - len(named)
        self._names = column_names(self._files[0], named, request)
        self._types = _common_types(self._files, schemas, self._names.columns)
        self._places = [
            [place for place, name in enumerate(schema) if name in self._names.columns]
            for schema in schemas
        ]
        for path in self._files:
            with as_unreadable(path):
                refuse_size(path, len(self._names.columns), request.limits)
        self._evidence = TableEvidence(self._names, request)

    def expected_rows(self) -> int:
        """How many rows there are."""
        return sum(self._heights)

    def chunks(self) -> Iterator[RawChunk]:
        """The rows of all files. Errors as of ``read_parquet``."""
        self._evidence = TableEvidence(self._names, self._request)
        self._text_bytes = 0
        most = max(LEAST_ROWS, min(MOST_ROWS, CELLS // len(self._names.columns)))
        rows = ParquetRows()
        try:
            for path, places, height in zip(self._files, self._places, self._heights, strict=True):
                first_row = 0
                with as_unreadable(path):
                    for frame in rows.read(path, places, height, most):
                        for stretch in self._slices(path, frame):
                            yield self._evidence.take(self._stretch(path, stretch, first_row))
                            first_row += stretch.height
        finally:
            rows.close()
        if not self.expected_rows():
            empty = pl.DataFrame(schema=self._types)
            yield self._evidence.take(self._stretch(self._files[0], empty, 0))

    def assembler(self) -> TableAssembler:
        """What makes logs of the rows."""
        unnamed = self._unnamed
        notes = (f"columns without a name, left out: {unnamed}",) if unnamed else ()
        first_rows = tuple(accumulate(self._heights[:-1], initial=0))
        refusal_of = TwoValues(self._names, self._files, first_rows)
        return self._evidence.assembler(self._files[0], notes, refusal_of)

    def _slices(self, path: Path, frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """The rows in pieces of some bytes of text: a dictionary of a few bytes can stand for any
        number of long texts, which are written out once they are parted.
        """
        behind = np.cumsum(text_bytes(frame))
        self._text_bytes += int(behind[-1]) if len(behind) else 0
        if self._text_bytes > self._request.limits.unpacked_size:
            said = f"its texts take more than {size_text(self._request.limits.unpacked_size)}"
            hint = raising("unpacked-size", 2 * self._request.limits.unpacked_size)
            raise LogError(path, f"{said}, the limit", hint=hint)
        bounds = np.flatnonzero(np.diff(behind // _SLICE_BYTES)) + 1
        for first, last in pairwise([0, *bounds.tolist(), frame.height]):
            yield frame[first:last]

    def _stretch(self, path: Path, frame: pl.DataFrame, first_row: int) -> FileTable:
        """Some rows, as texts where they are asked for so."""
        read: dict[str, pl.Series] = {}
        row_number = self._names.row_number
        for name, kind in self._types.items():
            if name == row_number:
                continue
            values = in_utc(values_of(frame, name))
            if values.dtype == pl.Null and kind != pl.Null:
                values = values.cast(kind)
            if self._names.kept[name] in self._request.text and has_one_spelling(values.dtype):
                values = values.cast(pl.String)
            read[name] = values
        limits, on_excess = self._request.limits, self._request.on_excess
        checked, oversized = texts_within(path, pl.DataFrame(read), limits, on_excess)
        self._evidence.oversized += oversized
        numbers = None if row_number is None else values_of(frame, row_number)
        return FileTable(path, checked, first_row=first_row, numbers=numbers)


def _common_types(
    files: Sequence[Path], schemas: Sequence[Mapping[str, pl.DataType]], kept: Collection[str]
) -> dict[str, pl.DataType]:
    """The type of each column that is read; ``LogError`` where the files do not agree on columns
    and types.
    """
    first = schemas[0]
    types = {name: kind for name, kind in first.items() if name in kept}
    for path, schema in zip(files[1:], schemas[1:], strict=True):
        require_same_columns(files[0], list(first), path, list(schema))
        for name, kind in types.items():
            other = schema[name]
            if kind == pl.Null:
                types[name] = other
            elif other != pl.Null and _type_class(other) != _type_class(kind):
                said = f"column '{shown(name)}' holds {other}, and {kind} in {files[0].name}"
                raise LogError(path, said, hint="write the files of one log alike")
    return types


def _type_class(kind: pl.DataType) -> str:
    """Types of one class are kept alike."""
    if kind.is_integer() and kind not in WIDE:
        return "integer"
    if kind.is_float():
        return "float"
    if kind in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    if isinstance(kind, pl.Datetime):
        return "time with a zone" if kind.time_zone else "time"
    return str(kind)

"""Parquet: one row an event, case attributes repeated; read in one pass and little memory."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.errors import LogError, first_line
from cloakwork.base.naming import values_of
from cloakwork.base.text import shown, size_text
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats.apart import any_zone, parquet_rows
from cloakwork.log.formats.column_names import column_names
from cloakwork.log.formats.row_source import (
    CELLS,
    MOST_ROWS,
    RawChunk,
    Reader,
    ReadRequest,
    text_bytes,
)
from cloakwork.log.formats.source import require_bytes
from cloakwork.log.formats.tables import (
    WIDE,
    FileTable,
    TableAssembler,
    TableEvidence,
    flat_table,
    require_same_columns,
)
from cloakwork.log.formats.xes_write import Attribute, paths_and_texts
from cloakwork.log.limits import raising, refuse_columns, refuse_unpacked

LEAST_ROWS: Final = 4096
"""In a chunk, however wide the table is."""

_SLICE_BYTES: Final = 64 << 20
"""Bytes of text that one chunk has, and one row more."""

_VALUE_BYTES: Final = 16
"""What a value takes in memory, at least and about, whatever the file packs it into."""


class ParquetSource:
    """Parquet files of one set of columns, in this order; attributes in ``request.text`` become
    text.
    """

    def __init__(self, files: Sequence[Path], request: ReadRequest) -> None:
        """Read what the files say of themselves. ``LogError`` when one is damaged, lacks a standard
        column, has other columns than the first, or is over a limit.
        """
        self._files = tuple(files)
        self._request = request
        self._heights: list[int] = []
        schemas = []
        for path in self._files:
            require_bytes(path)
            with _as_unreadable(path), any_zone():
                schemas.append(dict(pl.read_parquet_schema(path)))
                # Before any row is read: a forged schema may name millions of columns.
                refuse_columns(path, "the file", len(schemas[-1]), request.bounds)
                height = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
            self._heights.append(height)
        self._names = column_names(self._files[0], list(schemas[0]), request)
        self._types = _common_types(self._files, schemas, self._names.columns)
        self._places = [
            [place for place, name in enumerate(schema) if name in self._names.columns]
            for schema in schemas
        ]
        # By the heights that the files state, before anything is unpacked.
        for path, height in zip(self._files, self._heights, strict=True):
            refuse_unpacked(
                path,
                height * len(self._names.columns) * _VALUE_BYTES,
                path.stat().st_size * _VALUE_BYTES,
                request.bounds,
                "the table, at one byte a value, takes",
                # Wide tables are mostly nulls: the log of a hospital has 29 values for each byte.
                times=4,
            )

    def expected_rows(self) -> int:
        """How many rows there are."""
        return sum(self._heights)

    def chunks(self, *, at_once: bool = False) -> Iterator[RawChunk]:
        """The rows of all files. ``LogError`` when one is damaged or over a limit."""
        self._evidence = TableEvidence(self._files, self._names, self._request)
        self._text_bytes = 0
        # The wider the table, the fewer rows in a chunk.
        most = max(LEAST_ROWS, min(MOST_ROWS, CELLS // len(self._names.columns)))
        for path, places, height in zip(self._files, self._places, self._heights, strict=True):
            first_row = 0
            self._evidence.begin_file()
            with _as_unreadable(path):
                for frame in parquet_rows(path, places, height, height if at_once else most):
                    for stretch in self._slices(path, frame):
                        yield self._evidence.take(self._table(path, stretch, first_row))
                        first_row += stretch.height
        # Files without a row have columns still: one empty chunk tells them.
        if not self.expected_rows():
            path = self._files[0]
            with _as_unreadable(path), any_zone():
                empty = self._table(path, pl.DataFrame(schema=self._types), 0)
                chunk = self._evidence.take(empty)
            yield chunk

    def assembler(self) -> TableAssembler:
        """What makes logs of the rows."""
        return self._evidence.assembler()

    def _slices(self, path: Path, frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """The rows in pieces of some bytes of text: a dictionary of a few bytes can stand for any
        number of long texts, which are written out once they are parted.
        """
        behind = np.cumsum(text_bytes(frame))
        self._text_bytes += int(behind[-1]) if len(behind) else 0
        most = self._request.bounds.unpacked_size
        if self._text_bytes > most:
            said = f"its texts take more than {size_text(most)}, the limit"
            raise LogError(path, said, hint=raising("unpacked-size", 2 * most))
        # Cut where the running sum passes a multiple of what one chunk may have.
        bounds = np.flatnonzero(np.diff(behind // _SLICE_BYTES)) + 1
        for first, last in pairwise([0, *bounds.tolist(), frame.height]):
            yield frame[first:last]

    def _table(self, path: Path, frame: pl.DataFrame, first_row: int) -> FileTable:
        """Some rows, as texts where they are asked for so."""
        request = self._request
        row_number = self._names.row_number
        read: dict[str, pl.Series] = {}
        for name, kind in self._types.items():
            if name == row_number:
                continue
            values = values_of(frame, name)
            # Parquet keeps times with a zone in UTC.
            if isinstance(values.dtype, pl.Datetime) and values.dtype.time_zone is not None:
                zoneless = values.to_physical().cast(pl.Datetime(values.dtype.time_unit))
                values = zoneless.dt.replace_time_zone("UTC")
            # A column without values here takes the type that it has in other files.
            if values.dtype == pl.Null and kind != pl.Null:
                values = values.cast(kind)
            # Values of these types have no one obvious spelling.
            is_odd = values.dtype.is_nested() or values.dtype in (pl.Binary, pl.Duration, pl.Object)
            if self._names.kept[name] in request.text and not is_odd:
                values = values.cast(pl.String)
            read[name] = values
        numbers = None if row_number is None else values_of(frame, row_number)
        return FileTable(path, pl.DataFrame(read), first_row=first_row, numbers=numbers)


READER: Final = Reader(ParquetSource, ("columns", "time_format", "time_zone"))


def write_parquet(log: EventLog, path: Path, annotations: tuple[Attribute, ...] = ()) -> None:
    """Write ``log`` as Parquet with ``annotations`` in its footer, as pairs of path and text.
    ``OSError`` when it cannot be written.
    """
    flat_table(log, path).write_parquet(path, metadata=paths_and_texts(annotations) or None)


@contextmanager
def _as_unreadable(path: Path) -> Iterator[None]:
    """Tell what libraries say of a file as a ``LogError``."""
    try:
        yield
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        OSError,
        ValueError,
        OverflowError,
    ) as error:
        said = first_line(error)
        # The words of a panic are for those who wrote the library, and differ from run to run.
        if "Panic" in said:
            said = "it is damaged"
        raise LogError(
            path, f"this is no readable Parquet file ({said})", hint="export the log again"
        ) from None


def _common_types(
    files: Sequence[Path], schemas: Sequence[Mapping[str, pl.DataType]], kept: Collection[str]
) -> dict[str, pl.DataType]:
    """The type of each column that is read; ``LogError`` where the files do not agree."""
    first = schemas[0]
    types = {name: kind for name, kind in first.items() if name in kept}
    for path, schema in zip(files[1:], schemas[1:], strict=True):
        require_same_columns(files[0], list(first), path, list(schema))
        for name, kind in types.items():
            other = schema[name]
            # A column without values agrees with any type.
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

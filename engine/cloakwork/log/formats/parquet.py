"""Reading and writing Parquet: one row an event, case attributes repeated."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import polars as pl

from cloakwork.base.errors import LogError
from cloakwork.base.naming import values_of
from cloakwork.base.text import first_line, size_text
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats.column_names import column_names
from cloakwork.log.formats.flat import FileTable, flat_table, log_of_file, within_value_size
from cloakwork.log.formats.request import TableRequest
from cloakwork.log.formats.source import LogStream, empty_file
from cloakwork.log.formats.subprocess_reader import any_zone, fault_of
from cloakwork.log.limits import RATIO_FROM, Limits, raising

_VALUE_BYTES: Final = 16
"""What a value takes in memory, at least and about, whatever the file packs it into."""
_RATIO_FROM: Final = 4 * RATIO_FROM
"""Wide tables are mostly nulls: the log of a hospital, 96 columns, has 29 values for each byte."""


def read_parquet(path: Path, request: TableRequest) -> EventLog:
    """Read a Parquet file; attributes in ``request.text`` become text.

    ``LogError`` when it is damaged, a standard column is missing or the file is over a limit.
    """
    require_bytes(path)
    with as_unreadable(path), any_zone():
        return _read_table(path, request)


def require_bytes(path: Path) -> None:
    """Refuse a file that is empty, or cannot be opened."""
    with LogStream(path) as stream:
        if not stream.read(1):
            raise empty_file(path)


@contextmanager
def as_unreadable(path: Path) -> Iterator[None]:
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
        raise LogError(
            path,
            f"this is no readable Parquet file ({first_line(error)})",
            hint="export the log again",
        ) from None


def _read_table(path: Path, request: TableRequest) -> EventLog:
    """As ``read_parquet``, with polars' own errors."""
    header = list(pl.read_parquet_schema(path))
    refuse_width(path, len(header), request.limits)
    named = [name for name in header if name.strip()]
    names = column_names(path, named, request)
    refuse_size(path, len(names.columns), request.limits)
    places = [place for place, name in enumerate(header) if name in names.columns]
    fault = fault_of(path, places)
    if fault:
        raise ValueError(fault)
    frame = pl.read_parquet(path, columns=places)
    read: dict[str, pl.Series] = {}
    for name in names.kept:
        values = in_utc(values_of(frame, name))
        if names.kept[name] in request.text and has_one_spelling(values.dtype):
            values = values.cast(pl.String)
        read[name] = values
    checked, oversized = within_value_size(
        path, pl.DataFrame(read), request.limits, request.on_excess
    )
    unnamed = len(header) - len(named)
    notes = (f"columns without a name, left out: {unnamed}",) if unnamed else ()
    numbers = None if names.row_number is None else values_of(frame, names.row_number)
    table = FileTable(path, checked, notes=(*notes, *oversized), numbers=numbers)
    return log_of_file(table, names, request)


def in_utc(column: pl.Series) -> pl.Series:
    """The same column; times with a zone as times in UTC, which is how Parquet keeps them."""
    if isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone is not None:
        zoneless = column.to_physical().cast(pl.Datetime(column.dtype.time_unit))
        return zoneless.dt.replace_time_zone("UTC")
    return column


def has_one_spelling(dtype: pl.DataType) -> bool:
    """Whether values of the type have one obvious spelling."""
    return not (dtype.is_nested() or dtype in (pl.Binary, pl.Duration, pl.Object))


def refuse_width(path: Path, width: int, limits: Limits) -> None:
    """Refuse more columns than the limit."""
    if width > limits.attributes:
        said = f"the file has {width:,} columns, the limit is {limits.attributes:,}"
        raise LogError(path, said, hint=raising("attributes", width))


def refuse_size(path: Path, width: int, limits: Limits) -> None:
    """A few bytes of Parquet can stand for any number of rows."""
    values = pl.scan_parquet(path).select(pl.len()).collect().item() * width
    if values * _VALUE_BYTES > limits.unpacked_size:
        said = f"the table takes more than {size_text(limits.unpacked_size)}, the limit"
        raise LogError(path, said, hint=raising("unpacked-size", values * _VALUE_BYTES))
    ratio = values // max(1, path.stat().st_size)
    if values * _VALUE_BYTES > _RATIO_FROM and ratio > limits.unpack_ratio:
        most = limits.unpack_ratio
        said = f"the table has more than {most} values for each byte of the file, the limit"
        raise LogError(path, said, hint=raising("unpack-ratio", ratio + 1))


def write_parquet(log: EventLog, path: Path, metadata: Mapping[str, str]) -> None:
    """Write ``log`` as Parquet with ``metadata`` in its footer. ``OSError`` when it cannot be
    written.
    """
    flat_table(log, path).write_parquet(path, metadata=dict(metadata) or None)

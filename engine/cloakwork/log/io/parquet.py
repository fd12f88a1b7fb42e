"""Reading and writing Parquet: one row an event, case attributes repeated."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import polars as pl

from cloakwork.errors import LogError
from cloakwork.log.eventlog import EventLog
from cloakwork.log.io.flat import flat_table, standard_names
from cloakwork.log.io.source import LogStream, empty_file
from cloakwork.log.naming import values_of


def read_parquet(
    path: Path,
    columns: Mapping[str, str] | None = None,
    keep: Callable[[str], bool] | None = None,
    text: Collection[str] = (),
    *,
    timeless: bool = False,
) -> EventLog:
    """Read a Parquet file; attributes in ``text`` become text. ``timeless``: as in ``read_log``.

    ``LogError`` when it is damaged or a standard column is missing.
    """
    with LogStream(path) as stream:
        if not stream.read(1):
            raise empty_file(path)
    try:
        header = pl.read_parquet_schema(path)
        names = standard_names(path, list(header), columns, keep, timeless=timeless)
        frame = pl.read_parquet(path, columns=[place for place, name in enumerate(header) if name in names.kept])
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        first_line = str(error).partition("\n")[0]
        raise LogError(path, f"this is no readable Parquet file ({first_line})", hint="export the log again") from None
    as_text = [values_of(frame, name).cast(pl.String).alias(name) for name, full in names.kept.items() if full in text]
    return names.build(path, frame.with_columns(as_text))


def write_parquet(log: EventLog, path: Path, metadata: Mapping[str, str]) -> None:
    """Write ``log`` as Parquet with ``metadata`` in its footer. ``OSError`` when it cannot be written."""
    flat_table(log, path).write_parquet(path, metadata=dict(metadata) or None)

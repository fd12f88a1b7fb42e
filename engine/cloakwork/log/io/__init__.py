"""Readers and writers: XES, CSV, Parquet.

``read_log`` refuses what is not a well-formed log as a whole, with one line; whatever else is odd
about a log is handled and told in ``EventLog.notes``. ``write_log`` writes nothing but the columns
of the log and what the caller states.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from pathlib import Path

from cloakwork.errors import OutputError
from cloakwork.log.eventlog import EventLog
from cloakwork.log.io.annotation import Attribute, Extension, read_annotations, utc_text
from cloakwork.log.io.csv import read_csv, write_csv
from cloakwork.log.io.parquet import read_parquet, write_parquet
from cloakwork.log.io.source import Format, format_of
from cloakwork.log.io.xes import read_xes
from cloakwork.log.io.xes_write import write_xes
from cloakwork.log.limits import Limits, OnExcess, current_limits

__all__ = ["Attribute", "Extension", "Format", "read_annotations", "read_log", "write_log"]


def read_log(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    keep: Callable[[str], bool] | None = None,
    text: Collection[str] = (),
    timeless: bool = False,
    limits: Limits | None = None,
    on_excess: OnExcess = "refuse",
) -> EventLog:
    """Read an event log: XES, CSV (both packed by gzip or not) or Parquet.

    ``columns`` maps standard names (``case:concept:name``, ``concept:name``, ``time:timestamp``) to
    what a CSV or Parquet file calls them. ``keep`` says, by full name (case attributes with
    ``case:`` in front), which other attributes are read; the three standard ones always are.
    Attributes in ``text`` are read as text whatever their values look like. ``timeless``: a table
    without a column ``time:timestamp`` has no times, and its events are in file order; otherwise
    such a table is refused, since its order would be a guess. ``limits``: what the file may hold;
    by default ``log.limits.current_limits()``. ``on_excess``: a value larger than
    ``limits.value_size`` refuses the file or, with ``drop``, is missing; every other limit refuses
    it. Raises ``LogError`` when the file is not a log or over a limit.
    """
    file = Path(path)
    limits = limits or current_limits()
    match format_of(file):
        case "xes":
            return read_xes(file, keep, text, limits=limits, on_excess=on_excess)
        case "csv":
            return read_csv(
                file, columns, keep, text, timeless=timeless, limits=limits, on_excess=on_excess
            )
        case "parquet":
            return read_parquet(
                file, columns, keep, text, timeless=timeless, limits=limits, on_excess=on_excess
            )


def write_log(
    log: EventLog,
    path: str | Path,
    format: Format,  # noqa: A002 -- what everybody calls it
    *,
    annotations: tuple[Attribute, ...] = (),
    extensions: tuple[Extension, ...] = (),
) -> None:
    """Write an event log; XES and CSV are packed by gzip when ``path`` ends in ``.gz``.

    ``annotations`` become attributes of the log element in XES and key-value metadata in Parquet;
    CSV has no place for them. Tables (CSV, Parquet) have one row an event: a case without events
    does not appear, and cases without an id of their own are refused. The same log gives the same
    bytes. Raises ``OutputError`` when it cannot be written.
    """
    file = Path(path)
    try:
        if format == "xes":
            write_xes(log, file, annotations, extensions)
        elif format == "csv":
            write_csv(log, file)
        else:
            write_parquet(log, file, dict(_path_and_text_pairs(annotations)))
    except OSError as error:
        raise OutputError(
            f"{file}: cannot be written ({error.strerror or error}); check the path and the disk"
        ) from None


def _path_and_text_pairs(
    annotations: tuple[Attribute, ...], above: str = ""
) -> list[tuple[str, str]]:
    """Nested attributes as pairs of path and text."""
    pairs: list[tuple[str, str]] = []
    for attribute in annotations:
        name = f"{above}/{attribute.key}" if above else attribute.key
        value = attribute.value
        if isinstance(value, datetime):
            value = utc_text(value)
        if value is not None:
            pairs.append((name, str(value)))
        pairs += _path_and_text_pairs(attribute.children, name)
    return pairs

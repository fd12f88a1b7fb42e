"""Writing an event log in any of the formats."""

from datetime import datetime
from pathlib import Path

from cloakwork.base.errors import OutputError
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats.annotation import Attribute, Extension, utc_text
from cloakwork.log.formats.csv import write_csv
from cloakwork.log.formats.parquet import write_parquet
from cloakwork.log.formats.source import Format
from cloakwork.log.formats.xes_write import write_xes


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

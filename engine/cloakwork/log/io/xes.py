"""Reading XES (IEEE 1849): the fast reader where the file is plain, the full parser everywhere else."""

from collections.abc import Callable
from pathlib import Path

from cloakwork.log.eventlog import EventLog
from cloakwork.log.io.columns import MixedKinds
from cloakwork.log.io.source import LogStream
from cloakwork.log.io.xes_fast import Declined, read_fast
from cloakwork.log.io.xes_full import read_full


def read_xes(path: Path, keep: Callable[[str], bool] | None = None) -> EventLog:
    """Read a XES file, packed by gzip or not. ``LogError`` when it is not a well-formed log."""
    try:
        return with_mixed_as_text(read_fast, path, keep)
    except Declined:
        return with_mixed_as_text(read_full, path, keep)


def with_mixed_as_text(
    read: Callable[[LogStream, Callable[[str], bool] | None, frozenset[str]], EventLog],
    path: Path,
    keep: Callable[[str], bool] | None,
) -> EventLog:
    """Read with ``read``; once more when attributes turn out to hold several types, these then as text."""
    try:
        with LogStream(path) as stream:
            return read(stream, keep, frozenset())
    except MixedKinds as mixed:
        with LogStream(path) as stream:
            return read(stream, keep, mixed.names)

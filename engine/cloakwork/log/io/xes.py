"""Reading XES (IEEE 1849): the fast reader where the file is plain, the full parser everywhere else."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType

from cloakwork.log.eventlog import EventLog
from cloakwork.log.io.columns import Conflicting, Kind, MixedKinds
from cloakwork.log.io.source import LogStream
from cloakwork.log.io.xes_fast import Declined, read_fast
from cloakwork.log.io.xes_full import read_full


def read_xes(path: Path, keep: Callable[[str], bool] | None = None, text: Collection[str] = ()) -> EventLog:
    """Read a XES file, packed by gzip or not; attributes in ``text`` as text whatever type they state.

    ``LogError`` when it is not a well-formed log.
    """
    kinds: Mapping[str, Kind] = dict.fromkeys(text, "text")
    try:
        return with_kinds_settled(read_fast, path, keep, kinds)
    except (Declined, Conflicting):
        return with_kinds_settled(read_full, path, keep, kinds)


def with_kinds_settled(
    read: Callable[[LogStream, Callable[[str], bool] | None, Mapping[str, Kind]], EventLog],
    path: Path,
    keep: Callable[[str], bool] | None,
    kinds: Mapping[str, Kind] = MappingProxyType({}),
) -> EventLog:
    """Read with ``read``; once more when attributes turn out to hold several types, each then as the kind that fits all."""
    try:
        with LogStream(path) as stream:
            return read(stream, keep, kinds)
    except MixedKinds as mixed:
        with LogStream(path) as stream:
            return read(stream, keep, {**mixed.kinds, **kinds})

"""Reading XES (IEEE 1849): the fast reader where the file is plain, the full parser everywhere
else.
"""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType

from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats.column_layout import Kind
from cloakwork.log.formats.columns import ColumnBuilder, MixedKinds
from cloakwork.log.formats.source import LogStream
from cloakwork.log.formats.xes_fast import read_fast
from cloakwork.log.formats.xes_full import read_full
from cloakwork.log.formats.xes_markup import Declined
from cloakwork.log.limits import Limits, OnExcess


def read_xes(
    path: Path,
    keep: Callable[[str], bool] | None = None,
    text: Collection[str] = (),
    *,
    limits: Limits | None = None,
    on_excess: OnExcess = "refuse",
) -> EventLog:
    """Read a XES file, packed by gzip or not; attributes in ``text`` as text whatever type they
    state.

    ``limits``, ``on_excess``: as in ``read_log``. ``LogError`` when it is not a well-formed log.
    """
    kinds: Mapping[str, Kind] = dict.fromkeys(text, "text")
    try:
        return with_kinds_settled(read_fast, path, keep, kinds, limits=limits, on_excess=on_excess)
    except Declined:
        return with_kinds_settled(read_full, path, keep, kinds, limits=limits, on_excess=on_excess)


def with_kinds_settled(
    read: Callable[[LogStream, ColumnBuilder], EventLog],
    path: Path,
    keep: Callable[[str], bool] | None,
    kinds: Mapping[str, Kind] = MappingProxyType({}),
    *,
    limits: Limits | None = None,
    on_excess: OnExcess = "refuse",
) -> EventLog:
    """Read with ``read``; once more when attributes turn out to hold several types, each then as
    the kind that fits all.
    """

    def read_once(kinds: Mapping[str, Kind]) -> EventLog:
        with LogStream(path, limits) as stream:
            builder = ColumnBuilder(keep, kinds, limits=stream.limits, on_excess=on_excess)
            return read(stream, builder)

    try:
        return read_once(kinds)
    except MixedKinds as mixed:
        return read_once({**mixed.kinds, **kinds})

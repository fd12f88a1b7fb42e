"""Reading an event log in any of the formats."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from cloakwork.log.eventlog import EventLog
from cloakwork.log.io.csv import read_csv
from cloakwork.log.io.parquet import read_parquet
from cloakwork.log.io.source import format_of
from cloakwork.log.io.xes import read_xes
from cloakwork.log.limits import Limits, OnExcess, current_limits


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

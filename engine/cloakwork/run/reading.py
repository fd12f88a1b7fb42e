"""Reading a log as its policy says."""

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, cast
from zipfile import is_zipfile

import polars as pl

from cloakwork.base.errors import LogError
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP, EventLog
from cloakwork.log.formats.options import ROW_NUMBER, InputOptions
from cloakwork.log.formats.reading import read_log
from cloakwork.log.formats.row_source import RowSource
from cloakwork.log.formats.source import format_by_suffix
from cloakwork.log.formats.streams import open_rows
from cloakwork.log.limits import OnExcess
from cloakwork.policy.model import Policy

if TYPE_CHECKING:
    import pandas as pd

_PARAMETERS: Final = {CASE_ID: "case_id", ACTIVITY: "activity", TIMESTAMP: "timestamp"}
"""Standard names as ``EventLog.from_polars`` calls them."""


def read_under(
    policy: Policy,
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    keep: Callable[[str], bool] | None = None,
    on_excess: OnExcess = "refuse",
) -> EventLog:
    """The log at ``path``, read as ``spec.input`` and the roles of ``policy`` say; ``columns`` go
    before its own. Arguments and errors as of ``read_log``.
    """
    return read_log(path, columns=columns, keep=keep, on_excess=on_excess, **_as_declared(policy))


def rows_under(
    policy: Policy,
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    keep: Callable[[str], bool] | None = None,
    on_excess: OnExcess = "refuse",
) -> RowSource:
    """The rows of the log at ``path``, to be read in one pass and little memory, as ``read_under``
    would read it all.
    """
    return open_rows(path, columns=columns, keep=keep, on_excess=on_excess, **_as_declared(policy))


def is_log_file(source: EventLog | str | Path) -> bool:
    """Whether a policy may say how this is read; a log and a release stand for themselves."""
    if isinstance(source, EventLog):
        return False
    path = Path(source)
    return path.is_file() and (format_by_suffix(path) is not None or not is_zipfile(path))


class _Declared(TypedDict):
    """What a policy says of reading."""

    options: InputOptions | None
    text: Collection[str]
    case_id: str
    activity: str
    timestamp: str
    varying: Collection[str]


def _as_declared(policy: Policy) -> _Declared:
    unit = policy.spec.unit
    return _Declared(
        options=policy.spec.input,
        text={unit.attribute} if unit.attribute and policy.spec.input is not None else set(),
        case_id=policy.attribute_with("case-id") or CASE_ID,
        activity=policy.attribute_with("control-flow") or ACTIVITY,
        timestamp=policy.attribute_with("timestamp") or TIMESTAMP,
        varying={unit.attribute} if unit.attribute and unit.on_conflict == "split" else set(),
    )


def log_in_memory(policy: Policy, table: object, columns: Mapping[str, str] | None) -> EventLog:
    """The log of a table of polars or pandas, its columns named as ``read_under`` would; of
    ``spec.input`` nothing else counts there. LogError for what is no table, or lacks a column.
    """
    is_polars = isinstance(table, pl.DataFrame)
    if not is_polars and type(table).__module__.partition(".")[0] != "pandas":
        raise LogError(
            "log", f"must be an EventLog, a path or a table (got {type(table).__name__})"
        )
    frame = cast("pl.DataFrame | pd.DataFrame", table)
    requested = _requested(policy, columns)
    if ROW_NUMBER in requested:
        said = "the rows of a table in memory have the order of the table"
        raise LogError("log", said, hint=f"sort it by '{requested[ROW_NUMBER]}', and leave out row")
    held = [*map(str, getattr(frame, "columns", ()))]
    main = {
        _PARAMETERS[full]: column
        for full, column in requested.items()
        if full in _PARAMETERS and (column in held or full not in held)
    }
    others = {
        column: full
        for full, column in requested.items()
        if full not in _PARAMETERS and column in held
    }
    for role, full in (("control-flow", ACTIVITY), ("timestamp", TIMESTAMP)):
        own = policy.attribute_with(role)  # type: ignore[arg-type]  # both are roles
        if own in held and full not in held and _PARAMETERS[full] not in main:
            frame = _with_copy(frame, own, full)
    if isinstance(frame, pl.DataFrame):
        log = EventLog.from_polars(frame.rename(others), **main)
    else:
        log = EventLog.from_pandas(frame.rename(columns=others), **main)
    _require_one_value_a_case(policy, log, others)
    return log


def _requested(policy: Policy, columns: Mapping[str, str] | None) -> dict[str, str]:
    """Which column of a table holds what, by full names."""
    options = policy.spec.input or InputOptions()
    try:
        found = options.with_columns(columns=columns).columns
    except ValueError as error:
        raise LogError("table", f"the mapping of columns {error}") from None
    case_id = policy.attribute_with("case-id")
    return found if case_id is None else {CASE_ID: case_id, **found}


def _with_copy(
    frame: "pl.DataFrame | pd.DataFrame", column: str, name: str
) -> "pl.DataFrame | pd.DataFrame":
    """The table with a column also under another name."""
    if isinstance(frame, pl.DataFrame):
        return frame.with_columns(frame.get_column(column).alias(name))
    return frame.assign(**{name: frame[column]})


def _require_one_value_a_case(policy: Policy, log: EventLog, mapped: Mapping[str, str]) -> None:
    unit = policy.spec.unit
    for column, name in mapped.items():
        is_split = name == unit.attribute and unit.on_conflict == "split"
        if name in log.source.conflicts and not is_split:
            place = log.source.conflicts[name]
            raise LogError(
                "table",
                f"{place}: column '{column}' names two values in one case, and spec.input makes it "
                f"'{name}', an attribute of cases",
                hint="correct the table, or leave the column to the events",
            )


class AttributesLeft:
    """Which attributes of a log are read, and, once it was, a note of which are not, for inside.

    A reader may ask about a name both as a case's and as an event's attribute, so names are noted
    without the prefix.
    """

    def __init__(self, needs: Callable[[str], bool]) -> None:
        self._needs = needs
        self._read = set[str]()
        self._left = set[str]()

    def __call__(self, attribute: str) -> bool:
        """Whether an attribute is read."""
        needs = self._needs(attribute)
        (self._read if needs else self._left).add(attribute.removeprefix(CASE_PREFIX))
        return needs

    def notes(self) -> Iterator[str]:
        """One note, where a file was read."""
        if self._read or self._left:
            names = sorted(self._left - self._read - {ACTIVITY, TIMESTAMP})
            yield f"attributes that were not read: {', '.join(names) or 'none'}"

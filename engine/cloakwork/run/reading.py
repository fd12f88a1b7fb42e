"""Reading a log as its policy says."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import polars as pl

from cloakwork.errors import LogError
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.io.options import InputOptions
from cloakwork.log.io.reading import read_log
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
    unit = policy.spec.unit
    varying = {unit.attribute} if unit.attribute and unit.on_conflict == "split" else set()
    text = {unit.attribute} if unit.attribute and policy.spec.input is not None else set()
    return read_log(
        path,
        options=policy.spec.input,
        columns=columns,
        keep=keep,
        text=text,
        case_id=policy.attribute_with("case-id") or CASE_ID,
        activity=policy.attribute_with("control-flow") or ACTIVITY,
        timestamp=policy.attribute_with("timestamp") or TIMESTAMP,
        varying=varying,
        on_excess=on_excess,
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

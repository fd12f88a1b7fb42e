"""Reading an event log in any of the formats."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

from cloakwork.base.errors import LogError
from cloakwork.base.naming import ACTIVITY, CASE_ID, TIMESTAMP
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats.csv import read_csv
from cloakwork.log.formats.folders import files_of
from cloakwork.log.formats.options import InputFormat, InputOptions
from cloakwork.log.formats.parquet import read_parquet
from cloakwork.log.formats.request import TableRequest
from cloakwork.log.formats.source import format_of
from cloakwork.log.formats.xes import read_xes
from cloakwork.log.limits import Limits, OnExcess, current_limits

_NO_OPTIONS: Final = InputOptions()
_TABLES: Final = ("columns", "time_format", "time_zone")
_MEANT_FOR: Final[dict[InputFormat, tuple[str, ...]]] = {
    "xes": (),
    "csv": (*_TABLES, "delimiter", "encoding", "decimal"),
    "parquet": _TABLES,
    "excel": (*_TABLES, "sheet"),
    "ocel-json": ("object_type", "time_zone"),
    "ocel-sqlite": ("object_type", "time_zone"),
}
"""The options that say something of a log in each format."""

_TABULAR: Final = ("csv", "parquet", "excel")


def read_log(
    path: str | Path,
    *,
    options: InputOptions | None = None,
    columns: Mapping[str, str] | None = None,
    keep: Callable[[str], bool] | None = None,
    text: Collection[str] = (),
    case_id: str = CASE_ID,
    activity: str = ACTIVITY,
    timestamp: str = TIMESTAMP,
    varying: Collection[str] = (),
    timeless: bool = False,
    limits: Limits | None = None,
    on_excess: OnExcess = "refuse",
) -> EventLog:
    """Read an event log: XES, CSV (both packed by gzip or not), Parquet, Excel or OCEL 2.0.

    ``options``: how it is written, as ``spec.input`` of a policy. ``columns`` goes before
    ``options.columns``: it maps standard names (``case:concept:name``, ``concept:name``,
    ``time:timestamp``, in short ``case``, ``activity``, ``timestamp``) and ``case:NAME`` to what a
    table calls them. ``keep`` says, by full name (case attributes with ``case:`` in front), which
    other attributes are read; the three standard ones always are. Attributes in ``text`` are read
    as text whatever their values look like. ``case_id``: the column of a table that holds it, where
    ``columns`` do not say. ``activity`` and ``timestamp``: the attributes that hold them, where
    these keep names of their own; a table then needs no standard ones, and the second is read as
    times. ``varying``: attributes of cases, taken from a column by the options,
    that may differ within a case. ``timeless``: a table without a column ``time:timestamp`` has no
    times, and its events are in file order; otherwise such a table is refused, since its order
    would be a guess. ``limits``: what the file may hold; by default
    ``log.limits.current_limits()``. ``on_excess``: a value larger than ``limits.value_size``
    refuses the file or, with ``drop``, is missing; every other limit refuses it. Raises
    ``LogError`` when the file is not a log, is written otherwise than ``options`` say, or is over a
    limit. A folder is one log, whose files are of one format and one set of columns; their rows
    count in the order of their names.
    """
    file = Path(path)
    form, request = asked_of(
        file,
        options=options,
        columns=columns,
        keep=keep,
        text=text,
        case_id=case_id,
        activity=activity,
        timestamp=timestamp,
        varying=varying,
        timeless=timeless,
        limits=limits,
        on_excess=on_excess,
    )
    if file.is_dir():
        from cloakwork.log.formats.streams import folder_log

        return folder_log(file, form, request)
    return read_file(file, form, request)


def read_file(file: Path, form: InputFormat, request: TableRequest) -> EventLog:
    """The log of one file, in memory; errors as of ``read_log``."""
    match form:
        case "xes":
            limits, on_excess = request.limits, request.on_excess
            return read_xes(file, request.keep, request.text, limits=limits, on_excess=on_excess)
        case "csv":
            return read_csv(file, request)
        case "parquet":
            return read_parquet(file, request)
        case "excel":
            from cloakwork.log.formats.excel import read_excel

            return read_excel(file, request)
        case "ocel-json" | "ocel-sqlite":
            from cloakwork.log.formats.ocel import read_ocel

            return read_ocel(file, form, request)


def asked_of(
    file: Path,
    *,
    options: InputOptions | None,
    columns: Mapping[str, str] | None,
    keep: Callable[[str], bool] | None,
    text: Collection[str],
    case_id: str,
    activity: str,
    timestamp: str,
    varying: Collection[str],
    timeless: bool,
    limits: Limits | None,
    on_excess: OnExcess,
) -> tuple[InputFormat, TableRequest]:
    """The format of a file, and all that is asked of its reader; arguments as for ``read_log``.
    Raises ``LogError`` for a format that is none, and for options that are not for it.
    """
    options = _with_columns(file, options or _NO_OPTIONS, columns)
    form: InputFormat = options.format or format_of(files_of(file)[0])
    _require_meant(file, form, options)
    if case_id != CASE_ID and form in _TABULAR and CASE_ID not in options.columns:
        options = _with_columns(file, options, {CASE_ID: case_id})
    return form, TableRequest(
        options,
        keep,
        frozenset(text),
        activity,
        timestamp,
        timeless,
        limits or current_limits(),
        on_excess,
        frozenset(varying),
    )


def _with_columns(
    path: Path, options: InputOptions, columns: Mapping[str, str] | None
) -> InputOptions:
    try:
        return options.with_columns(columns=columns)
    except ValueError as error:
        raise LogError(path, f"the mapping of columns {error}") from None


def _require_meant(path: Path, form: InputFormat, options: InputOptions) -> None:
    """Refuse options that say nothing of this format: whoever wrote them expects them to count."""
    for name in options.model_dump(exclude={"format"}):
        if name not in _MEANT_FOR[form]:
            said = f"the log is read as {form}, and {name} under spec.input is not for that"
            hint = f"remove {name}, or say under spec.input which format the log has"
            raise LogError(path, said, hint=hint)

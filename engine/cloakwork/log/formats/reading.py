"""Reading and writing event logs in any of the formats, by the formats' names."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack
from urllib.parse import urlsplit
from urllib.request import url2pathname

import polars as pl

from cloakwork.base.errors import LogError, OutputError
from cloakwork.base.naming import ACTIVITY, CASE_ID, TIMESTAMP
from cloakwork.base.text import shown
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats import csv, excel, ocel, parquet, xes
from cloakwork.log.formats.csv import write_csv
from cloakwork.log.formats.intervals import as_asked, with_starts
from cloakwork.log.formats.options import ROW_NUMBER, InputFormat, InputOptions
from cloakwork.log.formats.parquet import write_parquet
from cloakwork.log.formats.row_source import Keeps, Reader, ReadRequest, RowSource, collected
from cloakwork.log.formats.source import Format, files_of, format_of
from cloakwork.log.formats.xes_write import Attribute, Extension, write_xes
from cloakwork.log.limits import Limits, OnExcess
from cloakwork.log.pandas_tables import table_of

READERS: Final[dict[InputFormat, Reader]] = {
    "xes": xes.READER,
    "csv": csv.READER,
    "parquet": parquet.READER,
    "excel": excel.READER,
    **ocel.READERS,
}
_ANYTHING: Final = ReadRequest()


class Asked(TypedDict, total=False):
    """The fields of a ``ReadRequest``, as arguments."""

    options: Any  # InputOptions, or a mapping of these
    columns: Mapping[str, str] | None
    keep: Keeps | None
    text: Collection[str]
    varying: Collection[str]
    case_id: str
    activity: str
    timestamp: str
    timeless: bool
    limits: Limits | None
    on_excess: OnExcess
    sampled: bool


def read_log(path: object, *, request: ReadRequest = _ANYTHING, **asked: Unpack[Asked]) -> EventLog:
    """Read an event log: XES, CSV (both packed by gzip or not), Parquet, Excel or OCEL 2.0, at a
    path or a ``file:`` URL; or, in place of a path, a table of pandas, polars, Arrow or DuckDB.

    ``asked``: fields of a ``ReadRequest``, in place of those of ``request``: ``options``,
    ``columns``, ``keep``, ``text``, ``limits`` and more; of a table only ``columns`` count, and
    those of ``options``. A folder, or a pattern such as ``2024-*.csv``, is one log, whose files are
    of one format and one set of columns; their rows count in the order of their names. Raises
    ``LogError`` when the file is not a log, is written otherwise than ``options`` say, or is over a
    limit.
    """
    source = given_log(path)
    complete = replace(request, **asked)
    if isinstance(source, Path):
        return collected(open_rows(source, request=complete), sampled=complete.sampled)
    if unused := asked.keys() - {"columns", "options", "sampled"}:
        raise LogError("log", f"is in memory already, where {min(unused)} does not count")
    if isinstance(source, EventLog):
        return source
    return log_of_table(source, _with_columns(Path("table"), complete.written, complete.columns))


def given_log(log: object, argument: str = "log") -> EventLog | Path | pl.DataFrame:
    """What a caller names as a log: itself, the path (of a ``file:`` URL its own), or the table;
    LogError for what is none, which calls it ``argument``.
    """
    if isinstance(log, EventLog):
        return log
    if not isinstance(log, str | os.PathLike):
        return table_of(log, argument)
    text = os.fsdecode(log)
    if not text.lower().startswith("file:"):
        return Path(text)
    url = urlsplit(text)
    if url.netloc not in ("", "localhost"):
        raise LogError(argument, f"{text} is on another machine", hint="copy the file to this one")
    return Path(url2pathname(url.path))


PARAMETERS: Final = {CASE_ID: "case_id", ACTIVITY: "activity", TIMESTAMP: "timestamp"}
"""Standard names as ``EventLog.from_polars`` calls them."""


def log_of_table(
    table: pl.DataFrame, options: InputOptions, activity: str | None = None
) -> EventLog:
    """The log of a table, of whose ``options`` columns, starts and parts of activities count: a
    column of the standard name goes before one that is mapped and missing. ``activity``: the column
    that holds it beside that of the standard name. LogError where a column is missing.
    """
    columns = options.columns
    if ROW_NUMBER in columns:
        said = "the rows of a table in memory have the order of the table"
        raise LogError("log", said, hint=f"sort it by '{columns[ROW_NUMBER]}', and leave out row")
    held = table.columns
    main = {
        PARAMETERS[full]: column
        for full, column in columns.items()
        if full in PARAMETERS and (column in held or full not in held)
    }
    others = {
        column: full
        for full, column in columns.items()
        if full not in PARAMETERS and column in held
    }
    named = table.rename(others)
    for name in ("starts", "activity_with"):
        column = getattr(options, name)
        if column is not None and column not in named.columns:
            said = f"has no column '{shown(column)}', which spec.input.{name} names"
            raise LogError("table", said, hint="correct the name, or leave it out")
    log = EventLog.from_polars(named, **main)
    own = activity if activity in named.columns else ACTIVITY
    return as_asked(log, ReadRequest(options=options, activity=own))


def open_rows(
    source: str | Path | Sequence[str | Path],
    *,
    request: ReadRequest = _ANYTHING,
    **asked: Unpack[Asked],
) -> RowSource:
    """The rows of a log, to be read in one pass and little memory: of a file, of the files of a
    folder or pattern by their names, or of these files in this order. Arguments and errors as of
    ``read_log``. Workbooks and object-centric logs come as one chunk.
    """
    files = files_of(source)
    first = Path(source) if isinstance(source, str | Path) else files[0]
    form, complete = asked_of(first, files[0], replace(request, **asked))
    reader = READERS[form]
    if len(files) > 1 and not reader.of_several:
        said = f"a log of several files is XES, CSV or Parquet, and this is {form}"
        raise LogError(files[0], said, hint="give one file")
    return reader.rows(files, complete)


def asked_of(path: Path, first: Path, request: ReadRequest) -> tuple[InputFormat, ReadRequest]:
    """The format of a log, whose ``first`` file tells it, and the request with all that it leaves
    open. Raises ``LogError`` for a format that is none, and for options that are not for it.
    """
    options = _with_columns(path, request.written, request.columns)
    form: InputFormat = options.format or format_of(first)
    reader = READERS[form]
    for name in options.model_dump(exclude={"format", "starts", "activity_with"}):
        # Whoever wrote an option expects it to count.
        if name not in reader.options:
            said = f"the log is read as {form}, and {name} under spec.input is not for that"
            hint = f"remove {name}, or say under spec.input which format the log has"
            raise LogError(path, said, hint=hint)
    # Only tables have columns to name; what the options say of them goes first.
    is_named = "columns" not in reader.options or CASE_ID in options.columns
    if request.case_id != CASE_ID and not is_named:
        options = _with_columns(path, options, {CASE_ID: request.case_id})
    # Whatever its values look like, one case more must not change how others' are spelt; in Parquet
    # the schema says what they are.
    states = [options.activity_with] if options.activity_with and form != "parquet" else []
    text = {*request.text, *states}
    return form, replace(request, options=options, columns=None, text=text, limits=request.bounds)


def _with_columns(
    path: Path, options: InputOptions, columns: Mapping[str, str] | None
) -> InputOptions:
    try:
        return options.with_columns(columns=columns)
    except ValueError as error:
        raise LogError(path, f"the mapping of columns {error}") from None


def write_log(
    log: EventLog,
    path: str | Path,
    format: Format,  # noqa: A002 -- what everybody calls it
    *,
    annotations: tuple[Attribute, ...] = (),
    extensions: tuple[Extension, ...] = (),
    options: InputOptions | None = None,
) -> None:
    """Write an event log; XES and CSV are packed by gzip when ``path`` ends in ``.gz``.

    ``annotations`` become attributes of the log element in XES and key-value metadata in Parquet;
    CSV has no place for them. ``options``: the names of columns and the delimiter of CSV, and
    whether service times are written as ``starts``. Tables
    (CSV, Parquet) have one row an event: a case without events does not appear, and cases without
    an id of their own are refused. The same log gives the same bytes. Raises ``OutputError`` when
    it cannot be written.
    """
    file = Path(path)
    writers: Mapping[Format, Callable[[EventLog, Path], None]] = {
        "xes": partial(write_xes, annotations=annotations, extensions=extensions),
        "csv": partial(write_csv, options=options),
        "parquet": partial(write_parquet, annotations=annotations),
    }
    try:
        writers[format](with_starts(log, options), file)
    except OSError as error:
        raise OutputError(
            f"{file}: cannot be written ({error.strerror or error}); check the path and the disk"
        ) from None

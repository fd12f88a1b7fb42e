"""Opening a log to be read in one pass and little memory: one file, several, or a folder."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.errors import LogError
from cloakwork.base.naming import ACTIVITY, TIMESTAMP
from cloakwork.log.eventlog import CASE_ID, EventLog
from cloakwork.log.formats.csv_stream import CsvSource
from cloakwork.log.formats.folders import files_of
from cloakwork.log.formats.options import InputFormat, InputOptions
from cloakwork.log.formats.parquet_stream import ParquetSource
from cloakwork.log.formats.reading import asked_of, read_file
from cloakwork.log.formats.request import TableRequest
from cloakwork.log.formats.row_source import (
    PLACE,
    ROW,
    Findings,
    RawChunk,
    ReadAgain,
    RowSource,
)
from cloakwork.log.formats.xes_stream import XesSource
from cloakwork.log.limits import Limits, OnExcess

_ID: Final = "0"
"""The column of the ids of cases that lie in memory."""


def open_rows(
    source: str | Path | Sequence[str | Path] | EventLog,
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
) -> RowSource:
    """The rows of a log: of a file, of the files of a folder by their names, or of these files in
    this order. Arguments and errors as of ``read_log``; the files of one log are of one format and
    of one set of columns. Workbooks, object-centric logs and logs in memory come as one chunk.
    """
    if isinstance(source, EventLog):
        return WholeSource(source)
    files = files_of(source)
    form, request = asked_of(
        files[0],
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
    return _source_of(files, form, request)


def _source_of(files: Sequence[Path], form: InputFormat, request: TableRequest) -> RowSource:
    match form:
        case "parquet":
            return ParquetSource(files, request)
        case "csv":
            return CsvSource(files, request)
        case "xes":
            return XesSource(files, request)
        case _:
            return WholeSource(_only_file(files, form, request))


def folder_log(folder: Path, form: InputFormat, request: TableRequest) -> EventLog:
    """The log of a folder's files, in memory; errors as of ``read_log``."""
    source = _source_of(files_of(folder), form, request)
    chunks = _all_chunks(source)
    rows = pl.DataFrame(schema={ROW: pl.Int64, PLACE: pl.Int64})
    if chunks:
        rows = pl.concat([chunk.rows for chunk in chunks], how="diagonal")
    of_cases = [chunk.cases for chunk in chunks if chunk.cases is not None]
    cases = pl.concat(of_cases, how="diagonal") if of_cases else None
    assembler = source.assembler()
    if assembler.surveyed is not None:
        assembler = assembler.settled(assembler.findings(rows, cases))
    return replace(assembler.log_of(rows, cases), case_index=None)


def _only_file(files: Sequence[Path], form: InputFormat, request: TableRequest) -> EventLog:
    """The log of a workbook or an object-centric one, of which there is one alone."""
    if len(files) > 1:
        said = f"a log of several files is XES, CSV or Parquet, and this is {form}"
        raise LogError(files[0], said, hint="give one file")
    return read_file(files[0], form, request)


def _all_chunks(source: RowSource) -> list[RawChunk]:
    while True:
        with suppress(ReadAgain):
            return list(source.chunks())


class WholeSource:
    """A log that lies in memory, handed over as one chunk: its rows are its cases and events."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def expected_rows(self) -> int:
        """How many events there are."""
        return self._log.events.height

    def chunks(self) -> Iterator[RawChunk]:
        """All of it: where each event and each case stands."""
        log = self._log
        rows = pl.DataFrame(
            {
                ROW: np.arange(log.events.height),
                PLACE: np.arange(log.cases.height)[log.case_of],
            }
        )
        ids = log.cases[CASE_ID].alias(_ID)
        cases = pl.DataFrame({PLACE: np.arange(log.cases.height), _ID: ids})
        yield RawChunk(rows, _ID, cases)

    def assembler(self) -> "WholeAssembler":
        """What takes cases out of the log."""
        return WholeAssembler(self._log)


@dataclass(frozen=True, slots=True)
class WholeAssembler:
    """Takes cases out of a log in memory."""

    log: EventLog

    @property
    def surveyed(self) -> None:
        """Nothing: the log knows itself."""

    def findings(self, rows: pl.DataFrame | None, cases: pl.DataFrame | None) -> Findings:
        """Nothing more than the log knows."""
        return Findings()

    def settled(self, found: Findings) -> "WholeAssembler":
        """The same."""
        return self

    def log_of(self, rows: pl.DataFrame, cases: pl.DataFrame | None = None) -> EventLog:
        """Those of its cases."""
        places = np.zeros(0, np.int64)
        if cases is not None:
            places = np.sort(cases[PLACE].to_numpy().astype(np.int64))
        return replace(self.log, case_index=self.log.index_of_case).keep_cases(places)

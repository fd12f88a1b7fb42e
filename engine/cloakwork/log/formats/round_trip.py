"""A log as its files will say it, and such files read again: what is checked before a release must
be what a reader of the release checks.

A format keeps some differences and loses others: CSV has no types and writes a missing value and
the empty text alike, XES has no place for an attribute that nobody has. And one value has several
spellings where 0.0 and -0.0 are equal.

A log may lie in several files of whole cases. A reader of one file settles the types of its columns
by their values, and values of other files may settle them otherwise. So the columns of all files
are looked at first, and each file is read under what they say together, the same as if all stood in
one file.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import reduce
from pathlib import Path
from typing import Final, Literal, TypeVar

import polars as pl

from cloakwork.base.errors import LogError
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import nulls, values_of
from cloakwork.base.progress import counted
from cloakwork.base.text import shown
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, Change, EventLog
from cloakwork.log.formats.csv import field_texts
from cloakwork.log.formats.intervals import with_service_times, with_starts
from cloakwork.log.formats.kinds import (
    TYPES,
    Kind,
    cast_to_kind,
    inferred,
    joined_declared,
    joined_kinds,
)
from cloakwork.log.formats.row_source import ReadRequest
from cloakwork.log.formats.source import format_by_suffix
from cloakwork.log.formats.tables import is_exact, may_not_fit, to_simple_type
from cloakwork.log.formats.xes_write import expressible_text

Scope = Literal["case", "event"]

_STANDARD: Final = (CASE_ID, ACTIVITY, TIMESTAMP)
_FOUND: Final = {
    "scope": pl.String,
    "column": pl.String,
    "exact": pl.Boolean,
    "kind": pl.String,
    "kind_as_text": pl.String,
}


@frozen
class TypesReadBack:
    """What a reader of a log written as ``output`` makes of its columns, by ``request``: an
    aggregate, since that depends on all values of a column, and how it changes a batch.

    The table has a row for each column. ``exact``: whether all values can be numbers of a log,
    where that is open (``may_not_fit``). ``kind``: the values' ``Kind`` where ``output`` is CSV;
    else ``empty`` where there is no value. ``kind_as_text``: the same, where numbers stay texts.
    """

    output: str
    request: ReadRequest = ReadRequest()

    def of(self, batch: EventLog) -> pl.DataFrame:
        """The evidence in one batch."""
        rows: list[tuple[Scope, str, bool, Kind, Kind]] = []
        for scope, table in tables_of(with_starts(batch, self.request.written)):
            for name in table.columns:
                if name in _STANDARD:
                    continue
                values = values_of(table, name)
                exact = not may_not_fit(values) or is_exact(values)
                kind: Kind = self._kind(name, values, exact) if exact else "empty"
                # Of both, as one batch cannot tell whether all values can be numbers.
                as_text = self._kind(name, values, False) if may_not_fit(values) else kind
                rows.append((scope, name, exact, kind, as_text))
        return pl.DataFrame(rows, schema=_FOUND, orient="row")

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """The evidence of all batches, one row a column, sorted."""
        found = summaries.group_by("scope", "column").agg(
            pl.col("exact").all(), pl.col("kind", "kind_as_text").unique()
        )
        joined = [
            pl.Series(
                kind, [reduce(joined_kinds, kinds) for kinds in found[kind].to_list()], pl.String
            )
            for kind in ("kind", "kind_as_text")
        ]
        return found.with_columns(joined).sort("scope", "column")

    def read_back(self, batch: EventLog, found: pl.DataFrame) -> EventLog:
        """A batch as a reader of the whole log has it; ``found``: the merged evidence."""
        settled: dict[tuple[str, str], tuple[bool | None, Kind]] = {
            (scope, name): (exact, kind if exact else kind_as_text)
            for scope, name, exact, kind, kind_as_text in found.iter_rows()
        }
        read: dict[Scope, pl.DataFrame] = {}
        for scope, table in tables_of(with_starts(batch, self.request.written)):
            columns = []
            for name in table.columns:
                exact, kind = settled.get((scope, name), _STANDARD_COLUMN)
                simple = _simple(name, values_of(table, name), exact)
                if simple is None:
                    continue
                read_back = self._through(name, _one_zero(simple), kind)
                if read_back is not None:
                    columns.append(read_back.alias(name))
            read[scope] = pl.DataFrame(columns)
        as_read = replace(batch, events=read["event"], cases=read["case"])
        return with_service_times(as_read, self.request)

    @property
    def _format(self) -> str:
        return self.output.removesuffix(".gz")

    def _kind(self, name: str, values: pl.Series, exact: bool) -> Kind:
        simple = _simple(name, values, exact)
        if simple is None or simple.null_count() == len(simple):
            return "empty"
        if self._format != "csv":
            return "text"
        return inferred(_no_empty_text(field_texts(_one_zero(simple))))[1]

    def _through(
        self,
        name: str,
        values: pl.Series,
        kind: Kind,
    ) -> pl.Series | None:
        """What the format makes of a column; None where it loses it.

        Case ids and activities stay text whatever they look like, and stay where all are missing.
        Times are as they were.
        """
        if name in _STANDARD and values.dtype != pl.String:
            return values
        if self._format == "csv":
            texts = _no_empty_text(field_texts(values))
            return texts if name in _STANDARD else cast_to_kind(texts, kind)[0]
        if self._format == "xes":
            if kind == "empty":
                return None
            return expressible_text(values) if values.dtype == pl.String else values
        return values


_STANDARD_COLUMN: Final[tuple[bool | None, Kind]] = (None, "text")


def _simple(name: str, values: pl.Series, exact: bool | None) -> pl.Series | None:
    return to_simple_type(Path("release"), name, values, exact=exact)


def tables_of(log: EventLog) -> tuple[tuple[Scope, pl.DataFrame], ...]:
    """Both tables of a log, each with what its rows are."""
    return ("case", log.cases), ("event", log.events)


def with_one_spelling(table: pl.DataFrame, output: str) -> pl.DataFrame:
    """The table with one spelling for what the release will not tell apart.

    0.0 stands for -0.0 as well; where the release is CSV, the empty text is missing. Each value is
    changed by itself. ``auto`` may be CSV.
    """
    is_csv = output.startswith(("csv", "auto"))
    changed = []
    for name, kind in table.schema.items():
        values = values_of(table, name)
        if kind.is_float():
            changed.append(_one_zero(values).alias(name))
        elif kind == pl.String and is_csv and name != CASE_ID:
            changed.append(_no_empty_text(values).alias(name))
    return table.with_columns(changed)


def _one_zero(values: pl.Series) -> pl.Series:
    """0.0 for -0.0, which equals it."""
    if not values.dtype.is_float():
        return values
    return values.set((values == 0.0).fill_null(False), 0.0)


def _no_empty_text(values: pl.Series) -> pl.Series:
    """The empty text is missing in CSV."""
    return values.to_frame("text").select(pl.when(pl.col("text") != "").then("text")).to_series()


T = TypeVar("T")
ColumnKinds = Mapping[tuple[Scope, str], Kind]
"""What the values of each column are, by its scope and full name."""


@frozen
class FileParts:
    """A ``LogHandle`` over ``files``, in their order: ``read`` reads one of them.

    ``kinds``: what the columns of all files are together (``kinds_together``); a column that a file
    lacks is missing there. Without them, each file has its own types. Each pass reads the files
    again; raises ``LogError`` where one cannot be read.
    """

    files: tuple[Path, ...]
    read: Callable[[Path], EventLog]
    kinds: ColumnKinds = field(default_factory=dict)
    changes: tuple[Change, ...] = ()

    @property
    def case_count(self) -> int:
        """How many cases there are; takes a pass."""
        return sum(self.results(lambda _, batch: batch.case_count))

    @property
    def event_count(self) -> int:
        """How many events there are; takes a pass."""
        return sum(self.results(lambda _, batch: batch.event_count))

    @property
    def notes(self) -> tuple[str, ...]:
        """None: nobody reads on behalf of a run."""
        return ()

    def batches(self) -> Iterator[EventLog]:
        """The log of each file."""
        for file in self.files:
            yield self._batch(file)

    def results(self, task: Callable[[int, EventLog], T]) -> Iterator[T]:
        """What ``task`` returns of each file and its number, one after the other."""
        found = (task(number, self._batch(file)) for number, file in enumerate(self.files))
        yield from counted(found, len(self.files), "reading part")

    def with_columns_of(self, change: Change) -> "FileParts":
        """The same files; ``change`` of each log that is read of them."""
        return replace(self, changes=(*self.changes, change))

    def _batch(self, file: Path) -> EventLog:
        batch = self.read(file)
        if self.kinds:
            tables = {}
            for scope, table in tables_of(batch):
                columns = [
                    values_of(table, name).alias(name)
                    for name in table.columns
                    if name in _STANDARD
                ]
                columns += [
                    _of_kind(file, batch, table, name, kind).alias(name)
                    for (of, name), kind in self.kinds.items()
                    if of == scope
                ]
                tables[scope] = pl.DataFrame(columns)
            batch = replace(batch, events=tables["event"], cases=tables["case"])
        for change in self.changes:
            batch = change(batch)
        return batch


def kinds_of(log: EventLog) -> dict[tuple[Scope, str], Kind]:
    """What the values of each column are, save the standard ones, which every log has."""
    return {
        (scope, name): _kind(log, name, values_of(table, name))
        for scope, table in tables_of(log)
        for name in table.columns
        if name not in _STANDARD
    }


def kinds_together(files: Iterable[Path], found: Iterable[ColumnKinds]) -> ColumnKinds:
    """The kinds of the columns of all files, given those of each of them, in the same order.

    XES says the type of each value: whole numbers among decimal ones are decimal. A table names all
    its columns: raises LogError for a file whose columns are not those of the first.
    """
    pairs = list(zip(files, found, strict=True))
    first, columns = pairs[0]
    is_xes = format_by_suffix(first) == "xes"
    if not is_xes:
        for file, kinds in pairs[1:]:
            if kinds.keys() != columns.keys():
                name = next(name for _, name in sorted(kinds.keys() ^ columns.keys()))
                said = f"its columns are not those of {first.name}: '{shown(name)}'"
                raise LogError(file, said, hint="copy the folder again")
    join = joined_declared if is_xes else joined_kinds
    names = {name: None for _, kinds in pairs for name in kinds}
    return {
        name: reduce(join, (kinds[name] for _, kinds in pairs if name in kinds)) for name in names
    }


def _kind(
    log: EventLog,
    name: str,
    values: pl.Series,
) -> Kind:
    if values.null_count() == len(values):
        return "empty"
    match values.dtype:
        case pl.Int64:
            return "int"
        case pl.Float64:
            return "float"
        case pl.Boolean:
            # The file's characters tell in which spelling its truth values stand.
            texts = log.text_of(name)
            first = "true" if texts is None else str(texts.drop_nulls()[0])
            if first.islower():
                return "boolean"
            return "TRUE" if first.isupper() else "True"
    return "date" if values.dtype.is_temporal() else "text"


def _of_kind(
    file: Path,
    log: EventLog,
    table: pl.DataFrame,
    name: str,
    kind: Kind,
) -> pl.Series:
    if name not in table.columns:
        return nulls(table.height, TYPES[kind])
    values = values_of(table, name)
    if kind == "empty" or values.dtype == TYPES[kind]:
        return values
    if kind == "float" or values.null_count() == len(values):
        return values.cast(TYPES[kind])
    # Read as another type than all files give it: the characters of this one are its values.
    texts = log.text_of(name)
    if texts is None:
        said = f"'{shown(name)}' holds values of another type than in other parts"
        raise LogError(file, said, hint="make the release again")
    return texts

"""A log in several files of whole cases, as a release has it: read one file at a time.

A reader of one file settles the types of its columns by their values, and values of other files may
settle them otherwise. So the columns of all files are looked at first, and each file is read under
what they say together, the same as if all stood in one file.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Final, Literal, TypeVar

import polars as pl

from cloakwork.base.errors import LogError
from cloakwork.base.naming import values_of
from cloakwork.base.progress import counted
from cloakwork.base.text import shown
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.formats.kinds import TYPES, Kind, joined_declared, joined_kinds
from cloakwork.log.formats.source import format_by_suffix

T = TypeVar("T")
Scope = Literal["case", "event"]
ColumnKinds = Mapping[tuple[Scope, str], Kind]
"""What the values of each column are, by its scope and full name."""

_STANDARD: Final = (CASE_ID, ACTIVITY, TIMESTAMP)


@dataclass(frozen=True, slots=True)
class FileParts:
    """A ``LogHandle`` over ``files``, in their order: ``read`` reads one of them.

    ``kinds``: what the columns of all files are together (``kinds_together``); a column that a file
    lacks is missing there. Without them, each file has its own types. Each pass reads the files
    again; raises ``LogError`` where one cannot be read.
    """

    files: tuple[Path, ...]
    read: Callable[[Path], EventLog]
    kinds: ColumnKinds = field(default_factory=dict)
    changes: tuple[Callable[[EventLog], EventLog], ...] = ()

    @property
    def case_count(self) -> int:
        """How many cases there are; takes a pass."""
        return sum(self.each_batch(lambda _, batch: batch.case_count))

    @property
    def event_count(self) -> int:
        """How many events there are; takes a pass."""
        return sum(self.each_batch(lambda _, batch: batch.event_count))

    @property
    def notes(self) -> tuple[str, ...]:
        """None: nobody reads on behalf of a run."""
        return ()

    def batches(self) -> Iterator[EventLog]:
        """The log of each file."""
        for file in self.files:
            yield self._batch(file)

    def each_batch(self, task: Callable[[int, EventLog], T]) -> list[T]:
        """What ``task`` returns of each file and its number, one after the other."""
        return list(self.results(task))

    def results(self, task: Callable[[int, EventLog], T]) -> Iterator[T]:
        """As ``each_batch``, one after the other."""
        found = (task(number, self._batch(file)) for number, file in enumerate(self.files))
        yield from counted(found, len(self.files), "reading part")

    def with_columns_of(self, change: Callable[[EventLog], EventLog]) -> "FileParts":
        """The same files; ``change`` of each log that is read of them."""
        return replace(self, changes=(*self.changes, change))

    def _batch(self, file: Path) -> EventLog:
        batch = with_kinds(file, self.read(file), self.kinds)
        for change in self.changes:
            batch = change(batch)
        return batch


def kinds_of(log: EventLog) -> dict[tuple[Scope, str], Kind]:
    """What the values of each column are, save the standard ones, which every log has."""
    return {
        (scope, name): _kind(log, name, values_of(table, name))
        for scope, table in _tables(log)
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


def with_kinds(file: Path, log: EventLog, kinds: ColumnKinds) -> EventLog:
    """``log``, which ``file`` holds, with columns of the given kinds; as it is where none are
    given.
    """
    if not kinds:
        return log
    tables = {}
    for scope, table in _tables(log):
        standard = [table.get_column(name) for name in table.columns if name in _STANDARD]
        others = [
            _column(file, log, table, name, kind).alias(name)
            for (where, name), kind in kinds.items()
            if where == scope
        ]
        tables[scope] = pl.DataFrame([*standard, *others])
    return replace(log, events=tables["event"], cases=tables["case"])


def _kind(log: EventLog, name: str, values: pl.Series) -> Kind:
    if values.null_count() == len(values):
        return "empty"
    match values.dtype:
        case pl.Int64:
            return "int"
        case pl.Float64:
            return "float"
        case pl.Boolean:
            return _spelling_of_truth(log.text_of(name))
    return "date" if values.dtype.is_temporal() else "text"


def _spelling_of_truth(texts: pl.Series | None) -> Kind:
    """How the truth values of a column are spelt: all of them in one way."""
    first = "true" if texts is None else str(texts.drop_nulls()[0])
    if first.islower():
        return "boolean"
    return "TRUE" if first.isupper() else "True"


def _column(file: Path, log: EventLog, table: pl.DataFrame, name: str, kind: Kind) -> pl.Series:
    """A column of ``table`` as values of ``kind``."""
    if name not in table.columns:
        return pl.Series([None], dtype=TYPES[kind]).new_from_index(0, table.height)
    values = values_of(table, name)
    if kind == "empty" or values.dtype == TYPES[kind]:
        return values
    if kind == "float" or values.null_count() == len(values):
        return values.cast(TYPES[kind])
    texts = log.text_of(name)
    if texts is None:
        said = f"'{shown(name)}' holds values of another type than in other parts"
        raise LogError(file, said, hint="make the release again")
    return texts


def _tables(log: EventLog) -> tuple[tuple[Scope, pl.DataFrame], ...]:
    return ("case", log.cases), ("event", log.events)

"""Attributes become columns: what both XES readers find is gathered, typed and laid out here, so that they agree."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.log.eventlog import ACTIVITY, CASE_ID, CASE_PREFIX, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.log.io.source import shown
from cloakwork.log.io.times import parse_times

Kind = Literal["text", "int", "float", "boolean", "date"]
Scope = Literal["trace", "event"]

NO_ACTIVITY: Final = "events without an activity"
NO_TIME: Final = "events without a timestamp"
NO_ZONE: Final = "timestamps without a zone (taken as UTC)"
KIND_OF: Final[dict[str, Kind]] = {
    "string": "text",
    "id": "text",
    "int": "int",
    "float": "float",
    "boolean": "boolean",
    "date": "date",
}
_FIXED: Final[dict[str, Kind]] = {CASE_ID: "text", ACTIVITY: "text", TIMESTAMP: "date"}
_TRUTH: Final = {"true": True, "1": True, "false": False, "0": False}
_BLANKS: Final = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Run:
    """Values of one attribute, in file order, as one stretch of the file gave them.

    - ``rows``: int64, shape (n,); the ordinal in the whole file of the trace or event that each value belongs to.
    - ``values``: String, n long, not null; ``lines``: the line of each value (from 1), where the reader knows it.
    """

    scope: Scope
    key: str
    kind: Kind
    rows: NDArray[np.int64]
    values: pl.Series
    lines: Sequence[int] | None = None


class BadValue(Exception):
    """A value is not of the type that the file declares for it."""

    def __init__(self, kind: str, key: str, value: str, line: int | None) -> None:
        self.kind, self.key, self.value, self.line = kind, key, value, line
        super().__init__(f"'{value}' is no {kind}")


class MixedKinds(Exception):
    """Attributes of more than one type; read the file again with ``names`` as text."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        super().__init__(", ".join(sorted(names)))


@dataclass
class Irregularities:
    """How often a reader met each thing that it handles but the user should hear of."""

    stray_events: int = 0
    nested: int = 0
    lists: int = 0
    foreign: int = 0
    reserved: int = 0
    zoneless: int = 0
    repeated: int = 0


@dataclass
class _Column:
    kind: Kind
    rows: list[NDArray[np.int64]] = field(default_factory=list)
    values: list[pl.Series] = field(default_factory=list)


class ColumnBuilder:
    """Collects runs of attribute values and, at the end, lays them out as an ``EventLog``.

    ``keep`` says which attributes are wanted, by full name; ``as_text`` names those that are read as text whatever type
    the file declares.
    """

    def __init__(self, keep: Callable[[str], bool] | None, as_text: frozenset[str]) -> None:
        self.irregular = Irregularities()
        self._keep = keep
        self._as_text = as_text
        self._columns: dict[str, _Column] = {}
        self._mixed: set[str] = set()
        self._widened: set[str] = set()
        self._case_of: list[NDArray[np.int64]] = []
        self._traces = 0
        self._events = 0

    @property
    def traces(self) -> int:
        """How many traces were opened so far."""
        return self._traces

    @property
    def events(self) -> int:
        """How many events were opened so far."""
        return self._events

    def name_of(self, scope: Scope, key: str) -> str | None:
        """The full name of an attribute; None for one that is not wanted."""
        if scope == "event" and key.startswith(CASE_PREFIX):
            return None
        name = CASE_PREFIX + key if scope == "trace" else key
        return name if name in _FIXED or self._keep is None or self._keep(name) else None

    def open(self, traces: int, case_of: NDArray[np.int64]) -> None:
        """Count ``traces`` further traces, and one further event for each entry of ``case_of`` (its trace's ordinal)."""
        self._traces += traces
        self._events += len(case_of)
        self._case_of.append(case_of)

    def add(self, run: Run) -> None:
        """Take in one run of a wanted attribute. ``BadValue`` when a value is not of its declared type."""
        name = self.name_of(run.scope, run.key)
        if name is None or not len(run.rows):
            return
        kind: Kind = "text" if name in self._as_text else _FIXED.get(name, run.kind)
        column = self._columns.setdefault(name, _Column(kind))
        if {column.kind, kind} == {"int", "float"}:
            self._widened.add(name)
            column.kind = "float"
        elif column.kind != kind:
            self._mixed.add(name)
        column.rows.append(run.rows)
        column.values.append(self._typed(run, kind))

    def finish(self) -> EventLog:
        """The log, with notes. ``MixedKinds`` when an attribute came in more than one type."""
        if self._mixed:
            raise MixedKinds(frozenset(self._mixed))
        of_cases = {name: column for name, column in self._columns.items() if name.startswith(CASE_PREFIX)}
        of_events = {name: column for name, column in self._columns.items() if name not in of_cases}
        cases = self._frame(of_cases, self._traces, {CASE_ID: pl.String()})
        events = self._frame(of_events, self._events, {ACTIVITY: pl.String(), TIMESTAMP: TIME_TYPE})
        case_of = np.concatenate([np.zeros(0, np.int64), *self._case_of])
        return EventLog.build(events, cases, case_of, notes=tuple(self._notes(cases, events)))

    def _typed(self, run: Run, kind: Kind) -> pl.Series:
        if kind == "text":
            return run.values + ""  # a copy: views would keep the whole chunk of the file alive
        typed = self._cast(run.values, kind)
        if typed.null_count():
            stripped = self._cast(run.values.str.strip_chars(_BLANKS), kind)
            typed = stripped
        if typed.null_count():
            bad = int(typed.is_null().arg_max() or 0)
            raise BadValue(kind, run.key, run.values[bad], run.lines[bad] if run.lines else None)
        return typed

    def _cast(self, text: pl.Series, kind: Kind) -> pl.Series:
        if kind == "int":
            return text.cast(pl.Int64, strict=False)
        if kind == "float":
            return text.cast(pl.Float64, strict=False)
        if kind == "boolean":
            return text.str.to_lowercase().replace_strict(_TRUTH, default=None, return_dtype=pl.Boolean)
        times = parse_times(text)
        self.irregular.zoneless += times.zoneless
        return times.values

    def _frame(self, columns: dict[str, _Column], height: int, first: dict[str, pl.DataType]) -> pl.DataFrame:
        """One table, the standard columns first, then the others as they first appear in the file."""
        names = [*first, *(name for name in columns if name not in first)]
        return pl.DataFrame(
            [
                self._laid_out(columns[name], height).alias(name)
                if name in columns
                else pl.Series(name, [None] * height, dtype=first[name])
                for name in names
            ]
        )

    def _laid_out(self, column: _Column, height: int) -> pl.Series:
        """One value a row, null where the file gave none; of several for one row, the last."""
        widest = pl.Float64 if column.kind == "float" else column.values[0].dtype
        values = pl.concat([values.cast(widest) for values in column.values], rechunk=True)
        rows = np.concatenate(column.rows)
        column.values.clear()
        if len(rows) == height and (np.diff(rows) == 1).all():
            return values
        source = np.full(height, len(values), np.int64)
        source[rows] = np.arange(len(rows))
        self.irregular.repeated += len(rows) - int((source != len(values)).sum())
        return pl.concat([values, pl.Series([None], dtype=values.dtype)], rechunk=True).gather(source)

    def _notes(self, cases: pl.DataFrame, events: pl.DataFrame) -> Iterator[str]:
        ids = cases[CASE_ID].drop_nulls()
        counts = self.irregular
        told = (
            (len(ids) - ids.n_unique(), "cases with the id of an earlier case (each stays a case of its own)"),
            (cases[CASE_ID].null_count(), "cases without an id (each stays a case)"),
            (events[ACTIVITY].null_count(), NO_ACTIVITY),
            (events[TIMESTAMP].null_count(), NO_TIME),
            (counts.zoneless, NO_ZONE),
            (counts.stray_events, "events outside any case, left out"),
            (counts.nested, "attributes nested inside other attributes, left out"),
            (counts.lists, "lists and containers, left out"),
            (counts.foreign, "elements that XES does not know, left out"),
            (counts.reserved, f"event attributes whose name starts with '{CASE_PREFIX}', left out"),
            (counts.repeated, "values that the same case or event states again (the last one counts)"),
        )
        yield from (f"{what}: {count}" for count, what in told if count)
        for name in sorted(self._widened):
            yield f"attribute '{shown(name)}' has whole and decimal numbers; read as decimal"
        for name in sorted(self._as_text):
            yield f"attribute '{shown(name)}' has values of several types; read as text"

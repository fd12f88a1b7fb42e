"""Attributes become columns: what both XES readers find is gathered, typed and laid out here, so
that they agree.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.text import shown
from cloakwork.log.eventlog import (
    ACTIVITY,
    CASE_ID,
    CASE_PREFIX,
    TIME_TYPE,
    TIMESTAMP,
    EventLog,
)
from cloakwork.log.formats.column_layout import (
    Kind,
    Layout,
    Scope,
    ValueRun,
    place_values,
    round_trips,
)
from cloakwork.log.limits import Limits, OnExcess, current_limits
from cloakwork.log.table import SourceSpelling
from cloakwork.log.times import parse_times

NO_ACTIVITY: Final = "events without an activity"
NO_TIME: Final = "events without a timestamp"
NO_ZONE: Final = "timestamps without a zone (taken as UTC)"
OVERSIZED: Final = "values over the size limit, left out"
_FIXED: Final[dict[str, Kind]] = {CASE_ID: "text", ACTIVITY: "text", TIMESTAMP: "date"}
_TRUTH: Final = {"true": True, "1": True, "false": False, "0": False}
_BLANKS: Final = " \t\r\n"


class BadValue(Exception):
    """A value is not of the type that the file declares for it."""

    def __init__(self, kind: str, key: str, value: str, line: int | None) -> None:
        self.kind, self.key, self.value, self.line = kind, key, value, line
        super().__init__(f"'{value}' is no {kind}")


class Conflicting(Exception):
    """A trace states an attribute twice, differently, and the reader cannot say on which line."""


class TooManyKeys(Exception):
    """The file has more attributes than the limit."""


class MixedKinds(Exception):
    """Attributes came in more than one type; read the file again with each as ``kinds`` says."""

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        self.kinds = kinds
        super().__init__(", ".join(sorted(kinds)))


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
    oversized: int = 0


@dataclass
class ColumnRuns:
    """What was found of one attribute, run by run."""

    kinds: set[Kind] = field(default_factory=set)
    rows: list[Ints] = field(default_factory=list)
    values: list[pl.Series] = field(default_factory=list)
    texts: list[pl.Series | None] = field(default_factory=list)
    """What the file says, where the values do not give it back."""
    lines: list[Sequence[int] | None] = field(default_factory=list)


class ColumnBuilder:
    """Collects runs of attribute values and, at the end, lays them out as an ``EventLog``.

    ``keep`` says which attributes are read, by full name; ``kinds`` names those that are read as
    one kind whatever type the file declares. ``limits`` bounds how many attributes there are and
    how large a value is; values over it are refused, or left out where ``on_excess`` says ``drop``.
    """

    def __init__(
        self,
        keep: Callable[[str], bool] | None,
        kinds: Mapping[str, Kind],
        *,
        limits: Limits | None = None,
        on_excess: OnExcess = "refuse",
    ) -> None:
        self.irregular = Irregularities()
        self.limits = limits or current_limits()
        self.on_excess = on_excess
        self._keep = keep
        self._kinds = kinds
        self._columns: dict[str, ColumnRuns] = {}
        self._case_of: list[Ints] = []
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
        """The full name of an attribute; None for one that is not read."""
        if scope == "event" and key.startswith(CASE_PREFIX):
            return None
        name = CASE_PREFIX + key if scope == "trace" else key
        is_read = name in _FIXED or self._keep is None or self._keep(name)
        return name if is_read else None

    def kind_of(self, name: str, declared: Kind) -> Kind:
        """The kind that an attribute is read as, by its full name and the type that the file
        declares.
        """
        return self._kinds.get(name) or _FIXED.get(name, declared)

    def open_cases(self, traces: int, case_of: Ints) -> None:
        """Count ``traces`` further traces, and one further event for each entry of ``case_of`` (its
        trace's ordinal).
        """
        self._traces += traces
        self._events += len(case_of)
        self._case_of.append(case_of)

    def add_run(self, run: ValueRun) -> None:
        """Take in one run of an attribute that is read.

        ``BadValue`` when a value is not of its declared type, ``TooManyKeys`` at the first
        attribute over the limit.
        """
        name = self.name_of(run.scope, run.key)
        if name is None or not len(run.rows):
            return
        kind = self.kind_of(name, run.kind)
        column = self._columns.setdefault(name, ColumnRuns())
        if len(self._columns) > self.limits.attributes:
            raise TooManyKeys(name)
        column.kinds.add(kind)
        column.rows.append(run.rows)
        values = self._typed_values(run, kind)
        column.values.append(values)
        lost = name != TIMESTAMP and not round_trips(run.values, values)
        column.texts.append(run.values + "" if lost else None)
        column.lines.append(run.lines)

    def finish(self) -> EventLog:
        """The log, with notes. ``MixedKinds`` when an attribute came in more than one type."""
        self._refuse_mixed_kinds()
        of_cases: dict[str, ColumnRuns] = {}
        of_events: dict[str, ColumnRuns] = {}
        for name, column in self._columns.items():
            table = of_cases if name.startswith(CASE_PREFIX) else of_events
            table[name] = column
        layout = Layout.of_rows(self._traces, len(of_cases))
        of_traces = self._source_spelling(of_cases, layout)
        cases = self._table_of(of_cases, layout, {CASE_ID: pl.String()})
        order, offsets = self._time_order(of_events.get(TIMESTAMP), cases)
        layout = Layout.of_rows(self._events, len(of_events), order)
        source = of_traces.combined_with(self._source_spelling(of_events, layout))
        events = self._table_of(of_events, layout, {ACTIVITY: pl.String(), TIMESTAMP: TIME_TYPE})
        notes = tuple(self._irregularity_notes(cases, events))
        return EventLog(events, cases, offsets, notes, source=source)

    def _refuse_mixed_kinds(self) -> None:
        settled = settled_kinds({name: column.kinds for name, column in self._columns.items()})
        if settled:
            raise MixedKinds(settled)

    def _time_order(
        self, times: "ColumnRuns | None", cases: pl.DataFrame
    ) -> tuple[Ints | None, Ints]:
        """The order of the log's events, None for the file's, and the log's offsets: found before
        columns are laid out.
        """
        case_of = np.concatenate([np.zeros(0, np.int64), *self._case_of])
        columns = [pl.Series("row", np.arange(self._events))]
        if times is not None:
            columns.append(self._laid_out(times, Layout.of_rows(self._events, 1)).alias(TIMESTAMP))
            # Laying out empties the column: it is given back what was laid out, one value a row.
            times.values = [columns[1]]
            times.rows = [np.arange(self._events)]
        ordered = EventLog.build(pl.DataFrame(columns), cases, case_of)
        order = ordered.events["row"].to_numpy()
        is_in_file_order = (np.diff(order) == 1).all()
        return (None if is_in_file_order else order), ordered.offsets

    def _source_spelling(self, columns: dict[str, ColumnRuns], layout: "Layout") -> SourceSpelling:
        """What the typed columns of one table will no longer say."""
        exact: set[str] = set()
        texts: dict[str, pl.Series] = {}
        conflicts: dict[str, str] = {}
        repeated = ""
        for name, column in columns.items():
            if name == TIMESTAMP:
                continue
            spelt = [
                values.cast(pl.String) if text is None else text
                for values, text in zip(column.values, column.texts, strict=True)
            ]
            if all(text is None for text in column.texts):
                exact.add(name)
            else:
                rows = np.concatenate(column.rows)
                texts[name] = place_values(pl.concat(spelt, rechunk=True), rows, layout)
            place = first_conflict(column, spelt) if name.startswith(CASE_PREFIX) else None
            if place:
                conflicts[name] = place
            if name == CASE_ID:
                repeated = first_repeated_id(column, spelt)
        return SourceSpelling(frozenset(exact), texts, conflicts=conflicts, repeated=repeated)

    def _typed_values(self, run: ValueRun, kind: Kind) -> pl.Series:
        typed, zoneless = typed_values(run, kind)
        self.irregular.zoneless += zoneless
        return typed

    def _table_of(
        self, columns: dict[str, ColumnRuns], layout: "Layout", first: dict[str, pl.DataType]
    ) -> pl.DataFrame:
        """One table: the standard columns, then the others as they first appear in the file."""
        table: list[pl.Series] = []
        for name in dict.fromkeys([*first, *columns]):
            if name in columns:
                table.append(self._laid_out(columns[name], layout).alias(name))
            else:
                table.append(pl.Series(name, [None] * layout.height, dtype=first[name]))
        return pl.DataFrame(table)

    def _laid_out(self, column: ColumnRuns, layout: "Layout") -> pl.Series:
        """One value a row, null where the file gave none; of several for one row, the last."""
        values = pl.concat(column.values, rechunk=True)
        rows = np.concatenate(column.rows)
        column.values.clear()
        self.irregular.repeated += int((np.diff(rows) == 0).sum())
        return place_values(values, rows, layout)

    def _irregularity_notes(self, cases: pl.DataFrame, events: pl.DataFrame) -> Iterator[str]:
        ids = cases[CASE_ID].drop_nulls()
        missing = MissingValues(
            len(ids) - ids.n_unique(),
            cases[CASE_ID].null_count(),
            events[ACTIVITY].null_count(),
            events[TIMESTAMP].null_count(),
        )
        return irregularity_notes(self.irregular, missing, self._kinds)


@dataclass(frozen=True, slots=True)
class MissingValues:
    """How many cases repeat an id or have none, and how many events lack an activity or a time."""

    repeated_ids: int = 0
    ids: int = 0
    activities: int = 0
    times: int = 0


def irregularity_notes(
    counts: Irregularities, missing: MissingValues, kinds: Mapping[str, Kind]
) -> Iterator[str]:
    """What is said of a file; ``kinds``: attributes that are read as one kind, whatever it
    states.
    """
    counted = (
        (
            missing.repeated_ids,
            "cases with the id of an earlier case (such a log is read, and not released)",
        ),
        (missing.ids, "cases without an id (each stays a case)"),
        (missing.activities, NO_ACTIVITY),
        (missing.times, NO_TIME),
        (counts.zoneless, NO_ZONE),
        (counts.stray_events, "events outside any case, left out"),
        (counts.nested, "attributes nested inside other attributes, left out"),
        (counts.lists, "lists and containers, left out"),
        (counts.foreign, "elements that XES does not know, left out"),
        (counts.reserved, f"event attributes whose name starts with '{CASE_PREFIX}', left out"),
        (counts.oversized, OVERSIZED),
        (
            counts.repeated,
            "values that the same case or event states again (the last one counts)",
        ),
    )
    yield from (f"{what}: {count}" for count, what in counted if count)
    for name, kind in sorted(kinds.items()):
        yield f"attribute '{shown(name)}' is read as {kind}, whatever type its values state"


def settled_kinds(found: Mapping[str, set[Kind]]) -> dict[str, Kind]:
    """The kind that fits all values of each attribute that came in more than one."""
    mixed = {name: kinds for name, kinds in found.items() if len(kinds) > 1}
    return {name: "float" if kinds == {"int", "float"} else "text" for name, kinds in mixed.items()}


def typed_values(run: ValueRun, kind: Kind) -> tuple[pl.Series, int]:
    """The values of a run as ``kind``, and how many times name no zone. ``BadValue`` for one that
    is not of it.
    """
    typed, zoneless = read_kind(run.values, kind)
    if typed.null_count():
        bad = int(typed.is_null().arg_max() or 0)
        raise BadValue(kind, run.key, run.values[bad], run.lines[bad] if run.lines else None)
    return typed, zoneless


def read_kind(text: pl.Series, kind: Kind) -> tuple[pl.Series, int]:
    """Texts (String) as ``kind``, null where one is none; and how many times name no zone."""
    if kind == "text":
        return text + "", 0  # a copy: views would keep the whole chunk of the file alive
    typed, zoneless = _cast_to_kind(text, kind)
    if typed.null_count() == text.null_count():
        return typed, zoneless
    typed, more = _cast_to_kind(text.str.strip_chars(_BLANKS), kind)
    return typed, zoneless + more


def _cast_to_kind(text: pl.Series, kind: Kind) -> tuple[pl.Series, int]:
    if kind == "int":
        return text.cast(pl.Int64, strict=False), 0
    if kind == "float":
        return text.cast(pl.Float64, strict=False), 0
    if kind == "boolean":
        lowered = text.str.to_lowercase()
        return lowered.replace_strict(_TRUTH, default=None, return_dtype=pl.Boolean), 0
    times = parse_times(text)
    return times.values, times.zoneless


def first_conflict(column: ColumnRuns, spelt: Sequence[pl.Series]) -> str | None:
    """Where a trace first states another value than before; None where none does.

    ``Conflicting`` where the reader does not know its lines.
    """
    rows = np.concatenate(column.rows)
    if (np.diff(rows) > 0).all():
        return None
    values = pl.concat(spelt, rechunk=True)
    stated = pl.DataFrame({"row": rows, "value": values}).with_row_index("place")
    differs = stated.filter(pl.col("value") != pl.col("value").first().over("row"))
    if not differs.height:
        return None
    return _line_of_value(column, differs["place"][0])


def first_repeated_id(column: ColumnRuns, spelt: Sequence[pl.Series]) -> str:
    """Where a trace first states the id of an earlier trace; empty where none does.

    ``Conflicting`` where the reader does not know its lines.
    """
    rows = np.concatenate(column.rows)
    ids = pl.concat(spelt, rechunk=True)
    stated = pl.DataFrame({"row": rows, "id": ids}).with_row_index("place")
    # The last id that a trace states is its id.
    is_last = np.append(np.diff(rows) != 0, True)
    again = stated.filter(is_last).filter(~pl.col("id").is_first_distinct())
    if not again.height:
        return ""
    return _line_of_value(column, again["place"][0])


def _line_of_value(column: ColumnRuns, place: int) -> str:
    """The line of the column's value at ``place``. ``Conflicting`` where the reader does not know
    its lines.
    """
    if any(lines is None for lines in column.lines):
        raise Conflicting
    lines = [line for lines_of_run in column.lines for line in lines_of_run or ()]
    return f"line {lines[place]}"

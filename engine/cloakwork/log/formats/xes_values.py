"""What both XES readers find, run by run, becomes rows of whole traces here, so that they agree."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import inf
from typing import Final, Literal

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Ints, owners_of
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP, nulls, values_of
from cloakwork.base.text import shown
from cloakwork.log.formats.kinds import Kind, joined_declared, read_kind, round_trips
from cloakwork.log.formats.row_source import (
    CELLS,
    MOST_ROWS,
    PLACE,
    ROW,
    SPARSE,
    TEXT,
    Keeps,
    RawChunk,
    ReadRequest,
)
from cloakwork.log.formats.tables import NO_ACTIVITY, NO_TIME, NO_ZONE, OVERSIZED, counted_notes

Scope = Literal["trace", "event"]

KIND_OF: Final[dict[str, Kind]] = {
    "string": "text",
    "id": "text",
    "int": "int",
    "float": "float",
    "boolean": "boolean",
    "date": "date",
}
"""What the values of each XES element are."""

_FIXED: Final[dict[str, Kind]] = {CASE_ID: "text", ACTIVITY: "text", TIMESTAMP: "date"}
_SMALL: Final = 1 << 22  # cells: at 16 bytes each, 64 MiB
_LARGE: Final = 1 << 26


class BadValue(Exception):
    """A value is not of the type that the file declares for it."""

    def __init__(self, kind: str, key: str, line: int | None) -> None:
        self.kind, self.key, self.line = kind, key, line


class Conflicting(Exception):
    """A trace states an attribute twice, differently, and the reader cannot say on which line."""


class TooManyKeys(Exception):
    """The file has more attributes than the limit."""


@frozen
class ValueRun:
    """Values of one attribute, in file order, as one stretch of the file gave them.

    One run holds all values of its kind in its stretch, ``name`` and ``kind`` being what
    ``Collector`` says of ``key``: so the order of the file is kept where an element states an
    attribute twice.

    - ``rows``: int64, shape (n,); the ordinal in the whole file of the trace or event that each
      value belongs to.
    - ``values``: String, n long, not null; ``lines``: the line of each value (from 1), where the
      reader knows it.
    """

    name: str
    key: str
    kind: Kind
    rows: Ints
    values: pl.Series
    lines: Sequence[int] | None = None


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
    repeated_ids: int = 0
    without_id: int = 0
    without_activity: int = 0
    without_time: int = 0

    def notes(self, kinds: Mapping[str, Kind]) -> tuple[str, ...]:
        """What is said of a file; ``kinds``: attributes that are read as one kind, whatever it
        states.
        """
        reserved = f"event attributes whose name starts with '{CASE_PREFIX}', left out"
        again = "values that the same case or event states again (the last one counts)"
        repeated = "cases with the id of an earlier case (such a log is read, and not released)"
        counted = counted_notes(
            (self.repeated_ids, repeated),
            (self.without_id, "cases without an id (each stays a case)"),
            (self.without_activity, NO_ACTIVITY),
            (self.without_time, NO_TIME),
            (self.zoneless, NO_ZONE),
            (self.stray_events, "events outside any case, left out"),
            (self.nested, "attributes nested inside other attributes, left out"),
            (self.lists, "lists and containers, left out"),
            (self.foreign, "elements that XES does not know, left out"),
            (self.reserved, reserved),
            (self.oversized, OVERSIZED),
            (self.repeated, again),
        )
        settled = (
            f"attribute '{shown(name)}' is read as {kind}, whatever type its values state"
            for name, kind in sorted(kinds.items())
        )
        return (*counted, *settled)


@dataclass
class Attribute:
    """What is known of one attribute so far: its column's number, the kinds that it came in,
    whether its values give back their texts, and how many of its times name no zone.
    """

    number: str
    kinds: set[Kind] = field(default_factory=set)
    is_exact: bool = True
    zoneless: int = 0


@dataclass
class Evidence:
    """What the traces so far say of attributes, and of irregularities.

    ``conflicts``: where a trace first states an attribute twice, differently. ``is_unordered``: two
    values of a row came in two kinds, so that nobody knows which is the last.
    """

    attributes: dict[str, Attribute] = field(default_factory=dict)
    irregular: Irregularities = field(default_factory=Irregularities)
    conflicts: dict[str, str] = field(default_factory=dict)
    traces: int = 0
    events: int = 0
    is_unordered: bool = False

    def of(self, name: str) -> Attribute:
        """The attribute of this full name."""
        if name not in self.attributes:
            self.attributes[name] = Attribute(str(len(self.attributes)))
        return self.attributes[name]

    def settled_kinds(self) -> dict[str, Kind]:
        """The kind that fits all values of each attribute that came in more than one."""
        return {
            name: reduce(joined_declared, each.kinds)
            for name, each in self.attributes.items()
            if len(each.kinds) > 1
        }


@frozen
class _Held:
    """Values of one attribute in file order, as what they are; ``texts``: what the file says, where
    they do not give it back.
    """

    rows: Ints
    values: pl.Series
    texts: pl.Series | None
    lines: Sequence[int] | None

    @property
    def spelt(self) -> pl.Series:
        return self.values.cast(pl.String) if self.texts is None else self.texts

    def between(self, start: int, end: int | None) -> "_Held":
        texts = self.texts
        lines = self.lines
        return _Held(
            self.rows[start:end],
            self.values[start:end],
            None if texts is None else texts[start:end],
            None if lines is None else lines[start:end],
        )


class Collector:
    """Gathers runs of values as a reader finds them in one file, and hands over what whole traces
    say.

    ``request.keep`` says which attributes are read, by full name; ``kinds`` names those that are
    read as one kind whatever type the file declares. Values over the limit are refused, or left out
    where ``on_excess`` says ``drop``. ``file``: its name, where there are several.
    """

    def __init__(
        self, evidence: Evidence, kinds: Mapping[str, Kind], request: ReadRequest, file: str = ""
    ) -> None:
        self.irregular = evidence.irregular
        self.limits = request.bounds
        self.on_excess = request.on_excess
        self.traces = self.events = 0
        self._keeps: Keeps = request.keeps
        self._kinds = kinds
        self._evidence = evidence
        self._file = file
        self._first_trace = evidence.traces
        self._first_event = evidence.events
        self._case_of: list[Ints] = []
        self._taken_traces = self._taken_events = 0
        self._waiting: dict[str, list[_Held]] = {}

    def name_of(self, scope: Scope, key: str) -> str | None:
        """The full name of an attribute; None for one that is not read."""
        if scope == "event" and key.startswith(CASE_PREFIX):
            return None
        name = CASE_PREFIX + key if scope == "trace" else key
        is_read = name in _FIXED or self._keeps(name)
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
        self.traces += traces
        self.events += len(case_of)
        self._case_of.append(case_of)

    def add_run(self, run: ValueRun) -> None:
        """Take in one run of an attribute that is read.

        ``BadValue`` when a value is not of its declared type, ``TooManyKeys`` at the first
        attribute over the limit.
        """
        name = run.name
        kind = run.kind
        attribute = self._evidence.of(name)
        if len(self._evidence.attributes) > self.limits.attributes:
            raise TooManyKeys(name)
        values, zoneless = read_kind(run.values, kind)
        if values.null_count():
            bad = int(values.is_null().arg_max() or 0)
            raise BadValue(kind, run.key, run.lines[bad] if run.lines else None)
        is_time = name == TIMESTAMP and kind == "date"
        is_exact = not is_time and round_trips(run.values, values)
        attribute.kinds.add(kind)
        attribute.zoneless += zoneless
        attribute.is_exact &= is_exact
        # Copies of texts: views would keep the whole chunk of the file alive.
        held = _Held(
            run.rows,
            values + "" if kind == "text" else values,
            None if is_exact or is_time else run.values + "",
            run.lines,
        )
        self._waiting.setdefault(name, []).append(held)

    @property
    def is_full(self) -> bool:
        """Whether there is enough for a chunk."""
        # The latest trace may go on, so it is not counted.
        if self.traces - 1 <= self._taken_traces:
            return False
        events = self.events - self._taken_events
        columns = max(1, len(self._evidence.attributes))
        return events >= MOST_ROWS or events * columns >= CELLS

    def take(self, *, is_last: bool) -> Iterator[RawChunk]:
        """The traces that are known to be whole: all but the latest, or all of them."""
        case_of = np.concatenate([np.zeros(0, np.int64), *self._case_of])
        end_trace = self.traces if is_last else self.traces - 1
        if end_trace <= self._taken_traces:
            return
        held = int(np.searchsorted(case_of, end_trace))
        end_event = self._taken_events + held
        cases = self._table(CASE_PREFIX, self._taken_traces, end_trace)
        events = self._table("", self._taken_events, end_event)
        places = np.arange(self._taken_traces, end_trace) + self._first_trace
        rows = np.arange(self._taken_events, end_event) + self._first_event
        self._case_of = [case_of[held:]]
        self._taken_traces = end_trace
        self._taken_events = end_event
        self._evidence.traces = self._first_trace + end_trace
        self._evidence.events = self._first_event + end_event
        case_table = pl.DataFrame({**cases, PLACE: places})
        event_table = pl.DataFrame({**events, ROW: rows, PLACE: case_of[:held] + self._first_trace})
        self.irregular.without_id += self._missing(case_table, CASE_ID)
        self.irregular.without_activity += self._missing(event_table, ACTIVITY)
        self.irregular.without_time += self._missing(event_table, TIMESTAMP)
        attribute = self._evidence.attributes.get(CASE_ID)
        is_there = attribute and attribute.number in case_table.columns
        case_id = attribute.number if attribute and is_there else None
        yield RawChunk(event_table, case_id, case_table)

    def _missing(self, table: pl.DataFrame, name: str) -> int:
        attribute = self._evidence.attributes.get(name)
        if attribute is None or attribute.number not in table.columns:
            return table.height
        return values_of(table, attribute.number).null_count()

    def _table(self, scope: str, start: int, end: int) -> dict[str, pl.Series]:
        """Columns of cases or events from ``start`` to ``end`` in the file, by their numbers."""
        table: dict[str, pl.Series] = {}
        # From how many rows on that a value has to itself it lies alone. A small table has no
        # sparse columns, which are slower to read.
        cells = max(end, self._evidence.events) * len(self._evidence.attributes)
        sparse = inf if cells < _SMALL else 256 if cells < _LARGE else SPARSE
        for name, waiting in self._waiting.items():
            if name.startswith(CASE_PREFIX) != bool(scope) or not waiting:
                continue
            held = self._joined(waiting)
            count = int(np.searchsorted(held.rows, end))
            self._waiting[name] = [held.between(count, None)] if count < len(held.rows) else []
            if not count:
                continue
            held = held.between(0, count)
            if scope and name not in self._evidence.conflicts:
                self._note_conflict(name, held)
            rows = held.rows - start
            # Of several values for one row the last one counts.
            is_last = np.append(np.diff(rows) != 0, True)
            self.irregular.repeated += int((~is_last).sum())
            number = self._evidence.of(name).number
            for values, key in ((held.values, number), (held.texts, number + TEXT)):
                if values is not None:
                    table[key] = spread(values, rows, is_last, end - start, sparse)
        return table

    def _joined(self, runs: Sequence[_Held]) -> _Held:
        """The runs of an attribute as one. Values of several kinds come in a run each: where one
        row has some of two, their order is known only to a reader that was told their kind.
        """
        if len(runs) == 1:
            return runs[0]
        rows = np.concatenate([run.rows for run in runs])
        values = [run.values for run in runs]
        texts: list[pl.Series] | None = None
        are_mixed = len({run.values.dtype for run in runs}) > 1
        if are_mixed:
            values = [run.spelt for run in runs]
        elif any(run.texts is not None for run in runs):
            texts = [run.spelt for run in runs]
        lines: list[int] | None = []
        for run in runs:
            lines = None if lines is None or run.lines is None else [*lines, *run.lines]
        joined = _Held(
            rows,
            pl.concat(values, rechunk=True),
            None if texts is None else pl.concat(texts, rechunk=True),
            lines,
        )
        # Even one row can have a value of this kind, then of another, then of this one again.
        steps = np.diff(rows)
        if (steps > 0).all() or (not are_mixed and (steps >= 0).all()):
            return joined
        order = np.argsort(rows, kind="stable")
        run_of = owners_of(np.array([len(run.rows) for run in runs]))
        # Two runs have a value for one row, and nobody knows which is the last.
        again = (np.diff(rows[order]) == 0) & (np.diff(run_of[order]) != 0)
        self._evidence.is_unordered |= bool(again.any())
        return _Held(
            rows[order],
            joined.values.gather(order),
            None if joined.texts is None else joined.texts.gather(order),
            None if lines is None else np.asarray(lines, np.int64)[order].tolist(),
        )

    def _note_conflict(self, name: str, held: _Held) -> None:
        """Note where a trace first states another value than before. ``Conflicting`` where the
        reader does not know its lines.
        """
        if (np.diff(held.rows) > 0).all():
            return
        stated = pl.DataFrame({"row": held.rows, "value": held.spelt}).with_row_index("place")
        differs = stated.filter(pl.col("value") != pl.col("value").first().over("row"))
        if not differs.height:
            return
        if held.lines is None:
            raise Conflicting
        line = f"line {held.lines[differs['place'][0]]}"
        self._evidence.conflicts[name] = place_in_file(self._file, line)


class IdCollector(Collector):
    """Gathers nothing but the ids of traces, with their lines."""

    def __init__(self, request: ReadRequest) -> None:
        super().__init__(Evidence(), {}, request)
        self._keeps = lambda _: False

    def add_run(self, run: ValueRun) -> None:
        """Take in the ids."""
        if run.name == CASE_ID:
            super().add_run(run)

    def last_ids(self) -> tuple[pl.Series, Ints]:
        """The last id that each trace states, and its line."""
        runs = self._waiting.get(CASE_ID)
        if not runs:
            return pl.Series(dtype=pl.String), np.zeros(0, np.int64)
        held = self._joined(runs)
        is_last = np.append(np.diff(held.rows) != 0, True)
        return held.values.filter(is_last), np.asarray(held.lines, np.int64)[is_last]


def place_in_file(file: str, place: str) -> str:
    """A place, with its file's name where there are several."""
    return f"{file} {place}" if file else place


def spread(
    values: pl.Series,
    rows: Ints,
    chosen: Bools,
    height: int,
    sparse: float,
) -> pl.Series:
    """Those ``chosen`` of ``values`` at their ``rows`` (ascending) of a column, null elsewhere.

    A value that has ``sparse`` rows to itself is cheaper alone: a column of such values is a chain
    of pieces, and its stretches of nulls are slices of one piece, which take no memory of their
    own. So a file with many attributes, few values each, takes memory by its values, not by
    attributes times rows.
    """
    if len(rows) == height and chosen.all():
        return values
    values = values.filter(chosen)
    rows = rows[chosen]
    if len(rows) * sparse < height:
        return chain_of(values, rows, height)
    # For each row the position of its value; rows without one take the last, a null.
    source = np.full(height, len(values), np.int64)
    source[rows] = np.arange(len(rows))
    missing = pl.Series([None], dtype=values.dtype)
    return pl.concat([values, missing], rechunk=True).gather(source)


def chain_of(values: pl.Series, rows: Ints, height: int) -> pl.Series:
    """``values`` at ``rows`` (ascending, none twice) as a chain of pieces: each value, and the
    nulls between two of them.
    """
    no_values = nulls(height, values.dtype)
    # How many rows without a value come before the first, between two, and after the last.
    empty_rows = np.diff(rows, prepend=-1, append=height) - 1
    pieces = [no_values.slice(0, int(empty_rows[0]))]
    for row, count in enumerate(empty_rows[1:].tolist()):
        pieces += [values.slice(row, 1), no_values.slice(0, count)]
    return pl.concat(pieces, rechunk=False)


def in_order(values: pl.Series, order: Ints) -> pl.Series:
    """The rows of a column in another order; a chain stays one."""
    held = values.is_not_null().arg_true().to_numpy().astype(np.int64)
    if values.n_chunks() == 1 or len(held) * SPARSE >= len(values):
        return values.gather(order)
    # The inverse of the order: which row each row goes to.
    place = np.argsort(order)[held]
    sequence = np.argsort(place)
    return chain_of(values.drop_nulls().gather(sequence), place[sequence], len(values))

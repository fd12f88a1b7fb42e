"""The event log as columns: one table of events, one of cases, and the offsets that tie them
together; and a log that need not fit into memory, as batches of whole cases.

A flat table, one row an event, is taken apart into what its events and what its cases say; and it
is kept how a source spelt its values, where the columns no longer say.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Ints, offsets_of, owners_of, place_in_run, ranges_of
from cloakwork.base.errors import LogError
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import (
    ACTIVITY,
    CASE_ID,
    CASE_PREFIX,
    TIME_TYPE,
    TIMESTAMP,
    named,
    values_of,
)
from cloakwork.log.times import parse_times


@frozen
class SourceSpelling:
    """What a log's source said that the columns of the log no longer say, by full attribute name.

    - ``exact``: attributes whose values, cast to text, are the characters of the source.
    - ``texts``: the characters of others: String, one a row of the attribute's table.
    - ``rows``: case attributes that differ between the rows of one case (to be missing differs):
      the characters, one a row of the events.
    - ``conflicts``: case attributes of which one case names two values, and where one first does.
    - ``repeated``: where a second trace first states the case id of an earlier one; empty where
      none does.
    """

    exact: frozenset[str] = frozenset()
    texts: Mapping[str, pl.Series] = field(default_factory=dict)
    rows: Mapping[str, pl.Series] = field(default_factory=dict)
    conflicts: Mapping[str, str] = field(default_factory=dict)
    repeated: str = ""

    def for_rows(
        self, *, events: Ints | None = None, cases: Ints | None = None
    ) -> "SourceSpelling":
        """The same for these rows of the two tables (int64; None: all, as they are)."""

        def moved(name: str, values: pl.Series) -> pl.Series:
            chosen = cases if name.startswith(CASE_PREFIX) else events
            return values if chosen is None else values.gather(chosen)

        texts = {name: moved(name, values) for name, values in self.texts.items()}
        if events is None:
            return replace(self, texts=texts)
        rows = {name: values.gather(events) for name, values in self.rows.items()}
        return replace(self, texts=texts, rows=rows)


NO_SPELLING: Final = SourceSpelling()
"""Of a source that said nothing beside the columns."""


def keeps_spelling(values: pl.Series) -> bool:
    """Whether the type of ``values`` spells each of them by itself, whatever the others are."""
    kinds = (pl.String, pl.Null, pl.Categorical, pl.Enum)
    return values.dtype in kinds or values.dtype.is_integer()


def not_text(
    path: str | Path,
    attribute: str,
    kind: pl.DataType,
) -> LogError:
    """The refusal of an attribute that distinguishes cases, units or activities, by values that are
    not text.
    """
    return LogError(
        path,
        f"'{attribute}' holds {kind}, whose spelling one more value can change",
        hint="give it as text (in Python: cast to strings; for files: read_log(path, text=[...]))",
    )


@frozen
class FlatTable:
    """A table under standard names whose rows all have a case id (String), with times in UTC.

    ``row_numbers``: int64, where each row stood in the source, from 0. ``texts``: one text a row,
    as in ``SourceSpelling``. ``rows_left_out``: how many rows had no case id.
    """

    frame: pl.DataFrame
    row_numbers: Ints
    texts: Mapping[str, pl.Series]
    rows_left_out: int

    @classmethod
    def read(cls, frame: pl.DataFrame) -> "FlatTable":
        """Raises LogError for case ids that are neither text nor whole numbers, and for times that
        are none.
        """
        if not keeps_spelling(frame[CASE_ID]):
            raise not_text("table", CASE_ID, frame.schema[CASE_ID])
        frame = frame.with_columns(pl.col(CASE_ID).cast(pl.String))
        held = np.flatnonzero(frame[CASE_ID].is_not_null())
        rows_left_out = frame.height - len(held)
        if rows_left_out:
            frame = frame[held]
        if TIMESTAMP in frame.columns:
            frame = frame.with_columns(_as_utc(frame[TIMESTAMP]))
        return cls(frame, held, {}, rows_left_out)

    @property
    def case_attributes(self) -> list[str]:
        """The columns that say something of cases, without the case id."""
        columns = self.frame.columns
        return [name for name in columns if name.startswith(CASE_PREFIX) and name != CASE_ID]

    def event_columns(self) -> pl.DataFrame:
        """The columns that say something of events."""
        return self.frame.drop(named(CASE_ID, *self.case_attributes))

    def cases(self) -> pl.DataFrame:
        """One row a case, in the order of its first row: the first value of each attribute."""
        table = self.frame.select(named(CASE_ID, *self.case_attributes))
        first_values = named(*self.case_attributes).as_expr().drop_nulls().first()
        return table.group_by(CASE_ID, maintain_order=True).agg(first_values)

    def row_of_case(self, cases: pl.DataFrame) -> Ints:
        """For each row, the row of ``cases`` that it belongs to: int64, shape (rows,)."""
        numbered = cases.select(CASE_ID).with_row_index("row")
        joined = self.frame.select(CASE_ID).join(
            numbered,
            on=CASE_ID,
            how="left",
            maintain_order="left",
        )
        return joined["row"].to_numpy().astype(np.int64)

    def spelling(
        self,
        case_of: Ints,
        exact: frozenset[str],
        differing: frozenset[str] = frozenset(),
    ) -> SourceSpelling:
        """What the columns of the cases no longer say. ``case_of``: as from ``row_of_case``;
        ``differing``: attributes known to differ within cases, if not within these.
        """
        of_cases = self.case_attributes
        texts = {name: text for name, text in self.texts.items() if name not in of_cases}
        rows: dict[str, pl.Series] = {}
        conflicts: dict[str, str] = {}
        for name in of_cases:
            values = self.texts[name] if name in self.texts else values_of(self.frame, name)
            if values.dtype.is_nested():
                continue
            first = first_of_each_case(values, case_of)
            if name in self.texts:
                texts[name] = first
            # A missing value differs from any other.
            differs = values.ne_missing(first.gather(case_of))
            if not differs.any() and name not in differing:
                continue
            rows[name] = values.cast(pl.String)
            # A missing one beside a value is no conflict; two values are.
            second_values = np.flatnonzero(differs & values.is_not_null())
            if len(second_values):
                conflicts[name] = row_place(int(self.row_numbers[second_values[0]]))
        return SourceSpelling(exact, texts, rows, conflicts)


def row_place(row: int) -> str:
    """What a row of a table (from 0) is called."""
    return f"row {row + 1}"


def first_of_each_case(values: pl.Series, case_of: Ints) -> pl.Series:
    """The first value of each case that is not missing; cases are numbered from 0 and have a row
    each, in any order.
    """
    table = pl.DataFrame({"case": case_of, "value": values})
    first = table.group_by("case").agg(pl.col("value").drop_nulls().first())
    return first.sort("case")["value"].alias("")


def _as_utc(times: pl.Series) -> pl.Series:
    if times.dtype == pl.String:
        # As in files: of 03/04/2025 nobody says which is the day.
        read = parse_times(times).values
        if read.null_count() > times.null_count():
            raise LogError(
                "table",
                f"'{TIMESTAMP}' holds texts that are no times",
                hint="write 2024-05-31T13:45:00+02:00, or give a column of times",
            )
        times = read
    elif isinstance(times.dtype, pl.Datetime) and times.dtype.time_zone is None:
        times = times.dt.replace_time_zone("UTC")
    return times.cast(TIME_TYPE)


if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

_BYTES_MERGED: Final = 8_000_000
"""How large summaries are that are merged at a time, at least."""


Change = Callable[["EventLog"], "EventLog"]
"""What makes other cases of those of a log, or of a batch of it."""


class LogHandle(Protocol):
    """A log in batches of whole cases; an ``EventLog`` is one with a single batch.

    Cases keep their order inside a batch, and batches theirs. All batches have the same columns of
    the same types.
    """

    @property
    def case_count(self) -> int:
        """How many cases there are."""
        ...

    @property
    def event_count(self) -> int:
        """How many events there are."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader did about irregularities, in plain words; internal, never released."""
        ...

    def batches(self) -> "Iterator[EventLog]":
        """The batches, one after the other."""
        ...

    def results(self, task: "Callable[[int, EventLog], T]") -> Iterator[T]:
        """What ``task`` returns of each batch and its number, in the order of batches, one after
        the other.

        It may run in other processes, and more than once for a batch: it changes nothing, and what
        it returns can be pickled.
        """
        ...

    def with_columns_of(self, change: "Change") -> "LogHandle":
        """The same cases and events with other columns: ``change`` of each batch, as often as it is
        read.
        """
        ...


class Aggregate(Protocol):
    """A summary of a log that can be taken batch by batch; batches hold whole cases.

    The columns of all batches have the same types; one that a batch lacks is missing in all its
    rows. Picklable, so that other processes can take it, with the same keys.
    """

    def of(self, batch: "EventLog") -> pl.DataFrame:
        """Summarise one batch."""
        ...

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Combine the rows of several batches' summaries into one summary, in an order that does
        not depend on theirs: sorted. Summaries that were merged can be merged again.
        """
        ...


def merged(aggregate: Aggregate, tables: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """The summary of batches of which these are the tables: a few are merged at a time, so that
    never all of them are in memory.
    """
    # Merging costs as much as what is merged, so it waits until there is enough.
    waiting: list[pl.DataFrame] = []
    size = 0.0
    least = float(_BYTES_MERGED)
    for table in tables:
        waiting.append(table)
        size += table.estimated_size()
        if size > least:
            waiting = [_merge(aggregate, waiting)]
            size = waiting[0].estimated_size()
            # What is merged again and again costs no more than twice what there is.
            least = max(_BYTES_MERGED, 2 * size)
    return _merge(aggregate, waiting)


def _merge(aggregate: Aggregate, tables: list[pl.DataFrame]) -> pl.DataFrame:
    # A column that a batch lacks has the type of nothing there.
    return aggregate.merge(pl.concat(tables, how="vertical_relaxed"))


@dataclass(frozen=True, slots=True)
class EventLog:
    """A finite multiset of cases, each a sequence of events.

    - ``events``: one row an event; columns as the log names them (``concept:name``,
      ``time:timestamp``, ...). Rows are grouped by case and, inside a case, ordered by time; ties
      keep file order, which is part of the control flow.
    - ``cases``: one row a case; columns carry the prefix ``case:``, the first is
      ``case:concept:name`` (String).
    - ``offsets``: int64, shape (cases + 1,); the events of case ``i`` are rows
      ``offsets[i]:offsets[i + 1]``.
    - ``notes``: what the reader did about irregularities, in plain words; internal, never released.
    - ``inserted``: bool, shape (events,); the events that a step inserted, so that no case of the
      source has them. None: no step inserted any. Known between the steps of a run and to its
      checks alone; no file holds it.
    - ``source``: what the source said that the columns no longer say; for ``text_of``.
    - ``case_index``: int64, shape (cases,); where each case of a batch stands in the whole log.
      None: this is no batch, and a case stands where its row is.
    - ``sample``: of a random sample of the cases of a larger log, how many of how many, in words.
    """

    events: pl.DataFrame
    cases: pl.DataFrame
    offsets: Ints
    notes: tuple[str, ...] = ()
    inserted: Bools | None = None
    source: SourceSpelling = NO_SPELLING
    case_index: Ints | None = None
    sample: str = ""

    def __post_init__(self) -> None:
        if self.inserted is not None and len(self.inserted) != self.events.height:
            raise ValueError("the marks of inserted events are not one for each event")
        if self.case_index is not None and len(self.case_index) != self.cases.height:
            raise ValueError("the indexes of cases are not one for each case")

    @property
    def index_of_case(self) -> Ints:
        """For each case, where it stands in the whole log: int64, shape (cases,)."""
        return np.arange(self.cases.height) if self.case_index is None else self.case_index

    @property
    def case_count(self) -> int:
        """How many cases there are."""
        return self.cases.height

    @property
    def event_count(self) -> int:
        """How many events there are."""
        return self.events.height

    def batches(self) -> "Iterator[EventLog]":
        """The log itself, as a ``LogHandle`` with one batch."""
        yield self

    def results(self, task: "Callable[[int, EventLog], T]") -> Iterator[T]:
        """What ``task`` returns of the log."""
        yield task(0, self)

    def with_columns_of(self, change: "Change") -> "EventLog":
        """The same cases and events with other columns."""
        return change(self)

    @property
    def position_of_event(self) -> Ints:
        """For each event, its position in its case, from 0: int64, shape (events,)."""
        return place_in_run(self.case_of)

    @property
    def kept(self) -> Bools:
        """The events that are not inserted: bool, shape (events,)."""
        return np.ones(self.events.height, np.bool_) if self.inserted is None else ~self.inserted

    @classmethod
    def build(
        cls,
        events: pl.DataFrame,
        cases: pl.DataFrame,
        case_of: Ints,
        *,
        notes: tuple[str, ...] = (),
        source: SourceSpelling = NO_SPELLING,
    ) -> "EventLog":
        """Group ``events`` by case and order them by time, stably.

        ``case_of``: int64, shape (events,); the row of ``cases`` that each event belongs to. An
        event without a time keeps its place behind the event before it in the file.
        """
        order = time_order(case_of, events.get_column(TIMESTAMP, default=None))
        if order is not None:
            events = events[order]
            case_of = case_of[order]
            source = source.for_rows(events=order)
        counts = np.bincount(case_of, minlength=cases.height)
        offsets = offsets_of(counts)
        return cls(events, cases, offsets, notes, source=source)

    @classmethod
    def empty(cls) -> "EventLog":
        """A log of no cases, with the three standard columns."""
        events = pl.DataFrame(schema={ACTIVITY: pl.String, TIMESTAMP: TIME_TYPE})
        return cls(
            events,
            pl.DataFrame(schema={CASE_ID: pl.String}),
            np.zeros(1, np.int64),
        )

    @property
    def case_of(self) -> Ints:
        """For each event, the row of its case: int64, shape (events,)."""
        return owners_of(np.diff(self.offsets))

    @property
    def columns(self) -> tuple[str, ...]:
        """All attribute names, those of cases (prefixed) first."""
        return (*self.cases.columns, *self.events.columns)

    def keep_cases(self, chosen: Ints) -> "EventLog":
        """The cases at rows ``chosen`` (int64, any order, no row twice needed), in that order, with
        their events.
        """
        lengths = np.diff(self.offsets)[chosen]
        offsets = offsets_of(lengths)
        rows = ranges_of(self.offsets[chosen], lengths)
        return replace(
            self,
            events=self.events[rows],
            cases=self.cases[chosen],
            offsets=offsets,
            inserted=None if self.inserted is None else self.inserted[rows],
            source=self.source.for_rows(events=rows, cases=chosen),
            case_index=None if self.case_index is None else self.case_index[chosen],
        )

    def slice_cases(self, begin: int, end: int) -> "EventLog":
        """The cases at rows ``begin`` to ``end`` (excluded): as ``keep_cases``, without a copy."""
        first = int(self.offsets[begin])
        after = int(self.offsets[end])
        return replace(
            self,
            events=self.events[first:after],
            cases=self.cases[begin:end],
            offsets=self.offsets[begin : end + 1] - first,
            inserted=None if self.inserted is None else self.inserted[first:after],
            source=self.source.for_rows(
                events=np.arange(first, after), cases=np.arange(begin, end)
            ),
            case_index=None if self.case_index is None else self.case_index[begin:end],
        )

    @property
    def activities(self) -> pl.Series:
        """The activity of each event: String."""
        return self.events[ACTIVITY].cast(pl.String)

    @property
    def microseconds(self) -> pl.Series:
        """The time of each event since 1970: Int64."""
        return self.events[TIMESTAMP].cast(TIME_TYPE).to_physical()

    def table_of(self, attribute: str) -> pl.DataFrame:
        """The table that an attribute of this name stands in."""
        return self.cases if attribute.startswith(CASE_PREFIX) else self.events

    def keep_events(self, kept: Bools) -> "EventLog":
        """The events where ``kept`` (bool, shape (events,)); cases stay, even without events."""
        # How many kept events stand before each row, and before the end.
        before = offsets_of(kept)
        return replace(
            self,
            events=self.events.filter(pl.Series(kept)),
            offsets=before[self.offsets],
            inserted=None if self.inserted is None else self.inserted[kept],
            source=self.source.for_rows(events=np.flatnonzero(kept)),
        )

    def text_of(self, attribute: str) -> pl.Series | None:
        """The values of an attribute of the log as the characters that its source holds: String.

        None where they are not known: a type other than text or whole numbers was given without
        them, and one value more could have changed how that type spells the others.
        """
        if attribute in self.source.texts:
            return self.source.texts[attribute]
        values = values_of(self.table_of(attribute), attribute)
        if keeps_spelling(values) or attribute in self.source.exact:
            return values.cast(pl.String)
        return None

    @classmethod
    def from_polars(
        cls,
        frame: pl.DataFrame,
        *,
        case_id: str = CASE_ID,
        activity: str = ACTIVITY,
        timestamp: str = TIMESTAMP,
    ) -> "EventLog":
        """Read a flat table, one row an event; columns that start with ``case:`` become case
        attributes.

        A case attribute takes its value from the first event of the case that has one; where rows
        of a case differ, the log remembers it (``source``). Ints without a case id are left out and
        noted. Raises ``LogError`` for case ids that are neither text nor whole numbers: one more
        value can change how a type spells the others.
        """
        _require_columns(frame, case_id=case_id, activity=activity)
        standard_names = {case_id: CASE_ID, activity: ACTIVITY}
        if timestamp in frame.columns:
            standard_names[timestamp] = TIMESTAMP
        frame = frame.rename(standard_names)
        table = FlatTable.read(frame)
        cases = table.cases()
        case_of = table.row_of_case(cases)
        source = table.spelling(case_of, frozenset())
        notes = notes_on_cases(table.rows_left_out, source.conflicts)
        notes += read_alike(cases, CASE_ID)
        times = frame.get_column(TIMESTAMP, default=None)
        # A type of times says whether they have a zone; texts were read with theirs.
        is_zoneless = times is not None and times.dtype == pl.Datetime and not times.dtype.time_zone
        if times is not None and is_zoneless and times.count():
            notes.append(f"timestamps without a zone (taken as UTC): {times.count()}")
        return cls.build(table.event_columns(), cases, case_of, notes=tuple(notes), source=source)

    def split_by(self, attribute: str) -> "EventLog":
        """Every case as one case for each value of a case attribute that its rows name; rows
        without one are their own.

        Each of the new cases has what its own rows say of the case, so that one value's rows never
        reach another's case.
        """
        if attribute not in self.source.rows:
            return self
        differing = self.source.rows
        keys = pl.DataFrame({"case": self.case_of, "value": differing[attribute]})
        # A new case for each value in each case, in the order of their first rows.
        new_cases = keys.unique(maintain_order=True).with_row_index("new_case")
        joined = keys.join(
            new_cases,
            on=["case", "value"],
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        new_case_of = joined["new_case"].to_numpy().astype(np.int64)
        origin = new_cases["case"].to_numpy()
        own_values = [
            first_of_each_case(values, new_case_of).alias(name)
            for name, values in differing.items()
        ]
        cases = self.cases[origin].with_columns(own_values)
        texts = self.source.for_rows(cases=origin).texts
        texts_alike = {name: text for name, text in texts.items() if name not in differing}
        source = SourceSpelling(self.source.exact, texts_alike)
        made = EventLog.build(
            self.events,
            cases,
            new_case_of,
            notes=self.notes,
            source=source,
        )
        # Cases of one case have its index, and stand in their order.
        return (
            made if self.case_index is None else replace(made, case_index=self.case_index[origin])
        )

    def to_polars(self) -> pl.DataFrame:
        """One flat table, one row an event, case attributes repeated: the inverse of
        ``from_polars``.
        """
        return pl.concat([self.cases[self.case_of], self.events], how="horizontal")

    @classmethod
    def from_pandas(cls, frame: "pd.DataFrame", **columns: str) -> "EventLog":
        """Read a pandas table with pm4py's column names, or a log of pm4py; ``columns`` as in
        ``from_polars``.

        Columns that pm4py adds for itself (``@@index``) are left out. Raises MissingExtra without
        pandas and pyarrow, LogError for what is no table or lacks a column.
        """
        from cloakwork.log.pandas_tables import polars_of

        return cls.from_polars(polars_of(frame), **columns)

    def to_pandas(self) -> "pd.DataFrame":
        """A pandas table as pm4py reads it: ``case:concept:name``, ``concept:name``,
        ``time:timestamp``, ...; whole numbers and truth values of which some are missing have
        pandas' nullable types.
        """
        from cloakwork.log.pandas_tables import pandas_of

        return pandas_of(self.to_polars())


def _require_columns(frame: object, **named: str) -> None:
    """Raise LogError where ``frame`` is no table, or lacks a column that a log must have."""
    if not isinstance(frame, pl.DataFrame):
        raise LogError("table", f"must be a polars table (got {type(frame).__name__})")
    for parameter, column in named.items():
        if column not in frame.columns:
            raise LogError(
                "table",
                f"has no column '{column}'",
                hint=f"rename the one that holds it, or say columns={{'{column}': '...'}} "
                f"(of from_pandas and from_polars {parameter}='...')",
            )


def notes_on_cases(rows_left_out: int, conflicts: Mapping[str, str]) -> list[str]:
    """What is said of rows without a case, and of cases whose rows say different things."""
    notes = [
        f"cases name several values of '{name}', of which the first counts (first in {place})"
        for name, place in conflicts.items()
    ]
    if rows_left_out:
        notes.insert(0, f"{rows_left_out:,} events {WITHOUT_CASE}")
    return notes


def read_alike(table: pl.DataFrame, name: str) -> list[str]:
    """What is said of texts in a column that are different ones and read alike, so that one case or
    person counts as several; internal.
    """
    texts = values_of(table, name).drop_nulls().unique() if name in table.columns else pl.Series()
    if texts.dtype != pl.String:
        return []
    seen = texts.str.normalize("NFC").str.replace_all(r"\p{C}", "").str.strip_chars()
    alike = len(texts) - seen.n_unique()
    why = "differ from others only in Unicode form, invisible characters or blanks, and so count"
    return [f"{alike:,} values of '{name}' {why} as cases or persons of their own"] if alike else []


WITHOUT_CASE: Final = "without a case were left out"


def rows_left_out(log: LogHandle) -> list[str]:
    """What of the file is not in the log, for want of a case; internal."""
    used = f"; used: {log.event_count:,}"
    return [note + used for note in log.notes if note.endswith(WITHOUT_CASE)]


def time_order(case_of: Ints, times: pl.Series | None) -> Ints | None:
    """The stable order of events by case and, inside a case, by time: int64, shape (events,); None
    where they are in order. ``case_of`` as of ``EventLog.build``; ``times``: None for no times.
    """
    if len(case_of) == 0:
        return None
    # Most logs come grouped by case, which saves a sort.
    is_grouped = not (np.diff(case_of) < 0).any()
    by_case = np.arange(len(case_of)) if is_grouped else np.argsort(case_of, kind="stable")
    if times is None:
        return None if is_grouped else by_case
    cases = case_of[by_case]
    # Filled, so that an event without a time stays behind the one before it.
    filled = _filled_times(times.cast(TIME_TYPE).to_physical()[by_case], cases)
    same_case = np.diff(cases) == 0
    goes_back = filled[1:] < filled[:-1]
    if not (same_case & goes_back).any():
        return None if is_grouped else by_case
    # lexsort is stable, and sorts by its last key first.
    return np.asarray(by_case[np.lexsort((filled, cases))], np.int64)


def _filled_times(times: pl.Series, cases: Ints) -> Ints:
    """Times in microseconds: where one is missing, that of the event before it in its case, else
    the least number.
    """
    if times.null_count():
        grouped = pl.DataFrame({"case": cases, "time": times})
        times = grouped.select(pl.col("time").forward_fill().over("case")).to_series()
    return times.fill_null(np.iinfo(np.int64).min).to_numpy()


def places_among(labels: pl.Series, alphabet: pl.Series | tuple[str, ...]) -> Ints:
    """The place of each label (none missing) in ``alphabet``, which has it: int64."""
    return labels.cast(pl.Enum(alphabet)).to_physical().to_numpy().astype(np.int64)


def with_attribute(log: EventLog, name: str, values: pl.Series) -> EventLog:
    """``log`` with these values under this name, in the table that such an attribute stands in."""
    table = log.table_of(name).with_columns(values.alias(name))
    if name.startswith(CASE_PREFIX):
        return replace(log, cases=table)
    return replace(log, events=table)


def joined_batches(batches: Sequence[EventLog]) -> EventLog:
    """The batches end to end. What their source said is gone: the steps of a run do not ask."""
    heights = [batch.events.height for batch in batches]
    first_rows = np.cumsum([0, *heights])
    # The last offset of a batch is the first of the next one; that of the last batch stays.
    offsets = [
        batch.offsets[:-1] + first_row
        for batch, first_row in zip(batches, first_rows[:-1], strict=True)
    ]
    inserted = None
    if any(batch.inserted is not None for batch in batches):
        inserted = np.concatenate([~batch.kept for batch in batches])
    return EventLog(
        events=pl.concat([batch.events for batch in batches]),
        cases=pl.concat([batch.cases for batch in batches]),
        offsets=np.concatenate([*offsets, first_rows[-1:]]).astype(np.int64),
        notes=batches[0].notes,
        inserted=inserted,
        case_index=np.concatenate([batch.index_of_case for batch in batches]),
    )


__all__ = [
    "ACTIVITY",
    "CASE_ID",
    "CASE_PREFIX",
    "TIMESTAMP",
    "TIME_TYPE",
    "EventLog",
    "joined_batches",
    "time_order",
]


def as_lists(values: pl.Series, offsets: Ints) -> pl.Series:
    """``values`` in lists: list i holds ``values[offsets[i]:offsets[i + 1]]``, and may be empty."""
    lengths = np.diff(offsets)
    all_rows = np.arange(len(lengths))
    members = pl.DataFrame({"row": np.repeat(all_rows, lengths), "values": values})
    lists = members.group_by("row", maintain_order=True).agg("values")
    # Empty lists have no members, so the join brings them back, as nulls at first.
    every = pl.DataFrame({"row": all_rows})
    joined = every.join(
        lists,
        on="row",
        how="left",
        maintain_order="left",
    )["values"]
    return joined.fill_null(pl.Series([[]], dtype=joined.dtype))

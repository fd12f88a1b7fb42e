"""The event log as columns: one table of events, one of cases, and the offsets that tie them
together.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.errors import LogError, MissingExtra
from cloakwork.log.naming import named, values_of

if TYPE_CHECKING:
    import pandas as pd

CASE_ID: Final = "case:concept:name"
ACTIVITY: Final = "concept:name"
TIMESTAMP: Final = "time:timestamp"
CASE_PREFIX: Final = "case:"
TIME_TYPE: Final = pl.Datetime("us", "UTC")


Rows = NDArray[np.int64]
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
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

    def combined_with(self, other: "SourceSpelling") -> "SourceSpelling":
        """What two sources say of different attributes."""
        return SourceSpelling(
            self.exact | other.exact,
            {**self.texts, **other.texts},
            {**self.rows, **other.rows},
            {**self.conflicts, **other.conflicts},
            self.repeated or other.repeated,
        )

    def for_rows(
        self, *, events: Rows | None = None, cases: Rows | None = None
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
    """

    events: pl.DataFrame
    cases: pl.DataFrame
    offsets: NDArray[np.int64]
    notes: tuple[str, ...] = ()
    inserted: NDArray[np.bool_] | None = None
    source: SourceSpelling = SourceSpelling()

    def __post_init__(self) -> None:
        if self.inserted is not None and len(self.inserted) != self.events.height:
            raise ValueError("the marks of inserted events are not one for each event")

    @property
    def kept(self) -> NDArray[np.bool_]:
        """The events that are not inserted: bool, shape (events,)."""
        return np.ones(self.events.height, np.bool_) if self.inserted is None else ~self.inserted

    @classmethod
    def build(
        cls,
        events: pl.DataFrame,
        cases: pl.DataFrame,
        case_of: NDArray[np.int64],
        *,
        notes: tuple[str, ...] = (),
        source: SourceSpelling = SourceSpelling(),
    ) -> "EventLog":
        """Group ``events`` by case and order them by time, stably.

        ``case_of``: int64, shape (events,); the row of ``cases`` that each event belongs to. An
        event without a time keeps its place behind the event before it in the file.
        """
        order = _order(case_of, events)
        if order is not None:
            events, case_of, source = events[order], case_of[order], source.for_rows(events=order)
        counts = np.bincount(case_of, minlength=cases.height)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(events, cases, offsets, notes, source=source)

    @classmethod
    def empty(cls) -> "EventLog":
        """A log of no cases, with the three standard columns."""
        events = pl.DataFrame(schema={ACTIVITY: pl.String, TIMESTAMP: TIME_TYPE})
        return cls(events, pl.DataFrame(schema={CASE_ID: pl.String}), np.zeros(1, np.int64))

    @property
    def case_of(self) -> NDArray[np.int64]:
        """For each event, the row of its case: int64, shape (events,)."""
        return np.repeat(np.arange(self.cases.height), np.diff(self.offsets))

    @property
    def columns(self) -> tuple[str, ...]:
        """All attribute names, those of cases (prefixed) first."""
        return (*self.cases.columns, *self.events.columns)

    def keep_cases(self, chosen: NDArray[np.int64]) -> "EventLog":
        """The cases at rows ``chosen`` (int64, any order, no row twice needed), in that order, with
        their events.
        """
        lengths = np.diff(self.offsets)[chosen]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], lengths)
        return replace(
            self,
            events=self.events[rows],
            cases=self.cases[chosen],
            offsets=offsets,
            inserted=None if self.inserted is None else self.inserted[rows],
            source=self.source.for_rows(events=rows, cases=chosen),
        )

    def keep_events(self, kept: NDArray[np.bool_]) -> "EventLog":
        """The events where ``kept`` (bool, shape (events,)); cases stay, even without events."""
        before = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
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
        values = values_of(
            self.cases if attribute.startswith(CASE_PREFIX) else self.events, attribute
        )
        return (
            values.cast(pl.String) if _is_text(values) or attribute in self.source.exact else None
        )

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
        of a case differ, the log remembers it (``source``). Rows without a case id are left out and
        noted. Raises ``LogError`` for case ids that are neither text nor whole numbers: one more
        value can change how a type spells the others.
        """
        _require_columns(frame, case_id=case_id, activity=activity)
        frame = frame.rename(
            {case_id: CASE_ID, activity: ACTIVITY}
            | ({timestamp: TIMESTAMP} if timestamp in frame.columns else {})
        )
        return of_table(frame)

    def split_by(self, attribute: str) -> "EventLog":
        """Every case as one case for each value of a case attribute that its rows name; rows
        without one are their own.

        Each of the new cases has what its own rows say of the case, so that one value's rows never
        reach another's case.
        """
        if attribute not in self.source.rows:
            return self
        keys = pl.DataFrame({"case": self.case_of, "value": self.source.rows[attribute]})
        new_cases = keys.unique(maintain_order=True).with_row_index("new_case")
        joined = keys.join(
            new_cases, on=["case", "value"], how="left", nulls_equal=True, maintain_order="left"
        )
        new_case_of = joined["new_case"].to_numpy().astype(np.int64)
        origin = new_cases["case"].to_numpy()
        own = [_first(each, new_case_of).alias(name) for name, each in self.source.rows.items()]
        texts = self.source.for_rows(cases=origin).texts
        source = SourceSpelling(
            self.source.exact,
            {name: text for name, text in texts.items() if name not in self.source.rows},
        )
        return EventLog.build(
            self.events,
            self.cases[origin].with_columns(own),
            new_case_of,
            notes=self.notes,
            source=source,
        )

    def to_polars(self) -> pl.DataFrame:
        """One flat table, one row an event, case attributes repeated: the inverse of
        ``from_polars``.
        """
        return pl.concat([self.cases[self.case_of], self.events], how="horizontal")

    @classmethod
    def from_pandas(cls, frame: "pd.DataFrame", **columns: str) -> "EventLog":
        """Read a pandas table with pm4py's column names; ``columns`` as in ``from_polars``.

        Raises MissingExtra without pandas and pyarrow, LogError for what is no table or lacks a
        column.
        """
        with _pandas_at_hand("from_pandas"):
            import pandas as pd

            if not isinstance(frame, pd.DataFrame):
                raise LogError("table", f"must be a pandas table (got {type(frame).__name__})")
            read = pl.from_pandas(frame)
        return cls.from_polars(read, **columns)

    def to_pandas(self) -> "pd.DataFrame":
        """A pandas table as pm4py reads it: ``case:concept:name``, ``concept:name``,
        ``time:timestamp``, ...
        """
        with _pandas_at_hand("to_pandas"):
            return self.to_polars().to_pandas()


def _require_columns(frame: object, **named: str) -> None:
    """Raise LogError where ``frame`` is no table, or lacks a column that a log must have."""
    if not isinstance(frame, pl.DataFrame):
        raise LogError("table", f"must be a polars table (got {type(frame).__name__})")
    for parameter, column in named.items():
        if column not in frame.columns:
            raise LogError(
                "table",
                f"has no column '{column}'",
                hint=f"say which one holds it: {parameter}='...'",
            )


@contextmanager
def _pandas_at_hand(verb: str) -> Iterator[None]:
    """Say which extra to install where pandas, or pyarrow behind it, is missing; other faults are
    the table's own.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{verb}: needs pandas and pyarrow; pip install 'cloakwork[pandas]'"
        ) from error
    # pyarrow's own errors are values or types.
    except (TypeError, ValueError, ArithmeticError) as error:
        first = str(error).partition("\n")[0]
        raise LogError(
            "table", f"cannot be read ({first})", hint="give each column values of one type"
        ) from error


def _is_text(values: pl.Series) -> bool:
    """Whether each value has its own spelling, whatever the others are."""
    kinds = (pl.String, pl.Null, pl.Categorical, pl.Enum)
    return values.dtype in kinds or values.dtype.is_integer()


def of_table(
    frame: pl.DataFrame, texts: Mapping[str, pl.Series] = _NONE, exact: frozenset[str] = frozenset()
) -> EventLog:
    """The log of a flat table under standard names; ``texts`` and ``exact`` as in
    ``SourceSpelling``, one text a row.
    """
    if not _is_text(frame[CASE_ID]):
        raise not_text("table", CASE_ID, frame.schema[CASE_ID])
    frame = frame.with_columns(pl.col(CASE_ID).cast(pl.String))
    notes: tuple[str, ...] = ()
    row = np.arange(frame.height)
    if missing := frame[CASE_ID].null_count():
        row = np.flatnonzero(frame[CASE_ID].is_not_null())
        frame, texts = frame[row], {name: text.gather(row) for name, text in texts.items()}
        notes = (f"{missing} events without a case were left out",)
    if TIMESTAMP in frame.columns:
        frame = frame.with_columns(_as_utc(frame[TIMESTAMP]))
    of_cases = [name for name in frame.columns if name.startswith(CASE_PREFIX) and name != CASE_ID]
    table = frame.select(named(CASE_ID, *of_cases))
    cases = table.group_by(CASE_ID, maintain_order=True).agg(
        named(*of_cases).as_expr().drop_nulls().first()
    )
    place = cases.select(CASE_ID).with_row_index("row")
    joined = frame.select(CASE_ID).join(place, on=CASE_ID, how="left", maintain_order="left")["row"]
    case_of = joined.to_numpy().astype(np.int64)
    source = _source(frame, of_cases, case_of, row, texts, exact)
    notes += tuple(
        f"cases name several values of '{name}', of which the first counts (first in {place})"
        for name, place in source.conflicts.items()
    )
    events = frame.drop(named(CASE_ID, *of_cases))
    return EventLog.build(events, cases, case_of, notes=notes, source=source)


def not_text(path: str | Path, attribute: str, kind: pl.DataType) -> LogError:
    """The refusal of an attribute that distinguishes cases, units or activities, by values that are
    not text.
    """
    return LogError(
        path,
        f"'{attribute}' holds {kind}, whose spelling one more value can change",
        hint="give it as text (in Python: cast to strings; for files: read_log(path, text=[...]))",
    )


def _source(
    frame: pl.DataFrame,
    of_cases: Sequence[str],
    case_of: Rows,
    row: Rows,
    texts: Mapping[str, pl.Series],
    exact: frozenset[str],
) -> SourceSpelling:
    """What the cases' columns no longer say. ``row``: each row's number in the table, from 0."""
    kept = {name: text for name, text in texts.items() if name not in of_cases}
    rows, conflicts = dict[str, pl.Series](), dict[str, str]()
    for name in of_cases:
        each = texts[name] if name in texts else values_of(frame, name)
        if each.dtype.is_nested():
            continue
        first = _first(each, case_of)
        if name in texts:
            kept[name] = first
        differs = each.ne_missing(first.gather(case_of))
        if differs.any():
            rows[name] = each.cast(pl.String)
            if len(named_twice := np.flatnonzero(differs & each.is_not_null())):
                conflicts[name] = f"row {row[named_twice[0]] + 1}"
    return SourceSpelling(exact, kept, rows, conflicts)


def _first(each: pl.Series, case_of: Rows) -> pl.Series:
    """The first value of each case that is not missing; cases are numbered from 0 and have a row
    each, in any order.
    """
    table = pl.DataFrame({"case": case_of, "value": each})
    return (
        table.group_by("case")
        .agg(pl.col("value").drop_nulls().first())
        .sort("case")["value"]
        .alias("")
    )


def _as_utc(times: pl.Series) -> pl.Series:
    if times.dtype == pl.String:
        try:
            times = times.str.to_datetime(time_zone="UTC", time_unit="us")
        except pl.exceptions.PolarsError:
            raise LogError(
                "table",
                f"'{TIMESTAMP}' holds texts that are no times",
                hint="write 2024-05-31T13:45:00+02:00",
            ) from None
    elif isinstance(times.dtype, pl.Datetime) and times.dtype.time_zone is None:
        times = times.dt.replace_time_zone("UTC")
    return times.cast(TIME_TYPE)


def _order(case_of: NDArray[np.int64], events: pl.DataFrame) -> NDArray[np.int64] | None:
    """The stable permutation that sorts by case, then time; None when the rows already are in
    order.
    """
    if len(case_of) == 0:
        return None
    first: NDArray[Any] = (
        np.lexsort((case_of,)) if (np.diff(case_of) < 0).any() else np.arange(len(case_of))
    )
    grouped = case_of[first]
    if TIMESTAMP not in events.columns:
        return None if grouped is case_of else first
    times = events[TIMESTAMP].cast(TIME_TYPE).to_physical()[first]
    if times.null_count():
        times = (
            pl.DataFrame({"case": grouped, "time": times})
            .select(pl.col("time").forward_fill().over("case"))
            .to_series()
        )
    stamps = times.fill_null(np.iinfo(np.int64).min).to_numpy()
    same_case = np.diff(grouped) == 0
    if not (same_case & (stamps[1:] < stamps[:-1])).any():
        return None if (np.diff(case_of) >= 0).all() else first
    return np.asarray(first[np.lexsort((stamps, grouped))], np.int64)

"""The event log as columns: one table of events, one of cases, and the offsets that tie them together."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.errors import LogError, MissingExtra
from cloakwork.log.naming import named

if TYPE_CHECKING:
    import pandas as pd

CASE_ID: Final = "case:concept:name"
ACTIVITY: Final = "concept:name"
TIMESTAMP: Final = "time:timestamp"
CASE_PREFIX: Final = "case:"
TIME_TYPE: Final = pl.Datetime("us", "UTC")


@dataclass(frozen=True, slots=True)
class EventLog:
    """A finite multiset of cases, each a sequence of events.

    - ``events``: one row an event; columns as the log names them (``concept:name``, ``time:timestamp``, ...). Rows are
      grouped by case and, inside a case, ordered by time; ties keep file order, which is part of the control flow.
    - ``cases``: one row a case; columns carry the prefix ``case:``, the first is ``case:concept:name`` (String).
    - ``offsets``: int64, shape (cases + 1,); the events of case ``i`` are rows ``offsets[i]:offsets[i + 1]``.
    - ``notes``: what the reader did about irregularities, in plain words; internal, never released.
    """

    events: pl.DataFrame
    cases: pl.DataFrame
    offsets: NDArray[np.int64]
    notes: tuple[str, ...] = ()

    @classmethod
    def build(
        cls, events: pl.DataFrame, cases: pl.DataFrame, case_of: NDArray[np.int64], *, notes: tuple[str, ...] = ()
    ) -> "EventLog":
        """Group ``events`` by case and order them by time, stably.

        ``case_of``: int64, shape (events,); the row of ``cases`` that each event belongs to. An event without a time
        keeps its place behind the event before it in the file.
        """
        order = _order(case_of, events)
        if order is not None:
            events, case_of = events[order], case_of[order]
        counts = np.bincount(case_of, minlength=cases.height)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(events, cases, offsets, notes)

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
        """The cases at rows ``chosen`` (int64, any order, no row twice needed), in that order, with their events."""
        lengths = np.diff(self.offsets)[chosen]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], lengths)
        return replace(self, events=self.events[rows], cases=self.cases[chosen], offsets=offsets)

    def keep_events(self, kept: NDArray[np.bool_]) -> "EventLog":
        """The events where ``kept`` (bool, shape (events,)); cases stay, even without events."""
        before = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
        return replace(self, events=self.events.filter(pl.Series(kept)), offsets=before[self.offsets])

    @classmethod
    def from_polars(
        cls, frame: pl.DataFrame, *, case_id: str = CASE_ID, activity: str = ACTIVITY, timestamp: str = TIMESTAMP
    ) -> "EventLog":
        """Read a flat table, one row an event; columns that start with ``case:`` become case attributes.

        A case attribute takes its value from the first event of the case that has one. Rows without a case id are left
        out and noted.
        """
        _require_columns(frame, case_id=case_id, activity=activity)
        frame = frame.rename(
            {case_id: CASE_ID, activity: ACTIVITY} | ({timestamp: TIMESTAMP} if timestamp in frame.columns else {})
        )
        frame = frame.with_columns(pl.col(CASE_ID).cast(pl.String))
        notes: tuple[str, ...] = ()
        if missing := frame[CASE_ID].null_count():
            frame, notes = (
                frame.filter(pl.col(CASE_ID).is_not_null()),
                (f"{missing} events without a case were left out",),
            )
        if TIMESTAMP in frame.columns:
            frame = frame.with_columns(_as_utc(frame[TIMESTAMP]))
        case_columns = [name for name in frame.columns if name.startswith(CASE_PREFIX) and name != CASE_ID]
        cases = frame.group_by(CASE_ID, maintain_order=True).agg(named(*case_columns).as_expr().drop_nulls().first())
        row = cases.select(CASE_ID).with_row_index("row")
        case_of = frame.select(CASE_ID).join(row, on=CASE_ID, how="left", maintain_order="left")["row"]
        return cls.build(
            frame.drop(named(CASE_ID, *case_columns)), cases, case_of.to_numpy().astype(np.int64), notes=notes
        )

    def to_polars(self) -> pl.DataFrame:
        """One flat table, one row an event, case attributes repeated: the inverse of ``from_polars``."""
        return pl.concat([self.cases[self.case_of], self.events], how="horizontal")

    @classmethod
    def from_pandas(cls, frame: "pd.DataFrame", **columns: str) -> "EventLog":
        """Read a pandas table with pm4py's column names; ``columns`` as in ``from_polars``.

        Raises MissingExtra without pandas and pyarrow, LogError for what is no table or lacks a column.
        """
        with _pandas_at_hand("from_pandas"):
            import pandas as pd

            if not isinstance(frame, pd.DataFrame):
                raise LogError("table", f"must be a pandas table (got {type(frame).__name__})")
            read = pl.from_pandas(frame)
        return cls.from_polars(read, **columns)

    def to_pandas(self) -> "pd.DataFrame":
        """A pandas table as pm4py reads it: ``case:concept:name``, ``concept:name``, ``time:timestamp``, ..."""
        with _pandas_at_hand("to_pandas"):
            return self.to_polars().to_pandas()


def _require_columns(frame: object, **named: str) -> None:
    """Raise LogError where ``frame`` is no table, or lacks one of the columns that a log must have."""
    if not isinstance(frame, pl.DataFrame):
        raise LogError("table", f"must be a polars table (got {type(frame).__name__})")
    for parameter, column in named.items():
        if column not in frame.columns:
            raise LogError("table", f"has no column '{column}'", hint=f"say which one holds it: {parameter}='...'")


@contextmanager
def _pandas_at_hand(verb: str) -> Iterator[None]:
    """Say which extra to install where pandas, or pyarrow behind it, is missing; other faults are the table's own."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{verb}: needs pandas and pyarrow; pip install 'cloakwork[pandas]'") from error
    except (TypeError, ValueError, ArithmeticError) as error:  # pyarrow's own errors are values or types
        first = str(error).partition("\n")[0]
        raise LogError("table", f"cannot be read ({first})", hint="give each column values of one type") from error


def _as_utc(times: pl.Series) -> pl.Series:
    if times.dtype == pl.String:
        times = times.str.to_datetime(time_zone="UTC", time_unit="us")
    elif isinstance(times.dtype, pl.Datetime) and times.dtype.time_zone is None:
        times = times.dt.replace_time_zone("UTC")
    return times.cast(TIME_TYPE)


def _order(case_of: NDArray[np.int64], events: pl.DataFrame) -> NDArray[np.int64] | None:
    """The stable permutation that sorts by case, then time; None when the rows already are in order."""
    if len(case_of) == 0:
        return None
    first: NDArray[Any] = np.lexsort((case_of,)) if (np.diff(case_of) < 0).any() else np.arange(len(case_of))
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

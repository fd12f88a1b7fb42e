"""A flat table, one row an event, taken apart into what its events and what its cases say; and how
a source spelt its values, where the columns no longer say.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.errors import LogError
from cloakwork.base.naming import CASE_ID, CASE_PREFIX, TIME_TYPE, TIMESTAMP, named, values_of


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


@dataclass(frozen=True, slots=True)
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

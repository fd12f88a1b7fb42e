"""One row a case: what singling out, linkability and attribute inference look at."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.naming import values_of
from cloakwork.evaluation.coded import CodedLog


@dataclass(frozen=True)
class CaseTable:
    """Columns of numbers and of categories, for tables that were made together.

    - ``numbers``: float64, shape (cases, numeric columns), divided by how far the values of all
      tables lie apart; NaN where there is none. ``categories``: int64, shape (cases, others).
    - ``numeric``, ``categorical``: the names. ``attributes``: the names that are attributes of the
      log; the other columns are of its control flow and times.
    """

    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    numbers: Floats
    categories: Ints
    attributes: frozenset[str]

    @property
    def names(self) -> tuple[str, ...]:
        """All columns."""
        return (*self.numeric, *self.categorical)

    def distances(self, table: "CaseTable", row: int) -> dict[str, Floats]:
        """How far each case is from a row of another table, by each column, from 0 to 1: Gower's
        distance is their sum. Each of shape (cases,).
        """
        apart = {}
        for place, name in enumerate(self.numeric):
            away = np.abs(self.numbers[:, place] - table.numbers[row, place])
            apart[name] = np.nan_to_num(away, copy=False, nan=1.0)
        for place, name in enumerate(self.categorical):
            other = self.categories[:, place] != table.categories[row, place]
            apart[name] = other.astype(np.float64)
        return apart


def case_tables(
    logs: Sequence[CodedLog], of_cases: Sequence[str], of_events: Sequence[str]
) -> list[CaseTable]:
    """A table for each log, with its sequences, its times where all have some, and the named
    attributes; of an event's attribute, the first value of the case.
    """
    numbers: dict[str, list[Floats]] = {"number of events": [_floats(_lengths(x)) for x in logs]}
    if all(log.times is not None for log in logs):
        numbers["start"] = [_floats(log.starts) for log in logs]
        numbers["duration"] = [_floats(log.durations) for log in logs]
    categories: dict[str, list[Ints]] = {
        "first activity": [log.codes[log.offsets[:-1]] for log in logs],
        "last activity": [log.codes[log.offsets[1:] - 1] for log in logs],
        "sequence": _sequences(logs),
    }
    named = [(name, [values_of(log.log.cases, name) for log in logs]) for name in of_cases]
    named += [(name, [_first_values(log, name) for log in logs]) for name in of_events]
    for name, columns in named:
        if all(column.dtype.is_numeric() for column in columns):
            numbers[name] = [_floats(column.cast(pl.Float64).to_numpy()) for column in columns]
        else:
            categories[name] = _codes(columns)
    scaled = {name: _scaled(columns) for name, columns in numbers.items()}
    return [
        CaseTable(
            numeric=tuple(scaled),
            categorical=tuple(categories),
            numbers=np.stack([columns[place] for columns in scaled.values()]).T,
            categories=np.stack([columns[place] for columns in categories.values()]).T,
            attributes=frozenset(name for name, _ in named),
        )
        for place in range(len(logs))
    ]


def _lengths(log: CodedLog) -> Ints:
    return np.diff(log.offsets)


def _floats(values: Ints | Floats) -> Floats:
    """Infinite ones are as good as missing: no number is near them."""
    found = values.astype(np.float64)
    return np.where(np.isfinite(found), found, np.nan)


def _scaled(columns: Sequence[Floats]) -> list[Floats]:
    """Divided by how far all values lie apart, so that two are at most 1 apart."""
    known = np.concatenate(columns)
    known = known[~np.isnan(known)]
    span = float(np.ptp(known)) if len(known) else 0.0
    return [column / (span or 1.0) for column in columns]


def _sequences(logs: Sequence[CodedLog]) -> list[Ints]:
    """The sequence of each case by one numbering."""
    number: dict[tuple[int, ...], int] = {}
    for log in logs:
        for sequence in log.sequences:
            number.setdefault(sequence, len(number))
    return [np.array([number[each] for each in log.sequences])[log.variant] for log in logs]


def _first_values(log: CodedLog, name: str) -> pl.Series:
    table = pl.DataFrame({"case": log.log.case_of, "value": values_of(log.log.events, name)})
    value = pl.col("value").drop_nulls().first()
    return table.group_by("case", maintain_order=True).agg(value).sort("case")["value"]


def _codes(columns: Sequence[pl.Series]) -> list[Ints]:
    texts = [column.cast(pl.String).fill_null("") for column in columns]
    values = pl.Enum(pl.concat([text.unique() for text in texts]).unique().sort())
    return [text.cast(values).to_physical().cast(pl.Int64).to_numpy() for text in texts]

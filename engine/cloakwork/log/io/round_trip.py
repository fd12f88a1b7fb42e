"""A log as its file will say it: what is checked before a release must be what a reader of the
release checks.

A format keeps some differences and loses others: CSV has no types and writes a missing value and
the empty text alike, XES has no place for an attribute that nobody has. And one value has several
spellings where 0.0 and -0.0 are equal.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import polars as pl

from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.io.csv import field_texts, infer_type
from cloakwork.log.io.flat import to_simple_type
from cloakwork.log.io.xes_write import expressible_text
from cloakwork.log.naming import values_of

Through = Callable[[pl.Series], pl.Series | None]
"""What a format makes of a column; None where it loses the column."""

_STANDARD: Final = (CASE_ID, ACTIVITY, TIMESTAMP)


def as_read_back(log: EventLog, output: str) -> EventLog:
    """``log`` as it will be when it is written as ``output`` (``xes``, ``csv``, ``parquet``, packed
    or not) and read.

    Columns that no format can hold are left out.
    """
    kind = output.removesuffix(".gz")
    through = _THROUGH.get(kind, _unchanged)
    events = pl.DataFrame(list(_columns_read_back(log.events, through)))
    cases = pl.DataFrame(list(_columns_read_back(log.cases, through)))
    return replace(log, events=events, cases=cases)


def _columns_read_back(table: pl.DataFrame, through: Through) -> Iterator[pl.Series]:
    for name in table.columns:
        simple = to_simple_type(Path("release"), name, values_of(table, name))
        if simple is None:
            continue
        values = _one_zero(simple)
        if name in _STANDARD:
            yield _standard_text(values, through).alias(name)
            continue
        read_back = through(values)
        if read_back is not None:
            yield read_back.alias(name)


def with_one_spelling(table: pl.DataFrame, output: str) -> pl.DataFrame:
    """The table with one spelling for what the release will not tell apart.

    0.0 stands for -0.0 as well; where the release is CSV, the empty text is missing. Each value is
    changed by itself.
    """
    is_csv = output.removesuffix(".gz") == "csv"
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


def _standard_text(values: pl.Series, through: Through) -> pl.Series:
    """Case ids and activities: they stay text whatever they look like, and stay where all are
    missing. Times are as they were.
    """
    if values.dtype != pl.String:
        return values
    if through is _through_xes:
        return expressible_text(values)
    if through is _through_csv:
        return _no_empty_text(values)
    return values


def _through_xes(values: pl.Series) -> pl.Series | None:
    """None where all are missing: the file does not have the attribute."""
    if values.null_count() == len(values):
        return None
    return expressible_text(values) if values.dtype == pl.String else values


def _through_csv(values: pl.Series) -> pl.Series:
    return infer_type(_no_empty_text(field_texts(values)))


def _unchanged(values: pl.Series) -> pl.Series:
    return values


def _no_empty_text(values: pl.Series) -> pl.Series:
    """The empty text is missing in CSV."""
    return values.to_frame("text").select(pl.when(pl.col("text") != "").then("text")).to_series()


_THROUGH: Final[dict[str, Through]] = {"xes": _through_xes, "csv": _through_csv}

"""A log as its file will say it: what is checked before a release must be what a reader of the
release checks.

A format keeps some differences and loses others: CSV has no types and writes a missing value and
the empty text alike, XES has no place for an attribute that nobody has. And one value has several
spellings where 0.0 and -0.0 are equal.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl

from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.io.csv import inferred, written
from cloakwork.log.io.flat import to_simple_type
from cloakwork.log.io.xes_write import expressible
from cloakwork.log.naming import values_of

_STANDARD = (CASE_ID, ACTIVITY, TIMESTAMP)


def as_read_back(log: EventLog, output: str) -> EventLog:
    """``log`` as it will be when it is written as ``output`` (``xes``, ``csv``, ``parquet``, packed
    or not) and read.

    Columns that no format can hold are left out.
    """
    kind = output.removesuffix(".gz")
    through: Callable[[pl.Series], pl.Series | None] = {"xes": _xes, "csv": _csv}.get(
        kind, lambda values: values
    )
    return replace(
        log,
        events=pl.DataFrame(list(_columns(log.events, through))),
        cases=pl.DataFrame(list(_columns(log.cases, through))),
    )


def _columns(
    table: pl.DataFrame, through: Callable[[pl.Series], pl.Series | None]
) -> Iterator[pl.Series]:
    for name in table.columns:
        values = to_simple_type(Path("release"), name, values_of(table, name))
        values = None if values is None else _one_zero(values)
        if values is not None and name not in _STANDARD:
            values = through(values)
        elif values is not None and values.dtype == pl.String:
            values = _standard_text(values, through)
        if values is not None:
            yield values.alias(name)


def with_one_spelling(table: pl.DataFrame, output: str) -> pl.DataFrame:
    """The table with one spelling for what the release will not tell apart.

    0.0 stands for -0.0 as well; where the release is CSV, the empty text is missing. Each value is
    changed by itself.
    """
    through = _no_empty_text if output.removesuffix(".gz") == "csv" else lambda values: values
    changed = {
        name: through(values_of(table, name))
        if kind == pl.String
        else _one_zero(values_of(table, name))
        for name, kind in table.schema.items()
        if name != CASE_ID and (kind == pl.String or kind.is_float())
    }
    return table.with_columns(values.alias(name) for name, values in changed.items())


def _one_zero(values: pl.Series) -> pl.Series:
    return values.set((values == 0.0).fill_null(False), 0.0) if values.dtype.is_float() else values


def _standard_text(
    values: pl.Series, through: Callable[[pl.Series], pl.Series | None]
) -> pl.Series:
    """Case ids and activities: they stay text whatever they look like, and stay where all are
    missing.
    """
    if through is _xes:
        return expressible(values)
    if through is _csv:
        return _no_empty_text(values)
    return values


def _xes(values: pl.Series) -> pl.Series | None:
    """None where all are missing: the file does not have the attribute."""
    if values.null_count() == len(values):
        return None
    return expressible(values) if values.dtype == pl.String else values


def _csv(values: pl.Series) -> pl.Series:
    return inferred(_no_empty_text(written(values)))


def _no_empty_text(values: pl.Series) -> pl.Series:
    """The empty text is missing in CSV."""
    return values.to_frame("text").select(pl.when(pl.col("text") != "").then("text")).to_series()

"""From the columns that a mechanism made to a log that has them."""

import json
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl
from pydantic import JsonValue

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.facts import RangeType
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.naming import CASE_PREFIX, TIME_TYPE, TIMESTAMP
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.aggregates import places_of
from cloakwork.mechanisms.values import ColumnValues, Enrichment, Listed, Numbers, Times

_LARGEST: Final = 2**63 - 1
"""Of 64-bit whole numbers."""


def enriched(log: EventLog, found: Enrichment) -> EventLog:
    """``log`` with the columns of ``found``, which take the place of others of their names.

    Raises ValueError where a column has not one value for each event, or case.
    """
    events, cases = log.events, log.cases
    for name, values in found.columns.items():
        series = _series(TIMESTAMP if name == TIMESTAMPS else name, values)
        table = cases if name.startswith(CASE_PREFIX) else events
        if len(series) != table.height:
            raise ValueError(f"{len(series):,} values of '{name}' for {table.height:,} rows")
        if table is cases:
            cases = cases.with_columns(series)
        else:
            events = events.with_columns(series)
    return replace(log, events=events, cases=cases)


@dataclass(frozen=True, slots=True)
class ColumnsOfCases:
    """Columns that a mechanism made for all of some cases, from which those of a batch are taken.

    ``index``: int64, ascending; where each case stands in the whole log. ``offsets``: int64, shape
    (cases + 1,); the events of case i are at ``offsets[i]:offsets[i + 1]`` of a column of events.
    """

    columns: ColumnValues
    index: Ints
    offsets: Ints

    @classmethod
    def of(cls, columns: ColumnValues, index: Ints, offsets: Ints) -> "ColumnsOfCases":
        """Raises ValueError where a column has not one value for each event, or case."""
        for name, values in columns.items():
            rows = len(index) if name.startswith(CASE_PREFIX) else int(offsets[-1])
            if len(_held(values)) != rows:
                raise ValueError(f"{len(_held(values)):,} values of '{name}' for {rows:,} rows")
        return cls(columns, index, offsets)

    def added(self, batch: EventLog) -> EventLog:
        """``batch`` with its part of the columns; ValueError where it has cases beside these."""
        rows = places_of(self.index, batch.index_of_case)
        lengths = np.diff(batch.offsets)
        if rows is None or not np.array_equal(np.diff(self.offsets)[rows], lengths):
            raise ValueError("columns were made for other cases")
        moved_by = np.repeat(self.offsets[rows] - batch.offsets[:-1], lengths)
        events = np.arange(batch.events.height) + moved_by
        part = {
            name: _at(values, rows if name.startswith(CASE_PREFIX) else events)
            for name, values in self.columns.items()
        }
        return enriched(batch, Enrichment(part))


def _held(values: Listed | Numbers | Times) -> Ints | Floats:
    """The array of a column's values."""
    match values:
        case Listed():
            return values.codes
        case Numbers():
            return values.values
        case Times():
            return values.microseconds


def _at(values: Listed | Numbers | Times, rows: Ints) -> Listed | Numbers | Times:
    """The values at ``rows``."""
    match values:
        case Listed():
            return replace(values, codes=values.codes[rows])
        case Numbers():
            return replace(values, values=values.values[rows])
        case Times():
            return replace(values, microseconds=values.microseconds[rows])


def _series(name: str, values: Listed | Numbers | Times) -> pl.Series:
    if isinstance(values, Times):
        return pl.Series(name, values.microseconds, pl.Int64).cast(TIME_TYPE)
    if isinstance(values, Numbers):
        return _numbers(pl.Series(name, values.values, pl.Float64).fill_nan(None), values.type)
    kind = _type_of(values.domain)
    domain = map(_text_of, values.domain) if kind is pl.String else values.domain
    listed = pl.Series(list(domain), dtype=kind)
    is_missing = np.asarray(values.codes) < 0
    places = pl.Series(np.where(is_missing, 0, values.codes))
    if not len(listed):
        return pl.Series(name, [None], listed.dtype).new_from_index(0, len(places))
    return listed.gather(places).set(pl.Series(is_missing), None).alias(name)


def _numbers(values: pl.Series, type_: RangeType) -> pl.Series:
    """Float64 as a column of this type."""
    match type_:
        case "integer":
            return values.cast(pl.Int64)
        case "date":
            return values.cast(pl.Int32).cast(pl.Date)
        case "time":
            return (values * 1e6).cast(pl.Int64).cast(TIME_TYPE)
        case "number":
            return values


def _type_of(domain: tuple[JsonValue, ...]) -> type[pl.DataType]:
    """Of a domain of one type, that; of whole and other numbers Float64; else text, and where whole
    numbers are too large for a column of such.
    """
    kinds = {type(value) for value in domain}
    if kinds == {bool}:
        return pl.Boolean
    if any(isinstance(value, int) and abs(value) > _LARGEST for value in domain):
        return pl.String
    if kinds == {int}:
        return pl.Int64
    return pl.Float64 if kinds and kinds <= {int, float} else pl.String


def _text_of(value: JsonValue) -> str | None:
    """A value as JSON spells it; texts are themselves."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)

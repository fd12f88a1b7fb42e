"""From the columns that a mechanism made to a log that has them."""

from dataclasses import replace

import numpy as np
import polars as pl
from pydantic import JsonValue

from cloakwork.lineage import TIMESTAMPS
from cloakwork.log.eventlog import EventLog
from cloakwork.log.naming import CASE_PREFIX, TIME_TYPE, TIMESTAMP
from cloakwork.mechanisms.base import Enrichment, Listed, Numbers, Times


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


def _series(name: str, values: Listed | Numbers | Times) -> pl.Series:
    if isinstance(values, Times):
        return pl.Series(name, values.microseconds, pl.Int64).cast(TIME_TYPE)
    if isinstance(values, Numbers):
        return pl.Series(name, values.values, pl.Float64).fill_nan(None)
    listed = pl.Series(values.domain, dtype=_type_of(values.domain))
    is_missing = np.asarray(values.codes) < 0
    places = pl.Series(np.where(is_missing, 0, values.codes))
    if not len(listed):
        return pl.Series(name, [None], listed.dtype).new_from_index(0, len(places))
    return listed.gather(places).set(pl.Series(is_missing), None).alias(name)


def _type_of(domain: tuple[JsonValue, ...]) -> type[pl.DataType]:
    """Of a domain of one type, that; of whole and other numbers Float64; else text."""
    kinds = {type(value) for value in domain}
    if kinds == {bool}:
        return pl.Boolean
    if kinds == {int}:
        return pl.Int64
    return pl.Float64 if kinds and kinds <= {int, float} else pl.String

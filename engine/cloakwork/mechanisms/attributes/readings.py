"""Values of the log as numbers of what a policy declares: each by itself."""

import math
from datetime import UTC, date, datetime
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats
from cloakwork.base.facts import RangeType
from cloakwork.kernel import Column

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_SECOND: Final = 10**6
"""Microseconds."""


def is_of_times(column: Column) -> bool:
    """Whether a column's values are times: microseconds since 1970."""
    return bool(np.issubdtype(column.values.dtype, np.integer))


def read_numbers(column: Column, type_: RangeType) -> Floats:
    """What each value is as a number of this type: float64, NaN where it is missing or none.

    A whole number is that below a number with decimals. Days count from 1970, and times in whole
    seconds; a text is the day that it names, in whatever zone, and without a zone a time in UTC.
    """
    if type_ in ("number", "integer"):
        if is_of_times(column):
            return np.full(len(column.is_missing), np.nan)
        numbers = np.where(column.is_missing, np.nan, column.values)
        return np.floor(numbers) if type_ == "integer" else numbers
    if is_of_times(column):
        step = _SECOND * (86_400 if type_ == "date" else 1)
        return np.where(column.is_missing, np.nan, np.floor_divide(column.values, step))
    read = np.array([*(_instant(text, type_) for text in column.alphabet), math.nan])
    return read[column.codes]


def _instant(text: str, type_: RangeType) -> float:
    """The day or second that a text names (ISO 8601, or with ``/`` in the day); NaN for others."""
    try:
        named = datetime.fromisoformat(text.strip().replace("/", "-"))
    except ValueError:
        return math.nan
    if type_ == "date":
        return float(named.toordinal() - _EPOCH_DAY)
    zoned = named if named.tzinfo else named.replace(tzinfo=UTC)
    return float((zoned - _EPOCH).total_seconds() // 1)

"""Bins of a declared range by what it is of: numbers, whole numbers, days or times."""

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats
from cloakwork.base.facts import RangeType
from cloakwork.mechanisms.attributes.bins import MOST_BINS, Bins

_EPOCH: Final = date(1970, 1, 1).toordinal()

_DAY: Final = 86_400
"""Seconds."""

_WIDTHS: Final = (1, 10, 60, 600, 3600, 6 * 3600, _DAY, 7 * _DAY)
"""Seconds of the bins that are shorter than a month."""

_MONTHS: Final = (1, 3, 12, 60, 120, 240, 600)
"""Months of the others."""


def bins_of(low: float, high: float, type_: RangeType, fineness: int) -> Bins:
    """Bins from ``low`` to ``high``, both of them inside; days count from 1970, and times in whole
    seconds.
    """
    match type_:
        case "number":
            return Bins.of_range(low, high, fineness)
        case "integer":
            return Bins.of_whole_numbers(low, high, fineness)
        case "date":
            return _of_time(low, high, _DAY, MOST_BINS[fineness])
        case "time":
            return _of_time(low, high, 1, MOST_BINS[fineness])


def _of_time(low: float, high: float, unit: int, most: int) -> Bins:
    """The finest bins of round widths of which there are at most ``most``; ``unit``: seconds in
    what ``low`` and ``high`` are counted in.
    """
    after = high + 1
    for width in (width / unit for width in _WIDTHS if width >= unit):
        if (after - low) / width <= most - 1:
            # A Monday; weeks begin there, and days at midnight.
            monday = 4 * _DAY / unit
            first = np.floor((low - monday) / width) + 1
            inner = monday + width * np.arange(first, np.ceil((after - monday) / width))
            return _bins(low, inner, after)
    inner = np.zeros(0)
    for months in _MONTHS:
        inner = np.array([*_beginnings(low * unit, after * unit, months)], np.float64) / unit
        if len(inner) < most:
            break
    return _bins(low, inner, after)


def _bins(low: float, inner: Floats, after: float) -> Bins:
    between = inner[(inner > low) & (inner < after)]
    return Bins(np.array([low, *between, after]), 0, zero=False, by_ratio=False, integer=True)


def _beginnings(low: float, after: float, months: int) -> Iterator[float]:
    """Seconds since 1970 at which months begin, of which every ``months``-th counts."""
    first, last = (date.fromordinal(_EPOCH + int(end // _DAY)) for end in (low, after))
    for month in range(12 * first.year // months * months, 12 * last.year + 12, months):
        begin = date(month // 12, month % 12 + 1, 1)
        if first < begin <= last + timedelta(days=1):
            yield float((begin.toordinal() - _EPOCH) * _DAY)

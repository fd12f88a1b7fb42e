"""Hints for the internal report: columns that look like times beside a claim that takes them as
known.
"""

from collections.abc import Iterator
from typing import Final

import polars as pl

from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.naming import values_of
from cloakwork.plan.model import Plan

_DATE: Final = r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}:\d{2}"


_EPOCHS: Final = ((5e8, 4.2e9), (5e11, 4.2e12), (5e14, 4.2e15), (5e17, 4.2e18))
"""Seconds, milliseconds, microseconds and nanoseconds since 1970, for times between 1985 and 2103.
"""


def time_hints(log: EventLog, plan: Plan) -> Iterator[str]:
    """Released attributes that look like times beside a claim that takes them as known; figures of
    the raw log.

    Only a hint, for the internal report: no list of names decides which columns hold times, so the
    claim names every such column, and this stops nothing. It reads no column but those that the
    claim takes as known.
    """
    if all(claim.given is None for claim in plan.claims):
        return
    for table in (log.cases, log.events):
        for name in table.drop(CASE_ID, ACTIVITY, TIMESTAMP, strict=False).columns:
            if plan.releases(name) and _looks_like_times(values_of(table, name)):
                yield (
                    f"'{name}' looks like times, and the claim over timestamps takes it as known: "
                    "whoever reads the release learns them; "
                    "drop it in the policy if they are to stay hidden"
                )


def _looks_like_times(column: pl.Series) -> bool:
    """Whether a column looks like times by its type, by any of its texts, or by where most of its
    numbers lie.
    """
    if column.dtype.is_temporal():
        return True
    if column.dtype == pl.String:
        return bool(column.str.contains(_DATE).any())
    if not column.dtype.is_numeric():
        return False
    # The median, for a few numbers far off, such as 0 for a missing time, do not move it.
    median = column.drop_nulls().median()
    if not isinstance(median, int | float):
        return False
    return any(low <= median <= high for low, high in _EPOCHS)

"""A log in batches: parted so that what must lie together does, and put together again."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.errors import MechanismError
from cloakwork.base.naming import values_of
from cloakwork.log.eventlog import EventLog, LogHandle, joined_batches
from cloakwork.mechanisms.steps import GenerateCases

_EVENTS_OF_A_CASE: Final = 10
"""So many are taken to be usual."""


def first_of_unit(log: EventLog, unit: str | None) -> Ints:
    """For each case the row of the first case of its unit; a case without one is its own."""
    rows = np.arange(log.cases.height)
    if unit is None or unit not in log.cases.columns:
        return rows
    owners = pl.DataFrame({"unit": values_of(log.cases, unit), "row": rows})
    first_of_unit = owners.select(pl.col("row").first().over("unit")).to_series().to_numpy()
    # polars takes all nulls for one unit.
    has_unit = owners["unit"].is_not_null().to_numpy()
    return np.where(has_unit, first_of_unit, rows)


def collected(log: LogHandle) -> EventLog:
    """The batches of a log as one, its cases in their order: for logs that fit into memory."""
    batches = list(log.batches())
    return batches[0] if len(batches) == 1 else in_order(joined_batches(batches))


def parts_of(log: LogHandle, size: int) -> Iterator[EventLog]:
    """The cases of a log that fits into memory, by their index, ``size`` of these a part."""
    whole = collected(log)
    part = whole.index_of_case // size
    for place in np.unique(part) if len(part) else [0]:
        yield replace(whole, case_index=whole.index_of_case).keep_cases(
            np.flatnonzero(part == place)
        )


def kept_cases(before: EventLog, after: EventLog) -> EventLog:
    """What a rewrite made of a batch, its cases in the order of the log.

    Raises ``MechanismError`` where it no longer says which case is which.
    """
    return in_order(_with_case_index(before, after))


def in_order(log: EventLog) -> EventLog:
    """The same cases in the order of their indexes."""
    index = log.index_of_case
    return log.keep_cases(np.argsort(index)) if (np.diff(index) < 0).any() else log


def case_ranges(action: GenerateCases, most_events: int) -> Iterator[tuple[int, int]]:
    """All cases in ranges (from, before) of ``most_events`` at most, or of one case; where
    their events are not known, of one case for each ``_EVENTS_OF_A_CASE`` of these.
    """
    first = 0
    while first < action.cases:
        behind = first + max(1, most_events // _EVENTS_OF_A_CASE)
        if action.events_until is not None:
            most = action.events_until(first) + most_events
            behind = (
                bisect_right(
                    range(action.cases + 1),
                    most,
                    key=action.events_until,
                )
                - 1
            )
            # Cases without events are not batches without end.
            behind = min(behind, first + most_events)
        behind = min(max(behind, first + 1), action.cases)
        yield first, behind
        first = behind


def generated_cases(
    action: GenerateCases,
    first: int,
    behind: int,
) -> EventLog:
    """The cases of a range, numbered; MechanismError where it makes more or fewer."""
    made = action.make(first, behind)
    if made.cases.height == behind - first:
        return replace(made, case_index=np.arange(first, behind))
    said = f"a rewrite made {made.cases.height:,} cases where {behind - first:,} were asked for"
    raise MechanismError("batches", f"{said} (GenerateCases.make)")


def _with_case_index(before: EventLog, after: EventLog) -> EventLog:
    """``after`` with the indexes of its cases; where it has none, all cases of ``before`` stay.

    Each case of the batch comes out once at most: k counts different cases of the source.
    """
    index = after.case_index
    if index is not None:
        is_distinct = len(np.unique(index)) == len(index)
        if not (is_distinct and np.isin(index, before.index_of_case).all()):
            said = "a rewrite made several cases of one, or cases that are not of its batch"
            raise MechanismError("batches", f"{said} (EventLog.case_index)")
        return after
    if after.cases.height != before.cases.height:
        raise MechanismError(
            "batches",
            "a rewrite dropped or made cases and does not say which (EventLog.case_index); change "
            "a log by dataclasses.replace, keep_cases or keep_events",
        )
    return replace(after, case_index=before.index_of_case)

"""Which attribute values each class of cases has: what the checks of t-closeness and l-diversity
measure.

Found on a log alone, by code that shares nothing with the mechanisms.

A class is all cases of one complete variant (``variants``), or all cases with one prefix
(``prefixes``). For an attribute of events, the values of a class are taken activity by activity;
with ``prefixes``, at the last event of the prefix. For an attribute of cases (``case:...``), a
class has one value a case. The attribute of times, ``timestamps``, stands for cycle times: the time
since the case's previous event, which its first event does not have. A log without the column has
no values.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.lineage import TIMESTAMPS
from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, TIMESTAMP, EventLog
from cloakwork.log.naming import values_of

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GroupedValues:
    """All values of an attribute, and the groups of them.

    - ``values``: n values, null where there is none: numbers as the log has them (times as their
      number), or anything else as String. ``is_numeric`` says which.
    - ``activity``: int64, shape (n,); the activity that each belongs to; 0 for an attribute of
      cases.
    - ``kept``: bool, shape (n,); not of an inserted event.
    - ``member``, ``group``: int64, shape (m,); the value ``member[i]`` is in the group
      ``group[i]``. Each value is in one group, apart from values of cases under ``prefixes``, which
      are in one for every prefix of the case.
    """

    values: pl.Series
    activity: Ints
    kept: NDArray[np.bool_]
    member: Ints
    group: Ints

    @property
    def is_numeric(self) -> bool:
        """Whether values are numbers, between which there are distances."""
        return self.values.dtype.is_numeric()

    @property
    def has_value(self) -> NDArray[np.bool_]:
        """Which values are not missing: bool, shape (n,)."""
        return self.values.is_not_null().to_numpy()

    def restricted_to(self, chosen: NDArray[np.bool_]) -> "GroupedValues":
        """The values that are ``chosen`` (bool, shape (n,)), in their groups."""
        new_index = np.cumsum(chosen) - 1
        stays = chosen[self.member]
        return GroupedValues(
            self.values.filter(pl.Series(chosen)),
            self.activity[chosen],
            self.kept[chosen],
            new_index[self.member[stays]],
            self.group[stays],
        )


def grouped_values(
    log: EventLog, attribute: str, classes: Literal["variants", "prefixes"]
) -> GroupedValues:
    """The values of ``attribute`` in ``log`` by class and activity."""
    prefix = prefixes(log)
    column = _comparable_values(_column_values(log, attribute))
    if attribute.startswith(CASE_PREFIX):
        return _of_cases(log, column, prefix, classes)
    activity = _dense_codes(log.events[ACTIVITY])
    group = prefix
    if classes == "variants":
        # The prefix that the last event ends is the complete variant.
        variant = last_of_case(log, prefix)[log.case_of]
        group = variant * (activity.max(initial=0) + 1) + activity
    found = GroupedValues(column, activity, log.kept, np.arange(log.events.height), group)
    if attribute == TIMESTAMPS:
        return found.restricted_to(_has_predecessor(log))
    return found


def _has_predecessor(log: EventLog) -> NDArray[np.bool_]:
    """The events that are not the first of their case: bool, shape (events,)."""
    case = log.case_of
    return np.concatenate([[False], case[1:] == case[:-1]])[: len(case)]


def _of_cases(log: EventLog, values: pl.Series, prefix: Ints, classes: str) -> GroupedValues:
    """The values of an attribute of cases, which are compared with one another all together."""
    cases = log.cases.height
    if classes == "variants":
        member, group = np.arange(cases), last_of_case(log, prefix)
    else:
        member, group = log.case_of, prefix
    kept = np.ones(cases, np.bool_)
    return GroupedValues(values, np.zeros(cases, np.int64), kept, member, group)


def prefixes(log: EventLog) -> Ints:
    """A number for each event that events share if and only if their cases agree up to and with
    them: int64, (events,).

    Cases are followed event by event: those that agreed so far get different numbers where their
    next activities differ.
    """
    symbol = _dense_codes(log.events[ACTIVITY])
    numbers = np.zeros(log.events.height, np.int64)
    lengths = np.diff(log.offsets)
    cases = np.flatnonzero(lengths > 0)
    # The prefix of each case that still has events, dense among those of one length.
    prefix = np.zeros(len(cases), np.int64)
    length, next_number = 0, 0
    while len(cases):
        events = log.offsets[cases] + length
        longer = prefix * (symbol.max() + 1) + symbol[events]
        distinct, prefix = np.unique(longer, return_inverse=True)
        numbers[events] = next_number + prefix
        next_number += len(distinct)
        length += 1
        goes_on = lengths[cases] > length
        cases, prefix = cases[goes_on], prefix[goes_on].astype(np.int64)
    return numbers


def last_of_case(log: EventLog, of_event: Ints) -> Ints:
    """The figure of each case's last event; one more than all others for cases without events."""
    no_event = of_event.max(initial=-1) + 1
    padded = np.append(of_event, no_event)
    return np.where(np.diff(log.offsets) > 0, padded[log.offsets[1:] - 1], no_event)


def _column_values(log: EventLog, attribute: str) -> pl.Series:
    """One value an event, or a case."""
    if attribute == TIMESTAMPS:
        return _cycle_times(log)
    table = log.cases if attribute.startswith(CASE_PREFIX) else log.events
    if attribute not in table.columns:
        return pl.Series([None] * table.height, dtype=pl.String)
    return values_of(table, attribute)


def _cycle_times(log: EventLog) -> pl.Series:
    """Microseconds since the previous event of the case; null where either has no time."""
    if TIMESTAMP not in log.events.columns:
        return pl.Series([None] * log.events.height, dtype=pl.Int64)
    rows = pl.DataFrame({"case": log.case_of, "time": log.events[TIMESTAMP].dt.timestamp("us")})
    return rows.select(pl.col("time").diff().over("case")).to_series()


def _comparable_values(values: pl.Series) -> pl.Series:
    """Numbers as they are, times as their number, everything else (truth values, too) as String."""
    if values.dtype.is_numeric():
        return values
    if values.dtype.is_temporal():
        return values.to_physical()
    return values.cast(pl.String)


def _dense_codes(labels: pl.Series) -> Ints:
    """A number for each label: int64, dense."""
    return labels.cast(pl.String).fill_null("").rank("dense").to_numpy().astype(np.int64) - 1

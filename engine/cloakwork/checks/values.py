"""Which attribute values stand in which class of cases: what the checks of t-closeness and
l-diversity look at.

Found on a log alone, by code that shares nothing with the mechanisms.

A class is all cases of one complete course of events (``variants``), or all cases that begin alike
(``prefixes``). For an attribute of events, the values of a class are taken activity by activity;
with ``prefixes``, at the last event of the beginning. For an attribute of cases (``case:...``), a
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
class Grouped:
    """All values of an attribute, and the groups of them.

    - ``values``: n values, null where there is none: numbers as the log has them (times as their
      number), or anything else as String. ``numeric`` says which.
    - ``topic``: int64, shape (n,); the activity each belongs to; 0 for all values of a case
      attribute.
    - ``kept``: bool, shape (n,); not of an inserted event.
    - ``member``, ``group``: int64, shape (m,); the values ``member`` stand in the groups ``group``.
      Each value stands in one group, apart from values of cases under ``prefixes``, which stand in
      one for every beginning of the case.
    """

    values: pl.Series
    topic: Ints
    kept: NDArray[np.bool_]
    member: Ints
    group: Ints

    @property
    def numeric(self) -> bool:
        """Whether values are numbers, between which there are distances."""
        return self.values.dtype.is_numeric()

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which values are not missing: bool, shape (n,)."""
        return self.values.is_not_null().to_numpy()

    def only(self, chosen: NDArray[np.bool_]) -> "Grouped":
        """The values that are ``chosen`` (bool, shape (n,)), in the groups in which they stand."""
        place, among = np.cumsum(chosen) - 1, chosen[self.member]
        return Grouped(
            self.values.filter(pl.Series(chosen)),
            self.topic[chosen],
            self.kept[chosen],
            place[self.member[among]],
            self.group[among],
        )


def grouped(log: EventLog, attribute: str, classes: Literal["variants", "prefixes"]) -> Grouped:
    """The values of ``attribute`` in ``log`` by class and activity."""
    prefix = prefixes(log)
    if attribute.startswith(CASE_PREFIX):
        return _of_cases(log, _column(log, attribute), prefix, classes)
    values = _column(log, attribute)
    activity = _numbered(log.events[ACTIVITY])
    if classes == "variants":
        course = last_of_case(log, prefix)[log.case_of]
        group = course * (activity.max(initial=0) + 1) + activity
    else:
        group = prefix
    found = Grouped(_plain(values), activity, log.kept, np.arange(log.events.height), group)
    return found if attribute != TIMESTAMPS else found.only(_follows(log))


def _follows(log: EventLog) -> NDArray[np.bool_]:
    """The events that are not the first of their case: bool, shape (events,)."""
    case = log.case_of
    return np.concatenate([[False], case[1:] == case[:-1]])[: len(case)]


def _of_cases(log: EventLog, values: pl.Series, prefix: Ints, classes: str) -> Grouped:
    every = np.ones(log.cases.height, np.bool_)
    case, group = (
        (np.arange(log.cases.height), last_of_case(log, prefix))
        if classes == "variants"
        else (log.case_of, prefix)
    )
    return Grouped(_plain(values), np.zeros(log.cases.height, np.int64), every, case, group)


def prefixes(log: EventLog) -> Ints:
    """A number for each event that events share if and only if their cases agree up to and with
    them: int64, (events,).

    Cases are followed event by event: those that agreed so far part where their next activities
    differ.
    """
    symbol = _numbered(log.events[ACTIVITY])
    found = np.zeros(log.events.height, np.int64)
    lengths = np.diff(log.offsets)
    cases = np.flatnonzero(lengths > 0)
    alike, seen, numbered = np.zeros(len(cases), np.int64), 0, 0
    while len(cases):
        events = log.offsets[cases] + seen
        distinct, alike = np.unique(
            alike * (symbol.max() + 1) + symbol[events], return_inverse=True
        )
        found[events] = numbered + alike
        seen, numbered = seen + 1, numbered + len(distinct)
        longer = lengths[cases] > seen
        cases, alike = cases[longer], alike[longer].astype(np.int64)
    return found


def last_of_case(log: EventLog, of_event: Ints) -> Ints:
    """The figure of each case's last event; one more than all others for cases without events."""
    none = of_event.max(initial=-1) + 1
    padded = np.append(of_event, none)
    return np.where(np.diff(log.offsets) > 0, padded[log.offsets[1:] - 1], none)


def _column(log: EventLog, attribute: str) -> pl.Series:
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


def _plain(values: pl.Series) -> pl.Series:
    """Numbers as they are, times as their number, everything else (truth values, too) as String."""
    if values.dtype.is_numeric():
        return values
    return values.to_physical() if values.dtype.is_temporal() else values.cast(pl.String)


def _numbered(labels: pl.Series) -> Ints:
    """A number for each label: int64, dense."""
    return labels.cast(pl.String).fill_null("").rank("dense").to_numpy().astype(np.int64) - 1

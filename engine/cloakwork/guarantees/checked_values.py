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

from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Ints, Words
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.naming import named, values_of
from cloakwork.guarantees.checked_classes import NumberedRows, Prefixes, numbered_rows, prefixes_of
from cloakwork.guarantees.hashing import HashKey
from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, TIMESTAMP, EventLog

GROUP: Final = ("activity", "class_1", "class_2")
"""The columns that tell groups of values apart."""


@dataclass(frozen=True, slots=True)
class GroupedValues:
    """How often each value of an attribute stands in each group, and in the log as a whole.

    One row for each group and value:

    - ``activity``, ``class_1``, ``class_2``: UInt64; hashes of the activity that a group is of (0
      for an attribute of cases), and of its class;
    - ``value``: null where there is none; numbers as the log has them (times as their number), or
      anything else as String;
    - ``count``, ``kept``: Int64; how many there are, and how many not of inserted events.

    Each value stands in one group, but for values of cases under ``prefixes``, which stand in one
    for every prefix of the case. So there each value has a row of its own besides, where the class
    is null: how many cases hold it. Memory goes with the pairs of a group and a value.
    """

    attribute: str
    classes: Literal["variants", "prefixes"]
    key: HashKey = field(default_factory=HashKey.drawn)

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Count the values of one batch."""
        column = _comparable_values(_column_values(batch, self.attribute))
        if self.attribute.startswith(CASE_PREFIX):
            return self._of_cases(batch, column)
        activities = _activities(batch, self.key)
        found = prefixes_of(batch.offsets, activities, self.key)
        class_ = found.of_event
        if self.classes == "variants":
            class_ = found.of_case[batch.case_of]
        # One number for a class and an activity together.
        width = activities.hashes.shape[1]
        rows = pl.DataFrame(
            {"group": class_ * width + activities.of_row, "value": column, "kept": batch.kept}
        )
        if self.attribute == TIMESTAMPS:
            rows = rows.filter(pl.Series(_has_predecessor(batch)))
        counted = _counted(rows)
        classes, activity = np.divmod(counted["group"].to_numpy(), width)
        return _table(counted, activities.hashes[0][activity], found.hashes[:, classes])

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Counts of one value in one group are added up."""
        by = named(*GROUP, "value")
        return summaries.group_by(by).agg(pl.col("count").sum(), pl.col("kept").sum())

    def _of_cases(self, batch: EventLog, values: pl.Series) -> pl.DataFrame:
        """The values of an attribute of cases, which are compared with one another all together."""
        found = prefixes_of(batch.offsets, _activities(batch, self.key), self.key)
        by_case = _all_kept(found.of_case, values)
        if self.classes == "variants":
            return _of_no_activity(_counted(by_case), found.hashes)
        by_prefix = _all_kept(found.of_event, values.gather(batch.case_of))
        every_case = _counted(by_case.with_columns(group=pl.lit(0, pl.Int64)))
        reference = _of_no_activity(every_case, found.hashes)
        no_class = [pl.lit(None, pl.UInt64).alias(name) for name in GROUP[1:]]
        return pl.concat(
            [_of_no_activity(_counted(by_prefix), found.hashes), reference.with_columns(no_class)]
        )


def _all_kept(group: Ints, values: pl.Series) -> pl.DataFrame:
    rows = pl.DataFrame({"group": pl.Series(group, dtype=pl.Int64), "value": values})
    return rows.with_columns(kept=pl.lit(True))


def _counted(rows: pl.DataFrame) -> pl.DataFrame:
    counts = [
        pl.len().cast(pl.Int64).alias("count"),
        pl.col("kept").sum().cast(pl.Int64).alias("kept"),
    ]
    return rows.group_by("group", "value").agg(counts)


def _of_no_activity(counted: pl.DataFrame, hashes: Words) -> pl.DataFrame:
    nothing = np.zeros(counted.height, np.uint64)
    return _table(counted, nothing, hashes[:, counted["group"].to_numpy()])


def _table(counted: pl.DataFrame, activity: Words, class_: Words) -> pl.DataFrame:
    columns = zip(GROUP, (activity, *class_), strict=True)
    hashes = [pl.Series(name, words, pl.UInt64) for name, words in columns]
    return pl.DataFrame([*hashes, counted["value"], counted["count"], counted["kept"]])


def _activities(log: EventLog, key: HashKey) -> NumberedRows:
    """The activities of the events; a missing one is an empty text."""
    labels = log.events[ACTIVITY].cast(pl.String).fill_null("")
    return numbered_rows(pl.DataFrame({ACTIVITY: labels}), [ACTIVITY], key)


def _prefixes(log: EventLog, key: HashKey) -> Prefixes:
    return prefixes_of(log.offsets, _activities(log, key), key)


def _has_predecessor(log: EventLog) -> Bools:
    """The events that are not the first of their case: bool, shape (events,)."""
    case = log.case_of
    return np.concatenate([[False], case[1:] == case[:-1]])[: len(case)]


def prefixes(log: EventLog) -> Ints:
    """A number for each event that events share if and only if their cases agree up to and with
    them: int64, (events,).
    """
    return _prefixes(log, HashKey.drawn()).of_event


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
        return pl.Series([None] * table.height, dtype=pl.Null)
    return values_of(table, attribute)


def _cycle_times(log: EventLog) -> pl.Series:
    """Microseconds since the previous event of the case; null where either has no time."""
    if TIMESTAMP not in log.events.columns:
        return pl.Series([None] * log.events.height, dtype=pl.Int64)
    gaps = log.events[TIMESTAMP].dt.timestamp("us").diff()
    return gaps.set(pl.Series(~_has_predecessor(log)), None)


def _comparable_values(values: pl.Series) -> pl.Series:
    """Numbers as they are, times as their number, everything else (truth values, too) as String;
    nothing where the log has no such column."""
    if values.dtype.is_numeric() or values.dtype == pl.Null:
        return values
    if values.dtype.is_temporal():
        return values.to_physical()
    return values.cast(pl.String)

"""What remains of a log for somebody who looks for inserted events: known only inside a run, never
from a file.
"""

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.log.naming import values_of

_DAY: Final = 86_400_000_000
_UNITS: Final = (3_600_000_000, 900_000_000, 60_000_000, 1_000_000, 1_000)
"""Microseconds of an hour, a quarter, a minute, a second and a millisecond."""


def stripped(log: EventLog, *, by_time: bool = False) -> EventLog:
    """``log`` without the inserted events that show: no kept event of their activity lacks just the
    same attributes.

    ``by_time``: times are released as they are; then the inserted events, too, whose time is more
    precise than all those of kept events of their activity, or, where these have one or two times
    of day only, that have another.
    """
    if log.inserted is None:
        return log
    lacks = [
        values_of(log.events, name).is_null() for name in log.events.columns if name != ACTIVITY
    ]
    pattern = values_of(log.events, ACTIVITY).rank("dense").fill_null(0).to_numpy().astype(np.int64)
    for missing in lacks:
        pattern = np.unique(2 * pattern + missing.to_numpy(), return_inverse=True)[1].astype(
            np.int64
        )
    likely = np.isin(pattern, pattern[log.kept])
    if by_time and TIMESTAMP in log.events.columns:
        likely &= _times_occur(log)
    return log.keep_events(log.kept | likely)


def _times_occur(log: EventLog) -> NDArray[np.bool_]:
    """Whether an event's time may be one of the kept events of its activity; True where it has no
    time.

    Times of day tell events apart only where they are all on quarters of an hour, and on midnight
    of UTC or at three times as many events as times of day.
    """
    activity = (
        values_of(log.events, ACTIVITY).rank("dense").fill_null(0).to_numpy().astype(np.int64)
    )
    stamps = log.events[TIMESTAMP].cast(TIME_TYPE).to_physical()
    time, known = stamps.fill_null(0).to_numpy(), stamps.is_not_null().to_numpy()
    fineness = np.select([time % unit == 0 for unit in _UNITS], range(len(_UNITS)), len(_UNITS))
    rows = pl.DataFrame({"activity": activity, "time": time, "day": time % _DAY, "fine": fineness})
    kept = (
        rows.filter(pl.Series(known & log.kept))
        .group_by("activity")
        .agg(days=pl.col("day").unique(), finest=pl.col("fine").max(), events=pl.len())
    )
    midnight = (pl.col("days").list.len() == 1) & (pl.col("days").list.first() == 0)
    few = (pl.col("days").list.len() <= 2) & (pl.col("events") >= 3 * pl.col("days").list.len())
    # Short lists remain, since each event gets that of its activity.
    kept = kept.with_columns(days=pl.when((midnight | few) & (pl.col("finest") <= 1)).then("days"))
    found = rows.join(kept, "activity", how="left", maintain_order="left").select(
        pl.when(pl.col("days").is_not_null())
        .then(pl.col("days").list.contains(pl.col("day")))
        .otherwise(pl.col("fine") <= pl.col("finest"))
        .fill_null(value=False)
    )
    return np.asarray(found.to_series().to_numpy() | ~known, np.bool_)


def without_their_values(log: EventLog, attribute: str | None) -> EventLog:
    """``log`` where inserted events have no value of ``attribute``."""
    if (
        attribute is None
        or attribute.startswith(CASE_PREFIX)
        or attribute not in log.events.columns
    ):
        return log
    values = values_of(log.events, attribute)
    alone = values.zip_with(
        pl.Series(log.kept), pl.Series(values.name, [None] * len(values), dtype=values.dtype)
    )
    return replace(log, events=log.events.with_columns(alone.alias(attribute)))

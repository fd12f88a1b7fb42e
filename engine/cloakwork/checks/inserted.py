"""What remains of a log for somebody who looks for inserted events: known only inside a run, never from a file."""

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.log.naming import values_of


_DAY: Final = 86_400_000_000
_UNITS: Final = (900_000_000, 60_000_000, 1_000_000, 1_000)
"""Microseconds of a quarter of an hour, a minute, a second and a millisecond."""


def stripped(log: EventLog, *, by_time: bool = False) -> EventLog:
    """``log`` without the inserted events that show: no kept event of their activity lacks just the same attributes.

    ``by_time``: times are released as they are; then the inserted events, too, whose time is as precise as that of no
    kept event of their activity, or, where it is a quarter of an hour, lies at no time of day of a kept one.
    """
    if log.inserted is None:
        return log
    lacks = [values_of(log.events, name).is_null() for name in log.events.columns if name != ACTIVITY]
    pattern = values_of(log.events, ACTIVITY).rank("dense").fill_null(0).to_numpy().astype(np.int64)
    for missing in lacks:
        pattern = np.unique(2 * pattern + missing.to_numpy(), return_inverse=True)[1].astype(np.int64)
    likely = np.isin(pattern, pattern[log.kept])
    if by_time and TIMESTAMP in log.events.columns:
        likely &= _times_occur(log)
    return log.keep_events(log.kept | likely)


def _times_occur(log: EventLog) -> NDArray[np.bool_]:
    """Whether a kept event of an event's activity has a time of that precision; True where there is no time."""
    stamps = log.events[TIMESTAMP].cast(TIME_TYPE).to_physical()
    time = stamps.fill_null(0).to_numpy()
    shown = -1 - np.select([time % unit == 0 for unit in _UNITS], range(len(_UNITS)), len(_UNITS))
    shown = np.where(time % _UNITS[0] == 0, time % _DAY, shown)
    activity = values_of(log.events, ACTIVITY).rank("dense").fill_null(0).to_numpy().astype(np.int64)
    code = activity * 2 * _DAY + shown
    known = stamps.is_not_null().to_numpy()
    return np.isin(code, code[known & log.kept]) | ~known


def without_their_values(log: EventLog, attribute: str | None) -> EventLog:
    """``log`` where inserted events have no value of ``attribute``."""
    if attribute is None or attribute.startswith(CASE_PREFIX) or attribute not in log.events.columns:
        return log
    values = values_of(log.events, attribute)
    alone = values.zip_with(pl.Series(log.kept), pl.Series(values.name, [None] * len(values), dtype=values.dtype))
    return replace(log, events=log.events.with_columns(alone.alias(attribute)))

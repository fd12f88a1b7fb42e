"""What remains of a log for somebody who looks for inserted events: known only inside a run, never from a file."""

from dataclasses import replace

import numpy as np
import polars as pl

from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, EventLog
from cloakwork.log.naming import values_of


def stripped(log: EventLog) -> EventLog:
    """``log`` without the inserted events that show: no kept event of their activity lacks just the same attributes."""
    if log.inserted is None:
        return log
    lacks = [values_of(log.events, name).is_null() for name in log.events.columns if name != ACTIVITY]
    pattern = values_of(log.events, ACTIVITY).rank("dense").fill_null(0).to_numpy().astype(np.int64)
    for missing in lacks:
        pattern = np.unique(2 * pattern + missing.to_numpy(), return_inverse=True)[1].astype(np.int64)
    return log.keep_events(log.kept | np.isin(pattern, pattern[log.kept]))


def without_their_values(log: EventLog, attribute: str | None) -> EventLog:
    """``log`` where inserted events have no value of ``attribute``."""
    if attribute is None or attribute.startswith(CASE_PREFIX) or attribute not in log.events.columns:
        return log
    values = values_of(log.events, attribute)
    alone = values.zip_with(pl.Series(log.kept), values.clear(len(values)))
    return replace(log, events=log.events.with_columns(alone.alias(attribute)))

"""What remains of a log for somebody who looks for inserted events: known only inside a run, never from a file."""

from dataclasses import replace

import numpy as np
import polars as pl

from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, EventLog


def stripped(log: EventLog) -> EventLog:
    """``log`` without the inserted events that show: no kept event of their activity lacks just the same attributes."""
    if log.inserted is None:
        return log
    columns = [log.events[ACTIVITY], *(column.is_null() for column in log.events.drop(ACTIVITY))]
    rows = pl.DataFrame([column.alias(str(place)) for place, column in enumerate(columns)])
    patterns = rows.unique(maintain_order=True).with_row_index("pattern")
    pattern = rows.join(patterns, on=rows.columns, how="left", nulls_equal=True, maintain_order="left")["pattern"]
    return log.keep_events(log.kept | np.isin(pattern.to_numpy(), pattern.to_numpy()[log.kept]))


def without_their_values(log: EventLog, attribute: str | None) -> EventLog:
    """``log`` where inserted events have no value of ``attribute``."""
    if attribute is None or attribute.startswith(CASE_PREFIX) or attribute not in log.events.columns:
        return log
    values = log.events[attribute]
    alone = values.zip_with(pl.Series(log.kept), values.clear(len(values)))
    return replace(log, events=log.events.with_columns(alone))

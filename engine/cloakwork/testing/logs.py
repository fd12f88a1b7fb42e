"""Small made-up logs."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import polars as pl

from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIME_TYPE, TIMESTAMP, EventLog

RESOURCE: Final = "org:resource"
BEGIN: Final = datetime(2020, 1, 1, tzinfo=UTC)


def log_of(
    sequences: Sequence[Sequence[str]], times: Sequence[Sequence[datetime | None]] | None = None
) -> EventLog:
    """One case an activity sequence; an event takes place an hour after the one before unless
    ``times`` says else.

    Every event has a resource that no other event has, so that rows can be followed; every case has
    ``case:row``.
    """
    if times is None:
        times = [
            [BEGIN + timedelta(days=row, hours=step) for step in range(len(labels))]
            for row, labels in enumerate(sequences)
        ]
    activities = [label for labels in sequences for label in labels]
    events = pl.DataFrame(
        {
            ACTIVITY: activities,
            TIMESTAMP: [time for case in times for time in case],
            RESOURCE: [f"r{position}" for position in range(len(activities))],
        },
        schema={ACTIVITY: pl.String, TIMESTAMP: TIME_TYPE, RESOURCE: pl.String},
    )
    names = [f"case {row}" for row in range(len(sequences))]
    cases = pl.DataFrame(
        {CASE_ID: names, "case:row": list(range(len(sequences)))},
        schema={CASE_ID: pl.String, "case:row": pl.Int64},
    )
    offsets = np.concatenate([[0], np.cumsum([len(labels) for labels in sequences])]).astype(
        np.int64
    )
    return EventLog(events, cases, offsets)

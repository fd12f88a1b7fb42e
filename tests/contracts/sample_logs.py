"""Small logs that tests are made of."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIME_TYPE, TIMESTAMP, EventLog

RESOURCE = "org:resource"
BEGIN = datetime(2020, 1, 1, tzinfo=UTC)


def log_of(
    courses: Sequence[Sequence[str]], times: Sequence[Sequence[datetime | None]] | None = None
) -> EventLog:
    """One case an activity sequence; an event takes place an hour after the one before unless
    ``times`` says else.

    Every event has a resource that no other event has, so that rows can be followed; every case has
    ``case:row``.
    """
    if times is None:
        times = [
            [BEGIN + timedelta(days=row, hours=step) for step in range(len(course))]
            for row, course in enumerate(courses)
        ]
    activities = [label for course in courses for label in course]
    events = pl.DataFrame(
        {
            ACTIVITY: activities,
            TIMESTAMP: [time for case in times for time in case],
            RESOURCE: [f"r{position}" for position in range(len(activities))],
        },
        schema={ACTIVITY: pl.String, TIMESTAMP: TIME_TYPE, RESOURCE: pl.String},
    )
    names = [f"case {row}" for row in range(len(courses))]
    cases = pl.DataFrame(
        {CASE_ID: names, "case:row": list(range(len(courses)))},
        schema={CASE_ID: pl.String, "case:row": pl.Int64},
    )
    offsets = np.concatenate([[0], np.cumsum([len(course) for course in courses])]).astype(np.int64)
    return EventLog(events, cases, offsets)


def courses_of(log: EventLog) -> list[tuple[str, ...]]:
    """The activities of each case, in case order."""
    labels = log.events[ACTIVITY].to_list()
    return [
        tuple(labels[log.offsets[row] : log.offsets[row + 1]]) for row in range(log.cases.height)
    ]


def times_of_cases(log: EventLog) -> list[list[datetime | None]]:
    """The times of each case, in case order."""
    times = log.events[TIMESTAMP].to_list()
    return [times[log.offsets[row] : log.offsets[row + 1]] for row in range(log.cases.height)]

"""Small logs that tests are made of, and what is read off them."""

from datetime import datetime

from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.testing.contract_logs import BEGIN, RESOURCE, log_of

__all__ = ["BEGIN", "RESOURCE", "courses_of", "log_of", "times_of_cases"]


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

"""Where in a keyed stream the draws for cases and events lie: the same in every batch."""

from cloakwork.base.arrays import Ints
from cloakwork.log.eventlog import EventLog
from cloakwork.noise import Addresses


def case_addresses(log: EventLog) -> Addresses:
    """The address of each case, by its index in the whole log."""
    return Addresses.of_cases(log.index_of_case)


def event_addresses(log: EventLog, rows: Ints) -> Addresses:
    """The address of each of the events at ``rows`` (int64): its case, and its position there."""
    return Addresses(log.index_of_case[log.case_of[rows]], log.position_of_event[rows])

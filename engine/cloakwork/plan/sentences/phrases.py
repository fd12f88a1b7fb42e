"""Phrases that the sentences about plans share."""

from cloakwork.base.lineage import TIMESTAMPS


def column_values(column: str) -> str:
    """What a column holds, as classes compare it: times count from the event before."""
    return "cycle times" if column == TIMESTAMPS else f"'{column}'"


def values_held_in(column: str) -> str:
    """What somebody may know of a column."""
    return "the times of its events" if column == TIMESTAMPS else f"the values of '{column}'"


def event_count(count: int) -> str:
    """So many events."""
    return "one event" if count == 1 else f"{count:,} events"

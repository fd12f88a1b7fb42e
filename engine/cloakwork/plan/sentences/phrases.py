"""Phrases that the sentences about plans share."""

from collections.abc import Iterable

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


def quoted(names: Iterable[str]) -> tuple[str, ...]:
    """Names of attributes, in quotation marks."""
    return tuple(f"'{name}'" for name in names)


def listed_with_and(names: Iterable[str]) -> str:
    """Names as people list them: ``a, b and c``."""
    return " and ".join(", ".join(names).rsplit(", ", 1))


def listed_with_or(names: Iterable[str]) -> str:
    """Names as a choice: ``'a', 'b' or 'c'``."""
    return " or ".join(", ".join(quoted(names)).rsplit(", ", 1))

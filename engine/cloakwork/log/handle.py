"""A log as its users hold it: in batches of whole cases, of which one at a time is in memory."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from cloakwork.log.eventlog import EventLog

T = TypeVar("T")


class LogHandle(Protocol):
    """A log in batches of whole cases; an ``EventLog`` is one of a single batch."""

    @property
    def case_count(self) -> int:
        """How many cases all batches have."""
        ...

    @property
    def event_count(self) -> int:
        """How many events all batches have."""
        ...

    def batches(self) -> "Iterator[EventLog]":
        """The batches, one after the other."""
        ...

    def each_batch(self, task: "Callable[[int, EventLog], T]") -> list[T]:
        """What ``task`` makes of the number of each batch, from 0, and of the batch, in their
        order.

        Results are small. A batch may be handled in another process: ``task`` and its results can
        be pickled.
        """
        ...

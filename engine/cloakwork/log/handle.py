"""A log that need not fit into memory: batches of whole cases, of which one at a time is read."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from cloakwork.log.eventlog import EventLog

T = TypeVar("T")


class LogHandle(Protocol):
    """A log in batches of whole cases; an ``EventLog`` is one with a single batch.

    Cases keep their order inside a batch, and batches theirs. All batches have the same columns of
    the same types.
    """

    @property
    def case_count(self) -> int:
        """How many cases there are."""
        ...

    @property
    def event_count(self) -> int:
        """How many events there are."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader did about irregularities, in plain words; internal, never released."""
        ...

    def batches(self) -> "Iterator[EventLog]":
        """The batches, one after the other."""
        ...

    def each_batch(self, task: "Callable[[int, EventLog], T]") -> list[T]:
        """What ``task`` returns of each batch and its number, in the order of batches.

        It may run in other processes, and more than once for a batch: it changes nothing, and what
        it returns is small and can be pickled.
        """
        ...

    def results(self, task: "Callable[[int, EventLog], T]") -> Iterator[T]:
        """As ``each_batch``, one after the other, for results that are not small together."""
        ...

    def with_columns_of(self, change: "Callable[[EventLog], EventLog]") -> "LogHandle":
        """The same cases and events with other columns: ``change`` of each batch, as often as it is
        read.
        """
        ...

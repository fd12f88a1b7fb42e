"""Where the tasks of a batched log run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

R = TypeVar("R")


class Executor(Protocol):
    """Runs one task for each of some places."""

    def run(self, task: Callable[[int], R], places: int) -> Iterator[R]:
        """What ``task`` returns for each place from 0, in their order.

        It may run in other processes, so that what it needs and returns can be pickled, and more
        than once for a place: of each place exactly one result counts.
        """
        ...


@dataclass(frozen=True, slots=True)
class InThisProcess:
    """One after the other."""

    def run(self, task: Callable[[int], R], places: int) -> Iterator[R]:
        """As ``Executor.run``."""
        return map(task, range(places))

"""A log in batches that is no engine's: what anything that reads batches is tried on."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from cloakwork.log.eventlog import EventLog

T = TypeVar("T")


@dataclass(frozen=True)
class InBatches:
    """``logs`` as the batches of one log; no ``EventLog``, as those of engines on disk are none."""

    logs: tuple[EventLog, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, log: EventLog, batches: int, *, indexed: bool = True) -> "InBatches":
        """Every so manieth case in a batch, with its index unless it is not ``indexed``."""
        whole = replace(log, case_index=np.arange(log.cases.height) if indexed else None)
        rows = np.arange(log.cases.height)
        return cls(tuple(whole.keep_cases(rows[place::batches]) for place in range(batches)))

    @property
    def case_count(self) -> int:
        """How many cases there are."""
        return sum(log.cases.height for log in self.logs)

    @property
    def event_count(self) -> int:
        """How many events there are."""
        return sum(log.events.height for log in self.logs)

    def batches(self) -> Iterator[EventLog]:
        """One after the other."""
        return iter(self.logs)

    def each_batch(self, task: Callable[[int, EventLog], T]) -> list[T]:
        """In this process."""
        return [task(place, log) for place, log in enumerate(self.logs)]

    def with_columns_of(self, change: Callable[[EventLog], EventLog]) -> "InBatches":
        """At once."""
        return replace(self, logs=tuple(change(log) for log in self.logs))

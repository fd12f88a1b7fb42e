"""A log in several batches, in memory: the smallest thing that is a ``LogHandle``."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cloakwork.engines.batched import LocalEngine
from cloakwork.engines.batches import collected
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats.round_trip import TypesReadBack
from cloakwork.mechanisms.steps import Rewrite
from cloakwork.run.prepare import SourceFigures
from cloakwork.testing.contract_logs import Batches

T = TypeVar("T")


def as_read_back(log: EventLog, output: str) -> EventLog:
    """``log`` as it will be when it is written as ``output`` (``xes``, ``csv``, ``parquet``, packed
    or not) and read.
    """
    types = TypesReadBack(output)
    return types.read_back(log, types.merge(types.of(log)))


def rewritten_in_batches(log: EventLog, batches: int, action: Rewrite) -> EventLog:
    """``log`` as ``action`` leaves it, in so many random batches on disk."""
    engine = LocalEngine()
    parted = Batches.random(log, batches)
    opened = engine.open(parted, lambda each: each, None, SourceFigures()).log
    return collected(engine.rewrite(opened, action))


@dataclass(frozen=True)
class LogInParts:
    """Its batches, one after the other."""

    parts: tuple[EventLog, ...]

    @classmethod
    def of(cls, log: EventLog, part_of_case: NDArray[np.int64], count: int) -> "LogInParts":
        """``log`` in ``count`` parts, some of which may be empty."""
        parts = Batches.of(log, part_of_case)
        none = log.keep_cases(np.zeros(0, np.int64))
        return cls((*parts, *[none] * (count - len(parts))))

    @classmethod
    def evenly(cls, log: EventLog, count: int) -> "LogInParts":
        """Case ``i`` lies in part ``i % count``."""
        return cls.of(log, np.arange(log.cases.height) % count, count)

    @property
    def case_count(self) -> int:
        return sum(part.case_count for part in self.parts)

    @property
    def event_count(self) -> int:
        return sum(part.event_count for part in self.parts)

    @property
    def notes(self) -> tuple[str, ...]:
        return self.parts[0].notes

    def batches(self) -> Iterator[EventLog]:
        yield from self.parts

    def results(self, task: Callable[[int, EventLog], T]) -> Iterator[T]:
        for number, part in enumerate(self.parts):
            yield task(number, part)

    def with_columns_of(self, change: Callable[[EventLog], EventLog]) -> "LogInParts":
        return LogInParts(tuple(change(part) for part in self.parts))

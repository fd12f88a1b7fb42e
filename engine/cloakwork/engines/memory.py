"""The engine in memory: one process, polars, the whole log as one batch unless told otherwise."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.engines.batches import in_batches, kept_together, mapped_cases, merged_summary
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.base import Aggregate, GenerateCases, MapCasesBySummary, Rewrite


class Engine(Protocol):
    """Where the two kinds of work on rows happen; everything else is the same on every engine."""

    def summarise(self, log: EventLog, aggregate: Aggregate | None) -> pl.DataFrame:
        """The aggregate over all cases; an empty table where a mechanism needs none."""
        ...

    def rewrite(self, log: EventLog, action: Rewrite) -> EventLog:
        """Carry out a mechanism's decision on all cases, which stay in their order."""
        ...


BatchOfCase = Callable[[int], NDArray[np.int64]]
"""For a log of so many cases the batch of each: int64, shape (cases,), from 0."""


def one_batch(cases: int) -> NDArray[np.int64]:
    """All cases in one batch."""
    return np.zeros(cases, np.int64)


@dataclass(frozen=True, slots=True)
class MemoryEngine:
    """Runs in this process, in ``batches`` batches: ``batch_of_case`` says which case goes where.

    What is released is the same for any of these; more than one is for tests of that.
    """

    batches: int = 1
    batch_of_case: BatchOfCase = one_batch

    def summarise(self, log: EventLog, aggregate: Aggregate | None) -> pl.DataFrame:
        """The merged aggregates of the batches."""
        batches = in_batches(log, self.batch_of_case(log.cases.height), self.batches)
        return merged_summary(batches, aggregate)

    def rewrite(self, log: EventLog, action: Rewrite) -> EventLog:
        """Map the cases of each batch, or make new ones."""
        if isinstance(action, GenerateCases):
            return action.make()
        if isinstance(action, MapCasesBySummary):
            action = action.mapping(self.summarise(log, action.aggregate))
        batch_of_case = self.batch_of_case(log.cases.height)
        batches = in_batches(log, kept_together(log, action, batch_of_case), self.batches)
        return mapped_cases(batches, action)

"""The engine in memory: one process, polars, the whole log as one batch unless told otherwise."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.engines.batches import (
    generated_cases,
    in_batches,
    kept_together,
    mapped_cases,
    merged_summary,
)
from cloakwork.log.eventlog import EventLog
from cloakwork.log.handle import LogHandle
from cloakwork.log.joined import joined_batches
from cloakwork.mechanisms.base import (
    Aggregate,
    EnrichCases,
    GenerateCases,
    MapCases,
    MapCasesBySummary,
    Rewrite,
)


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
            return self._generated(action)
        if isinstance(action, EnrichCases):
            return self.rewrite(whole(action.cases), MapCases(action.apply, together="case"))
        if isinstance(action, MapCasesBySummary):
            action = action.mapping(self.summarise(log, action.aggregate))
        batch_of_case = self.batch_of_case(log.cases.height)
        batches = in_batches(log, kept_together(log, action, batch_of_case), self.batches)
        return mapped_cases(batches, action)

    def _generated(self, action: GenerateCases) -> EventLog:
        """The cases of all ranges, as many as there are batches."""
        bounds = np.linspace(0, action.cases, self.batches + 1).astype(int).tolist()
        made = [generated_cases(action, *of_range) for of_range in pairwise(bounds)]
        log = made[0] if len(made) == 1 else joined_batches(made)
        return replace(log, case_index=None)


def whole(log: LogHandle) -> EventLog:
    """All batches of a log as one."""
    if isinstance(log, EventLog):
        return log
    return replace(joined_batches(list(log.batches())), case_index=None)

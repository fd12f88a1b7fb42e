"""The engine in memory: one process, polars, the whole log as one batch unless told otherwise."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.engines.base import Opened, shuffled, summary_of
from cloakwork.engines.batches import (
    collected,
    generated_cases,
    in_batches,
    kept_together,
    mapped_cases,
)
from cloakwork.log.eventlog import EventLog, LogHandle, joined_batches
from cloakwork.mechanisms.steps import (
    Aggregate,
    EnrichCases,
    GenerateCases,
    MapCases,
    MapCasesBySummary,
    Rewrite,
)
from cloakwork.noise import Stream

BatchOfCase = Callable[[int], Ints]
"""For a log of so many cases the batch of each: int64, shape (cases,), from 0."""


def one_batch(cases: int) -> Ints:
    """All cases in one batch."""
    return np.zeros(cases, np.int64)


@dataclass(frozen=True, slots=True)
class MemoryEngine:
    """Runs in this process, in ``batches`` batches: ``batch_of_case`` says which case goes where.

    What is released is the same for any of these; more than one is for tests of that.
    """

    batches: int = 1
    batch_of_case: BatchOfCase = one_batch
    name: str = "memory"

    def open(
        self,
        source: object,
        prepare: Callable[[EventLog], EventLog],
        unit: str | None,
        seen: Aggregate,
    ) -> Opened:
        """See ``Engine``; ``source`` is an event log."""
        log = in_memory(source)
        return Opened(prepare(log), summary_of([log], seen))

    def summarise(self, log: LogHandle, aggregate: Aggregate | None) -> pl.DataFrame:
        """The merged aggregates of the batches."""
        log = in_memory(log)
        batches = in_batches(
            log,
            self.batch_of_case(log.cases.height),
            self.batches,
        )
        return summary_of(batches, aggregate)

    def rewrite(self, log: LogHandle, action: Rewrite) -> EventLog:
        """Map the cases of each batch, or make new ones."""
        log = in_memory(log)
        if isinstance(action, GenerateCases):
            bounds = np.linspace(0, action.cases, self.batches + 1).astype(int).tolist()
            made = [generated_cases(action, *of_range) for of_range in pairwise(bounds)]
            generated = made[0] if len(made) == 1 else joined_batches(made)
            return replace(generated, case_index=None)
        if isinstance(action, EnrichCases):
            return self.rewrite(collected(action.cases), MapCases(action.apply, together="case"))
        if isinstance(action, MapCasesBySummary):
            action = action.mapping(self.summarise(log, action.aggregate))
        # What belongs together is moved together.
        batch_of_case = self.batch_of_case(log.cases.height)
        batches = in_batches(log, kept_together(log, action, batch_of_case), self.batches)
        return mapped_cases(batches, action)

    def choose_cases(self, log: LogHandle, change: Callable[[EventLog], EventLog]) -> EventLog:
        """See ``Engine``."""
        return replace(change(in_memory(log)), case_index=None)

    def shuffle(self, log: LogHandle, stream: Stream) -> EventLog:
        """See ``Engine``."""
        return shuffled(in_memory(log), stream)


def in_memory(log: object) -> EventLog:
    """``log``, where it is one in memory."""
    if not isinstance(log, EventLog):
        raise TypeError(f"an event log in memory is needed (got {type(log).__name__})")
    return log

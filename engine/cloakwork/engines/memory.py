"""The engine in memory: one process, polars, the whole log as one batch."""

from dataclasses import replace

import polars as pl

from cloakwork.base.frozen import frozen
from cloakwork.engines.base import Opened, shuffled, summary_of
from cloakwork.engines.batches import generated_cases, kept_cases, parts_of
from cloakwork.log.eventlog import Aggregate, Change, EventLog, LogHandle, joined_batches
from cloakwork.mechanisms.steps import (
    EnrichCases,
    GenerateCases,
    MapCasesBySummary,
    Rewrite,
)
from cloakwork.noise import Stream


@frozen
class MemoryEngine:
    """Runs in this process."""

    name: str = "memory"

    def open(
        self,
        source: object,
        prepare: Change,
        unit: str | None,
        seen: Aggregate,
    ) -> Opened:
        """See ``Engine``; ``source`` is an event log."""
        log = in_memory(source)
        return Opened(prepare(log), summary_of(log, seen))

    def summarise(self, log: LogHandle, aggregate: Aggregate | None) -> pl.DataFrame:
        """See ``Engine``."""
        return summary_of(_indexed(log), aggregate)

    def rewrite(self, log: LogHandle, action: Rewrite) -> EventLog:
        """Map the cases, or make new ones."""
        log = in_memory(log)
        if isinstance(action, GenerateCases):
            return replace(generated_cases(action, 0, action.cases), case_index=None)
        if isinstance(action, EnrichCases):
            found = [action.apply(part) for part in parts_of(action.cases, action.size)]
            return joined_batches(found) if len(found) > 1 else found[0]
        if isinstance(action, MapCasesBySummary):
            action = action.mapping(self.summarise(log, action.aggregate))
        log = _indexed(log)
        return kept_cases(log, action.apply(log))

    def choose_cases(self, log: LogHandle, change: Change) -> EventLog:
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


def _indexed(log: object) -> EventLog:
    """A log whose cases know where they stand."""
    log = in_memory(log)
    return replace(log, case_index=log.index_of_case)

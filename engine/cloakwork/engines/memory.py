"""The engine in memory: one process, polars, the whole log as one batch."""

from typing import Protocol

import polars as pl

from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.base import Aggregate, GenerateCases, Rewrite


class Engine(Protocol):
    """Where the two kinds of work on rows happen; everything else is the same on every engine."""

    def summarise(self, log: EventLog, aggregate: Aggregate | None) -> pl.DataFrame:
        """The aggregate over all cases; an empty table where a mechanism needs none."""
        ...

    def rewrite(self, log: EventLog, action: Rewrite) -> EventLog:
        """Carry out a mechanism's decision on all cases."""
        ...


class MemoryEngine:
    """Runs in this process."""

    def summarise(self, log: EventLog, aggregate: Aggregate | None) -> pl.DataFrame:
        """The aggregate of the one batch that there is."""
        return pl.DataFrame() if aggregate is None else aggregate.of(log)

    def rewrite(self, log: EventLog, action: Rewrite) -> EventLog:
        """Map all cases at once, or make new ones."""
        return action.make() if isinstance(action, GenerateCases) else action.apply(log)

"""The engine for logs that do not fit into memory: batches on this machine's disk."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from cloakwork.engines.base import EVENTS_OF_A_BATCH, EVENTS_OF_A_PART, Opened
from cloakwork.engines.batch_files import BatchFile, write_batch
from cloakwork.engines.batched import BatchedEngine, BatchedLog, new_paths
from cloakwork.engines.executors import Executor, InThisProcess
from cloakwork.engines.sources import BatchSource
from cloakwork.engines.workspace import Workspace
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.base import Aggregate

Change = Callable[[EventLog], EventLog]

_KEY: Final = 32


class LocalEngine(BatchedEngine):
    """Batches in a private folder of this machine."""

    def __init__(
        self,
        *,
        executor: Executor | None = None,
        workspace: Workspace | None = None,
        batch_events: int = EVENTS_OF_A_BATCH,
        part_events: int = EVENTS_OF_A_PART,
    ) -> None:
        super().__init__(
            executor or InThisProcess(),
            workspace or Workspace(),
            "local",
            batch_events,
            part_events,
        )

    def open(self, source: object, prepare: Change, unit: str | None, seen: Aggregate) -> Opened:
        """See ``Engine``. ``source``: what reads batches of whole cases, or an event log."""
        if isinstance(source, EventLog):
            source = _Slices.of(source, self.batch_events)
        if not isinstance(source, BatchSource):
            raise TypeError(f"the local engine opens no {type(source).__name__}")
        load, new_path = source.load, new_paths(self.workspace)

        def prepared(place: int) -> tuple[BatchFile, pl.DataFrame, tuple[str, ...]]:
            raw = load(place)
            log = prepare(raw)
            return write_batch(log, new_path()), seen.of(raw), log.notes

        found = list(self.executor.run(prepared, source.places))
        notes = tuple(dict.fromkeys(note for _, _, own in found for note in own))
        log = self.stored(tuple(file for file, _, _ in found), unit=None, notes=notes)
        merged = seen.merge(pl.concat([table for _, table, _ in found]))
        return Opened(self._with_units(self.numbered(log), unit), merged)

    def _with_units(self, log: BatchedLog, unit: str | None) -> BatchedLog:
        return log if unit is None else self.by_unit(log, unit, os.urandom(_KEY))


class _Slices:
    """A log in memory as batches of its cases, which are few and lie as they come."""

    def __init__(self, log: EventLog, places: int) -> None:
        self.places: Final = places
        self._log = log

    @classmethod
    def of(cls, log: EventLog, batch_events: int) -> "_Slices":
        """Of about so many events each."""
        indexed = replace(log, case_index=log.index_of_case)
        return cls(indexed, max(1, round(log.events.height / batch_events)))

    def load(self, place: int) -> EventLog:
        """As ``BatchSource.load``."""
        chosen = np.arange(place, self._log.cases.height, self.places)
        return self._log.keep_cases(chosen)

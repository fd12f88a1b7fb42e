"""The engine for logs that do not fit into memory: batches on this machine's disk."""

import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.progress import counted
from cloakwork.engines.base import EVENTS_OF_A_BATCH, EVENTS_OF_A_PART, Opened
from cloakwork.engines.batch_files import BatchFile, write_batch
from cloakwork.engines.batched import BatchedEngine, BatchedLog, new_paths
from cloakwork.engines.batches import first_of_unit
from cloakwork.engines.executors import Executor, InThisProcess
from cloakwork.engines.partition import partition
from cloakwork.engines.sources import BatchSource
from cloakwork.engines.workspace import Workspace
from cloakwork.log.eventlog import CASE_ID, EventLog
from cloakwork.log.formats.row_source import RowSource
from cloakwork.mechanisms.steps import Aggregate

Change = Callable[[EventLog], EventLog]


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
        """See ``Engine``. ``source``: rows of a log, batches of whole cases, or an event log."""
        # Raw rows are not needed once batches of cases are made of them.
        with TemporaryDirectory(dir=self.workspace.path) as folder:
            log, merged = self._prepared(self._batches_of(source, Path(folder)), prepare, seen)
        numbered = self.numbered(log)
        if unit is None:
            return Opened(numbered, merged)
        return Opened(self.by_unit(numbered, unit, secrets.randbits(64)), merged)

    def _prepared(
        self, batches: BatchSource, prepare: Change, seen: Aggregate
    ) -> tuple[BatchedLog, pl.DataFrame]:
        load, new_path = batches.load, new_paths(self.workspace)

        def prepared(place: int) -> tuple[BatchFile, pl.DataFrame, tuple[str, ...]]:
            raw = load(place)
            log = prepare(raw)
            return write_batch(log, new_path()), seen.of(raw), log.notes

        done = self.executor.run(prepared, len(batches))
        found = list(counted(done, len(batches), "preparing batch"))
        notes = tuple(dict.fromkeys(note for _, _, own in found for note in own))
        log = self.stored(tuple(file for file, _, _ in found), notes=notes)
        return log, seen.merge(pl.concat([table for _, table, _ in found]))

    def _batches_of(self, source: object, folder: Path) -> BatchSource:
        """``folder``: for rows that are parted."""
        if isinstance(source, EventLog):
            return _Slices.of(source, self.batch_events)
        if isinstance(source, RowSource):
            return partition(source, folder, secrets.token_bytes(32))
        if isinstance(source, BatchSource):
            return source
        raise TypeError(f"the local engine opens no {type(source).__name__}")


class _Slices:
    """A log in memory as batches of its cases, which are few and lie as they come; those of one id
    lie together, so that preparing a batch refuses them.
    """

    def __init__(self, log: EventLog, places: int) -> None:
        self._places: Final = places
        self._log = log
        self._place_of_case = first_of_unit(log, CASE_ID) % places

    @classmethod
    def of(cls, log: EventLog, batch_events: int) -> "_Slices":
        """Of about so many events each."""
        indexed = replace(log, case_index=log.index_of_case)
        return cls(indexed, max(1, round(log.events.height / batch_events)))

    def __len__(self) -> int:
        return self._places

    def load(self, place: int) -> EventLog:
        """As ``BatchSource.load``."""
        return self._log.keep_cases(np.flatnonzero(self._place_of_case == place))

"""Logs that do not fit into memory: batches in files, one task a batch; the engine ``local``, and
what it shares with ``spark``.
"""

import pickle
import secrets
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints, Words, offsets_of
from cloakwork.base.files import remove_if_possible
from cloakwork.base.naming import values_of
from cloakwork.base.progress import counted
from cloakwork.engines.base import (
    EVENTS_OF_A_BATCH,
    EVENTS_OF_A_PART,
    BatchSource,
    Opened,
    needs_all_cases,
    order_keys,
    part_bounds,
    shuffled,
)
from cloakwork.engines.batch_files import (
    BatchFile,
    CaseNumbers,
    numbers_of_cases,
    read_batch,
    read_segments,
    write_batch,
    write_segments,
)
from cloakwork.engines.batches import (
    case_ranges,
    collected,
    first_of_unit,
    generated_cases,
    in_order,
    kept_cases,
    parts_of,
)
from cloakwork.engines.executors import Executor, InThisProcess
from cloakwork.engines.partition import partition
from cloakwork.engines.workspace import Workspace, new_paths, writing_to
from cloakwork.log.eventlog import CASE_ID, Aggregate, Change, EventLog, LogHandle, merged
from cloakwork.log.formats.row_source import RowSource
from cloakwork.mechanisms.steps import (
    EnrichCases,
    GenerateCases,
    MapCasesBySummary,
    Rewrite,
)
from cloakwork.noise import Stream

T = TypeVar("T")

_WORDS: Final = 1 << 64

_SLICES_A_PART: Final = 4


class SharedFiles:
    """Files of a workspace that are removed when no log needs them any more."""

    def __init__(self, paths: Iterable[Path]) -> None:
        for path in paths:
            weakref.finalize(self, remove_if_possible, path)


@dataclass(frozen=True)
class BatchedLog:
    """Batches in files, and what is done to each whenever it is read.

    ``changes``: rewrites of batches that no task has carried out yet, so that a step reads and
    writes no files of its own. ``numbers``: the index of each case, where it is not that of the
    files. ``owned``: the files, and those of the numbers. ``counted``: cases and events; None: not
    before they are counted.
    """

    files: tuple[BatchFile, ...]
    workspace: Workspace
    executor: Executor
    owned: tuple[SharedFiles, ...] = field(repr=False)
    unit: str | None = None
    notes: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    numbers: CaseNumbers | None = None
    counted: tuple[int, int] | None = None

    @property
    def case_count(self) -> int:
        """How many cases there are."""
        return self._counts()[0]

    @property
    def event_count(self) -> int:
        """How many events there are."""
        return self._counts()[1]

    def batches(self) -> Iterator[EventLog]:
        """The batches, one after the other, in this process."""
        read = self._reader()
        # A generator holds this log, and with it the files, until it is done.
        for place in range(len(self.files)):
            yield read(place)

    def results(self, task: Callable[[int, EventLog], T], doing: str = "batch") -> Iterator[T]:
        """See ``LogHandle``; how many are done is said as ``doing`` 3 of 9."""
        read = self._reader()
        places = len(self.files)
        found = self.executor.run(lambda place: task(place, read(place)), places)
        yield from counted(found, places, doing)

    def results_of(self, make: Callable[[int, EventLog], T]) -> Callable[..., Iterator[Any]]:
        """As ``results``, of tasks on what ``make`` makes of each batch: that is made once, and
        kept in a file from one pass to the next.
        """
        read = self._reader()
        path = new_paths(self.workspace)
        paths = [path() for _ in self.files]
        owned = SharedFiles(paths)

        def made(place: int) -> T:
            file = paths[place]
            if file.exists():
                found: T = pickle.loads(file.read_bytes())  # noqa: S301 - written below
                return found
            found = make(place, read(place))
            # A task may run twice at a time: what is there is whole, and the same.
            with writing_to(file):
                own = path()
                own.write_bytes(pickle.dumps(found, 5))
                own.replace(file)
            return found

        def results(task: Callable[[T], Any]) -> Iterator[Any]:
            assert owned  # noqa: S101 - holds the files for as long as somebody may ask
            found = self.executor.run(lambda place: task(made(place)), len(paths))
            yield from counted(found, len(paths), "batch")

        return results

    def with_columns_of(self, change: Change) -> "BatchedLog":
        """See ``LogHandle``."""
        return replace(self, changes=(*self.changes, change))

    def changed_by(self, change: Change) -> "BatchedLog":
        """The cases that ``change`` makes of each batch."""
        return replace(self.with_columns_of(change), counted=None)

    def _reader(self) -> Callable[[int], EventLog]:
        """What reads a batch; it holds neither the workspace nor the executor."""
        files = self.files
        numbers = self.numbers
        changes = self.changes

        def read(place: int) -> EventLog:
            log = read_batch(files[place])
            # Numbers before changes: they were found for the cases of the files.
            if numbers is not None:
                log = numbers.applied(place, log)
            for change in changes:
                log = change(log)
            return log

        return read

    def _counts(self) -> tuple[int, int]:
        if self.counted is not None:
            return self.counted
        of_batches = self.results(lambda _, log: (log.cases.height, log.events.height))
        cases, events = (sum(counts) for counts in zip(*of_batches, strict=True))
        object.__setattr__(self, "counted", (cases, events))  # counted once
        return cases, events


@dataclass(frozen=True)
class _Cuts:
    """Batches cut into segments. ``cases``: int64, how many each place has, in all batches."""

    files: tuple[BatchFile, ...]
    cases: Ints
    no_cases: EventLog
    owned: SharedFiles = field(repr=False)

    @property
    def events(self) -> int:
        """How many events there are."""
        return sum(file.events for file in self.files)

    def reader(self) -> Callable[[range], EventLog]:
        """What reads the cases of some places that follow one another; in any process."""
        files = self.files
        no_cases = self.no_cases

        def read(places: range) -> EventLog:
            found = read_segments(files, places)
            return no_cases if found is None else found

        return read


@dataclass(frozen=True)
class BatchedEngine:
    """Works on batches in files; what ``local`` and ``spark`` share.

    ``batch_events``: about how many events a batch has. ``part_events``: about how many events a
    file of the release has.
    """

    executor: Executor
    workspace: Workspace
    name: str = "local"
    batch_events: int = EVENTS_OF_A_BATCH
    part_events: int = EVENTS_OF_A_PART

    def store(
        self,
        task: Callable[[int], EventLog],
        places: int,
        *,
        unit: str | None = None,
        notes: tuple[str, ...] = (),
    ) -> BatchedLog:
        """The log whose batches ``task`` makes."""
        # Each task writes a file of its own: it may run in any process, and twice.
        new_path = new_paths(self.workspace)
        files = self.executor.run(lambda place: write_batch(task(place), new_path()), places)
        done = counted(files, places, "writing batch")
        return self.stored(tuple(done), unit=unit, notes=notes)

    def stored(
        self,
        files: tuple[BatchFile, ...],
        *,
        unit: str | None = None,
        notes: tuple[str, ...] = (),
    ) -> BatchedLog:
        """The log of files that tasks wrote."""
        counted = sum(file.cases for file in files), sum(file.events for file in files)
        owned = (SharedFiles([file.path for file in files]),)
        return BatchedLog(
            files,
            self.workspace,
            self.executor,
            owned,
            unit,
            notes,
            counted=counted,
        )

    def numbered(self, log: BatchedLog) -> BatchedLog:
        """The log with its cases numbered from 0 in the order of their indexes."""
        # Ranks of indexes, found in little memory.
        indexes = log.results(lambda _, batch: batch.index_of_case, "numbering cases: batch")
        numbers = numbers_of_cases(indexes, self.workspace)
        own_file = SharedFiles([numbers.path])
        # Without changes the numbers are applied on reading; else new files are written.
        if not log.changes:
            return replace(
                log,
                numbers=numbers,
                owned=(log.owned[0], own_file),
            )

        def number(place: int, batch: EventLog) -> BatchFile:
            return write_batch(numbers.applied(place, batch), new_path())

        new_path = new_paths(self.workspace)
        files = tuple(log.results(number))
        return self.stored(files, unit=log.unit, notes=log.notes)

    def by_unit(
        self,
        log: BatchedLog,
        unit: str,
        key: int,
    ) -> BatchedLog:
        """The log with all cases of a unit in one batch; cases without one stay apart."""
        places = len(log.files)

        def place_of_case(batch: EventLog) -> Ints:
            if unit not in batch.cases.columns:
                return batch.index_of_case % places
            # A hash that nobody outside knows: the parts cannot be aimed at.
            owners = values_of(batch.cases, unit).cast(pl.String)
            hashes = keyed_hash(owners, key)
            alone = owners.is_null().to_numpy()
            number = batch.index_of_case.astype(np.uint64)
            return (np.where(alone, number, hashes) % np.uint64(places)).astype(np.int64)

        cuts = self._cut(log, place_of_case, places)
        read = cuts.reader()
        return self.store(
            lambda place: in_order(read(range(place, place + 1))),
            places,
            unit=unit,
            notes=log.notes,
        )

    def summarise(self, log: LogHandle, aggregate: Aggregate | None) -> pl.DataFrame:
        """See ``Engine``."""
        if aggregate is None:
            return pl.DataFrame()
        return merged(aggregate, _batched(log).results(lambda _, batch: aggregate.of(batch)))

    def rewrite(self, log: LogHandle, action: Rewrite) -> LogHandle:
        """See ``Engine``. What asks for the log in one batch gets it, in this process."""
        batched = _batched(log)
        if isinstance(action, GenerateCases):
            ranges = list(case_ranges(action, self.batch_events)) or [(0, 0)]
            make = partial(generated_cases, action)
            return self.store(
                lambda place: make(*ranges[place]),
                len(ranges),
                notes=batched.notes,
            )
        if isinstance(action, EnrichCases):
            # In this process, part after part: answers are read here.
            path = new_paths(self.workspace)
            parts = self._parts_of(action.cases, action.size)
            files = [write_batch(action.apply(part), path()) for part in parts]
            return self.stored(tuple(files), notes=batched.notes)
        if isinstance(action, MapCasesBySummary):
            action = action.mapping(self.summarise(log, action.aggregate))
        if needs_all_cases(action):
            if len(batched.files) > 1:
                file = write_batch(collected(batched), new_paths(self.workspace)())
                batched = self.stored(
                    (file,),
                    unit=batched.unit,
                    notes=batched.notes,
                )
        elif action.together == "unit" and action.unit not in (None, batched.unit):
            # Steps that work by unit need all of its cases in one batch.
            batched = self.by_unit(batched, action.unit, secrets.randbits(64))
        apply = action.apply
        return batched.changed_by(lambda batch: kept_cases(batch, apply(batch)))

    def _parts_of(self, log: LogHandle, size: int) -> Iterator[EventLog]:
        """As of ``parts_of``, of a log that may not fit into memory."""
        last = max(log.results(lambda _, batch: int(batch.index_of_case.max(initial=0))))
        if last < size or not isinstance(log, BatchedLog):
            yield from parts_of(log, size)
            return
        cuts = self._cut(log, lambda batch: batch.index_of_case // size, last // size + 1)
        read = cuts.reader()
        for place in np.flatnonzero(cuts.cases).tolist():
            yield in_order(read(range(place, place + 1)))

    def choose_cases(self, log: LogHandle, change: Change) -> BatchedLog:
        """See ``Engine``."""
        return self.numbered(_batched(log).changed_by(change))

    def shuffle(self, log: LogHandle, stream: Stream) -> BatchedLog:
        """See ``Engine``. Batch after batch is the order of the release; ``part_bounds`` says where
        one ends.
        """
        batched = _batched(log)
        # Slices of the random order, finer than the parts that are put together of them.
        before = sum(file.events for file in batched.files)
        slices = max(1, _SLICES_A_PART * before // self.part_events)
        # Slices of about equal width, of the 64 bits of an order key.
        width = np.uint64(min(-(-_WORDS // slices), _WORDS - 1))

        def slice_of_case(batch: EventLog) -> Ints:
            first, _ = order_keys(batch, stream)
            return np.minimum((first // width).astype(np.int64), slices - 1)

        # Cut into slices, then put together in parts.
        cuts = self._cut(batched, slice_of_case, slices)
        cases_until = offsets_of(cuts.cases)
        bounds = part_bounds(
            int(cases_until[-1]),
            cuts.events,
            self.part_events,
        )
        read = cuts.reader()

        def joined_part(place: int) -> EventLog:
            first = bounds[place]
            behind = bounds[place + 1]
            begin = max(0, int(np.searchsorted(cases_until, first, "right")) - 1)
            end = int(np.searchsorted(cases_until, behind, "left"))
            # All slices that the part reaches into; then its own cases alone.
            found = shuffled(read(range(begin, max(end, begin))), stream)
            moved = int(cases_until[begin])
            return found.slice_cases(first - moved, behind - moved)

        return self.store(
            joined_part,
            len(bounds) - 1,
            notes=log.notes,
        )

    def _cut(
        self,
        log: BatchedLog,
        place_of_case: Callable[[EventLog], Ints],
        places: int,
    ) -> "_Cuts":
        """Each batch, cut into a segment for each of ``places``."""
        new_path = new_paths(self.workspace)

        def cut(number: int, batch: EventLog) -> tuple[BatchFile, Ints, EventLog | None]:
            place = place_of_case(batch)
            # Cut along one sorted copy: each case is moved once.
            by_place = batch.keep_cases(np.argsort(place, kind="stable"))
            bounds = np.searchsorted(np.sort(place), np.arange(places + 1))
            segments = (
                by_place.slice_cases(begin, end) if begin < end else None
                for begin, end in pairwise(bounds.tolist())
            )
            file = write_segments(segments, new_path())
            no_cases = batch.keep_cases(np.zeros(0, np.int64)) if number == 0 else None
            return file, np.diff(bounds), no_cases

        files: list[BatchFile] = []
        cases = np.zeros(places, np.int64)
        first: EventLog | None = None
        for file, of_places, no_cases in log.results(cut, "dividing batch"):
            files.append(file)
            cases += of_places
            first = first or no_cases
        if first is None:
            raise AssertionError("a log has a batch at least")
        return _Cuts(
            tuple(files),
            cases,
            first,
            SharedFiles(file.path for file in files),
        )


def keyed_hash(texts: pl.Series, key: int) -> Words:
    """64 bits of each text by a key of 64 bits: which batch it belongs to, and nothing else."""
    return texts.hash(key).to_numpy()


def _batched(log: LogHandle) -> BatchedLog:
    if not isinstance(log, BatchedLog):
        raise TypeError(f"a log in batches is needed (got {type(log).__name__})")
    return log


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

    def open(
        self,
        source: object,
        prepare: Change,
        unit: str | None,
        seen: Aggregate,
    ) -> Opened:
        """See ``Engine``. ``source``: rows of a log, batches of whole cases, or an event log."""
        # Raw rows are not needed once batches of cases are made of them.
        with TemporaryDirectory(dir=self.workspace.path) as folder:
            log, merged = self._prepared(
                self._batches_of(source, Path(folder)),
                prepare,
                seen,
            )
        numbered = self.numbered(log)
        if unit is None:
            return Opened(numbered, merged)
        return Opened(self.by_unit(numbered, unit, secrets.randbits(64)), merged)

    def _prepared(
        self,
        batches: BatchSource,
        prepare: Change,
        seen: Aggregate,
    ) -> tuple[BatchedLog, pl.DataFrame]:
        load = batches.load
        new_path = new_paths(self.workspace)

        def prepared(place: int) -> tuple[BatchFile, pl.DataFrame, tuple[str, ...]]:
            raw = load(place)
            log = prepare(raw)
            return write_batch(log, new_path()), seen.of(raw), log.notes

        done = self.executor.run(prepared, len(batches))
        found = list(counted(done, len(batches), "preparing batch"))
        notes = tuple(dict.fromkeys(note for _, _, own in found for note in own))
        files, tables, _ = zip(*found, strict=True)
        return self.stored(files, notes=notes), merged(seen, tables)

    def _batches_of(self, source: object, folder: Path) -> BatchSource:
        """``folder``: for rows that are parted."""
        if isinstance(source, EventLog):
            return _Slices(source, self.batch_events)
        if isinstance(source, RowSource):
            return partition(source, folder, secrets.token_bytes(32))
        if isinstance(source, BatchSource):
            return source
        raise TypeError(f"the local engine opens no {type(source).__name__}")


class _Slices:
    """A log in memory as batches of about ``batch_events`` events, which are few; the cases of one
    id lie together, so that preparing a batch refuses them.
    """

    def __init__(self, log: EventLog, batch_events: int) -> None:
        self._places: Final = max(1, round(log.events.height / batch_events))
        self._log = replace(log, case_index=log.index_of_case)
        self._place_of_case = first_of_unit(log, CASE_ID) % self._places

    def __len__(self) -> int:
        return self._places

    def load(self, place: int) -> EventLog:
        """As ``BatchSource.load``."""
        return self._log.keep_cases(np.flatnonzero(self._place_of_case == place))

"""What batches of a log leave on disk: immutable Arrow files, segments of batches for other
batches, and the number of each case in the order of the indexes of all cases.
"""

import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from itertools import pairwise
from pathlib import Path
from typing import IO, Final, Generic, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.base.arrays import Ints, offsets_of
from cloakwork.base.frozen import frozen
from cloakwork.engines.workspace import Workspace, new_paths, writing_to
from cloakwork.log.eventlog import EventLog, joined_batches

# No column of a log begins so: readers take no name with a zero byte.
_INDEX: Final = "\0index"
_LENGTH: Final = "\0length"
_INSERTED: Final = "\0inserted"


@frozen
class BatchFile:
    """One batch in a file. ``bounds``: where each of its segments begins, and last where the last
    one ends, in bytes: int64, shape (segments + 1,).
    """

    path: Path
    cases: int
    events: int
    bounds: Ints = field(compare=False, repr=False)


def write_segments(segments: Iterable[EventLog | None], path: Path) -> BatchFile:
    """Write logs end to end, each to be read by itself; None: nothing for that place."""
    # End to end, so that one file holds all segments of a batch.
    cases = events = 0
    bounds = [0]
    with writing_to(path), private_file(path) as file:
        for log in segments:
            if log is not None and log.cases.height:
                _write_log(log, file)
                cases += log.cases.height
                events += log.events.height
            bounds.append(file.tell())
    return BatchFile(path, cases, events, np.array(bounds))


def write_batch(log: EventLog, path: Path) -> BatchFile:
    """Write a batch; one without cases keeps its columns."""
    with writing_to(path), private_file(path) as file:
        _write_log(log, file)
        return BatchFile(path, log.cases.height, log.events.height, np.array([0, file.tell()]))


def read_batch(file: BatchFile) -> EventLog:
    """What ``write_batch`` wrote."""
    return _read_log(file.path.read_bytes())


def read_segments(files: Sequence[BatchFile], places: range) -> EventLog | None:
    """The segments of these places, which follow one another, in all files, end to end; None where
    all are empty.
    """
    found = []
    for batch in files:
        # Neighbouring segments are read at once.
        bounds = batch.bounds[places.start : places.stop + 1].tolist()
        if bounds[0] == bounds[-1]:
            continue
        with batch.path.open("rb") as file:
            for begin, end in pairwise(bounds):
                if begin < end:
                    file.seek(begin)
                    found.append(_read_log(file.read(end - begin)))
    return joined_batches(found) if found else None


def private_file(path: Path) -> io.BufferedRandom:
    """A new file that its owner alone may read, to be written and read."""
    return os.fdopen(
        os.open(
            path,
            os.O_RDWR | os.O_CREAT | os.O_EXCL,
            0o600,
        ),
        "w+b",
    )


def _write_log(log: EventLog, file: IO[bytes]) -> None:
    # hstack and drop_in_place plan no query: most of what a small batch would cost.
    cases = log.cases.hstack(
        [
            pl.Series(_INDEX, log.index_of_case, pl.Int64),
            pl.Series(
                _LENGTH,
                np.diff(log.offsets),
                pl.Int64,
            ),
        ]
    )
    events = log.events
    if log.inserted is not None:
        events = events.hstack([pl.Series(_INSERTED, log.inserted)])
    tables = [_as_stream(cases), _as_stream(events)]
    header = json.dumps([len(table) for table in tables]).encode()
    file.write(len(header).to_bytes(8, "little") + header)
    for table in tables:
        file.write(table)


def _as_stream(table: pl.DataFrame) -> bytes:
    target = io.BytesIO()
    table.write_ipc_stream(target, compression="lz4")
    return target.getvalue()


def _read_log(content: bytes) -> EventLog:
    begin = 8 + int.from_bytes(content[:8], "little")
    of_cases, of_events = json.loads(content[8:begin])
    view = memoryview(content)
    cases = pl.read_ipc_stream(io.BytesIO(view[begin : begin + of_cases]))
    events = pl.read_ipc_stream(io.BytesIO(view[begin + of_cases : begin + of_cases + of_events]))
    lengths = cases.drop_in_place(_LENGTH).to_numpy()
    offsets = offsets_of(lengths)
    inserted = None
    if _INSERTED in events.columns:
        inserted = events.drop_in_place(_INSERTED).to_numpy().astype(np.bool_)
    index: Ints = cases.drop_in_place(_INDEX).to_numpy().astype(np.int64)
    return EventLog(events, cases, offsets, inserted=inserted, case_index=index)


Number = TypeVar("Number", np.int64, np.uint64)

_SAMPLED: Final = 512
"""Of so many numbers of a run one is kept in memory, to find ranges by."""

_RANGE: Final = 512
"""So many of these are a range: 250,000 numbers, or as many more as one number occurs."""

_BYTES: Final = 8
"""Of a number."""


class SortedRuns(Generic[Number]):
    """Runs of whole numbers of 64 bits. ``file``: an empty one of bytes, in which they are kept;
    closing it is left to who opened it.
    """

    def __init__(self, file: IO[bytes], number: type[Number]) -> None:
        self._file: Final = file
        self._number: Final[type[Number]] = number
        self._starts = [0]
        self._samples: list[NDArray[Number]] = []

    @property
    def starts(self) -> tuple[int, ...]:
        """How many numbers come before each run, and last how many there are."""
        return tuple(self._starts)

    def add(self, numbers: NDArray[Number]) -> None:
        """The next run: shape (numbers,), in any order. Raises OSError where the file is full."""
        ascending = np.sort(numbers)
        self._samples.append(ascending[::_SAMPLED].copy())
        self._starts.append(self._starts[-1] + len(ascending))
        self._file.seek(_BYTES * self._starts[-2])
        self._file.write(ascending.tobytes())

    def ranges(self) -> Iterator[list[NDArray[Number]]]:
        """Range after range, ascending, its numbers of each run, ascending. All that are equal lie
        in one range.
        """
        if not self._starts[-1]:
            return
        samples = np.sort(np.concatenate(self._samples))
        # Whatever is below the first of them is in the first range, with it.
        ends = np.unique(samples[_RANGE::_RANGE])
        bounds = [
            np.concatenate([[0], np.searchsorted(self._read(run, 0, count), ends), [count]])
            for run, count in enumerate(np.diff(self._starts).tolist())
        ]
        for number in range(len(ends) + 1):
            yield [
                self._read(run, int(of_run[number]), int(of_run[number + 1]))
                for run, of_run in enumerate(bounds)
            ]

    def _read(
        self,
        run: int,
        first: int,
        behind: int,
    ) -> NDArray[Number]:
        """The numbers of a run from one place on, before another."""
        self._file.seek(_BYTES * (self._starts[run] + first))
        packed = self._file.read(_BYTES * (behind - first))
        return np.frombuffer(packed, self._number)


@frozen
class CaseNumbers:
    """For each batch the numbers of its cases, in a file; fit to be pickled. ``starts``: how many
    cases come before each batch.
    """

    path: Path
    starts: tuple[int, ...] = field(repr=False)

    def applied(self, place: int, batch: EventLog) -> EventLog:
        """The batch at ``place``, which has the indexes that were numbered, with its numbers."""
        index = batch.index_of_case
        start = _BYTES * self.starts[place]
        ascending = np.fromfile(self.path, np.int64, len(index), offset=start)
        numbers = np.empty_like(ascending)
        numbers[np.argsort(index, kind="stable")] = ascending
        return replace(batch, case_index=numbers)


def numbers_of_cases(indexes: Iterable[Ints], workspace: Workspace) -> CaseNumbers:
    """Each case gets the number of cases with a smaller index. ``indexes``: those of the cases of
    batch after batch, of which one at a time is in memory.
    """
    # Indexes first, run after run; then their ranks.
    new_path = new_paths(workspace)
    path = new_path()
    with _kept_at(new_path()) as kept:
        runs = SortedRuns(kept, np.int64)
        for index in indexes:
            with writing_to(path):
                runs.add(index)
        with writing_to(path), private_file(path) as file:
            _write_ranks(runs, file)
    return CaseNumbers(path, runs.starts)


def _write_ranks(runs: SortedRuns[np.int64], file: IO[bytes]) -> None:
    """Where each number of the runs stands among all of them, run after run."""
    smaller = 0
    written = list(runs.starts)
    for of_runs in runs.ranges():
        ascending = np.sort(np.concatenate(of_runs))
        for run, numbers in enumerate(of_runs):
            ranks = smaller + np.searchsorted(ascending, numbers)
            file.seek(_BYTES * written[run])
            file.write(ranks.astype(np.int64).tobytes())
            written[run] += len(ranks)
        smaller += len(ascending)


@contextmanager
def _kept_at(path: Path) -> Iterator[IO[bytes]]:
    """A new file, which is gone afterwards."""
    with writing_to(path):
        file = private_file(path)
    try:
        yield file
    finally:
        # Closing writes what is left, which nobody reads any more: where the disk is full, that was
        # said before.
        with suppress(OSError):
            file.close()
        path.unlink(missing_ok=True)

"""The number of each case of a log in batches, in the order of the indexes of all cases: kept on
disk, and read batch by batch.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Final

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.engines.batch_files import private_file
from cloakwork.engines.sorted_runs import SortedRuns
from cloakwork.engines.workspace import Workspace, writing_to
from cloakwork.log.eventlog import EventLog

_BYTES: Final = 8
"""Of a number."""


@dataclass(frozen=True, slots=True)
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
    path = workspace.new_file(".numbers")
    with _kept_at(workspace.new_file(".indexes")) as kept:
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

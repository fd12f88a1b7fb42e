"""What batches leave on disk: numbers in order, and each case's number."""

import io
import pickle
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from cloakwork.base.arrays import Ints
from cloakwork.engines import batch_files
from cloakwork.engines.batch_files import SortedRuns, numbers_of_cases
from cloakwork.engines.workspace import Workspace
from cloakwork.errors import OutputError
from cloakwork.log.eventlog import EventLog
from contracts.sample_logs import log_of


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of some 40 numbers."""
    monkeypatch.setattr(batch_files, "_SAMPLED", 4)
    monkeypatch.setattr(batch_files, "_RANGE", 10)


def runs_of(file: IO[bytes], runs: list[Ints]) -> SortedRuns[np.int64]:
    kept = SortedRuns(file, np.int64)
    for run in runs:
        kept.add(run)
    return kept


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("distinct", [3, 50, 1 << 62])
def test_each_number_comes_once_in_its_run_and_in_order(distinct: int) -> None:
    """All that are equal come at once; empty runs are runs, too."""
    draws = np.random.default_rng(3)
    sizes = (0, 1, 700, 33, 0, 400)
    runs = [draws.integers(-distinct, distinct, size) for size in sizes]
    kept = runs_of(io.BytesIO(), runs)
    assert kept.starts == (0, 0, 1, 701, 734, 734, 1134)
    ranges = list(kept.ranges())
    for run, found in zip(runs, zip(*ranges, strict=True), strict=True):
        assert np.concatenate(found).tolist() == sorted(run.tolist())
    joined = [np.concatenate(of_runs) for of_runs in ranges]
    ends = [(each.min(), each.max()) for each in joined if len(each)]
    assert all(one[1] < other[0] for one, other in pairwise(ends))
    # A run may stand out of line by what lies between two of its samples.
    if distinct > 50:
        assert len(ranges) > 20
        assert max(map(len, joined)) <= 40 + 4 * len(runs)


def test_no_numbers_have_no_range() -> None:
    """No run, and an empty one."""
    assert list(runs_of(io.BytesIO(), []).ranges()) == []
    assert list(runs_of(io.BytesIO(), [np.zeros(0, np.int64)]).ranges()) == []


def test_hashes_keep_their_type() -> None:
    """Those above 2^63 as well."""
    hashes = np.array([1 << 63, 5, (1 << 64) - 1], np.uint64)
    kept = SortedRuns(io.BytesIO(), np.uint64)
    kept.add(hashes)
    (found,) = kept.ranges()
    assert found[0].tolist() == [5, 1 << 63, (1 << 64) - 1]


@pytest.mark.usefixtures("small_ranges")
def test_memory_goes_with_runs_and_samples(tmp_path: Path) -> None:
    """Of four times as many numbers one in four more is held, at 8 bytes, while they come; ranges
    are as large as before.
    """
    peaks = []
    for size in (20_000, 80_000):
        runs = [np.random.default_rng(run).integers(0, 1 << 62, size) for run in range(4)]
        with (tmp_path / str(size)).open("w+b") as file:
            tracemalloc.start()
            kept = runs_of(file, runs)
            # What a run takes while it is sorted and written is gone.
            held, _ = tracemalloc.get_traced_memory()
            ranges = kept.ranges()
            largest = max(sum(map(len, of_runs)) for of_runs in ranges)
            tracemalloc.stop()
        peaks.append((held, largest))
    (small, narrow), (large, wide) = peaks
    assert large < 4 * small < 4 * (4 * 20_000 * 8) / 3
    assert wide < 2 * narrow


def batch_of(index: Ints) -> EventLog:
    """Cases that stand there."""
    return replace(log_of(["a"] * len(index)), case_index=index)


def test_each_case_gets_the_number_of_smaller_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whatever order a batch has its cases, and whichever ranges they fall into; cases of one
    index have one number. It is the same in another process.
    """
    monkeypatch.setattr(batch_files, "_SAMPLED", 2)
    monkeypatch.setattr(batch_files, "_RANGE", 3)
    draws = np.random.default_rng(7)
    batches = [draws.integers(-60, 1 << 40, size) for size in (80, 0, 1, 55)]
    batches[3][:10] = batches[0][:10]
    space = Workspace(tmp_path)
    numbers = pickle.loads(pickle.dumps(numbers_of_cases(iter(batches), space)))
    ascending = np.sort(np.concatenate(batches))
    for place, index in enumerate(batches):
        found = numbers.applied(place, batch_of(index)).index_of_case
        assert found.tolist() == np.searchsorted(ascending, index).tolist()
    assert [path.name for path in space.path.iterdir()] == [numbers.path.name]
    assert numbers.path.stat().st_mode & 0o777 == 0o600


def test_what_stays_in_memory_does_not_grow_with_cases(tmp_path: Path) -> None:
    """Ten times as many cases in as many batches add at most half a byte a case. What else comes
    to be meanwhile, such as caches that are filled the first time, is far less.
    """
    space, held = Workspace(tmp_path), []
    for cases in (1_000, 10_000):
        batches = [np.arange(cases) + batch * cases for batch in range(5)]
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        numbers = numbers_of_cases(iter(batches), space)
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        held.append(after - before)
        assert numbers.starts == tuple(cases * batch for batch in range(6))
    assert held[1] - held[0] < 5 * (10_000 - 1_000) / 2


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the folder is too small, it is named; what fails in a task is not taken for it."""
    space = Workspace(tmp_path)

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(batch_files.SortedRuns, "add", fails)
        with pytest.raises(OutputError, match=r"cannot be written there \(No space left"):
            numbers_of_cases([np.arange(3)], space)
    assert list(space.path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        numbers_of_cases((np.fromfile(tmp_path / "no batch") for _ in range(2)), space)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_disk_that_is_full_for_what_is_written_late_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few numbers are held back, and written when they are read; closing fails once more."""

    def full(path: Path) -> IO[bytes]:
        path.touch()
        return Path("/dev/full").open("r+b")

    space = Workspace(tmp_path)
    monkeypatch.setattr(batch_files, "private_file", full)
    with pytest.raises(OutputError, match=r"cannot be written there \(No space left"):
        numbers_of_cases([np.arange(3)], space)
    assert not list(space.path.glob("*.indexes"))

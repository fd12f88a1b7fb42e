"""Numbers in runs, looked at range after range."""

import io
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from cloakwork.base.arrays import Ints
from cloakwork.engines import batch_files
from cloakwork.engines.batch_files import SortedRuns


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

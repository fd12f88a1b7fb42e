"""Which hashes of case ids stand in two parts, whether they lie in memory or in a file."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cloakwork.base.arrays import Words
from cloakwork.engines import batch_files
from cloakwork.errors import OutputError
from cloakwork.publishing import folder
from cloakwork.publishing.folder import IdHashes

ENDS = [number << 58 for number in range(64)] + [(number << 58) - 1 for number in range(1, 65)]
TWICE = np.sort(np.array(ENDS, np.uint64))
ONCE = TWICE ^ np.uint64(1 << 30)


def twice_in(parts: Sequence[Words]) -> list[int]:
    with IdHashes() as found:
        for hashes in parts:
            found.add(hashes)
        return [int(each) for each in found.twice()]


@pytest.mark.parametrize("in_memory", [0, 1 << 25])
def test_hashes_of_every_range_are_found(
    in_memory: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also of ranges of a few; each once, and no others; the file is gone afterwards."""
    monkeypatch.setattr(folder, "_IN_MEMORY", in_memory)
    monkeypatch.setattr(batch_files, "_SAMPLED", 3)
    monkeypatch.setattr(batch_files, "_RANGE", 3)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert twice_in([TWICE[::-1], np.concatenate([TWICE, ONCE]), ONCE[:0], TWICE]) == TWICE.tolist()
    assert twice_in([TWICE, ONCE]) == []
    assert twice_in([ONCE[:0]]) == []
    assert list(tmp_path.iterdir()) == []


def test_random_hashes_are_compared_as_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of two parts, and those twice in one."""
    monkeypatch.setattr(folder, "_IN_MEMORY", 1000)
    draws = np.random.default_rng(5)
    parts = [draws.integers(0, 1 << 16, 700).astype(np.uint64) << np.uint64(48) for _ in range(9)]
    values, counts = np.unique(np.concatenate(parts), return_counts=True)
    assert twice_in(parts) == values[counts > 1].tolist()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing of the release."""
    with IdHashes() as found, Path("/dev/full").open("wb", buffering=0) as full:
        monkeypatch.setattr(found._runs, "_file", full)
        with pytest.raises(OutputError, match=r"No space left on device\); set TMPDIR"):
            found.add(ONCE)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_what_is_written_late_is_one_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few hashes are held back, and closing fails once more."""
    with IdHashes() as found:
        full = Path("/dev/full").open("r+b")  # noqa: SIM115 - closed with what holds it
        monkeypatch.setattr(found, "_file", full)
        monkeypatch.setattr(found._runs, "_file", full)
        with pytest.raises(OutputError, match="No space left on device"):
            found.add(ONCE)
    assert full.closed

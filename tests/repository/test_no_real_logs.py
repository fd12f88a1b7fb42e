"""No real log and no large file slips into the repository."""

import hashlib
from pathlib import Path

import pytest

from repository.checkout import ROOT, tracked
from repository.committed_files import fault, faults

REAL_LOGS = ROOT.parent / "shared" / "logs"


def test_no_large_file_and_no_log() -> None:
    """Nothing over 2 MB; whole logs only in examples/logs; tests keep small fixtures."""
    assert faults([str(path.relative_to(ROOT)) for path in tracked()]) == []


@pytest.mark.parametrize(
    ("name", "size", "reason"),
    [
        ("docs/picture.png", 2_000_001, "at most 2,000,000"),
        ("examples/logs/hospital.xes.gz", 2_000_001, "at most 2,000,000"),
        ("receipt.xes.gz", 10, "is an event log"),
        ("examples/receipt.xes", 10, "is an event log"),
        ("benchmarks/log.parquet", 10, "is an event log"),
        ("tests/logs/edge/large.csv.gz", 80_001, "at most 80,000"),
        ("docs/picture.png", 2_000_000, None),
        ("examples/logs/hospital.xes.gz", 500_000, None),
        ("tests/logs/edge/small.csv.gz", 80_000, None),
        ("tests/policy/expected.yaml", 100_000, None),
    ],
)
def test_each_kind_of_file_is_judged(name: str, size: int, reason: str | None) -> None:
    """With its name and the reason; what belongs here is accepted."""
    said = fault(Path(name), size)
    assert said is None if reason is None else said.startswith(f"{name}: ") and reason in said


def test_no_real_log_is_tracked() -> None:
    """None of the real logs that lie beside the checkout, byte for byte."""
    if not REAL_LOGS.is_dir():
        pytest.skip("no folder of real logs lies beside this checkout")
    files = [path for path in REAL_LOGS.iterdir() if path.is_file() and path.name != "README.md"]
    sizes = {path.stat().st_size for path in files}
    suspects = [path for path in tracked() if path.stat().st_size in sizes]
    # Most often nothing has the size of a real log, and none needs to be read.
    digests = {hashlib.sha256(path.read_bytes()).digest() for path in files if suspects}
    found = [path for path in suspects if hashlib.sha256(path.read_bytes()).digest() in digests]
    assert found == []

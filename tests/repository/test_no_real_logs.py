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
    ],
)
def test_the_rule_refuses(name: str, size: int, reason: str) -> None:
    """Each kind of file that may not be committed is named with its reason."""
    said = fault(Path(name), size)
    assert said is not None
    assert said.startswith(f"{name}: ")
    assert reason in said


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("docs/picture.png", 2_000_000),
        ("examples/logs/hospital.xes.gz", 500_000),
        ("tests/logs/edge/small.csv.gz", 80_000),
        ("tests/policy/expected.yaml", 100_000),
    ],
)
def test_the_rule_accepts(name: str, size: int) -> None:
    """What belongs here."""
    assert fault(Path(name), size) is None


def test_no_real_log_is_tracked() -> None:
    """None of the real logs that lie beside the checkout, byte for byte."""
    if not REAL_LOGS.is_dir():
        pytest.skip(
            "no folder of real logs lies beside this checkout, so there is nothing to compare with"
        )
    real = {
        path.stat().st_size: path
        for path in REAL_LOGS.iterdir()
        if path.is_file() and path.name != "README.md"
    }
    suspects = [path for path in tracked() if path.stat().st_size in real]
    digests = {hashlib.sha256(path.read_bytes()).digest() for path in real.values()}
    assert [
        path for path in suspects if hashlib.sha256(path.read_bytes()).digest() in digests
    ] == []

"""No real log and no large file slips into the repository."""

import hashlib

import pytest

from house.checkout import ROOT, tracked

MAX_BYTES = 2_000_000
MAX_FIXTURE_BYTES = 80_000
LOG_ENDINGS = (
    ".xes",
    ".xes.gz",
    ".csv.gz",
    ".mxml",
    ".mxml.gz",
    ".parquet",
    ".jsonocel",
    ".xmlocel",
)
REAL_LOGS = ROOT.parent / "shared" / "logs"


def test_no_file_is_large() -> None:
    """Nothing over 2 MB."""
    assert [path for path in tracked() if path.stat().st_size > MAX_BYTES] == []


def test_logs_lie_where_logs_belong() -> None:
    """Whole logs only in examples/logs, where a script makes them; tests keep small fixtures."""
    logs = [
        path
        for path in tracked()
        if path.name.endswith(LOG_ENDINGS) and path.parent != ROOT / "examples" / "logs"
    ]
    assert [
        path
        for path in logs
        if path.stat().st_size > MAX_FIXTURE_BYTES or not path.is_relative_to(ROOT / "tests")
    ] == []


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

"""Whatever bytes a file holds, ``read_log`` gives a log or one line of ``LogError``, and nothing
else.
"""

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloakwork.errors import LogError
from cloakwork.log.formats import read_annotations, read_log

EDGE = Path(__file__).parents[1] / "logs" / "edge"
SETTINGS = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
SUFFIXES = (".xes", ".xes.gz", ".csv", ".csv.gz", ".parquet", "")
PIECES = [*b', ; " "" \' NA case:'.split(), b"\t", b"\n", b"\r\n", b"\n\n", b"\r", b"\0", b"\xff"]
PIECES.append(b"\xef\xbb\xbf")
WHOLE = sorted(path.name for path in EDGE.iterdir() if path.suffix in {".csv", ".parquet", ".gz"})


def _read(path: Path) -> None:
    for read in (read_log, read_annotations):
        try:
            read(path)
        except LogError as refusal:
            assert len(str(refusal).splitlines()) == 1
            assert refusal.problem.hint


@pytest.mark.parametrize("suffix", SUFFIXES)
@SETTINGS
@given(content=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_arbitrary_bytes(suffix: str, content: bytes, tmp_path: Path) -> None:
    """Files of nothing in particular."""
    path = tmp_path / f"log{suffix}"
    path.write_bytes(content)
    _read(path)


@pytest.mark.parametrize("name", WHOLE)
@SETTINGS
@given(seed=st.integers(0, 2**32 - 1))
def test_damaged_files(name: str, seed: int, tmp_path: Path) -> None:
    """A whole file with a few pieces inserted, removed or exchanged."""
    chance = random.Random(seed)
    content = (EDGE / name).read_bytes()
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(content) + 1)
        content = (
            content[:start]
            + chance.choice([*PIECES, b""])
            + content[start + chance.choice([0, 0, 1, 5]) :]
        )
    path = tmp_path / name
    path.write_bytes(content)
    _read(path)

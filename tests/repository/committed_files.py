"""What may not be committed: large files, and event logs other than the example logs.

A hook of pre-commit calls it as a program with the names of the files that are to be committed; a
test of the suite goes through all that are. It imports nothing of the project.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
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


def fault(path: Path, size: int) -> str | None:
    """Why a file of ``size`` bytes may not be committed, or None; ``path`` from the top folder."""
    if size > MAX_BYTES:
        return f"{path}: has {size:,} bytes; at most {MAX_BYTES:,} are committed"
    if not path.name.endswith(LOG_ENDINGS) or path.parent == Path("examples/logs"):
        return None
    if path.parts[0] != "tests":
        return f"{path}: is an event log; only examples/logs and small fixtures of tests hold logs"
    if size > MAX_FIXTURE_BYTES:
        return f"{path}: has {size:,} bytes; a log among tests has at most {MAX_FIXTURE_BYTES:,}"
    return None


def faults(names: list[str]) -> list[str]:
    """One line for each file that may not be committed; ``names`` from the top folder."""
    found = [fault(Path(name), (ROOT / name).stat().st_size) for name in names]
    return [line for line in found if line is not None]


if __name__ == "__main__":
    lines = faults(sys.argv[1:])
    print(*lines, sep="\n", end="\n" if lines else "")
    sys.exit(bool(lines))

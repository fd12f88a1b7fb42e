"""The checkout that the tests of the repository look at."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def tracked(*patterns: str) -> list[Path]:
    """The files that git would hand on: tracked ones and new ones it does not ignore; patterns as
    git reads them.
    """
    git = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    which = ["--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(
        [*git, *which], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def environment() -> dict[str, str]:
    """The variables of this process, with the source root on Python's path as pytest has it."""
    return os.environ | {"PYTHONPATH": str(ROOT / "engine")}

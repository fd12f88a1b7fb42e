"""Style, types and floors, checked by the tools that `make lint` runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from repository.checkout import ROOT, environment

BIN = Path(sys.executable).parent
TOOLS = {
    "ruff-check": [sys.executable, "-m", "ruff", "check", "."],
    "ruff-format": [sys.executable, "-m", "ruff", "format", "--check", "."],
    "mypy": [sys.executable, "-m", "mypy"],
    "lint-imports": [str(BIN / "lint-imports")],
}


@pytest.mark.parametrize("tool", TOOLS)
def test_tool_finds_nothing(tool: str) -> None:
    """Each tool, run on the whole tree from this test's environment, has nothing to say."""
    done = subprocess.run(
        TOOLS[tool], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (
        f"{tool} found something; `make lint` shows it too:\n{done.stdout}{done.stderr}"
    )

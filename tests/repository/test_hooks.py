"""The hooks of pre-commit: those of ``make lint``, all local, and one that refuses files."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from repository.checkout import ROOT

CONFIG = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
PROGRAM = ROOT / "tests" / "repository" / "committed_files.py"


def hooks() -> dict[str, dict[str, Any]]:
    """Each hook by its id."""
    return {hook["id"]: hook for repository in CONFIG["repos"] for hook in repository["hooks"]}


def test_nothing_is_downloaded() -> None:
    """Hooks of this repository only, each a program that is there already."""
    assert [repository["repo"] for repository in CONFIG["repos"]] == ["local"]
    assert {hook["language"] for hook in hooks().values()} == {"system"}


@pytest.mark.parametrize("tool", ["ruff check", "ruff format --check", "mypy", "lint-imports"])
def test_make_lint_and_the_hooks_run_the_same_tools(tool: str) -> None:
    """Whoever commits with the hooks finds nothing new in ``make lint``."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert f"$(BIN)/{tool}" in makefile
    assert [hook for hook in hooks().values() if hook["entry"].startswith(f".venv/bin/{tool}")]


def test_the_programs_of_the_repository_are_there() -> None:
    """The path in the last hook's entry."""
    python, name = hooks()["committed-files"]["entry"].split()
    assert python == ".venv/bin/python"
    assert ROOT / name == PROGRAM


def refused(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    """What the hook says of files, called as pre-commit calls it in a checkout in ``folder``."""
    program = folder / PROGRAM.relative_to(ROOT)
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM.read_text("utf-8"), "utf-8")
    return subprocess.run(
        [sys.executable, program, *names], cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_hook_refuses_a_log(tmp_path: Path) -> None:
    """By name, with a line for each such file, and exit code 1."""
    (tmp_path / "mine.xes").write_text("<log/>")
    (tmp_path / "notes.txt").write_text("nothing")
    done = refused(tmp_path, "mine.xes", "notes.txt")
    assert done.returncode == 1
    assert done.stdout.startswith("mine.xes: is an event log")
    assert done.stdout.count("\n") == 1


def test_the_hook_accepts_the_rest(tmp_path: Path) -> None:
    """In silence."""
    (tmp_path / "notes.txt").write_text("nothing")
    done = refused(tmp_path, "notes.txt")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

"""The hooks of pre-commit: those of ``make lint``, all local, and one that refuses files."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import Said
from repository.checkout import ROOT
from repository.pages import blocks_of

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


PAGE = ROOT / "docs" / "budgets-and-approvals.md"


def for_users() -> dict[str, dict[str, Any]]:
    """The hooks that other repositories use, by their id."""
    text = (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")
    return {hook["id"]: hook for hook in yaml.safe_load(text)}


def shown(key: str) -> Any:
    """The YAML of the page on approvals that has this key."""
    documents = [yaml.safe_load(block.code) for block in blocks_of(PAGE) if block.said("not run")]
    (found,) = [document for document in documents if key in document]
    return found


@pytest.fixture
def policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a policy that is fine, and one whose k is small."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "policies"
    folder.mkdir()
    text = (ROOT / "policies" / "kanon-control-flow.yaml").read_text("utf-8")
    (folder / "permits.yaml").write_text(text, "utf-8")
    (folder / "-small; k.yaml").write_text(text.replace("k: 10", "k: 2"), "utf-8")
    return tmp_path


def test_the_page_shows_the_hooks_that_there_are() -> None:
    (repository,) = shown("repos")["repos"]
    assert [hook["id"] for hook in repository["hooks"]] == list(for_users())
    for hook in for_users().values():
        assert re.search(hook["files"], "policies/permits.yaml")
        assert (hook["language"], hook["types"]) == ("python", ["yaml"])


NOTES_ITS_CALLS = """#!/bin/sh
printf '%s\\0' "$@" >> calls
printf '\\n' >> calls
case "$*" in *small*) exit 3 ;; esac
"""
"""Stands for Cloakwork, which takes a second to start."""


def test_the_hooks_check_every_file_that_pre_commit_names(
    policies: Path, cloakwork: Callable[..., Said]
) -> None:
    """As pre-commit does: the entry is split like a shell's words, and the files come last."""
    first, *validate = shlex.split(for_users()["cloakwork-policy-validate"]["entry"])
    files = sorted(path.relative_to(policies).as_posix() for path in policies.glob("*/*"))
    assert first == "cloakwork" and cloakwork(*validate, *files).code == 0
    (policies / "cloakwork").write_text(NOTES_ITS_CALLS)
    (policies / "cloakwork").chmod(0o755)
    done = subprocess.run(
        [*shlex.split(for_users()["cloakwork-policy-lint"]["entry"]), *files],
        env={"PATH": f"{policies}:{os.environ['PATH']}"},
        check=False,
    )
    assert done.returncode == 3
    calls = [line.split("\0")[:-1] for line in (policies / "calls").read_text().splitlines()]
    small, fine = [cloakwork(*arguments) for arguments in calls]
    assert (small.code, fine.code) == (3, 0)
    assert small.out.startswith("policies/-small; k.yaml:") and "[small-k]" in small.out
    assert fine.out == "policies/permits.yaml: nothing to advise\n"


def test_the_workflow_shown_runs_as_far_as_it_is_ours(
    policies: Path, cloakwork: Callable[..., Said]
) -> None:
    """Each command of Cloakwork on a policy that did not change."""
    (job,) = shown("jobs")["jobs"].values()
    (policies / "before.yaml").write_text((policies / "policies/permits.yaml").read_text("utf-8"))
    ours = [step["run"] for step in job["steps"] if step.get("run", "").startswith("cloakwork ")]
    assert len(ours) == 4
    for command in ours:
        words = shlex.split(command.partition(" > ")[0])
        said = cloakwork(*words[1:])
        assert (said.code, said.err) == (0, ""), command

"""``make matrix``: the suite once for each Python that is found; made-up interpreters here."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from repository.checkout import ROOT

INTERPRETER = """#!/usr/bin/env bash
# Makes environments that hold itself; says what pytest would be asked.
case "$1 $2" in
  "-c "*) [[ "$2" == *"'{version}'"* ]] ;;
  "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m pip") echo "installs into $0" ;;
  "-m pytest") echo "{version} runs ${{*:3}}" && [[ "$FAILS" != "{version}" ]] ;;
esac
"""

TOOLS = ("bash", "cp", "dirname", "mkdir", "rm", "touch")
"""What stands on PATH beside the made-up interpreters, so that none of this machine is found."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The script in a folder; 3.11 on PATH, 3.12 with pyenv, and a shim that is no 3.13."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "matrix", tmp_path / ".ci")
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).touch()
    (tmp_path / "tools").mkdir()
    for tool in TOOLS:
        (tmp_path / "tools" / tool).symlink_to(str(shutil.which(tool)))
    pyenv = tmp_path / ".pyenv" / "versions" / "3.12.1" / "bin"
    found = {
        tmp_path / "bin" / "python3.11": "3.11",
        pyenv / "python3.12": "3.12",
        tmp_path / "bin" / "python3.13": "3.9",
    }
    for path, version in found.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(INTERPRETER.format(version=version))
        path.chmod(0o755)
    return tmp_path


def run(checkout: Path, *arguments: str, fails: str = "") -> subprocess.CompletedProcess[str]:
    """The script with these interpreters alone; ``fails``: the version whose tests fail."""
    environment = {
        "PATH": f"{checkout / 'bin'}:{checkout / 'tools'}",
        "HOME": str(checkout),
        "FAILS": fails,
        "VERSIONS": "3.11 3.12 3.13 3.99",
    }
    return subprocess.run(
        [checkout / ".ci" / "matrix", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_version_that_is_found_is_run(checkout: Path) -> None:
    """In an environment of its own, with the arguments of pytest; the others are named."""
    done = run(checkout, "-n", "0", "tests/cli")
    assert done.returncode == 0, done.stderr
    assert "3.11 runs -n 0 tests/cli" in done.stdout
    assert "3.12 runs -n 0 tests/cli" in done.stdout
    assert done.stdout.splitlines()[-1] == "passed: 3.11 3.12; failed: none; not found: 3.13 3.99"
    assert {path.name for path in checkout.glob(".venv-*")} == {".venv-3.11", ".venv-3.12"}


def test_one_version_that_fails_fails_all(checkout: Path) -> None:
    """The versions after it are run nevertheless."""
    done = run(checkout, fails="3.11")
    assert done.returncode == 1
    assert "3.12 runs" in done.stdout
    assert "passed: 3.12" in done.stdout.splitlines()[-1]
    assert "failed: 3.11" in done.stdout.splitlines()[-1]


def test_a_second_run_installs_nothing(checkout: Path) -> None:
    """Unless the pins or the dependencies are newer than the environment."""
    assert "installs into" in run(checkout).stdout
    assert "installs into" not in run(checkout).stdout
    later = (checkout / ".venv-3.12" / ".test").stat().st_mtime + 10
    os.utime(checkout / "constraints.txt", (later, later))
    assert "installs into" in run(checkout).stdout


def test_no_python_at_all_is_no_success(checkout: Path) -> None:
    """A run that tested nothing does not pass."""
    shutil.rmtree(checkout / "bin")
    shutil.rmtree(checkout / ".pyenv")
    done = run(checkout)
    assert done.returncode == 1
    assert done.stdout.startswith("passed: none; failed: none; not found: 3.11 3.12")

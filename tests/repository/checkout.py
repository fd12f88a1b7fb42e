"""The checkout that the tests of the repository look at."""

import importlib.util
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from conftest import Said

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


def check_script(cloakwork: Callable[..., Said]) -> ModuleType:
    """``examples/ci/check.py``; Cloakwork's own commands run in this process, which is quicker."""
    path = ROOT / "examples" / "ci" / "check.py"
    spec = importlib.util.spec_from_file_location("check_policies", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    of_system = module.run

    def run(*command: str) -> Any:
        if command[0] != "cloakwork":
            return of_system(*command)
        said = cloakwork(*command[1:])
        return subprocess.CompletedProcess(command, said.code, said.out)

    module.run = run  # type: ignore[attr-defined]
    return module

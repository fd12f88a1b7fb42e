"""The checkout that the tests of the repository look at."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

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


def load_script(path: Path) -> ModuleType:
    """A script that lies in no package, as a module of its file's name; loaded once."""
    if (loaded := sys.modules.get(path.stem)) is not None:
        return loaded
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up by its name
    # As for a script: what lies beside it can be imported.
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module

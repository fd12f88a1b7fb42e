"""Where a test file may lie, and what it may be called.

A folder of ``tests/`` that has a package's name mirrors the package: each test file in it is named
for a module or a package there (``tests/guarantees/test_derive.py`` for ``guarantees/derive.py``,
``tests/cli/test_cli.py`` for what ``cli`` itself holds), or for a promise of ``promises.yaml``.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from repository.checkout import ROOT

PROMISES = Path(__file__).with_name("promises.yaml")


def read_promises() -> tuple[dict[str, str], dict[str, str]]:
    """Folders that mirror no package, and files that are named for a promise, each with why."""
    document = yaml.safe_load(PROMISES.read_text("utf-8"))
    return document["folders"], document["files"]


def misplaced(
    root: Path = ROOT,
    folders: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """What stands against the layout of a checkout, one line each, in order of paths."""
    if folders is None or files is None:
        folders, files = read_promises()
    tests, engine = root / "tests", root / "engine" / "cloakwork"
    found = sorted(path.relative_to(tests) for path in tests.rglob("test_*.py"))
    for path in found:
        if path.parts[0] not in folders:
            yield from _faults(path, engine, files)
    for name in sorted(folders.keys() | files.keys()):
        if not (tests / name).exists():
            yield f"{PROMISES.name}: there is no tests/{name}"
    for name in sorted(folders):
        if (engine / name).is_dir():
            yield f"{PROMISES.name}: {name} is a package of the engine"


def _faults(path: Path, engine: Path, files: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with one test file, its path relative to ``tests/``."""
    package = engine / path.parent
    if not (package / "__init__.py").is_file():
        yield f"tests/{path}: the engine has no package {path.parent}"
        return
    name = path.stem.removeprefix("test_")
    named_for_module = _is_module(package, name) or (path.parts[1:] and name == package.name)
    promised = path.as_posix() in files
    if named_for_module and promised:
        yield f"{PROMISES.name}: {path} is named for a module and needs no reason"
    elif not named_for_module and not promised:
        yield (
            f"tests/{path}: {package.relative_to(engine.parent)} has no module {name}; name it for"
            f" one, or give the reason in {PROMISES.name}"
        )


def _is_module(package: Path, name: str) -> bool:
    """Whether a package holds a module or a package of this name; one underscore may lead it."""
    return any(
        (package / f"{mark}{name}.py").is_file() or (package / name / "__init__.py").is_file()
        for mark in ("", "_")
    )

"""The one folder whose files the console shows and writes: policies, logs, releases, packed files.

No path that a form sends leads out of it, by ``..``, by an absolute path or by a symbolic link.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from cloakwork.base.errors import CloakworkError, OutputError
from cloakwork.base.files import replace_file

DEEPEST: Final = 3
"""Folders below the console's own that are looked through."""

MOST_ENTRIES: Final = 5000
"""Entries of folders that are looked at for one page."""

LOG_ENDINGS: Final = (
    ".xes",
    ".xes.gz",
    ".csv",
    ".csv.gz",
    ".parquet",
    ".pq",
    ".xlsx",
    ".xlsm",
    ".jsonocel",
    ".sqlite",
    ".sqlite3",
)
_OBJECT_CENTRIC: Final[dict[str, tuple[bytes, ...]]] = {
    ".json": (b'"objectTypes"', b'"eventTypes"', b'"relationships"'),
    ".db": (b"object_map_type",),
}
"""What tells an object-centric log among the files of an ending that others have, too."""

_BEGINNING: Final = 65_536
"""Bytes of a file that are looked at."""

POLICY_ENDINGS: Final = (".yaml", ".yml")
PLAN_ENDING: Final = ".json"
_PLANS: Final = {PLAN_ENDING: (b'"format": "cloakwork/plan/v',)}
STATEMENT: Final = "statement.json"


class OutsideFolder(CloakworkError):
    """A path leads out of the console's folder, or names nothing that is shown."""


@dataclass(frozen=True)
class FoundFiles:
    """What a folder holds, as paths relative to it; ``all_seen``: whether nothing was left out."""

    policies: tuple[str, ...]
    logs: tuple[str, ...]
    plans: tuple[str, ...]
    releases: tuple[str, ...]
    packed: tuple[str, ...]
    all_seen: bool


@dataclass(frozen=True)
class Workplace:
    """A folder; ``root`` is resolved."""

    root: Path

    @classmethod
    def at(cls, folder: Path) -> "Workplace":
        """The workplace at ``folder``; raises OutputError unless that is a folder."""
        if not folder.is_dir():
            raise OutputError(f"{folder}: there is no such folder; name one with --folder")
        return cls(folder.resolve())

    @cached_property
    def label(self) -> str:
        """The folder's name, for people."""
        return self.root.name or str(self.root)

    def existing(self, relative: str) -> Path:
        """What lies at ``relative``; raises OutsideFolder where that is nothing of this folder."""
        path = self._inside(relative)
        if not path.exists():
            raise OutsideFolder(f"{relative}: there is no such file in {self.label}")
        return path

    def existing_file(self, relative: str) -> Path:
        """As ``existing``, of a file."""
        path = self.existing(relative)
        if not path.is_file():
            raise OutsideFolder(f"{relative}: is a folder; name a file in it")
        return path

    def new(self, relative: str, *, ending: str = "") -> Path:
        """A path where nothing is yet, in a folder that exists."""
        name = relative.strip()
        if not name or name.endswith(("/", ".")):
            raise OutsideFolder("a name is missing; give the new file or folder one")
        if ending and not name.lower().endswith(ending):
            name += ending
        path = self._inside(name)
        # A link that leads nowhere exists, too: writing to it would make what it names.
        if os.path.lexists(path):
            raise OutsideFolder(f"{name}: exists already; choose another name")
        if not path.parent.is_dir():
            raise OutsideFolder(f"{name}: there is no folder to put it in; name one that exists")
        return path

    def relative(self, path: Path) -> str | None:
        """``path`` as the console calls it; None where it lies elsewhere."""
        try:
            return path.resolve().relative_to(self.root).as_posix()
        except (ValueError, OSError):
            return None

    def in_own_names(self, text: str) -> str:
        """A message in which files of this folder are called as the pages call them."""
        return text.replace(f"{self.root}{os.sep}", "")

    def look(self) -> FoundFiles:
        """What the folder holds, in alphabetical order."""
        policies = []
        logs = []
        plans = []
        releases = []
        packed = []
        seen = 0
        for path in self._walk(self.root, DEEPEST):
            seen += 1
            if seen > MOST_ENTRIES:
                break
            name = path.name.lower()
            relative = path.relative_to(self.root).as_posix()
            # A release is known by its statement, whatever its folder is called.
            if (path / STATEMENT).is_file():
                releases.append(relative)
            elif not path.is_file():
                continue
            elif name.endswith(POLICY_ENDINGS):
                policies.append(relative)
            elif _begins_like(path, _PLANS):
                plans.append(relative)
            elif name.endswith(LOG_ENDINGS) or _begins_like(path, _OBJECT_CENTRIC):
                logs.append(relative)
            elif name.endswith(".zip"):
                packed.append(relative)
        return FoundFiles(
            tuple(sorted(policies)),
            tuple(sorted(logs)),
            tuple(sorted(plans)),
            tuple(sorted(releases)),
            tuple(sorted(packed)),
            all_seen=seen <= MOST_ENTRIES,
        )

    def _inside(self, relative: str) -> Path:
        # By its names first, then by what links on the way lead to.
        names = relative.split("/")
        # A NUL ends a path for the system, and a backslash divides one on Windows.
        unusable = not relative or "\0" in relative or "\\" in relative
        if unusable or any(name in ("", "..") or name.startswith(".") for name in names):
            raise OutsideFolder(f"{relative!r}: is no path inside {self.label}")
        path = self.root.joinpath(*names)
        try:
            leads_out = not path.resolve().is_relative_to(self.root)
        # Links in a circle lead nowhere inside.
        except (OSError, RuntimeError):
            leads_out = True
        if leads_out:
            raise OutsideFolder(f"{relative!r}: leads out of {self.label}")
        return path

    def _walk(self, folder: Path, deeper: int) -> Iterator[Path]:
        """Files and folders, links and hidden ones left out; a release is not looked into."""
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            return
        for entry in entries:
            # A link could lead out of the folder, or around in a circle.
            if entry.name.startswith(".") or entry.is_symlink():
                continue
            path = Path(entry.path)
            yield path
            if deeper and entry.is_dir() and not (path / STATEMENT).is_file():
                yield from self._walk(path, deeper - 1)


def _begins_like(path: Path, signs_of: Mapping[str, tuple[bytes, ...]]) -> bool:
    """Whether a file of an ending that others have, too, begins with one of the signs of it."""
    signs = signs_of.get(path.suffix.lower())
    if signs is None:
        return False
    try:
        with path.open("rb") as file:
            begins = file.read(_BEGINNING)
    except OSError:
        return False
    return any(sign in begins for sign in signs)


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all; one that stands there is replaced, with its mode."""
    try:
        replace_file(path, text.encode(), private=False)
    except OSError as error:
        raise OutputError(f"{path.name}: cannot be written: {error.strerror}") from error

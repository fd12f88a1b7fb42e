"""The files that a released log consists of: one, or the parts of a folder of the same name.

A log of one part is the file ``log.xes``. A log of several is the folder ``log.xes`` with the files
``part-00001.xes``, ``part-00002.xes``, ... The statement signs each of them by its path in the
release, which always has a slash; no other name is accepted, so that none leads elsewhere.
"""

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from cloakwork.base.errors import LogError

LOG_NAME: Final = re.compile(r"log\.(?P<format>xes|csv|parquet|xes\.gz|csv\.gz)")
"""The name of a released log, a file or a folder of parts."""

MOST_PARTS: Final = 10_000
"""Parts of one release: as many files as ``read_log`` takes of a folder, and fewer than a ZIP file
can count in 16 bits.
"""

_PART_NAME: Final = re.compile(LOG_NAME.pattern + r"/part-[0-9]{5}\.(?P=format)")


@dataclass(frozen=True, slots=True)
class LogFiles:
    """Where a released log lies: ``path`` is its file or its folder, ``files`` what is read, in the
    order of the parts.
    """

    path: Path
    files: tuple[Path, ...]

    @property
    def name(self) -> str:
        """As the release calls it: ``log.xes``."""
        return self.path.name

    def name_of(self, file: Path) -> str:
        """A file's path in the release, and so its name in the statement."""
        return file.relative_to(self.path.parent).as_posix()

    @property
    def in_parts(self) -> bool:
        """Whether it is a folder of parts."""
        return self.files != (self.path,)


def part_name(output: str, number: int) -> str:
    """The path in the release of part ``number`` (from 1) of a log in the format ``output``.

    >>> part_name("csv.gz", 1)
    'log.csv.gz/part-00001.csv.gz'
    """
    return f"log.{output}/part-{number:05d}.{output}"


def names_of_log(names: Collection[str]) -> tuple[str, ...] | None:
    """The paths of the log's files among those of a release, in the order of the parts; None unless
    they are one log, whole or in at least two parts numbered from 1.
    """
    if single := [name for name in names if LOG_NAME.fullmatch(name)]:
        in_parts = any(_PART_NAME.fullmatch(name) for name in names)
        return None if in_parts or len(single) > 1 else (single[0],)
    part_names = sorted(name for name in names if _PART_NAME.fullmatch(name))
    if not 2 <= len(part_names) <= MOST_PARTS:
        return None
    output = log_path(part_names[0]).removeprefix("log.")
    expected = [part_name(output, number) for number in range(1, len(part_names) + 1)]
    return tuple(part_names) if part_names == expected else None


def log_path(name: str) -> str:
    """What the log is called, of which ``name`` is a file."""
    return name.partition("/")[0]


def log_files(folder: Path, names: Collection[str]) -> LogFiles:
    """The log of the release in ``folder`` that consists of the files ``names``; raises ValueError
    where they are none.
    """
    found = names_of_log(names)
    if found is None:
        raise ValueError("these are not the files of one log")
    return LogFiles(folder / log_path(found[0]), tuple(folder / name for name in found))


def found_log(folder: Path, named: Path) -> LogFiles:
    """The log in a release folder, by the names that stand there; raises LogError unless it is one,
    of plain files. Nothing is known yet of who signed it. ``named``: what the user calls it.
    """
    names = [path.name for path in folder.iterdir() if LOG_NAME.fullmatch(path.name)]
    if len(names) != 1:
        raise LogError(
            named,
            f"holds {len(names)} logs where a release has one",
            hint="name a release folder, or the log file itself",
        )
    files = tuple(files_of(folder / names[0]))
    found = names_of_log([path.relative_to(folder).as_posix() for path in files])
    if (
        found is None
        or len(found) != len(files)
        or any(path.is_symlink() or not path.is_file() for path in files)
    ):
        raise LogError(
            named / names[0],
            "is neither a plain file nor a folder of parts numbered from 1",
            hint="copy the release again",
        )
    return log_files(folder, found)


def files_of(path: Path) -> Iterator[Path]:
    """The log's file, or what stands in its folder, by name: of a folder that holds more than a
    log may have parts, some, and one too many. Links are not followed.
    """
    if path.is_symlink() or not path.is_dir():
        yield path
        return
    with os.scandir(path) as entries:
        names = sorted(entry.name for entry in islice(entries, MOST_PARTS + 1))
    yield from (path / name for name in names)

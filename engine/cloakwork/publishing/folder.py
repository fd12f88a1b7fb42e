"""A release folder that somebody sent: which entries it may hold, which of them are the log, how a
file in it is read.

Nothing here trusts the folder. Links, pipes and devices are no part of a release, whatever they
are called; a file is opened without following links and without waiting for a writer.

A log of one part is the file ``log.xes``. A log of several is the folder ``log.xes`` with the files
``part-00001.xes``, ``part-00002.xes``, ... The statement signs each of them by its path in the
release, which always has a slash; no other name is accepted, so that none leads elsewhere.
"""

import os
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from cloakwork.base.errors import LogError, VerificationFailed
from cloakwork.publishing.statement import file_digest

PLAN_FILE: Final = "plan.json"
STATEMENT_FILE: Final = "statement.json"
INTERNAL_FOLDER: Final = "internal"

LARGEST_DOCUMENT: Final = 64 * 2**20
"""Bytes that statement or plan may have: plans of 15,000 attributes stay far below."""

_MOST_ENTRIES: Final = 20_000
"""Entries that a folder of a release may have: twice as many as a log has parts."""

LOG_NAME: Final = re.compile(r"log\.(?P<format>xes|csv|parquet|xes\.gz|csv\.gz)")
"""The name of a released log, a file or a folder of parts."""

MOST_PARTS: Final = 10_000
"""Parts of one release: as many files as ``read_log`` takes of a folder, and fewer than a ZIP file
can count in 16 bits.
"""

_PART_NAME: Final = re.compile(LOG_NAME.pattern + r"/part-[0-9]{5}\.(?P=format)")


# --- the files of a log


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
    # Whole and in parts at once is no log.
    if single := [name for name in names if LOG_NAME.fullmatch(name)]:
        in_parts = any(_PART_NAME.fullmatch(name) for name in names)
        return None if in_parts or len(single) > 1 else (single[0],)
    part_names = sorted(name for name in names if _PART_NAME.fullmatch(name))
    if not 2 <= len(part_names) <= MOST_PARTS:
        return None
    # No number may be missing, and all parts have the format of the first.
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
    are_plain = all(path.is_file() and not path.is_symlink() for path in files)
    if found is None or len(found) != len(files) or not are_plain:
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
    # One more than a log may have, so that too many show.
    with os.scandir(path) as entries:
        names = sorted(entry.name for entry in islice(entries, MOST_PARTS + 1))
    yield from (path / name for name in names)


# --- what stands in a folder


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked: in words, and whether it holds."""

    holds: bool
    says: str


def read_document(path: Path) -> bytes:
    """The bytes of a plan or statement; raises VerificationFailed unless it is a plain file of a
    sane size.
    """
    # The open file is judged, not its path: nobody can exchange it in between.
    try:
        # Not through a link, and without waiting for whoever writes to a pipe.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        hint = ", this is not a release folder" if path.name == STATEMENT_FILE else ""
        raise VerificationFailed([f"{path.name}: is missing{hint}"]) from None
    except OSError as error:
        if path.is_symlink():
            raise VerificationFailed(
                [f"{path.name}: is a link; a release holds plain files only"]
            ) from None
        raise VerificationFailed([f"{path.name}: cannot be read ({error.strerror})"]) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise VerificationFailed([f"{path.name}: cannot be read (it is not a plain file)"])
    with os.fdopen(handle, "rb") as file:
        # One byte more than allowed, so that too much shows.
        content = file.read(LARGEST_DOCUMENT + 1)
    if len(content) > LARGEST_DOCUMENT:
        raise VerificationFailed([f"{path.name}: is larger than {LARGEST_DOCUMENT >> 20} MiB"])
    return content


def check_file(folder: Path, name: str, digest: str) -> Check:
    """Whether the file of the release in ``folder`` that is called ``name``, with the folder of
    parts that it lies in, is a plain one with this SHA-256 (hex).
    """
    path = folder / name
    above = path.parent
    # The folder first: a link in its place would lead elsewhere.
    if above != folder and (above.is_symlink() or not above.is_dir()):
        kind = "is not a folder of parts" if above.exists() else "is missing"
        return Check(False, f"{above.name}: {kind}")
    if not path.exists() and not path.is_symlink():
        return Check(False, f"{name}: is missing")
    if path.is_symlink() or not path.is_file():
        return Check(False, f"{name}: is not a plain file")
    try:
        same = file_digest(path) == digest
    except OSError as error:
        return Check(False, f"{name}: cannot be read ({error.strerror})")
    return digest_check(name, same)


def digest_check(name: str, same: bool) -> Check:
    """What to say of a file by whether its digest is the signed one."""
    verb = "is" if same else "is not"
    return Check(same, f"{name}: {verb} the file that was signed")


def check_entries(folder: Path, signed: Collection[str]) -> Iterator[Check]:
    """What stands in the folder, and in a folder of parts, beside the files ``signed``: unsigned
    files, links, and things that are no files.

    Files that nobody signed would be passed on as if they belonged to the release.
    """
    folders = {name.partition("/")[0] for name in signed if "/" in name}
    for entry in _entries(folder):
        if isinstance(entry, Check):
            yield entry
        elif entry.name == INTERNAL_FOLDER:
            # That it is a plain folder is all that is asked; nobody looks into it.
            if entry.is_symlink() or not entry.is_dir(follow_symlinks=False):
                yield Check(False, f"{INTERNAL_FOLDER}: is not a folder; remove it")
        elif entry.name in folders:
            yield from _check_parts(entry, signed)
        elif entry.name not in {STATEMENT_FILE, *signed}:
            yield Check(False, f"{entry.name!a}: does not belong to the release; remove it")
        elif entry.name == STATEMENT_FILE and not entry.is_file(follow_symlinks=False):
            yield Check(False, f"{STATEMENT_FILE}: is not a plain file")


def _check_parts(folder: "os.DirEntry[str]", signed: Collection[str]) -> Iterator[Check]:
    """What stands in a folder of parts and was not signed; that it is one is checked with each of
    them.
    """
    if folder.is_symlink() or not folder.is_dir(follow_symlinks=False):
        return
    for entry in _entries(Path(folder.path)):
        if isinstance(entry, Check):
            yield entry
        elif f"{folder.name}/{entry.name}" not in signed:
            name = f"{folder.name}/{entry.name}"
            yield Check(False, f"{name!a}: does not belong to the release; remove it")


def _entries(folder: Path) -> "Iterator[os.DirEntry[str] | Check]":
    """The entries of a folder by name, or why they cannot be listed: a folder that somebody sent
    may hold millions.
    """
    try:
        with os.scandir(folder) as entries:
            found = list(islice(entries, _MOST_ENTRIES + 1))
    except OSError as error:
        yield Check(False, f"the folder cannot be listed ({error.strerror})")
        return
    if len(found) > _MOST_ENTRIES:
        more = f"holds more than {_MOST_ENTRIES:,} entries, and so is no release"
        yield Check(False, f"{folder.name!a}: {more}")
        return
    yield from sorted(found, key=lambda entry: entry.name)


def holds_internal(folder: Path) -> bool:
    """Whether the internal folder came along."""
    return (folder / INTERNAL_FOLDER).is_dir()

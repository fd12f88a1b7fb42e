"""A release that somebody sent, a folder or one file: which entries it may hold, which of them are
the log, how a file in it is read, and how a release becomes one file and is taken apart.

Nothing here trusts the folder. Links, pipes and devices are no part of a release, whatever they
are called; a file is opened without following links and without waiting for a writer.

A packed release is a ZIP file, *stored* and not compressed, so what comes out is no larger than
what came in; the log may be compressed itself (``xes.gz``). Its bytes depend on its parts alone. A
file is accepted only where it is, byte for byte, what ``pack`` makes of its parts: that admits no
second entry of a name, a path, a link, an extra field, or anything hidden between entries.

A log of one part is the file ``log.xes``. A log of several is the folder ``log.xes`` with the files
``part-00001.xes``, ``part-00002.xes``, ... The statement signs each of them by its path in the
release, which always has a slash; no other name is accepted, so that none leads elsewhere.

The log is read for checking: whole where it is one file, else one part at a time, and which case
ids stand in two parts.
"""

import filecmp
import json
import os
import re
import secrets
import shutil
import stat
import struct
import tempfile
import zipfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, Final, Self

import numpy as np
import polars as pl

from cloakwork.base.arrays import Words
from cloakwork.base.errors import LogError, OutputError, VerificationFailed
from cloakwork.base.files import draft_folder, new_file
from cloakwork.base.frozen import frozen
from cloakwork.base.text import listed
from cloakwork.engines.batch_files import SortedRuns
from cloakwork.kernel import Answer
from cloakwork.log.eventlog import CASE_ID, EventLog, LogHandle
from cloakwork.log.formats import read_log
from cloakwork.log.formats.options import InputOptions
from cloakwork.log.formats.round_trip import ColumnKinds, FileParts, kinds_of, kinds_together
from cloakwork.publishing.from_plan import HeldAttributes, attributes_of, merged_attributes
from cloakwork.publishing.statement import file_digest

PLAN_FILE: Final = "plan.json"
STATEMENT_FILE: Final = "statement.json"
MEASUREMENTS_FILE: Final = "measurements.parquet"
"""The noisy tables, where a guarantee of differential privacy covers the log."""
SIDECAR_FILE: Final = "csv-metadata.json"
"""What a CSV log says of itself, where it keeps its own columns. W3C, "Model for Tabular Data and
Metadata on the Web" (2015), 5.3: where readers look for the metadata of the tables of a folder.
"""
OPTIONAL_FILES: Final = frozenset({MEASUREMENTS_FILE, SIDECAR_FILE})
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


@frozen
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


@frozen
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


_COLUMNS: Final = ("table", "key", "value", "sigma")
_MOST_MEASURED: Final = 50_000_000
"""Rows of measurements that are read: more than any release has."""


def measurements_table(answers: Sequence[Answer]) -> pl.DataFrame:
    """The noisy tables as one of four columns: ``table`` its name, ``key`` a list of values as
    JSON, ``value`` with its noise, ``sigma`` the deviation of that, in the unit of the value.

    Tables are in the order in which they were asked for; of several of one name the later ones have
    a number.
    """
    parts = []
    asked = Counter[str]()
    for answer in answers:
        name = answer.table.name
        asked[name] += 1
        keys, values, sigmas = zip(*answer.rows(), strict=True) if len(answer) else ((), (), ())
        columns = {
            "key": pl.Series(
                [json.dumps(key, ensure_ascii=False) for key in keys], dtype=pl.String
            ),
            "value": pl.Series(values, dtype=pl.Float64),
            "sigma": pl.Series(sigmas, dtype=pl.Float64),
        }
        called = name if asked[name] == 1 else f"{name} ({asked[name]})"
        parts.append(pl.DataFrame(columns).select(pl.lit(called).alias("table"), pl.all()))
    return pl.concat(parts)


def read_measurements(path: Path) -> pl.DataFrame:
    """What ``measurements_table`` made; raises VerificationFailed, in one line, where the file is
    something else. Only of a file that is known to be authentic.
    """
    expected = dict(zip(_COLUMNS, (pl.String, pl.String, pl.Float64, pl.Float64), strict=True))
    fault = f"{path.name}: is no table of {listed(_COLUMNS)}"
    try:
        scanned = pl.scan_parquet(path, glob=False)
        if dict(scanned.collect_schema()) != expected:
            raise VerificationFailed([fault])
        found = scanned.head(_MOST_MEASURED + 1).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise VerificationFailed([fault]) from error
    sigma = found["sigma"]
    value = found["value"]
    is_told = value.is_finite() & sigma.is_finite() & (sigma > 0)
    if len(found) > _MOST_MEASURED or any(found.null_count().row(0)) or not is_told.all():
        raise VerificationFailed([f"{path.name}: holds values without noise, or without an end"])
    return found


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
        is_same = file_digest(path) == digest
    except OSError as error:
        return Check(False, f"{name}: cannot be read ({error.strerror})")
    return Check(is_same, f"{name}: {'is' if is_same else 'is not'} the file that was signed")


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


# --- one file to send

_END_RECORD: Final = struct.Struct("<4s4H2LH")
"""The last record of a ZIP file: signature, disks, entries, size and place of the list, comment."""
_LISTED_AT_MOST: Final = 128
"""Bytes that the list has for each entry at most: names are short."""
_UNREADABLE: Final = (zipfile.BadZipFile, NotImplementedError, struct.error, EOFError, ValueError)
"""What ``zipfile`` raises for what is no ZIP file, or one that it does not know."""
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_PIECE: Final = 1 << 20
_BESIDE_LOG: Final = OPTIONAL_FILES | {PLAN_FILE, STATEMENT_FILE}
"""Public files beside the log."""


def pack_folder(folder: Path, out: Path) -> list[str]:
    """Write the public files of the release in ``folder`` to the ZIP file ``out``, and return their
    names; the same files give the same bytes.

    Raises VerificationFailed where a part is missing or is no plain file, OutputError where ``out``
    cannot be written.
    """
    found = []
    for path in folder.iterdir():
        if path.name in _BESIDE_LOG or LOG_NAME.fullmatch(path.name):
            for file in files_of(path):
                if file.is_file() and not file.is_symlink():
                    found.append(file.relative_to(folder).as_posix())
    names = _public_files(found)
    with new_file(out) as draft, zipfile.ZipFile(draft, "x", zipfile.ZIP_STORED) as archive:
        for name in names:
            # Nothing of the entry depends on when or by whom it was packed.
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3  # Unix, so that the mode counts
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            entry.file_size = (folder / name).stat().st_size
            with (folder / name).open("rb") as part, archive.open(entry, "w") as copy:
                shutil.copyfileobj(part, copy, _PIECE)
    return names


@contextmanager
def unpacked(file: Path) -> Iterator[Path]:
    """The parts of a packed release in a temporary folder; raises VerificationFailed unless
    ``pack`` made the file.

    Only names and sizes are looked at: whether the parts are authentic is found out afterwards.
    """
    with draft_folder(Path(tempfile.gettempdir()), "cloakwork-verify") as place:
        folder = place / "release"
        folder.mkdir()
        try:
            _unpack_parts(file, folder)
            # Packed again, so that every byte that is not of a part shows.
            again = place / "again.zip"
            pack_folder(folder, again)
            same = filecmp.cmp(file, again, shallow=False)
            again.unlink()
        except _UNREADABLE as error:
            raise _refusal(file, "it is not a ZIP file that can be read") from error
        except OSError as error:
            raise VerificationFailed(
                [f"{file.name}: cannot be unpacked ({error.strerror or error})"]
            ) from error
        if not same:
            raise _refusal(file, "it holds more than the parts of a release")
        yield folder


def _unpack_parts(file: Path, folder: Path) -> None:
    with file.open("rb") as source:
        _check_end(file, source)
        with zipfile.ZipFile(source) as archive:
            members = archive.infolist()
            _public_files([member.filename for member in members])
            for member in members:
                is_stored = member.compress_type == zipfile.ZIP_STORED
                if not is_stored or member.file_size != member.compress_size:
                    raise _refusal(file, "its parts are compressed")
                # The upper 16 bits hold the mode of a Unix file; the lowest flag marks encryption.
                is_plain = stat.S_IFMT(member.external_attr >> 16) == stat.S_IFREG
                if not is_plain or member.flag_bits & 1:
                    raise _refusal(file, "it holds what is not a plain file")
            # Nothing is written before all are known to be what they should.
            for member in members:
                copied = folder / member.filename
                copied.parent.mkdir(exist_ok=True)
                with archive.open(member) as part, copied.open("xb") as copy:
                    shutil.copyfileobj(part, copy, _PIECE)


def _check_end(file: Path, source: BinaryIO) -> None:
    """Refuse a list of millions of entries before anything reads it."""
    size = source.seek(0, 2)
    if size < _END_RECORD.size:
        raise _refusal(file, "it is not a ZIP file")
    source.seek(size - _END_RECORD.size)
    signature, *_, entries, listed, _, comment = _END_RECORD.unpack(source.read(_END_RECORD.size))
    if signature != b"PK\x05\x06" or comment:
        raise _refusal(file, "it is not a ZIP file, or has a comment")
    # Right before this record, a ZIP64 file has its locator of 20 bytes.
    source.seek(max(0, size - _END_RECORD.size - 20))
    large = source.read(4) == b"PK\x06\x07"  # sizes then stand in a record of their own
    is_too_long = entries > MOST_PARTS + len(_BESIDE_LOG) or listed > entries * _LISTED_AT_MOST
    # Three files at least: a log, its plan, its statement.
    if entries < 3 or is_too_long or (large and size < zipfile.ZIP64_LIMIT):
        raise _refusal(file, "it does not hold the files of a release")
    source.seek(0)


def _public_files(names: list[str]) -> list[str]:
    """``names``, sorted; VerificationFailed unless they are a release's public files, each once."""
    of_log = names_of_log(names) or ()
    others = {PLAN_FILE, STATEMENT_FILE, *OPTIONAL_FILES.intersection(names)}
    if not of_log or sorted(names) != sorted([*others, *of_log]):
        raise VerificationFailed(
            [
                f"a release is one log, whole or in parts numbered from 1, {PLAN_FILE}, "
                f"{STATEMENT_FILE}, {MEASUREMENTS_FILE} or none, {SIDECAR_FILE} or none, "
                "and nothing else"
            ]
        )
    return sorted(names)


def _refusal(file: Path, why: str) -> VerificationFailed:
    return VerificationFailed([f"{file.name}: is not a file that 'cloakwork pack' made: {why}"])


_IN_MEMORY: Final = 1 << 23
"""Bytes of hashes; more are kept in a temporary file."""


@frozen
class ReadFiles:
    """A released log as it is read from its files.

    ``held``: its attributes. ``as_values``: the log with its values. ``as_written``: with the
    attributes of which the spelling counts as texts. ``cases_in_one_part``: whether each case lies
    in one part; None where there is one.
    """

    held: HeldAttributes
    as_values: LogHandle
    as_written: LogHandle
    cases_in_one_part: Check | None = None


def read_files(
    log: LogFiles,
    *,
    timeless: bool,
    spelled: Collection[str],
    by_value: Collection[str],
    units: Collection[str] = (),
    options: InputOptions | None = None,
) -> ReadFiles:
    """Read ``log``. ``spelled``: the attributes of which the spelling counts, ``by_value``
    those whose values count; one that is both is read twice. ``units``: those that name units.
    Parts have no others. ``options``: how it is written. Raises LogError.
    """
    # What counts in both ways is read by value here, and as text once more.
    both = set(spelled) & set(by_value)
    as_text = partial(read_log, timeless=timeless, options=options, text=spelled)
    read = partial(as_text, text=set(spelled) - both)
    if not log.in_parts:
        of_file = read(log.path)
        written = as_text(log.path, keep=set(spelled).__contains__) if both else of_file
        return ReadFiles(attributes_of(of_file), of_file, written)
    # A first look at all parts settles what their columns are, and whose hashes stand there twice.
    parts = FileParts(log.files, read)
    # A fresh key: nobody who wrote the log can have aimed at equal hashes.
    key = secrets.randbits(64)
    glances = []
    with IdHashes() as ids:
        for glance in parts.results(lambda _, batch: _Glance.at(batch, key)):
            glances.append(glance)
            ids.add(glance.ids)
        suspects = ids.twice()
    needed = {*spelled, *by_value, *units}
    kinds = {
        column: kind
        for column, kind in kinds_together(log.files, [each.kinds for each in glances]).items()
        if column[1] in needed
    }
    keep = needed.__contains__
    of_parts = FileParts(log.files, partial(read, keep=keep), kinds)
    written_parts = of_parts
    if both:
        texts: ColumnKinds = {column: "text" for column in kinds if column[1] in spelled}
        written_parts = FileParts(log.files, partial(as_text, keep=keep), {**kinds, **texts})
    return ReadFiles(
        held=merged_attributes(each.held for each in glances),
        as_values=of_parts,
        as_written=written_parts,
        cases_in_one_part=_check_cases(log, parts, suspects, key),
    )


@frozen
class _Glance:
    """What one part shows: its attributes, their kinds, and its case ids as keyed hashes of 64
    bits: uint64, shape (cases,).
    """

    held: HeldAttributes
    kinds: ColumnKinds
    ids: Words

    @classmethod
    def at(cls, batch: EventLog, key: int) -> "_Glance":
        return cls(attributes_of(batch), kinds_of(batch), _hashed_ids(batch, key))


def _hashed_ids(batch: EventLog, key: int) -> Words:
    return batch.cases[CASE_ID].drop_nulls().hash(key).to_numpy()


def _check_cases(log: LogFiles, parts: FileParts, suspects: Words, key: int) -> Check:
    """Whether no case id stands in two parts; ``suspects``: the hashes that do.

    Two ids have one hash by chance for n^2 / 2^65 of the logs with n cases, and nobody who wrote a
    log knew the key. So ids of one hash are compared themselves.
    """
    if len(suspects):
        found: dict[str, str] = {}
        for file, batch in zip(log.files, parts.batches(), strict=True):
            chosen = np.isin(_hashed_ids(batch, key), suspects)
            for case_id in batch.cases[CASE_ID].drop_nulls().filter(pl.Series(chosen)):
                if case_id in found:
                    places = f"{found[case_id]} and {file.name}"
                    return Check(False, f"{log.name}: a case id stands in {places}")
                found[case_id] = file.name
    return Check(True, f"{log.name}: each case lies in one of its {len(log.files)} parts")


class IdHashes:
    """Takes the hashes of part after part, in memory that does not grow with the log; to be closed,
    by ``with``.

    A temporary file holds them where they are many: keyed hashes of released ids tell nobody
    anything. Raises OutputError where it cannot be written.
    """

    def __init__(self) -> None:
        self._file: Final = SpooledTemporaryFile[bytes](max_size=_IN_MEMORY)
        self._runs: Final = SortedRuns(self._file, np.uint64)

    def add(self, hashes: Words) -> None:
        """Those of the next part: uint64, shape (cases,), in any order."""
        try:
            self._runs.add(hashes)
            self._file.flush()
        except OSError as error:
            raise OutputError(
                "no temporary file can be written to compare case ids by "
                f"({error.strerror or error}); set TMPDIR to a folder on a larger disk"
            ) from error

    def twice(self) -> Words:
        """The hashes that stand there more than once, ascending."""
        found = [np.zeros(0, np.uint64)]
        for of_parts in self._runs.ranges():
            hashes = np.sort(np.concatenate(of_parts))
            again = hashes[1:][hashes[1:] == hashes[:-1]]
            found.append(np.unique(again))
        return np.concatenate(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Closing writes what is left, which nobody reads any more.
        with suppress(OSError):
            self._file.close()

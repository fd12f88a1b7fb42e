"""One file to send: the public parts of a release in a ZIP file, and how such a file is taken
apart.

A packed release is *stored*, not compressed, so what comes out is no larger than what came in; the
log may be compressed itself (``xes.gz``). Its bytes depend on its parts alone. A file is accepted
only where it is, byte for byte, what ``pack`` makes of its parts: that admits no second
entry of a name, a path, a link, an extra field, or anything hidden between entries.
"""

import filecmp
import shutil
import stat
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from cloakwork.base.errors import OutputError, VerificationFailed
from cloakwork.publishing.folder import (
    LOG_NAME,
    MOST_PARTS,
    PLAN_FILE,
    STATEMENT_FILE,
    files_of,
    names_of_log,
)

_END_RECORD: Final = struct.Struct("<4s4H2LH")
"""The last record of a ZIP file: signature, disks, entries, size and place of the list, comment."""
_LISTED_AT_MOST: Final = 128
"""Bytes that the list has for each entry at most: names are short."""
_UNREADABLE: Final = (zipfile.BadZipFile, NotImplementedError, struct.error, EOFError, ValueError)
"""What ``zipfile`` raises for what is no ZIP file, or one that it does not know."""
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_PIECE: Final = 1 << 20


def pack_folder(folder: Path, out: Path) -> list[str]:
    """Write the public files of the release in ``folder`` to the ZIP file ``out``, and return their
    names; the same files give the same bytes.

    Raises VerificationFailed where a part is missing or is no plain file, OutputError where ``out``
    cannot be written.
    """
    found = []
    for path in folder.iterdir():
        if path.name in (PLAN_FILE, STATEMENT_FILE) or LOG_NAME.fullmatch(path.name):
            for file in files_of(path):
                if file.is_file() and not file.is_symlink():
                    found.append(file.relative_to(folder).as_posix())
    names = _public_files(found)
    try:
        with zipfile.ZipFile(out, "x", zipfile.ZIP_STORED) as archive:
            for name in names:
                # Nothing of the entry depends on when or by whom it was packed.
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.create_system = 3  # Unix, so that the mode counts
                entry.external_attr = (stat.S_IFREG | 0o644) << 16
                entry.file_size = (folder / name).stat().st_size
                with (folder / name).open("rb") as part, archive.open(entry, "w") as copy:
                    shutil.copyfileobj(part, copy, _PIECE)
    except FileExistsError:
        raise OutputError(
            f"{out}: exists already, and nothing is overwritten; name a new file"
        ) from None
    except OSError as error:
        raise OutputError(f"{out}: cannot be written ({error.strerror or error})") from error
    return names


@contextmanager
def unpacked(file: Path) -> Iterator[Path]:
    """The parts of a packed release in a temporary folder; raises VerificationFailed unless
    ``pack`` made the file.

    Only names and sizes are looked at: whether the parts are authentic is found out afterwards.
    """
    with tempfile.TemporaryDirectory(prefix="cloakwork-verify-") as name:
        folder = Path(name, "release")
        folder.mkdir()
        try:
            _unpack_parts(file, folder)
            # Packed again, so that every byte that is not of a part shows.
            again = Path(name, "again.zip")
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
    is_too_long = entries > MOST_PARTS + 2 or listed > entries * _LISTED_AT_MOST
    # Three files at least: a log, its plan, its statement.
    if entries < 3 or is_too_long or (large and size < zipfile.ZIP64_LIMIT):
        raise _refusal(file, "it does not hold the files of a release")
    source.seek(0)


def _public_files(names: list[str]) -> list[str]:
    """``names``, sorted; VerificationFailed unless they are a release's public files, each once."""
    of_log = names_of_log(names) or ()
    if not of_log or sorted(names) != sorted([PLAN_FILE, STATEMENT_FILE, *of_log]):
        raise VerificationFailed(
            [
                f"a release is one log, whole or in parts numbered from 1, {PLAN_FILE} and "
                f"{STATEMENT_FILE}, and nothing else"
            ]
        )
    return sorted(names)


def _refusal(file: Path, why: str) -> VerificationFailed:
    return VerificationFailed([f"{file.name}: is not a file that 'cloakwork pack' made: {why}"])

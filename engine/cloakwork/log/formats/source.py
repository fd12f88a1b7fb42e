"""The files of a log, and their bytes: unpacked, decoded, with every failure told as a
``LogError``.
"""

import codecs
import gzip
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, Final, Literal, Self, cast

from cloakwork.base.errors import LogError
from cloakwork.base.globs import is_glob, matches
from cloakwork.base.text import shown, size_text
from cloakwork.log.formats.options import Encoding, InputFormat
from cloakwork.log.limits import Limits, current_limits, raising, refuse_unpacked

Format = Literal["xes", "csv", "parquet"]

GZIP_MAGIC: Final = b"\x1f\x8b"
SUFFIXES: Final[dict[str, InputFormat]] = {
    ".xes": "xes",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".xlsx": "excel",
    ".xlsm": "excel",
    ".json": "ocel-json",
    ".jsonocel": "ocel-json",
    ".sqlite": "ocel-sqlite",
    ".sqlite3": "ocel-sqlite",
    ".db": "ocel-sqlite",
    ".xmlocel": "ocel-xml",
}
TABLES: Final[frozenset[InputFormat]] = frozenset({"csv", "parquet", "excel"})
"""Formats whose columns have names of their own, which a policy maps."""

SUPPORTED: Final = (
    "XES (.xes, .xes.gz), CSV (.csv, .csv.gz), Parquet (.parquet, .pq), Excel (.xlsx) "
    "and OCEL (.json, .xml, .sqlite, .csv)"
)
_STARTS: Final[dict[bytes, InputFormat]] = {b"PAR1": "parquet", b"SQLite format 3\0": "ocel-sqlite"}
_BLOCK: Final = 16 << 20  # bytes
_BEGINNING: Final = 1 << 16  # bytes
_OBJECT_XML: Final = re.compile(rb"<([^\s<>:]+:)?(events|objects|object-types)[\s/>]")
_OBJECT_TABLE: Final = re.compile(
    rb"(?=[^\n]*ocel:eid)[^\n]*ocel:type:"
    rb'|(\xef\xbb\xbf)?"?id"?[,;\t]"?activity"?[,;\t]"?timestamp"?[,;\t]([^\n]*[,;\t])?"?ot:'
)
"""The first line of OCEL 1.0 and 2.0 in CSV."""
_MOST_FILES: Final = 10_000  # of a folder
_WIDE_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_COMPRESSION: Final = 6  # gzip's own default: 9 takes three times as long for one or two percent
_XML_STARTS: Final = (b"<", b"\xef\xbb\xbf<", b"\xff\xfe<", b"\xfe\xff\x00<")


class LogStream:
    """The unpacked bytes of one file, read forwards; ``LogError`` for a damaged file or one over
    ``limits``.
    """

    def __init__(self, path: Path, limits: Limits | None = None) -> None:
        """Open ``path``; gzip is recognised by its first bytes, whatever the file is called."""
        self.path = path
        self.limits = limits or current_limits()
        self._unpacked = 0
        with _as_log_error(path):
            self._raw: IO[bytes] = path.open("rb")
            packed = self._raw.read(2) == GZIP_MAGIC
            self._raw.seek(0)
        self._bytes: IO[bytes] | gzip.GzipFile = (
            gzip.GzipFile(fileobj=self._raw) if packed else self._raw
        )

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes; fewer only at the end."""
        with _as_log_error(self.path):
            data = self._bytes.read(size)
            self._unpacked += len(data)
            taken = self._raw.tell()
        # Checked as it unpacks: a few packed bytes can stand for any number.
        refuse_unpacked(self.path, self._unpacked, taken, self.limits, "the gzip file unpacks to")
        return data

    def read_all(self) -> bytes:
        """All bytes that are left."""
        return b"".join(iter(lambda: self.read(_BLOCK), b""))

    @property
    def taken(self) -> int:
        """How many bytes of the file, as it is packed, were read so far, about."""
        return self._raw.tell()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()


_DAMAGED: Final = "download or copy the file again"
_FAULTS: Final[dict[type[Exception], tuple[str, str]]] = {
    FileNotFoundError: ("there is no such file", "check the path"),
    IsADirectoryError: ("this is a folder", "name one log file inside it"),
    PermissionError: ("the file may not be read", "grant read permission on it"),
    EOFError: ("the gzip file breaks off before its end", _DAMAGED),
}
"""What is wrong, and what to do."""


@contextmanager
def _as_log_error(path: Path) -> Iterator[None]:
    try:
        yield
    except (gzip.BadGzipFile, zlib.error) as error:
        raise LogError(path, f"the gzip file is damaged ({error})", hint=_DAMAGED) from None
    except (OSError, EOFError) as error:
        said = f"the file cannot be read ({getattr(error, 'strerror', None) or error})"
        said, hint = _FAULTS.get(type(error), (said, "check the disk and the path"))
        raise LogError(path, said, hint=hint) from None


def format_of(path: Path) -> InputFormat:
    """Which format the file is in: by suffix, or else by its first bytes. ``LogError`` when neither
    tells; of several files, the first tells.
    """
    path = files_of(path)[0]
    known = format_by_suffix(path)
    if known not in (None, "csv"):
        return known
    with LogStream(path) as stream:
        start = stream.read(_BEGINNING)
    if known:
        return "ocel-csv" if _OBJECT_TABLE.match(start) else known
    if not start:
        raise empty_file(path)
    for magic, form in _STARTS.items():
        if start.startswith(magic):
            return form
    if start.lstrip(b" \t\r\n").startswith(_XML_STARTS):
        return "ocel-xml" if _OBJECT_XML.search(start) else "xes"
    raise LogError(
        path, "this is no log format that Cloakwork reads", hint=f"give a file in {SUPPORTED}"
    )


def format_by_suffix(path: Path) -> InputFormat | None:
    """The format that the file's name claims; None when it claims none."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return SUFFIXES.get(suffixes[-1]) if suffixes else None


def too_long(path: Path, name: str, limits: Limits, line: int | None) -> LogError:
    """The refusal of a value over the limit."""
    return LogError(
        path,
        f"a value of '{shown(name)}' is larger than {size_text(limits.value_size)}, the limit",
        line=line,
        hint=raising("value-size", 4 * limits.value_size),
    )


def empty_file(path: Path) -> LogError:
    """The refusal of a file without a single byte."""
    return LogError(path, "the file is empty", hint="export the log again")


def require_bytes(path: Path) -> None:
    """Refuse a file that is empty, or cannot be opened."""
    with LogStream(path) as stream:
        if not stream.read(1):
            raise empty_file(path)


def files_of(source: str | Path | Sequence[str | Path]) -> tuple[Path, ...]:
    """The files of a log, in the order in which their rows count: those of a folder by their names,
    several as they are given.

    Of a folder, files that are hidden or called ``_...`` are none of its log, as writers of such
    folders have it (``_SUCCESS``); anything else must be a log. Raises ``LogError``.
    """
    if isinstance(source, str | Path):
        path = Path(source)
        if is_pattern(path):
            return _files_in(path.parent, path.name)
        return _files_in(path) if path.is_dir() else (path,)
    files = tuple(Path(each) for each in source)
    if not files:
        raise LogError("log", "no file is given", hint="name at least one")
    return _of_one_format(files)


def is_pattern(path: Path) -> bool:
    """Whether a path stands for all files of its folder whose names fit: none is called so."""
    return is_glob(path.name) and not path.exists()


def require_there(path: Path) -> None:
    """Raise LogError unless there is a file or a folder, or files fit a pattern; opens none."""
    if is_pattern(path):
        files_of(path)
    elif not path.exists():
        raise LogError(path, "there is no such file or folder")


def _files_in(folder: Path, pattern: str = "*") -> tuple[Path, ...]:
    try:
        with os.scandir(folder) as entries:
            names_there = (each.name for each in entries if not each.name.startswith((".", "_")))
            listed = (name for name in names_there if matches(pattern, name))
            # No further than the limit, and one: a folder may hold millions.
            names = sorted(islice(listed, _MOST_FILES + 1))
    except OSError as error:
        said = f"the folder cannot be read ({error.strerror or error})"
        raise LogError(folder, said, hint="grant read permission on it") from None
    if not names:
        raise LogError(
            folder,
            "the folder holds no log" if pattern == "*" else f"no file in it is called {pattern}",
            hint="check the path",
        )
    if len(names) > _MOST_FILES:
        said = f"the folder holds more than {_MOST_FILES:,} files, the limit"
        raise LogError(folder, said, hint="write fewer, larger files")
    files = tuple(folder / name for name in names)
    for each in files:
        if not each.is_file() or format_by_suffix(each) is None:
            said = "a folder that is read as one log holds what is none"
            raise LogError(
                each,
                said,
                hint=f"name the log itself, such as log.xes.gz in a release; read are {SUPPORTED}",
            )
    return _of_one_format(files)


def _of_one_format(files: tuple[Path, ...]) -> tuple[Path, ...]:
    first = format_by_suffix(files[0])
    for each in files[1:]:
        form = format_by_suffix(each)
        if form != first:
            said = f"the file is {form or 'of no known format'}, and {files[0].name} is {first}"
            raise LogError(each, said, hint="the files of one log are of one format")
    return files


class Decoder:
    """Makes UTF-8 of a file in some encoding, else in UTF-8, piece by piece, without a byte-order
    mark.
    """

    def __init__(self, path: Path, encoding: Encoding | None) -> None:
        self._path = path
        self._encoding = encoding
        self._codec: str = encoding or "utf-8"
        self._decoder: codecs.IncrementalDecoder | None = None
        self._line = 1
        self._is_begun = False

    def decode(self, piece: bytes, *, is_last: bool) -> bytes:
        """The next piece. ``LogError`` with its line at the first byte that is none of the
        encoding.
        """
        if self._decoder is None:
            if self._codec == "utf-16":
                # Without a mark, little-endian: the more usual order.
                is_big = piece.startswith(_WIDE_MARKS[1])
                self._codec = "utf-16-be" if is_big else "utf-16-le"
            self._decoder = codecs.getincrementaldecoder(self._codec)()
        try:
            text = self._decoder.decode(piece, final=is_last)
        except UnicodeDecodeError as error:
            before = error.object[: error.start].decode(self._codec, "replace")
            hint = "correct spec.input.encoding, or save the file as UTF-8"
            if self._codec == "utf-8":
                likely = likely_encoding(error.object)
                hint = f"save it as UTF-8, or say encoding: {likely} under spec.input"
            raise LogError(
                self._path,
                f"the file is not in {self._encoding or 'UTF-8'}",
                line=self._line + before.count("\n"),
                hint=hint,
            ) from None
        self._line += text.count("\n")
        if text and not self._is_begun:
            text = text.removeprefix("\ufeff")
            self._is_begun = True
        return text.encode("utf-8", "surrogatepass")


def likely_encoding(data: bytes) -> Encoding:
    """The encoding that bytes seem to be in: a guess, to be confirmed by who knows the file."""
    if data.startswith(_WIDE_MARKS):
        return "utf-16"
    sample = data[: 1 << 16]
    # Letters of two bytes each mostly have a zero in every other place.
    odd = sample[1::2].count(0)
    even = sample[::2].count(0)
    if max(odd, even) > len(sample) // 4:
        return "utf-16-le" if odd > even else "utf-16-be"
    encodings: tuple[Encoding, ...] = ("utf-8", "cp1252")
    for encoding in encodings:
        with suppress(UnicodeDecodeError):
            data.decode(encoding)
            return encoding
    return "latin-1"  # every byte is a character of it


@contextmanager
def open_output(path: Path) -> Iterator[IO[bytes]]:
    """Open ``path`` for writing bytes, packed when it ends in ``.gz``. ``OSError`` when that fails.

    The gzip header names no file and no time, so that the same content gives the same bytes.
    """
    with path.open("wb") as raw:
        if path.suffix.lower() != ".gz":
            yield raw
            return
        with gzip.GzipFile("", "wb", compresslevel=_COMPRESSION, fileobj=raw, mtime=0) as packed:
            yield cast(IO[bytes], packed)

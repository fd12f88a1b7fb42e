"""Opening a log file: its bytes, unpacked, with every failure told as a ``LogError``."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Literal, Self

from cloakwork.base.errors import LogError
from cloakwork.base.text import shown, size_text
from cloakwork.log.formats.options import InputFormat
from cloakwork.log.limits import RATIO_FROM, Limits, current_limits, raising

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
}
SUPPORTED: Final = (
    "XES (.xes, .xes.gz), CSV (.csv, .csv.gz), Parquet (.parquet, .pq), Excel (.xlsx) "
    "and OCEL 2.0 (.json, .sqlite)"
)
_STARTS: Final[dict[bytes, InputFormat]] = {
    b"PAR1": "parquet",
    b"SQLite format 3\0": "ocel-sqlite",
}
_BLOCK: Final = 16 << 20  # bytes
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
        if self._unpacked > self.limits.unpacked_size:
            raise LogError(
                self.path,
                f"the file holds more than {size_text(self.limits.unpacked_size)}, the limit",
                hint=raising("unpacked-size", 2 * self.limits.unpacked_size),
            )
        if self._unpacked > max(RATIO_FROM, self.limits.unpack_ratio * taken):
            raise LogError(
                self.path,
                f"the gzip file unpacks to more than {self.limits.unpack_ratio} times its size, "
                "the limit",
                hint=raising("unpack-ratio", 1100),
            )
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._raw.close()


@contextmanager
def _as_log_error(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise LogError(path, "there is no such file", hint="check the path") from None
    except IsADirectoryError:
        raise LogError(path, "this is a folder", hint="name one log file inside it") from None
    except PermissionError:
        raise LogError(
            path, "the file may not be read", hint="grant read permission on it"
        ) from None
    except EOFError:
        raise LogError(
            path, "the gzip file breaks off before its end", hint="download or copy the file again"
        ) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise LogError(
            path, f"the gzip file is damaged ({error})", hint="download or copy the file again"
        ) from None
    except OSError as error:
        raise LogError(
            path,
            f"the file cannot be read ({error.strerror or error})",
            hint="check the disk and the path",
        ) from None


def format_of(path: Path) -> InputFormat:
    """Which format the file is in: by suffix, or else by its first bytes. ``LogError`` when neither
    tells.
    """
    known = format_by_suffix(path)
    if known:
        return known
    with LogStream(path) as stream:
        start = stream.read(64)
    if not start:
        raise empty_file(path)
    for magic, form in _STARTS.items():
        if start.startswith(magic):
            return form
    if start.lstrip(b" \t\r\n").startswith(_XML_STARTS):
        return "xes"
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

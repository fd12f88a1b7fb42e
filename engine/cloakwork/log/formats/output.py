"""Opening a file to write a log into it, packed by gzip or not, without a trace of when or where it
was written.
"""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, cast

_COMPRESSION: Final = 6  # gzip's own default: 9 takes three times as long for one or two percent


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

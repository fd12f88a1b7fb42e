"""The hashes of the case ids of a log in parts: which of them stand in two parts, in memory that
does not grow with the log.
"""

from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from cloakwork.errors import OutputError

Hashes = NDArray[np.uint64]

_RANGE_BITS: Final = 6
"""Hashes are compared range after range: 64 of them, each of equally many values."""

_IN_MEMORY: Final = 1 << 25
"""Bytes; more are kept in a temporary file."""

_BYTES: Final = 8
"""Of a hash."""


class IdHashes:
    """Takes the hashes of part after part; to be closed, by ``with``.

    A temporary file holds them where they are many: keyed hashes of released ids tell nobody
    anything. Raises OutputError where it cannot be written.
    """

    def __init__(self) -> None:
        self._file: Final = SpooledTemporaryFile[bytes](max_size=_IN_MEMORY)
        self._end = 0
        self._bounds: list[NDArray[np.int64]] = []

    def add(self, hashes: Hashes) -> None:
        """Those of the next part: uint64, shape (cases,), in any order."""
        ascending = np.sort(hashes)
        width = 64 - _RANGE_BITS
        ends = [np.uint64((number << width) - 1) for number in range(1, (1 << _RANGE_BITS) + 1)]
        behind = np.searchsorted(ascending, np.array(ends), "right")
        self._bounds.append(self._end + _BYTES * np.concatenate([[0], behind]).astype(np.int64))
        self._end += ascending.nbytes
        try:
            self._file.write(ascending.tobytes())
        except OSError as error:
            raise OutputError(
                "no temporary file can be written to compare case ids by "
                f"({error.strerror or error}); set TMPDIR to a folder on a larger disk"
            ) from error

    def twice(self) -> Hashes:
        """The hashes that stand there more than once, ascending."""
        found = [np.zeros(0, np.uint64)]
        for number in range(1 << _RANGE_BITS):
            spans = [self._read(bounds[number], bounds[number + 1]) for bounds in self._bounds]
            hashes = np.sort(np.concatenate([np.zeros(0, np.uint64), *spans]))
            again = hashes[1:][hashes[1:] == hashes[:-1]]
            found.append(np.unique(again))
        self._file.seek(self._end)
        return np.concatenate(found)

    def _read(self, begin: int, end: int) -> Hashes:
        self._file.seek(begin)
        return np.frombuffer(self._file.read(end - begin), np.uint64)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

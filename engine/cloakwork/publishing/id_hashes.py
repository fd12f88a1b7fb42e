"""The hashes of the case ids of a log in parts: which of them stand in two parts, in memory that
does not grow with the log.
"""

from contextlib import suppress
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Final, Self

import numpy as np

from cloakwork.base.arrays import Words
from cloakwork.base.errors import OutputError
from cloakwork.engines.batch_files import SortedRuns

_IN_MEMORY: Final = 1 << 23
"""Bytes; more are kept in a temporary file."""


class IdHashes:
    """Takes the hashes of part after part; to be closed, by ``with``.

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Closing writes what is left, which nobody reads any more.
        with suppress(OSError):
            self._file.close()

"""Numbers that come run after run and are looked at in order, in little memory.

An external sort without the merge (Knuth, The Art of Computer Programming 3, 5.4): each run is
sorted and kept in a file; then all numbers of a range are looked at, range after range.
"""

from collections.abc import Iterator
from typing import IO, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", np.int64, np.uint64)

_SAMPLED: Final = 512
"""Of so many numbers of a run one is kept in memory, to find ranges by."""

_RANGE: Final = 512
"""So many of these are a range: 250,000 numbers, or as many more as one number occurs."""

_BYTES: Final = 8
"""Of a number."""


class SortedRuns(Generic[Number]):
    """Runs of whole numbers of 64 bits. ``file``: an empty one of bytes, in which they are kept;
    closing it is left to who opened it.
    """

    def __init__(self, file: IO[bytes], number: type[Number]) -> None:
        self._file: Final = file
        self._number: Final[type[Number]] = number
        self._starts = [0]
        self._samples: list[NDArray[Number]] = []

    @property
    def starts(self) -> tuple[int, ...]:
        """How many numbers come before each run, and last how many there are."""
        return tuple(self._starts)

    def add(self, numbers: NDArray[Number]) -> None:
        """The next run: shape (numbers,), in any order. Raises OSError where the file is full."""
        ascending = np.sort(numbers)
        self._samples.append(ascending[::_SAMPLED].copy())
        self._starts.append(self._starts[-1] + len(ascending))
        self._file.seek(_BYTES * self._starts[-2])
        self._file.write(ascending.tobytes())

    def ranges(self) -> Iterator[list[NDArray[Number]]]:
        """Range after range, ascending, its numbers of each run, ascending. All that are equal lie
        in one range.
        """
        if not self._starts[-1]:
            return
        samples = np.sort(np.concatenate(self._samples))
        # Whatever is below the first of them is in the first range, with it.
        ends = np.unique(samples[_RANGE::_RANGE])
        bounds = [
            np.concatenate([[0], np.searchsorted(self._read(run, 0, count), ends), [count]])
            for run, count in enumerate(np.diff(self._starts).tolist())
        ]
        for number in range(len(ends) + 1):
            yield [
                self._read(run, int(of_run[number]), int(of_run[number + 1]))
                for run, of_run in enumerate(bounds)
            ]

    def _read(self, run: int, first: int, behind: int) -> NDArray[Number]:
        """The numbers of a run from one place on, before another."""
        self._file.seek(_BYTES * (self._starts[run] + first))
        packed = self._file.read(_BYTES * (behind - first))
        return np.frombuffer(packed, self._number)

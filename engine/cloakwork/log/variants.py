"""The variants of a log: its distinct activity sequences, coded as integers."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints, Ints32
from cloakwork.log.eventlog import ACTIVITY, EventLog


@dataclass(frozen=True, slots=True)
class Variants:
    """The distinct activity sequences of a log.

    - ``alphabet``: the activity labels, sorted; code ``c`` stands for ``alphabet[c]``.
    - ``codes``: int32, the sequences end to end; variant ``v`` is
      ``codes[offsets[v]:offsets[v + 1]]``.
    - ``offsets``: int64, shape (variants + 1,).
    - ``counts``: int64, shape (variants,); cases of each variant.
    - ``of_case``: int64, shape (cases,); the variant of each case.
    """

    alphabet: tuple[str, ...]
    codes: Ints32
    offsets: Ints
    counts: Ints
    of_case: Ints

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, variant: int) -> Ints32:
        """The codes of one variant: int32, shape (length,)."""
        return self.codes[self.offsets[variant] : self.offsets[variant + 1]]

    def labels(self, variant: int) -> tuple[str, ...]:
        """One variant as activity labels."""
        return tuple(self.alphabet[code] for code in self[variant])


def variants_of(log: EventLog) -> Variants:
    """Find the variants of ``log``, exactly, in time linear in events times log(cases).

    Events must have labels (``bound`` drops those without). Cases of one length are compared as
    rows of one matrix.
    """
    labels = log.events[ACTIVITY].cast(pl.String)
    alphabet = labels.unique().sort()
    codes = labels.cast(pl.Enum(alphabet)).to_physical().cast(pl.Int32).to_numpy()
    lengths = np.diff(log.offsets)
    of_case = np.empty(len(lengths), np.int64)
    found: list[Ints32] = []
    counts: list[Ints] = []
    sizes: list[Ints] = []
    total = 0
    for length in np.unique(lengths):
        cases = np.flatnonzero(lengths == length)
        # Rows of the events, one line a case: its first row, the next one, ...
        event_rows = log.offsets[cases][:, None] + np.arange(length)
        matrix = np.ascontiguousarray(codes[event_rows])
        distinct, inverse, count = _distinct_rows(matrix)
        of_case[cases] = total + inverse
        found.append(distinct)
        counts.append(count)
        total += len(count)
        sizes.append(np.full(len(count), length))
    return Variants(
        alphabet=tuple(alphabet.to_list()),
        codes=np.concatenate([np.zeros(0, np.int32), *(rows.ravel() for rows in found)]),
        offsets=np.cumsum(np.concatenate([[0], *sizes])).astype(np.int64),
        counts=np.concatenate([np.zeros(0, np.int64), *counts]),
        of_case=of_case,
    )


def _distinct_rows(
    matrix: Ints32,
) -> tuple[Ints32, Ints, Ints]:
    """Distinct rows, the index of each row among them, and how often each occurs."""
    if matrix.shape[1] == 0:
        return matrix[:1], np.zeros(len(matrix), np.int64), np.array([len(matrix)])
    # Each row as one value of so many bytes, which sorts faster than a row of columns.
    row_type = np.dtype((np.void, matrix.dtype.itemsize * matrix.shape[1]))
    rows = matrix.view(row_type).ravel()
    _, first, inverse, count = np.unique(
        rows, return_index=True, return_inverse=True, return_counts=True
    )
    return matrix[first], inverse.astype(np.int64).ravel(), count

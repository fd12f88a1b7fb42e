"""Values of one attribute: as a reader finds them in a stretch of the file, and laid out over the
rows of a table.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, Literal

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints

Kind = Literal["text", "int", "float", "boolean", "date"]
Scope = Literal["trace", "event"]

KIND_OF: Final[dict[str, Kind]] = {
    "string": "text",
    "id": "text",
    "int": "int",
    "float": "float",
    "boolean": "boolean",
    "date": "date",
}
_SMALL: Final = 1 << 22  # cells: at 16 bytes each, 64 MiB
_LARGE: Final = 1 << 26


@dataclass(frozen=True, slots=True)
class ValueRun:
    """Values of one attribute, in file order, as one stretch of the file gave them.

    One run holds all values of its kind in its stretch, ``kind`` being what
    ``ColumnBuilder.kind_of`` says: so the order of the file is kept where an element states an
    attribute twice.

    - ``rows``: int64, shape (n,); the ordinal in the whole file of the trace or event that each
      value belongs to.
    - ``values``: String, n long, not null; ``lines``: the line of each value (from 1), where the
      reader knows it.
    """

    scope: Scope
    key: str
    kind: Kind
    rows: Ints
    values: pl.Series
    lines: Sequence[int] | None = None


def round_trips(text: pl.Series, typed: pl.Series) -> bool:
    """Whether ``typed``, cast to text, gives back every character of ``text``: nothing is lost
    then.
    """
    if typed.dtype == pl.String:
        return True
    if typed.dtype.is_temporal():
        return False
    return bool((typed.cast(pl.String) == text).all())


@dataclass(frozen=True, slots=True)
class Layout:
    """How values become a column: ``height`` rows, ``order`` (None: the file's) says which row of
    the file each is.

    A value that has at least ``min_rows_for_sparse`` rows to itself is cheaper alone: a column of
    such values is a chain of pieces, and its stretches of nulls are slices of one piece, which take
    no memory of their own. So a file with many attributes, few values each, takes memory by its
    values, not by attributes times rows.
    """

    height: int
    order: Ints | None
    min_rows_for_sparse: float
    nulls: dict[pl.DataType, pl.Series] = field(default_factory=dict, repr=False)

    @classmethod
    def of_rows(cls, height: int, columns: int, order: Ints | None = None) -> "Layout":
        """The layout for a table; a small one has no sparse columns, which are slower to read."""
        cells = height * columns
        if cells < _SMALL:
            return cls(height, order, min_rows_for_sparse=inf)
        min_rows_for_sparse = 256 if cells < _LARGE else 32
        return cls(height, order, min_rows_for_sparse)

    def spread_values(self, values: pl.Series, rows: Ints) -> pl.Series:
        """``values`` at ``rows`` of the file (ascending, none twice), null elsewhere, in the log's
        order.
        """
        if len(rows) * self.min_rows_for_sparse < self.height:
            return self._sparse_column(values, rows)
        # For each row the position of its value; rows without one take the last, a null.
        source = np.full(self.height, len(values), np.int64)
        source[rows] = np.arange(len(rows))
        if self.order is not None:
            source = source[self.order]
        missing = pl.Series([None], dtype=values.dtype)
        return pl.concat([values, missing], rechunk=True).gather(source)

    def _sparse_column(self, values: pl.Series, rows: Ints) -> pl.Series:
        """``spread_values`` as a chain of pieces: each value, and the nulls between two of them."""
        if self.order is not None:
            # The inverse of the order: which row of the log each row of the file is.
            place = np.empty(self.height, np.int64)
            place[self.order] = np.arange(self.height)
            sequence = np.argsort(place[rows])
            values = values.gather(sequence)
            rows = place[rows][sequence]
        nulls = self._null_column(values.dtype)
        # How many rows without a value come before the first, between two, and after the last.
        empty_rows = np.diff(rows, prepend=-1, append=self.height) - 1
        pieces = [nulls.slice(0, int(empty_rows[0]))]
        for row, count in enumerate(empty_rows[1:].tolist()):
            pieces += [values.slice(row, 1), nulls.slice(0, count)]
        return pl.concat(pieces, rechunk=False)

    def _null_column(self, dtype: pl.DataType) -> pl.Series:
        """As many nulls as there are rows: made once for each type, and sliced."""
        if dtype not in self.nulls:
            one_null = pl.Series([None], dtype=dtype)
            self.nulls[dtype] = one_null.new_from_index(0, self.height)
        return self.nulls[dtype]


def place_values(values: pl.Series, rows: Ints, layout: Layout) -> pl.Series:
    """``values`` at ``rows`` (ascending, as the file does), null elsewhere; of several for one row,
    the last.
    """
    if len(rows) == layout.height and (np.diff(rows) == 1).all():
        return values if layout.order is None else values.gather(layout.order)
    # The last value of each row is the one that a value of another row follows.
    last = np.append(np.diff(rows) != 0, True)
    return layout.spread_values(values.filter(last), rows[last])

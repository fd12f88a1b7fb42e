"""Which type a column of texts has: found in pieces, the same as if it were found in one.

``infer_type`` makes numbers, truth values or times of a column where each of its values is one, and
the kinds that it tells apart have no value in common. So a column has the kind that all its pieces
have, those without a value aside, and where they differ it is text.
"""

from collections.abc import Iterable
from typing import Final, Literal

import polars as pl

from cloakwork.log.io.csv import TRUTHS, infer_type
from cloakwork.log.naming import TIME_TYPE

TextKind = Literal["none", "integer", "decimal", "truth 0", "truth 1", "truth 2", "time", "text"]
"""What the texts of a column are; ``none``: there is none. The number of a truth value says in
which of the spellings ``TRUTHS`` it is written.
"""

_TYPES: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "integer": pl.Int64,
    "decimal": pl.Float64,
    "truth 0": pl.Boolean,
    "truth 1": pl.Boolean,
    "truth 2": pl.Boolean,
    "time": TIME_TYPE,
}


def kind_of_texts(texts: pl.Series) -> str:
    """The ``TextKind`` of a piece of a column: ``texts`` is String, null where a value is
    missing.
    """
    return _kind(texts, infer_type(texts))


def merged_kind(kinds: Iterable[str]) -> str:
    """The ``TextKind`` of a column, given those of its pieces."""
    found = set(kinds) - {"none"}
    if len(found) > 1:
        return "text"
    return next(iter(found), "none")


def as_kind(texts: pl.Series, kind: str) -> pl.Series:
    """A piece of a column as the values that ``infer_type`` would make of it in the column, whose
    ``TextKind`` is ``kind``.
    """
    if kind not in _TYPES:
        return texts
    if texts.null_count() == len(texts):
        return texts.cast(_TYPES[kind])
    return infer_type(texts)


def _kind(texts: pl.Series, values: pl.Series) -> str:
    if texts.null_count() == len(texts):
        return "none"
    match values.dtype:
        case pl.Int64:
            return "integer"
        case pl.Float64:
            return "decimal"
        case pl.Boolean:
            first = texts.drop_nulls()[0]
            return next(f"truth {n}" for n, pair in enumerate(TRUTHS) if first in pair)
        case pl.String:
            return "text"
    return "time"

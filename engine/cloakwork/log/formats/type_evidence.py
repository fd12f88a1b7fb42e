"""What a column of texts is read as, found stretch by stretch: what ``csv.infer_type`` finds of the
whole column.

Each reader accepts a column value by value, and no value is accepted by two. So a stretch that has
values is of one kind, the kinds of all stretches are one where they agree, and text otherwise.
"""

from typing import Final, Literal

import polars as pl

from cloakwork.log.formats.csv import infer_type
from cloakwork.log.times import parse_times

TextKind = Literal["empty", "text", "integers", "decimals", "true", "True", "TRUE", "times"]
"""``empty``: no value so far; ``true``, ``True``, ``TRUE``: truth values in that spelling."""

_FALSE: Final[dict[TextKind, str]] = {"true": "false", "True": "False", "TRUE": "FALSE"}


def kind_of_texts(text: pl.Series, so_far: TextKind = "empty") -> TextKind:
    """What a column is read as once ``text`` (String) follows on a stretch of kind ``so_far``."""
    if so_far == "text" or text.null_count() == len(text):
        return so_far
    found = _kind_of_type(infer_type(text), text)
    return joined_kinds(so_far, found)


def joined_kinds(one: TextKind, other: TextKind) -> TextKind:
    """The kind of two stretches together."""
    if one == "empty":
        return other
    return one if other in ("empty", one) else "text"


def read_as(text: pl.Series, kind: TextKind) -> pl.Series:
    """``text`` (String) as the kind that its whole column has; null where null."""
    match kind:
        case "integers":
            return text.cast(pl.Int64)
        case "decimals":
            return text.cast(pl.Float64)
        case "true" | "True" | "TRUE":
            return text == kind
        case "times":
            return parse_times(text).values
        case _:
            return text


def gives_texts_back(kind: TextKind) -> bool:
    """Whether values of the kind, cast to text, are the texts that were read."""
    return kind not in ("True", "TRUE", "times")


def _kind_of_type(values: pl.Series, text: pl.Series) -> TextKind:
    """The kind that ``infer_type`` made ``values`` of."""
    if values.dtype == pl.Int64:
        return "integers"
    if values.dtype == pl.Float64:
        return "decimals"
    if values.dtype == pl.Boolean:
        return next(true for true in _FALSE if text.is_in([true, _FALSE[true]]).all())
    return "times" if values.dtype.is_temporal() else "text"

"""What the values of a column are: found in stretches of it, put together for all, and read as."""

from typing import Final, Literal

import polars as pl

from cloakwork.base.naming import TIME_TYPE
from cloakwork.log.times import parse_times

Kind = Literal["empty", "text", "int", "float", "boolean", "True", "TRUE", "date"]
"""``empty``: no value so far; ``boolean``: truth values as ``true`` and ``false``, or as XES spells
them; ``True``, ``TRUE``: in that spelling.
"""

DECLARED: Final[tuple[Kind, ...]] = ("text", "int", "float", "boolean", "date")
"""The kinds that a file can declare."""

TYPES: Final[dict[Kind, pl.DataType]] = {
    "empty": pl.String(),
    "text": pl.String(),
    "int": pl.Int64(),
    "float": pl.Float64(),
    "boolean": pl.Boolean(),
    "True": pl.Boolean(),
    "TRUE": pl.Boolean(),
    "date": TIME_TYPE,
}
_TRUTHS: Final[dict[Kind, tuple[str, str]]] = {
    "boolean": ("true", "false"),
    "True": ("True", "False"),
    "TRUE": ("TRUE", "FALSE"),
}
_TRUTH: Final = {"true": True, "1": True, "false": False, "0": False}
_ZONED: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?[+-]\d{2}:\d{2}$"
_PROBED: Final = 32


def joined_kinds(one: Kind, other: Kind) -> Kind:
    """The kind of two stretches of one column together."""
    if one == "empty":
        return other
    return one if other in ("empty", one) else "text"


def joined_declared(one: Kind, other: Kind) -> Kind:
    """The kind of values of two declarations: whole numbers among decimal ones are decimal."""
    both = {one, other}
    if both == {"int", "float"}:
        return "float"
    if both <= _TRUTHS.keys():
        return one
    return joined_kinds(one, other)


def gives_texts_back(kind: Kind) -> bool:
    """Whether values that were inferred to be of the kind, cast to text, are the texts that were
    read.
    """
    return kind not in ("True", "TRUE", "date")


def round_trips(text: pl.Series, typed: pl.Series) -> bool:
    """Whether ``typed``, cast to text, gives back every character of ``text``: nothing is lost
    then.
    """
    if typed.dtype == pl.String:
        return True
    if typed.dtype.is_temporal():
        return False
    return bool((typed.cast(pl.String) == text).all())


def inferred(text: pl.Series, likely: Kind = "int") -> tuple[pl.Series, Kind]:
    """A column as numbers, truth values or times if every value reads as one, else as it is; and
    which. ``likely``: tried first.

    Each kind accepts a column value by value, and no value is accepted by two. So the kind of a
    column is that of its stretches joined.
    """
    if text.null_count() == len(text):
        return text, "empty"
    probe = text.drop_nulls().head(_PROBED)  # most columns are settled by their first values
    kinds: tuple[Kind, ...] = (likely, "int", "float", *_TRUTHS, "date")
    for kind in dict.fromkeys(kinds):
        if _as_inferred(probe, kind) is None:
            continue
        values = _as_inferred(text, kind)
        if values is not None:
            return values, kind
    return text, "text"


def _as_inferred(text: pl.Series, kind: Kind) -> pl.Series | None:
    """The values of a table's column as ``kind``; None where one is not of it."""
    if kind in _TRUTHS:
        # Truth values only in one spelling: where ``TRUE`` stands beside ``true``, both stay what
        # they are.
        true = _TRUTHS[kind][0]
        return text == true if text.is_in(_TRUTHS[kind]).all() else None
    if kind == "date":
        if not text.str.contains(_ZONED).all():
            return None
        values = parse_times(text).values
        return values if values.null_count() == text.null_count() else None
    values = text.cast(TYPES[kind], strict=False)
    if values.null_count() != text.null_count():
        return None
    if kind == "float" and not values.is_finite().all():
        return None
    # Numbers only where each is written as the number would be: 1E5, +4917, 401.90 are codes.
    return values if (values.cast(pl.String) == text).all() else None


def read_kind(text: pl.Series, kind: Kind) -> tuple[pl.Series, int]:
    """Texts (String) as ``kind``, blanks around them left out, null where one is none; and how many
    times name no zone.
    """
    typed, zoneless = cast_to_kind(text, kind)
    if typed.null_count() == text.null_count():
        return typed, zoneless
    typed, more = cast_to_kind(text.str.strip_chars(" \t\r\n"), kind)
    return typed, zoneless + more


def cast_to_kind(text: pl.Series, kind: Kind) -> tuple[pl.Series, int]:
    """As ``read_kind``, but that blanks are characters like others."""
    if kind == "date":
        times = parse_times(text)
        return times.values, times.zoneless
    if kind in _TRUTHS:
        lowered = text.str.to_lowercase()
        return lowered.replace_strict(
            _TRUTH,
            default=None,
            return_dtype=pl.Boolean,
        ), 0
    return text.cast(TYPES[kind], strict=False), 0

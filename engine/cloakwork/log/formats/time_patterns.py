"""How times are written, as people say it (``%d.%m.%Y %H:%M``), and the regular expression that
reads it.

The directives are those of ``strptime`` (IEEE Std 1003.1; Python's ``datetime``) whose meaning
hangs on no locale: names of months and days are English. A pattern is read by our own expression,
not by a library's ``strptime``, most of which accept more than they say.
"""

import re
from functools import cache
from typing import Final

EPOCHS: Final = {"epoch-seconds": 1_000_000, "epoch-milliseconds": 1_000}
"""Microseconds of one unit, since 1970-01-01T00:00:00Z."""

MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def _names(words: tuple[str, ...]) -> str:
    return "|".join(f"{word[:3]}(?:{word[3:]})?" if word[3:] else word for word in words)


_TWO: Final = "[0-9]{1,2}"
_FIELDS: Final = {
    "Y": ("year", "[0-9]{4}"),
    "y": ("short_year", "[0-9]{2}"),
    "m": ("month", _TWO),
    "b": ("month_name", f"(?i:{_names(MONTHS)})"),
    "B": ("month_name", f"(?i:{_names(MONTHS)})"),
    "d": ("day", _TWO),
    "H": ("hour", _TWO),
    "I": ("half_hour", _TWO),
    "p": ("half", r"(?i:[ap]\.?m\.?)"),
    "M": ("minute", _TWO),
    "S": ("second", _TWO),
    "f": ("fraction", "[0-9]{1,12}"),
    "z": ("zone", "(?:[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)"),
}
"""The field that each directive fills, and what it matches."""

_SHORT: Final = {"T": "%H:%M:%S", "R": "%H:%M", "F": "%Y-%m-%d"}
_SPECIAL: Final = frozenset(r"\.+*?()|[]{}^$#&-~")


def checked_time_format(text: str) -> str:
    """``text``, where it says how times are written; else ``ValueError``."""
    if text not in EPOCHS:
        expression_of(text)
    return text


@cache
def expression_of(pattern: str) -> str:
    """The regular expression of a pattern, a named group for each field; blanks around it are
    allowed. ``ValueError`` where the pattern leaves open which day is meant.
    """
    pieces: list[str] = []
    found: set[str] = set()
    written = re.sub("%[TRF]", lambda short: _SHORT[short[0][1]], pattern)
    for part in re.findall(r"%.|%$|\s+|[^%\s]", written, re.DOTALL):
        if part.isspace():
            pieces.append(r"\s+")
        elif not part.startswith("%"):
            pieces.append("\\" + part if part in _SPECIAL else part)
        elif part == "%%":
            pieces.append("%")
        elif part in ("%a", "%A"):
            pieces.append(f"(?i:{_names(_DAYS)})")
        else:
            pieces.append(_field(part, found))
    _require_a_moment(pattern, found)
    return r"^\s*" + "".join(pieces) + r"\s*$"


def _field(part: str, found: set[str]) -> str:
    if part[1:] not in _FIELDS:
        known = " ".join(f"%{letter}" for letter in (*_FIELDS, *_SHORT, "a", "A"))
        raise ValueError(f"holds {part}, which is none of {known}")
    name, expression = _FIELDS[part[1:]]
    if name in found:
        raise ValueError(f"holds {part} twice, or another way to write the same")
    found.add(name)
    return f"(?P<{name}>{expression})"


def _require_a_moment(pattern: str, found: set[str]) -> None:
    """Refuse a pattern under which two moments can be written alike."""
    choices = (
        ({"year", "short_year"}, "the year (%Y)"),
        ({"month", "month_name"}, "the month (%m)"),
        ({"day"}, "the day (%d)"),
    )
    for names, what in choices:
        if not found & names:
            raise ValueError(
                f"must hold {what}; write it such as %d.%m.%Y %H:%M:%S, epoch-seconds or "
                "epoch-milliseconds"
            )
        if len(found & names) > 1:
            raise ValueError(f"holds {what} in two ways")
    if {"hour", "half_hour"} <= found:
        raise ValueError("holds the hour in two ways (%H and %I)")
    if ("half_hour" in found) != ("half" in found):
        raise ValueError("needs %I and %p together, such as %I:%M %p")
    needs = (("minute", {"hour", "half_hour"}), ("second", {"minute"}), ("fraction", {"second"}))
    for name, above in needs:
        if name in found and not found & above:
            raise ValueError(f"holds the {name} without what stands above it")

"""How a log is to be read: what a policy says under ``spec.input``, and Python as ``options=``; and
how times are written, as people say it (``%d.%m.%Y %H:%M``), with the expression that reads it.

Needs no reader and no table library: policies are read without them. The directives of times are
those of ``strptime`` (IEEE Std 1003.1; Python's ``datetime``) whose meaning hangs on no locale:
names of months and days are English. A pattern is read by our own expression, not by a library's
``strptime``, most of which accept more than they say.
"""

import codecs
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from cloakwork.base.naming import CASE_PREFIX, LIFECYCLE, SERVICE_TIME
from cloakwork.base.quantities import IF_SAID, Described

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
    # A directive, a lone % at the end, blanks, or one other sign.
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
            if part[1:] not in _FIELDS:
                known = " ".join(f"%{letter}" for letter in (*_FIELDS, *_SHORT, "a", "A"))
                raise ValueError(f"holds {part}, which is none of {known}")
            name, expression = _FIELDS[part[1:]]
            # Each field once, as two could contradict each other.
            if name in found:
                raise ValueError(f"holds {part} twice, or another way to write the same")
            found.add(name)
            pieces.append(f"(?P<{name}>{expression})")
    _require_a_moment(pattern, found)
    return r"^\s*" + "".join(pieces) + r"\s*$"


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
    # Each part of a clock time needs the one above it.
    needs = (("minute", {"hour", "half_hour"}), ("second", {"minute"}), ("fraction", {"second"}))
    for name, above in needs:
        if name in found and not found & above:
            raise ValueError(f"holds the {name} without what stands above it")


CASE_ID: Final = "case:concept:name"
ACTIVITY: Final = "concept:name"
TIMESTAMP: Final = "time:timestamp"
ROLES: Final = {"case": CASE_ID, "activity": ACTIVITY, "timestamp": TIMESTAMP}
"""Words for the three standard attributes, as authors write them."""
ROW_NUMBER: Final = "row"
"""Beside attributes, what a mapping of columns may name: the column that numbers the rows."""

InputFormat = Literal[
    "xes", "csv", "parquet", "excel", "ocel-json", "ocel-sqlite", "ocel-xml", "ocel-csv"
]

Encoding = Literal[
    "utf-8",
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "latin-1",
    "iso-8859-2",
    "iso-8859-15",
    "cp1250",
    "cp1251",
    "cp1252",
    "cp850",
]

_SPELT: Final = {codecs.lookup(name).name: name for name in get_args(Encoding)}
"""Our names by those that Python has for them, whatever they are called."""


def standard_name(name: str) -> str | None:
    """The attribute that a key of ``columns`` stands for; None for one that stands for none.

    >>> standard_name("case"), standard_name("case:patient"), standard_name("person")
    ('case:concept:name', 'case:patient', None)
    """
    full = ROLES.get(name, name)
    is_of_case = full.startswith("case:") and len(full) > len("case:")
    return full if is_of_case or full in (ACTIVITY, TIMESTAMP) else None


def _known_encoding(value: Any) -> Any:
    with suppress(LookupError, TypeError, ValueError):
        return _SPELT.get(codecs.lookup(value).name.removesuffix("-sig"), value)
    return value


def _one_character(value: str) -> str:
    if value != "\t" and (not value.isprintable() or not value.isascii() or value.isalnum()):
        raise ValueError('must be one sign such as ";", "|" or "\\t"')
    if value in ('"', " ", "-", ".", "+"):
        raise ValueError(f"cannot be '{value}', which stands inside values")
    return value


def _known_zone(value: str) -> str:
    import polars as pl

    # Asked of polars, as that is what will read times of the zone.
    try:
        pl.Series([0]).cast(pl.Datetime("us")).dt.replace_time_zone(value)
    except pl.exceptions.PolarsError:
        raise ValueError("must be a time zone by its name, such as Europe/Berlin or UTC") from None
    return value


LONGEST_NAME: Final = 200
Text = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]


class InputOptions(Described):
    """How a log is to be read. What is not given is as the format has it: UTF-8, ISO 8601, UTC, a
    decimal point.
    """

    format: Annotated[InputFormat | None, IF_SAID] = None
    """Format of the log; by default as its file name says"""

    columns: Annotated[dict[Text, Text], IF_SAID] = {}
    """Which column holds what: case, activity, timestamp, case:NAME for a column that says
    something of the whole case, or row for one that numbers the rows
    """

    delimiter: Annotated[
        Annotated[str, Field(min_length=1, max_length=1), AfterValidator(_one_character)] | None,
        BeforeValidator(
            lambda value: "\t" if value == "tab" else value, json_schema_input_type=str | None
        ),
        IF_SAID,
    ] = None
    """The sign between two fields of a CSV file"""

    encoding: Annotated[
        Encoding | None,
        BeforeValidator(_known_encoding, json_schema_input_type=Encoding | None),
        IF_SAID,
    ] = None
    """Encoding of a CSV file"""

    time_format: Annotated[Annotated[Text, AfterValidator(checked_time_format)] | None, IF_SAID] = (
        None
    )
    """How times are written, such as %d.%m.%Y %H:%M, epoch-seconds or epoch-milliseconds"""

    time_zone: Annotated[Annotated[Text, AfterValidator(_known_zone)] | None, IF_SAID] = None
    """Zone of times that name none, such as Europe/Berlin"""

    decimal: Annotated[Literal[".", ","] | None, IF_SAID] = None
    """The decimal mark of numbers in a CSV file"""

    sheet: Annotated[Text | None, IF_SAID] = None
    """Which sheet of a workbook"""

    starts: Annotated[Text | None, IF_SAID] = None
    """The attribute of events that says when work began, such as start_timestamp; with
    lifecycle:transition, pairs of start and complete are one event. It is read as service_time, in
    seconds, and written as start_timestamp
    """

    activity_with: Annotated[Text | None, IF_SAID] = None
    """The attribute of events that is read as part of the activity, such as lifecycle:transition:
    then an activity is register+complete
    """

    object_type: Annotated[Text | None, IF_SAID] = None
    """Of an object-centric log: each object of this type becomes a case"""

    @field_validator("columns")
    @classmethod
    def _named_once(cls, columns: dict[str, str]) -> dict[str, str]:
        return mapped_columns(columns)

    @model_validator(mode="after")
    def _coherent(self) -> "InputOptions":
        if self.delimiter is not None and self.delimiter == self.decimal:
            raise ValueError("delimiter and decimal must not be the same sign")
        own = self.activity_with
        is_used = own in (ACTIVITY, TIMESTAMP, SERVICE_TIME) or own == self.starts != LIFECYCLE
        if own is not None and (is_used or own.startswith(CASE_PREFIX)):
            raise ValueError("activity_with must name another attribute of events")
        return self

    def with_columns(self, columns: Mapping[str, str] | None) -> "InputOptions":
        """The same, these columns in place of those for the same attributes. ``ValueError`` where
        a key names no attribute, or two stand for one.
        """
        if not columns:
            return self
        own = mapped_columns(columns)
        # Others stay unless they are about the same attribute, or the same column.
        others = {
            name: column
            for name, column in self.columns.items()
            if name not in own and column not in own.values()
        }
        return self.model_copy(update={"columns": {**others, **own}})


def mapped_columns(columns: Mapping[str, str]) -> dict[str, str]:
    """Columns by the full names of attributes. ``ValueError`` where a key names no attribute that a
    column can be mapped to, two keys name one, or two attributes have one column.
    """
    found: dict[str, str] = {}
    for name, column in columns.items():
        full = name if name == ROW_NUMBER else standard_name(name)
        if full is None:
            words = ", ".join((*ROLES, ROW_NUMBER))
            raise ValueError(f"has the key '{name}', which is none of {words} and case:NAME")
        if full in found:
            raise ValueError(f"names the column of '{full}' twice")
        if column in found.values():
            raise ValueError(f"names the column '{column}' twice")
        found[full] = column
    return found

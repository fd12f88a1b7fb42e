"""Quantities as people write them in a policy: numbers like ``1e-6``, durations like ``1h``."""

import math
import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic_core import CoreSchema

LEAST_EPSILON: Final = 1e-5
MOST_EPSILON: Final = 100.0
"""A guarantee's epsilon. Below, one release would take noise of a hundred thousand cases; above,
e**100 bounds nothing.
"""

MOST_BUDGET: Final = 10_000.0
"""The epsilon of all releases of a dataset together: a hundred of the weakest."""

LEAST_DELTA: Final = 1e-20
"""The least delta above 0. A unit in 10**20 is none; nearer to 0 floating point loses digits."""

MOST_UNITS: Final = 10**12
"""Protected units of a log; the delta that goes with it is 1e-13."""

MOST_ROWS: Final = 10**9
"""What k, l or K may count, events of a case and the like: more than any log of one machine holds.
"""

SHORTEST: Final = timedelta(milliseconds=1)
LONGEST: Final = timedelta(days=36_525)
"""A century."""

DATASET_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
"""What a dataset may be called, in a policy and in a declaration."""

LARGEST: Final = 2**53
"""Size of numbers as data (edges, ranges, domains, options): whole numbers up to it are exact
everywhere.
"""


class Frozen(BaseModel):
    """Base of every model here: immutable, and closed to unknown keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        allow_inf_nan=False,
    )


class Described(Frozen, use_attribute_docstrings=True):
    """A model whose fields are described by what stands below them: the sentence that an author
    reads in the editor, and in the reference.
    """

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        found = handler(core_schema)
        for field in handler.resolve_ref_schema(found).get("properties", {}).values():
            # On one line, however it stands in the source.
            if "description" in field:
                field["description"] = " ".join(field["description"].split())
        return found


IF_SAID: Final = Field(exclude_if=lambda value: not value)
"""Left out of what is written where it says nothing: what got the field later keeps its digest."""


Figure = float | None
"""A number that may be missing."""


def figure(title: str, description: str) -> Any:
    """A field of a figure that may be missing, with its plain name and one line that explains it:
    what the internal report prints.
    """
    return Field(default=None, title=title, description=description)


_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|min|m|h|d|w)\s*$")
DURATION_PATTERN = r"^\s*[0-9]+(\.[0-9]+)?\s*(ms|s|min|m|h|d|w)\s*$"
_NUMBER = re.compile(r"^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$")


def parse_duration(text: Any) -> Any:
    """Read ``90s``, ``15m``, ``1h``, ``7d``, ``2w`` or ``250ms``; leaves anything else to pydantic.

    >>> parse_duration("1h")
    datetime.timedelta(seconds=3600)
    """
    if isinstance(text, str):
        match = _DURATION.match(text)
        if not match:
            raise ValueError("must be a duration such as 30s, 15m, 1h or 7d")
        try:
            return timedelta(milliseconds=round(float(match[1]) * _UNITS[match[2]] * 1000))
        except OverflowError:
            raise ValueError("must be a shorter duration") from None
    # pydantic would take a bare number for seconds.
    if isinstance(text, int | float):
        raise ValueError("must be a duration with its unit, such as 30s, 15m, 1h or 7d")
    return text


def format_duration(value: timedelta) -> str:
    """Write a duration the way ``parse_duration`` reads it, in the largest unit that divides it.

    >>> format_duration(timedelta(hours=36))
    '36h'
    """
    # Nothing shorter is written.
    milliseconds = round(value / timedelta(milliseconds=1))
    for unit in ("w", "d", "h", "m", "s"):
        size = round(_UNITS[unit] * 1000)
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def duration_text(value: timedelta) -> str:
    """A duration as people read it.

    >>> duration_text(timedelta(hours=2)), duration_text(timedelta(minutes=1))
    ('2 h', '1 min')
    >>> duration_text(timedelta(days=1)), duration_text(timedelta(days=14))
    ('1 day', '2 weeks')
    """
    written = format_duration(value)
    number = written.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = written.removeprefix(number)
    plural = "" if number == "1" else "s"
    names = {"m": "min", "w": f"week{plural}", "d": f"day{plural}"}
    return f"{number} {names.get(unit, unit)}"


def rounded(value: float) -> str:
    """A measured figure with three significant digits and without an exponent; a whole number, such
    as a count, with all of its digits.

    >>> rounded(0.783654), rounded(12345.6), rounded(12345.0), rounded(0.00001234)
    ('0.784', '12,300', '12,345', '0.0000123')
    """
    if not math.isfinite(value):
        return f"{value:g}"
    if value == round(value):
        return f"{value:,.0f}"
    # Three significant digits.
    digits = 2 - math.floor(math.log10(abs(value)))
    text = f"{round(value, digits):,.{max(digits, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def hours(value: float) -> str:
    """So many hours in the unit that people would choose.

    >>> hours(0.01), hours(1.5), hours(5922.0)
    ('36 s', '1.5 h', '247 days')
    """
    for name, length in (("days", 24.0), ("h", 1.0), ("min", 1 / 60)):
        # Two days are said as 48 h: a day is a day only where there are several of them.
        if abs(value) >= length * (2 if name == "days" else 1):
            return f"{rounded(value / length)} {name}"
    return f"{rounded(value * 3600)} s"


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN, "examples": ["1h", "7d"]}),
]


def as_number(value: Any) -> Any:
    """Read numbers that YAML took for text; leaves all but text and truth values to pydantic."""
    # YAML 1.1 reads 1e-6 (no dot) as a string.
    if isinstance(value, str):
        if not _NUMBER.match(value):
            hint = ", with a point before decimals" if "," in value else ""
            raise ValueError(f"must be a number{hint}")
        return float(value)
    # To Python a truth value is a number.
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


Number = Annotated[float, BeforeValidator(as_number, json_schema_input_type=float)]


def _zero_or_more_than_nothing(delta: float) -> float:
    if 0 < delta < LEAST_DELTA:
        raise ValueError(f"must be 0, or at least {LEAST_DELTA:g} and below 1")
    return delta


Probability = Annotated[Number, AfterValidator(_zero_or_more_than_nothing)]
"""A delta: 0, or at least ``LEAST_DELTA``."""


def _within_reach(value: Any) -> Any:
    """Refuse numbers beyond ``LARGEST`` anywhere in a JSON value."""
    # Put so that NaN, of which no comparison holds, is refused as well.
    if isinstance(value, int | float) and not abs(value) <= LARGEST:
        raise ValueError(f"must hold no number beyond {LARGEST:,} on either side of 0")
    match value:
        case dict():
            below: Iterable[Any] = value.values()
        case list() | tuple():
            below = value
        case _:
            below = ()
    for item in below:
        _within_reach(item)
    return value


Value = Annotated[JsonValue, AfterValidator(_within_reach)]
"""A JSON value whose numbers are at most ``LARGEST``."""

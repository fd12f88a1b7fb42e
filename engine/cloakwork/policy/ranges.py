"""The ends of declared ranges: numbers, days or instants."""

import math
import re
from datetime import UTC, date, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from cloakwork.base.facts import FoundType, RangeType
from cloakwork.base.quantities import LARGEST, as_number
from cloakwork.policy.public_facts import FIRST_YEAR, LAST_YEAR

ValueType = Literal["number", "integer", "date", "time", "text"]

_DAY: Final = re.compile(r"^\d{4}-\d{2}-\d{2}$")
_INSTANT: Final = re.compile(
    r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})$"
)
_DAYS_TO_1970: Final = date(1970, 1, 1).toordinal()
_FORMS: Final = (
    "must be a number, a day such as 2014-01-31, or an instant with its time zone, such as "
    "2014-01-31T00:00:00Z"
)


def _end(value: Any) -> float | str:
    """An end of a range as a policy writes it; ValueError says what it must be."""
    if isinstance(value, str) and (_DAY.match(value) or _INSTANT.match(value)):
        year = int(value[:4])
        try:
            datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("must be a day of the calendar") from None
        if not FIRST_YEAR <= year < LAST_YEAR:
            raise ValueError(f"must lie in the years from {FIRST_YEAR} to {LAST_YEAR - 1}")
        return value
    try:
        number = float(as_number(value))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(_FORMS) from None
    if not math.isfinite(number) or abs(number) > LARGEST:
        raise ValueError(f"must be a number from {-LARGEST:g} to {LARGEST:g}")
    return number


RangeEnd = Annotated[
    float | str,
    BeforeValidator(
        _end,
        json_schema_input_type=Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
        | Annotated[str, Field(pattern=f"{_DAY.pattern}|{_INSTANT.pattern}")],
    ),
]


def type_of_range(ends: tuple[float | str, ...]) -> RangeType:
    """What a range is of; raises ValueError where its ends are of two kinds."""
    kinds: set[RangeType] = set()
    for end in ends:
        if not isinstance(end, str):
            kinds.add("number")
        else:
            kinds.add("date" if _DAY.match(end) else "time")
    if len(kinds) > 1:
        raise ValueError("range must be two numbers, two days, or two instants")
    return kinds.pop()


def number_of_end(end: float | str) -> float:
    """An end as a number: days since 1970 of a day, and whole seconds of an instant."""
    if not isinstance(end, str):
        return end
    if _DAY.match(end):
        return float(date.fromisoformat(end).toordinal() - _DAYS_TO_1970)
    since = datetime.fromisoformat(end) - datetime(1970, 1, 1, tzinfo=UTC)
    return float(since.total_seconds() // 1)


def coherent_type(
    stated: ValueType | None, ends: tuple[float | str, ...] | None, *, finds: bool
) -> RangeType | FoundType | None:
    """The type of an attribute that has a range, or whose values are found in the log; None of
    others. Raises ValueError where ``stated`` does not go with what is declared.
    """
    if ends is not None:
        return _type_with_range(stated, ends)
    if finds:
        if stated not in (None, "text", "integer"):
            raise ValueError("type must be text or integer where values are found in the log")
        return "integer" if stated == "integer" else "text"
    if stated is not None:
        raise ValueError("type belongs to a range, or to find_values: a domain says its own type")
    return None


def _type_with_range(stated: ValueType | None, ends: tuple[float | str, ...]) -> RangeType:
    found = type_of_range(ends)
    if stated in (None, found):
        return found
    if stated != "integer" or found != "number":
        of = {"number": "of numbers", "date": "of days", "time": "of instants"}[found]
        raise ValueError(f"type must not be {stated}: the range is {of}")
    if any(number_of_end(end) % 1 for end in ends):
        raise ValueError("range must be two whole numbers where type is integer")
    return "integer"

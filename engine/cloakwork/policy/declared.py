"""What a policy declares as publicly known: facts of the log, the ends of ranges, and the windows
of a log that grows.
"""

import math
import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, model_validator

from cloakwork.base.clocks import is_zone
from cloakwork.base.facts import UNIX_EPOCH, FoundType, ProcessRules, RangeType, Window
from cloakwork.base.quantities import (
    IF_SAID,
    LARGEST,
    LONGEST,
    MOST_UNITS,
    SHORTEST,
    Described,
    Duration,
    Number,
    as_number,
)

ShortName = Annotated[str, Field(min_length=1, max_length=200)]
WholeNumber = Annotated[int, Field(strict=True)]
Quantity = Annotated[Number, Field(ge=-LARGEST, le=LARGEST)]
Boolean = Annotated[bool, Field(strict=True)]


FIRST_YEAR: Final = 1900
LAST_YEAR: Final = 2200


def _instant(value: Any) -> Any:
    # pydantic would take a number for seconds since 1970.
    if isinstance(value, str | datetime):
        return value
    raise ValueError("must be an instant with its time zone, such as 2014-01-01T00:00:00Z")


def _ends_are_instants(value: Any) -> Any:
    if isinstance(value, dict):
        for end in ("start", "end"):
            if end in value and not isinstance(value[end], str | datetime):
                raise ValueError(
                    f"{end} must be an instant with its time zone, such as 2014-01-01T00:00:00Z"
                )
    return value


def _within_calendar(value: datetime) -> datetime:
    if not FIRST_YEAR <= value.year < LAST_YEAR:
        raise ValueError(f"must lie in the years from {FIRST_YEAR} to {LAST_YEAR - 1}")
    return value


def _ends_within_calendar(window: Window) -> Window:
    for end, value in (("start", window.start), ("end", window.end)):
        try:
            _within_calendar(value)
        except ValueError as error:
            raise ValueError(f"{end} {error}") from None
    return window


Instant = Annotated[AwareDatetime, BeforeValidator(_instant), AfterValidator(_within_calendar)]
TimeSpan = Annotated[
    Window, BeforeValidator(_ends_are_instants), AfterValidator(_ends_within_calendar)
]


def _known_zone(name: str) -> str:
    if not is_zone(name):
        raise ValueError("must be the IANA name of a time zone, such as Europe/Amsterdam or UTC")
    return name


class Assume(Described):
    """Public facts: known to everybody, printed with every claim, enforced on the log by dropping
    and truncating.
    """

    alphabet: Annotated[tuple[ShortName, ...] | None, Field(min_length=1)] = None
    """All activities that may be released"""

    units_at_most: Annotated[WholeNumber | None, Field(ge=1, le=MOST_UNITS)] = None
    """Upper bound on the number of units in the log"""

    cases_per_unit: Annotated[
        dict[ShortName, Annotated[WholeNumber, Field(ge=1, le=MOST_UNITS)]],
        IF_SAID,
    ] = {}
    """By attribute, the most cases of the whole dataset that one value of it has: converts what
    releases that protect cases cost into what they cost one such unit
    """

    cases_per_employee: Annotated[WholeNumber | None, Field(ge=1, le=MOST_UNITS), IF_SAID] = None
    """Where the unit is an attribute of events: the most cases in which one value of it occurs;
    differential privacy takes it as known, and does not enforce it
    """

    longest_case: Annotated[WholeNumber | None, Field(ge=1, le=1_000_000)] = None
    """Most events of a case; longer cases are truncated"""

    longest_gap: Annotated[Duration | None, Field(ge=SHORTEST, le=LONGEST)] = None
    """Longest time between two events of a case, for example 30d; from 1ms to 36525d"""

    rules: Annotated[ProcessRules | None, IF_SAID] = None
    """What every case of the process keeps, as everybody knows: no case that is drawn breaks a
    rule, and nothing is charged for it
    """

    window: TimeSpan | None = None
    """Span of time in which cases start; others are moved to its edge; years from 1900 to 2199"""

    time_zone: Annotated[
        ShortName | None,
        AfterValidator(lambda name: None if name is None else _known_zone(name)),
        IF_SAID,
    ] = None
    """IANA name of the zone whose clocks the process lives by, such as Europe/Amsterdam: hours of
    the week are drawn by them; else by the zone of epoch
    """

    recipients: Annotated[str | None, Field(min_length=1, max_length=200), IF_SAID] = None
    """Who receives the release, such as: a partner under contract"""

    risk_threshold: Annotated[float | None, Field(gt=0, le=1), IF_SAID] = None
    """The largest share of cases that somebody may find in the release by what they know: .09 is
    usual for recipients outside (European Medicines Agency, Policy 0070); what 'cloakwork risk'
    finds above it is marked
    """

    epoch: Instant = UNIX_EPOCH
    """Instant from which case starts are counted; years from 1900 to 2199"""

    grid: Annotated[
        Duration, Field(ge=SHORTEST, le=timedelta(days=366), json_schema_extra={"default": "1s"})
    ] = timedelta(seconds=1)
    """Step to which times are rounded before noise; from 1ms to 366d"""

    @model_validator(mode="after")
    def _rules_name_activities(self) -> "Assume":
        if self.rules is not None and self.alphabet is not None:
            for label in self.rules.labels():
                if label not in self.alphabet:
                    raise ValueError(f"rules names '{label}', which assume.alphabet lacks")
        return self


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
    # The patterns first, for fromisoformat reads other spellings as well.
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
    # Rounded down, also before 1970, where int() would round up.
    return float(since.total_seconds() // 1)


def coherent_type(
    stated: ValueType | None, ends: tuple[float | str, ...] | None, *, finds: bool
) -> RangeType | FoundType | None:
    """The type of an attribute that has a range, or whose values are found in the log; None of
    others. Raises ValueError where ``stated`` does not go with what is declared.
    """
    if finds and ends is None:
        if stated not in (None, "text", "integer"):
            raise ValueError("type must be text or integer where values are found in the log")
        return "integer" if stated == "integer" else "text"
    if ends is None:
        if stated is not None:
            message = "type belongs to a range, or to find_values: a domain says its own type"
            raise ValueError(message)
        return None
    found = type_of_range(ends)
    if stated in (None, found):
        return found
    # The one type that its ends do not show: whole numbers are numbers, too.
    if stated != "integer" or found != "number":
        of = {"number": "of numbers", "date": "of days", "time": "of instants"}[found]
        raise ValueError(f"type must not be {stated}: the range is {of}")
    if any(number_of_end(end) % 1 for end in ends):
        raise ValueError("range must be two whole numbers where type is integer")
    return "integer"


Period = Literal["1 day", "1 week", "1 month", "1 year"]

SPELLINGS: Final[dict[Period, str]] = {
    "1 day": "2026-10-22",
    "1 week": "2026-W43",
    "1 month": "2026-10",
    "1 year": "2026",
}
"""How the windows of each period are called, by an example."""


class Windows(Described):
    """Into which windows the cases of a dataset fall. Borders are those of the calendar in UTC."""

    by: Literal["case-start"]
    """What decides into which window a case falls: the time of its first event"""

    every: Period
    """How long a window is: a day, a week from Monday, a month or a year of the calendar, in UTC"""

    def span(self, name: str) -> tuple[datetime, datetime]:
        """The first instant of the window called ``name``, and the first one after it, in UTC.

        Raises ValueError, which says how windows are spelt, where there is none of that name.
        """
        # The example with any digits in place of its own.
        spelt = re.sub("[0-9]", "[0-9]", SPELLINGS[self.every])
        if re.fullmatch(spelt, name) and FIRST_YEAR <= int(name[:4]) < LAST_YEAR:
            try:
                first, after = _days(self.every, name)
            except ValueError:
                pass  # a month, week or day that the calendar lacks
            else:
                return _midnight(first), _midnight(after)
        raise ValueError(
            f"there is no window '{name}': with every: {self.every} they are called "
            f"{SPELLINGS[self.every]} and so on, in the years {FIRST_YEAR} to {LAST_YEAR - 1}"
        )

    def starts_within(self, name: str, grid: timedelta) -> Window:
        """Between which instants on a ``grid`` the cases of the window start; both may occur."""
        start, after = self.span(name)
        # The last instant on the grid; of a grid that is too coarse, just after the start.
        return Window(start=start, end=max(after - grid, start + timedelta(microseconds=1)))


def _days(every: Period, name: str) -> tuple[date, date]:
    """The first day of a window, and the first one after it."""
    match every:
        case "1 day":
            first = date.fromisoformat(name)
            return first, first + timedelta(days=1)
        case "1 week":
            first = date.fromisocalendar(int(name[:4]), int(name[6:]), 1)
            return first, first + timedelta(days=7)
        case "1 month":
            first = date(int(name[:4]), int(name[5:]), 1)
            # 31 days after the first of a month lies in the next one, however long the month is.
            return first, (first + timedelta(days=31)).replace(day=1)
        case "1 year":
            first = date(int(name), 1, 1)
            return first, first.replace(year=first.year + 1)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)

"""What a policy declares as publicly known."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field

from cloakwork.base.facts import UNIX_EPOCH, Window
from cloakwork.base.quantities import LONGEST, MOST_UNITS, SHORTEST, Duration, Frozen
from cloakwork.policy.fields import ShortName, WholeNumber, is_empty

FIRST_YEAR: Final = 1900
LAST_YEAR: Final = 2200


def _instant(value: Any) -> Any:
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
        if not FIRST_YEAR <= value.year < LAST_YEAR:
            raise ValueError(f"{end} must lie in the years from {FIRST_YEAR} to {LAST_YEAR - 1}")
    return window


Instant = Annotated[AwareDatetime, BeforeValidator(_instant), AfterValidator(_within_calendar)]
TimeSpan = Annotated[
    Window, BeforeValidator(_ends_are_instants), AfterValidator(_ends_within_calendar)
]


class Assume(Frozen):
    """Public facts: known to everybody, printed with every claim, enforced on the log by dropping
    and truncating.
    """

    alphabet: Annotated[
        tuple[ShortName, ...] | None,
        Field(min_length=1, description="All activities that may be released"),
    ] = None
    units_at_most: Annotated[
        WholeNumber | None,
        Field(ge=1, le=MOST_UNITS, description="Upper bound on the number of units in the log"),
    ] = None
    cases_per_unit: Annotated[
        dict[ShortName, Annotated[WholeNumber, Field(ge=1, le=MOST_UNITS)]],
        Field(
            description=(
                "By attribute, the most cases of the whole dataset that one value of it has: "
                "converts what releases that protect cases cost into what they cost one such unit"
            ),
            exclude_if=is_empty,
        ),
    ] = {}
    longest_case: Annotated[
        WholeNumber | None,
        Field(ge=1, le=1_000_000, description="Most events of a case; longer cases are truncated"),
    ] = None
    longest_gap: Annotated[
        Duration | None,
        Field(
            ge=SHORTEST,
            le=LONGEST,
            description=(
                "Longest time between two events of a case, for example 30d; from 1ms to 36525d"
            ),
        ),
    ] = None
    window: Annotated[
        TimeSpan | None,
        Field(
            description=(
                "Span of time in which cases start; "
                "others are moved to its edge; years from 1900 to 2199"
            )
        ),
    ] = None
    epoch: Annotated[
        Instant,
        Field(description="Instant from which case starts are counted; years from 1900 to 2199"),
    ] = UNIX_EPOCH
    grid: Annotated[
        Duration,
        Field(
            ge=SHORTEST,
            le=timedelta(days=366),
            description="Step to which times are rounded before noise; from 1ms to 366d",
            json_schema_extra={"default": "1s"},
        ),
    ] = timedelta(seconds=1)

"""Windows of a log that grows: each release is made of the cases that start in one of them."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final, Literal

from pydantic import Field

from cloakwork.base.facts import Window
from cloakwork.base.quantities import Frozen
from cloakwork.policy.public_facts import FIRST_YEAR, LAST_YEAR

Period = Literal["1 day", "1 week", "1 month", "1 year"]

SPELLINGS: Final[dict[Period, str]] = {
    "1 day": "2026-10-22",
    "1 week": "2026-W43",
    "1 month": "2026-10",
    "1 year": "2026",
}
"""How the windows of each period are called, by an example."""


class Windows(Frozen):
    """Into which windows the cases of a dataset fall. Borders are those of the calendar in UTC."""

    by: Annotated[
        Literal["case-start"],
        Field(
            description="What decides into which window a case falls: the time of its first event"
        ),
    ]
    every: Annotated[
        Period,
        Field(
            description="How long a window is: a day, a week from Monday, a month or a year of the "
            "calendar, in UTC"
        ),
    ]

    def span(self, name: str) -> tuple[datetime, datetime]:
        """The first instant of the window called ``name``, and the first one after it, in UTC.

        Raises ValueError, which says how windows are spelt, where there is none of that name.
        """
        spelt = re.sub("[0-9]", "[0-9]", SPELLINGS[self.every])
        if re.fullmatch(spelt, name) and FIRST_YEAR <= int(name[:4]) < LAST_YEAR:
            try:
                first = _first_day(self.every, name)
            except ValueError:
                pass  # a month, week or day that the calendar lacks
            else:
                return _midnight(first), _midnight(_day_after(self.every, first))
        raise ValueError(
            f"there is no window '{name}': with every: {self.every} they are called "
            f"{SPELLINGS[self.every]} and so on, in the years {FIRST_YEAR} to {LAST_YEAR - 1}"
        )

    def starts_within(self, name: str, grid: timedelta) -> Window:
        """Between which instants on a ``grid`` the cases of the window start; both may occur."""
        start, after = self.span(name)
        return Window(start=start, end=max(after - grid, start + timedelta(microseconds=1)))


def _first_day(every: Period, name: str) -> date:
    match every:
        case "1 day":
            return date.fromisoformat(name)
        case "1 week":
            return date.fromisocalendar(int(name[:4]), int(name[6:]), 1)
        case "1 month":
            return date(int(name[:4]), int(name[5:]), 1)
        case "1 year":
            return date(int(name), 1, 1)


def _day_after(every: Period, first: date) -> date:
    """The first day after the window that begins with ``first``."""
    match every:
        case "1 day":
            return first + timedelta(days=1)
        case "1 week":
            return first + timedelta(days=7)
        case "1 month":
            return (first + timedelta(days=31)).replace(day=1)
        case "1 year":
            return first.replace(year=first.year + 1)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)

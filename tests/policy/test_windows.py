"""Windows of the calendar: they tile time, each has one name, and what is none is refused."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.policy.declared import SPELLINGS, Period, Windows

FORMATS: dict[Period, str] = {
    "1 day": "%Y-%m-%d",
    "1 week": "%G-W%V",
    "1 month": "%Y-%m",
    "1 year": "%Y",
}
# Of the last year, 2199, no next window is known.
MOMENTS = st.datetimes(datetime(1901, 1, 1), datetime(2198, 1, 1), timezones=st.just(UTC))


@pytest.mark.parametrize("every", SPELLINGS)
@given(moment=MOMENTS)
def test_each_moment_lies_in_one_window(every: Period, moment: datetime) -> None:
    """That of its name, which ends where the next one begins."""
    windows = Windows(by="case-start", every=every)
    start, after = windows.span(moment.strftime(FORMATS[every]))
    assert start <= moment < after
    assert windows.span(after.strftime(FORMATS[every]))[0] == after


@pytest.mark.parametrize(
    ("every", "name"),
    [
        ("1 month", "2026-13"),
        ("1 month", "2026-00"),
        ("1 month", "2026-1"),
        ("1 month", "2026-10-22"),
        ("1 month", "2026-10\n"),
        ("1 month", "२०२६-10"),
        ("1 month", "1899-12"),
        ("1 month", ""),
        ("1 week", "2026-W54"),
        ("1 week", "2025-W53"),
        ("1 week", "2026-43"),
        ("1 day", "2026-02-29"),
        ("1 day", "2026-W43"),
        ("1 year", "2200"),
        ("1 year", "26"),
    ],
)
def test_what_is_no_window_is_refused_with_the_spelling(every: Period, name: str) -> None:
    with pytest.raises(ValueError, match=f"they are called {SPELLINGS[every]} and so on"):
        Windows(by="case-start", every=every).span(name)


def test_cases_start_on_the_grid_within_the_window() -> None:
    """Its end is the last instant on the grid, so that none is released as of the next window."""
    monthly = Windows(by="case-start", every="1 month")
    within = monthly.starts_within("2026-12", timedelta(minutes=1))
    assert within.start == datetime(2026, 12, 1, tzinfo=UTC)
    assert within.end == datetime(2026, 12, 31, 23, 59, tzinfo=UTC)
    daily = Windows(by="case-start", every="1 day").starts_within("2026-12-01", timedelta(days=1))
    assert daily.start < daily.end < datetime(2026, 12, 2, tzinfo=UTC)

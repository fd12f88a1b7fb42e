"""Times as people write them, by pattern, epoch and zone."""

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.errors import LogError
from cloakwork.log.formats import InputOptions, read_log
from cloakwork.log.formats.written_times import WrittenTimes, candidate_formats

FORMS = (
    "%d.%m.%Y %H:%M",
    "%m/%d/%Y %I:%M:%S %p",
    "%Y-%m-%dT%H:%M:%S.%f",
    "%d %B %Y, %H:%M",
    "%a %d-%b-%y %H:%M:%S",
    "%F um %R Uhr",
)
MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 31))


def read(form: str | None, *texts: str | None, zone: str | None = None) -> list[datetime | None]:
    """The texts as times."""
    return WrittenTimes(form, zone).read(pl.Series(texts, dtype=pl.String)).values.to_list()


@given(MOMENTS, st.sampled_from(FORMS))
def test_what_python_writes_is_read(moment: datetime, form: str) -> None:
    """``datetime`` is a second implementation of the patterns."""
    python = form.replace("%F", "%Y-%m-%d").replace("%R", "%H:%M")
    text = moment.strftime(python)
    assert read(form, text) == [datetime.strptime(text, python).replace(tzinfo=UTC)]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("%d.%m.%Y", "32.01.2024"),
        ("%d.%m.%Y", "01.13.2024"),
        ("%d.%m.%Y", "+1.01.2024"),
        ("%d.%m.%Y", "01.01.2024 10:00"),
        ("%m/%d/%Y %I:%M %p", "1/1/2024 13:00 PM"),
        ("%m/%d/%Y %I:%M %p", "1/1/2024 0:00 AM"),
        ("epoch-seconds", "1e9"),
        ("epoch-seconds", "99999999999999"),
        (None, "01.03.2024 10:00"),
    ],
)
def test_what_does_not_fit_is_no_time(form: str | None, text: str) -> None:
    """Nothing is read that the pattern does not say."""
    assert read(form, text, None) == [None, None]


@given(MOMENTS)
def test_epochs(moment: datetime) -> None:
    """Seconds with decimals, and milliseconds."""
    zoned = moment.replace(tzinfo=UTC, microsecond=moment.microsecond // 1000 * 1000)
    count = (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert read("epoch-milliseconds", str(count)) == [zoned]
    assert read("epoch-seconds", f"{count // 1000}.{count % 1000:03}") == [zoned]


@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)), st.sampled_from(["CET", "EST5EDT"])
)
def test_zones_follow_the_stated_rule(moment: datetime, zone: str) -> None:
    """That of RFC 5545, 3.3.5, which is Python's ``fold=0``: a second implementation."""
    moment = moment.replace(microsecond=0)
    expected = moment.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    assert read("%Y-%m-%d %H:%M:%S", str(moment), zone=zone) == [expected]
    assert read(None, str(moment), zone=zone) == [expected]


def test_hours_that_clocks_skip_or_show_twice_are_counted() -> None:
    """The author should hear of them."""
    texts = pl.Series(["31.03.2024 02:30", "27.10.2024 02:30", "27.10.2024 03:30"])
    found = WrittenTimes("%d.%m.%Y %H:%M", "Europe/Berlin").read(texts)
    assert (found.zoneless, found.repeated, found.skipped) == (3, 1, 1)
    assert [time.hour for time in found.values] == [1, 0, 2]


def test_a_zone_in_the_text_goes_first() -> None:
    """The option is for times that name none."""
    noon = datetime(2024, 3, 1, 12, tzinfo=UTC)
    texts = ("2024-03-01 12:00Z", "2024-03-01 14:00+0200")
    assert read("%Y-%m-%d %H:%M%z", *texts, zone="Asia/Tokyo") == [noon, noon]


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["01.03.2024 10:00"], ("%d.%m.%Y %H:%M", "%m.%d.%Y %H:%M")),
        (["01.03.2024 10:00", "13.03.2024 10:00"], ("%d.%m.%Y %H:%M",)),
        (["3/4/2024 1:05 PM", "3/14/2024 1:05 AM"], ("%m/%d/%Y %I:%M %p",)),
        (["1709287200"], ("epoch-seconds",)),
        (["1709287200123"], ("epoch-milliseconds",)),
        (["Mar 3, 2024 10:00"], ("%b %d, %Y %H:%M",)),
        (["31.03.2024T10:00 +0200"], ("%d.%m.%YT%H:%M %z",)),
        (["yesterday"], ()),
    ],
)
def test_formats_are_proposed_and_none_is_chosen(texts: list[str], found: tuple[str, ...]) -> None:
    """Where several fit, all are said."""
    assert candidate_formats(pl.Series(texts)) == found


def test_a_number_that_is_no_time_is_shown(tmp_path: Path) -> None:
    rows = {"case": ["a", "a"], "activity": ["x", "y"], "time": [1.7e9, math.nan]}
    pl.DataFrame(rows).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(LogError, match="'NaN' in row 2 cannot be read as epoch-seconds"):
        read_log(tmp_path / "log.parquet", options=InputOptions(time_format="epoch-seconds"))

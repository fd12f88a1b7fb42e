"""Reading timestamps: ISO 8601 as logs write it, whole columns at a time, normalised to UTC
microseconds.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Final, Literal

import polars as pl

from cloakwork.base.frozen import frozen
from cloakwork.base.naming import TIME_TYPE, named

TIME_HINT: Final = "write timestamps as 2024-05-31T13:45:00+02:00"
_ISO: Final = "%Y-%m-%dT%H:%M:%S%.f%:z"
# What polars reads as _ISO is more: blanks and signs among the digits.
_STRICT: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?[+-][0-9]{2}:?[0-9]{2}$"
)
_LOOSE: Final = (
    r"^\s*(?<year>[0-9]{4})[-/](?<month>[0-9]{2})[-/](?<day>[0-9]{2})"
    r"(?:[T ](?<hour>[0-9]{2}):(?<minute>[0-9]{2})"
    r"(?::(?<second>[0-9]{2})(?:[.,](?<fraction>[0-9]+))?)?)?"
    r"\s*(?<zone>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?\s*$"
)
_EARLIEST: Final = -62_135_596_800_000_000  # 0001-01-01, what Python and XML Schema can say
_LATEST: Final = 253_402_300_799_999_999  # 9999-12-31


@frozen
class ParsedTimes:
    """Timestamps read from text.

    - ``values``: Datetime("us", "UTC"), as long as the text; null where the text is null or no
      timestamp.
    - ``zoneless``: how many named no zone, and were taken as of the zone that was given, else UTC.
    - ``repeated``: how many of these the clocks of the zone showed twice; the first was taken.
    - ``skipped``: how many they never showed; taken by the clock as it went before.
    """

    values: pl.Series
    zoneless: int
    repeated: int = 0
    skipped: int = 0


def parse_times(text: pl.Series, zone: str | None = None) -> ParsedTimes:
    """Read a String column as timestamps; those that name no zone are of ``zone``, else UTC.

    Accepted: ``2011-10-01T00:38:44.546+02:00`` and similar forms: ``Z``, ``+0200`` or ``+02`` as
    the zone or none; a blank for the ``T``; ``/`` between the parts of the day (year first); no
    seconds; a day alone (midnight); any number of decimals (digits beyond microseconds are cut
    off).
    """
    parsed = text.str.to_datetime(_ISO, strict=False, time_unit="us")
    values = within_calendar(parsed.cast(TIME_TYPE))
    plain = text.str.contains(_STRICT)
    if not plain.all():  # nulls count as plain
        values = values.set(~plain.fill_null(True), None)
    # Only what the strict form leaves is taken apart into fields, which takes longer.
    unread = values.is_null() & text.is_not_null()
    if not unread.any():
        return ParsedTimes(values, 0)
    read = of_fields(text.filter(unread).str.extract_groups(_LOOSE).struct.unnest(), zone)
    all_rows = values.to_frame("time").with_row_index("row")
    found = pl.DataFrame({"row": all_rows["row"].filter(unread), "read": read.values})
    joined = all_rows.join(found, on="row", how="left", maintain_order="left")
    merged = joined.select(pl.coalesce("time", "read")).to_series()
    return replace(read, values=merged.alias(text.name))


def of_fields(fields: pl.DataFrame, zone: str | None) -> ParsedTimes:
    """Times of fields of text: ``year``, ``month``, ``day``, and as far as there are any ``hour``,
    ``minute``, ``second``, ``fraction`` and ``zone``. Null where a day is missing; where a row
    names no zone, its time is of ``zone``, else UTC.
    """
    given = fields.columns
    two_digits = [
        named(field).as_expr().str.pad_start(2, "0").fill_null("00")
        if field in given
        else pl.lit("00")
        for field in ("hour", "minute", "second")
    ]
    day = pl.concat_str(
        "year",
        pl.col("month").str.pad_start(2, "0"),
        pl.col("day").str.pad_start(2, "0"),
        separator="-",
    )
    clock = pl.concat_str(*two_digits, separator=":")
    fraction = pl.col("fraction").fill_null("0") if "fraction" in given else pl.lit("0")
    offset = _offset() if "zone" in given else pl.lit("+00:00")
    # One strict form such as 2024-05-31T13:45:00.5+02:00.
    canonical = pl.concat_str(
        day,
        pl.lit("T"),
        clock,
        pl.lit("."),
        fraction,
        offset,
    )
    read = (
        fields.select(canonical)
        .to_series()
        .str.to_datetime(
            _ISO,
            strict=False,
            time_unit="us",
        )
    )
    values = within_calendar(read.cast(TIME_TYPE))
    zoneless = values.is_not_null()
    if "zone" in given:
        zoneless &= fields["zone"].is_null()
    count = int(zoneless.sum())
    if zone is None or not count:
        return ParsedTimes(values, count)
    local = in_zone(values.dt.replace_time_zone(None), zone)
    frame = pl.DataFrame({"own": values, "local": local.values, "zoneless": zoneless})
    chosen = frame.select(pl.when("zoneless").then("local").otherwise("own")).to_series()
    # Counted over those rows alone that name no zone.
    again = in_zone(values.filter(zoneless).dt.replace_time_zone(None), zone)
    return ParsedTimes(chosen, count, again.repeated, again.skipped)


def _offset() -> pl.Expr:
    """``Z``, ``+02``, ``+0200`` or ``+02:00`` as the last of these; ``+00:00`` for none."""
    zone = pl.col("zone")
    digits = zone.str.replace(":", "", literal=True)
    # A sign and two digits of hours, then the minutes, 00 where the text stops at the hours.
    minutes = digits.str.slice(3).str.pad_end(2, "0")
    offset = pl.concat_str(digits.str.slice(0, 3), pl.lit(":"), minutes)
    is_utc = zone.is_null() | (zone.str.to_uppercase() == "Z")
    return pl.when(is_utc).then(pl.lit("+00:00")).otherwise(offset)


def in_zone(wall: pl.Series, zone: str) -> ParsedTimes:
    """Times of the clocks of ``zone`` (Datetime without a zone) as UTC, by the rule of RFC 5545,
    section 3.3.5: of a time that the clocks showed twice the first is meant, and one that they
    never showed is counted by the clock as it went before.
    """
    wall = wall.cast(pl.Datetime("us"))
    first = _of_zone(wall, zone, "earliest")
    repeated = int((first != _of_zone(wall, zone, "latest")).sum())
    skipped = first.is_null() & wall.is_not_null()
    for hours in (3, 26):  # a gap is of an hour or, where the date line moved, of a day
        missing = first.is_null() & wall.is_not_null()
        if not missing.any():
            break
        step = timedelta(hours=hours)
        moved = _of_zone(wall - step, zone, "earliest") + step
        frame = pl.DataFrame({"first": first, "moved": moved})
        first = frame.select(pl.coalesce("first", "moved")).to_series()
    return ParsedTimes(
        first,
        len(wall) - wall.null_count(),
        repeated,
        int(skipped.sum()),
    )


def _of_zone(
    wall: pl.Series,
    zone: str,
    ambiguous: Literal["earliest", "latest"],
) -> pl.Series:
    placed = wall.dt.replace_time_zone(
        zone,
        ambiguous=ambiguous,
        non_existent="null",
    )
    return placed.dt.convert_time_zone("UTC").cast(TIME_TYPE)


_PER_SECOND: Final = {"ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY: Final = 86_400


def outside_calendar(times: pl.Series) -> pl.Series:
    """Which of the days or times (Date or Datetime of any unit) lie outside the years 1 to 9999;
    null where null.
    """
    count = times.to_physical()
    first = _EARLIEST // 10**6
    last = _LATEST // 10**6
    if isinstance(times.dtype, pl.Datetime):
        unit = _PER_SECOND[times.dtype.time_unit]
        # Nanoseconds of the year 9999 are no 64-bit number: all that are one lie inside.
        last = min(last * unit + unit - 1, 2**63 - 1)
        first = max(first * unit, -(2**63))
    else:
        first = first // _DAY
        last = last // _DAY
    return (count < first) | (count > last)


def within_calendar(times: pl.Series) -> pl.Series:
    """The same times, null outside the years 1 to 9999."""
    microseconds = times.to_physical()
    inside = microseconds.is_between(_EARLIEST, _LATEST)
    if inside.all():  # nulls count as inside
        return times
    return times.to_frame("time").select(pl.when(inside).then("time")).to_series()

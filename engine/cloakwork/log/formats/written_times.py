"""Times as a policy says that they are written: by a pattern, by an epoch, or ISO 8601."""

from dataclasses import dataclass
from typing import Final

import polars as pl

from cloakwork.base.naming import named
from cloakwork.log.eventlog import TIME_TYPE
from cloakwork.log.formats.time_patterns import EPOCHS, MONTHS, expression_of
from cloakwork.log.times import ParsedTimes, in_zone, of_canonical, parse_times, within_calendar

_EPOCH_TEXT: Final = r"^\s*(?P<sign>-?)(?P<whole>[0-9]{1,14})(?:\.(?P<part>[0-9]{1,9}))?\s*$"
_PIVOT: Final = 69
"""Two digits of a year from here on are of 1969 to 1999, those below of 2000 to 2068 (POSIX)."""


@dataclass(frozen=True, slots=True)
class WrittenTimes:
    """How the times of a file are written: ``form`` is a pattern or an epoch, None for ISO 8601;
    ``zone`` is that of times that name none, None for UTC.
    """

    form: str | None = None
    zone: str | None = None

    def read(self, text: pl.Series) -> ParsedTimes:
        """A String column as times; null where a text is none."""
        if self.form is None:
            return parse_times(text, self.zone)
        if self.form in EPOCHS:
            return ParsedTimes(_since_epoch(text, EPOCHS[self.form]), 0)
        fields = text.str.extract_groups(expression_of(self.form)).struct.unnest()
        zoneless = pl.Series([True]).new_from_index(0, len(text))
        if "zone" in fields.columns:
            zoneless = fields["zone"].is_null()
        return of_canonical(_canonical(fields), zoneless, self.zone)

    def localised(self, times: pl.Series) -> ParsedTimes:
        """Days and times without a zone as UTC."""
        wall = times.cast(pl.Datetime("us"))
        if self.zone is not None:
            return in_zone(wall, self.zone)
        values = wall.dt.replace_time_zone("UTC").cast(TIME_TYPE)
        return ParsedTimes(values, len(wall) - wall.null_count())


ISO_TIMES: Final = WrittenTimes()


def _since_epoch(text: pl.Series, unit: int) -> pl.Series:
    """Units since 1970 (whole or decimal) as times; digits beyond microseconds are cut off."""
    fields = text.str.extract_groups(_EPOCH_TEXT).struct.unnest()
    size = _microseconds(unit)
    count = fields.select(pl.when(pl.col("sign") == "-").then(-size).otherwise(size)).to_series()
    return within_calendar(count.cast(pl.Datetime("us")).dt.replace_time_zone("UTC"))


def _microseconds(unit: int) -> pl.Expr:
    digits = len(str(unit)) - 1
    decimals = pl.col("part").fill_null("").str.pad_end(digits, "0").str.slice(0, digits)
    return pl.col("whole").cast(pl.Int64) * unit + decimals.cast(pl.Int64)


def _canonical(fields: pl.DataFrame) -> pl.Series:
    """Fields of a pattern as one text such as ``2024-05-31T13:45:00.5+02:00``; null where a text
    did not fit.
    """
    given = frozenset(fields.columns)
    fraction = pl.col("fraction") if "fraction" in given else pl.lit("0")
    zone = _offset() if "zone" in given else pl.lit("+00:00")
    day = pl.concat_str(
        _year(given), _month(given), pl.col("day").str.pad_start(2, "0"), separator="-"
    )
    clock = pl.concat_str(
        _hour(given), _two_digits("minute", given), _two_digits("second", given), separator=":"
    )
    return fields.select(
        pl.concat_str(day, pl.lit("T"), clock, pl.lit("."), fraction, zone)
    ).to_series()


def _two_digits(field: str, given: frozenset[str]) -> pl.Expr:
    """A field of a pattern; ``00`` where the pattern has none."""
    if field not in given:
        return pl.lit("00")
    return named(field).as_expr().str.pad_start(2, "0")


def _year(given: frozenset[str]) -> pl.Expr:
    if "year" in given:
        return pl.col("year")
    short = pl.col("short_year")
    century = pl.when(short.cast(pl.Int64) < _PIVOT).then(pl.lit("20")).otherwise(pl.lit("19"))
    return pl.concat_str(century, short)


def _month(given: frozenset[str]) -> pl.Expr:
    if "month" in given:
        return pl.col("month").str.pad_start(2, "0")
    starts = [name[:3] for name in MONTHS]
    numbers = [f"{number:02}" for number in range(1, 13)]
    named = pl.col("month_name").str.slice(0, 3).str.to_lowercase()
    return named.replace_strict(starts, numbers, default=None, return_dtype=pl.String)


def _hour(given: frozenset[str]) -> pl.Expr:
    if "hour" in given:
        return pl.col("hour").str.pad_start(2, "0")
    if "half_hour" not in given:
        return pl.lit("00")
    shown = pl.col("half_hour").cast(pl.Int64)
    is_afternoon = pl.col("half").str.slice(0, 1).str.to_lowercase() == "p"
    hour = shown % 12 + pl.when(is_afternoon).then(12).otherwise(0)
    is_shown = shown.is_between(1, 12)
    return pl.when(is_shown).then(hour.cast(pl.String).str.pad_start(2, "0"))


def _offset() -> pl.Expr:
    """``Z``, ``+02``, ``+0200`` or ``+02:00`` as the last of these; ``+00:00`` for none."""
    zone = pl.col("zone")
    digits = zone.str.replace(":", "", literal=True)
    minutes = digits.str.slice(3).str.pad_end(2, "0")
    offset = pl.concat_str(digits.str.slice(0, 3), pl.lit(":"), minutes)
    is_utc = zone.is_null() | (zone.str.to_uppercase() == "Z")
    return pl.when(is_utc).then(pl.lit("+00:00")).otherwise(offset)

"""Times as a policy says that they are written: by a pattern, by an epoch, or ISO 8601; and what is
said of one that cannot be read.
"""

import re
from functools import cache
from pathlib import Path
from typing import Final

import polars as pl

from cloakwork.base.errors import LogError
from cloakwork.base.frozen import frozen
from cloakwork.base.text import shown
from cloakwork.log.eventlog import TIME_TYPE
from cloakwork.log.formats.options import EPOCHS, MONTHS, expression_of
from cloakwork.log.times import (
    TIME_HINT,
    ParsedTimes,
    in_zone,
    of_fields,
    parse_times,
    within_calendar,
)

_EPOCH_TEXT: Final = r"^\s*(?P<sign>-?)(?P<whole>[0-9]{1,14})(?:\.(?P<part>[0-9]{1,9}))?\s*$"
_PIVOT: Final = 69
"""Two digits of a year from here on are of 1969 to 1999, those below of 2000 to 2068 (POSIX)."""


_DAYS: Final = ("%d{0}%m{0}%Y", "%m{0}%d{0}%Y", "%Y{0}%m{0}%d", "%Y{0}%d{0}%m")
_SHORT_DAYS: Final = ("%d{0}%m{0}%y", "%m{0}%d{0}%y")
_NAMED_DAYS: Final = ("%d{0}%b{0}%Y", "%d{0}%b{0}%y", "%b{0}%d{0}%Y")
_OTHER_DAYS: Final = ("%b %d, %Y", "%y-%m-%d", "%Y%m%d")
_JOINTS: Final = (" ", "T", ", ")
_ZONE: Final = re.compile(r"(?<=[0-9:])\s?(?:[Zz]|[+-][0-9]{2}:?[0-9]{2})$")
_CLOCKS: Final = (
    "%H:%M",
    "%H:%M:%S",
    "%H:%M:%S.%f",
    "%H:%M:%S,%f",
    "%I:%M %p",
    "%I:%M:%S %p",
    "%H.%M",
    "%H.%M.%S",
)
_DIGITS: Final = {
    "epoch-seconds": r"^[0-9]{9,10}(\.[0-9]+)?$",
    "epoch-milliseconds": r"^[0-9]{12,13}$",
    "%Y%m%d%H%M%S": r"^(19|20)[0-9]{12}$",
}
_MOST_VALUES: Final = 100_000


@frozen
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
        return of_fields(_plain_fields(fields), self.zone)

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
    # As many decimals as the unit holds: zeros for missing ones, and no more than that.
    digits = len(str(unit)) - 1
    decimals = pl.col("part").fill_null("").str.pad_end(digits, "0").str.slice(0, digits)
    size = pl.col("whole").cast(pl.Int64) * pl.lit(unit) + decimals.cast(pl.Int64)
    count = fields.select(pl.when(pl.col("sign") == "-").then(-size).otherwise(size)).to_series()
    return within_calendar(count.cast(pl.Datetime("us")).dt.replace_time_zone("UTC"))


def _plain_fields(fields: pl.DataFrame) -> pl.DataFrame:
    """The fields of a pattern with the year, the month and the hour as numbers alone."""
    given = fields.columns
    plain = []
    if "short_year" in given:
        short = pl.col("short_year")
        is_late = short.cast(pl.Int64) < _PIVOT
        century = pl.when(is_late).then(pl.lit("20")).otherwise(pl.lit("19"))
        plain.append(pl.concat_str(century, short).alias("year"))
    if "month_name" in given:
        starts = [name[:3] for name in MONTHS]
        numbers = [f"{number:02}" for number in range(1, 13)]
        start = pl.col("month_name").str.slice(0, 3).str.to_lowercase()
        month = start.replace_strict(
            starts,
            numbers,
            default=None,
            return_dtype=pl.String,
        )
        plain.append(month.alias("month"))
    if "half_hour" in given:
        shown_hour = pl.col("half_hour").cast(pl.Int64)
        is_afternoon = pl.col("half").str.slice(0, 1).str.to_lowercase() == "p"
        # Twelve o'clock is hour 0 of its half of the day.
        hour = shown_hour % 12 + pl.when(is_afternoon).then(12).otherwise(0)
        # Of 0 to 99 only 1 to 12 stand on such a clock; what is none has no moment.
        is_shown = shown_hour.is_between(1, 12)
        plain.append(pl.when(is_shown).then(hour.cast(pl.String)).alias("hour"))
        plain.append(pl.when(is_shown).then("day").alias("day"))
    return fields.with_columns(plain)


@cache
def _formats_by_shape() -> dict[str, tuple[str, ...]]:
    """Usual formats, by what a value written so looks like without its zone."""
    days = [form.format(sign) for sign in "./- " for form in (*_DAYS, *_SHORT_DAYS, *_NAMED_DAYS)]
    days += [*_OTHER_DAYS]
    timed = [f"{day}{joint}{clock}" for day in days for joint in _JOINTS for clock in _CLOCKS]
    found: dict[str, list[str]] = {}
    for form in dict.fromkeys([*days, *timed]):
        shape = _shape(
            re.sub(
                "%[bp]",
                "a",
                re.sub("%[dmYyHIMSf]", "0", form.replace("%Y%m%d", "0")),
            )
        )
        found.setdefault(shape, []).append(form)
    return {shape: tuple(forms) for shape, forms in found.items()}


def _shape(text: str) -> str:
    """``text`` with one digit for each number and one letter for each word."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"[0-9]+", "0", text.strip()))


def candidate_formats(texts: pl.Series) -> tuple[str, ...]:
    """Every usual way of writing times in which all of ``texts`` (String) can be read; empty for
    none. Several where the texts leave open which number is the day, the month or the year.
    """
    values = texts.drop_nulls().unique(maintain_order=True).head(_MOST_VALUES)
    if not len(values):
        return ()
    # Digits alone hold no sign that tells a format, so their few ones are tried first.
    for form, digits in _DIGITS.items():
        if values.str.contains(digits).all() and _reads(form, values):
            return (form,)
    first = str(values[0]).strip()
    suffix = ""
    zone = _ZONE.search(first)
    if zone:
        first = first[: zone.start()]
        suffix = " %z" if zone[0][0].isspace() else "%z"
    # Only formats of the first value's shape can read that value.
    shape = _shape(first)
    forms = [f"{form}{suffix}" for form in _formats_by_shape().get(shape, ())]
    return tuple(form for form in forms if _reads(form, values))


def _reads(form: str, values: pl.Series) -> bool:
    return not WrittenTimes(form).read(values).values.is_null().any()


def unreadable_time(
    path: Path,
    line: int | None,
    texts: pl.Series,
    row: int,
    written: WrittenTimes,
    first_row: int,
) -> LogError:
    """The refusal of the text at ``row`` (from 0) of a column of times, of which ``texts`` are a
    stretch from ``first_row`` on.
    """
    value = shown(texts[row])
    as_written = f" as {written.form}" if written.form else ""
    place = "" if line is not None else f" in row {first_row + row + 1:,}"
    message = f"the timestamp '{value}'{place} cannot be read{as_written}"
    found = candidate_formats(texts)
    if len(found) == 1:
        hint = f"say time_format: '{found[0]}' under spec.input in the policy"
    elif found:
        listed = " or ".join(f"'{form}'" for form in found[:4])
        said = "which number is the day is ambiguous: under spec.input say time_format"
        hint = f"{said}: {listed}"
    elif written.form is not None:
        hint = "correct the value, or time_format under spec.input in the policy"
    else:
        hint = f"{TIME_HINT}, or say how they are written: time_format under spec.input"
    return LogError(path, message, line=line, hint=hint)

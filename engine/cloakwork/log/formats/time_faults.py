"""What is said of a time that cannot be read: its value, its line, and the format that reads it."""

import re
from functools import cache
from pathlib import Path
from typing import Final

import polars as pl

from cloakwork.base.errors import LogError
from cloakwork.base.text import shown
from cloakwork.log.formats.written_times import WrittenTimes
from cloakwork.log.times import TIME_HINT

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
_READY: Final = pl.Series(["2024-03-01T10:00:00"])


@cache
def _formats_by_shape() -> dict[str, tuple[str, ...]]:
    """Usual formats, by what a value written so looks like without its zone."""
    days = [form.format(sign) for sign in "./- " for form in (*_DAYS, *_SHORT_DAYS, *_NAMED_DAYS)]
    days += [*_OTHER_DAYS]
    timed = [f"{day}{joint}{clock}" for day in days for joint in _JOINTS for clock in _CLOCKS]
    found: dict[str, list[str]] = {}
    for form in dict.fromkeys([*days, *timed]):
        shape = _shape(
            re.sub("%[bp]", "a", re.sub("%[dmYyHIMSf]", "0", form.replace("%Y%m%d", "0")))
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
    for form, digits in _DIGITS.items():
        if values.str.contains(digits).all() and _reads(form, values):
            return (form,)
    first = str(values[0]).strip()
    suffix, zone = "", _ZONE.search(first)
    if zone:
        first = first[: zone.start()]
        suffix = " %z" if zone[0][0].isspace() else "%z"
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
    first_row: int = 0,
) -> LogError:
    """The refusal of the text at ``row`` (from 0) of a column of times, of which ``texts`` are a
    stretch from ``first_row`` on.
    """
    value = shown(texts[row])
    as_written = f" as {written.form}" if written.form else ""
    place = "" if line is not None else f" in row {first_row + row + 1:,}"
    message = f"the timestamp '{value}'{place} cannot be read{as_written}"
    return LogError(path, message, line=line, hint=_remedy(texts, written))


def _remedy(texts: pl.Series, written: WrittenTimes) -> str:
    found = candidate_formats(texts)
    if not found and written.form is not None:
        return "correct the value, or time_format under spec.input in the policy"
    if not found:
        return f"{TIME_HINT}, or say how they are written: time_format under spec.input"
    if len(found) == 1:
        return f"say time_format: '{found[0]}' under spec.input in the policy"
    listed = " or ".join(f"'{form}'" for form in found[:4])
    return f"which number is the day is ambiguous: under spec.input say time_format: {listed}"

"""Which of a table's columns of times says when its events happened, and which say something else,
such as when somebody was born.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import time
from typing import Final

import polars as pl

from cloakwork.base.naming import values_of
from cloakwork.base.text import shown
from cloakwork.log.formats.column_words import (
    BIRTH,
    COMPLETED,
    OF_CASE,
    TIME,
    holds_stem,
    names,
    words,
)
from cloakwork.log.formats.written_times import candidate_formats
from cloakwork.log.times import parse_times

SAMPLE: Final = 2_000
"""Values that are tried as times."""

MARGIN: Final = 2
"""Points by which the best column has to lead."""

SELDOM: Final = 0.05
"""Share of the cases of several events with several times, below which a column says one thing of
a whole case.
"""


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """A column that reads as times.

    ``has_clock``: whether any value says more than a day; ``varies``: the share of the cases of
    several events in which there are several values, None where no case is known to have several
    events.
    """

    name: str
    has_clock: bool
    varies: float | None
    has_gaps: bool

    @property
    def is_birth(self) -> bool:
        """Whether it is named for a birth or a death, which is the time of no event."""
        return holds_stem(words(self.name), BIRTH)

    @property
    def is_constant(self) -> bool:
        """Whether it says one thing of a whole case."""
        return self.varies is not None and self.varies < SELDOM

    @property
    def points(self) -> int:
        """How much speaks for it."""
        named = words(self.name)
        found = 3 * self.has_clock + 2 * names(named, TIME | COMPLETED) - self.has_gaps
        found -= 4 * holds_stem(named, OF_CASE)
        if self.varies is not None:
            found += 2 * (self.varies >= SELDOM) + 2 * (self.varies >= 0.5)
        return found


@dataclass(frozen=True, slots=True)
class JudgedTime:
    """The column of the events' times, None where there is none or several could be;
    ``candidates``: those; ``question``: what its author has to check or say, empty for nothing.
    """

    column: str | None
    candidates: tuple[str, ...] = ()
    question: str = ""


def time_columns(header: Sequence[str], table: pl.DataFrame) -> tuple[str, ...]:
    """The columns that read as times."""
    return tuple(
        name
        for name in header
        if name in table.columns and _reads_as_times(name, values_of(table, name))
    )


def judge_times(table: pl.DataFrame, found: Sequence[str], case_id: str | None) -> JudgedTime:
    """Which of the columns ``found`` holds the times of events: the best one by a clear margin.

    A column that does not change within cases never stands where another does, nor a day where
    another has the time of day.
    """
    cases = values_of(table, case_id) if case_id is not None else None
    columns = [_looked_at(name, values_of(table, name), cases) for name in found]
    named_else = [each for each in columns if each.is_birth]
    columns = [each for each in columns if not each.is_birth]
    for is_better in (lambda each: not each.is_constant, lambda each: each.has_clock):
        columns = [each for each in columns if is_better(each)] or columns
    if not columns:
        return JudgedTime(None, question=_none_found(named_else))
    columns.sort(key=lambda each: -each.points)
    best = columns[0]
    near = [each for each in columns if best.points - each.points < MARGIN]
    if len(near) > 1:
        return _of_several(near)
    if best.is_constant and (best.points < 0 or holds_stem(words(best.name), OF_CASE)):
        return JudgedTime(None, (best.name,), _none_found([best]))
    is_sure = best.varies is not None and not best.is_constant and best.points >= 2 * MARGIN
    said = f"column '{shown(best.name)}' is taken for the timestamp: check it"
    return JudgedTime(best.name, question="" if is_sure else said)


def _of_several(near: Sequence[TimeColumn]) -> JudgedTime:
    """Of the beginning and the end of a step the end, as XES has it; else a question."""
    ends = [each for each in near if names(words(each.name), COMPLETED)]
    listed = ", ".join(f"'{shown(each.name)}'" for each in near[:6])
    if len(ends) == 1:
        said = f"column '{shown(ends[0].name)}' is taken for the timestamp, of {listed}: check it"
        return JudgedTime(ends[0].name, question=said)
    said = f"which column holds the timestamp is open: {listed}"
    return JudgedTime(None, tuple(each.name for each in near), said)


def _none_found(others: Sequence[TimeColumn]) -> str:
    said = "no column seems to hold the timestamp"
    if others:
        listed = ", ".join(f"'{shown(each.name)}'" for each in others[:6])
        said += f" ({listed} is named for something else)"
    return said


def _looked_at(name: str, values: pl.Series, cases: pl.Series | None) -> TimeColumn:
    return TimeColumn(
        name,
        has_clock=_has_clock(values),
        varies=None if cases is None else _share_varying(values, cases),
        has_gaps=20 * values.null_count() > len(values),
    )


def _share_varying(values: pl.Series, cases: pl.Series) -> float | None:
    pairs = pl.DataFrame({"case": cases, "value": values}).drop_nulls()
    in_case = pairs.group_by("case").agg(
        pl.len().alias("events"), pl.col("value").n_unique().alias("found")
    )
    several = in_case.filter(pl.col("events") > 1)
    if several.is_empty():
        return None
    return float((several["found"] > 1).mean() or 0.0)  # type: ignore[arg-type]


def _has_clock(values: pl.Series) -> bool:
    held = values.drop_nulls()
    if held.dtype == pl.Datetime:
        return bool((held.dt.time() != time(0)).any())
    if held.dtype != pl.String:
        return False
    sample = held.head(SAMPLE)
    if not parse_times(sample).values.null_count():
        return bool(sample.str.contains(":").any())
    return any(re.search("%[HI]|epoch", form) for form in candidate_formats(sample))


def _reads_as_times(name: str, values: pl.Series) -> bool:
    held = values.drop_nulls().head(SAMPLE)
    if held.is_empty() or 2 * values.null_count() > len(values):
        return False
    if held.dtype in (pl.Datetime, pl.Date):
        return True
    if held.dtype != pl.String:
        return False
    if not parse_times(held).values.null_count():
        return True
    # Digits alone may number something.
    if held.str.contains(r"^\d+$").all() and not names(words(name), TIME):
        return False
    return bool(candidate_formats(held))

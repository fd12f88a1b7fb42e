"""A confidence bound measured on a log alone, by a count that shares nothing with the mechanism's.

The checker is a chain of joins. A table holds every pair of a piece of knowledge and a course that
matches it, with the earliest place at which the knowledge ends there; joined with the places of the
course that lie behind, it gives all knowledge of one event more. What a group of matching courses
holds is then added up.

For background ``relative``, released times are taken as they stand: the release has rounded them,
and counted them from one origin. What it cannot see: whether the cases of the log are distinct real
ones, which the release's lineage says.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from cloakwork.errors import GuaranteeBroken
from cloakwork.facts import Unit
from cloakwork.guarantees import ConfidenceBound
from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, TIMESTAMP, EventLog
from cloakwork.log.naming import named, values_of

MOST_ROWS: Final = 30_000_000
"""How many pairs of knowledge and course, or of knowledge and case, are held at once: about 3 GB.
"""
_SLICE: Final = 5_000_000
"""How many rows a join makes at a time."""

_CASE: Unit = Unit()


@dataclass(frozen=True, slots=True)
class Extremes:
    """The worst that an attacker finds: the fewest units that match some knowledge, and the most
    confidence.

    ``confidence``: the largest share of those who match that holds one value of the attribute; None
    where the guarantee speaks of none. Of cases or, where units own several, of units with a case
    that matches and holds it, whichever is more; there, cases without a unit are left out, or taken
    for one unit each, whichever is more. A missing value is none.
    """

    smallest: int
    confidence: float | None


class _TooMuch(Exception):
    """There is more knowledge than can be counted."""


def extremes(log: EventLog, guarantee: ConfidenceBound, unit: Unit = _CASE) -> Extremes | None:
    """What the worst knowledge of at most ``guarantee.L`` events, none included, finds; None for a
    log without cases.

    Counts distinct ``unit``s; a case without one adds none. Time goes with the pairs of knowledge
    and course, at most (distinct activities)^L for each distinct course, times its length; memory
    with the pairs. Raises ``GuaranteeBroken`` when the log lacks a column, or when there are more
    than ``MOST_ROWS`` pairs: nothing is then known about the guarantee.
    """
    if log.cases.height == 0:
        return None
    courses, course_of_case = _courses(log, guarantee)
    members = pl.DataFrame({"course": course_of_case, "owner": _owners(log, guarantee, unit)})
    held = _held(log, guarantee.attribute, members, none_counts=guarantee.missing == "sensitive")
    smallest, confidence = log.cases.height, 0.0
    try:
        for known, by in _knowledge(courses, members, guarantee.L):
            cases, share = _by_case(known, by, members, held)
            units, share_of_units = (
                _by_owner(known, by, members, held) if unit.attribute else (cases, share)
            )
            smallest, confidence = (
                min(smallest, cases, units),
                max(confidence, share, share_of_units),
            )
    except _TooMuch:
        why = f"it cannot be measured: there is too much knowledge of up to {guarantee.L} events to be counted"
        raise GuaranteeBroken(guarantee.sentence(), why) from None
    return Extremes(smallest, confidence if guarantee.attribute else None)


def check(log: EventLog, guarantee: ConfidenceBound, unit: Unit = _CASE) -> None:
    """Raise ``GuaranteeBroken`` unless ``log`` keeps ``guarantee``; an empty log does."""
    found = extremes(log, guarantee, unit)
    if found is not None and found.smallest < guarantee.K:
        raise GuaranteeBroken(
            guarantee.sentence(), f"some knowledge fits {found.smallest} units only"
        )
    if found is not None and (found.confidence or 0.0) > guarantee.C:
        raise GuaranteeBroken(
            guarantee.sentence(),
            f"some knowledge tells a value with {found.confidence:.1%} confidence",
        )


def _courses(log: EventLog, guarantee: ConfidenceBound) -> tuple[pl.DataFrame, pl.Series]:
    """The places of each distinct course (``course``, ``place``, ``symbol``), and the course of
    each case.
    """
    seen = [ACTIVITY, TIMESTAMP] if guarantee.background == "relative" else [ACTIVITY]
    if missing := [name for name in seen if name not in log.events.columns]:
        raise GuaranteeBroken(
            guarantee.sentence(), f"the log has no column '{missing[0]}' to count by"
        )
    symbols = log.events.select(named(*seen)).unique(maintain_order=True).with_row_index("symbol")
    events = log.events.select(named(*seen)).with_columns(pl.Series("case", log.case_of))
    events = events.join(
        symbols, on=named(*seen), how="left", nulls_equal=True, maintain_order="left"
    )
    known = {"set": pl.col("symbol").unique().sort(), "multiset": pl.col("symbol").sort()}
    lists = events.group_by("case").agg(known.get(guarantee.background, pl.col("symbol")))
    every = pl.DataFrame({"case": np.arange(log.cases.height)}).join(lists, on="case", how="left")
    courses = every.group_by("symbol", maintain_order=True).agg("case").with_row_index("course")
    of_case = courses.select("course", "case").explode("case").sort("case")["course"]
    some = courses.filter(pl.col("symbol").is_not_null()).select("course", "symbol")
    return some.with_columns(place=pl.int_ranges(pl.col("symbol").list.len())).explode(
        "symbol", "place"
    ), of_case


def _knowledge(
    courses: pl.DataFrame, members: pl.DataFrame, longest: int
) -> Iterator[tuple[pl.DataFrame, list[str]]]:
    """All knowledge of size 0, 1, ..., ``longest`` that some course matches, and the columns that
    tell it apart.

    A table holds those columns, ``course``, and ``end``: the earliest place at which the knowledge
    ends there.
    """
    known = (
        members.select("course").unique().with_columns(nothing=pl.lit(0), end=pl.lit(-1, pl.Int64))
    )
    by = ["nothing"]
    yield known, by
    for size in range(1, longest + 1):
        found, event = [], f"event {size}"
        for rows in _slices(known, courses):
            longer = (
                rows.join(courses, on="course")
                .filter(pl.col("place") > pl.col("end"))
                .rename({"symbol": event})
            )
            found.append(
                longer.group_by(named(*by, event, "course")).agg(pl.col("place").min().alias("end"))
            )
            if sum(part.height for part in found) > MOST_ROWS:
                raise _TooMuch
        known, by = pl.concat(found), [*by, event]
        if not known.height:
            return
        yield known, by


def _slices(known: pl.DataFrame, courses: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """``known`` in slices that make about ``_SLICE`` rows each when joined with ``courses``; at
    least one.
    """
    width = courses.group_by("course").agg(pl.len().alias("width"))
    widths = (
        known.select("course")
        .join(width, on="course", how="left", maintain_order="left")["width"]
        .fill_null(0)
    )
    number = (widths.cast(pl.Int64).cum_sum() // _SLICE).to_numpy()
    ends = [*np.flatnonzero(np.diff(number)) + 1, known.height]
    begin = 0
    for end in ends:
        yield known[begin:end]
        begin = int(end)


def _fits(known: pl.DataFrame, by: list[str], other: pl.DataFrame) -> pl.DataFrame:
    """``known`` joined with what ``other`` holds for its courses, if that can be held."""
    width = other.group_by("course").agg(pl.len().alias("width"))
    if (
        known.select("course").join(width, on="course")["width"].cast(pl.Int64).sum() or 0
    ) > MOST_ROWS:
        raise _TooMuch
    return known.select(named(*by, "course")).join(other, on="course")


def _owners(log: EventLog, guarantee: ConfidenceBound, unit: Unit) -> pl.Series:
    """A number for each case that the cases of one unit share; one of its own, at least 0, for a
    case without the attribute, while units have numbers below 0.
    """
    own = pl.Series(np.arange(log.cases.height))
    if unit.attribute is None:
        return own
    if unit.attribute not in log.cases.columns:
        raise GuaranteeBroken(
            guarantee.sentence(), f"the log has no column '{unit.attribute}' to count by"
        )
    shared = values_of(log.cases, unit.attribute).cast(pl.String).rank("dense").cast(pl.Int64)
    return pl.select(pl.coalesce(-shared, own)).to_series()


def _held(
    log: EventLog, attribute: str | None, members: pl.DataFrame, *, none_counts: bool
) -> pl.DataFrame:
    """Which cases hold which values: ``course``, ``owner``, ``value``, one row for each value of
    each case.

    ``none_counts``: a case without any has one row, whose value is null.
    """
    of_case = attribute is not None and attribute.startswith(CASE_PREFIX)
    table, case = (log.cases, np.arange(log.cases.height)) if of_case else (log.events, log.case_of)
    if attribute is None or attribute not in table.columns:
        return pl.DataFrame(schema={**members.schema, "value": pl.String})
    values = values_of(table, attribute)
    if values.dtype.is_float():
        zero = pl.Series(np.zeros(len(values)), dtype=values.dtype)
        values = zero.zip_with((values == 0).fill_null(False), values)
    rows = pl.DataFrame({"case": case, "value": values.cast(pl.String)}).drop_nulls().unique()
    if none_counts:
        without_any = np.setdiff1d(np.arange(log.cases.height), rows["case"].to_numpy())
        rows = pl.concat(
            [rows, pl.DataFrame({"case": without_any}).with_columns(value=pl.lit(None, pl.String))]
        )
    return pl.concat([members[rows["case"]], rows.select("value")], how="horizontal")


def _by_case(
    known: pl.DataFrame, by: list[str], members: pl.DataFrame, held: pl.DataFrame
) -> tuple[int, float]:
    """The fewest cases that match some knowledge, and the largest share of them that holds one
    value.
    """
    cases = members.group_by("course").agg(pl.len().alias("cases"))
    total = _fits(known, by, cases).group_by(named(*by)).agg(pl.col("cases").sum())
    holders = held.group_by("course", "value").agg(pl.len().alias("holders"))
    most = _fits(known, by, holders).group_by(named(*by, "value")).agg(pl.col("holders").sum())
    return int(total["cases"].to_numpy().min()), _largest_share(most, by, total)


def _by_owner(
    known: pl.DataFrame, by: list[str], members: pl.DataFrame, held: pl.DataFrame
) -> tuple[int, float]:
    """The same for distinct units: those that match, and those of which a matching case holds the
    value.
    """
    is_unit = pl.col("owner") < 0
    counted = [
        pl.col("owner").filter(is_unit).n_unique().alias("units"),
        pl.col("owner").n_unique().alias("owners"),
    ]
    total = _fits(known, by, members.unique()).group_by(named(*by)).agg(counted)
    most = _fits(known, by, held.unique()).group_by(named(*by, "value")).agg(counted)
    of_units = _largest_share(
        most.select(named(*by, "value"), pl.col("units").alias("holders")).filter(
            pl.col("holders") > 0
        ),
        by,
        total.select(named(*by), pl.col("units").alias("cases")),
    )
    of_owners = _largest_share(
        most.select(named(*by, "value"), pl.col("owners").alias("holders")),
        by,
        total.select(named(*by), pl.col("owners").alias("cases")),
    )
    return int(total["units"].to_numpy().min()), max(of_units, of_owners)


def _largest_share(holders: pl.DataFrame, by: list[str], total: pl.DataFrame) -> float:
    """The largest quotient, correctly rounded: polars multiplies by a reciprocal here and there,
    and 3/10 is then > 0.3.
    """
    both = holders.join(total, on=named(*by))
    return float((both["holders"].to_numpy() / both["cases"].to_numpy()).max(initial=0.0))

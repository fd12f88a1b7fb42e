"""A confidence bound measured on a log alone, by a count that shares nothing with the mechanism's.

The checker is a chain of joins. A table holds every pair of a piece of knowledge and a course that matches it, with the
earliest place at which the knowledge ends there; joined with the places of the course that lie behind, it gives all
knowledge of one event more. What a group of matching courses holds is then added up.

For background ``relative``, released times are taken as they stand: the release has rounded them, and counted them from
one origin. What it cannot see: whether the cases of the log are distinct real ones, which the release's lineage says.
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

MOST_ROWS: Final = 60_000_000
"""How many rows one join may make: about 3 GB."""

_CASE: Unit = Unit()


@dataclass(frozen=True, slots=True)
class Extremes:
    """The worst that an attacker finds: the fewest units that match some knowledge, and the most confidence.

    ``confidence``: the largest share of those who match that holds one value of the attribute; None where the guarantee
    speaks of none. Of cases or, where units own several, of units with a case that matches and holds it, whichever is
    more. A missing value is none.
    """

    smallest: int
    confidence: float | None


def extremes(log: EventLog, guarantee: ConfidenceBound, unit: Unit = _CASE) -> Extremes | None:
    """What the worst knowledge of at most ``guarantee.L`` events, none included, finds; None for a log without cases.

    Counts distinct ``unit``s. Time and memory go with the matches, at most (distinct activities of a course)^L for each
    distinct course, times its length. Raises ``GuaranteeBroken`` when the log lacks a column, or when there are more
    than ``MOST_ROWS``: nothing is then known about the guarantee.
    """
    if log.cases.height == 0:
        return None
    courses, course_of_case = _courses(log, guarantee)
    members = pl.DataFrame({"course": course_of_case, "owner": _owners(log, guarantee, unit)})
    held = _held(log, guarantee, members)
    cases = members.group_by("course").agg(pl.len().alias("cases"))
    smallest, confidence = log.cases.height, 0.0
    for known, by in _knowledge(courses, members, guarantee):
        total = _fits(known.select(*by, "course"), cases, guarantee).group_by(by).agg(pl.col("cases").sum())
        confidence = max(confidence, _most(known, by, held, total, guarantee))
        if unit.attribute is not None:
            total = _distinct_owners(known, by, members, guarantee)
            confidence = max(confidence, _most_of_owners(known, by, held, total, guarantee))
        smallest = min(smallest, int(total["cases"].min()))  # type: ignore[arg-type]
    return Extremes(smallest, confidence if guarantee.attribute else None)


def check(log: EventLog, guarantee: ConfidenceBound, unit: Unit = _CASE) -> None:
    """Raise ``GuaranteeBroken`` unless ``log`` keeps ``guarantee``; an empty log does."""
    found = extremes(log, guarantee, unit)
    if found is not None and found.smallest < guarantee.K:
        raise GuaranteeBroken(guarantee.sentence(), f"some knowledge fits {found.smallest} units only")
    if found is not None and (found.confidence or 0.0) > guarantee.C:
        raise GuaranteeBroken(
            guarantee.sentence(), f"some knowledge tells a value with {found.confidence:.1%} confidence"
        )


def _courses(log: EventLog, guarantee: ConfidenceBound) -> tuple[pl.DataFrame, pl.Series]:
    """The places of each distinct course (``course``, ``place``, ``symbol``), and the course of each case."""
    seen = [ACTIVITY, TIMESTAMP] if guarantee.background == "relative" else [ACTIVITY]
    if missing := [name for name in seen if name not in log.events.columns]:
        raise GuaranteeBroken(guarantee.sentence(), f"the log has no column '{missing[0]}' to count by")
    symbols = log.events.select(seen).unique(maintain_order=True).with_row_index("symbol")
    events = log.events.select(seen).with_columns(pl.Series("case", log.case_of))
    events = events.join(symbols, on=seen, how="left", nulls_equal=True, maintain_order="left")
    symbol = {"set": pl.col("symbol").unique().sort(), "multiset": pl.col("symbol").sort()}
    listed = events.group_by("case", maintain_order=True).agg(symbol.get(guarantee.background, pl.col("symbol")))
    cases = pl.DataFrame({"case": np.arange(log.cases.height)}).join(
        listed, on="case", how="left", maintain_order="left"
    )
    lists = cases["symbol"].fill_null(pl.Series([[]], dtype=listed["symbol"].dtype))
    numbered = (
        pl.DataFrame({"symbol": lists, "case": cases["case"]}).group_by("symbol", maintain_order=True).agg("case")
    )
    numbered = numbered.with_row_index("course")
    of_case = numbered.select("course", "case").explode("case").sort("case")["course"]
    places = numbered.select("course", "symbol", place=pl.int_ranges(pl.col("symbol").list.len()))
    return places.filter(pl.col("symbol").list.len() > 0).explode("symbol", "place"), of_case


def _knowledge(
    courses: pl.DataFrame, members: pl.DataFrame, guarantee: ConfidenceBound
) -> Iterator[tuple[pl.DataFrame, list[str]]]:
    """All knowledge of size 0, 1, ..., L that some course matches, and the columns that tell it apart.

    A table holds those columns, ``course``, and ``end``: the earliest place at which the knowledge ends there.
    """
    known = members.select("course").unique().with_columns(nothing=pl.lit(0), end=pl.lit(-1, pl.Int64))
    by = ["nothing"]
    yield known, by
    for size in range(1, guarantee.L + 1):
        longer = _fits(known, courses, guarantee).filter(pl.col("place") > pl.col("end"))
        by = [*by, f"event {size}"]
        known = longer.rename({"symbol": by[-1]}).group_by(*by, "course").agg(pl.col("place").min().alias("end"))
        if not known.height:
            return
        yield known, by


def _fits(known: pl.DataFrame, other: pl.DataFrame, guarantee: ConfidenceBound) -> pl.DataFrame:
    """``known`` joined with ``other`` by course, if that can be held."""
    width = other.group_by("course").agg(pl.len().alias("width"))
    rows = known.select("course").join(width, on="course")["width"].sum()
    if rows > MOST_ROWS:
        why = f"there is too much knowledge of up to {guarantee.L} events to be counted ({rows:,} matches)"
        raise GuaranteeBroken(guarantee.sentence(), f"it cannot be measured: {why}")
    return known.join(other, on="course")


def _owners(log: EventLog, guarantee: ConfidenceBound, unit: Unit) -> pl.Series:
    """A number for each case that the cases of one unit share; a case without the attribute is its own unit."""
    own = pl.Series(np.arange(log.cases.height))
    if unit.attribute is None:
        return own
    if unit.attribute not in log.cases.columns:
        raise GuaranteeBroken(guarantee.sentence(), f"the log has no column '{unit.attribute}' to count by")
    shared = log.cases.select(pl.col(unit.attribute).cast(pl.String).rank("dense").cast(pl.Int64)).to_series()
    return pl.select(pl.coalesce(-shared, own)).to_series()


def _held(log: EventLog, guarantee: ConfidenceBound, members: pl.DataFrame) -> pl.DataFrame:
    """Which cases hold which values: ``course``, ``owner``, ``value``, one row for each value of each case."""
    name = guarantee.attribute
    table, case = (
        (log.cases, np.arange(log.cases.height)) if (name or "").startswith(CASE_PREFIX) else (log.events, log.case_of)
    )
    if name is None or name not in table.columns:
        return pl.DataFrame(schema={**members.schema, "value": pl.String})
    rows = pl.DataFrame({"case": case, "value": table[name].cast(pl.String)}).drop_nulls().unique()
    return pl.concat([members[rows["case"]], rows.select("value")], how="horizontal")


def _most(
    known: pl.DataFrame, by: list[str], held: pl.DataFrame, total: pl.DataFrame, guarantee: ConfidenceBound
) -> float:
    """The largest share of the matching cases that holds one value."""
    cases = held.group_by("course", "value").agg(pl.len().alias("holders"))
    holders = _fits(known.select(*by, "course"), cases, guarantee).group_by(*by, "value").agg(pl.col("holders").sum())
    return _largest_share(holders, by, total)


def _distinct_owners(
    known: pl.DataFrame, by: list[str], members: pl.DataFrame, guarantee: ConfidenceBound
) -> pl.DataFrame:
    """How many units match each piece of knowledge, as the column ``cases``."""
    fits = _fits(known.select(*by, "course"), members.unique(), guarantee)
    return fits.group_by(by).agg(pl.col("owner").n_unique().alias("cases"))


def _most_of_owners(
    known: pl.DataFrame, by: list[str], held: pl.DataFrame, total: pl.DataFrame, guarantee: ConfidenceBound
) -> float:
    """The largest share of the matching units of which a matching case holds one value."""
    fits = _fits(known.select(*by, "course"), held.unique(), guarantee)
    return _largest_share(fits.group_by(*by, "value").agg(pl.col("owner").n_unique().alias("holders")), by, total)


def _largest_share(holders: pl.DataFrame, by: list[str], total: pl.DataFrame) -> float:
    """The largest quotient, correctly rounded: polars multiplies by a reciprocal here and there, and 3/10 is then > 0.3."""
    both = holders.join(total, on=by)
    return float((both["holders"].to_numpy() / both["cases"].to_numpy()).max(initial=0.0))

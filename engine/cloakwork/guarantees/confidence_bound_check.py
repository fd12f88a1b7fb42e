"""A confidence bound measured on a log alone, by a count that shares nothing with the mechanism's.

The checker is a chain of joins. A *sequence* is what can be known of a case; a *candidate* is a
subsequence of it that an attacker may know. A table holds every pair of a candidate and a sequence
that it occurs in, with the earliest place at which it ends there. Joined with the places of the
sequence behind that one, it gives all candidates of one event more. What a group of matching
sequences holds is then added up. Which candidates there are follows from the distinct sequences of
all batches, which TLKC leaves few of: so what merges is these, with what their cases hold.

For background ``relative``, released times are taken as they are: the release has rounded them, and
counted them from one origin. What the checker cannot see: whether the cases of the log are distinct
real ones, which the release's lineage says.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.errors import GuaranteeBroken
from cloakwork.base.facts import Unit
from cloakwork.base.naming import named
from cloakwork.guarantees import ConfidenceBound
from cloakwork.guarantees.evidence import gathered
from cloakwork.guarantees.known_sequences import SequenceEvidence, sequence_tables
from cloakwork.log.handle import LogHandle

MOST_ROWS: Final = 30_000_000
"""How many pairs of candidate and sequence are held at once: about 3 GB."""
MOST_JOINED: Final = 1_000_000_000
"""How many pairs of candidate and unit are counted, some at a time: a quarter of an hour."""
_SLICE: Final = 1_000_000
"""How many rows a join makes at a time."""

_CASE: Unit = Unit()


@dataclass(frozen=True, slots=True)
class WorstKnowledge:
    """The worst that an attacker finds: the fewest units that match some knowledge, and the most
    confidence.

    ``confidence``: the largest share of those who match that holds one value of the attribute; None
    where the guarantee speaks of none. Of cases or, where units own several, of units with a case
    that matches and holds it, whichever is more; there, cases without a unit are left out, or taken
    for one unit each, whichever is more. A missing value is none.
    """

    smallest: int
    confidence: float | None


class _TooManyMatches(Exception):
    """There is more knowledge than can be counted."""


@dataclass(frozen=True, slots=True)
class _Candidates:
    """All candidates of one size that occur in some sequence.

    ``rows``: one for each candidate and sequence; the columns ``by`` identify the candidate, beside
    ``sequence`` and ``end``, the earliest place at which the candidate ends there.
    """

    rows: pl.DataFrame
    by: list[str]


def worst_knowledge(
    log: LogHandle, guarantee: ConfidenceBound, unit: Unit = _CASE
) -> WorstKnowledge | None:
    """What the worst knowledge of at most ``guarantee.L`` events, none included, finds; None for a
    log without cases.

    Counts distinct ``unit``s; a case without one adds none. Time goes with the pairs of candidate
    and sequence, at most (distinct activities)^L for each distinct sequence, times its length;
    memory with the pairs. Raises ``GuaranteeBroken`` when the log lacks a column, or when there are
    more than ``MOST_ROWS`` pairs: nothing is then known about the guarantee.
    """
    return worst_in(gathered(log, SequenceEvidence(guarantee, unit)), guarantee, unit)


def worst_in(
    merged: pl.DataFrame, guarantee: ConfidenceBound, unit: Unit = _CASE
) -> WorstKnowledge | None:
    """``worst_knowledge``, of the merged ``SequenceEvidence`` of a log."""
    if merged.height == 0:
        return None
    places, cases, holders = sequence_tables(merged)
    smallest, confidence = int(cases["cases"].sum()), 0.0
    try:
        for candidates in _known_subsequences(places, cases, guarantee.L):
            found = [_worst_by_case(candidates, cases, holders)]
            if unit.attribute:
                found.append(_worst_by_unit(candidates, cases, holders))
            for fewest, share in found:
                smallest = min(smallest, fewest)
                confidence = max(confidence, share)
    except _TooManyMatches:
        raise GuaranteeBroken(
            guarantee.sentence(),
            "it cannot be measured: "
            f"there is too much knowledge of up to {guarantee.L} events to be counted",
        ) from None
    return WorstKnowledge(smallest, confidence if guarantee.attribute else None)


def check(log: LogHandle, guarantee: ConfidenceBound, unit: Unit = _CASE) -> None:
    """Raise ``GuaranteeBroken`` unless ``log`` keeps ``guarantee``; an empty log does."""
    worst = worst_knowledge(log, guarantee, unit)
    if worst is None:
        return
    if worst.smallest < guarantee.K:
        observed = f"some knowledge fits {worst.smallest} units only"
        raise GuaranteeBroken(guarantee.sentence(), observed)
    if worst.confidence is not None and worst.confidence > guarantee.C:
        observed = f"some knowledge tells a value with {worst.confidence:.1%} confidence"
        raise GuaranteeBroken(guarantee.sentence(), observed)


def _known_subsequences(
    places: pl.DataFrame, cases: pl.DataFrame, longest: int
) -> Iterator[_Candidates]:
    """All candidates of size 0, 1, ..., ``longest`` that occur in some sequence; ends early where
    there is none.
    """
    # Who knows nothing matches every case, before its first place.
    nothing = cases.select("sequence").unique()
    nothing = nothing.with_columns(nothing=pl.lit(0), end=pl.lit(-1, pl.Int64))
    candidates = _Candidates(nothing, ["nothing"])
    yield candidates
    for size in range(1, longest + 1):
        candidates = _one_event_longer(candidates, places, f"event {size}")
        if not candidates.rows.height:
            return
        yield candidates


def _one_event_longer(candidates: _Candidates, places: pl.DataFrame, event: str) -> _Candidates:
    """Each candidate with one symbol more, in the new column ``event``."""
    by = [*candidates.by, event]
    found: list[pl.DataFrame] = []
    # A candidate and a sequence are one row, so that no slice divides what is grouped.
    for rows in _joinable_slices(candidates.rows, places):
        behind = rows.join(places, on="sequence").filter(pl.col("place") > pl.col("end"))
        longer = behind.rename({"symbol": event}).group_by(named(*by, "sequence"))
        found.append(longer.agg(pl.col("place").min().alias("end")))
        if sum(table.height for table in found) > MOST_ROWS:
            raise _TooManyMatches
    return _Candidates(pl.concat(found), by)


def _joinable_slices(rows: pl.DataFrame, places: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """``rows`` in slices that make about ``_SLICE`` rows each when joined with ``places``; at least
    one.
    """
    length = places.group_by("sequence").agg(pl.len().alias("length"))
    joined = rows.select("sequence").join(length, on="sequence", how="left", maintain_order="left")
    rows_made_so_far = joined["length"].fill_null(0).cast(pl.Int64).cum_sum()
    slice_number = (rows_made_so_far // _SLICE).to_numpy()
    # A slice ends where the number changes from one row to the next.
    ends = [*np.flatnonzero(np.diff(slice_number)) + 1, rows.height]
    begin = 0
    for end in ends:
        yield rows[begin:end]
        begin = int(end)


def _candidate_slices(
    candidates: _Candidates, *tables: pl.DataFrame
) -> Iterator[tuple[pl.DataFrame, ...]]:
    """``tables`` joined with the candidates by ``sequence``, for some candidates at a time: those
    that make about ``_SLICE`` rows, at least one.

    Raises ``_TooManyMatches`` before joins that take too long.
    """
    sequences = pl.concat([table.select("sequence") for table in tables])
    width = sequences.group_by("sequence").agg(pl.len().cast(pl.Int64).alias("width"))
    by = candidates.by
    rows = candidates.rows.select(named(*by, "sequence")).sort(named(*by))
    widths = rows.join(width, on="sequence", how="left", maintain_order="left")["width"]
    rows_made = np.cumsum(widths.to_numpy())
    if rows_made[-1] > MOST_JOINED:
        raise _TooManyMatches
    # All rows of a candidate are in the slice of its first one.
    candidate = rows.select(pl.struct(named(*by)).rle_id()).to_series().to_numpy()
    first_row = np.searchsorted(candidate, candidate)
    slice_number = rows_made[first_row] // _SLICE
    begin = 0
    for end in [*np.flatnonzero(np.diff(slice_number)) + 1, rows.height]:
        some = rows[begin:end]
        yield tuple(some.join(table, on="sequence") for table in tables)
        begin = int(end)


def _worst_by_case(
    candidates: _Candidates, cases: pl.DataFrame, holders: pl.DataFrame
) -> tuple[int, float]:
    """The fewest cases that match some candidate, and the largest share of them that holds one
    value.
    """
    by, fewest, confidence = candidates.by, int(cases["cases"].sum()), 0.0
    count = pl.col("cases").sum()
    of_value = holders.select("sequence", "value", "cases")
    of_all = cases.select("sequence", "cases")
    for matching, holding in _candidate_slices(candidates, of_all, of_value):
        total = matching.group_by(named(*by)).agg(count.alias("total"))
        most = holding.group_by(named(*by, "value")).agg(count.alias("holders"))
        fewest = min(fewest, int(total["total"].to_numpy().min()))
        confidence = max(confidence, _largest_share(most, total, by))
    return fewest, confidence


def _worst_by_unit(
    candidates: _Candidates, cases: pl.DataFrame, holders: pl.DataFrame
) -> tuple[int, float]:
    """The same for distinct units: those that match, and those of which a matching case holds the
    value.
    """
    by, fewest, confidence = candidates.by, int(cases["cases"].sum()), 0.0
    units = pl.col("unit").drop_nulls().n_unique().cast(pl.Int64)
    counts = [units.alias("units"), (units + pl.col("alone").sum()).alias("owners")]
    for matching, holding in _candidate_slices(candidates, _unit_rows(cases), _unit_rows(holders)):
        total = matching.group_by(named(*by)).agg(counts)
        most = holding.group_by(named(*by, "value")).agg(counts)
        fewest = min(fewest, int(total["units"].to_numpy().min()))
        # Without the cases that have no unit, and with each of them as a unit of its own.
        for counted in ("units", "owners"):
            share = _largest_share(
                most.select(named(*by, "value"), named(counted).as_expr().alias("holders")),
                total.select(named(*by), named(counted).as_expr().alias("total")),
                by,
            )
            confidence = max(confidence, share)
    return fewest, confidence


def _unit_rows(counted: pl.DataFrame) -> pl.DataFrame:
    """A row for each ``unit``, and one, whose unit is null, for the cases that are ``alone``."""
    others = counted.drop("cases", "units").with_columns(unit=pl.lit(None, pl.UInt64))
    units = counted.drop("cases", "alone").explode("units", empty_as_null=False)
    units = units.rename({"units": "unit"}).with_columns(alone=pl.lit(0, pl.Int64))
    return pl.concat([others, units], how="diagonal")


def _largest_share(most: pl.DataFrame, total: pl.DataFrame, by: list[str]) -> float:
    """The largest quotient of ``holders`` and ``total``; 0 where nobody holds a value."""
    both = most.filter(pl.col("holders") > 0).join(total, on=named(*by))
    # By numpy, which rounds correctly: polars multiplies by a reciprocal here and there, and 3/10
    # is then above 0.3.
    shares = both["holders"].to_numpy() / both["total"].to_numpy()
    return float(shares.max(initial=0.0))

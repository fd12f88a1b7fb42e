"""A confidence bound measured on a log alone, by a count that shares nothing with the mechanism's.

The checker is a chain of joins. A *sequence* is what can be known of a case; a *candidate* is a
subsequence of it that an attacker may know. A table holds every pair of a candidate and a sequence
that it occurs in, with the earliest place at which it ends there. Joined with the places of the
sequence behind that one, it gives all candidates of one event more. What a group of matching
sequences holds is then added up.

For background ``relative``, released times are taken as they are: the release has rounded them, and
counted them from one origin. What the checker cannot see: whether the cases of the log are distinct
real ones, which the release's lineage says.
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
"""How many pairs of candidate and sequence, or of candidate and case, are held at once: about 3 GB.
"""
_SLICE: Final = 5_000_000
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
    log: EventLog, guarantee: ConfidenceBound, unit: Unit = _CASE
) -> WorstKnowledge | None:
    """What the worst knowledge of at most ``guarantee.L`` events, none included, finds; None for a
    log without cases.

    Counts distinct ``unit``s; a case without one adds none. Time goes with the pairs of candidate
    and sequence, at most (distinct activities)^L for each distinct sequence, times its length;
    memory with the pairs. Raises ``GuaranteeBroken`` when the log lacks a column, or when there are
    more than ``MOST_ROWS`` pairs: nothing is then known about the guarantee.
    """
    if log.cases.height == 0:
        return None
    places, sequence_of_case = _known_sequences(log, guarantee)
    owner = _owner_numbers(log, guarantee, unit)
    cases = pl.DataFrame({"sequence": sequence_of_case, "owner": owner})
    holders = _value_holders(
        log, guarantee.attribute, cases, missing_is_value=guarantee.missing == "sensitive"
    )
    smallest, confidence = log.cases.height, 0.0
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


def check(log: EventLog, guarantee: ConfidenceBound, unit: Unit = _CASE) -> None:
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


def _known_sequences(log: EventLog, guarantee: ConfidenceBound) -> tuple[pl.DataFrame, pl.Series]:
    """The places of each distinct sequence (``sequence``, ``place``, ``symbol``), and the sequence
    of each case.
    """
    lists = _symbols_of_cases(log, guarantee)
    # Cases without events have a sequence as well: a null.
    every_case = pl.DataFrame({"case": np.arange(log.cases.height)})
    every_case = every_case.join(lists, on="case", how="left")
    sequences = every_case.group_by("symbol", maintain_order=True).agg("case")
    sequences = sequences.with_row_index("sequence")
    of_case = sequences.select("sequence", "case").explode("case").sort("case")["sequence"]
    with_events = sequences.filter(pl.col("symbol").is_not_null()).select("sequence", "symbol")
    place = pl.int_ranges(pl.col("symbol").list.len())
    return with_events.with_columns(place=place).explode("symbol", "place"), of_case


def _symbols_of_cases(log: EventLog, guarantee: ConfidenceBound) -> pl.DataFrame:
    """What can be known of each case that has events: ``case``, and ``symbol``, a list of numbers,
    equal for events that are known equally.
    """
    seen = [ACTIVITY, TIMESTAMP] if guarantee.background == "relative" else [ACTIVITY]
    _require_columns(log.events, seen, guarantee)
    seen_events = log.events.select(named(*seen))
    symbols = seen_events.unique(maintain_order=True).with_row_index("symbol")
    events = seen_events.with_columns(pl.Series("case", log.case_of))
    events = events.join(
        symbols, on=named(*seen), how="left", nulls_equal=True, maintain_order="left"
    )
    known = pl.col("symbol")
    if guarantee.background == "set":
        known = known.unique().sort()
    elif guarantee.background == "multiset":
        known = known.sort()
    return events.group_by("case").agg(known)


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


def _joined_within_limits(candidates: _Candidates, other: pl.DataFrame) -> pl.DataFrame:
    """The candidates joined with what ``other`` holds for their sequences.

    Raises ``_TooManyMatches`` before a join that cannot be held.
    """
    width = other.group_by("sequence").agg(pl.len().alias("width"))
    widths = candidates.rows.select("sequence").join(width, on="sequence")["width"]
    if (widths.cast(pl.Int64).sum() or 0) > MOST_ROWS:
        raise _TooManyMatches
    return candidates.rows.select(named(*candidates.by, "sequence")).join(other, on="sequence")


def _owner_numbers(log: EventLog, guarantee: ConfidenceBound, unit: Unit) -> pl.Series:
    """A number for each case that the cases of one unit share; one of its own, at least 0, for a
    case without the attribute, while units have numbers below 0.
    """
    own = pl.Series(np.arange(log.cases.height))
    if unit.attribute is None:
        return own
    _require_columns(log.cases, [unit.attribute], guarantee)
    shared = values_of(log.cases, unit.attribute).cast(pl.String).rank("dense").cast(pl.Int64)
    return pl.select(pl.coalesce(-shared, own)).to_series()


def _require_columns(table: pl.DataFrame, names: list[str], guarantee: ConfidenceBound) -> None:
    """Raise ``GuaranteeBroken`` where ``table`` lacks one of the columns."""
    for name in names:
        if name not in table.columns:
            observed = f"the log has no column '{name}' to count by"
            raise GuaranteeBroken(guarantee.sentence(), observed)


def _value_holders(
    log: EventLog, attribute: str | None, cases: pl.DataFrame, *, missing_is_value: bool
) -> pl.DataFrame:
    """Which cases hold which values: ``sequence``, ``owner``, ``value``, one row for each value of
    each case.

    ``missing_is_value``: a case without any has one row, whose value is null.
    """
    every_case = np.arange(log.cases.height)
    table, case = log.events, log.case_of
    if attribute is not None and attribute.startswith(CASE_PREFIX):
        table, case = log.cases, every_case
    if attribute is None or attribute not in table.columns:
        return pl.DataFrame(schema={**cases.schema, "value": pl.String})
    values = values_of(table, attribute)
    if values.dtype.is_float():
        # -0.0 and 0.0 are one value with two spellings.
        zero = pl.Series(np.zeros(len(values)), dtype=values.dtype)
        values = zero.zip_with((values == 0).fill_null(False), values)
    rows = pl.DataFrame({"case": case, "value": values.cast(pl.String)}).drop_nulls().unique()
    if missing_is_value:
        without_any = np.setdiff1d(every_case, rows["case"].to_numpy())
        missing = pl.DataFrame({"case": without_any}).with_columns(value=pl.lit(None, pl.String))
        rows = pl.concat([rows, missing])
    return pl.concat([cases[rows["case"]], rows.select("value")], how="horizontal")


def _worst_by_case(
    candidates: _Candidates, cases: pl.DataFrame, holders: pl.DataFrame
) -> tuple[int, float]:
    """The fewest cases that match some candidate, and the largest share of them that holds one
    value.
    """
    by = candidates.by
    counted = cases.group_by("sequence").agg(pl.len().alias("total"))
    matching = _joined_within_limits(candidates, counted)
    total = matching.group_by(named(*by)).agg(pl.col("total").sum())
    counted = holders.group_by("sequence", "value").agg(pl.len().alias("holders"))
    holding = _joined_within_limits(candidates, counted)
    most = holding.group_by(named(*by, "value")).agg(pl.col("holders").sum())
    return int(total["total"].to_numpy().min()), _largest_share(most, total, by)


def _worst_by_unit(
    candidates: _Candidates, cases: pl.DataFrame, holders: pl.DataFrame
) -> tuple[int, float]:
    """The same for distinct units: those that match, and those of which a matching case holds the
    value.
    """
    by = candidates.by
    is_unit = pl.col("owner") < 0
    counts = [
        pl.col("owner").filter(is_unit).n_unique().alias("units"),
        pl.col("owner").n_unique().alias("owners"),
    ]
    matching = _joined_within_limits(candidates, cases.unique())
    total = matching.group_by(named(*by)).agg(counts)
    holding = _joined_within_limits(candidates, holders.unique())
    most = holding.group_by(named(*by, "value")).agg(counts)
    confidence = 0.0
    # Without the cases that have no unit, and with each of them as a unit of its own.
    for counted in (pl.col("units"), pl.col("owners")):
        share = _largest_share(
            most.select(named(*by, "value"), counted.alias("holders")),
            total.select(named(*by), counted.alias("total")),
            by,
        )
        confidence = max(confidence, share)
    return int(total["units"].to_numpy().min()), confidence


def _largest_share(most: pl.DataFrame, total: pl.DataFrame, by: list[str]) -> float:
    """The largest quotient of ``holders`` and ``total``; 0 where nobody holds a value."""
    both = most.filter(pl.col("holders") > 0).join(total, on=named(*by))
    # By numpy, which rounds correctly: polars multiplies by a reciprocal here and there, and 3/10
    # is then above 0.3.
    shares = both["holders"].to_numpy() / both["total"].to_numpy()
    return float(shares.max(initial=0.0))

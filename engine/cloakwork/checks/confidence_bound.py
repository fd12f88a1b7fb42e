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
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.checks.classes import NumberedRows, in_lists, numbered_rows, prefixes_of
from cloakwork.checks.evidence import gathered
from cloakwork.checks.hashing import HashKey, with_one_zero
from cloakwork.errors import GuaranteeBroken
from cloakwork.facts import Unit
from cloakwork.guarantees import ConfidenceBound
from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.log.handle import LogHandle
from cloakwork.log.naming import named, values_of

Ints = NDArray[np.int64]

MOST_ROWS: Final = 30_000_000
"""How many pairs of candidate and sequence, or of candidate and case, are held at once: about 3 GB.
"""
_SLICE: Final = 5_000_000
"""How many rows a join makes at a time."""

_CASE: Unit = Unit()
_CLASS: Final = ("class_1", "class_2")
_HOLDERS: Final = ("sequence", "unit", "value", "cases")
_SCHEMA: Final = pl.Schema(
    {
        "class_1": pl.UInt64(),
        "class_2": pl.UInt64(),
        "activity": pl.List(pl.String()),
        "time": pl.List(pl.Int64()),
        "holds": pl.Boolean(),
        "unit": pl.UInt64(),
        "value": pl.String(),
        "cases": pl.Int64(),
    }
)


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


@dataclass(frozen=True, slots=True)
class KnownSequences:
    """What can be known of the cases of a log, and what they hold.

    - One row for each distinct sequence: ``class_1``, ``class_2`` (UInt64, its hash), ``activity``
      (List[String]) and ``time`` (List[Int64], microseconds; null where times are not known).
    - Rows that have ``cases`` (Int64), how many: for each sequence and ``unit`` (UInt64, a hash;
      null without one, or where cases count), where ``holds`` is false; and for each ``value``
      (String) besides that they hold, where it is true; null for none, where that is sensitive,
      and ``holds`` is null where the batch lacks the column.
    """

    guarantee: ConfidenceBound
    unit: Unit = _CASE
    key: HashKey = field(default_factory=HashKey.fresh)

    def of(self, batch: EventLog) -> pl.DataFrame:
        """The cases of one batch."""
        empty = pl.DataFrame(schema=_SCHEMA)
        if batch.cases.height == 0:
            return empty
        known = _known_events(batch, self.guarantee, self.key)
        found = prefixes_of(known.offsets, known.symbols, self.key)
        hashes = dict(zip(_CLASS, found.hashes, strict=True))
        cases = pl.DataFrame({"class": found.of_case, "unit": self._units(batch)})
        holders = _value_holders(
            batch,
            self.guarantee.attribute,
            cases,
            missing_is_value=self.guarantee.missing == "sensitive",
        )
        count = pl.len().cast(pl.Int64).alias("cases")
        counted = pl.concat(
            [
                cases.group_by("class", "unit").agg(count).with_columns(holds=False),
                holders.group_by("class", "unit", "value", "holds").agg(count),
            ],
            how="diagonal",
        )
        distinct, example = np.unique(found.of_case, return_index=True)
        sequences = known.sequences_of(example).with_columns(pl.Series("class", distinct))
        rows = pl.concat([sequences, counted], how="diagonal")
        by_class = [
            pl.Series(name, words[rows["class"].to_numpy()]) for name, words in hashes.items()
        ]
        return pl.concat([empty, rows.with_columns(by_class).drop("class")], how="diagonal")

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Each sequence once; cases are added up."""
        is_sequence = pl.col("cases").is_null()
        sequences = summaries.filter(is_sequence).unique(_CLASS, keep="any")
        by = [*_CLASS, "holds", "unit", "value"]
        counted = summaries.filter(~is_sequence).group_by(by).agg(pl.col("cases").sum())
        return pl.concat([sequences, counted], how="diagonal")

    def worst(self, merged: pl.DataFrame) -> WorstKnowledge | None:
        """What the worst knowledge finds; as ``worst_knowledge`` says."""
        if merged.height == 0:
            return None
        places, cases, holders = _tables(merged)
        smallest, confidence = int(cases["cases"].sum()), 0.0
        try:
            for candidates in _known_subsequences(places, cases, self.guarantee.L):
                found = [_worst_by_case(candidates, cases, holders)]
                if self.unit.attribute:
                    found.append(_worst_by_unit(candidates, cases, holders))
                for fewest, share in found:
                    smallest = min(smallest, fewest)
                    confidence = max(confidence, share)
        except _TooManyMatches:
            raise GuaranteeBroken(
                self.guarantee.sentence(),
                "it cannot be measured: there is too much knowledge "
                f"of up to {self.guarantee.L} events to be counted",
            ) from None
        return WorstKnowledge(smallest, confidence if self.guarantee.attribute else None)

    def _units(self, batch: EventLog) -> pl.Series:
        """The hash of each case's unit; null where it has none, or where cases count."""
        name = self.unit.attribute
        if name is None:
            return pl.Series([None], dtype=pl.UInt64).new_from_index(0, batch.cases.height)
        _require_columns(batch.cases, [name], self.guarantee)
        numbered = numbered_rows(batch.cases, [name], self.key)
        hashes = pl.Series(numbered.hashes[0][numbered.of_row])
        return hashes.set(values_of(batch.cases, name).is_null(), None)


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
    known = KnownSequences(guarantee, unit)
    return known.worst(gathered(log, known))


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


@dataclass(frozen=True, slots=True)
class _KnownEvents:
    """What can be known of each case: the rows ``symbols[offsets[i]:offsets[i + 1]]``, by number.

    ``symbols``: numbers ascend with activity and time. ``names``: these of each number.
    """

    symbols: NumberedRows
    names: pl.DataFrame
    offsets: Ints

    def sequences_of(self, cases: Ints) -> pl.DataFrame:
        """What is known of some cases: ``activity`` and ``time``, in lists."""
        lengths = np.diff(self.offsets)[cases]
        begin = np.repeat(self.offsets[cases] - (np.cumsum(lengths) - lengths), lengths)
        known = self.names[self.symbols.of_row[np.arange(lengths.sum()) + begin]]
        return pl.DataFrame({name: in_lists(known[name], lengths) for name in known.columns})


def _known_events(log: EventLog, guarantee: ConfidenceBound, key: HashKey) -> _KnownEvents:
    is_timed = guarantee.background == "relative"
    seen = [ACTIVITY, TIMESTAMP] if is_timed else [ACTIVITY]
    _require_columns(log.events, seen, guarantee)
    names = {"activity": values_of(log.events, ACTIVITY).cast(pl.String)}
    if is_timed:
        names["time"] = values_of(log.events, TIMESTAMP).cast(TIME_TYPE).to_physical()
    events = pl.DataFrame(names)
    symbols = events.unique().sort(events.columns).with_row_index("number")
    joined = events.join(
        symbols, on=events.columns, how="left", nulls_equal=True, maintain_order="left"
    )
    number, offsets = joined["number"].to_numpy().astype(np.int64), log.offsets
    if guarantee.background in ("set", "multiset"):
        # One number for a case and a symbol.
        width = max(symbols.height, 1)
        pairs = np.sort(log.case_of * width + number)
        if guarantee.background == "set":
            pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        case, number = np.divmod(pairs, width)
        lengths = np.bincount(case, minlength=log.cases.height)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
    hashes = key.of_rows([key.of_values(symbols[name]) for name in names], symbols.height)
    return _KnownEvents(NumberedRows(number, hashes), symbols.drop("number"), offsets)


def _tables(merged: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """The places of each sequence (``sequence``, ``place``, ``symbol``), and how many cases of
    which units have it (``sequence``, ``unit``, ``cases``), and by the ``value`` that they hold.
    """
    is_sequence = pl.col("cases").is_null()
    sequences = merged.filter(is_sequence).with_row_index("sequence")
    known = ["activity", "time"]
    if sequences["time"].null_count():
        known = ["activity"]
    place = pl.int_ranges(pl.col("activity").list.len()).alias("place")
    events = sequences.select("sequence", *known, place)
    events = events.explode(*known, "place", empty_as_null=False)
    symbols = events.select(known).unique(maintain_order=True).with_row_index("symbol")
    places = events.join(symbols, on=known, nulls_equal=True).select("sequence", "place", "symbol")
    counted = merged.filter(~is_sequence).join(
        sequences.select("sequence", *_CLASS), on=_CLASS, how="left"
    )
    cases = counted.filter(pl.col("holds").eq_missing(False))
    holders = counted.filter(pl.col("holds").ne_missing(False))
    if not holders["holds"].any():
        # No batch has the column: nobody holds a value, or lacks one.
        holders = holders.clear()
    return places, cases.select("sequence", "unit", "cases"), holders.select(_HOLDERS)


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


def _require_columns(table: pl.DataFrame, names: list[str], guarantee: ConfidenceBound) -> None:
    """Raise ``GuaranteeBroken`` where ``table`` lacks one of the columns."""
    for name in names:
        if name not in table.columns:
            observed = f"the log has no column '{name}' to count by"
            raise GuaranteeBroken(guarantee.sentence(), observed)


def _value_holders(
    log: EventLog, attribute: str | None, cases: pl.DataFrame, *, missing_is_value: bool
) -> pl.DataFrame:
    """Which cases hold which values: the columns of ``cases``, ``value`` and ``holds``, one row for
    each value of each case.

    ``missing_is_value``: a case without any has one row, whose value is null. ``holds``: True; null
    in all rows where the log lacks the column.
    """
    every_case = np.arange(log.cases.height)
    table, case = log.events, log.case_of
    if attribute is not None and attribute.startswith(CASE_PREFIX):
        table, case = log.cases, every_case
    has_column = attribute in table.columns
    rows = pl.DataFrame(schema={"case": pl.Int64, "value": pl.String})
    if attribute is not None and has_column:
        values = with_one_zero(values_of(table, attribute)).cast(pl.String)
        rows = pl.DataFrame({"case": case, "value": values}).drop_nulls()
        if table is log.events:
            rows = rows.unique()
    if attribute is not None and missing_is_value:
        without_any = np.setdiff1d(every_case, rows["case"].to_numpy())
        missing = pl.DataFrame({"case": without_any}).with_columns(value=pl.lit(None, pl.String))
        rows = pl.concat([rows, missing])
    holds = pl.lit(True if has_column else None, pl.Boolean).alias("holds")
    held = cases[rows["case"]].with_columns(holds)
    return pl.concat([held, rows.select("value")], how="horizontal")


def _worst_by_case(
    candidates: _Candidates, cases: pl.DataFrame, holders: pl.DataFrame
) -> tuple[int, float]:
    """The fewest cases that match some candidate, and the largest share of them that holds one
    value.
    """
    by = candidates.by
    counted = cases.group_by("sequence").agg(pl.col("cases").sum().alias("total"))
    matching = _joined_within_limits(candidates, counted)
    total = matching.group_by(named(*by)).agg(pl.col("total").sum())
    counted = holders.group_by("sequence", "value").agg(pl.col("cases").sum().alias("holders"))
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
    units = pl.col("unit").drop_nulls().n_unique()
    # Each case without a unit is one of its own.
    alone = pl.col("cases").filter(pl.col("unit").is_null()).sum()
    counts = [units.alias("units"), (units + alone).alias("owners")]
    matching = _joined_within_limits(candidates, cases)
    total = matching.group_by(named(*by)).agg(counts)
    holding = _joined_within_limits(candidates, holders)
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

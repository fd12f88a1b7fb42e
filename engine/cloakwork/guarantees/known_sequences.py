"""What can be known of the cases of a log, and what they hold: what the check of a confidence bound
counts, batch by batch.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.errors import GuaranteeBroken
from cloakwork.base.facts import Unit
from cloakwork.base.naming import named, values_of
from cloakwork.guarantees import ConfidenceBound
from cloakwork.guarantees.checked_classes import NumberedRows, in_lists, numbered_rows, prefixes_of
from cloakwork.guarantees.hashing import HashKey, with_one_zero
from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, TIME_TYPE, TIMESTAMP, EventLog

_CASE: Unit = Unit()
_CLASS: Final = ("class_1", "class_2")
_COUNTS: Final = ("cases", "alone", "units")
_SCHEMA: Final = pl.Schema(
    {
        "class_1": pl.UInt64(),
        "class_2": pl.UInt64(),
        "activity": pl.List(pl.String()),
        "time": pl.List(pl.Int64()),
        "holds": pl.Boolean(),
        "value": pl.String(),
        "cases": pl.Int64(),
        "alone": pl.Int64(),
        "units": pl.List(pl.UInt64()),
    }
)


@dataclass(frozen=True, slots=True)
class SequenceEvidence:
    """What can be known of the cases of a log, and what they hold.

    - One row for each distinct sequence: ``class_1``, ``class_2`` (UInt64, its hash), ``activity``
      (List[String]) and ``time`` (List[Int64], microseconds; null where times are not known).
    - One row for each sequence, where ``holds`` is false, and for each ``value`` (String) besides
      that its cases hold, where it is true; null for none, where that is sensitive, and ``holds``
      is null where the batch lacks the column: ``cases`` and ``alone`` (Int64), how many of these
      cases there are, and how many without a unit; ``units`` (List[UInt64], hashes), of the others.
    """

    guarantee: ConfidenceBound
    unit: Unit = _CASE
    key: HashKey = field(default_factory=HashKey.drawn)

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
        unit = pl.col("unit")
        counts = [
            pl.len().cast(pl.Int64).alias("cases"),
            unit.null_count().cast(pl.Int64).alias("alone"),
            unit.drop_nulls().unique().alias("units"),
        ]
        counted = pl.concat(
            [
                cases.group_by("class").agg(counts).with_columns(holds=False),
                holders.group_by("class", "value", "holds").agg(counts),
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
        counts = [
            pl.col("cases").sum(),
            pl.col("alone").sum(),
            pl.col("units").explode(empty_as_null=False).unique(),
        ]
        counted = summaries.filter(~is_sequence).group_by(*_CLASS, "holds", "value").agg(counts)
        return pl.concat([sequences, counted], how="diagonal")

    def _units(self, batch: EventLog) -> pl.Series:
        """The hash of each case's unit; null where it has none, or where cases count."""
        name = self.unit.attribute
        if name is None:
            return pl.Series([None], dtype=pl.UInt64).new_from_index(0, batch.cases.height)
        _require_columns(batch.cases, [name], self.guarantee)
        numbered = numbered_rows(batch.cases, [name], self.key)
        hashes = pl.Series(numbered.hashes[0][numbered.of_row])
        return hashes.set(values_of(batch.cases, name).is_null(), None)


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
    symbols = events.unique().sort(named(*events.columns)).with_row_index("number")
    joined = events.join(
        symbols, on=named(*events.columns), how="left", nulls_equal=True, maintain_order="left"
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


def sequence_tables(merged: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """The places of each sequence (``sequence``, ``place``, ``symbol``); its ``cases``, those that
    are ``alone``, and the ``units`` of the others; and the same by ``value`` of those who hold it.
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
    held = holders.select("sequence", "value", *_COUNTS)
    return places, cases.select("sequence", *_COUNTS), held


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

"""What TLKC counts: how many cases follow each sequence of events, by unit and sensitive values.

Also the same as arrays, in the form that an attacker with background knowledge knows.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Final, Literal

import numpy as np
import polars as pl
from pydantic import AwareDatetime, Field

from cloakwork.base.arrays import Ints
from cloakwork.base.errors import MechanismError
from cloakwork.base.naming import named, values_of
from cloakwork.base.quantities import Duration, Frozen, Number
from cloakwork.guarantees import Background
from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.mechanisms.aggregates import CASES, UNIT, VARIANT
from cloakwork.mechanisms.kanon.background_knowledge import KnownSequences, SequenceCases

NAME: Final = "kanon/tlkc"
STEPS: Final = "steps"
VALUES: Final = "values"


class TlkcParams(Frozen):
    """What the policy's guarantee says, and two declared facts; there are no options.

    ``L``, ``K``, ``C``, ``background``, ``precision``, ``attribute``, ``missing``: as in
    ``ConfidenceBound``. ``unit``: the case attribute whose distinct values K counts (None: cases).
    ``epoch``: when every released case begins, for background ``relative``.
    """

    L: Annotated[int, Field(ge=1)]
    K: Annotated[int, Field(ge=2)]
    C: Annotated[Number, Field(gt=0, le=1)]
    background: Background
    precision: Duration | None
    attribute: str | None
    missing: Literal["neutral", "sensitive"] = "neutral"
    unit: str | None
    epoch: AwareDatetime

    @property
    def sequence_columns(self) -> list[str]:
        """The columns of a summary in which sequences differ."""
        return [VARIANT] if self.precision is None else [VARIANT, STEPS]


@dataclass(frozen=True, slots=True)
class SequenceCounts:
    """How many cases follow each sequence, by unit and sensitive values where these are needed.

    A summary has the columns ``variant`` (List[String], activities in order); with a precision
    ``steps`` (List[Int64], the time of each event since the first of its case, in whole precisions
    rounded down; null where it has none); with a unit ``unit`` (String, null where a case has
    none); with an attribute ``values`` (List[String], the distinct values that the case or any of
    its events holds, sorted); ``cases`` (Int64, at least 1). One row for each combination.
    """

    params: TlkcParams

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Count the sequences of one batch; raises ``MechanismError`` where it lacks a column that
        is needed.
        """
        rows = sequences_of_cases(batch, self.params)
        unit, attribute = self.params.unit, self.params.attribute
        if unit is not None:
            rows = rows.with_columns(_case_column(batch, unit).alias(UNIT))
        if attribute is not None:
            values = _values_of_cases(batch, attribute)
            if self.params.missing == "sensitive":
                values = _with_missing_as_value(values)
            rows = rows.with_columns(values.alias(VALUES))
        return self.merge(rows.with_columns(pl.lit(1, pl.Int64).alias(CASES)))

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Add up the rows that several batches have for the same combination."""
        by = [name for name in summaries.columns if name != CASES]
        return summaries.group_by(named(*by)).agg(pl.col(CASES).sum()).sort(named(*by))


def sequences_of_cases(log: EventLog, params: TlkcParams) -> pl.DataFrame:
    """The sequence of each case, one row a case: ``variant`` and, with a precision, ``steps``."""
    events = pl.DataFrame({"case": log.case_of, VARIANT: log.events[ACTIVITY].cast(pl.String)})
    if params.precision is not None:
        if TIMESTAMP not in log.events.columns:
            raise MechanismError(NAME, "the log has no timestamps, and the guarantee is about them")
        time = log.events[TIMESTAMP].cast(TIME_TYPE).to_physical().alias("time")
        since_start = pl.col("time") - pl.col("time").min().over("case")
        steps = since_start // whole_microseconds(params.precision)
        events = events.with_columns(time).with_columns(steps.alias(STEPS))
    lists = events.group_by("case", maintain_order=True).agg(named(*params.sequence_columns))
    return _of_all_cases(log, lists).select(named(*params.sequence_columns).as_expr().fill_null([]))


def _of_all_cases(log: EventLog, lists: pl.DataFrame) -> pl.DataFrame:
    """``lists`` (one row a case that has any, in the column ``case``) with a row for every case;
    null where there was none.
    """
    every_case = pl.DataFrame({"case": np.arange(log.cases.height)})
    return every_case.join(lists, on="case", how="left", maintain_order="left")


def _case_column(log: EventLog, name: str) -> pl.Series:
    """The values of a case attribute as text; all null where no case has it."""
    if name not in log.cases.columns:
        return pl.Series([None], dtype=pl.String).new_from_index(0, log.cases.height)
    return values_of(log.cases, name).cast(pl.String)


def _values_of_cases(log: EventLog, attribute: str) -> pl.Series:
    """For each case the distinct values it holds, sorted: List[String]; a missing value is none."""
    table, case, owner = log.events, log.case_of, "event"
    if is_of_cases(attribute):
        table, case, owner = log.cases, np.arange(log.cases.height), "case"
    if attribute not in table.columns:
        if log.cases.height:
            reason = f"no {owner} has '{attribute}', of which the guarantee speaks"
            raise MechanismError(NAME, reason)
        return pl.Series([], dtype=pl.List(pl.String))
    values = values_of(table, attribute)
    if values.dtype.is_float():
        # -0.0 and 0.0 are one value with two spellings.
        zero = pl.zeros(len(values), values.dtype, eager=True)
        values = values.zip_with(values.fill_null(1) != 0, zero)
    texts = pl.DataFrame({"case": case, VALUES: values.cast(pl.String)})
    distinct = pl.col(VALUES).drop_nulls().unique().sort()
    lists = texts.group_by("case", maintain_order=True).agg(distinct)
    return _of_all_cases(log, lists)[VALUES].fill_null([])


def _with_missing_as_value(values: pl.Series) -> pl.Series:
    """``values`` where a case without any has one more value, the empty text. All other values
    begin with an equals sign, so none of them is empty.
    """
    marked = values.list.eval(pl.lit("=") + pl.element())
    missing = pl.Series([[""]], dtype=pl.List(pl.String)).new_from_index(0, len(values))
    return marked.zip_with(values.list.len() > 0, missing)


def is_of_cases(attribute: str) -> bool:
    """Whether cases have the attribute, not events."""
    return attribute.startswith(CASE_PREFIX)


def symbols_of_events(sequences: pl.DataFrame, params: TlkcParams) -> pl.DataFrame:
    """The events of all ``sequences`` (one a row) end to end: ``sequence`` (Int64) and ``symbol``
    (Int64), equal for events that an attacker knows equally.

    Symbols are numbered by activity, then time, so that nothing depends on the order of sequences.
    """
    keys = named(*params.sequence_columns)
    numbered = sequences.select(keys).with_row_index("sequence")
    # An empty sequence would explode to a null.
    events = numbered.filter(pl.col(VARIANT).list.len() > 0).explode(keys)
    symbols = events.select(keys).unique().sort(keys).with_row_index("symbol")
    joined = events.join(symbols, on=keys, how="left", nulls_equal=True, maintain_order="left")
    return joined.select(pl.col("sequence", "symbol").cast(pl.Int64))


def known_sequences(events: pl.DataFrame, background: Background) -> tuple[KnownSequences, Ints]:
    """The sequences as an attacker knows them, and for each event its place in them.

    ``events``: as ``symbols_of_events`` gives them. A multiset of activities is the sorted
    sequence; a set is the sorted sequence of distinct activities.
    """
    sequence = events["sequence"].to_numpy()
    symbol = events["symbol"].to_numpy()
    in_order = np.arange(len(symbol))
    one_event_each = np.ones(len(symbol), np.int64)
    if background in ("sequence", "relative"):
        return KnownSequences(symbol, sequence, one_event_each), in_order
    if background == "multiset":
        order = np.lexsort((in_order, symbol, sequence))
        # Event ``order[i]`` is sorted to place i.
        place = np.empty(len(symbol), np.int64)
        place[order] = in_order
        return KnownSequences(symbol[order], sequence[order], one_event_each), place
    # All events of one activity are known, and suppressed, together: one number for each pair.
    symbols = int(symbol.max(initial=0)) + 1
    pair = sequence * symbols + symbol
    distinct, place, count = np.unique(pair, return_inverse=True, return_counts=True)
    sequence_of_pair, symbol_of_pair = np.divmod(distinct, symbols)
    return KnownSequences(symbol_of_pair, sequence_of_pair, count.astype(np.int64)), place


def sequence_cases(grouped: pl.DataFrame, details: list[str]) -> SequenceCases:
    """Which cases follow each sequence: a row of ``grouped`` is a sequence, whose columns
    ``details`` list the cases, units and values.
    """
    row_counts = grouped[CASES].list.len().to_numpy().astype(np.int64)
    rows = grouped.select(named(*details)).explode(named(*details))
    sequence = np.repeat(np.arange(len(row_counts)), row_counts)
    unit: Ints | None = None
    units = 0
    if UNIT in rows.columns:
        rows, repeated = _with_single_cases(rows)
        sequence = sequence[repeated]
        unit, units = _unit_numbers(rows[UNIT])
    values = pl.Series([[]] * rows.height, dtype=pl.List(pl.String))
    if VALUES in rows.columns:
        values = rows[VALUES]
    # An empty list explodes to a null.
    all_values = values.explode().drop_nulls()
    value = all_values.rank("dense").to_numpy().astype(np.int64)
    return SequenceCases(
        offsets=_range_offsets(np.bincount(sequence, minlength=len(row_counts))),
        cases=rows[CASES].to_numpy().astype(np.int64),
        unit=unit,
        value_offsets=_range_offsets(values.list.len().to_numpy()),
        value=value,
        units=units,
    )


def _with_single_cases(rows: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
    """``rows`` with a row for each case without a unit, and which row each comes from."""
    without_unit = rows[UNIT].is_null().to_numpy()
    # A unit is counted once, however many cases it has; without one, each case is a row.
    copies = np.where(without_unit, rows[CASES].to_numpy(), 1)
    repeated = np.repeat(np.arange(rows.height), copies)
    cases = pl.when(pl.col(UNIT).is_null()).then(1).otherwise(pl.col(CASES)).alias(CASES)
    return rows[repeated].with_columns(cases), repeated


def _unit_numbers(unit: pl.Series) -> tuple[Ints, int]:
    """A number for each row: of its unit or, from the number of units on, its own where it has
    none; and the number of units.
    """
    # Ranks begin at 1: -1 stands for no unit until such rows get numbers of their own.
    number = unit.rank("dense").fill_null(0).to_numpy().astype(np.int64) - 1
    units = int(number.max(initial=-1)) + 1
    own_number = units + np.arange(len(number))
    return np.where(number < 0, own_number, number), units


def _range_offsets(widths: Ints) -> Ints:
    """Where ranges of these widths begin, end to end, and where the last one ends: int64."""
    return np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)


def whole_microseconds(length: timedelta) -> int:
    """A length of time in microseconds, rounded down."""
    return length // timedelta(microseconds=1)

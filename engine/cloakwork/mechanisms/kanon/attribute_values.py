"""The values of one attribute as the exchange of values sees them: which values there are, and in
which class and activity each of them is.

Values are compared within one activity; those of an attribute of cases are compared all together.
A *cell* holds the values that one class has of one activity. Cells are disjoint. Where missing
values count, missing is one more value: the last code.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.errors import MechanismError
from cloakwork.base.facts import UNIX_EPOCH
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.naming import values_of
from cloakwork.log.eventlog import CASE_PREFIX, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.log.variants import Variants, variants_of
from cloakwork.mechanisms.kanon.closeness_params import NAME
from cloakwork.mechanisms.kanon.value_exchange import Groups
from cloakwork.noise import Noise

Classes = Literal["variants", "prefixes"]

_MICROSECOND: Final = timedelta(microseconds=1)
_LAST_YEAR: Final = 2200
"""Of released times; readers that count nanoseconds in 64 bits end in 2262."""


@dataclass(frozen=True, slots=True)
class CycleTimeGrid:
    """How cycle times become times again.

    Every case starts at ``epoch``; cycle times are rounded to multiples of ``grid``.
    """

    epoch: datetime
    grid: timedelta


@dataclass(frozen=True, slots=True)
class AttributeValues:
    """n values of one attribute.

    - ``distinct``: the different values, ascending, then null where missing values count; of cycle
      times, their grid steps (Int64).
    - ``codes``: int64, shape (n,); the index in ``distinct`` of each value.
    - ``source_rows``: int64, shape (n,); the event, or case, that has it.
    - ``cells``: int64, shape (n,); the cell that it is in.
    - ``activity``: int64, shape (n,); what it is compared within; 0 for an attribute of cases.
    - ``kept``: bool, shape (n,); whether it is not of an inserted event.
    - ``class_of_cell``: where a class is a union of cells: pairs of a cell and a class that it
      belongs to, as two int64 arrays; None where every cell is a class.
    """

    distinct: pl.Series
    codes: Ints
    source_rows: Ints
    cells: Ints
    activity: Ints
    kept: Bools
    class_of_cell: tuple[Ints, Ints] | None = None

    @property
    def by_activity(self) -> list[Ints]:
        """For each activity the indexes of its values: int64, ascending."""
        order = np.argsort(self.activity, kind="stable")
        ends = np.flatnonzero(np.diff(self.activity[order])) + 1
        return [indexes.astype(np.int64) for indexes in np.split(order, ends) if len(indexes)]

    @property
    def missing_code(self) -> int | None:
        """The code of missing values; None where they do not count."""
        if self.distinct.null_count() == 0:
            return None
        return len(self.distinct) - 1

    def restricted_to(self, chosen: Bools) -> "AttributeValues":
        """The values that are ``chosen``: bool, shape (n,)."""
        return replace(
            self,
            codes=self.codes[chosen],
            source_rows=self.source_rows[chosen],
            cells=self.cells[chosen],
            activity=self.activity[chosen],
            kept=self.kept[chosen],
        )

    def groups_to_check(self, indexes: Ints) -> tuple[Ints, tuple[Groups, ...]]:
        """The cells of the values at ``indexes``, renumbered from 0, and the groups to check.

        Where events are inserted, there are two kinds of groups: those of all events, and those of
        the kept events alone.
        """
        cells, groups = self._classes_as_groups(indexes)
        kept = self.kept[indexes]
        if kept.all():
            return cells, (groups,)
        # Kept and inserted events get cells of their own, so that the exchange can tell how many
        # values of kept events a class holds.
        split_cells = np.unique(2 * cells + kept, return_inverse=True)[1].astype(np.int64)
        if not kept.any():
            return split_cells, (groups,)
        return split_cells, (groups, groups.restricted_to(kept))

    def _classes_as_groups(self, indexes: Ints) -> tuple[Ints, Groups]:
        """The cells of some of the values, renumbered from 0, and the classes as groups of them."""
        occurring, cells = np.unique(self.cells[indexes], return_inverse=True)
        cells = cells.astype(np.int64)
        if self.class_of_cell is None:
            return cells, Groups.of_cells(cells)
        cell, class_ = self.class_of_cell
        occurs = np.isin(cell, occurring)
        renumbered = np.searchsorted(occurring, cell[occurs]).astype(np.int64)
        return cells, Groups.of_cell_groups(cells, renumbered, class_[occurs])

    def positions(self) -> Floats | None:
        """The position of each distinct value, in units of the range of the values that occur:
        float64; None where they are no numbers. A missing value has no position.

        Raises ``MechanismError`` for numbers that are not finite.
        """
        kind = self.distinct.dtype
        if not (kind.is_numeric() or kind.is_temporal()):
            return None
        present = self.distinct.alias("").drop_nulls()
        numbers = present.to_physical().cast(pl.Float64).to_numpy()
        occurring = numbers[self.codes[self.codes < len(numbers)]]
        if not len(occurring):
            return None
        if not np.isfinite(occurring).all():
            name = self.distinct.name
            raise MechanismError(
                NAME, f"'{name}' holds numbers that are not finite; no distance is defined"
            )
        # Halves, as the range itself may exceed the largest float.
        low, high = occurring.min() / 2, occurring.max() / 2
        return np.asarray((numbers / 2 - low) / ((high - low) or 1.0), np.float64)


def attribute_values_of(
    log: EventLog,
    column: str,
    classes: Classes,
    grid: CycleTimeGrid | None,
    *,
    missing_is_value: bool,
    noise: Noise,
) -> AttributeValues | None:
    """The values of ``column`` in ``log``, or with ``grid`` its cycle times; None for an empty log
    without the column.

    ``missing_is_value``: whether a missing value counts as a value; else it is left out. A missing
    cycle time is always replaced: by a random one of the same activity; by a random one of any
    activity where the activity has none; by 0 where there is none at all. Raises ``MechanismError``
    when the log lacks the column.
    """
    of_cases = column.startswith(CASE_PREFIX)
    table, owner = (log.cases, "case") if of_cases else (log.events, "event")
    source = column if grid is None else TIMESTAMP
    if source not in table.columns and table.height == 0:
        return None
    if source not in table.columns:
        raise MechanismError(NAME, f"no {owner} has '{column}'; correct the policy or the log")
    cells, activity, class_of_cell = _cells_of_rows(log, classes, of_cases=of_cases)
    if grid is None:
        rows = np.arange(table.height)
        distinct, codes = _distinct_codes(values_of(table, column))
    else:
        rows = _events_with_predecessor(log)
        distinct, codes = _distinct_codes(_cycle_time_steps(log, grid))
    distinct = distinct.alias(column)
    codes, cells, activity = codes[rows], cells[rows], activity[rows]
    if grid is not None and (codes >= 0).any():
        codes = _with_missing_drawn(codes, activity, noise)
    elif grid is not None:
        distinct = pl.Series(TIMESTAMPS, [0], dtype=pl.Int64)
        codes = np.zeros(len(rows), np.int64)
    if missing_is_value and (codes < 0).any():
        # Missing becomes the last of the distinct values.
        codes = np.where(codes < 0, len(distinct), codes)
        distinct = pl.concat([distinct, pl.Series(distinct.name, [None], dtype=distinct.dtype)])
    kept = np.ones(len(rows), np.bool_) if of_cases else log.kept[rows]
    source_rows = rows.astype(np.int64)
    found = AttributeValues(distinct, codes, source_rows, cells, activity, kept, class_of_cell)
    return found.restricted_to(codes >= 0)


def with_values(
    log: EventLog,
    column: str,
    rows: Ints,
    released: pl.Series,
    grid: CycleTimeGrid | None,
) -> EventLog:
    """``log`` with the value ``released[i]`` in row ``rows[i]`` and no value in any other row.

    ``rows``: int64; events, or cases where ``column`` is an attribute of cases. Where ``grid`` is
    given, the values are cycle times, and are added up to times.
    """
    if grid is not None:
        times = _times_from_steps(log, rows, released, grid)
        return replace(log, events=log.events.with_columns(times))
    of_cases = column.startswith(CASE_PREFIX)
    height = log.cases.height if of_cases else log.events.height
    # A null behind the last value is what all other rows gather.
    or_null = pl.concat([released, pl.Series([None], dtype=released.dtype)])
    index = np.full(height, len(released), np.int64)
    index[rows] = np.arange(len(released))
    values = or_null.gather(index).alias(column)
    if of_cases:
        return replace(log, cases=log.cases.with_columns(values))
    return replace(log, events=log.events.with_columns(values))


def _distinct_codes(values: pl.Series) -> tuple[pl.Series, Ints]:
    """The distinct values, ascending, and the index of each value among them; -1 for null."""
    distinct = values.drop_nulls().unique().sort()
    numbered = distinct.to_frame("value").with_row_index("code")
    rows = values.to_frame("value")
    joined = rows.join(numbered, on="value", how="left", maintain_order="left")
    codes = joined["code"].cast(pl.Int64).fill_null(-1)
    return distinct, codes.to_numpy().astype(np.int64)


def _with_missing_drawn(codes: Ints, activity: Ints, noise: Noise) -> Ints:
    """``codes`` where each missing one (-1) is drawn from those of the same activity, or from all
    where the activity has none.
    """
    missing = np.flatnonzero(codes < 0)
    if not len(missing):
        return codes
    known = np.flatnonzero(codes >= 0)
    known = known[np.argsort(activity[known], kind="stable")]
    first = np.searchsorted(activity[known], activity[missing], side="left")
    end = np.searchsorted(activity[known], activity[missing], side="right")
    nothing_known = first == end
    first[nothing_known] = 0
    end[nothing_known] = len(known)
    drawn = known[first + noise.uniform((end - first).astype(np.int64))]
    complete = codes.copy()
    complete[missing] = codes[drawn]
    return complete


def _cells_of_rows(
    log: EventLog, classes: Classes, *, of_cases: bool
) -> tuple[Ints, Ints, tuple[Ints, Ints] | None]:
    """The cell and the activity of the value that each row of the table may have, and the classes
    that are unions of cells (``AttributeValues.class_of_cell``).
    """
    variants = variants_of(log)
    if of_cases:
        # Values of cases move between variants. Prefixes lie inside one another: each is the union
        # of the variants that begin with it.
        class_of_cell = None
        if classes == "prefixes":
            variant = np.repeat(np.arange(len(variants)), np.diff(variants.offsets))
            class_of_cell = (variant, _prefix_codes(variants))
        return variants.of_case, np.zeros(log.cases.height, np.int64), class_of_cell
    step = np.arange(log.events.height) - np.repeat(log.offsets[:-1], np.diff(log.offsets))
    variant = variants.of_case[log.case_of]
    place = variants.offsets[variant] + step
    activity = variants.codes[place].astype(np.int64)
    if classes == "prefixes":
        return _prefix_codes(variants)[place], activity, None
    return variant * max(1, len(variants.alphabet)) + activity, activity, None


def _prefix_codes(variants: Variants) -> Ints:
    """A number for each prefix: int64, aligned with ``variants.codes``; events of variants have the
    same number if and only if the prefixes that they end are equal.

    Variants with a common prefix are neighbours in lexical order. So the longest prefix that a
    variant shares with any before it is the one that it shares with its neighbour.
    """
    sequences = [variants[variant].tolist() for variant in range(len(variants))]
    numbers = np.zeros(len(variants.codes), np.int64)
    next_number = 0
    neighbour: int | None = None
    for variant in sorted(range(len(sequences)), key=sequences.__getitem__):
        start, end = variants.offsets[variant : variant + 2]
        shared = 0
        if neighbour is not None:
            shared = _common_prefix_length(sequences[neighbour], sequences[variant])
            same = variants.offsets[neighbour]
            numbers[start : start + shared] = numbers[same : same + shared]
        new = end - start - shared
        numbers[start + shared : end] = np.arange(next_number, next_number + new)
        next_number += new
        neighbour = variant
    return numbers


def _common_prefix_length(left: list[int], right: list[int]) -> int:
    """How many first entries two sequences share."""
    shared = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        shared += 1
    return shared


def _events_with_predecessor(log: EventLog) -> Ints:
    """The events that follow another of their case: int64, ascending."""
    has_predecessor = np.ones(log.events.height, np.bool_)
    has_events = np.diff(log.offsets) > 0
    has_predecessor[log.offsets[:-1][has_events]] = False
    return np.flatnonzero(has_predecessor).astype(np.int64)


def _cycle_time_steps(log: EventLog, grid: CycleTimeGrid) -> pl.Series:
    """For each event the grid steps since the last event of its case that has a time; null where
    either has none.
    """
    times = log.events[TIMESTAMP].cast(TIME_TYPE).to_physical()
    stamps = pl.DataFrame({"case": log.case_of, "time": times})
    step = grid.grid // _MICROSECOND
    before = pl.col("time").forward_fill().shift(1).over("case")
    # Half a step more rounds to the nearest step; times out of order count as simultaneous.
    steps = ((pl.col("time") - before + step // 2) // step).clip(lower_bound=0)
    return stamps.select(steps.cast(pl.Int64).alias(TIMESTAMPS)).to_series()


def _times_from_steps(
    log: EventLog, rows: Ints, steps: pl.Series, grid: CycleTimeGrid
) -> pl.Series:
    """The times of all events: cycle times (grid steps of the events ``rows``) added up from the
    epoch. Datetime, microseconds, UTC.

    Raises ``MechanismError`` when a case would last beyond the calendar.
    """
    cycle_time = np.zeros(log.events.height, np.int64)
    cycle_time[rows] = steps.to_numpy()
    # As floats, which do not overflow.
    durations = np.bincount(log.case_of, cycle_time.astype(np.float64), log.cases.height)
    calendar = datetime(_LAST_YEAR, 1, 1, tzinfo=grid.epoch.tzinfo) - grid.epoch
    if durations.max(initial=0.0) > calendar / grid.grid:
        raise MechanismError(
            NAME,
            f"cycle times add up to times beyond {_LAST_YEAR}; declare an earlier assume.epoch",
        )
    # The running total over all cases, less what it was at the start of each.
    total = np.cumsum(cycle_time)
    lengths = np.diff(log.offsets)
    has_events = lengths > 0
    at_start = total[log.offsets[:-1][has_events]]
    since_start = total - np.repeat(at_start, lengths[has_events])
    start = (grid.epoch - UNIX_EPOCH) // _MICROSECOND
    return pl.Series(TIMESTAMP, since_start * (grid.grid // _MICROSECOND) + start).cast(TIME_TYPE)

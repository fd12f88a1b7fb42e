"""The values of one attribute as the exchange of values sees them: which values there are, and in
which class and activity each of them is; how they are read from a log, and how they reach it again.

Values are compared within one activity; those of an attribute of cases are compared all together.
A *cell* holds the values that one class has of one activity. Cells are disjoint. Where missing
values count, missing is one more value: the last code.

What moves values between cases cannot take them batch by batch. The column is summarised, together
with the activities of its cases; all its values are decided on at once; and every batch looks up
what was decided for its cases.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

import numpy as np
import polars as pl
from pydantic import AwareDatetime, Field

from cloakwork.base.arrays import (
    Bools,
    Floats,
    Ints,
    distinct,
    offsets_of,
    owners_of,
    rank_among_equals,
)
from cloakwork.base.errors import MechanismError
from cloakwork.base.facts import UNIX_EPOCH
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.naming import (
    ACTIVITY,
    CASE_ID,
    CASE_PREFIX,
    TIME_TYPE,
    TIMESTAMP,
    values_of,
)
from cloakwork.base.quantities import Duration, Frozen
from cloakwork.log.eventlog import EventLog, as_lists, with_attribute
from cloakwork.log.variants import Variants, variants_of
from cloakwork.mechanisms.aggregates import INDEX, VARIANT, places_of
from cloakwork.mechanisms.kanon.value_exchange import Groups
from cloakwork.noise import Noise

NAME: Final = "kanon/closeness"
VALUE: Final = "value"
INSERTED: Final = "inserted"
_MICROSECOND: Final = timedelta(microseconds=1)
_LAST_YEAR: Final = 2200
"""Of released times; readers that count nanoseconds in 64 bits end in 2262."""


class ClosenessParams(Frozen):
    """What the guarantee asks for, and how.

    ``column``: the attribute (``timestamps``: cycle times); ``classes``: whole variants, or their
    prefixes; ``aim`` and ``bound``: within ``bound`` = t by ``emd`` (``scale``: how far numbers
    lie apart) or ``stochastic``, or at least ``bound`` = l values, ``distinct`` or by ``entropy``.
    ``infeasible``: what happens where that cannot be had: for l the values of such classes are left
    out, for t those of the whole activity. ``epoch``, ``grid``: for cycle times, when every case
    starts, and what they are rounded to.
    """

    column: str
    classes: Literal["variants", "prefixes"]
    aim: Literal["emd", "stochastic", "distinct", "entropy"]
    bound: Annotated[float, Field(gt=0)]
    scale: Literal["rank", "range"] = "rank"
    infeasible: Annotated[
        Literal["refuse", "suppress"],
        Field(
            description="refuse the log, or leave out values: of such classes for l, "
            "of such activities for t"
        ),
    ] = "refuse"
    epoch: AwareDatetime = UNIX_EPOCH
    grid: Duration

    @property
    def is_of_cycle_times(self) -> bool:
        """Whether the values are the times between neighbouring events."""
        return self.column == TIMESTAMPS

    @property
    def is_of_cases(self) -> bool:
        """Whether cases have the attribute, not events."""
        return self.column.startswith(CASE_PREFIX)

    @property
    def source_column(self) -> str:
        """The column of the log that holds the values."""
        return TIMESTAMP if self.is_of_cycle_times else self.column

    @property
    def column_in_words(self) -> str:
        """What sentences call the attribute."""
        return "cycle times" if self.is_of_cycle_times else f"'{self.column}'"


@frozen
class ColumnOfCases:
    """The values of one attribute, case by case.

    A summary has one row a case: ``index`` (Int64, where it stands in the whole log), ``variant``
    (List[String], its activities); ``value``, where the log has the attribute (of cases: its value;
    of events: the list of their values); ``inserted`` (List[Boolean]), where events are marked so.
    Merged, it is sorted by ``index``.
    """

    attribute: str

    def of(self, batch: EventLog) -> pl.DataFrame:
        """The column in one batch of whole cases."""
        columns = {
            INDEX: pl.Series(batch.index_of_case, dtype=pl.Int64),
            VARIANT: as_lists(batch.activities, batch.offsets),
        }
        table = batch.table_of(self.attribute)
        if self.attribute in table.columns:
            values = values_of(table, self.attribute)
            columns[VALUE] = values if self._is_of_cases else as_lists(values, batch.offsets)
        if batch.inserted is not None:
            columns[INSERTED] = as_lists(pl.Series(batch.inserted), batch.offsets)
        return pl.DataFrame(columns)

    @property
    def _is_of_cases(self) -> bool:
        return self.attribute.startswith(CASE_PREFIX)

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """The rows of all batches."""
        return summaries.sort(INDEX)

    def as_log(self, summary: pl.DataFrame) -> EventLog:
        """A log of the summarised cases that has nothing but their activities and the attribute."""
        lengths = summary[VARIANT].list.len().to_numpy()
        events = _members(summary[VARIANT]).alias(ACTIVITY).to_frame()
        cases = summary[INDEX].cast(pl.String).alias(CASE_ID).to_frame()
        if VALUE in summary.columns and self._is_of_cases:
            cases = cases.with_columns(summary[VALUE].alias(self.attribute))
        elif VALUE in summary.columns:
            events = events.with_columns(_members(summary[VALUE]).alias(self.attribute))
        inserted = None
        if INSERTED in summary.columns:
            inserted = _members(summary[INSERTED]).to_numpy()
        return EventLog(
            events=events,
            cases=cases,
            offsets=offsets_of(lengths),
            inserted=inserted,
            case_index=summary[INDEX].to_numpy().astype(np.int64),
        )

    def decided(self, log: EventLog, values: pl.Series) -> pl.DataFrame:
        """What ``with_decided_values`` takes: the ``index`` and the new ``value`` of each case of
        ``log``, from those of its rows.
        """
        of_cases = values if self._is_of_cases else as_lists(values, log.offsets)
        return pl.DataFrame({INDEX: pl.Series(log.index_of_case, dtype=pl.Int64), VALUE: of_cases})

    def with_decided_values(self, log: EventLog, decided: pl.DataFrame) -> EventLog:
        """``log``, or a batch of it, with the values of ``decided``.

        Raises ``MechanismError`` for a case that was not decided on.
        """
        row = places_of(decided[INDEX].to_numpy(), log.index_of_case)
        if row is None:
            raise MechanismError(self.attribute, "the log holds a case that was not decided on")
        values = decided[VALUE].gather(row)
        of_rows = values if self._is_of_cases else _members(values)
        return with_attribute(log, self.attribute, of_rows)


def _members(lists: pl.Series) -> pl.Series:
    """The members of all lists, in order; an empty list has none."""
    return lists.explode(empty_as_null=False, keep_nulls=False)


@frozen
class AttributeValues:
    """n values of one attribute.

    - ``distinct``: the different values, ascending, then null where missing values count; of cycle
      times, their grid steps (Int64).
    - ``codes``: int64, shape (n,); the index in ``distinct`` of each value.
    - ``source_rows``: int64, shape (n,); the event, or case, that has it.
    - ``cells``: int64, shape (n,); the cell that it is in.
    - ``activity``: int64, shape (n,); what it is compared within; 0 for an attribute of cases.
    - ``case``: int64, shape (n,); the case that has it.
    - ``kept``: bool, shape (n,); whether it is not of an inserted event.
    - ``class_of_cell``: where a class is a union of cells: pairs of a cell and a class that it
      belongs to, as two int64 arrays; None where every cell is a class.
    """

    distinct: pl.Series
    codes: Ints
    source_rows: Ints
    cells: Ints
    activity: Ints
    case: Ints
    kept: Bools
    class_of_cell: tuple[Ints, Ints] | None = None

    @property
    def by_activity(self) -> list[Ints]:
        """For each activity the indexes of its values: int64, ascending."""
        order = np.argsort(self.activity, kind="stable")
        ends = np.flatnonzero(np.diff(self.activity[order])) + 1
        return [indexes.astype(np.int64) for indexes in np.split(order, ends) if len(indexes)]

    @property
    def tracks(self) -> Ints:
        """A number for each case and for how many values of the activity it has before: int64,
        shape (n,), dense from 0. No two values of one activity have the same.
        """
        before = rank_among_equals(self.case * (self.activity.max(initial=0) + 1) + self.activity)
        tracks = before * (self.case.max(initial=0) + 1) + self.case
        return distinct(tracks)[1]

    def restricted_to(self, chosen: Bools) -> "AttributeValues":
        """The values that are ``chosen``: bool, shape (n,)."""
        return replace(
            self,
            codes=self.codes[chosen],
            source_rows=self.source_rows[chosen],
            cells=self.cells[chosen],
            activity=self.activity[chosen],
            case=self.case[chosen],
            kept=self.kept[chosen],
        )

    def groups_to_check(self, indexes: Ints) -> tuple[Ints, tuple[Groups, ...]]:
        """The cells of the values at ``indexes``, renumbered from 0, and the groups to check.

        Where some of the values are of inserted events, the classes are checked with these and
        without them; kept and inserted ones then have cells of their own.
        """
        occurring, cells = np.unique(self.cells[indexes], return_inverse=True)
        cells = cells.astype(np.int64)
        if self.class_of_cell is None:
            groups = Groups.of_cells(cells)
        else:
            cell, class_ = self.class_of_cell
            occurs = np.isin(cell, occurring)
            renumbered = np.searchsorted(occurring, cell[occurs]).astype(np.int64)
            groups = Groups.of_cell_groups(cells, renumbered, class_[occurs])
        kept = self.kept[indexes]
        if kept.all():
            return cells, (groups,)
        # Kept and inserted events get cells of their own, so that the exchange can tell how many
        # values of kept events a class holds.
        split_cells = distinct(2 * cells + kept)[1]
        if not kept.any():
            return split_cells, (groups,)
        return split_cells, (groups, groups.restricted_to(kept))

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
        low = occurring.min() / 2
        high = occurring.max() / 2
        return np.asarray((numbers / 2 - low) / ((high - low) or 1.0), np.float64)


def attribute_values_of(
    log: EventLog,
    params: ClosenessParams,
    noise: Noise,
) -> AttributeValues | None:
    """The values of ``params.column`` in ``log``; None for an empty log without the column.

    For t a missing value counts as a value; for l it is left out. A missing cycle time is always
    replaced: by a random one of the same activity; by a random one of any activity where the
    activity has none; by 0 where there is none at all. Raises ``MechanismError`` when the log lacks
    the column.
    """
    table, owner = (log.cases, "case") if params.is_of_cases else (log.events, "event")
    if params.source_column not in table.columns:
        if table.height == 0:
            return None
        raise MechanismError(
            NAME, f"no {owner} has '{params.column}'; correct the policy or the log"
        )
    rows = np.arange(table.height)
    if params.is_of_cycle_times:
        # An event that follows another of its case.
        rows = np.flatnonzero(log.position_of_event > 0)
        # Grid steps since the last event of its case that has a time; null where either has none.
        times = log.microseconds
        step = params.grid // _MICROSECOND
        before = pl.col("time").forward_fill().shift(1).over("case")
        # Half a step more rounds to the nearest step; times out of order count as simultaneous.
        steps = ((pl.col("time") - before + step // 2) // step).clip(lower_bound=0)
        stamps = pl.DataFrame({"case": log.case_of, "time": times})
        values = stamps.select(steps.cast(pl.Int64)).to_series()
    else:
        values = values_of(table, params.column)
    # The distinct values, ascending, and the index of each value among them; -1 for null.
    distinct = values.drop_nulls().unique().sort().alias(params.column)
    numbered = distinct.to_frame("value").with_row_index("code")
    joined = values.to_frame("value").join(
        numbered,
        on="value",
        how="left",
        maintain_order="left",
    )
    codes = joined["code"].cast(pl.Int64).fill_null(-1).to_numpy()[rows]
    cells, activity, class_of_cell = _cells_of_rows(log, params)
    cells = cells[rows]
    activity = activity[rows]
    if params.is_of_cycle_times and (codes >= 0).any():
        codes = _with_missing_drawn(codes, activity, noise)
    elif params.is_of_cycle_times:
        distinct = pl.Series(TIMESTAMPS, [0], dtype=pl.Int64)
        codes = np.zeros(len(rows), np.int64)
    if params.aim in ("emd", "stochastic") and (codes < 0).any():
        # Missing becomes the last of the distinct values.
        codes = np.where(codes < 0, len(distinct), codes)
        missing = pl.Series(distinct.name, [None], dtype=distinct.dtype)
        distinct = pl.concat([distinct, missing])
    kept = np.ones(len(rows), np.bool_) if params.is_of_cases else log.kept[rows]
    found = AttributeValues(
        distinct,
        codes,
        rows,
        cells,
        activity,
        rows if params.is_of_cases else log.case_of[rows],
        kept,
        class_of_cell,
    )
    return found.restricted_to(codes >= 0)


def with_values(
    log: EventLog, params: ClosenessParams, rows: Ints, released: pl.Series
) -> pl.Series:
    """The source column of ``log`` with the value ``released[i]`` in row ``rows[i]`` and no value
    in any other row.

    ``rows``: int64; events, or cases where the attribute is one of cases. Cycle times are added up
    to times. Raises ``MechanismError`` when a case would last beyond the calendar.
    """
    if params.is_of_cycle_times:
        return _times_from_steps(log, rows, released, params)
    height = log.table_of(params.column).height
    # A null behind the last value is what all other rows gather.
    or_null = pl.concat([released, pl.Series([None], dtype=released.dtype)])
    index = np.full(height, len(released), np.int64)
    index[rows] = np.arange(len(released))
    return or_null.gather(index)


def _with_missing_drawn(codes: Ints, activity: Ints, noise: Noise) -> Ints:
    """``codes``, each missing one (-1) drawn from its activity, or from all where that has none."""
    missing = np.flatnonzero(codes < 0)
    if not len(missing):
        return codes
    known = np.flatnonzero(codes >= 0)
    known = known[np.argsort(activity[known], kind="stable")]
    first = np.searchsorted(activity[known], activity[missing])
    end = np.searchsorted(activity[known], activity[missing], side="right")
    nothing_known = first == end
    first[nothing_known] = 0
    end[nothing_known] = len(known)
    drawn = known[first + noise.uniform((end - first).astype(np.int64))]
    complete = codes.copy()
    complete[missing] = codes[drawn]
    return complete


def _cells_of_rows(
    log: EventLog, params: ClosenessParams
) -> tuple[Ints, Ints, tuple[Ints, Ints] | None]:
    """The cell and the activity of the value that each row of the table may have, and the classes
    that are unions of cells (``AttributeValues.class_of_cell``).
    """
    variants = variants_of(log)
    by_prefix = params.classes == "prefixes"
    if params.is_of_cases:
        # Values of cases move between variants. Prefixes lie inside one another: each is the union
        # of the variants that begin with it.
        class_of_cell = None
        if by_prefix:
            variant = owners_of(np.diff(variants.offsets))
            class_of_cell = (variant, _prefix_codes(variants))
        return variants.of_case, np.zeros(log.cases.height, np.int64), class_of_cell
    variant = variants.of_case[log.case_of]
    place = variants.offsets[variant] + log.position_of_event
    activity = variants.codes[place].astype(np.int64)
    if by_prefix:
        return _prefix_codes(variants)[place], activity, None
    return variant * max(1, len(variants.alphabet)) + activity, activity, None


def _prefix_codes(variants: Variants) -> Ints:
    """A number for each prefix: int64, aligned with ``variants.codes``; events of variants have the
    same number if and only if the prefixes that they end are equal. Ascending in lexical order.
    """
    sequences = [variants[variant].tolist() for variant in range(len(variants))]
    numbers = np.zeros(len(variants.codes), np.int64)
    # A prefix is another prefix and one activity more.
    known: dict[tuple[int, int], int] = {}
    for variant in sorted(range(len(sequences)), key=sequences.__getitem__):
        prefix = -1
        for place, code in enumerate(sequences[variant], variants.offsets[variant]):
            prefix = known.setdefault((prefix, code), len(known))
            numbers[place] = prefix
    return numbers


def _times_from_steps(
    log: EventLog,
    rows: Ints,
    steps: pl.Series,
    params: ClosenessParams,
) -> pl.Series:
    """The times of all events: cycle times (grid steps of the events ``rows``) added up from the
    epoch. Datetime, microseconds, UTC.
    """
    cycle_time = np.zeros(log.events.height, np.int64)
    cycle_time[rows] = steps.to_numpy()
    # As floats, which do not overflow.
    durations = np.bincount(log.case_of, cycle_time.astype(np.float64), log.cases.height)
    calendar = datetime(_LAST_YEAR, 1, 1, tzinfo=params.epoch.tzinfo) - params.epoch
    if durations.max(initial=0.0) > calendar / params.grid:
        raise MechanismError(
            NAME,
            f"cycle times add up to times beyond {_LAST_YEAR}; declare an earlier assume.epoch",
        )
    # The running total over all cases, less what it was at the start of each.
    total = np.cumsum(cycle_time)
    first_event = np.arange(len(total)) - log.position_of_event
    since_start = total - total[first_event]
    start = (params.epoch - UNIX_EPOCH) // _MICROSECOND
    return pl.Series(TIMESTAMP, since_start * (params.grid // _MICROSECOND) + start).cast(TIME_TYPE)

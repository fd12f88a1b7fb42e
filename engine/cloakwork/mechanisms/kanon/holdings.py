"""The values of one attribute as the exchange sees them: which there are, and in which class and
activity each stands.

A *topic* is what values are compared within: an activity, or everything for an attribute of cases.
A *cell* is what one class holds of one topic. Cells never overlap. A value that is missing may
count as one: it is then the last code.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.errors import MechanismError
from cloakwork.facts import UNIX_EPOCH
from cloakwork.lineage import TIMESTAMPS
from cloakwork.log.eventlog import CASE_PREFIX, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.log.naming import values_of
from cloakwork.log.variants import Variants, variants_of
from cloakwork.mechanisms.kanon.exchange import Groups
from cloakwork.noise import Noise

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NAME: Final = "kanon/closeness"
_MICROSECOND: Final = timedelta(microseconds=1)
_LAST_YEAR: Final = 2200
"""Of released times; readers that count nanoseconds in 64 bits end in 2262."""


@dataclass(frozen=True, slots=True)
class Times:
    """How cycle times become times again: every case starts at ``epoch``; gaps are rounded to
    multiples of ``grid``.
    """

    epoch: datetime
    grid: timedelta


@dataclass(frozen=True, slots=True)
class Holdings:
    """n values of one attribute.

    - ``distinct``: the different values, ascending, then null where missing values count; of cycle
      times, their grid steps (Int64).
    - ``codes``: int64, shape (n,); which of them each is. ``rows``: its event, or case.
    - ``cells``, ``topic``: int64, shape (n,); where each stands. ``kept``: bool, shape (n,); not of
      an inserted event.
    - ``above``: where classes are not the cells, but groups of them: cells, and the classes that
      they belong to; int64, one entry for each pair.
    """

    distinct: pl.Series
    codes: Ints
    rows: Ints
    cells: Ints
    topic: Ints
    kept: NDArray[np.bool_]
    above: tuple[Ints, Ints] | None = None

    @property
    def topics(self) -> list[Ints]:
        """For each topic the indexes of its values: int64, ascending."""
        order = np.argsort(self.topic, kind="stable")
        ends = np.flatnonzero(np.diff(self.topic[order])) + 1
        return [part.astype(np.int64) for part in np.split(order, ends) if len(part)]

    def only(self, kept: NDArray[np.bool_]) -> "Holdings":
        """The values where ``kept``."""
        return replace(
            self,
            codes=self.codes[kept],
            rows=self.rows[kept],
            cells=self.cells[kept],
            topic=self.topic[kept],
            kept=self.kept[kept],
        )

    @property
    def missing(self) -> int | None:
        """The code of missing values, where they count."""
        return len(self.distinct) - 1 if self.distinct.null_count() else None

    def judged(self, indexes: Ints) -> tuple[Ints, tuple[Groups, ...]]:
        """The cells of some of the values, renumbered from 0, and the groups that are judged: where
        events are inserted, those of all events and those of the kept ones alone, which have cells
        of their own.
        """
        cells, groups = self._groups(indexes)
        kept = self.kept[indexes]
        if kept.all():
            return cells, (groups,)
        apart = np.unique(2 * cells + kept, return_inverse=True)[1].astype(np.int64)
        return apart, (groups, groups.among(kept)) if kept.any() else (groups,)

    def _groups(self, indexes: Ints) -> tuple[Ints, Groups]:
        known, cells = np.unique(self.cells[indexes], return_inverse=True)
        cells = cells.astype(np.int64)
        if self.above is None:
            return cells, Groups.of_cells(cells)
        among = np.isin(self.above[0], known)
        cell = np.searchsorted(known, self.above[0][among]).astype(np.int64)
        return cells, Groups.above(cells, cell, self.above[1][among])

    def places(self) -> Floats | None:
        """Where each distinct value lies, in units of the range of the values held: float64; None
        where they are no numbers. A missing value lies nowhere: there is no place for its code.

        Raises ``MechanismError`` for numbers that are not finite.
        """
        if not (self.distinct.dtype.is_numeric() or self.distinct.dtype.is_temporal()) or not len(
            self.codes
        ):
            return None
        numbers = self.distinct.alias("").drop_nulls().to_physical().cast(pl.Float64).to_numpy()
        held = numbers[self.codes[self.codes < len(numbers)]]
        if not len(held):
            return None
        if not np.isfinite(held).all():
            raise MechanismError(
                NAME,
                f"'{self.distinct.name}' holds numbers that are not finite; no distance is defined",
            )
        low, high = held.min() / 2, held.max() / 2
        return np.asarray((numbers / 2 - low) / ((high - low) or 1.0), np.float64)


def holdings_of(
    log: EventLog,
    column: str,
    classes: Literal["variants", "prefixes"],
    times: Times | None,
    *,
    missing: bool,
    noise: Noise,
) -> Holdings | None:
    """The values of ``column`` in ``log``; None where nobody can have any, the log being empty.

    ``missing``: whether a missing value counts as one, or is none. Cycle times that are missing are
    filled with one of the topic's at random, from all others where the topic has none, and with 0
    where there are none at all. Raises ``MechanismError`` when the log lacks the column.
    """
    of_cases = column.startswith(CASE_PREFIX)
    table = log.cases if of_cases else log.events
    if (TIMESTAMP if times else column) not in table.columns:
        if table.height == 0:
            return None
        raise MechanismError(
            NAME, f"no {'case' if of_cases else 'event'} has '{column}'; mend the policy or the log"
        )
    values = values_of(table, column) if times is None else _gaps(log, times)
    cells, topic, above = _cells(log, classes, of_cases=of_cases)
    distinct, codes = _coded(values)
    distinct = distinct.alias(column)
    rows = np.arange(table.height) if times is None else _followers(log)
    codes, cells, topic = codes[rows], cells[rows], topic[rows]
    if times is not None and not (codes >= 0).any():
        distinct, codes = pl.Series(TIMESTAMPS, [0], dtype=pl.Int64), np.zeros(len(rows), np.int64)
    if times is not None:
        codes = _filled(codes, topic, noise)
    kept = np.ones(len(rows), np.bool_) if of_cases else log.kept[rows]
    if missing and (codes < 0).any():
        codes = np.where(codes < 0, len(distinct), codes)
        distinct = pl.concat([distinct, pl.Series(distinct.name, [None], dtype=distinct.dtype)])
    held = Holdings(distinct, codes, rows.astype(np.int64), cells, topic, kept, above)
    return held.only(codes >= 0)


def with_values(
    log: EventLog, column: str, held: Holdings, values: pl.Series, times: Times | None
) -> EventLog:
    """``log`` with ``values`` in the rows of ``held`` and none in any other; cycle times are added
    up to times.
    """
    if times is not None:
        return replace(
            log, events=log.events.with_columns(_added_up(log, held.rows, values, times))
        )
    table = log.cases if column.startswith(CASE_PREFIX) else log.events
    place = np.full(table.height, len(values), np.int64)
    place[held.rows] = np.arange(len(values))
    laid_out = (
        pl.concat([values, pl.Series([None], dtype=values.dtype)]).gather(place).alias(column)
    )
    if column.startswith(CASE_PREFIX):
        return replace(log, cases=log.cases.with_columns(laid_out))
    return replace(log, events=log.events.with_columns(laid_out))


def _coded(values: pl.Series) -> tuple[pl.Series, Ints]:
    """The distinct values, ascending, and which each is; -1 for null."""
    distinct = values.drop_nulls().unique().sort()
    found = values.to_frame("value").join(
        distinct.to_frame("value").with_row_index("code"),
        on="value",
        how="left",
        maintain_order="left",
    )
    return distinct, found["code"].cast(pl.Int64).fill_null(-1).to_numpy().astype(np.int64)


def _filled(codes: Ints, topic: Ints, noise: Noise) -> Ints:
    """Codes where those that are missing (-1) are drawn from those of the same topic, else from
    all.
    """
    missing, known = np.flatnonzero(codes < 0), np.flatnonzero(codes >= 0)
    known = known[np.argsort(topic[known], kind="stable")]
    first, end = (
        np.searchsorted(topic[known], topic[missing], side=side) for side in ("left", "right")
    )
    empty = first == end
    first, end = np.where(empty, 0, first), np.where(empty, len(known), end)
    filled = codes.copy()
    if len(missing):
        filled[missing] = codes[known[first + noise.uniform((end - first).astype(np.int64))]]
    return filled


def _cells(
    log: EventLog, classes: Literal["variants", "prefixes"], *, of_cases: bool
) -> tuple[Ints, Ints, tuple[Ints, Ints] | None]:
    """For each row of the table the cell and the topic of the value that it may have; and the
    classes above cells.
    """
    variants = variants_of(log)
    if of_cases:
        owner = np.repeat(np.arange(len(variants)), np.diff(variants.offsets))
        above = (owner, _beginnings(variants)) if classes == "prefixes" else None
        return variants.of_case, np.zeros(log.cases.height, np.int64), above
    step = np.arange(log.events.height) - np.repeat(log.offsets[:-1], np.diff(log.offsets))
    place = variants.offsets[variants.of_case[log.case_of]] + step
    activity = variants.codes[place].astype(np.int64)
    if classes == "prefixes":
        return _beginnings(variants)[place], activity, None
    return variants.of_case[log.case_of] * max(1, len(variants.alphabet)) + activity, activity, None


def _beginnings(variants: Variants) -> Ints:
    """A number for each event of each variant, shared by those that end the same beginning: aligned
    with ``codes``.

    Variants that begin alike are neighbours in lexical order; each shares with all before it just
    what it shares with its neighbour.
    """
    courses = [variants[variant].tolist() for variant in range(len(variants))]
    order = sorted(range(len(courses)), key=courses.__getitem__)
    numbers, begun = np.zeros(len(variants.codes), np.int64), 0
    for before, variant in pairwise([-1, *order]):
        course, start = courses[variant], variants.offsets[variant]
        shared = 0 if before < 0 else _common(courses[before], course)
        if shared:
            same = variants.offsets[before]
            numbers[start : start + shared] = numbers[same : same + shared]
        new = len(course) - shared
        numbers[start + shared : start + len(course)] = np.arange(begun, begun + new)
        begun += new
    return numbers


def _common(one: list[int], other: list[int]) -> int:
    """How many first entries two courses share."""
    return next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def _followers(log: EventLog) -> Ints:
    """The events that follow another of their case."""
    follows = np.ones(log.events.height, np.bool_)
    follows[log.offsets[:-1][np.diff(log.offsets) > 0]] = False
    return np.flatnonzero(follows).astype(np.int64)


def _gaps(log: EventLog, times: Times) -> pl.Series:
    """For each event the grid steps since the last event of its case that has a time; null where
    either has none.
    """
    stamps = pl.DataFrame(
        {"case": log.case_of, "time": log.events[TIMESTAMP].cast(TIME_TYPE).to_physical()}
    )
    step = times.grid // _MICROSECOND
    before = pl.col("time").forward_fill().shift(1).over("case")
    gap = ((pl.col("time") - before + step // 2) // step).clip(lower_bound=0)
    return stamps.select(gap.cast(pl.Int64).alias(TIMESTAMPS)).to_series()


def _added_up(log: EventLog, rows: Ints, steps: pl.Series, times: Times) -> pl.Series:
    """The times of all events, gaps added up from the epoch: Datetime, microseconds, UTC.

    Raises ``MechanismError`` when a case would last beyond the calendar.
    """
    gap = np.zeros(log.events.height, np.int64)
    gap[rows] = steps.to_numpy()
    longest = np.bincount(log.case_of, gap.astype(np.float64), minlength=log.cases.height).max(
        initial=0.0
    )
    calendar = datetime(_LAST_YEAR, 1, 1, tzinfo=times.epoch.tzinfo) - times.epoch
    if longest > calendar / times.grid:
        raise MechanismError(
            NAME,
            f"cycle times add up to times beyond {_LAST_YEAR}; declare an earlier assume.epoch",
        )
    lengths = np.diff(log.offsets)
    total = np.cumsum(gap)
    since = total - np.repeat(total[log.offsets[:-1][lengths > 0]], lengths[lengths > 0])
    start = (times.epoch - UNIX_EPOCH) // _MICROSECOND
    return pl.Series(TIMESTAMP, since * (times.grid // _MICROSECOND) + start).cast(TIME_TYPE)

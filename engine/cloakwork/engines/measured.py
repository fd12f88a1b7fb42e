"""What a kernel answers from, of rows of a log; and the columns that a mechanism made of answers,
as rows again.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np
import polars as pl
from pydantic import JsonValue

from cloakwork.base.arrays import Ints, offsets_of, ranges_of
from cloakwork.base.facts import RangeType
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.base.naming import CASE_PREFIX, TIME_TYPE, TIMESTAMP, nulls, without
from cloakwork.engines.batched import BatchedLog
from cloakwork.engines.batches import collected, in_order
from cloakwork.kernel import Measured, MeasuredBatches, Owners
from cloakwork.kernel.cases import Cases, Column, Columns
from cloakwork.log.eventlog import EventLog, LogHandle, joined_batches, places_among, with_attribute
from cloakwork.mechanisms.aggregates import (
    CASES,
    CASES_OF_UNIT,
    UNIT,
    VARIANT,
    CaseRows,
    case_texts,
    granted_values,
    places_of,
)
from cloakwork.mechanisms.steps import ColumnValues, Enrichment, Listed, Numbers, Times
from cloakwork.noise import Noise, reproducible

T = TypeVar("T")


def measured_log(log: LogHandle, rows: CaseRows, noise: Noise) -> Measured | MeasuredBatches:
    """What a kernel answers from, each case by itself: batch by batch, where the log lies in
    several.
    """
    # One draw for the order, in memory and in batches: the noise that follows is the same.
    order = int(noise.uniform(np.array([1 << 62]))[0])
    if isinstance(log, EventLog):
        return measured_cases(log, rows, reproducible(order))

    def measured(place: int, batch: EventLog) -> Measured:
        return measured_cases(batch, rows, reproducible(order + place))

    def results(task: Callable[[Measured], T]) -> Iterator[T]:
        return log.results(lambda *each: task(measured(*each)))

    if isinstance(log, BatchedLog):
        results = log.results_of(measured)

    def whole() -> Measured:
        return measured_cases(collected(log), rows, reproducible(order))

    return MeasuredBatches(frozenset(rows.columns), results, whole)


def measured_cases(log: EventLog, rows: CaseRows, noise: Noise) -> Measured:
    """What a kernel answers from, of the cases of one batch, in random order."""
    order = noise.permutation(log.cases.height)
    columns = _granted(log, rows.columns)
    owners = None
    if rows.unit is not None:
        listed = pl.DataFrame({UNIT: case_texts(log, rows.unit)[order], CASES: 1})
        owners = _owners(listed.with_row_index("row"))
    # Codes are moved faster than texts.
    cases = replace(coded_cases(log.activities, log.offsets), columns=columns).take(order)
    return Measured(cases, np.ones(len(cases), np.int64), owners)


def measured_of(summary: pl.DataFrame, noise: Noise) -> Measured:
    """What a kernel answers from, of a variant histogram (``VariantCounts``); where it has a column
    ``unit``, units are granted.

    The distinct cases come in random order, drawn from ``noise``.
    """
    # Rows of one variant may differ by unit.
    by_variant = summary.group_by(VARIANT, maintain_order=True).agg(pl.col(CASES).sum())
    order = noise.permutation(by_variant.height)
    shuffled = by_variant[order]
    counts = shuffled[CASES].to_numpy().astype(np.int64)
    owners = None
    if UNIT in summary.columns:
        row_of = shuffled.select(VARIANT).with_row_index("row")
        found = summary.join(row_of, on=VARIANT, how="left", maintain_order="left")
        listed = found.select("row", UNIT, pl.col(CASES_OF_UNIT).alias(CASES))
        owners = _owners(listed.explode(UNIT, CASES))
    return Measured(_cases_of(shuffled[VARIANT]), counts, owners)


_PART: Final = "part"
_EVENTS: Final = "events"
_FOLLOWERS: Final = "followers"


@frozen
class ReleasedLog:
    """Cases that were made of noisy answers, in parts by their index, ``size`` of these a part.

    ``columns``: what of them is granted. ``labels``: their activities, ascending. ``parts``: the
    parts that have cases, ascending by how many of their events follow another, and how many there
    are; as columns ``part`` and ``cases``.
    """

    log: LogHandle
    columns: tuple[str, ...]
    size: int
    labels: tuple[str, ...]
    parts: pl.DataFrame

    @classmethod
    def of(cls, log: LogHandle, columns: Iterable[str], size: int) -> "ReleasedLog":
        """In one pass."""

        def seen(_: int, batch: EventLog) -> tuple[list[str], pl.DataFrame]:
            events = np.diff(batch.offsets)
            columns = {
                _PART: batch.index_of_case // size,
                CASES: np.ones(len(events), np.int64),
                _EVENTS: events,
                _FOLLOWERS: np.maximum(events - 1, 0),
            }
            table = pl.DataFrame(columns).group_by(_PART).sum()
            return batch.activities.unique().cast(pl.String).to_list(), table

        found = list(log.results(seen))
        parts = pl.concat([table for _, table in found]).group_by(_PART).sum()
        granted = tuple(sorted(name for name in columns if name != CONTROL_FLOW))
        labels = tuple(sorted(set[str]().union(*(labels for labels, _ in found))))
        return cls(log, granted, size, labels, parts.sort(_FOLLOWERS, _EVENTS, _PART))

    def fullest(self) -> EventLog:
        """The part that tells most of all cases, by which questions are asked."""
        if self.parts.height < 2:
            return collected(self.log)
        # Tasks go to other processes, and the log does not.
        size, place = self.size, self.parts[_PART][-1]
        of_part = self.log.results(lambda _, batch: _cases_in(batch, size, place))
        return in_order(joined_batches([batch for batch in of_part if batch.cases.height]))

    def cases_of(self, part: EventLog) -> Cases:
        """What is granted of a part."""
        columns = _granted(part, self.columns)
        cases = coded_cases(part.activities, part.offsets, self.labels)
        worth = int(self.parts[CASES].sum()) / max(len(cases), 1)
        return replace(cases, columns=columns, worth=worth)


def _cases_in(batch: EventLog, size: int, place: int) -> EventLog:
    part = np.flatnonzero(batch.index_of_case // size == place)
    # A log in memory does not say where its cases stand, and its part has to.
    return replace(batch, case_index=batch.index_of_case).keep_cases(part)


def released_cases(log: LogHandle, columns: Iterable[str]) -> Cases:
    """Cases that were made of noisy answers, with those of ``columns`` that they have."""
    made = ReleasedLog.of(log, columns, sys.maxsize)
    return made.cases_of(made.fullest())


def _granted(log: EventLog, names: Iterable[str]) -> Columns:
    return Columns((name, _column_of(granted_values(log, name))) for name in names)


def _column_of(values: pl.Series) -> Column:
    """Values of cases, or of events: texts (String), numbers (Float64) or times (Int64)."""
    if values.dtype.is_integer():
        return Column.of_times(_ints(values.fill_null(0)), values.is_null().to_numpy())
    texts = values if values.dtype == pl.String else pl.Series([], dtype=pl.String)
    alphabet = texts.drop_nulls().unique().sort()
    codes = np.full(len(values), -1)
    if len(alphabet):
        known = texts.cast(pl.Enum(alphabet)).to_physical().cast(pl.Int64)
        codes = known.fill_null(-1).to_numpy()
        values = alphabet.cast(pl.Float64, strict=False).gather(known)
    numbers = values.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    is_missing = ~np.isfinite(numbers)
    return Column(np.where(is_missing, 0.0, numbers), is_missing, codes, tuple(alphabet))


def _cases_of(variants: pl.Series) -> Cases:
    """Lists of labels (of String, or of Categorical) as codes."""
    lengths = variants.list.len().to_numpy().astype(np.int64)
    offsets = offsets_of(lengths)
    return coded_cases(variants.explode(empty_as_null=False), offsets)


def coded_cases(labels: pl.Series, offsets: Ints, known: Sequence[str] | None = None) -> Cases:
    """The labels of cases end to end, String or Categorical, as codes: places in ``known``, or
    among those that occur.
    """
    alphabet = (
        labels.unique().cast(pl.String).sort()
        if known is None
        else pl.Series(known, dtype=pl.String)
    )
    return Cases(tuple(alphabet), places_among(labels, alphabet), offsets)


def _owners(listed: pl.DataFrame) -> Owners:
    """Units of each distinct case, of rows (``row``, ``unit``, ``cases``); a case without a unit is
    its own unit.
    """
    owned = listed.filter(pl.col(UNIT).is_not_null())
    alone = listed.filter(pl.col(UNIT).is_null())
    unit = owned[UNIT].rank("dense").to_numpy().astype(np.int64) - 1
    first_alone = int(unit.max(initial=-1)) + 1
    # A row of n cases without a unit stands for n units of one case each.
    row_alone = np.repeat(_ints(alone["row"]), _ints(alone[CASES]))
    return Owners(
        row=np.concatenate([_ints(owned["row"]), row_alone]),
        unit=np.concatenate([unit, first_alone + np.arange(len(row_alone))]),
        cases=np.concatenate([_ints(owned[CASES]), np.ones(len(row_alone), np.int64)]),
    )


def _ints(series: pl.Series) -> Ints:
    return series.to_numpy().astype(np.int64)


_LARGEST: Final = 2**63 - 1
"""Of 64-bit whole numbers."""


def enriched(log: EventLog, found: Enrichment) -> EventLog:
    """``log`` with the columns of ``found`` in place of those of their names; ValueError where one
    has not a value for each row.
    """
    for name, values in found.columns.items():
        series = _series(TIMESTAMP if name == TIMESTAMPS else name, values)
        if len(series) != log.table_of(name).height:
            raise ValueError(f"{len(series):,} values of '{name}'")
        # Behind all others: in XES its place tells which event was the first with a value.
        if name != TIMESTAMPS:
            log = replace(log, events=without(log.events, name), cases=without(log.cases, name))
        log = with_attribute(log, series.name, series)
    return log


@frozen
class ColumnsOfCases:
    """Columns that a mechanism made for all of some cases, from which those of a batch are taken.

    ``index``: int64, ascending; where each case stands in the whole log. ``offsets``: int64, shape
    (cases + 1,); the events of case i are at ``offsets[i]:offsets[i + 1]`` of a column of events.
    """

    columns: ColumnValues
    index: Ints
    offsets: Ints

    @classmethod
    def of(cls, columns: ColumnValues, index: Ints, offsets: Ints) -> "ColumnsOfCases":
        """Raises ValueError where a column has not one value for each event, or case."""
        for name, values in columns.items():
            rows = len(index) if name.startswith(CASE_PREFIX) else int(offsets[-1])
            found = len(_series(name, values))
            if found != rows:
                raise ValueError(f"{found:,} values of '{name}' for {rows:,} rows")
        return cls(columns, index, offsets)

    def added(self, batch: EventLog) -> EventLog:
        """``batch`` with its part of the columns; ValueError where it has cases beside these."""
        rows = places_of(self.index, batch.index_of_case)
        lengths = np.diff(batch.offsets)
        if rows is None or not np.array_equal(np.diff(self.offsets)[rows], lengths):
            raise ValueError("columns were made for other cases")
        events = ranges_of(self.offsets[rows], lengths)
        part = {
            name: values.taken(rows if name.startswith(CASE_PREFIX) else events)
            for name, values in self.columns.items()
        }
        return enriched(batch, Enrichment(part))


def _series(name: str, values: Listed | Numbers | Times) -> pl.Series:
    if isinstance(values, Times):
        return pl.Series(name, values.microseconds, pl.Int64).cast(TIME_TYPE)
    if isinstance(values, Numbers):
        return _numbers(pl.Series(name, values.values, pl.Float64).fill_nan(None), values.type)
    # The domain says the type, never the values that occur.
    kind = _type_of(values.domain)
    domain = list(values.domain)
    if kind is pl.String:
        # As JSON spells them; texts are themselves.
        domain = [
            value if isinstance(value, str | None) else json.dumps(value, ensure_ascii=False)
            for value in domain
        ]
    listed = pl.Series(domain, dtype=kind)
    is_missing = np.asarray(values.codes) < 0
    places = pl.Series(np.where(is_missing, 0, values.codes))
    if not len(listed):
        return nulls(len(places), listed.dtype).alias(name)
    return listed.gather(places).set(pl.Series(is_missing), None).alias(name)


def _numbers(values: pl.Series, type_: RangeType) -> pl.Series:
    """Float64 as a column of this type."""
    match type_:
        case "integer":
            return values.cast(pl.Int64)
        case "date":
            return values.cast(pl.Int32).cast(pl.Date)
        case "time":
            return (values * 1e6).cast(pl.Int64).cast(TIME_TYPE)
        case "number":
            return values


def _type_of(domain: tuple[JsonValue, ...]) -> type[pl.DataType]:
    """Of a domain of one type, that; of whole and other numbers Float64; else text, and where whole
    numbers are too large for a column of such.
    """
    kinds = {type(value) for value in domain}
    if kinds == {bool}:
        return pl.Boolean
    if any(isinstance(value, int) and abs(value) > _LARGEST for value in domain):
        return pl.String
    if kinds == {int}:
        return pl.Int64
    return pl.Float64 if kinds and kinds <= {int, float} else pl.String

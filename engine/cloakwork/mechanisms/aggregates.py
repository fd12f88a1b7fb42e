"""Summaries of a log that mechanisms decide on; each can be taken batch by batch and merged."""

from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.naming import TIME_TYPE, TIMESTAMP, named, nulls, values_or_nulls
from cloakwork.log.eventlog import EventLog, as_lists, keeps_spelling
from cloakwork.log.limits import current_limits
from cloakwork.log.variants import variants_of

VARIANT: Final = "variant"
CASES: Final = "cases"
UNIT: Final = "unit"
INDEX: Final = "index"
CASES_OF_UNIT: Final = "cases_of_unit"
_ROW: Final = "row"
_PLACE: Final = "place"
VARIANT_COUNTS_SCHEMA: Final = pl.Schema([(VARIANT, pl.List(pl.String())), (CASES, pl.Int64())])


@frozen
class VariantCounts:
    """How many cases each variant has: the variant histogram.

    A summary has one row a variant: ``variant`` (List[String], the activity labels in order; empty
    for a case without events) and ``cases`` (Int64, at least 1). Merged, it is sorted by variant.

    With ``unit``, a case attribute, a column ``unit`` (List[String]) has the values of it that
    these cases have, each once, ascending (first a null, where some have none, or the log has no
    such attribute), and ``cases_of_unit`` (List[Int64]) how many of the cases have each.
    """

    unit: str | None = None

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Count the variants of one batch of whole cases."""
        variants = variants_of(batch)
        alphabet = pl.Series(variants.alphabet, dtype=pl.String)
        codes = pl.Series(variants.codes, dtype=pl.UInt32)
        labels = as_lists(alphabet.gather(codes), variants.offsets)
        counted = pl.DataFrame(
            {VARIANT: labels, CASES: variants.counts}, schema=VARIANT_COUNTS_SCHEMA
        )
        if self.unit is not None:
            texts = case_texts(batch, self.unit)
            cases = pl.DataFrame({_ROW: variants.of_case, UNIT: texts, CASES_OF_UNIT: 1})
            counted = counted.hstack(_units_of_rows(cases))
        return counted

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Add up the rows that several batches have for the same variant."""
        # Units follow their variants by the places of rows.
        numbered = summaries.with_row_index(_PLACE)
        figures = pl.col(CASES).sum(), pl.col(_PLACE)
        grouped = numbered.group_by(VARIANT).agg(figures).sort(VARIANT)
        merged = grouped.drop(_PLACE)
        if UNIT not in summaries.columns:
            return merged
        # Which row of the merged table a row of the batches goes to.
        rows = grouped.with_row_index(_ROW).select(_ROW, _PLACE).explode(_PLACE).sort(_PLACE)[_ROW]
        of_batches = summaries.select(
            pl.lit(rows).alias(_ROW),
            UNIT,
            CASES_OF_UNIT,
        )
        units = _units_of_rows(of_batches.explode(UNIT, CASES_OF_UNIT))
        return merged.hstack(units).select(named(*summaries.columns))


def _units_of_rows(pairs: pl.DataFrame) -> pl.DataFrame:
    """The columns ``unit`` and ``cases_of_unit``, of entries (row, unit, cases of the unit)."""
    # Sorted, so that the table does not depend on the batches.
    added = pairs.group_by(_ROW, UNIT).agg(pl.col(CASES_OF_UNIT).sum().cast(pl.Int64))
    listed = added.sort(_ROW, UNIT).group_by(_ROW, maintain_order=True).agg(UNIT, CASES_OF_UNIT)
    return listed.select(
        pl.col(UNIT).cast(pl.List(pl.String)), pl.col(CASES_OF_UNIT).cast(pl.List(pl.Int64))
    )


@frozen
class CaseRows:
    """Each case by itself, with ``columns`` (names of a lineage), and its ``unit`` where one is
    named: for a kernel alone, and no table.
    """

    columns: tuple[str, ...]
    unit: str | None = None


def granted_values(log: EventLog, name: str) -> pl.Series:
    """A column's values as text (String), numbers (Float64) or times (Int64, microseconds since
    1970 in UTC, days at midnight); truth values as the text ``true`` or ``false``.

    Whatever is none of these, longer than a log's values may be, or in a column that the log
    lacks, is missing: what one case holds changes no other's value.
    """
    table = log.table_of(name)
    # A column that the log lacks is missing everywhere.
    values = values_or_nulls(table, TIMESTAMP if name == TIMESTAMPS else name)
    if name == TIMESTAMPS:
        return values.cast(TIME_TYPE).to_physical()
    if keeps_spelling(values) or values.dtype == pl.Boolean:
        texts = values.cast(pl.String)
        too_long = texts.str.len_bytes() > current_limits().value_size
        return texts.set(too_long.fill_null(False), None)
    if values.dtype == pl.Date or isinstance(values.dtype, pl.Datetime):
        return values.cast(pl.Datetime("us")).to_physical()
    return values.cast(pl.Float64) if values.dtype.is_numeric() else nulls(table.height)


def case_texts(log: EventLog, attribute: str) -> pl.Series:
    """The values of a case attribute as text: String, shape (cases,); all null where the log lacks
    it.
    """
    return values_or_nulls(log.cases, attribute).cast(pl.String)


def places_of(index: Ints, asked: Ints) -> Ints | None:
    """Where in ``index`` (int64, ascending) each of ``asked`` stands; None if one does not."""
    place = np.searchsorted(index, asked)
    # A search finds where an index would stand, whether or not it does.
    lies_behind = place == len(index)
    if lies_behind.any() or not np.array_equal(index[place], asked):
        return None
    return place

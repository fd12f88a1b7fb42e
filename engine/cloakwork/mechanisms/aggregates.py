"""Summaries of a log that mechanisms decide on; each can be taken batch by batch and merged."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from cloakwork.log.eventlog import EventLog
from cloakwork.log.naming import named, values_of
from cloakwork.log.variants import Variants, variants_of

VARIANT: Final = "variant"
CASES: Final = "cases"
UNIT: Final = "unit"
VARIANT_COUNTS_SCHEMA: Final = pl.Schema([(VARIANT, pl.List(pl.String())), (CASES, pl.Int64())])


@dataclass(frozen=True, slots=True)
class VariantCounts:
    """How many cases each variant has: the variant histogram.

    A summary has one row a variant: ``variant`` (List[String], the activity labels in order; empty
    for a case without events) and ``cases`` (Int64, at least 1). Rows come in no order that means
    anything.

    With ``unit``, a case attribute, there is one row for each variant and value of it, and a column
    ``unit`` (String; null where cases have none, or the log has no such attribute).
    """

    unit: str | None = None

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Count the variants of one batch of whole cases."""
        variants = variants_of(batch)
        if self.unit is None:
            return pl.DataFrame(
                {VARIANT: _as_lists(variants), CASES: variants.counts}, schema=VARIANT_COUNTS_SCHEMA
            )
        unknown = pl.Series([None], dtype=pl.String).new_from_index(0, batch.cases.height)
        owner = (
            values_of(batch.cases, self.unit).cast(pl.String)
            if self.unit in batch.cases.columns
            else unknown
        )
        rows = pl.DataFrame(
            {"row": variants.of_case, UNIT: owner}, schema={"row": pl.Int64, UNIT: pl.String}
        )
        counted = rows.group_by("row", UNIT, maintain_order=True).agg(
            pl.len().cast(pl.Int64).alias(CASES)
        )
        return counted.select(
            _as_lists(variants).gather(counted["row"]).alias(VARIANT), UNIT, CASES
        )

    def merge(self, parts: pl.DataFrame) -> pl.DataFrame:
        """Add up the rows that several batches have for the same variant."""
        by = [name for name in (VARIANT, UNIT) if name in parts.columns]
        return parts.group_by(named(*by), maintain_order=True).agg(pl.col(CASES).sum())


def _as_lists(variants: Variants) -> pl.Series:
    """The variants as lists of labels, in their own order: List[String], shape (variants,)."""
    labels = pl.Series(variants.alphabet, dtype=pl.String).gather(
        pl.Series(variants.codes, dtype=pl.UInt32)
    )
    row = np.repeat(np.arange(len(variants)), np.diff(variants.offsets))
    lists = (
        pl.DataFrame({"row": row, VARIANT: labels})
        .group_by("row", maintain_order=True)
        .agg(VARIANT)
    )
    every = pl.DataFrame({"row": np.arange(len(variants))}).join(
        lists, on="row", how="left", maintain_order="left"
    )
    return every[VARIANT].fill_null(pl.Series([[]], dtype=pl.List(pl.String)))

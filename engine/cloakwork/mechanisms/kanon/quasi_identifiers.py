"""Quasi-identifiers, the levels that their values can be raised to, and how many cases share a
combination of their values.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from pydantic import JsonValue

from cloakwork.base.arrays import Ints
from cloakwork.base.naming import values_of
from cloakwork.base.quantities import Frozen, Number
from cloakwork.log.eventlog import CASE_PREFIX, EventLog
from cloakwork.log.variants import variants_of
from cloakwork.mechanisms.aggregates import (
    CASES,
    UNIT,
    VARIANT,
    VariantCounts,
    as_lists,
    case_texts,
)
from cloakwork.mechanisms.generalisation import groups_at, intervals, tree_height


class QuasiIdentifier(Frozen):
    """One attribute and the levels that its values can be raised to, finest first.

    Level 0 are the values as they are (or, where the policy asks for treatment *generalise*, the
    finest that it allows); then come the groups of ``hierarchy`` from the leaves up, or the
    intervals of ``bins`` and unions of 2, 4, 8, ... of them; at the last level every value is left
    out.
    """

    attribute: str
    hierarchy: dict[str, JsonValue] | None = None
    bins: tuple[Number, ...] | None = None
    raw: bool = True
    """Whether the values may also be released as they are."""
    finest: int | None = None
    """The depth of the finest groups that may be released; None: any."""

    @property
    def table_column(self) -> str:
        """What tables of this mechanism call it: never one of their own columns, whatever the
        attribute is called.
        """
        return f"={self.attribute}"

    @property
    def is_of_cases(self) -> bool:
        """Whether cases have the attribute, not events."""
        return self.attribute.startswith(CASE_PREFIX)

    @property
    def group_depths(self) -> tuple[int, ...]:
        """The levels of groups, as depths of the tree from the finest up; empty without a
        hierarchy.
        """
        if self.hierarchy is None:
            return ()
        # The leaves are the values themselves.
        deepest = tree_height(self.hierarchy) - 1
        if self.finest is not None:
            deepest = min(deepest, self.finest)
        return tuple(range(deepest, 0, -1))

    @property
    def interval_edges(self) -> tuple[tuple[float, ...], ...]:
        """The edges of each level of intervals, finest first; empty without bins."""
        if self.bins is None:
            return ()
        bin_count = len(self.bins) - 1
        # Unions of 1, 2, 4, ... bins, the last one of all; the uppermost edge is always kept.
        widths = [2**power for power in range(bin_count.bit_length() + 1)]
        edges = [(*self.bins[:-1:width], self.bins[-1]) for width in widths]
        return tuple(dict.fromkeys(edges))

    @property
    def levels(self) -> int:
        """How many levels there are, raw values and nothing at all included."""
        return self.raw + len(self.group_depths) + len(self.interval_edges) + 1

    def at_level(self, values: pl.Series, level: int) -> pl.Series:
        """``values`` at ``level``; what fits into no group or interval becomes null."""
        # Counted from the first level above the raw values.
        coarser_level = level - self.raw
        if coarser_level < 0:
            return values
        if coarser_level < len(self.group_depths):
            return groups_at(values, self.hierarchy or {}, self.group_depths[coarser_level])
        if coarser_level < len(self.interval_edges):
            return intervals(values, self.interval_edges[coarser_level])
        return all_missing(values)

    def at_levels(self, values: pl.Series, levels: Ints) -> pl.Series:
        """Each value at its own level (int64, shape (values,)), as text."""
        level_of_value = pl.Series("level", levels)
        raised = all_missing(values)
        for level in range(self.levels):
            at_this_level = self.at_level(values, level).cast(pl.String)
            raised = at_this_level.zip_with(level_of_value == level, raised)
        return raised.alias(values.name)

    def list_members_at_level(self, lists: pl.Series, level: int) -> pl.Series:
        """Lists of values whose members are at ``level``; null for an empty list."""
        lengths = lists.list.len().fill_null(0).to_numpy()
        members = lists.explode(empty_as_null=False, keep_nulls=False)
        rows = np.arange(len(lists))
        raised = pl.DataFrame(
            {"row": np.repeat(rows, lengths), "value": self.at_level(members, level)}
        )
        raised_lists = raised.group_by("row", maintain_order=True).agg("value")
        # Empty lists have no members, so the join brings them back.
        all_rows = pl.DataFrame({"row": rows})
        return all_rows.join(raised_lists, on="row", how="left", maintain_order="left")["value"]


def all_missing(values: pl.Series) -> pl.Series:
    """As many nulls as there are values: String."""
    return pl.Series(values.name, [None], dtype=pl.String).new_from_index(0, len(values))


@dataclass(frozen=True, slots=True)
class CombinationCounts:
    """How many cases have each variant with each combination of attributes, by unit where one is
    named.

    Columns: ``variant``, one an attribute that the log has (``=`` before its name; for an attribute
    of events the list of a case's values), ``unit``, and ``cases``.
    """

    attributes: tuple[QuasiIdentifier, ...]
    unit: str | None = None

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Count one batch of whole cases."""
        variants = variants_of(batch)
        labels = VariantCounts().of(batch)[VARIANT]
        columns = {VARIANT: labels.gather(variants.of_case)}
        for item in self.attributes:
            values = _values_by_case(batch, item)
            if values is not None:
                columns[item.table_column] = values
        if self.unit is not None:
            columns[UNIT] = case_texts(batch, self.unit)
        cases = pl.len().cast(pl.Int64).alias(CASES)
        return pl.DataFrame(columns).group_by(pl.all(), maintain_order=True).agg(cases)

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Add up the rows that several batches have alike."""
        by = pl.all().exclude(CASES)
        return summaries.group_by(by).agg(pl.col(CASES).sum()).sort(by)


def _values_by_case(log: EventLog, item: QuasiIdentifier) -> pl.Series | None:
    """An attribute with one row a case: its value, or the list of those of the case's events; None
    where the log lacks it.
    """
    table = log.cases if item.is_of_cases else log.events
    if item.attribute not in table.columns:
        return None
    values = values_of(table, item.attribute)
    return values if item.is_of_cases else as_lists(values, log.offsets)

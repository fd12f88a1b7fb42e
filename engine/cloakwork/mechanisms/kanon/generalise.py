"""k-anonymity over quasi-identifiers beside the control flow: coarser values, until each
combination has k cases.
"""

import math
from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Annotated, ClassVar, Final

import numpy as np
import polars as pl
from pydantic import Field, JsonValue

from cloakwork.base.arrays import Ints, offsets_of
from cloakwork.base.errors import MechanismError
from cloakwork.base.facts import Facts
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.base.naming import CASE_PREFIX, named, nulls, values_of
from cloakwork.base.quantities import Frozen, Number
from cloakwork.log.eventlog import EventLog, as_lists, with_attribute
from cloakwork.log.variants import variants_of
from cloakwork.mechanisms.aggregates import (
    CASES,
    UNIT,
    VARIANT,
    VariantCounts,
    case_texts,
)
from cloakwork.mechanisms.base import (
    MeetsNoGoal,
    Proof,
    Theorem,
)
from cloakwork.mechanisms.generalisation import deepest_group, groups_at, intervals
from cloakwork.mechanisms.steps import Decision, MapCases, Rewrite, RewriteStep
from cloakwork.noise import Noise, Stream

MOST_COMBINATIONS: Final = 5_000
"""Combinations of levels that are compared; a policy with more is refused when it is planned."""
_NUMBER: Final = "number"


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
        """What tables of this mechanism call it: never one of their own columns."""
        return f"={self.attribute}"

    @property
    def is_of_cases(self) -> bool:
        """Whether cases have the attribute, not events."""
        return self.attribute.startswith(CASE_PREFIX)

    @property
    def group_depths(self) -> tuple[int, ...]:
        """The levels of groups, as depths of the tree from the finest up; empty without one."""
        if self.hierarchy is None:
            return ()
        deepest = deepest_group(self.hierarchy)
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
        return nulls(len(values)).alias(values.name)

    def at_levels(self, values: pl.Series, levels: Ints) -> pl.Series:
        """Each value at its own level (int64, shape (values,)), as text."""
        level_of_value = pl.Series("level", levels)
        raised = nulls(len(values))
        for level in range(self.levels):
            at_this_level = self.at_level(values, level).cast(pl.String)
            raised = at_this_level.zip_with(level_of_value == level, raised)
        return raised.alias(values.name)

    def codes_at_level(self, values: pl.Series, level: int) -> Ints:
        """A number for each of ``values`` (or lists) that those share which agree at ``level``."""
        if isinstance(values.dtype, pl.List):
            lengths = values.list.len().fill_null(0).to_numpy()
            members = values.explode(empty_as_null=False, keep_nulls=False)
            offsets = offsets_of(lengths)
            values = as_lists(self.at_level(members, level), offsets)
        else:
            values = self.at_level(values, level)
        rows = values.to_frame("value").with_row_index("row")
        first_alike = pl.col("row").min().over("value").cast(pl.Int64)
        return rows.select(first_alike).to_series().to_numpy()


class GeneraliseParams(Frozen):
    """``k`` and ``unit``: as the guarantee says; ``attributes``: what it covers beside."""

    k: Annotated[int, Field(ge=2)]
    attributes: Annotated[tuple[QuasiIdentifier, ...], Field(min_length=1)]
    unit: str | None = None

    @property
    def combinations(self) -> int:
        """How many nodes the lattice has."""
        return math.prod(item.levels for item in self.attributes)


@frozen
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
        labels = VariantCounts().of(batch)[VARIANT]
        columns = {VARIANT: labels.gather(variants_of(batch).of_case)}
        for item in self.attributes:
            table = batch.table_of(item.attribute)
            if item.attribute in table.columns:
                values = values_of(table, item.attribute)
                if not item.is_of_cases:
                    values = as_lists(values, batch.offsets)
                columns[item.table_column] = values
        if self.unit is not None:
            columns[UNIT] = case_texts(batch, self.unit)
        cases = pl.len().cast(pl.Int64).alias(CASES)
        return pl.DataFrame(columns).group_by(pl.all(), maintain_order=True).agg(cases)

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Add up the rows that several batches have alike."""
        by = pl.all().exclude(CASES)
        return summaries.group_by(by).agg(pl.col(CASES).sum()).sort(by)


class Generalise(MeetsNoGoal[GeneraliseParams]):
    """Raise the levels of quasi-identifiers until each combination with a variant is shared by k
    cases.

    A *node* of the lattice is one level for each attribute. Every variant takes, among the nodes at
    which each of its groups holds at least k, the one that loses least: the sum over the attributes
    of the share of the attribute's entropy in the log that is lost. So one rare variant does
    not coarsen the others. Missing values are a value of their own.

    **Why it is k-anonymous.** At the top node no values are left, so the groups of a variant are
    the variant itself, which must hold k already (else the log is refused). The node taken was
    measured. Cases that agree in all their activities and values agree in every beginning of them,
    so groups over prefixes hold at least as many. Where units are counted, a case without one
    counts nowhere.

    **Edge cases.** Empty log: nothing to do. An attribute that the log does not have: nothing to
    raise.
    """

    name: ClassVar[str] = "kanon/generalise"
    action: ClassVar[str] = "generalise attributes"
    alone: ClassVar[str] = (
        "it makes values coarser after another mechanism has made the control flow k-anonymous"
    )
    summary: ClassVar[str] = (
        "Makes quasi-identifiers coarser until each combination is shared by k cases."
    )
    proof: ClassVar[Proof] = "proved"
    theorem: ClassVar[Theorem] = Theorem(
        "Where every activity sequence is shared by at least k cases (or units), "
        "every released combination of one with the released quasi-identifiers is shared by at "
        "least k of them.",
        "full-domain generalisation in a lattice (Samarati 2001; LeFevre, "
        "DeWitt and Ramakrishnan, Incognito, SIGMOD 2005), taken variant by variant; "
        "proved in this class's docstring",
    )
    Params = GeneraliseParams

    def step(self, params: GeneraliseParams, facts: Facts) -> RewriteStep:
        """Reads the control flow and the attributes, and writes the attributes. The summary says
        how many cases of each unit have each variant with each combination of values.
        """
        names = frozenset(item.attribute for item in params.attributes)
        reads = names | {CONTROL_FLOW}
        if params.unit:
            reads |= {params.unit}
        return RewriteStep(
            lineage=Lineage(
                reads=reads,
                writes=names | {METADATA},
                stability=None,
            ),
            summary=CombinationCounts(params.attributes, params.unit),
            decide=partial(self.decide, params),
            rewrite=partial(self.rewrite, params),
        )

    def decide(
        self,
        params: GeneraliseParams,
        summary: pl.DataFrame,
        noise: Noise,
    ) -> Decision:
        """One level for each variant and attribute: rows (``variant``, ``=NAME`` for each
        attribute: Int64).

        Raises ``MechanismError`` where the control flow alone is not k-anonymous.
        """
        present = [item for item in params.attributes if item.table_column in summary.columns]
        cases_of_variant = pl.col(CASES).sum()
        variants = summary.group_by(VARIANT, maintain_order=True).agg(cases_of_variant)
        numbered = variants.select(VARIANT).with_row_index(_NUMBER)
        rows = summary.join(
            numbered,
            on=VARIANT,
            how="left",
            maintain_order="left",
        )
        measured = [_MeasuredLevel.all_of(item, rows) for item in present]

        levels = np.full((variants.height, len(present)), -1, np.int64)
        is_undecided = np.ones(variants.height, np.bool_)

        def by_loss(node: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
            loss = sum(each[level].loss for each, level in zip(measured, node, strict=True))
            # Rounded, so that round-off does not decide between nodes that lose alike; ties: the
            # lower levels.
            return round(loss, 12), node

        # Each variant takes the first node, in order of loss, at which its groups hold k.
        for node in sorted(product(*(range(len(each)) for each in measured)), key=by_loss):
            if not is_undecided.any():
                break
            codes = [each[level].codes for each, level in zip(measured, node, strict=True)]
            settled = is_undecided & (_smallest_groups(rows, codes) >= params.k)
            levels[settled] = node
            is_undecided &= ~settled
        if is_undecided.any():
            raise MechanismError(
                self.name, f"the control flow that it was given is not {params.k}-anonymous"
            )
        columns = [pl.Series(item.table_column, levels[:, i]) for i, item in enumerate(present)]
        table = variants.select(VARIANT).with_columns(columns)
        return Decision(table, _level_shares(present, levels, variants[CASES].to_numpy()))

    def rewrite(
        self,
        params: GeneraliseParams,
        decision: Decision,
        stream: Stream,
    ) -> Rewrite:
        """Raise each case's values to the levels of its variant."""
        levels = decision.table
        attributes = params.attributes
        return MapCases(
            lambda log: _with_generalised_values(log, attributes, levels),
            together="case",
        )


@frozen
class _MeasuredLevel:
    """One attribute at one level: the share of entropy that is lost, and a number for each row of
    the summary that rows share whose values agree there.
    """

    loss: float
    codes: Ints

    @classmethod
    def all_of(cls, item: QuasiIdentifier, rows: pl.DataFrame) -> "list[_MeasuredLevel]":
        """Every level of one attribute, finest first."""
        cases = rows[CASES].to_numpy()
        values = values_of(rows, item.table_column)
        codes_by_level = [item.codes_at_level(values, level) for level in range(item.levels)]
        entropies = []
        for codes in codes_by_level:
            weight = np.bincount(codes, cases)
            share = weight[weight > 0] / weight.sum()
            entropies.append(float(-(share * np.log(share)).sum()))
        finest = entropies[0]
        # Where nothing differs at the finest level, there is nothing to lose.
        losses = [1 - entropy / finest if finest else 0.0 for entropy in entropies]
        return [cls(loss, codes) for loss, codes in zip(losses, codes_by_level, strict=True)]


def _smallest_groups(rows: pl.DataFrame, codes: Sequence[Ints]) -> Ints:
    """The least size of any group of each variant, in cases or distinct units: int64, shape
    (variants,). ``codes``: of the rows, by attribute; rows that agree in all of them are a group.
    """
    keys = {f"key {number}": each for number, each in enumerate(codes)}
    size = pl.col(CASES).sum()
    if UNIT in rows.columns:
        # A case without a unit counts nowhere.
        size = pl.col(UNIT).drop_nulls().n_unique()
    frame = rows.with_columns(pl.Series(name, each) for name, each in keys.items())
    groups = frame.group_by(named(_NUMBER, *keys)).agg(size.alias("size"))
    smallest = groups.group_by(_NUMBER).agg(pl.col("size").min())
    return smallest.sort(_NUMBER)["size"].to_numpy().astype(np.int64)


def _level_shares(
    present: Sequence[QuasiIdentifier], levels: Ints, cases: Ints
) -> dict[str, JsonValue]:
    """Which share of the cases has each attribute at which level; measured on the raw log, never
    public.

    ``levels``: int64, shape (variants, attributes); ``cases``: int64, shape (variants,).
    """
    shares: dict[str, JsonValue] = {}
    for column, item in enumerate(present):
        cases_at = np.bincount(levels[:, column], cases, item.levels)
        share = cases_at / max(cases_at.sum(), 1)
        # The first level holds raw values, where these are allowed; the last one holds nothing.
        raw_levels = int(item.raw)
        shares[f"{item.attribute} as it is"] = float(share[:raw_levels].sum())
        shares[f"{item.attribute} coarser"] = float(share[raw_levels:-1].sum())
        shares[f"{item.attribute} left out"] = float(share[-1])
    return shares


def _with_generalised_values(
    log: EventLog, attributes: Sequence[QuasiIdentifier], table: pl.DataFrame
) -> EventLog:
    """The log with each case's values at the levels of its variant."""
    variants = variants_of(log)
    variant_rows = VariantCounts().of(log).select(VARIANT)
    decided = variant_rows.join(
        table,
        on=VARIANT,
        how="left",
        maintain_order="left",
    )
    if any(column.null_count() for column in decided.drop(VARIANT)):
        raise MechanismError(Generalise.name, "the log holds a variant that was not decided on")
    for item in attributes:
        if item.table_column not in table.columns:
            continue
        decided_levels = values_of(table, item.table_column)
        if not item.is_of_cases:
            # A case without events has no values of events.
            decided_levels = decided_levels.filter(table[VARIANT].list.len() > 0)
        if item.raw and not (decided_levels > 0).any():
            # All values of the whole log stay, so their type does; a batch must not decide it.
            continue
        level = values_of(decided, item.table_column).to_numpy()[variants.of_case]
        if not item.is_of_cases:
            level = level[log.case_of]
        values = values_of(log.table_of(item.attribute), item.attribute)
        log = with_attribute(log, item.attribute, item.at_levels(values, level))
    return log

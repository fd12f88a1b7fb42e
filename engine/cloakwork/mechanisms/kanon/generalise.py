"""k-anonymity over quasi-identifiers beside the control flow: coarser values, until each
combination has k cases.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, ClassVar, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, JsonValue

from cloakwork.errors import MechanismError
from cloakwork.facts import Facts
from cloakwork.guarantees import Guarantee
from cloakwork.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.log.eventlog import CASE_PREFIX, EventLog
from cloakwork.log.naming import named, values_of
from cloakwork.log.variants import variants_of
from cloakwork.mechanisms.aggregates import (
    CASES,
    UNIT,
    VARIANT,
    VariantCounts,
    as_lists,
    case_texts,
)
from cloakwork.mechanisms.base import (
    Aggregate,
    Decision,
    Gives,
    MapCases,
    Offer,
    Proof,
    Refusal,
    Rewrite,
    Theorem,
    WithoutCost,
)
from cloakwork.mechanisms.generalisation import groups_at, height, intervals
from cloakwork.noise import Noise, Stream
from cloakwork.quantities import Frozen, Number

MOST_COMBINATIONS: Final = 5_000
"""Combinations of levels that are compared; a policy with more is refused when it is planned."""


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
    def column(self) -> str:
        """What tables of this mechanism call it: never one of their own columns, whatever the
        attribute is called.
        """
        return f"={self.attribute}"

    def depths(self) -> tuple[int, ...]:
        """How many levels of groups there are, as depths of the tree from the finest up; empty
        without a hierarchy.
        """
        if self.hierarchy is None:
            return ()
        deepest = height(self.hierarchy) - 1
        return tuple(range(deepest if self.finest is None else min(deepest, self.finest), 0, -1))

    def cuts(self) -> tuple[tuple[float, ...], ...]:
        """The edges of each level of intervals, finest first; empty without bins."""
        if self.bins is None:
            return ()
        steps = [2**power for power in range((len(self.bins) - 1).bit_length() + 1)]
        edges = [(*self.bins[:-1:step], self.bins[-1]) for step in steps]
        return tuple(dict.fromkeys(edges))

    @property
    def levels(self) -> int:
        """How many levels there are, raw values and nothing at all included."""
        return self.raw + len(self.depths()) + len(self.cuts()) + 1

    def at(self, values: pl.Series, level: int) -> pl.Series:
        """``values`` at ``level``; what fits into no group or interval becomes null."""
        level -= self.raw
        if level < 0:
            return values
        if level < len(self.depths()):
            return groups_at(values, self.hierarchy or {}, self.depths()[level])
        if level < len(self.cuts()):
            return intervals(values, self.cuts()[level])
        return pl.Series(values.name, [None], dtype=pl.String).new_from_index(0, len(values))


class GeneraliseParams(Frozen):
    """``k`` and ``unit`` as the guarantee says; ``attributes``: its columns beside the control
    flow.
    """

    k: Annotated[int, Field(ge=2)]
    attributes: Annotated[tuple[QuasiIdentifier, ...], Field(min_length=1)]
    unit: str | None = None

    @property
    def combinations(self) -> int:
        """How many nodes the lattice has."""
        return math.prod(item.levels for item in self.attributes)


class Generalise(WithoutCost):
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

    gives: ClassVar[tuple[Gives, ...]] = ()
    name: ClassVar[str] = "kanon/generalise"
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

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[GeneraliseParams] | Refusal:
        """The planner adds it where a guarantee names quasi-identifiers; alone it meets no goal."""
        return Refusal(
            "never",
            "it makes values coarser after another mechanism has made the control flow k-anonymous",
        )

    def lineage(self, params: GeneraliseParams) -> Lineage:
        """Reads the control flow and the attributes, and writes the attributes."""
        names = frozenset(item.attribute for item in params.attributes)
        owner = {params.unit} if params.unit else set()
        return Lineage(
            reads=names | {CONTROL_FLOW, *owner}, writes=names | {METADATA}, stability=None
        )

    def summarise(self, params: GeneraliseParams) -> Aggregate:
        """How many cases of each unit have each variant with each combination of values."""
        return CombinationCounts(params.attributes, params.unit)

    def decide(self, params: GeneraliseParams, summary: pl.DataFrame, noise: Noise) -> Decision:
        """One level for each variant and attribute: rows (``variant``, ``=NAME`` for each
        attribute: Int64).

        Raises ``MechanismError`` where the control flow alone is not k-anonymous.
        """
        present = [item for item in params.attributes if item.column in summary.columns]
        variants = (
            summary.group_by(VARIANT, maintain_order=True)
            .agg(pl.col(CASES).sum())
            .with_row_index("row")
        )
        rows = summary.join(
            variants.select(VARIANT, "row"), on=VARIANT, how="left", maintain_order="left"
        )
        variant = rows["row"].to_numpy().astype(np.int64)
        levels = np.full((variants.height, len(present)), -1, np.int64)
        open_ = np.ones(variants.height, np.bool_)
        for node in _by_loss(present, rows):
            if not open_.any():
                break
            settled = open_ & (_smallest_groups(rows, variant, node.codes) >= params.k)
            levels[settled], open_ = node.levels, open_ & ~settled
        if open_.any():
            raise MechanismError(
                self.name, f"the control flow that it was given is not {params.k}-anonymous"
            )
        columns = {item.column: levels[:, i] for i, item in enumerate(present)}
        table = variants.select(VARIANT).with_columns(
            pl.Series(name, level) for name, level in columns.items()
        )
        return Decision(table, _figures(present, levels, variants[CASES].to_numpy()))

    def rewrite(self, params: GeneraliseParams, decision: Decision, stream: Stream) -> Rewrite:
        """Raise each case's values to the levels of its variant."""
        levels = decision.table
        return MapCases(
            lambda log: _with_generalised_values(log, params.attributes, levels), together="case"
        )


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
        labels = VariantCounts().of(batch)[VARIANT].gather(variants.of_case)
        columns = {VARIANT: labels} | {
            item.column: found
            for item in self.attributes
            if (found := _by_case(batch, item.attribute)) is not None
        }
        if self.unit is not None:
            columns[UNIT] = case_texts(batch, self.unit)
        frame = pl.DataFrame(columns)
        return frame.group_by(pl.all(), maintain_order=True).agg(
            pl.len().cast(pl.Int64).alias(CASES)
        )

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Add up the rows that several batches have alike."""
        by = pl.all().exclude(CASES)
        return summaries.group_by(by).agg(pl.col(CASES).sum()).sort(by)


def _by_case(log: EventLog, name: str) -> pl.Series | None:
    """An attribute with one row a case: its value, or the list of those of the case's events."""
    if name.startswith(CASE_PREFIX):
        return values_of(log.cases, name) if name in log.cases.columns else None
    if name not in log.events.columns:
        return None
    return as_lists(values_of(log.events, name), log.offsets)


@dataclass(frozen=True, slots=True)
class _Node:
    """One level for each attribute. ``loss``: share of entropy lost, added up. ``codes``: the
    values there, by attribute.
    """

    levels: tuple[int, ...]
    loss: float
    codes: tuple[NDArray[np.int64], ...]


def _by_loss(present: list[QuasiIdentifier], rows: pl.DataFrame) -> list[_Node]:
    """All nodes, the one that loses least first; ties: the lower levels."""
    codes_by_level = [
        [_codes(item, values_of(rows, item.column), level) for level in range(item.levels)]
        for item in present
    ]
    weight = rows[CASES].to_numpy()
    losses = [[_loss(levels[0], codes, weight) for codes in levels] for levels in codes_by_level]
    nodes = [
        _Node(
            levels,
            sum(losses[i][level] for i, level in enumerate(levels)),
            tuple(codes_by_level[i][level] for i, level in enumerate(levels)),
        )
        for levels in product(*(range(item.levels) for item in present))
    ]
    return sorted(nodes, key=lambda node: (round(node.loss, 12), node.levels))


def _codes(item: QuasiIdentifier, values: pl.Series, level: int) -> NDArray[np.int64]:
    """A number for each row that rows share if and only if their values agree at ``level``."""
    raised = (
        _on_lists(item, values, level)
        if isinstance(values.dtype, pl.List)
        else item.at(values, level)
    )
    distinct = raised.to_frame("value").unique(maintain_order=True).with_row_index("code")
    joined = raised.to_frame("value").join(
        distinct, on="value", how="left", nulls_equal=True, maintain_order="left"
    )
    return joined["code"].to_numpy().astype(np.int64)


def _on_lists(item: QuasiIdentifier, values: pl.Series, level: int) -> pl.Series:
    lengths = values.list.len().fill_null(0).to_numpy()
    flat = item.at(values.explode(empty_as_null=False, keep_nulls=False), level)
    place = np.repeat(np.arange(len(values)), lengths)
    lists = (
        pl.DataFrame({"row": place, "value": flat})
        .group_by("row", maintain_order=True)
        .agg("value")
    )
    every = pl.DataFrame({"row": np.arange(len(values))}).join(
        lists, on="row", how="left", maintain_order="left"
    )
    return every["value"]


def _loss(raw: NDArray[np.int64], codes: NDArray[np.int64], weight: NDArray[np.int64]) -> float:
    """The share of the finest level's entropy that is lost; 0 where there was none."""
    before = _entropy(raw, weight)
    return 0.0 if before == 0 else 1 - _entropy(codes, weight) / before


def _entropy(codes: NDArray[np.int64], weight: NDArray[np.int64]) -> float:
    share = np.bincount(codes, weight)
    share = share[share > 0] / share.sum()
    return float(-(share * np.log(share)).sum())


def _smallest_groups(
    rows: pl.DataFrame, variant: NDArray[np.int64], codes: Sequence[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """The least size of any group of each variant, in cases or distinct units: int64, shape
    (variants,).
    """
    keys = {"variant": variant} | {f"key {i}": key for i, key in enumerate(codes)}
    frame = pl.DataFrame({CASES: rows[CASES], **keys})
    size = pl.col(CASES).sum()
    if UNIT in rows.columns:
        frame = frame.with_columns(rows[UNIT])
        size = pl.col(UNIT).drop_nulls().n_unique()
    least = (
        frame.group_by(named(*keys))
        .agg(size.alias("size"))
        .group_by("variant")
        .agg(pl.col("size").min())
    )
    return least.sort("variant")["size"].to_numpy().astype(np.int64)


def _figures(
    present: Sequence[QuasiIdentifier], levels: NDArray[np.int64], cases: NDArray[np.int64]
) -> dict[str, JsonValue]:
    """Which share of the cases has each attribute at which level; measured on the raw log, never
    public.
    """
    shares: dict[str, JsonValue] = {}
    for i, item in enumerate(present):
        at = np.bincount(levels[:, i], cases, item.levels)
        share = at / max(at.sum(), 1)
        shares[f"{item.attribute} as it is"] = float(share[0]) if item.raw else 0.0
        shares[f"{item.attribute} coarser"] = float(share[int(item.raw) : -1].sum())
        shares[f"{item.attribute} left out"] = float(share[-1])
    return shares


def _with_generalised_values(
    log: EventLog, attributes: Sequence[QuasiIdentifier], table: pl.DataFrame
) -> EventLog:
    """The log with each case's values at the levels of its variant."""
    variants = variants_of(log)
    variant_rows = pl.DataFrame({VARIANT: VariantCounts().of(log)[VARIANT]})
    found = variant_rows.join(table, on=VARIANT, how="left", maintain_order="left")
    if any(column.null_count() for column in found.drop(VARIANT)):
        raise MechanismError(Generalise.name, "the log holds a variant that was not decided on")
    events, cases = log.events, log.cases
    for item in attributes:
        if item.column not in table.columns or _stays(item, table):
            continue
        level = values_of(found, item.column).to_numpy()[variants.of_case]
        if item.attribute.startswith(CASE_PREFIX):
            raised = _at_levels(item, values_of(cases, item.attribute), level)
            cases = cases.with_columns(raised.alias(item.attribute))
        else:
            raised = _at_levels(item, values_of(events, item.attribute), level[log.case_of])
            events = events.with_columns(raised.alias(item.attribute))
    return replace(log, events=events, cases=cases)


def _stays(item: QuasiIdentifier, table: pl.DataFrame) -> bool:
    """Whether all values of the whole log stay as they are, so that their type does, too.

    What a batch holds must not decide it. A case without events has no values of events.
    """
    level = values_of(table, item.column)
    if not item.attribute.startswith(CASE_PREFIX):
        level = level.filter(table[VARIANT].list.len() > 0)
    return item.raw and not (level > 0).any()


def _at_levels(item: QuasiIdentifier, values: pl.Series, level: NDArray[np.int64]) -> pl.Series:
    """Each value at its own level, as text."""
    place = pl.Series("level", level)
    raised = pl.Series(values.name, [None], dtype=pl.String).new_from_index(0, len(values))
    for i in range(item.levels):
        raised = item.at(values, i).cast(pl.String).zip_with(place == i, raised)
    return raised.alias(values.name)

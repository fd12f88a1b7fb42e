"""k-anonymity over quasi-identifiers beside the control flow: coarser values, until each
combination has k cases.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar, Final

import numpy as np
import polars as pl
from pydantic import Field, JsonValue

from cloakwork.base.arrays import Ints
from cloakwork.base.errors import MechanismError
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.base.naming import values_of
from cloakwork.base.quantities import Frozen
from cloakwork.guarantees import Guarantee
from cloakwork.log.eventlog import EventLog
from cloakwork.log.variants import variants_of
from cloakwork.mechanisms.aggregates import CASES, VARIANT, VariantCounts
from cloakwork.mechanisms.base import Gives, Mechanism, Offer, Proof, Refusal, Theorem
from cloakwork.mechanisms.kanon.generalisation_lattice import nodes_by_loss, smallest_groups
from cloakwork.mechanisms.kanon.quasi_identifiers import CombinationCounts, QuasiIdentifier
from cloakwork.mechanisms.steps import Decision, MapCases, Rewrite, RewriteStep
from cloakwork.noise import Noise, Stream

MOST_COMBINATIONS: Final = 5_000
"""Combinations of levels that are compared; a policy with more is refused when it is planned."""


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


class Generalise(Mechanism[GeneraliseParams]):
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

    def step(self, params: GeneraliseParams, facts: Facts) -> RewriteStep:
        """Reads the control flow and the attributes, and writes the attributes. The summary says
        how many cases of each unit have each variant with each combination of values.
        """
        names = frozenset(item.attribute for item in params.attributes)
        reads = names | {CONTROL_FLOW}
        if params.unit:
            reads |= {params.unit}
        return RewriteStep(
            lineage=Lineage(reads=reads, writes=names | {METADATA}, stability=None),
            summary=CombinationCounts(params.attributes, params.unit),
            decide=partial(self.decide, params),
            rewrite=partial(self.rewrite, params),
        )

    def decide(self, params: GeneraliseParams, summary: pl.DataFrame, noise: Noise) -> Decision:
        """One level for each variant and attribute: rows (``variant``, ``=NAME`` for each
        attribute: Int64).

        Raises ``MechanismError`` where the control flow alone is not k-anonymous.
        """
        present = [item for item in params.attributes if item.table_column in summary.columns]
        cases_of_variant = pl.col(CASES).sum()
        variants = summary.group_by(VARIANT, maintain_order=True).agg(cases_of_variant)
        numbered = variants.select(VARIANT).with_row_index("number")
        rows = summary.join(numbered, on=VARIANT, how="left", maintain_order="left")
        variant = rows["number"].to_numpy().astype(np.int64)

        levels = np.full((variants.height, len(present)), -1, np.int64)
        is_undecided = np.ones(variants.height, np.bool_)
        # Each variant takes the first node, in order of loss, at which its groups hold k.
        for node in nodes_by_loss(present, rows):
            if not is_undecided.any():
                break
            settled = is_undecided & (smallest_groups(rows, variant, node) >= params.k)
            levels[settled] = node.levels
            is_undecided &= ~settled
        if is_undecided.any():
            raise MechanismError(
                self.name, f"the control flow that it was given is not {params.k}-anonymous"
            )
        columns = [pl.Series(item.table_column, levels[:, i]) for i, item in enumerate(present)]
        table = variants.select(VARIANT).with_columns(columns)
        return Decision(table, _level_shares(present, levels, variants[CASES].to_numpy()))

    def rewrite(self, params: GeneraliseParams, decision: Decision, stream: Stream) -> Rewrite:
        """Raise each case's values to the levels of its variant."""
        levels = decision.table
        attributes = params.attributes
        return MapCases(
            lambda log: _with_generalised_values(log, attributes, levels), together="case"
        )


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
    variant_rows = pl.DataFrame({VARIANT: VariantCounts().of(log)[VARIANT]})
    decided = variant_rows.join(table, on=VARIANT, how="left", maintain_order="left")
    if any(column.null_count() for column in decided.drop(VARIANT)):
        raise MechanismError(Generalise.name, "the log holds a variant that was not decided on")
    events, cases = log.events, log.cases
    for item in attributes:
        if item.table_column not in table.columns or _stays_raw(item, table):
            continue
        level_of_variant = values_of(decided, item.table_column).to_numpy()
        level = level_of_variant[variants.of_case]
        if item.is_of_cases:
            raised = item.at_levels(values_of(cases, item.attribute), level)
            cases = cases.with_columns(raised.alias(item.attribute))
        else:
            raised = item.at_levels(values_of(events, item.attribute), level[log.case_of])
            events = events.with_columns(raised.alias(item.attribute))
    return replace(log, events=events, cases=cases)


def _stays_raw(item: QuasiIdentifier, table: pl.DataFrame) -> bool:
    """Whether all values of the whole log stay as they are, so that their type does, too.

    What a batch holds must not decide it. A case without events has no values of events.
    """
    level = values_of(table, item.table_column)
    if not item.is_of_cases:
        level = level.filter(table[VARIANT].list.len() > 0)
    return item.raw and not (level > 0).any()

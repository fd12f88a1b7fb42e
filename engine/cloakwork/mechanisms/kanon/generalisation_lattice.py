"""The lattice of full-domain generalisation: every combination of one level an attribute, how much
it loses, and how large its groups are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.naming import named, values_of
from cloakwork.mechanisms.aggregates import CASES, UNIT
from cloakwork.mechanisms.kanon.quasi_identifiers import QuasiIdentifier


@dataclass(frozen=True, slots=True)
class LatticeNode:
    """One level for each attribute.

    ``loss``: shares of entropy that are lost, added up. ``codes``: for each attribute a number for
    each row, int64, shape (rows,), which rows share whose values agree at its level.
    """

    levels: tuple[int, ...]
    loss: float
    codes: tuple[Ints, ...]


@dataclass(frozen=True, slots=True)
class _AttributeLevel:
    """One attribute at one level: the share of entropy that is lost, and the codes of the rows."""

    loss: float
    codes: Ints


def nodes_by_loss(attributes: Sequence[QuasiIdentifier], rows: pl.DataFrame) -> list[LatticeNode]:
    """All nodes, the one that loses least first; ties: the lower levels.

    ``rows``: as ``CombinationCounts`` gives them.
    """
    levels_by_attribute = [_measured_levels(item, rows) for item in attributes]
    nodes = []
    for levels in product(*(range(item.levels) for item in attributes)):
        chosen = [
            measured[level] for measured, level in zip(levels_by_attribute, levels, strict=True)
        ]
        loss = sum(each.loss for each in chosen)
        nodes.append(LatticeNode(levels, loss, tuple(each.codes for each in chosen)))
    # Rounded, so that round-off does not decide between nodes that lose alike.
    return sorted(nodes, key=lambda node: (round(node.loss, 12), node.levels))


def _measured_levels(item: QuasiIdentifier, rows: pl.DataFrame) -> list[_AttributeLevel]:
    """Every level of one attribute, finest first."""
    cases = rows[CASES].to_numpy()
    values = values_of(rows, item.table_column)
    codes_by_level = [_codes_at_level(item, values, level) for level in range(item.levels)]
    entropies = [_entropy(codes, cases) for codes in codes_by_level]
    finest = entropies[0]
    # Where nothing differs at the finest level, there is nothing to lose.
    losses = [1 - entropy / finest if finest else 0.0 for entropy in entropies]
    return [
        _AttributeLevel(loss, codes) for loss, codes in zip(losses, codes_by_level, strict=True)
    ]


def _codes_at_level(item: QuasiIdentifier, values: pl.Series, level: int) -> Ints:
    """A number for each row that rows share if and only if their values agree at ``level``."""
    if isinstance(values.dtype, pl.List):
        raised = item.list_members_at_level(values, level)
    else:
        raised = item.at_level(values, level)
    raised_rows = raised.to_frame("value")
    distinct = raised_rows.unique(maintain_order=True).with_row_index("code")
    joined = raised_rows.join(
        distinct, on="value", how="left", nulls_equal=True, maintain_order="left"
    )
    return joined["code"].to_numpy().astype(np.int64)


def _entropy(codes: Ints, cases: Ints) -> float:
    """The entropy, in nats, of the codes of rows that stand for so many cases each."""
    weight = np.bincount(codes, cases)
    share = weight[weight > 0] / weight.sum()
    return float(-(share * np.log(share)).sum())


def smallest_groups(rows: pl.DataFrame, variant: Ints, node: LatticeNode) -> Ints:
    """The least size of any group of each variant, in cases or distinct units: int64, shape
    (variants,).

    ``variant``: int64, shape (rows,); the variant of each row, from 0 without gaps.
    """
    keys = {"variant": variant}
    for number, codes in enumerate(node.codes):
        keys[f"key {number}"] = codes
    frame = pl.DataFrame({CASES: rows[CASES], **keys})
    size = pl.col(CASES).sum()
    if UNIT in rows.columns:
        frame = frame.with_columns(rows[UNIT])
        # A case without a unit counts nowhere.
        size = pl.col(UNIT).drop_nulls().n_unique()
    groups = frame.group_by(named(*keys)).agg(size.alias("size"))
    smallest = groups.group_by("variant").agg(pl.col("size").min())
    return smallest.sort("variant")["size"].to_numpy().astype(np.int64)

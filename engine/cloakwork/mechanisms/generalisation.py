"""Coarser values: groups of a generalisation tree, and intervals of numbers."""

from collections.abc import Mapping
from itertools import pairwise

import polars as pl
from pydantic import JsonValue

from cloakwork.base.facts import leaves_of_tree


def groups_at(
    values: pl.Series,
    hierarchy: Mapping[str, JsonValue],
    level: int,
) -> pl.Series:
    """Each value's group at depth ``level`` of a generalisation tree: String; what the tree lacks
    becomes null.
    """
    # Values are compared as texts, as the tree has them.
    group_of_value = ancestors(hierarchy, level)
    raised = values.cast(pl.String).replace_strict(
        list(group_of_value.keys()),
        list(group_of_value.values()),
        default=None,
        return_dtype=pl.String,
    )
    return raised.alias(values.name)


def intervals(values: pl.Series, edges: tuple[float, ...]) -> pl.Series:
    """Half-open intervals ``[a, b)``; values outside all of them, and values that are no numbers,
    become null.
    """
    numbers = values.cast(pl.Float64, strict=False)
    # Null and NaN count as below all edges, where the label is null.
    comparable = numbers.fill_null(float("-inf")).fill_nan(float("-inf"))
    # How many edges are at most the value: 0 before the first, all behind the last.
    edges_passed = pl.Series(edges, dtype=pl.Float64).search_sorted(comparable, "right")
    between = [f"[{low:g}, {high:g})" for low, high in pairwise(edges)]
    labels = pl.Series([None, *between, None], dtype=pl.String)
    return labels.gather(edges_passed).alias(values.name)


def ancestors(hierarchy: Mapping[str, JsonValue], level: int) -> dict[str, str]:
    """For each value (leaf) of a generalisation tree, its group at depth ``level`` (0: the root,
    named ``*``).

    A value that lies at that depth or above it stands under its lowest group: no value is released
    as if it were one.
    """
    return {
        value: groups[min(level, len(groups) - 1)] for value, groups in _groups(hierarchy).items()
    }


def deepest_group(hierarchy: Mapping[str, JsonValue]) -> int:
    """The depth of the lowest group of a generalisation tree."""
    return max(map(len, _groups(hierarchy).values()), default=1) - 1


def _groups(hierarchy: Mapping[str, JsonValue]) -> dict[str, list[str]]:
    """The groups in which each value of a generalisation tree stands, from the root down."""
    found = {}
    for place, value in leaves_of_tree(hierarchy, ()):
        # Names of groups are text; where a value stands in its list is a number.
        groups = ["*", *(step for step in place if isinstance(step, str))]
        # What holds nothing is a value itself.
        found[groups.pop() if value is None else str(value)] = groups
    return found

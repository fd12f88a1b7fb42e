"""Coarser values: groups of a generalisation tree, and intervals of numbers."""

from collections.abc import Mapping
from itertools import pairwise

import polars as pl
from pydantic import JsonValue


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
    from anytree import Node, PreOrderIter

    root = Node("*")
    _add_children(root, hierarchy)
    groups: dict[str, str] = {}
    for node in PreOrderIter(root):
        # An empty tree has the root for its only leaf.
        if node.is_leaf and node is not root:
            lowest_group = node.depth - 1
            groups[node.name] = node.path[min(level, lowest_group)].name
    return groups


def _add_children(parent: object, children: JsonValue | Mapping[str, JsonValue]) -> None:
    """Add nested mappings, lists and plain values below ``parent``."""
    from anytree import Node

    if isinstance(children, Mapping):
        for name, below in children.items():
            _add_children(Node(str(name), parent=parent), below)
    elif isinstance(children, list):
        for child in children:
            # Mappings in a list are groups beside its values.
            if isinstance(child, dict):
                _add_children(parent, child)
            else:
                Node(str(child), parent=parent)
    elif children is not None:
        Node(str(children), parent=parent)


def tree_height(tree: JsonValue | Mapping[str, JsonValue]) -> int:
    """Edges from the root of a generalisation tree to its deepest value."""
    if tree is None:
        return 0
    if isinstance(tree, Mapping):
        return max((1 + tree_height(below) for below in tree.values()), default=0)
    if isinstance(tree, list):
        heights = [tree_height(item) if isinstance(item, Mapping) else 1 for item in tree]
        return max(heights, default=0)
    return 1

"""Coarser values: groups of a generalisation tree, and intervals of numbers."""

from collections.abc import Mapping
from itertools import pairwise

import polars as pl
from pydantic import JsonValue


def groups_at(values: pl.Series, hierarchy: Mapping[str, JsonValue], level: int) -> pl.Series:
    """Each value's group at depth ``level`` of a generalisation tree: String; what the tree lacks
    becomes null.
    """
    groups = ancestors(hierarchy, level)
    text = values.cast(pl.String)
    raised = text.replace_strict(
        list(groups), list(groups.values()), default=None, return_dtype=pl.String
    )
    return raised.alias(values.name)


def intervals(values: pl.Series, edges: tuple[float, ...]) -> pl.Series:
    """Half-open intervals ``[a, b)``; values outside all of them, and values that are no numbers,
    become null.
    """
    numbers = values.cast(pl.Float64, strict=False)
    labels = [None, *(f"[{low:g}, {high:g})" for low, high in pairwise(edges)), None]
    place = pl.Series(edges, dtype=pl.Float64).search_sorted(
        numbers.fill_null(float("-inf")).fill_nan(float("-inf")), "right"
    )
    return pl.Series(labels, dtype=pl.String).gather(place).alias(values.name)


def ancestors(hierarchy: Mapping[str, JsonValue], level: int) -> dict[str, str]:
    """For each value (leaf) of a generalisation tree, its group at depth ``level`` (0: the root,
    named ``*``).

    A value that lies at that depth or above it stands under its lowest group: no value is released
    as if it were one.
    """
    from anytree import Node, PreOrderIter

    root = Node("*")
    _grow(root, hierarchy)
    leaves = [node for node in PreOrderIter(root) if node.is_leaf]
    return {leaf.name: leaf.path[min(level, leaf.depth - 1)].name for leaf in leaves if leaf.depth}


def _grow(parent: object, children: JsonValue | Mapping[str, JsonValue]) -> None:
    """Hang nested mappings, lists and plain values below ``parent``."""
    from anytree import Node

    if isinstance(children, Mapping):
        for name, below in children.items():
            _grow(Node(str(name), parent=parent), below)
    elif isinstance(children, list):
        for child in children:
            _grow(parent, child) if isinstance(child, dict) else Node(str(child), parent=parent)
    elif children is not None:
        Node(str(children), parent=parent)


def height(tree: JsonValue | Mapping[str, JsonValue]) -> int:
    """Edges from the root of a generalisation tree to its deepest value."""
    if isinstance(tree, Mapping):
        return max((1 + height(below) for below in tree.values()), default=0)
    if isinstance(tree, list):
        return max((height(item) if isinstance(item, Mapping) else 1 for item in tree), default=0)
    return 0 if tree is None else 1

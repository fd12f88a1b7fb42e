"""Generalisation trees: nested groups of values."""

from collections.abc import Iterator
from typing import Any

Place = tuple[str | int, ...]
"""The way to a value: names of groups, and numbers in lists."""


def leaves_of_tree(tree: Any, steps: Place) -> Iterator[tuple[Place, Any]]:
    """The values of a generalisation tree with their places; an empty group yields itself."""
    if isinstance(tree, dict) and tree:
        for group, below in tree.items():
            yield from leaves_of_tree(below, (*steps, group))
    elif isinstance(tree, list) and tree:
        for index, below in enumerate(tree):
            place = (*steps, index)
            if isinstance(below, dict):
                yield from leaves_of_tree(below, place)
            else:
                yield place, below
    else:
        yield steps, tree

"""A noisy prefix tree becomes variants whose counts agree: post-processing, which reads no log."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.kernel import Randomness
from cloakwork_extras.trees.tree import Tree, TreeLevel

MOST_EVENTS: Final = 50_000_000
"""Events of one release; a tree of more is scaled down, so that noise alone cannot fill the memory.
"""


def consistent_variants(
    tree: Tree, most_cases: int | None, randomness: Randomness
) -> tuple[list[tuple[str, ...]], Ints]:
    """Variants of a noisy tree, and whole counts that agree with one another: int64, at least 1.

    A prefix without any kept END below it is left out. From the top down, the cases of a prefix are
    shared among what is left below it in proportion to the noisy counts: as many cases as begin
    with a prefix go on from it or end. All cases together are the noisy counts of the first level,
    at most ``most_cases``.

    Shares are whole by systematic rounding: cases lie side by side on a line, in the tree's order,
    and one is taken at every integer from a random start; every prefix gets its share, up or down
    to the next integer, and on average exactly.
    """
    levels = tree.levels
    has_leaf = _has_leaf_below(levels)
    if not has_leaf[0].any():
        return [], np.zeros(0, np.int64)
    total = float(levels[0].noisy.sum())
    if most_cases:
        total = min(total, float(most_cases))
    leaves = _allocate_cases(levels, has_leaf, total)
    # A leaf at depth d is the END of a variant of d events.
    events = sum(float(share.sum()) * depth for depth, (_, share) in enumerate(leaves))
    shrink = min(1.0, MOST_EVENTS / max(events, 1.0))
    shift = float(randomness.uniform(np.array([1 << 53]))[0]) / (1 << 53)
    variants: list[tuple[str, ...]] = []
    counts: list[int] = []
    for depth, (start, share) in enumerate(leaves):
        # How many integers lie between the leaf's ends on the shifted line.
        first = np.floor(start * shrink + shift)
        last = np.floor((start + share) * shrink + shift)
        cases = (last - first).astype(np.int64)
        rows = np.flatnonzero(cases > 0)
        for path in _paths_of_leaves(levels, depth, rows):
            variants.append(tuple(tree.labels[code] for code in path))
        counts += cases[rows].tolist()
    return variants, np.array(counts, np.int64)


def _has_leaf_below(levels: Sequence[TreeLevel]) -> list[Bools]:
    """For each level's prefixes whether a kept END lies below them."""
    found: list[Bools] = []
    # From the bottom up: what a prefix has below it is known before itself.
    for depth in reversed(range(len(levels))):
        has_leaf = np.zeros(len(levels[depth].parent), bool)
        if depth + 1 < len(levels):
            below = levels[depth + 1]
            below_has_leaf = found[-1]
            has_leaf[below.leaf_parent] = True
            has_leaf[below.parent[below_has_leaf]] = True
        found.append(has_leaf)
    return found[::-1]


def _allocate_cases(
    levels: Sequence[TreeLevel], has_leaf: Sequence[Bools], total: float
) -> list[tuple[Floats, Floats]]:
    """Where on the line each leaf's cases start and how many there are, level by level; ``total``
    lie on it.
    """
    # Of each prefix of the level above: where its cases start, and how many there are.
    start, mass = np.zeros(1), np.array([total])
    leaves: list[tuple[Floats, Floats]] = []
    for level, with_leaf in zip(levels, has_leaf, strict=True):
        rows = np.flatnonzero(with_leaf)
        ends = len(level.leaf_parent)
        # What a parent's cases are shared among: its END, if kept, and the prefixes below it.
        parent = np.concatenate([level.leaf_parent, level.parent[rows]])
        weight = np.concatenate([level.leaf_noisy, level.noisy[rows]]).astype(np.float64)
        weight_of_parent = np.bincount(parent, weights=weight, minlength=len(mass))
        share = mass[parent] * weight / weight_of_parent[parent]
        begins = start[parent] + _running_sum_within(parent, share)
        leaves.append((begins[:ends], share[:ends]))
        start, mass = np.zeros(len(with_leaf)), np.zeros(len(with_leaf))
        start[rows], mass[rows] = begins[ends:], share[ends:]
    return leaves


def _running_sum_within(group: Ints, values: Floats) -> Floats:
    """For each value the sum of those that stand before it in its ``group``: float64."""
    order = np.argsort(group, kind="stable")
    grouped = group[order]
    # The running sum of all values, less that at the first one of the same group.
    before = np.cumsum(values[order]) - values[order]
    first = np.searchsorted(grouped, grouped)
    found = np.empty(len(values))
    found[order] = before - before[first]
    return found


def _paths_of_leaves(levels: Sequence[TreeLevel], depth: int, rows: Ints) -> Ints:
    """The variants (rows, depth) that end in these leaves of the level at ``depth``."""
    paths = np.empty((len(rows), depth), np.int64)
    prefix = levels[depth].leaf_parent[rows]
    # Upwards, from each prefix to the one above it.
    for above in reversed(range(depth)):
        paths[:, above] = levels[above].symbol[prefix]
        prefix = levels[above].parent[prefix]
    return paths

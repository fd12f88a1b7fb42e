"""The minimal deterministic acyclic automaton (DAFSA) of some variants, whose edges Amun and Libra
put noise on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cloakwork.arrays import Ints
from cloakwork.noise import Noise

Variant = Sequence[str]


@dataclass(frozen=True, slots=True)
class Dafsa:
    """``edges_of[v]``: int64, the edges that variant v passes; ``variants_of[e]``: int64, the
    variants that pass edge e.

    Two prefixes lead to one state when the same endings may follow them. No variant passes an
    edge twice.
    """

    edges_of: tuple[Ints, ...]
    variants_of: tuple[Ints, ...]


def build_dafsa(variants: Sequence[Variant]) -> Dafsa:
    """The automaton of ``variants`` (distinct); in time linear in their events."""
    paths, children, ends = _build_prefix_tree(variants)
    states: dict[tuple[bool, tuple[tuple[str, int], ...]], int] = {}
    state_of = [0] * len(children)
    # A prefix is longer than those before it on its path, so the last ones get their state first.
    for node in range(len(children) - 1, -1, -1):
        following = sorted((label, state_of[child]) for label, child in children[node].items())
        continuations = (node in ends, tuple(following))
        # Two nodes with the same continuations are one state: that is what makes it minimal.
        state_of[node] = states.setdefault(continuations, len(states))
    edges: dict[tuple[int, str], int] = {}
    edges_of = []
    for path, variant in zip(paths, variants, strict=True):
        passed = [(state_of[node], label) for node, label in zip(path, variant, strict=False)]
        numbers = [edges.setdefault(edge, len(edges)) for edge in passed]
        edges_of.append(np.array(numbers, np.int64))
    return Dafsa(tuple(edges_of), _variants_by_edge(edges_of, len(edges)))


def _variants_by_edge(edges_of: Sequence[Ints], edges: int) -> tuple[Ints, ...]:
    """For each edge the variants that pass it, ascending."""
    if not edges:
        return ()
    passed = np.concatenate(edges_of)
    variant = np.repeat(np.arange(len(edges_of)), [len(each) for each in edges_of])
    by_edge = variant[np.argsort(passed, kind="stable")]
    ends = np.cumsum(np.bincount(passed, minlength=edges))
    return tuple(np.split(by_edge, ends[:-1]))


def _build_prefix_tree(
    variants: Sequence[Variant],
) -> tuple[list[list[int]], list[dict[str, int]], set[int]]:
    """The prefix tree: the nodes on each variant's path, the children of each node, and the nodes
    where one ends.
    """
    children: list[dict[str, int]] = [{}]
    ends: set[int] = set()
    paths: list[list[int]] = []
    for variant in variants:
        path = [0]
        for label in variant:
            if label not in children[path[-1]]:
                children[path[-1]][label] = len(children)
                children.append({})
            path.append(children[path[-1]][label])
        ends.add(path[-1])
        paths.append(path)
    return paths, children, ends


def draw_duplicates(automaton: Dafsa, required_passes: Ints, noise: Noise) -> Ints:
    """How often each variant is duplicated (int64) until every edge e is passed at least
    ``required_passes[e]`` times.

    Edges in random order; one that still lacks passes gets ``required_passes[e]`` variants at
    random among those that pass it (Elkoumy, Pankova and Dumas 2022, section 5).
    """
    duplicates = np.zeros(len(automaton.edges_of), np.int64)
    passed = np.zeros(len(required_passes), np.int64)
    for edge in noise.permutation(len(required_passes)):
        required = required_passes[edge]
        if passed[edge] >= required:
            continue
        candidates = automaton.variants_of[edge]
        drawn = candidates[noise.uniform(np.full(required, len(candidates)))]
        for variant, times in zip(*np.unique(drawn, return_counts=True), strict=True):
            duplicates[variant] += times
            passed[automaton.edges_of[variant]] += times
    return duplicates

"""The minimal deterministic acyclic automaton (DAFSA) of some variants, whose edges Amun and Libra
put noise on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.kernel import Randomness

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
    state_of = _merge_equal_nodes(children, ends)
    # Edges are numbered in the order in which variants first pass them.
    number_of: dict[tuple[int, str], int] = {}
    edges_of = []
    for path, variant in zip(paths, variants, strict=True):
        numbers = []
        # A path holds a node before each event, and the last one, which nothing leaves.
        for node, label in zip(path[:-1], variant, strict=True):
            edge = (state_of[node], label)
            numbers.append(number_of.setdefault(edge, len(number_of)))
        edges_of.append(np.array(numbers, np.int64))
    return Dafsa(tuple(edges_of), _variants_by_edge(edges_of, len(number_of)))


def _merge_equal_nodes(children: Sequence[dict[str, int]], ends: set[int]) -> list[int]:
    """The state of each node of the prefix tree: two nodes with the same continuations are one
    state, which makes the automaton minimal.
    """
    states: dict[tuple[bool, tuple[tuple[str, int], ...]], int] = {}
    state_of = [0] * len(children)
    # A child has a higher number than its parent: backwards, children get their state first.
    for node in reversed(range(len(children))):
        following = [(label, state_of[child]) for label, child in children[node].items()]
        continuations = (node in ends, tuple(sorted(following)))
        state_of[node] = states.setdefault(continuations, len(states))
    return state_of


def _variants_by_edge(edges_of: Sequence[Ints], edges: int) -> tuple[Ints, ...]:
    """For each edge the variants that pass it, ascending."""
    if not edges:
        return ()
    edge = np.concatenate(edges_of)
    lengths = [len(numbers) for numbers in edges_of]
    variant = np.repeat(np.arange(len(edges_of)), lengths)
    # Pairs of edge and variant sorted by edge, and cut where the next edge begins; the stable sort
    # leaves variants ascending.
    by_edge = variant[np.argsort(edge, kind="stable")]
    cuts = np.cumsum(np.bincount(edge, minlength=edges))[:-1]
    return tuple(np.split(by_edge, cuts))


def _build_prefix_tree(
    variants: Sequence[Variant],
) -> tuple[list[list[int]], list[dict[str, int]], set[int]]:
    """The prefix tree: the nodes on each variant's path, the children of each node, and the nodes
    where one ends.
    """
    root = 0
    children: list[dict[str, int]] = [{}]
    ends: set[int] = set()
    paths: list[list[int]] = []
    for variant in variants:
        node = root
        path = [node]
        for label in variant:
            if label not in children[node]:
                children[node][label] = len(children)
                children.append({})
            node = children[node][label]
            path.append(node)
        ends.add(node)
        paths.append(path)
    return paths, children, ends


def draw_duplicates(automaton: Dafsa, required_passes: Ints, noise: Randomness) -> Ints:
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
        places = noise.uniform(np.full(required, len(candidates)))
        drawn, often = np.unique(candidates[places], return_counts=True)
        for variant, times in zip(drawn, often, strict=True):
            duplicates[variant] += times
            passed[automaton.edges_of[variant]] += times
    return duplicates

"""The minimal deterministic acyclic automaton (DAFSA) of some variants, whose edges Amun and Libra
put noise on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cloakwork.noise import Noise

Variant = Sequence[str]


@dataclass(frozen=True, slots=True)
class Dafsa:
    """``edges_of[v]``: int64, the edges that variant v passes; ``variants_of[e]``: int64, the
    variants that pass edge e.

    Two beginnings lead to one state when the same endings may follow them. No variant passes an
    edge twice.
    """

    edges_of: tuple[NDArray[np.int64], ...]
    variants_of: tuple[NDArray[np.int64], ...]


def build_dafsa(variants: Sequence[Variant]) -> Dafsa:
    """The automaton of ``variants`` (distinct); in time linear in their events."""
    paths, children, ends = _build_prefix_tree(variants)
    states: dict[tuple[bool, tuple[tuple[str, int], ...]], int] = {}
    state_of = [0] * len(children)
    # A prefix is longer than those before it on its path, so the last ones are settled first.
    for node in range(len(children) - 1, -1, -1):
        following = tuple(
            sorted((label, state_of[child]) for label, child in children[node].items())
        )
        state_of[node] = states.setdefault((node in ends, following), len(states))
    edges: dict[tuple[int, str], int] = {}
    edges_of = tuple(
        np.array(
            [
                edges.setdefault((state_of[node], label), len(edges))
                for node, label in zip(path, variant, strict=False)
            ],
            np.int64,
        )
        for path, variant in zip(paths, variants, strict=True)
    )
    passed = np.concatenate([*edges_of, np.zeros(0, np.int64)])
    by = np.repeat(np.arange(len(edges_of)), [len(each) for each in edges_of])[
        np.argsort(passed, kind="stable")
    ]
    cuts = np.cumsum(np.bincount(passed, minlength=len(edges)))[:-1]
    return Dafsa(edges_of, tuple(np.split(by, cuts)) if edges else ())


def _build_prefix_tree(
    variants: Sequence[Variant],
) -> tuple[list[list[int]], list[dict[str, int]], set[int]]:
    """The prefix tree: the nodes on each variant's path, the children of each node, and the nodes
    where one ends.
    """
    children: list[dict[str, int]] = [{}]
    ends, paths = set[int](), list[list[int]]()
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


def draw_duplicates(
    automaton: Dafsa, required_passes: NDArray[np.int64], noise: Noise
) -> NDArray[np.int64]:
    """How often each variant is picked (int64) until every edge e is passed at least ``required_passes[e]``
    times.

    Edges in random order; one that still lacks picks gets ``required_passes[e]`` variants at random among
    those that pass it (Elkoumy, Pankova and Dumas 2022, section 5).
    """
    duplicates, passed = (
        np.zeros(len(automaton.edges_of), np.int64),
        np.zeros(len(required_passes), np.int64),
    )
    for edge in noise.permutation(len(required_passes)):
        if passed[edge] >= required_passes[edge]:
            continue
        among = automaton.variants_of[edge]
        chosen = among[noise.uniform(np.full(required_passes[edge], len(among)))]
        for variant, times in zip(*np.unique(chosen, return_counts=True), strict=True):
            duplicates[variant] += times
            passed[automaton.edges_of[variant]] += times
    return duplicates

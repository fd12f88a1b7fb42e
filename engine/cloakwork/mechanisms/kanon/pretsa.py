"""PRETSA: k-anonymity by cutting rare branches of the prefix tree and moving their cases to the
nearest variant.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from cloakwork.mechanisms.base import Theorem
from cloakwork.mechanisms.kanon.family import K_ANONYMOUS, Anonymiser, FamilyParams
from cloakwork.mechanisms.kanon.problem import Assignment, Problem, Scope, Solution


class PretsaParams(FamilyParams):
    """As for the whole family; it has no options of its own."""


class Pretsa(Anonymiser[PretsaParams]):
    """Greedy k-anonymisation of the control flow on the prefix tree.

    The cases of a log form a tree of prefixes; a node counts the cases whose course of events
    begins with it. The nodes are visited in pre-order (siblings by label); a node with fewer than k
    cases is cut: the cases below it move, one variant after the other, to the most similar variant
    that still has cases (Levenshtein distance from the case's *original* variant; ties: the most
    frequent, then the lexicographically first). A cut may leave an ancestor with fewer than k
    cases; it is then cut in its turn, until no node violates. Scope ``variants`` appends an END
    marker to every sequence, so that complete variants are nodes too.

    **Why it is k-anonymous.** The walk ends, since every cut empties a node for good: cases only
    move to variants that still have some, which no cut node holds. It ends with every node of a
    remaining variant at k or more: a visited node loses cases only when a descendant is cut, and
    then it is looked at again. A log of n >= k cases never runs out of targets, for if one variant
    held all cases, all its nodes would count n.
    """

    name: ClassVar[str] = "kanon/pretsa"
    summary: ClassVar[str] = "Moves cases with a rare variant to the most similar frequent one."
    theorem: ClassVar[Theorem] = Theorem(
        statement=K_ANONYMOUS,
        source="Fahrenkrog-Petersen, van der Aa and Weidlich, PRETSA: Event Log Sanitization for Privacy-aware Process "
        "Discovery, ICPM 2019, algorithm 1 without t-closeness; termination and k proved in this class's docstring",
    )
    Params = PretsaParams

    def solve(
        self, params: PretsaParams, problem: Problem
    ) -> tuple[Solution, Mapping[str, JsonValue]]:
        """Walk the tree; deterministic."""
        return greedy(problem), {}


def greedy(problem: Problem) -> Solution:
    """PRETSA's answer to ``problem``, which must be feasible."""
    target = _Walk(problem).run()
    return Solution(Assignment.whole(problem, target), None, "the greedy walk ended")


@dataclass(frozen=True, slots=True)
class _PrefixTree:
    """The prefixes of lexicographically sorted sequences, numbered in pre-order, the root left out.

    - ``parent``: int64, shape (nodes,); -1 below the root.
    - ``after``: int64, shape (nodes,); the first node behind the subtree.
    - ``first``, ``last``: int64, shape (nodes,); the sequences ``first:last`` begin with the node.
    - ``leaf``: int64, shape (sequences,); the last node of each sequence, -1 for an empty one.
    """

    parent: NDArray[np.int64]
    after: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    leaf: NDArray[np.int64]


def _prefix_tree(texts: tuple[str, ...], scope: Scope) -> _PrefixTree:
    """Build the tree; END, which scope ``variants`` appends, sorts before every label, as the
    sorted texts do.
    """
    parent: list[int] = []
    first: list[int] = []
    after: list[int] = []
    last: list[int] = []
    leaf: list[int] = []
    path: list[int] = []
    previous = ""

    def close(depth: int) -> None:
        for node in path[depth:]:
            after[node], last[node] = len(parent), len(leaf)
        del path[depth:]

    for row, text in enumerate(texts):
        close(_shared_length(previous, text))
        for _ in range(len(text) - len(path) + (scope == "variants")):
            parent.append(path[-1] if path else -1)
            first.append(row)
            after.append(0)
            last.append(0)
            path.append(len(parent) - 1)
        leaf.append(path[-1] if path else -1)
        previous = text
    close(0)
    return _PrefixTree(
        *(np.array(column, np.int64) for column in (parent, after, first, last, leaf))
    )


def _shared_length(left: str, right: str) -> int:
    """How many characters two texts have in common at their beginning."""
    for position, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return position
    return min(len(left), len(right))


class _Walk:
    """One run of the greedy walk over a prefix tree; its arrays change as cases move.

    ``cases``, ``mass``: int64, shape (variants,); what each variant holds now. ``count``: its mass,
    for each node; ``alive``: how many variants below each node hold cases. ``guests[v]``: the
    variants whose cases are on ``v`` now.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.tree = problem, _prefix_tree(problem.texts, problem.scope)
        self.cases, self.mass = problem.cases.copy(), problem.mass.copy()
        before = np.concatenate([[0], np.cumsum(problem.mass)])
        self.count = before[self.tree.last] - before[self.tree.first]
        self.alive = self.tree.last - self.tree.first
        self.target = np.arange(len(problem.texts))
        self.guests: list[list[int]] = [[variant] for variant in range(len(problem.texts))]

    def run(self) -> NDArray[np.int64]:
        """Cut the first violating node in pre-order until none is left; the variant that each
        variant ends on.
        """
        node, nodes = 0, len(self.count)
        while node < nodes:
            if self.alive[node] == 0:
                node = int(self.tree.after[node])
            elif self.count[node] >= self.problem.k:
                node += 1
            else:
                self._cut(node)
                violating = self._first_violating_ancestor(node)
                node = int(self.tree.after[node]) if violating is None else violating
        return self.target

    def _cut(self, node: int) -> None:
        below = range(self.tree.first[node], self.tree.last[node])
        movers = sorted(
            guest for variant in below if self.cases[variant] for guest in self.guests[variant]
        )
        for variant in below:
            if self.cases[variant]:
                self._add(variant, -int(self.cases[variant]), -int(self.mass[variant]))
            self.guests[variant] = []
        for mover in movers:
            self._move(mover)

    def _move(self, mover: int) -> None:
        nearest, _ = self.problem.distances.nearest(mover, np.flatnonzero(self.cases))
        target = int(nearest[np.argmax(self.cases[nearest])])
        self._add(target, int(self.problem.cases[mover]), int(self.problem.mass[mover]))
        self.guests[target].append(mover)
        self.target[mover] = target

    def _add(self, variant: int, cases: int, mass: int) -> None:
        """Add cases to a variant, or take all of them (both negative)."""
        self.cases[variant] += cases
        self.mass[variant] += mass
        node = self.tree.leaf[variant]
        while node >= 0:
            self.count[node] += mass
            self.alive[node] -= cases < 0
            node = self.tree.parent[node]

    def _first_violating_ancestor(self, node: int) -> int | None:
        violating = None
        ancestor = int(self.tree.parent[node])
        while ancestor >= 0:
            if self.alive[ancestor] and self.count[ancestor] < self.problem.k:
                violating = ancestor
            ancestor = int(self.tree.parent[ancestor])
        return violating

"""PRETSA: k-anonymity by cutting rare branches of the prefix tree and moving their cases to the
nearest variant.
"""

from typing import ClassVar

import numpy as np

from cloakwork.base.arrays import Ints, offsets_of
from cloakwork.base.frozen import frozen
from cloakwork.mechanisms.base import Theorem
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.family import K_ANONYMOUS, Anonymiser, FamilyParams
from cloakwork.mechanisms.kanon.problem import Assignment, KAnonymityProblem, Scope, Solution


class PretsaParams(FamilyParams):
    """As for the whole family; it has no options of its own."""


class Pretsa(Anonymiser[PretsaParams]):
    """Greedy k-anonymisation of the control flow on the prefix tree.

    The cases of a log form a tree of prefixes; a node counts the cases whose activity sequence
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
        source="Fahrenkrog-Petersen, van der Aa and Weidlich, PRETSA: Event Log Sanitization for "
        "Privacy-aware Process Discovery, ICPM 2019, algorithm 1 without t-closeness; termination "
        "and k proved in this class's docstring",
    )
    Params = PretsaParams

    def solve(
        self,
        params: PretsaParams,
        problem: KAnonymityProblem,
        deadline: Deadline,
    ) -> Solution:
        """Walk the tree; deterministic. Raises ``OutOfTime`` where ``deadline`` is over before."""
        target = _TreeWalk(problem, deadline).run()
        assignment = Assignment.of_targets(problem, target)
        return Solution(assignment, None, "the greedy walk ended")


@frozen
class _PrefixTree:
    """The prefixes of lexicographically sorted sequences, numbered in pre-order, the root left out.

    - ``parent``: int64, shape (nodes,); -1 below the root.
    - ``subtree_end``: int64, shape (nodes,); the first node behind the subtree.
    - ``first``, ``last``: int64, shape (nodes,); the sequences ``first:last`` begin with the node.
    - ``leaf``: int64, shape (sequences,); the last node of each sequence, -1 for an empty one.
    """

    parent: Ints
    subtree_end: Ints
    first: Ints
    last: Ints
    leaf: Ints


def _build_prefix_tree(texts: tuple[str, ...], scope: Scope) -> _PrefixTree:
    """END, which scope ``variants`` appends, sorts before every label, as the sorted texts do."""
    parent: list[int] = []
    first: list[int] = []
    subtree_end: list[int] = []
    last: list[int] = []
    leaf: list[int] = []
    path: list[int] = []
    previous = ""

    def close_nodes(depth: int) -> None:
        for node in path[depth:]:
            subtree_end[node], last[node] = len(parent), len(leaf)
        del path[depth:]

    for row, text in enumerate(texts):
        letters = enumerate(zip(previous, text, strict=False))
        differing = (depth for depth, (one, other) in letters if one != other)
        close_nodes(next(differing, min(len(previous), len(text))))
        for _ in range(len(text) - len(path) + (scope == "variants")):
            parent.append(path[-1] if path else -1)
            first.append(row)
            # Both are set when the node closes.
            subtree_end.append(0)
            last.append(0)
            path.append(len(parent) - 1)
        leaf.append(path[-1] if path else -1)
        previous = text
    close_nodes(0)
    columns = (parent, subtree_end, first, last, leaf)
    return _PrefixTree(*(np.array(column, np.int64) for column in columns))


class _TreeWalk:
    """One run of the greedy walk over a prefix tree; its arrays change as cases move.

    ``cases``, ``mass``: int64, shape (variants,); what each variant holds now. ``mass_below``: the
    mass of each node; ``occupied_below``: how many variants below it hold cases.
    ``variants_placed_on[v]``: the variants whose cases are on ``v`` now.
    """

    def __init__(self, problem: KAnonymityProblem, deadline: Deadline) -> None:
        variants = len(problem.texts)
        self.problem, self.deadline = problem, deadline
        self.tree = _build_prefix_tree(problem.texts, problem.scope)
        self.cases, self.mass = problem.cases.copy(), problem.mass.copy()
        mass_before = offsets_of(problem.mass)
        self.mass_below = mass_before[self.tree.last] - mass_before[self.tree.first]
        self.occupied_below = self.tree.last - self.tree.first
        self.target = np.arange(variants)
        self.variants_placed_on: list[list[int]] = [[variant] for variant in range(variants)]

    def run(self) -> Ints:
        """Cut the first violating node in pre-order until none is left; where each variant ends."""
        node, nodes = 0, len(self.mass_below)
        while node < nodes:
            if self.occupied_below[node] == 0:
                node = int(self.tree.subtree_end[node])
            elif self.mass_below[node] >= self.problem.k:
                node += 1
            else:
                self._cut_branch(node)
                # Of ancestors that now hold fewer than k, the one nearest to the root is next.
                ancestor, node = int(self.tree.parent[node]), int(self.tree.subtree_end[node])
                while ancestor >= 0:
                    if self.occupied_below[ancestor] and self.mass_below[ancestor] < self.problem.k:
                        node = ancestor
                    ancestor = int(self.tree.parent[ancestor])
        return self.target

    def _cut_branch(self, node: int) -> None:
        """Move the cases of all variants below ``node``, by original variant in order."""
        problem = self.problem
        moved: list[int] = []
        # All are taken away before any moves: none may move to where another is taken from.
        for variant in range(self.tree.first[node], self.tree.last[node]):
            if self.cases[variant]:
                moved += self.variants_placed_on[variant]
                self._add_cases(variant, -int(self.cases[variant]), -int(self.mass[variant]))
                self.variants_placed_on[variant] = []
        for variant in sorted(moved):
            self.deadline.require_time()
            held = np.flatnonzero(self.cases)
            distances = problem.distances.between(np.array([variant]), held)[0]
            nearest = held[distances == distances.min()]
            # The most frequent; of equally frequent ones the first, which ``argmax`` gives.
            target = int(nearest[np.argmax(self.cases[nearest])])
            self._add_cases(target, int(problem.cases[variant]), int(problem.mass[variant]))
            self.variants_placed_on[target].append(variant)
            self.target[variant] = target

    def _add_cases(self, variant: int, cases: int, mass: int) -> None:
        """Add cases to a variant, or take all of them (both negative)."""
        self.cases[variant] += cases
        self.mass[variant] += mass
        node = self.tree.leaf[variant]
        while node >= 0:
            self.mass_below[node] += mass
            # Cases only ever come to a variant that holds some: one is emptied, none is filled.
            self.occupied_below[node] -= cases < 0
            node = self.tree.parent[node]

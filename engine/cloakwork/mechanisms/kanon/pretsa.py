"""PRETSA: k-anonymity by cutting rare branches of the prefix tree and moving their cases to the nearest variant."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, JsonValue

from cloakwork.errors import MechanismError
from cloakwork.facts import Facts
from cloakwork.guarantees import Guarantee, KAnonymity
from cloakwork.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.mechanisms.aggregates import CASES, VARIANT, VariantCounts
from cloakwork.mechanisms.base import Aggregate, Costless, Decision, MapCases, Offer, Proof, Refusal, Rewrite, Theorem
from cloakwork.mechanisms.kanon.rewriting import ASSIGNMENT_SCHEMA, SOURCE, TARGET, rewrite_cases
from cloakwork.mechanisms.kanon.sequences import EditDistances, encode
from cloakwork.noise import Noise
from cloakwork.quantities import Frozen

Scope = Literal["variants", "prefixes"]

_OTHER_KINDS: Final = {
    "t-closeness": "it bounds how many cases share a course of events, not what their attribute values reveal",
    "l-diversity": "it bounds how many cases share a course of events, not how varied their attribute values are",
    "confidence-bound": "it bounds groups of complete courses of events, not what partial background knowledge implies",
    "differential-privacy": "k-anonymity bounds group sizes; it cannot give differential privacy",
    "metric-privacy": "k-anonymity bounds group sizes; it leaves the values of kept events as they are",
    "local-dp": "k-anonymity bounds group sizes; it randomises no value",
}


class PretsaParams(Frozen):
    """``k``: least number of cases a class; ``scope``: classes are complete variants, or all their prefixes."""

    k: Annotated[int, Field(ge=2)]
    scope: Scope = "variants"


class Pretsa(Costless):
    """Greedy k-anonymisation of the control flow on the prefix tree.

    The cases of a log form a tree of prefixes; a node counts the cases whose course of events begins with it. The nodes
    are visited in pre-order (siblings by label); a node with fewer than k cases is cut: the cases below it move, one
    variant after the other, to the most similar variant that still has cases (Levenshtein distance from the case's
    *original* variant; ties: the most frequent, then the lexicographically first). A cut may leave an ancestor with
    fewer than k cases; it is then cut in its turn, until no node violates. Scope ``variants`` appends an END marker to
    every sequence, so that complete variants are nodes too.

    **Why it is k-anonymous.** The walk ends, since every cut empties a node for good: cases only move to variants that
    still have some, which no cut node holds. It ends with every node of a remaining variant at k or more: a visited
    node loses cases only when a descendant is cut, and then it is looked at again. A log of n >= k cases never runs out
    of targets, for if one variant held all cases, all its nodes would count n.

    **Edge cases.** Empty log: empty release. 0 < n < k: ``MechanismError``, no k-anonymous release of it exists.
    One variant only: unchanged. n = k: everything gathers on one variant (or, for prefixes, on one when they share no
    beginning). All variants unique: the last that stands takes all of a neighbourhood. A case without events is the
    empty variant: it has no prefixes and stays for scope ``prefixes``, and is a class like any other for ``variants``.
    """

    name: ClassVar[str] = "kanon/pretsa"
    summary: ClassVar[str] = "Moves cases with a rare course of events to the most similar frequent one."
    proof: ClassVar[Proof] = "proved"
    theorem: ClassVar[Theorem] = Theorem(
        statement="Every released variant (or every prefix of one) is a variant seen in the log and carried by at least k "
        "released cases, each made from a different case of the log; moved cases count like those that stayed.",
        source="Fahrenkrog-Petersen, van der Aa and Weidlich, PRETSA: Event Log Sanitization for Privacy-aware Process "
        "Discovery, ICPM 2019, algorithm 1 without t-closeness; termination and k proved in this class's docstring",
    )
    Params = PretsaParams

    def offer(self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]) -> Offer[PretsaParams] | Refusal:
        """Meet k-anonymity over the control flow, counted in cases."""
        if not isinstance(goal, KAnonymity):
            return Refusal("never", _OTHER_KINDS[goal.kind])
        if goal.over != (CONTROL_FLOW,):
            return Refusal("not_yet", "it covers control-flow alone; quasi-identifiers beside it come later")
        if goal.count == "units" and facts.unit.attribute is not None:
            return Refusal("not_yet", f"it counts cases; counting units by {facts.unit} comes later")
        if options:
            return Refusal("misconfigured", f"it has no options; got {', '.join(sorted(options))}")
        what = "course of events" if goal.scope == "variants" else "beginning of a course of events"
        why = f"moves cases until every {what} is carried by at least {goal.k} of them"
        return Offer(PretsaParams(k=goal.k, scope=goal.scope), why)

    def lineage(self, params: PretsaParams) -> Lineage:
        """Reads and writes the control flow; where inserted events lack values, the presence of values changes too."""
        return Lineage(reads=frozenset({CONTROL_FLOW}), writes=frozenset({CONTROL_FLOW, METADATA}), stability=None)

    def summarise(self, params: PretsaParams) -> Aggregate:
        """The variant histogram."""
        return VariantCounts()

    def decide(self, params: PretsaParams, summary: pl.DataFrame, noise: Noise) -> Decision:
        """Assign every variant of ``summary`` a target; deterministic.

        ``summary``: rows (variant, cases) as ``VariantCounts`` gives them. The table has one row a variant (``source``,
        ``target``, ``cases``). Raises ``MechanismError`` when the log holds some cases, but fewer than k.
        """
        cases = int(summary[CASES].sum())
        if 0 < cases < params.k:
            message = f"the log holds fewer than k = {params.k} cases; no k-anonymous release of it exists"
            raise MechanismError(self.name, message)
        texts = np.array(encode(summary[VARIANT]).texts, dtype=object)
        order = np.array(sorted(range(len(texts)), key=texts.__getitem__), np.int64)
        ordered, counts = tuple(texts[order]), summary[CASES].to_numpy()[order].astype(np.int64)
        end = _Walk(_prefix_tree(ordered, params.scope), ordered, counts.copy(), params.k).run()
        table = pl.DataFrame(
            {
                SOURCE: summary[VARIANT].gather(order),
                TARGET: summary[VARIANT].gather(order[end.target]),
                CASES: counts,
            },
            schema=ASSIGNMENT_SCHEMA,
        )
        return Decision(table, _figures(ordered, counts, end))

    def rewrite(self, params: PretsaParams, decision: Decision, noise: Noise) -> Rewrite:
        """Move the cases; a source has one target, so batches are independent."""
        return MapCases(lambda log: rewrite_cases(log, decision.table, noise, mechanism=self.name))


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
    """Build the tree; END, which scope ``variants`` appends, sorts before every label, as the sorted texts do."""
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
    return _PrefixTree(*(np.array(column, np.int64) for column in (parent, after, first, last, leaf)))


def _shared_length(left: str, right: str) -> int:
    """How many characters two texts have in common at their beginning."""
    for position, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return position
    return min(len(left), len(right))


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Where the walk ended.

    - ``target``: int64, shape (variants,); the variant that the cases of each variant end on.
    - ``distance``: int64, shape (variants,); Levenshtein distance to it.
    - ``held``: int64, shape (variants,); cases that end on each variant.
    - ``smallest``: cases of the least node that is left, None when nothing is.
    """

    target: NDArray[np.int64]
    distance: NDArray[np.int64]
    held: NDArray[np.int64]
    smallest: int | None


class _Walk:
    """One run of the greedy walk over a prefix tree; its arrays change as cases move.

    ``held``: int64, shape (variants,); cases that each variant has now. ``count``: the same for each node.
    ``guests[v]``: the original variants whose cases are on ``v`` now.
    """

    def __init__(self, tree: _PrefixTree, texts: tuple[str, ...], held: NDArray[np.int64], k: int) -> None:
        self.tree, self.distances, self.k = tree, EditDistances(texts), k
        self.size = held.copy()
        self.held = held
        before = np.concatenate([[0], np.cumsum(held)])
        self.count = before[tree.last] - before[tree.first]
        self.target = np.arange(len(texts))
        self.distance = np.zeros(len(texts), np.int64)
        self.guests: list[list[int]] = [[variant] for variant in range(len(texts))]

    def run(self) -> _Outcome:
        """Cut the first violating node in pre-order until none is left."""
        node, nodes = 0, len(self.count)
        while node < nodes:
            if self.count[node] == 0:
                node = int(self.tree.after[node])
            elif self.count[node] >= self.k:
                node += 1
            else:
                self._cut(node)
                violating = self._first_violating_ancestor(node)
                node = int(self.tree.after[node]) if violating is None else violating
        left = self.count[self.count > 0]
        return _Outcome(self.target, self.distance, self.held, int(left.min()) if len(left) else None)

    def _cut(self, node: int) -> None:
        below = range(self.tree.first[node], self.tree.last[node])
        movers = sorted(guest for variant in below if self.held[variant] for guest in self.guests[variant])
        for variant in below:
            self._add(variant, -int(self.held[variant]))
            self.guests[variant] = []
        for mover in movers:
            self._move(mover)

    def _move(self, mover: int) -> None:
        nearest, distance = self.distances.nearest(mover, np.flatnonzero(self.held))
        target = int(nearest[np.argmax(self.held[nearest])])
        self._add(target, int(self.size[mover]))
        self.guests[target].append(mover)
        self.target[mover], self.distance[mover] = target, distance

    def _add(self, variant: int, cases: int) -> None:
        self.held[variant] += cases
        node = self.tree.leaf[variant]
        while node >= 0:
            self.count[node] += cases
            node = self.tree.parent[node]

    def _first_violating_ancestor(self, node: int) -> int | None:
        violating = None
        ancestor = int(self.tree.parent[node])
        while ancestor >= 0:
            if 0 < self.count[ancestor] < self.k:
                violating = ancestor
            ancestor = int(self.tree.parent[ancestor])
        return violating


def _figures(texts: tuple[str, ...], counts: NDArray[np.int64], end: _Outcome) -> dict[str, JsonValue]:
    """What the internal report may tell; measured on the raw log, never public."""
    moved = end.target != np.arange(len(texts))
    return {
        "distance": int(end.distance @ counts),
        "cases": int(counts.sum()),
        "cases_moved": int(counts[moved].sum()),
        "variants_before": len(texts),
        "variants_after": int(np.count_nonzero(end.held)),
        "k_reached": end.smallest,
    }

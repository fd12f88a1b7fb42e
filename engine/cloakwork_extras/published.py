"""What mechanisms share that follow a paper whose privacy claim does not hold: they read the raw
log, and say so. And Amun as published: duplicate cases until every edge of an automaton of the log
carries its noise.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, TypeVar

import numpy as np
from pydantic import BaseModel, Field, JsonValue

from cloakwork.base.arrays import Ints
from cloakwork.base.costs import NonPrivate, PrivacyEvent, guessing_advantage
from cloakwork.base.facts import Facts
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.base.progress import say
from cloakwork.base.quantities import Frozen, Number
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Kernel, Randomness
from cloakwork.mechanisms.base import Offer, Options, Proof, Theorem
from cloakwork.mechanisms.steps import Measurement
from cloakwork.mechanisms.variants.family import NoOptions, VariantRelease

P = TypeVar("P", bound=BaseModel)


class PublishedRelease(VariantRelease[P]):
    """A release of variants as published: ``flaw`` says why no epsilon follows. It never
    satisfies a guarantee.
    """

    proof: ClassVar[Proof] = "published"
    flaw: ClassVar[str]

    def event(self, params: P, facts: Facts) -> PrivacyEvent:
        """No epsilon bounds it."""
        return NonPrivate(reason=self.flaw)

    def lineage(self, params: P) -> Lineage:
        """Reads the control flow as it is, and how many cases follow it; makes new cases."""
        return Lineage(
            reads=frozenset({CONTROL_FLOW, METADATA}),
            writes=frozenset({CONTROL_FLOW, METADATA}),
            generates=True,
        )


Variant = Sequence[str]


@frozen
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
        # An earlier duplicate may have brought this edge what it needs.
        required = required_passes[edge]
        if passed[edge] >= required:
            continue
        candidates = automaton.variants_of[edge]
        places = noise.uniform(np.full(required, len(candidates)))
        drawn, often = np.unique(candidates[places], return_counts=True)
        # A duplicate passes all edges of its variant, not only the one that lacked passes.
        for variant, times in zip(drawn, often, strict=True):
            duplicates[variant] += times
            passed[automaton.edges_of[variant]] += times
    return duplicates


class AmunPublishedParams(Frozen):
    """``published``: the epsilon that the paper claims for ``advantage``; noise of scale
    1/published on each edge.
    """

    advantage: Annotated[Number, Field(gt=0, lt=1)]
    published: Annotated[Number, Field(gt=0)]


class VariantAmunPublished(PublishedRelease[AmunPublishedParams]):
    """Put one-sided noise on every edge of the log's automaton, by duplicating random cases that
    pass it.

    Every true variant stays, with at least its true count; no variant is ever added. The paper's
    noise on timestamps, with an epsilon for each event taken from the data, is not part of this
    mechanism, which releases the control flow alone.
    """

    name: ClassVar[str] = "variants/amun-published"
    summary: ClassVar[str] = (
        "Duplicates cases as Amun was published; it is NOT differentially private."
    )
    theorem: ClassVar[Theorem] = Theorem(
        "Claimed: a guessing advantage g by noise |Laplace(1/epsilon)| on each DAFSA edge, epsilon "
        "= 2 ln((1+g)/(1-g)).",
        "Elkoumy, Pankova, Dumas 2022 (Amun), ACM Transactions on Management Information Systems",
    )
    Params = AmunPublishedParams
    flaw: ClassVar[str] = (
        "every variant of the source is released with at least its count: a unique variant shows "
        "that its owner is in the log"
    )

    def meet(
        self,
        goal: DifferentialPrivacy,
        facts: Facts,
        options: Options,
    ) -> Offer[AmunPublishedParams]:
        """The noise that the paper gives for this epsilon."""
        NoOptions.model_validate(options)
        params = AmunPublishedParams(
            advantage=guessing_advantage(goal.epsilon),
            published=goal.epsilon,
        )
        return Offer(
            params,
            f"duplicates cases; published as epsilon {goal.epsilon:g} "
            f"(guessing advantage {params.advantage:.3g}), which does not hold: {self.flaw}",
        )

    def measure(self, params: AmunPublishedParams, kernel: Kernel) -> Measurement:
        """Noise on the edges, and cases duplicated for it."""
        variants, cases = kernel.raw().by_variant()
        say(f"building the automaton of {len(variants):,} variants")
        automaton = build_dafsa(variants)
        edges = len(automaton.variants_of)
        noise = kernel.randomness
        required = np.abs(noise.laplace_values(1 / params.published, edges))
        added = draw_duplicates(automaton, required, noise)
        figures: dict[str, JsonValue] = {
            "edges of the automaton": edges,
            "cases duplicated": int(added.sum()),
        }
        return Measurement(variants, cases + added, figures)

"""The prefix tree and SaCoFa as they were published, for comparison: their claims do not hold, and
nothing rests on them.

Both spend epsilon on every level and never add it up, cut noise to whole numbers towards zero, and
take the activities from the log. SaCoFa also reads its rules off the log, and leaves real prefixes
that break them at their raw counts.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, JsonValue

from cloakwork.facts import Facts
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.mechanisms.base import Decision, Offer, Proof, Refusal, Theorem
from cloakwork.mechanisms.variants.family import VariantRelease, variant_table
from cloakwork.mechanisms.variants.prefix_tree import USUAL_LENGTH, labels_of
from cloakwork.mechanisms.variants.tree import Codes, Courses
from cloakwork.noise import Noise
from cloakwork.privacy_event import NonPrivate, PrivacyEvent
from cloakwork.quantities import Frozen, Number

Flags = NDArray[np.bool_]
USUAL_THRESHOLD: Final = 20


class PublishedTreeOptions(Frozen):
    """``length``: the papers' N, in events; ``threshold``: their P, in cases; ``prefixes``: most
    prefixes kept of one length, without which the published code may never end.
    """

    length: Annotated[int, Field(ge=1, le=10_000)] | None = None
    threshold: Annotated[int, Field(ge=1)] = USUAL_THRESHOLD
    prefixes: Annotated[int, Field(ge=1, le=100_000)] = 1_000


class PublishedSacofaOptions(PublishedTreeOptions):
    """``harmless_threshold``: what extensions that keep all rules must reach; ``bound``: broken
    rules that count, 1 for the binary score.
    """

    harmless_threshold: Annotated[int, Field(ge=1)] = 2
    bound: Annotated[int, Field(ge=1)] = 1


class PublishedTreeParams(Frozen):
    """``published``: the epsilon that the paper claims, and that is spent on each of ``length``
    levels; the rest as in the options.
    """

    published: Annotated[Number, Field(gt=0)]
    length: Annotated[int, Field(ge=1)]
    threshold: Annotated[int, Field(ge=1)]
    prefixes: Annotated[int, Field(ge=1)]


class PublishedSacofaParams(PublishedTreeParams):
    """``harmless_threshold`` and ``bound`` as in the options."""

    harmless_threshold: Annotated[int, Field(ge=1)]
    bound: Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True)
class Extensions:
    """All extensions of the kept ``paths`` (prefixes, depth) by a code (END last), prefix by
    prefix, with raw ``counts``.
    """

    paths: Codes
    counts: Codes
    letters: int

    @property
    def symbol(self) -> Codes:
        """What each appends."""
        return np.tile(np.arange(self.letters + 1), len(self.paths))


class PublishedPrefixTree(VariantRelease[PublishedTreeParams]):
    """Mannhardt et al.'s tree as coded: integer Laplace(1/epsilon) noise on every level, negative
    counts 0, pruned under P.

    ENDs are never pruned, and prefixes of full length are released as if they were whole courses.
    An empty log has no activities, so its release is empty.
    """

    name: ClassVar[str] = "variants/prefix-tree-published"
    summary: ClassVar[str] = "The noisy prefix tree as published: its claim does not hold."
    proof: ClassVar[Proof] = "published"
    theorem: ClassVar[Theorem] = Theorem(
        "Claimed: epsilon-DP. As coded it has none: the activities are read off the log. Were they public, a case of N events "
        "would cost N (epsilon + ln 2): epsilon on each of N counts, and ln 2 on each since noise is cut towards zero.",
        "Mannhardt, Koschmider, Baracaldo, Weidlich, Michael 2019, algorithm 1, and its published code",
    )
    Params = PublishedTreeParams

    def meet(
        self, goal: DifferentialPrivacy, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[PublishedTreeParams] | Refusal:
        """The paper's form at the goal's epsilon, which is spent on every level."""
        chosen = PublishedTreeOptions.model_validate(options)
        params = PublishedTreeParams(
            published=goal.epsilon,
            length=chosen.length or facts.longest_case or USUAL_LENGTH,
            threshold=chosen.threshold,
            prefixes=chosen.prefixes,
        )
        return Offer(
            params, f"grows a prefix tree as published, which claims epsilon {goal.epsilon:g}"
        )

    def event(self, params: PublishedTreeParams, facts: Facts) -> PrivacyEvent:
        """No finite cost can be derived."""
        real = params.length * (params.published + math.log(2))
        return NonPrivate(
            reason=f"activities are read off the log (were they public, it would cost epsilon {real:.4g})"
        )

    def lineage(self, params: PublishedTreeParams) -> Lineage:
        """Which activities there are reaches the release as it is."""
        return Lineage(
            reads=frozenset({CONTROL_FLOW}),
            writes=frozenset({CONTROL_FLOW, METADATA}),
            generates=True,
        )

    def decide(self, params: PublishedTreeParams, summary: pl.DataFrame, noise: Noise) -> Decision:
        """Grow the tree level by level."""

        def measure(found: Extensions) -> tuple[Codes, Flags]:
            noisy = noisy_as_published(found.counts, params.published, noise)
            return noisy, noisy >= params.threshold

        labels = labels_of(summary)
        return Decision(_grown(Courses.of(summary, labels), labels, params, measure, noise))


class PublishedSacofa(VariantRelease[PublishedSacofaParams]):
    """SaCoFa as coded: rules from the raw log; the exponential mechanism draws how many harmful
    extensions get noise too.

    Harmless extensions (that break no rule) all get noise and a softer threshold; harmful ones that
    are not drawn keep their raw counts. An empty log has no activities, so its release is empty.
    """

    name: ClassVar[str] = "variants/sacofa-published"
    summary: ClassVar[str] = "SaCoFa as published: its claim does not hold."
    proof: ClassVar[Proof] = "published"
    theorem: ClassVar[Theorem] = Theorem(
        "Claimed: epsilon-DP. As coded it has none: the rules are read off the log, where one case flips many, and real "
        "prefixes that break a rule and are not drawn keep their raw counts.",
        "Fahrenkrog-Petersen, Kabierski, Rösel, van der Aa, Weidlich 2021 (SaCoFa), and its published code",
    )
    Params = PublishedSacofaParams

    def meet(
        self, goal: DifferentialPrivacy, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[PublishedSacofaParams] | Refusal:
        """The paper's form at the goal's epsilon, which is spent on every level."""
        chosen = PublishedSacofaOptions.model_validate(options)
        params = PublishedSacofaParams(
            published=goal.epsilon,
            length=chosen.length or facts.longest_case or USUAL_LENGTH,
            threshold=chosen.threshold,
            prefixes=chosen.prefixes,
            harmless_threshold=chosen.harmless_threshold,
            bound=chosen.bound,
        )
        return Offer(
            params,
            f"grows a prefix tree by rules as published, which claims epsilon {goal.epsilon:g}",
        )

    def event(self, params: PublishedSacofaParams, facts: Facts) -> PrivacyEvent:
        """No finite cost can be derived."""
        return NonPrivate(
            reason="rules are read off the log, and real prefixes that break them keep their raw counts"
        )

    def lineage(self, params: PublishedSacofaParams) -> Lineage:
        """Raw counts and rules reach the release."""
        return Lineage(
            reads=frozenset({CONTROL_FLOW}),
            writes=frozenset({CONTROL_FLOW, METADATA}),
            generates=True,
        )

    def decide(
        self, params: PublishedSacofaParams, summary: pl.DataFrame, noise: Noise
    ) -> Decision:
        """Read the rules off the log, and grow the tree by them."""
        labels = labels_of(summary)
        courses = Courses.of(summary, labels)
        rules = RawRules.of(courses, len(labels))
        epsilon = params.published / params.bound

        def measure(found: Extensions) -> tuple[Codes, Flags]:
            broken = rules.broken(found)
            drawn = np.flatnonzero(broken)[
                _drawn_harmful(broken[broken > 0], epsilon, params.bound, noise)
            ]
            noised = broken == 0
            noised[drawn] = True
            noisy = np.where(noised, noisy_as_published(found.counts, epsilon, noise), found.counts)
            return noisy, noisy >= np.where(
                broken == 0, params.harmless_threshold, params.threshold
            )

        return Decision(_grown(courses, labels, params, measure, noise))


Measure = Callable[[Extensions], tuple[Codes, Flags]]
"""Counts after noise, and which of them reach their threshold."""


def noisy_as_published(counts: Codes, epsilon: float, noise: Noise) -> Codes:
    """``counts`` plus Laplace noise of scale 1/epsilon cut to an integer towards zero; negative
    sums are 0.

    The cut noise's magnitude is geometric, its sign fair: discrete Laplace noise, given that it is
    not negative (or, less one, that it is), is that geometric.
    """
    drawn = noise.laplace_values(1 / epsilon, len(counts))
    magnitude = np.where(drawn >= 0, drawn, -drawn - 1)
    sign = np.where(noise.coins(0.5, len(counts)), 1, -1)
    return np.asarray(np.maximum(counts + sign * np.minimum(magnitude, 1 << 60), 0))


def _drawn_harmful(broken: Codes, epsilon: float, bound: int, noise: Noise) -> Codes:
    """Which harmful extensions get noise: as many as the exponential mechanism's number is worth,
    drawn at random.

    The number, from 0 to how many there are, has weight exp(-epsilon/2) to its power.
    """
    weights = np.exp(-epsilon / 2 * np.arange(len(broken) + 1))
    uniform = float(noise.uniform(np.array([1 << 53]))[0]) / (1 << 53)
    number = int(np.searchsorted(np.cumsum(weights), uniform * weights.sum(), side="right"))
    order = noise.permutation(len(broken))
    worth = np.cumsum(np.minimum(broken[order], bound))
    return order[: int(np.searchsorted(worth, number)) + 1] if number else order[:0]


def _grown(
    courses: Courses,
    labels: Sequence[str],
    params: PublishedTreeParams,
    measure: Measure,
    noise: Noise,
) -> pl.DataFrame:
    """The table of released variants: every END with a positive count, and every prefix of full
    length.
    """
    end, rows = len(labels), np.arange(len(courses.cases))
    at, paths = np.zeros(len(rows), np.int64), np.empty((1 if labels else 0, 0), np.int64)
    variants: list[tuple[str, ...]] = []
    counts: list[int] = []
    for depth in range(params.length):
        key = at * (end + 1) + courses.after(rows, depth, end)
        raw = np.bincount(
            key, weights=courses.cases[rows], minlength=len(paths) * (end + 1)
        ).astype(np.int64)
        found = Extensions(paths, raw, end)
        noisy, reached = measure(found)
        whole = (found.symbol == end) | (depth == params.length - 1)
        for place in np.flatnonzero(whole & (noisy > 0)):
            path = [
                *paths[place // (end + 1)],
                *([] if found.symbol[place] == end else [found.symbol[place]]),
            ]
            variants.append(tuple(labels[code] for code in path))
            counts.append(int(noisy[place]))
        goes_on = np.flatnonzero(reached & ~whole)
        kept: Codes = np.sort(
            goes_on[np.argsort(-noisy[goes_on], kind="stable")[: params.prefixes]]
        )
        if not len(kept):
            break
        paths = np.concatenate([paths[kept // (end + 1)], found.symbol[kept][:, None]], axis=1)
        row = np.minimum(np.searchsorted(kept, key), len(kept) - 1)
        alive = kept[row] == key
        rows, at = rows[alive], row[alive]
    table = variant_table(variants, counts).filter(pl.col("variant").list.len() > 0)
    return table[noise.permutation(table.height)]


@dataclass(frozen=True, slots=True)
class RawRules:
    """What always or never follows or precedes what in the log, each (A, A) of bool; ``first``:
    which activities begin a case.

    A course's activity b follows a where it comes after the first a, and precedes it where it comes
    before the last.
    """

    always_after: Flags
    never_after: Flags
    always_before: Flags
    never_before: Flags
    first: Flags

    @classmethod
    def of(cls, courses: Courses, letters: int) -> "RawRules":
        """The rules that every course of the log keeps, nearly: rules of precedence are broken by
        some real prefixes.
        """
        rows = np.repeat(np.arange(len(courses.cases)), np.diff(courses.offsets))
        place = np.arange(len(courses.codes)) - courses.offsets[rows]
        first, last = _places(rows, courses.codes, place, (len(courses.cases), letters))
        after, before = _after_and_before(first, last)
        there = first < _NOWHERE
        always_after, never_after, always_before, never_before = (
            np.ones((letters, letters), bool) for _ in range(4)
        )
        for a in range(letters):
            followers, predecessors = after(a)[there[:, a]], before(a)[there[:, a]]
            always_after[a], never_after[a] = followers.all(axis=0), ~followers.any(axis=0)
            always_before[a], never_before[a] = predecessors.all(axis=0), ~predecessors.any(axis=0)
        begins = np.zeros(letters, bool)
        begins[courses.codes[courses.offsets[:-1]]] = True
        return cls(always_after, never_after, always_before, never_before, begins)

    def broken(self, found: Extensions) -> Codes:
        """How many rules each extension breaks, over the whole of its path; the first events are
        judged by ``first`` alone.
        """
        letters, symbol = found.letters, found.symbol
        if found.paths.shape[1] == 0:
            return np.append((~self.first).astype(np.int64), 1)
        owner = np.repeat(np.arange(len(found.paths)), letters + 1)
        extended = np.where(symbol < letters, symbol, found.paths[owner, 0])[:, None]
        paths = np.concatenate([found.paths[owner], extended], axis=1)
        place = np.tile(np.arange(paths.shape[1]), (len(paths), 1))
        # An END appends nothing: it stands as its path's first activity, at the place where that
        # is.
        place[symbol == letters, -1] = 0
        rows = np.repeat(np.arange(len(paths)), paths.shape[1])
        first, last = _places(rows, paths.ravel(), place.ravel(), (len(paths), letters))
        after, before = _after_and_before(first, last)
        broken, ended = np.zeros(len(paths), np.int64), symbol == letters
        for a in range(letters):
            faults = (after(a) & self.never_after[a]).sum(axis=1) + (
                ~after(a) & self.always_after[a]
            ).sum(axis=1) * ended
            faults += (before(a) & self.never_before[a]).sum(axis=1) + (
                ~before(a) & self.always_before[a]
            ).sum(axis=1)
            broken += faults * (first[:, a] < _NOWHERE)
        return broken


_NOWHERE: Final = 1 << 30


def _places(rows: Codes, codes: Codes, place: Codes, shape: tuple[int, int]) -> tuple[Codes, Codes]:
    """Where each activity stands first and last in each row, ``_NOWHERE`` and -1 where it does not:
    int64, ``shape``.
    """
    first, last = np.full(shape, _NOWHERE), np.full(shape, -1)
    np.minimum.at(first, (rows, codes), place)
    np.maximum.at(last, (rows, codes), place)
    return first, last


def _after_and_before(
    first: Codes, last: Codes
) -> tuple[Callable[[int], Flags], Callable[[int], Flags]]:
    """For an activity a, which others (rows, A) come after its first place, and which before its
    last.
    """
    return (lambda a: last > first[:, [a]]), (lambda a: first < last[:, [a]])

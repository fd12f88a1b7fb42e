"""The prefix tree and SaCoFa as they were published, for comparison: their claims do not hold, and
nothing rests on them.

Both spend epsilon on every level and never add it up, cut noise to whole numbers towards zero, and
take the activities from the log. SaCoFa also reads its rules off the log, and leaves real prefixes
that break them at their raw counts.
"""

import math
from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, Final

import numpy as np
from pydantic import Field

from cloakwork.base.arrays import Bools, Ints
from cloakwork.base.costs import NonPrivate, PrivacyEvent
from cloakwork.base.facts import Facts
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.base.quantities import Frozen, Number
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Kernel, Measured, Randomness
from cloakwork.mechanisms.base import Offer, Options, Proof, Refusal, Theorem
from cloakwork.mechanisms.steps import Measurement
from cloakwork.mechanisms.variants.family import VariantRelease
from cloakwork_extras.trees.prefix_tree import DEFAULT_LENGTH, LENGTH_OPTION


@frozen
class RawVariants:
    """The variants of a log, coded by the places of their activities among ``labels``: ``codes``
    one after another, ``offsets`` (variants + 1), and ``cases`` of each; all int64.
    """

    labels: tuple[str, ...]
    codes: Ints
    offsets: Ints
    cases: Ints

    @classmethod
    def of(cls, measured: Measured) -> "RawVariants":
        """All variants but that without events."""
        labels = tuple(sorted(measured.cases.alphabet))
        rows = np.flatnonzero(measured.cases.lengths)
        coded = measured.cases.within(labels).take(rows)
        return cls(labels, coded.codes, coded.offsets, measured.counts[rows])

    def next_code(self, rows: Ints, depth: int) -> Ints:
        """What follows the first ``depth`` events of each of ``rows``, all of them that long: an
        activity, or the END, whose code is the one after the last activity's.
        """
        # Where the last variant has ended, there is no code at its place: any will do.
        place = np.minimum(self.offsets[rows] + depth, len(self.codes) - 1)
        has_ended = self.offsets[rows] + depth == self.offsets[rows + 1]
        return np.where(has_ended, len(self.labels), self.codes[place])


@frozen
class CandidateExtensions:
    """All extensions of the kept ``paths`` (prefixes, depth) by a code (END last), prefix by
    prefix, with raw ``counts``.
    """

    paths: Ints
    counts: Ints
    letters: int

    @property
    def width(self) -> int:
        """How many extensions each path has."""
        return self.letters + 1

    @property
    def path_row(self) -> Ints:
        """The row of ``paths`` that each extends."""
        return np.repeat(np.arange(len(self.paths)), self.width)

    @property
    def symbol(self) -> Ints:
        """What each appends."""
        return np.tile(np.arange(self.width), len(self.paths))


@frozen
class RawRules:
    """What always or never follows or precedes what in the log, each (A, A) of bool; ``first``:
    which activities begin a case.

    A variant's activity b follows a where it comes after the first a, and precedes it where it
    comes before the last.
    """

    always_after: Bools
    never_after: Bools
    always_before: Bools
    never_before: Bools
    first: Bools

    @classmethod
    def read_off(cls, variants: RawVariants) -> "RawRules":
        """The rules that every variant of the log keeps, nearly: rules of precedence are broken by
        some real prefixes.
        """
        letters = len(variants.labels)
        # The row of each event's variant, and the event's position there.
        row = np.repeat(np.arange(len(variants.cases)), np.diff(variants.offsets))
        position = np.arange(len(variants.codes)) - variants.offsets[row]
        shape = (len(variants.cases), letters)
        order = ActivityOrder.from_events(row, variants.codes, position, shape)
        always_after = np.ones((letters, letters), bool)
        never_after, always_before, never_before = (always_after.copy() for _ in range(3))
        for a in range(letters):
            occurs = order.occurs(a)
            followers = order.after(a)[occurs]
            always_after[a] = followers.all(axis=0)
            never_after[a] = ~followers.any(axis=0)
            predecessors = order.before(a)[occurs]
            always_before[a] = predecessors.all(axis=0)
            never_before[a] = ~predecessors.any(axis=0)
        first_events = variants.codes[variants.offsets[:-1]]
        begins = np.zeros(letters, bool)
        begins[first_events] = True
        return cls(always_after, never_after, always_before, never_before, begins)

    def count_violations(self, found: CandidateExtensions) -> Ints:
        """How many rules each extension breaks, over the whole of its path; the first events are
        judged by ``first`` alone.
        """
        letters, symbol = found.letters, found.symbol
        if found.paths.shape[1] == 0:
            end_breaks_one = 1
            return np.append((~self.first).astype(np.int64), end_breaks_one)
        ended = symbol == letters
        path_row = found.path_row
        # An END appends nothing: it stands as its path's first activity, at the place where that
        # is.
        appended = np.where(ended, found.paths[path_row, 0], symbol)
        paths = np.concatenate([found.paths[path_row], appended[:, None]], axis=1)
        position = np.tile(np.arange(paths.shape[1]), (len(paths), 1))
        position[ended, -1] = 0
        row = np.repeat(np.arange(len(paths)), paths.shape[1])
        shape = (len(paths), letters)
        order = ActivityOrder.from_events(row, paths.ravel(), position.ravel(), shape)
        violations = np.zeros(len(paths), np.int64)
        for a in range(letters):
            after, before = order.after(a), order.before(a)
            faults = (after & self.never_after[a]).sum(axis=1)
            # What always follows may still come, until the case has ended.
            faults += (~after & self.always_after[a]).sum(axis=1) * ended
            faults += (before & self.never_before[a]).sum(axis=1)
            faults += (~before & self.always_before[a]).sum(axis=1)
            violations += faults * order.occurs(a)
        return violations


_ABSENT: Final = 1 << 30
"""A first place behind all others: of an activity that a sequence does not have."""


@frozen
class ActivityOrder:
    """Where each of A activities stands first and last in each of n sequences: int64, shape (n, A);
    ``_ABSENT`` and -1 where it does not.
    """

    first: Ints
    last: Ints

    @classmethod
    def from_events(
        cls,
        row: Ints,
        code: Ints,
        position: Ints,
        shape: tuple[int, int],
    ) -> "ActivityOrder":
        """From the sequence, the activity and the position of each event; ``shape``: (n, A)."""
        first, last = np.full(shape, _ABSENT), np.full(shape, -1)
        np.minimum.at(first, (row, code), position)
        np.maximum.at(last, (row, code), position)
        return cls(first, last)

    def occurs(self, a: int) -> Bools:
        """Which sequences (n,) hold activity a."""
        return self.first[:, a] < _ABSENT

    def after(self, a: int) -> Bools:
        """Which activities (n, A) come after the first a."""
        return self.last > self.first[:, [a]]

    def before(self, a: int) -> Bools:
        """Which activities (n, A) come before the last a."""
        return self.first < self.last[:, [a]]


DEFAULT_THRESHOLD: Final = 20


TREE_OPTIONS: Final = {
    "length": LENGTH_OPTION,
    "threshold": "the least noisy count that is kept, in cases (20)",
    "prefixes": "the most prefixes kept of one length (1,000)",
}


class PublishedTreeOptions(Frozen):
    """``length``: the papers' N, in events; ``threshold``: their P, in cases; ``prefixes``: most
    prefixes kept of one length, without which the published code may never end.
    """

    length: Annotated[int, Field(ge=1, le=10_000)] | None = None
    threshold: Annotated[int, Field(ge=1)] = DEFAULT_THRESHOLD
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


class PublishedPrefixTree(VariantRelease[PublishedTreeParams]):
    """Mannhardt et al.'s tree as coded: integer Laplace(1/epsilon) noise on every level, negative
    counts 0, pruned under P.

    ENDs are never pruned, and prefixes of full length are released as if they were complete
    variants. An empty log has no activities, so its release is empty.
    """

    name: ClassVar[str] = "variants/prefix-tree-published"
    options: ClassVar[Mapping[str, str]] = TREE_OPTIONS
    summary: ClassVar[str] = "The noisy prefix tree as published: its claim does not hold."
    proof: ClassVar[Proof] = "published"
    theorem: ClassVar[Theorem] = Theorem(
        "Claimed: epsilon-DP. As coded it has none: the activities are read off the log. Were they "
        "public, a case of N events would cost N (epsilon + ln 2): epsilon on each of N counts, "
        "and ln 2 on each since noise is cut towards zero.",
        "Mannhardt, Koschmider, Baracaldo, Weidlich, Michael 2019, algorithm 1, "
        "and its published code",
    )
    Params = PublishedTreeParams

    def meet(
        self,
        goal: DifferentialPrivacy,
        facts: Facts,
        options: Options,
    ) -> Offer[PublishedTreeParams] | Refusal:
        """The paper's form at the goal's epsilon, which is spent on every level."""
        chosen = PublishedTreeOptions.model_validate(options)
        params = PublishedTreeParams(
            published=goal.epsilon,
            length=chosen.length or facts.longest_case or DEFAULT_LENGTH,
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
            reason="activities are read off the log "
            f"(were they public, it would cost epsilon {real:.4g})"
        )

    def lineage(self, params: PublishedTreeParams) -> Lineage:
        """Which activities there are reaches the release as it is."""
        return Lineage(
            reads=frozenset({CONTROL_FLOW}),
            writes=frozenset({CONTROL_FLOW, METADATA}),
            generates=True,
        )

    def measure(self, params: PublishedTreeParams, kernel: Kernel) -> Measurement:
        """Grow the tree level by level."""
        return grow_as_published(RawVariants.of(kernel.raw()), params, kernel.randomness)


class PublishedSacofa(VariantRelease[PublishedSacofaParams]):
    """SaCoFa as coded: rules from the raw log; the exponential mechanism draws how many harmful
    extensions get noise too.

    Harmless extensions (that break no rule) all get noise and a softer threshold; harmful ones that
    are not drawn keep their raw counts. An empty log has no activities, so its release is empty.
    """

    name: ClassVar[str] = "variants/sacofa-published"
    options: ClassVar[Mapping[str, str]] = {
        **TREE_OPTIONS,
        "harmless_threshold": "as threshold, for extensions that keep all rules (2)",
        "bound": "how many broken rules count at most (1)",
    }
    summary: ClassVar[str] = "SaCoFa as published: its claim does not hold."
    proof: ClassVar[Proof] = "published"
    theorem: ClassVar[Theorem] = Theorem(
        "Claimed: epsilon-DP. As coded it has none: the rules are read off the log, where one case "
        "flips many, and real prefixes that break a rule and are not drawn keep their raw counts.",
        "Fahrenkrog-Petersen, Kabierski, Rösel, van der Aa, Weidlich 2021 (SaCoFa), and its "
        "published code",
    )
    Params = PublishedSacofaParams

    def meet(
        self,
        goal: DifferentialPrivacy,
        facts: Facts,
        options: Options,
    ) -> Offer[PublishedSacofaParams] | Refusal:
        """The paper's form at the goal's epsilon, which is spent on every level."""
        chosen = PublishedSacofaOptions.model_validate(options)
        params = PublishedSacofaParams(
            published=goal.epsilon,
            length=chosen.length or facts.longest_case or DEFAULT_LENGTH,
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
            reason="rules are read off the log, "
            "and real prefixes that break them keep their raw counts"
        )

    def lineage(self, params: PublishedSacofaParams) -> Lineage:
        """Raw counts and rules reach the release."""
        return Lineage(
            reads=frozenset({CONTROL_FLOW}),
            writes=frozenset({CONTROL_FLOW, METADATA}),
            generates=True,
        )

    def measure(self, params: PublishedSacofaParams, kernel: Kernel) -> Measurement:
        """Read the rules off the log, and grow the tree by them."""
        noise = kernel.randomness
        variants = RawVariants.of(kernel.raw())
        rules = RawRules.read_off(variants)
        # As published, the budget is divided by what one case may change of the score.
        epsilon = params.published / params.bound

        def measure(found: CandidateExtensions) -> tuple[Ints, Bools]:
            violations = rules.count_violations(found)
            harmless = violations == 0
            harmful = np.flatnonzero(violations)
            drawn = _draw_harmful(violations[harmful], epsilon, params.bound, noise)
            noised = harmless.copy()
            noised[harmful[drawn]] = True
            # Harmful ones that are not drawn keep their raw counts, as published.
            noisy = np.where(noised, noisy_as_published(found.counts, epsilon, noise), found.counts)
            thresholds = np.where(harmless, params.harmless_threshold, params.threshold)
            return noisy, noisy >= thresholds

        return _grow(variants, params, measure)


Measure = Callable[[CandidateExtensions], tuple[Ints, Bools]]
"""Counts after noise, and which of them reach their threshold."""


def noisy_as_published(counts: Ints, epsilon: float, noise: Randomness) -> Ints:
    """``counts`` plus Laplace noise of scale 1/epsilon cut to an integer towards zero; negative
    sums are 0.

    The cut noise's magnitude is geometric, its sign fair: discrete Laplace noise, given that it is
    not negative (or, less one, that it is), is that geometric.
    """
    drawn = noise.laplace_values(1 / epsilon, len(counts))
    magnitude = np.where(drawn >= 0, drawn, -drawn - 1)
    # Held where the sum with a count stays an int64.
    magnitude = np.minimum(magnitude, 1 << 60)
    sign = np.where(noise.coins(0.5, len(counts)), 1, -1)
    return np.asarray(np.maximum(counts + sign * magnitude, 0))


def _draw_harmful(
    violations: Ints,
    epsilon: float,
    bound: int,
    noise: Randomness,
) -> Ints:
    """Which harmful extensions get noise: random ones, until their violations add up to a number
    that the exponential mechanism draws.

    The number, from 0 to how many there are, has weight exp(-epsilon/2) to its power.
    """
    weights = np.exp(-epsilon / 2 * np.arange(len(violations) + 1))
    uniform = float(noise.uniform(np.array([1 << 53]))[0]) / (1 << 53)
    # The exponential mechanism, by inverting its distribution function.
    number = int(np.searchsorted(np.cumsum(weights), uniform * weights.sum(), side="right"))
    order = noise.permutation(len(violations))
    if number == 0:
        return order[:0]
    added_up = np.cumsum(np.minimum(violations[order], bound))
    return order[: int(np.searchsorted(added_up, number)) + 1]


def grow_as_published(
    variants: RawVariants,
    params: PublishedTreeParams,
    noise: Randomness,
) -> Measurement:
    """What the published tree releases."""

    def measure(found: CandidateExtensions) -> tuple[Ints, Bools]:
        noisy = noisy_as_published(found.counts, params.published, noise)
        return noisy, noisy >= params.threshold

    return _grow(variants, params, measure)


def _grow(variants: RawVariants, params: PublishedTreeParams, measure: Measure) -> Measurement:
    """What is released: every END with a positive count, and every prefix of full length."""
    labels = variants.labels
    end = len(labels)
    # An extension of the path in row p by the code s stands at the place p * (A + 1) + s.
    width = len(labels) + 1
    rows = np.arange(len(variants.cases))
    # Which of the kept ``paths`` each row still follows.
    path_row = np.zeros(len(rows), np.int64)
    paths = np.empty((1 if labels else 0, 0), np.int64)
    released: list[tuple[str, ...]] = []
    counts: list[int] = []
    for depth in range(params.length):
        key = path_row * width + variants.next_code(rows, depth)
        raw = np.bincount(key, weights=variants.cases[rows], minlength=len(paths) * width)
        found = CandidateExtensions(paths, raw.astype(np.int64), len(labels))
        noisy, reached = measure(found)
        symbol = found.symbol
        complete = (symbol == end) | (depth == params.length - 1)
        for place in np.flatnonzero(complete & (noisy > 0)):
            codes = [*paths[place // width], symbol[place]]
            # An END at once is no case.
            if codes != [end]:
                released.append(tuple(labels[code] for code in codes if code != end))
                counts.append(int(noisy[place]))
        # Only what goes on is pruned; ENDs never are.
        goes_on = np.flatnonzero(reached & ~complete)
        highest = np.argsort(-noisy[goes_on], kind="stable")[: params.prefixes]
        kept: Ints = np.sort(goes_on[highest])
        if not len(kept):
            break
        paths = np.concatenate([paths[kept // width], symbol[kept][:, None]], axis=1)
        # ``kept`` is sorted: each row's key is looked up in it, and rows without one drop out.
        nearest = np.minimum(np.searchsorted(kept, key), len(kept) - 1)
        is_kept = kept[nearest] == key
        rows, path_row = rows[is_kept], nearest[is_kept]
    return Measurement(released, np.array(counts, np.int64))

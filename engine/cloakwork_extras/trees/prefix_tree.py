"""Prefix tree: grow prefixes level by level on noisy counts; release those that end."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from cloakwork.base.arrays import Bools
from cloakwork.base.costs import Composed, Cost, EpsilonDelta, NonPrivate, PrivacyEvent
from cloakwork.base.errors import PlanUnsound
from cloakwork.base.facts import Facts
from cloakwork.base.quantities import Frozen, Number
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import ONE, Kernel
from cloakwork.mechanisms.base import Offer, Options, Refusal, Theorem
from cloakwork.mechanisms.steps import Measurement
from cloakwork.mechanisms.variants.accuracy import Simulated
from cloakwork.mechanisms.variants.family import VariantRelease
from cloakwork_extras.trees.tree import (
    Candidates,
    Keep,
    NoiseKind,
    Stage,
    TreeGrowth,
    answer_noise,
    by_level,
    consistent_variants,
    cost_of,
    grow_tree,
    least_tail_value,
    level_stages,
    with_scale,
)

DEFAULT_LENGTH: Final = 20
"""Events of a case that are counted where no ``longest_case`` is declared."""

FALSE_PER_PREFIX: Final = 0.5
"""Extensions nobody took that a kept prefix may get on average; from 1 on, prefixes nobody took
would multiply.
"""

SHARE_OF_DELTA: Final = 0.1
"""Of delta, spent on prefixes that only one unit has, where no activities are declared."""


NO_THRESHOLDS: Final = "thresholds that follow how many extensions occur hide nobody"


LENGTH_OPTION: Final = "how many events of a case are counted (assume.longest_case, else 20)"
TREE_OPTIONS: Final = {
    "length": LENGTH_OPTION,
    "noise": "gaussian, or laplace (gaussian; laplace where delta is 0)",
    "split": "uniform: the same noise at every length; geometric: less for longer prefixes "
    "(uniform)",
    "threshold": "the least noisy count that is kept, in cases (such that on average at most half "
    "an extension that nobody took passes for each prefix)",
    "prefixes": "the most prefixes kept of one length (5,000)",
}


class TreeOptions(Frozen):
    """What a policy may set, all of it public.

    ``length``: events of a case that are counted; longer cases are cut, and the more, the more
    noise on every count. ``threshold``: least noisy count that is kept, in cases. ``split``:
    whether longer prefixes get less noise. ``prefixes``: most prefixes kept of one length.
    ``noise``: Gaussian unless delta is 0.
    """

    length: Annotated[int, Field(ge=1, le=10_000)] | None = None
    noise: NoiseKind | None = None
    split: Literal["uniform", "geometric"] = "uniform"
    threshold: Annotated[int, Field(ge=1)] | None = None
    prefixes: Annotated[int, Field(ge=1, le=100_000)] = 5_000


class NoisyTree(Frozen, ABC):
    """``shape``: levels and the scale (sigma) of their noise, in cases; ``alphabet``: the public
    activities, if declared.

    ``max_cases``: cases of one unit. ``prefixes``: most prefixes kept a level. ``most_cases``: most
    cases released. ``epsilon`` and ``delta`` are the target that the noise was found for.
    """

    epsilon: Annotated[Number, Field(gt=0)]
    delta: Annotated[Number, Field(ge=0, lt=1)]
    max_cases: Annotated[int, Field(ge=1)] = 1
    alphabet: tuple[str, ...] | None = None
    noise: NoiseKind
    shape: Annotated[tuple[Stage, ...], Field(min_length=1)]
    prefixes: Annotated[int, Field(ge=1)] = 5_000
    most_cases: Annotated[int, Field(ge=1)] | None = None

    @property
    def length(self) -> int:
        """Events of a case that are counted."""
        return sum(stage.levels for stage in self.shape) - 1

    @property
    def noise_factor(self) -> float:
        """How much more noise than in the usual length's tree there is on every count
        (``accuracy``).
        """
        return math.sqrt(self.length / DEFAULT_LENGTH)

    @property
    @abstractmethod
    def lowest_thresholds(self) -> tuple[int, ...] | None:
        """By stage, the least noisy count that anything is kept with; None if that depends on what
        occurs.
        """

    def growth(self) -> TreeGrowth:
        """How the tree grows; PlanUnsound where its thresholds hide nobody."""
        if self.alphabet is not None:
            return TreeGrowth(self.shape, self.noise, self.prefixes, self.alphabet)
        # Undeclared activities: only thresholds keep what one unit alone has from being told.
        least = self.lowest_thresholds
        if least is None:
            raise PlanUnsound(NO_THRESHOLDS)
        delta = singleton_delta(self, least)
        return TreeGrowth(self.shape, self.noise, self.prefixes, None, least, delta)


class TreeParams(NoisyTree):
    """``thresholds``: least noisy count that is kept, in cases, by stage.

    Without an ``alphabet`` only prefixes that occur are counted, and the thresholds hide those of a
    single unit.
    """

    thresholds: tuple[Annotated[int, Field(ge=1)], ...]

    @property
    def lowest_thresholds(self) -> tuple[int, ...]:
        """These."""
        return self.thresholds


class PrefixTree(VariantRelease[TreeParams]):
    """Count how many cases begin with each kept prefix extended by one activity, or end there; add
    noise; keep the frequent.

    Over declared activities every extension is counted, whether it occurs or not, so thresholds
    only cut noise. Where none are declared only extensions that occur are counted, and a threshold
    hides those of a single unit at the price of some delta: no variant is then released that nobody
    took. A case touches one count a level, so all levels compose. An empty log gives an empty
    release or one made of noise; nothing aborts on data, and at most ``prefixes`` are kept a level.
    """

    name: ClassVar[str] = "variants/prefix-tree"
    options: ClassVar[Mapping[str, str]] = TREE_OPTIONS
    summary: ClassVar[str] = (
        "Releases variants along a noisy prefix tree (the benchmark of Mannhardt et al.)."
    )
    theorem: ClassVar[Theorem] = Theorem(
        "A case of at most N events touches one count by 1 on each of N + 1 levels (N prefixes and "
        "its END); a unit of m cases moves these by m at most. Fresh discrete noise on every "
        "extension of the kept prefixes over a public alphabet is thus N + 1 adaptively composed "
        "measurements of sensitivity m. Where only extensions that occur are counted, the first "
        "prefixes that one unit alone has, at most m, pass the threshold with probability at most "
        "m Pr[m + noise >= tau]: that delta is added once, since what lies below them shows only "
        "if they pass.",
        "Mannhardt et al. 2019, algorithm 1 (with levels composed); Korolova et al. 2009, theorem "
        "1 (the threshold); Canonne, Kamath and Steinke 2020 (the noise)",
    )
    Params = TreeParams
    simulated: ClassVar[Simulated] = (
        (0, 0, 0.67, 0.85, 0.95, 0.96, 0.97, 0.98),
        (0, 0, 0.06, 0.27, 0.51, 0.55, 0.62, 0.68),
    )
    undeclared: ClassVar[Simulated] = (
        (0, 0, 0, 0.82, 0.92, 0.95, 0.96, 0.98),
        (0, 0, 0, 0, 0, 0.09, 0.56, 0.6),
    )

    def meet(
        self,
        goal: DifferentialPrivacy,
        facts: Facts,
        options: Options,
    ) -> Offer[TreeParams] | Refusal:
        """The least noise for the declared length, and thresholds that let little but real prefixes
        pass.
        """
        chosen = TreeOptions.model_validate(options)
        noise = choose_noise(goal, chosen)
        if isinstance(noise, Refusal):
            return noise
        # Which extensions occur is told through a threshold, which takes some delta.
        if facts.alphabet is None and not goal.delta:
            return Refusal(
                "needs", "without a delta all activities must be public", ("assume.alphabet",)
            )
        params = calibrate_tree(goal, facts, chosen, noise)
        if params.alphabet is None and chosen.threshold is not None:
            # A threshold of the policy's own must not be below the one that hides single units.
            least = max(params.thresholds)
            if chosen.threshold < least:
                return refuse_low_threshold(least)
        return Offer(params, _describe_params(params))

    def event(self, params: TreeParams, facts: Facts) -> PrivacyEvent:
        """The noise of all levels, and the chance that a prefix of one unit alone passes the
        threshold.
        """
        return tree_event(params)

    def measure(self, params: TreeParams, kernel: Kernel) -> Measurement:
        """Grow the tree on noisy counts, and make the counts of its leaves agree."""
        thresholds = by_level(params.shape, params.thresholds)

        def keep(candidates: Candidates) -> Bools:
            return candidates.noisy >= thresholds[candidates.depth]

        return released(params, kernel, keep)


def released(tree: NoisyTree, kernel: Kernel, keep: Keep) -> Measurement:
    """What is released of the tree that grows by ``keep``."""
    grown = grow_tree(kernel, tree.growth(), keep)
    variants, cases = consistent_variants(grown, tree.most_cases, kernel.randomness)
    return Measurement(variants, cases, {"prefixes kept": grown.prefixes})


def _describe_params(params: TreeParams) -> str:
    counted = "the extensions that occur" if params.alphabet is None else "every extension"
    return (
        f"counts prefixes of up to {params.length} events, {counted} with noise, "
        "and keeps the frequent ones"
    )


def refuse_low_threshold(least: int) -> Refusal:
    """``least``: the lowest threshold, in cases, that hides a prefix of one unit alone."""
    return Refusal(
        "misconfigured",
        f"without declared activities a threshold under {least} would give single cases away",
    )


def tree_event(params: TreeParams) -> PrivacyEvent:
    """What the noisy counts of the tree cost."""
    noise = cost_of(params.shape, params.noise, params.max_cases)
    if params.alphabet is not None:
        return noise
    return Composed(events=(noise, singleton_pass_event(params)))


def singleton_pass_event(tree: NoisyTree) -> PrivacyEvent:
    """The chance that a prefix of one unit alone is kept, where only prefixes that occur are
    counted.
    """
    if tree.lowest_thresholds is None:
        return NonPrivate(reason=NO_THRESHOLDS)
    delta = singleton_delta(tree, tree.lowest_thresholds)
    if delta >= 1:
        return NonPrivate(reason="the thresholds hide no prefix of one unit alone")
    return EpsilonDelta(epsilon=0.0, delta=delta)


def singleton_delta(tree: NoisyTree, thresholds: tuple[int, ...]) -> float:
    """At least the probability that one of the first prefixes that a unit alone has passes its
    stage's threshold.
    """
    # The largest of all stages: a unit's first prefix of its own lies on one of them.
    return max(
        answer_noise(tree.noise, stage.scale).selection_delta(tau, ONE, tree.max_cases)
        for stage, tau in zip(tree.shape, thresholds, strict=True)
    )


def thresholds_hiding_singletons(
    shape: tuple[Stage, ...],
    delta: float,
    max_cases: int,
    noise: NoiseKind,
) -> tuple[int, ...]:
    """By stage, the least threshold that prefixes of one unit alone pass with probability at most
    ``delta``, all together.
    """
    return tuple(
        least_tail_value(stage.scale, delta / max_cases, noise) + max_cases for stage in shape
    )


def calibrate_tree(
    goal: DifferentialPrivacy,
    facts: Facts,
    chosen: TreeOptions,
    noise: NoiseKind,
) -> TreeParams:
    """The least noise that costs at most the goal's (epsilon, delta), with its thresholds."""
    m = facts.unit.max_cases
    alphabet = alphabet_of(facts)
    # Delta for the threshold is set aside before the noise is found.
    reserved_delta = 0.0 if alphabet is not None else goal.delta * SHARE_OF_DELTA
    relative = level_stages(counted_length(facts, chosen) + 1, chosen.split)
    shape = calibrated_shape(goal, relative, noise, m, reserved_delta)
    if alphabet is None:
        least = thresholds_hiding_singletons(shape, reserved_delta, m, noise)
        thresholds = tuple(max(tau, chosen.threshold or 1) for tau in least)
    elif chosen.threshold is not None:
        thresholds = (chosen.threshold,) * len(shape)
    else:
        # So that noise alone passes for few extensions of a prefix, on average.
        share = FALSE_PER_PREFIX / (len(alphabet) + 1)
        thresholds = tuple(least_tail_value(stage.scale, share, noise) for stage in shape)
    return TreeParams(
        epsilon=goal.epsilon,
        delta=goal.delta,
        max_cases=m,
        alphabet=alphabet,
        noise=noise,
        shape=shape,
        thresholds=thresholds,
        prefixes=chosen.prefixes,
        most_cases=most_cases_of(facts),
    )


@lru_cache(maxsize=256)
def calibrated_shape(
    goal: DifferentialPrivacy,
    shape: tuple[Stage, ...],
    noise: NoiseKind,
    max_cases: int,
    reserved_delta: float = 0.0,
) -> tuple[Stage, ...]:
    """The stages at the least noise whose cost, and ``reserved_delta`` of delta beside it, is at
    most the goal's.
    """
    from cloakwork.accounting.calibrate import smallest_scale

    events = (EpsilonDelta(epsilon=0.0, delta=reserved_delta),) if reserved_delta else ()

    # What a threshold spends stands beside the noise, whatever its scale.
    def cost_at(scale: float) -> PrivacyEvent:
        counts = cost_of(with_scale(shape, scale, noise), noise, max_cases)
        return Composed(events=(counts, *events))

    target = Cost(epsilon=goal.epsilon, delta=goal.delta)
    return with_scale(shape, smallest_scale(cost_at, target), noise)


def choose_noise(goal: DifferentialPrivacy, chosen: TreeOptions) -> NoiseKind | Refusal:
    """Gaussian noise where delta allows it, unless the policy says else."""
    if chosen.noise == "gaussian" and not goal.delta:
        return Refusal("misconfigured", "Gaussian noise needs a delta above 0")
    return chosen.noise or ("gaussian" if goal.delta else "laplace")


def alphabet_of(facts: Facts) -> tuple[str, ...] | None:
    """The declared activities, each once."""
    return None if facts.alphabet is None else tuple(dict.fromkeys(facts.alphabet))


def most_cases_of(facts: Facts) -> int | None:
    """How many cases there can be, as far as declared."""
    return None if facts.units_at_most is None else facts.units_at_most * facts.unit.max_cases


def counted_length(facts: Facts, chosen: TreeOptions) -> int:
    """Events of a case that are counted: as the policy says, at most the longest case that there
    can be.
    """
    bounds = [bound for bound in (chosen.length, facts.longest_case) if bound is not None]
    return min(bounds, default=DEFAULT_LENGTH)

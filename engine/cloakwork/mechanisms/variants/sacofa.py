"""SaCoFa: a prefix tree that asks less of extensions that keep the rules of the process than of
those that break them.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, get_args

import numpy as np
import polars as pl
from pydantic import Field, JsonValue, field_validator

from cloakwork.arrays import Bools, Ints
from cloakwork.facts import Facts
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Decision, Offer, Refusal, Theorem
from cloakwork.mechanisms.variants.family import VariantRelease
from cloakwork.mechanisms.variants.prefix_tree import (
    FALSE_PER_PREFIX,
    SHARE_OF_DELTA,
    NoisyTree,
    TreeOptions,
    alphabet_of,
    calibrated_shape,
    choose_noise,
    counted_length,
    labels_of,
    most_cases_of,
    refuse_low_threshold,
    singleton_pass_event,
    thresholds_hiding_singletons,
    tree_figures,
)
from cloakwork.mechanisms.variants.rules import (
    AllowedSteps,
    BehaviouralRules,
    Relation,
    Rule,
    count_steps,
    occurring_steps,
)
from cloakwork.mechanisms.variants.tree import (
    Candidates,
    CodedVariants,
    NoiseKind,
    Stage,
    consistent_variants,
    cost_of,
    draw_noise,
    grow_tree,
    least_tail_value,
    level_stages,
)
from cloakwork.noise import Noise
from cloakwork.privacy_event import Composed, NonPrivate, PrivacyEvent
from cloakwork.quantities import Number

HARMFUL_FALSE_PER_PREFIX: Final = 0.1
"""Harmful extensions that nobody took and a kept prefix may get on average."""

MOST_PASS_PROBABILITY: Final = 0.5
"""Chance, at most, that one harmless extension passes that nobody took, however few of them there
are.
"""

FALSE_STEPS: Final = 0.02
"""Of the steps that nobody takes, how many may pass for steps of the process, on average."""

MOST_VIOLATIONS: Final = 3
"""Broken rules that count, by the bounded-count score."""


class SacofaOptions(TreeOptions):
    """What a policy may set beside the options of the tree, all of it public.

    ``rules``: what always or never happens, as known beforehand, [activity, relation, activity]; or
    ``measured``: which steps happen, at ``share`` of the budget. ``rules_from``: the earlier
    private release that the stated rules were read off, by its id. ``threshold`` is for harmless
    extensions, ``harmful_threshold`` for those that break a rule, of which at most ``most_harmful``
    are kept of one length: chosen at random, by ``score``, either all alike (binary) or those that
    break fewer rules likelier (bounded-count).
    """

    rules: Literal["measured"] | Annotated[tuple[Rule, ...], Field(min_length=1)] = "measured"
    rules_from: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    share: Annotated[Number, Field(gt=0, lt=1)] = 0.1
    harmful_threshold: Annotated[int, Field(ge=1)] | None = None
    most_harmful: Annotated[int, Field(ge=0, le=100_000)] = 100
    score: Literal["binary", "bounded-count"] = "bounded-count"

    @field_validator("rules", mode="before")
    @classmethod
    def _readable(cls, rules: Any) -> Any:
        listed = isinstance(rules, list | tuple) and all(map(_reads_as_rule, rules))
        if not listed and rules != "measured":
            relations = ", ".join(get_args(Relation))
            raise ValueError(
                "must be 'measured' or a list of [activity, relation, activity], "
                f"a relation being {relations}"
            )
        return rules


def _reads_as_rule(rule: Any) -> bool:
    if not isinstance(rule, list | tuple) or len(rule) != 3:
        return False
    return rule[1] in get_args(Relation)


class SacofaParams(NoisyTree):
    """``rules``: as the policy states them; None: measured by noisy counts of ``steps`` (so many a
    case, with their scale).

    ``rules_from``: the earlier private release that shows them. ``least_steps``: noisy count from
    which on a step is one of the process. ``harmless`` and ``harmful``: by stage, the least noisy
    count that is kept, in cases; None: found level by level from how many of each kind the kept
    prefixes have, which must be public: an ``alphabet`` is declared.
    """

    rules: tuple[Rule, ...] | None = None
    rules_from: str | None = None
    steps: Stage | None = None
    least_steps: Annotated[int, Field(ge=1)] = 1
    harmless: tuple[Annotated[int, Field(ge=1)], ...] | None = None
    harmful: tuple[Annotated[int, Field(ge=1)], ...] | None = None
    most_harmful: Annotated[int, Field(ge=0)]
    score: Literal["binary", "bounded-count"]

    @property
    def named_activities(self) -> frozenset[str]:
        """The activities that stated rules speak of."""
        return frozenset(label for one, _, other in self.rules or () for label in (one, other))


class Sacofa(VariantRelease[SacofaParams]):
    """A prefix tree whose extensions are harmless or harmful: these break a behavioural rule.

    Rules are stated by the policy, or measured by noisy counts of how many cases take each step
    from one activity to the next. Over declared activities every extension is noised, real or not,
    harmless or not. Where none are declared only extensions that occur are counted, and both
    thresholds hide those of a single unit at the price of some delta. What is asked of which, and
    the exponential mechanism's choice among harmful ones, see noisy counts only. Rules seen in an
    earlier private release can be stated as known ones. An empty log gives a release made of noise
    or none; nothing aborts on data, and at most ``prefixes`` are kept a level.
    """

    name: ClassVar[str] = "variants/sacofa"
    summary: ClassVar[str] = (
        "Releases variants along a noisy prefix tree that prefers what the process's rules allow."
    )
    theorem: ClassVar[Theorem] = Theorem(
        "A unit of m cases of at most N events moves one count by m at most on each of the tree's "
        "N + 1 levels, and at most N + 1 counts of steps by m each (a case takes N + 1 different "
        "steps at most, start and end among them). With fresh discrete noise on every extension "
        "over a public alphabet and on every step, this is 2 (N + 1) composed measurements, or N + "
        "1 where the rules are public; classes, thresholds and choices are post-processing. Where "
        "only extensions that occur are counted, the first prefixes that one unit alone has, at "
        "most m, pass the lower of the two thresholds, tau, with probability at most m Pr[m + "
        "noise >= tau]: that delta is added once, since what lies below them, and the steps that "
        "this unit alone takes, which no other candidate appends, show only if they pass.",
        "Fahrenkrog-Petersen et al. 2021 (SaCoFa; its rules and unselected counts made private); "
        "Korolova et al. 2009, theorem 1 (the threshold); Canonne, Kamath and Steinke 2020 (the "
        "noise)",
    )
    Params = SacofaParams

    def meet(
        self, goal: DifferentialPrivacy, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[SacofaParams] | Refusal:
        """The least noise for the declared length and the rules that are to be measured, if any."""
        chosen = SacofaOptions.model_validate(options)
        noise = choose_noise(goal, chosen)
        if isinstance(noise, Refusal):
            return noise
        if facts.alphabet is None and not goal.delta:
            return Refusal(
                "needs", "without a delta all activities must be public", ("assume.alphabet",)
            )
        if chosen.rules_from is not None and chosen.rules == "measured":
            return Refusal(
                "misconfigured",
                "option rules_from: state the rules that this release shows, under rules",
            )
        params = calibrate_sacofa(goal, facts, chosen, noise)
        if facts.alphabet is None:
            thresholds = (chosen.threshold, chosen.harmful_threshold)
            stated = [threshold for threshold in thresholds if threshold is not None]
            least = max(_hiding_thresholds(params))
            if stated and min(stated) < least:
                return refuse_low_threshold(least)
        else:
            undeclared = sorted(params.named_activities - set(facts.alphabet))
            if undeclared:
                return Refusal(
                    "misconfigured",
                    f"option rules: '{undeclared[0]}' is not among the declared activities",
                )
        return Offer(params, _describe_params(params))

    def event(self, params: SacofaParams, facts: Facts) -> PrivacyEvent:
        """The noise of all levels and of the steps, and the chance that a prefix of one unit alone
        is kept.
        """
        shape = params.shape if params.steps is None else (*params.shape, params.steps)
        noise = cost_of(shape, params.noise, params.max_cases)
        if params.alphabet is not None:
            return noise
        if params.harmless is None or params.harmful is None:
            return NonPrivate(reason="thresholds that follow how many extensions occur hide nobody")
        lower = tuple(map(min, params.harmless, params.harmful))
        return Composed(events=(noise, singleton_pass_event(params, lower)))

    def decide(self, params: SacofaParams, summary: pl.DataFrame, noise: Noise) -> Decision:
        """Measure the rules unless they are stated, grow the tree by them, and make the counts of
        its leaves agree.
        """
        labels = params.alphabet
        if labels is None:
            # With all that the rules name, so that which of it occurs decides nothing.
            labels = tuple(sorted(params.named_activities.union(labels_of(summary))))
        variants = CodedVariants.of(summary, labels)
        select = ExtensionSelector(params, _rules_for(params, variants, labels, noise), noise)
        levels = grow_tree(variants, params.growth(len(labels)), select, noise)
        table = consistent_variants(levels, labels, params.most_cases, noise)
        return Decision(table, tree_figures(summary, table, levels))


def _describe_params(params: SacofaParams) -> str:
    source = "measured with noise" if params.rules is None else "as stated"
    if params.rules_from is not None:
        source = f"as release {params.rules_from} shows them, which has paid for them"
    return (
        "counts prefixes with noise, and asks less of those that keep the rules of the process "
        f"({source})"
    )


def _rules_for(
    params: SacofaParams, variants: CodedVariants, labels: tuple[str, ...], noise: Noise
) -> BehaviouralRules | AllowedSteps:
    """The rules as stated, or by noisy counts of every step, or of those that occur where
    activities are not declared.
    """
    if params.steps is None:
        return BehaviouralRules.of(params.rules or (), labels)
    if params.alphabet is None:
        codes, counts = occurring_steps(variants, params.length, len(labels))
    else:
        counts = count_steps(variants, params.length, len(labels)).ravel()
        codes = np.arange(counts.size)
    noisy = noisy_steps(counts, params.steps.scale, params.noise, noise)
    return AllowedSteps(codes[noisy >= params.least_steps], len(labels))


def noisy_steps(counts: Ints, scale: float, kind: NoiseKind, noise: Noise) -> Ints:
    """``counts`` of how many cases take each step, with noise on every one."""
    return counts + draw_noise(kind, scale, counts.size, noise).reshape(counts.shape)


class ExtensionSelector:
    """Which candidates of a level stay, judged by noisy counts, rules and random draws."""

    def __init__(
        self, params: SacofaParams, rules: BehaviouralRules | AllowedSteps, noise: Noise
    ) -> None:
        self._params = params
        self._rules = rules
        self._noise = noise
        self._scales = tuple(params.growth(0).scales())
        levels = [stage.levels for stage in params.shape]
        self._stages = np.repeat(np.arange(len(params.shape)), levels)

    def __call__(self, candidates: Candidates) -> Bools:
        """Harmless ones from their threshold on, and a choice of the harmful ones from theirs
        on.
        """
        violations = self._rules.count_violations(candidates)
        harmless, harmful = self._params.harmless, self._params.harmful
        kept = self._above_threshold(candidates, violations == 0, harmless, FALSE_PER_PREFIX)
        frequent = self._above_threshold(
            candidates, violations > 0, harmful, HARMFUL_FALSE_PER_PREFIX
        )
        rows = np.flatnonzero(frequent)
        kept[rows[self._draw_harmful(violations[rows])]] = True
        return kept

    def _above_threshold(
        self,
        candidates: Candidates,
        of_kind: Bools,
        thresholds: tuple[int, ...] | None,
        false_per_prefix: float,
    ) -> Bools:
        """Those candidates ``of_kind`` (bool, one a candidate) that reach their stage's threshold,
        or else one that lets ``false_per_prefix`` a prefix pass.
        """
        if thresholds is not None:
            threshold = thresholds[self._stages[candidates.depth]]
        else:
            # At most so many pass, were nobody to take any of these candidates.
            size = max(1, int(of_kind.sum()))
            allowed = min(MOST_PASS_PROBABILITY, false_per_prefix * len(candidates.paths) / size)
            scale = self._scales[candidates.depth]
            threshold = least_tail_value(scale, allowed, self._params.noise)
        return np.asarray(of_kind & (candidates.noisy >= threshold))

    def _draw_harmful(self, violations: Ints) -> Ints:
        """At most ``most_harmful`` of the harmful ones, drawn one after another with weight
        exp(-score).
        """
        most = self._params.most_harmful
        if len(violations) <= most:
            return np.arange(len(violations))
        counted = MOST_VIOLATIONS if self._params.score == "bounded-count" else 1
        score = np.minimum(violations, counted)
        uniform = (self._noise.uniform(np.full(len(violations), 1 << 53)) + 0.5) / (1 << 53)
        # The smallest of scores plus independent Gumbel noise are draws by the exponential
        # mechanism without replacement.
        noisy_score = score + np.log(-np.log(uniform))
        return np.argsort(noisy_score, kind="stable")[:most]


def calibrate_sacofa(
    goal: DifferentialPrivacy, facts: Facts, chosen: SacofaOptions, noise: NoiseKind
) -> SacofaParams:
    """The least noise on the tree, and in proportion on the steps, that costs at most the goal's
    (epsilon, delta).
    """
    m = facts.unit.max_cases
    levels = counted_length(facts, chosen) + 1
    reserved_delta = 0.0 if facts.alphabet is not None else goal.delta * SHARE_OF_DELTA
    relative = level_stages(levels, chosen.split)
    steps = None
    if chosen.rules == "measured":
        # Costs go by 1/scale, and by 1/sigma**2: so the steps get their share of the budget.
        ratio = (1 - chosen.share) / chosen.share
        own = Stage(levels=levels, scale=ratio**0.5 if noise == "gaussian" else ratio)
        *tree, steps = calibrated_shape(goal, (*relative, own), noise, m, reserved_delta)
        shape = tuple(tree)
    else:
        shape = calibrated_shape(goal, relative, noise, m, reserved_delta)
    params = SacofaParams(
        epsilon=goal.epsilon,
        delta=goal.delta,
        max_cases=m,
        alphabet=alphabet_of(facts),
        noise=noise,
        shape=shape,
        prefixes=chosen.prefixes,
        most_cases=most_cases_of(facts),
        rules=None if chosen.rules == "measured" else chosen.rules,
        rules_from=chosen.rules_from,
        steps=steps,
        least_steps=least_tail_value(steps.scale, FALSE_STEPS, noise) if steps else 1,
        harmless=_same_for_all_stages(shape, chosen.threshold),
        harmful=_same_for_all_stages(shape, chosen.harmful_threshold),
        most_harmful=chosen.most_harmful,
        score=chosen.score,
    )
    if params.alphabet is not None:
        return params
    least = _hiding_thresholds(params)
    more = _hiding_thresholds(params, HARMFUL_FALSE_PER_PREFIX / FALSE_PER_PREFIX)
    return params.model_copy(
        update={
            "harmless": tuple(map(max, least, params.harmless or least)),
            "harmful": tuple(map(max, least, params.harmful or more)),
        }
    )


def _same_for_all_stages(shape: tuple[Stage, ...], threshold: int | None) -> tuple[int, ...] | None:
    return None if threshold is None else (threshold,) * len(shape)


def _hiding_thresholds(params: SacofaParams, part: float = 1.0) -> tuple[int, ...]:
    """By stage, the threshold that prefixes of one unit alone pass with at most this ``part`` of
    the delta set aside for it.
    """
    return thresholds_hiding_singletons(
        params.shape, params.delta * SHARE_OF_DELTA * part, params.max_cases, params.noise
    )

"""SaCoFa: a prefix tree that asks less of extensions that keep the rules of the process than of
those that break them.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

import numpy as np
from pydantic import JsonValue

from cloakwork.base.arrays import Bools, Ints
from cloakwork.base.costs import Composed, PrivacyEvent
from cloakwork.base.facts import Facts
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Kernel, Randomness
from cloakwork.mechanisms.base import Offer, Refusal, Theorem
from cloakwork.mechanisms.steps import Measurement
from cloakwork.mechanisms.variants.family import VariantRelease
from cloakwork_extras.trees.prefix_tree import (
    FALSE_PER_PREFIX,
    choose_noise,
    refuse_low_threshold,
    released,
    singleton_pass_event,
)
from cloakwork_extras.trees.rules import BehaviouralRules, MeasuredSteps, measure_steps
from cloakwork_extras.trees.sacofa_params import (
    HARMFUL_FALSE_PER_PREFIX,
    SacofaOptions,
    SacofaParams,
    calibrate_sacofa,
    hiding_thresholds,
)
from cloakwork_extras.trees.tree import Candidates
from cloakwork_extras.trees.tree_noise import (
    answer_noise,
    by_level,
    cost_of,
    least_tail_value,
)

MOST_PASS_PROBABILITY: Final = 0.5
"""Chance, at most, that one harmless extension passes that nobody took, however few of them there
are.
"""


MOST_VIOLATIONS: Final = 3
"""Broken rules that count, by the bounded-count score."""


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
            refusal = _refuse_revealing_thresholds(chosen, params)
        else:
            refusal = _refuse_undeclared_activities(params, facts.alphabet)
        return refusal or Offer(params, _describe_params(params))

    def event(self, params: SacofaParams, facts: Facts) -> PrivacyEvent:
        """The noise of all levels and of the steps, and the chance that a prefix of one unit alone
        is kept.
        """
        shape = params.shape
        if params.steps is not None:
            shape = (*shape, params.steps)
        noise = cost_of(shape, params.noise, params.max_cases)
        if params.alphabet is not None:
            return noise
        return Composed(events=(noise, singleton_pass_event(params)))

    def measure(self, params: SacofaParams, kernel: Kernel) -> Measurement:
        """Measure the rules unless they are stated, grow the tree by them, and make the counts of
        its leaves agree.
        """
        rules = _rules_for(params, kernel)
        return released(params, kernel, ExtensionSelector(params, rules, kernel.randomness))


def _refuse_revealing_thresholds(chosen: SacofaOptions, params: SacofaParams) -> Refusal | None:
    """Where activities are not declared: a stated threshold must hide prefixes of one unit."""
    thresholds = (chosen.threshold, chosen.harmful_threshold)
    stated = [threshold for threshold in thresholds if threshold is not None]
    least = max(hiding_thresholds(params))
    if stated and min(stated) < least:
        return refuse_low_threshold(least)
    return None


def _refuse_undeclared_activities(
    params: SacofaParams, alphabet: tuple[str, ...]
) -> Refusal | None:
    """Where activities are declared: rules may speak of these only."""
    undeclared = sorted(params.named_activities - set(alphabet))
    if not undeclared:
        return None
    return Refusal(
        "misconfigured",
        f"option rules: '{undeclared[0]}' is not among the declared activities",
    )


def _describe_params(params: SacofaParams) -> str:
    if params.rules_from is not None:
        source = f"as release {params.rules_from} shows them, which has paid for them"
    elif params.rules is not None:
        source = "as stated"
    else:
        source = "measured with noise"
    return (
        "counts prefixes with noise, and asks less of those that keep the rules of the process "
        f"({source})"
    )


def _rules_for(params: SacofaParams, kernel: Kernel) -> BehaviouralRules | MeasuredSteps:
    """The rules as stated, or by noisy counts of steps."""
    if params.steps is None:
        return BehaviouralRules.from_rules(params.rules or ())
    noise = answer_noise(params.noise, params.steps.scale)
    counts = measure_steps(kernel, noise, params.length, params.alphabet)
    return MeasuredSteps(counts, params.least_steps, declared=params.alphabet is not None)


class ExtensionSelector:
    """Which candidates of a level stay, judged by noisy counts, rules and random draws."""

    def __init__(
        self,
        params: SacofaParams,
        rules: BehaviouralRules | MeasuredSteps,
        randomness: Randomness,
    ) -> None:
        self._params = params
        self._rules = rules
        self._randomness = randomness
        self._stages = by_level(params.shape, range(len(params.shape)))

    def __call__(self, candidates: Candidates) -> Bools:
        """Harmless ones from their threshold on, and a choice of the harmful ones from theirs
        on.
        """
        violations = self._rules.count_violations(candidates)
        kept = self._above_threshold(
            candidates, violations == 0, self._params.harmless, FALSE_PER_PREFIX
        )
        is_harmful = self._above_threshold(
            candidates, violations > 0, self._params.harmful, HARMFUL_FALSE_PER_PREFIX
        )
        harmful = np.flatnonzero(is_harmful)
        drawn = self._draw_harmful(violations[harmful])
        kept[harmful[drawn]] = True
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
        stage = self._stages[candidates.depth]
        if thresholds is not None:
            threshold = thresholds[stage]
        else:
            # At most so many pass, were nobody to take any of these candidates.
            size = max(1, int(of_kind.sum()))
            allowed = false_per_prefix * len(candidates.paths) / size
            probability = min(MOST_PASS_PROBABILITY, allowed)
            scale = self._params.shape[stage].scale
            threshold = least_tail_value(scale, probability, self._params.noise)
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
        fineness = 1 << 53
        drawn = self._randomness.uniform(np.full(len(violations), fineness))
        # In the middle of its cell, so that neither logarithm is of 0.
        uniform = (drawn + 0.5) / fineness
        # The smallest of scores plus independent Gumbel noise are draws by the exponential
        # mechanism without replacement.
        noisy_score = score + np.log(-np.log(uniform))
        return np.argsort(noisy_score, kind="stable")[:most]

"""SaCoFa: a prefix tree that asks less of extensions that keep the rules of the process than of those that break them."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, JsonValue, field_validator

from cloakwork.facts import Facts
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Decision, Offer, Refusal, Theorem
from cloakwork.mechanisms.variants.family import VariantRelease
from cloakwork.mechanisms.variants.prefix_tree import (
    FAKES,
    NoisyTree,
    TreeOptions,
    alphabet_of,
    figures,
    length_of,
    most_cases_of,
    noise_of,
    shape_for,
)
from cloakwork.mechanisms.variants.rules import Relation, Rule, RuleBook, steps_of
from cloakwork.mechanisms.variants.tree import (
    Candidates,
    Codes,
    Courses,
    NoiseKind,
    Stage,
    cost_of,
    drawn,
    grow,
    least_reached,
    released,
    stages,
)
from cloakwork.noise import Noise
from cloakwork.privacy_event import PrivacyEvent
from cloakwork.quantities import Number

FAKES_HARMFUL: Final = 0.1
"""Harmful extensions that nobody took and a kept prefix may get on average."""

LIKELIEST: Final = 0.5
"""Chance, at most, that one harmless extension passes that nobody took, however few of them there are."""

UNSEEN_STEPS: Final = 0.02
"""Of the steps that nobody takes, how many may pass for steps of the process, on average."""

MOST_BROKEN: Final = 3
"""Broken rules that count, by the bounded-count score."""


class SacofaOptions(TreeOptions):
    """What a policy may set beside the options of the tree, all of it public.

    ``rules``: what always or never happens, as known beforehand, [activity, relation, activity]; or ``measured``: which
    steps happen, at ``share`` of the budget. ``threshold`` is for harmless extensions, ``harmful_threshold`` for those
    that break a rule, of which at most ``most_harmful`` are kept of one length: chosen at random, by ``score``, either all
    alike (binary) or those that break fewer rules likelier (bounded-count).
    """

    rules: Literal["measured"] | Annotated[tuple[Rule, ...], Field(min_length=1)] = "measured"
    share: Annotated[Number, Field(gt=0, lt=1)] = 0.1
    harmful_threshold: Annotated[int, Field(ge=1)] | None = None
    most_harmful: Annotated[int, Field(ge=0, le=100_000)] = 100
    score: Literal["binary", "bounded-count"] = "bounded-count"

    @field_validator("rules", mode="before")
    @classmethod
    def _readable(cls, rules: Any) -> Any:
        listed = isinstance(rules, list | tuple) and all(
            isinstance(rule, list | tuple) and len(rule) == 3 and rule[1] in get_args(Relation) for rule in rules
        )
        if not listed and rules != "measured":
            relations = ", ".join(get_args(Relation))
            raise ValueError(
                f"must be 'measured' or a list of [activity, relation, activity], a relation being {relations}"
            )
        return rules


class SacofaParams(NoisyTree):
    """``rules``: as the policy states them; None: measured by noisy counts of ``steps`` (so many a case, with their scale).

    ``least_steps``: noisy count from which on a step is one of the process. ``harmless`` and ``harmful``: least noisy count
    that is kept, in cases; None: found level by level from how many of each kind the kept prefixes have.
    """

    rules: tuple[Rule, ...] | None = None
    steps: Stage | None = None
    least_steps: Annotated[int, Field(ge=1)] = 1
    harmless: Annotated[int, Field(ge=1)] | None = None
    harmful: Annotated[int, Field(ge=1)] | None = None
    most_harmful: Annotated[int, Field(ge=0)]
    score: Literal["binary", "bounded-count"]


class Sacofa(VariantRelease[SacofaParams]):
    """A prefix tree over declared activities whose extensions are harmless or harmful: they break a behavioural rule.

    Rules are stated by the policy, or measured by noisy counts of how many cases take each step from one activity to the
    next. Every extension is noised, real or not, harmless or not; what is asked of which, and the exponential mechanism's
    choice among harmful ones, see noisy counts only. Rules seen in an earlier private release can be stated as known ones.
    An empty log gives a release made of noise or none; nothing aborts on data, and at most ``prefixes`` are kept a level.
    """

    name: ClassVar[str] = "variants/sacofa"
    summary: ClassVar[str] = "Releases variants along a noisy prefix tree that prefers what the process's rules allow."
    theorem: ClassVar[Theorem] = Theorem(
        "A unit of m cases of at most N events moves one count by m at most on each of the tree's N + 1 levels, and at most "
        "N + 1 counts of steps by m each (a case takes N + 1 different steps at most, start and end among them). With "
        "fresh discrete noise on every extension over a public alphabet and on every step, this is 2 (N + 1) composed "
        "measurements, or N + 1 where the rules are public; classes, thresholds and choices are post-processing.",
        "Fahrenkrog-Petersen et al. 2021 (SaCoFa; its rules and unselected counts made private); "
        "Canonne, Kamath and Steinke 2020 (the noise)",
    )
    Params = SacofaParams

    def meet(
        self, goal: DifferentialPrivacy, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[SacofaParams] | Refusal:
        """The least noise for the declared length and the rules that are to be measured, if any."""
        chosen = SacofaOptions.model_validate(options)
        noise = noise_of(goal, chosen)
        if isinstance(noise, Refusal):
            return noise
        if facts.alphabet is None:
            return Refusal("needs", "rules are about activities, which must be public", ("assume.alphabet",))
        named = (
            {label for one, _, other in chosen.rules for label in (one, other)} if chosen.rules != "measured" else set()
        )
        if strange := sorted(named - set(facts.alphabet)):
            return Refusal("misconfigured", f"option rules: '{strange[0]}' is not among the declared activities")
        params = calibrated(goal, facts, chosen, noise)
        how = "measured with noise" if params.rules is None else "as stated"
        why = f"counts prefixes with noise, and asks less of those that keep the rules of the process ({how})"
        return Offer(params, why)

    def event(self, params: SacofaParams, facts: Facts) -> PrivacyEvent:
        """The noise of all levels, and of the steps."""
        shape = params.shape if params.steps is None else (*params.shape, params.steps)
        return cost_of(shape, params.noise, params.max_cases)

    def decide(self, params: SacofaParams, summary: pl.DataFrame, noise: Noise) -> Decision:
        """Measure the rules unless they are stated, grow the tree by them, and make the counts of its leaves agree."""
        labels = params.alphabet or ()
        courses = Courses.of(summary, labels)
        keeper = Keeper(params, _rules(params, courses, noise), noise)
        levels = grow(courses, params.growth(len(labels)), keeper, noise)
        table = released(levels, labels, params.most_cases, noise)
        return Decision(table, figures(summary, table, sum(len(level.symbol) for level in levels)))


def _rules(params: SacofaParams, courses: Courses, noise: Noise) -> RuleBook:
    """The rules as stated, or by noisy counts of steps."""
    labels = params.alphabet or ()
    if params.steps is None:
        return RuleBook.of(params.rules or (), labels)
    counts = steps_of(courses, params.length, len(labels))
    return RuleBook.of_steps(noisy_steps(counts, params.steps.scale, params.noise, noise) >= params.least_steps)


def noisy_steps(counts: Codes, scale: float, kind: NoiseKind, noise: Noise) -> Codes:
    """How many cases take each step, with noise on every one, taken or not."""
    return counts + drawn(kind, scale, counts.size, noise).reshape(counts.shape)


class Keeper:
    """Which candidates of a level stay, judged by noisy counts, rules and fresh randomness."""

    def __init__(self, params: SacofaParams, rules: RuleBook, noise: Noise) -> None:
        self._params, self._rules, self._noise = params, rules, noise
        self._scales = tuple(params.growth(0).scales())

    def __call__(self, candidates: Candidates) -> NDArray[np.bool_]:
        """Harmless ones from their threshold on, and a choice of the harmful ones from theirs on."""
        broken = self._rules.broken(candidates)
        kept = self._frequent(candidates, broken == 0, self._params.harmless, FAKES)
        harmful = np.flatnonzero(self._frequent(candidates, broken > 0, self._params.harmful, FAKES_HARMFUL))
        kept[harmful[self._chosen(broken[harmful])]] = True
        return kept

    def _frequent(
        self, candidates: Candidates, among: NDArray[np.bool_], asked: int | None, fakes: float
    ) -> NDArray[np.bool_]:
        """Those of the candidates ``among`` that reach the threshold ``asked``, or else one that lets ``fakes`` a prefix pass."""
        allowed = min(LIKELIEST, fakes * len(candidates.paths) / max(1, int(among.sum())))
        threshold = asked or least_reached(self._scales[candidates.depth], allowed, self._params.noise)
        return np.asarray(among & (candidates.noisy >= threshold))

    def _chosen(self, broken: Codes) -> Codes:
        """At most ``most_harmful`` of the harmful ones, drawn one after another with weight exp(-score)."""
        if len(broken) <= self._params.most_harmful:
            return np.arange(len(broken))
        score = np.minimum(broken, MOST_BROKEN if self._params.score == "bounded-count" else 1)
        uniform = (self._noise.uniform(np.full(len(broken), 1 << 53)) + 0.5) / (1 << 53)
        # The smallest of scores plus independent Gumbel noise are draws by the exponential mechanism without replacement.
        return np.argsort(score + np.log(-np.log(uniform)), kind="stable")[: self._params.most_harmful]


def calibrated(goal: DifferentialPrivacy, facts: Facts, chosen: SacofaOptions, noise: NoiseKind) -> SacofaParams:
    """The least noise on the tree, and in proportion on the steps, that costs at most the goal's (epsilon, delta)."""
    m, measured, levels = facts.unit.max_cases, chosen.rules == "measured", length_of(facts, chosen) + 1
    ratio = (1 - chosen.share) / chosen.share
    steps = (Stage(levels=levels, scale=ratio**0.5 if noise == "gaussian" else ratio),) if measured else ()
    found = shape_for(goal, (*stages(levels, chosen.split), *steps), noise, m)
    counted = found[-1] if measured else None
    return SacofaParams(
        epsilon=goal.epsilon,
        delta=goal.delta,
        max_cases=m,
        alphabet=alphabet_of(facts),
        noise=noise,
        shape=found[:-1] if measured else found,
        prefixes=chosen.prefixes,
        most_cases=most_cases_of(facts),
        rules=None if chosen.rules == "measured" else chosen.rules,
        steps=counted,
        least_steps=least_reached(counted.scale, UNSEEN_STEPS, noise) if counted else 1,
        harmless=chosen.threshold,
        harmful=chosen.harmful_threshold,
        most_harmful=chosen.most_harmful,
        score=chosen.score,
    )

"""SaCoFa: a prefix tree that asks less of extensions that keep the rules of the process than of
those that break them.

Behavioural rules say which activities always or never follow or precede which. A rule reads as a
sentence: ("Discharge", "always follows", "Register"). What no rule speaks of may happen sometimes.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, get_args

import numpy as np
from pydantic import Field, field_validator

from cloakwork.base.arrays import Bools, Ints
from cloakwork.base.costs import Composed, PrivacyEvent
from cloakwork.base.facts import Facts
from cloakwork.base.frozen import frozen
from cloakwork.base.quantities import Number
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import AnswerNoise, Cases, Clip, Entries, Kernel, NoisySums, Randomness
from cloakwork.mechanisms.base import Offer, Options, Refusal, Theorem
from cloakwork.mechanisms.steps import Measurement
from cloakwork.mechanisms.variants.accuracy import Simulated
from cloakwork.mechanisms.variants.family import VariantRelease
from cloakwork_extras.trees.prefix_tree import (
    FALSE_PER_PREFIX,
    SHARE_OF_DELTA,
    TREE_OPTIONS,
    NoisyTree,
    TreeOptions,
    alphabet_of,
    calibrated_shape,
    choose_noise,
    counted_length,
    most_cases_of,
    refuse_low_threshold,
    released,
    singleton_pass_event,
    thresholds_hiding_singletons,
)
from cloakwork_extras.trees.tree import (
    END,
    Candidates,
    NoiseKind,
    Stage,
    answer_noise,
    by_level,
    cost_of,
    least_tail_value,
    level_stages,
)

Relation = Literal[
    "always follows", "never follows", "never directly follows", "always precedes", "never precedes"
]
Rule = tuple[str, Relation, str]


@frozen
class BehaviouralRules:
    """Stated rules, as tables of 0 and 1 over the n activities that they name; whatever else may
    happen breaks none.

    ``named``: these activities; in the tables, the END has the place n behind them, and all others
    n + 1.

    - ``never_after`` (n, n): the column's activity never comes after the row's.
    - ``required_before`` (n, n): the row's activity never comes unless the column's came before.
    - ``required_after`` (n, n): no case ends unless the column's activity came after the row's last
      one.
    - ``never_directly_after`` (n + 2, n + 2): the column's never comes directly after the row's.
    """

    named: tuple[str, ...]
    never_after: Ints
    required_before: Ints
    required_after: Ints
    never_directly_after: Ints

    @classmethod
    def from_rules(cls, rules: Sequence[Rule]) -> "BehaviouralRules":
        """The rules as tables."""
        named = dict.fromkeys(label for left, _, right in rules for label in (left, right))
        size = len(named)
        place_of = {label: place for place, label in enumerate(named)}
        found = cls(
            named=tuple(named),
            never_after=np.zeros((size, size), np.int64),
            required_before=np.zeros((size, size), np.int64),
            required_after=np.zeros((size, size), np.int64),
            never_directly_after=np.zeros((size + 2, size + 2), np.int64),
        )
        # Each relation is stated from its own side; the tables are kept by what they rule out.
        for left, relation, right in rules:
            a, b = place_of[left], place_of[right]
            match relation:
                case "always follows":
                    found.required_after[b, a] = 1
                case "never follows":
                    found.never_after[b, a] = 1
                case "never directly follows":
                    found.never_directly_after[b, a] = 1
                case "always precedes":
                    found.required_before[b, a] = 1
                case "never precedes":
                    found.never_after[a, b] = 1
        return found

    def count_violations(self, candidates: Candidates) -> Ints:
        """How many rules each candidate breaks by what it appends, for the first time or again:
        int64.
        """
        size = len(self.named)
        end, others = size, size + 1
        place_of = {label: place for place, label in enumerate(self.named)}
        # The END's code, -1, is the last entry's.
        codes = [place_of.get(label, others) for label in candidates.labels]
        place = np.array([*codes, end], np.int64)
        paths = place[candidates.paths]
        rows = np.arange(len(paths))
        # Where each path has each activity last; -1 where it has not. Later events overwrite.
        last_place = np.full((len(paths), size + 2), -1, np.int64)
        for position, activities in enumerate(paths.T):
            last_place[rows, activities] = position
        seen = (last_place[:, :size] >= 0).astype(np.int64)
        # Before the first event stands nothing that a rule names.
        before = paths[:, -1] if candidates.depth else np.full(len(paths), others)
        broken = self.never_directly_after[before].copy()
        # Products of 0-1 matrices count: for each path and next activity the rules it breaks.
        broken[:, :size] += seen @ self.never_after
        broken[:, :size] += (1 - seen) @ self.required_before.T
        for a, b in np.argwhere(self.required_after):
            # Ending here breaks the rule where b did not come after the last a.
            last_a, last_b = last_place[:, a], last_place[:, b]
            broken[:, end] += (last_a >= 0) & (last_a >= last_b)
        return broken[candidates.parent, place[candidates.symbol]]


_BEGINS, _GOES_ON, _ENDS = range(3)
"""What kind of step the labels in a key are: the first activity, two in a row, the last one."""


@frozen
class MeasuredSteps:
    """The one rule that nothing but the steps of the process ever happens: those whose noisy counts
    reach ``least``.

    ``counts`` as ``measure_steps`` makes them, ``declared``: over an alphabet.
    """

    counts: NoisySums
    least: int
    declared: bool

    def count_violations(self, candidates: Candidates) -> Ints:
        """1 for each candidate that appends what does not directly follow, else 0: int64."""
        start = np.full(len(candidates.paths), END)
        last = candidates.paths[:, -1] if candidates.depth else start
        width = len(candidates.labels) + 1
        # Start and END have the last code, the activities their own.
        step = last[candidates.parent] % width * width + candidates.symbol % width
        distinct, place = np.unique(step, return_inverse=True)
        if self.declared:
            noisy = self.counts.at(distinct)
        else:
            steps = [divmod(each, width) for each in distinct.tolist()]
            keys = [_step_key(before, after, candidates.labels) for before, after in steps]
            noisy = self.counts.at_labels(keys)
        return (noisy < self.least).astype(np.int64)[place]


def _step_key(before: int, after: int, labels: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """The key of a step between codes; that behind all labels is the start or the END."""
    if before == len(labels):
        return _BEGINS, (labels[after],)
    if after == len(labels):
        return _ENDS, (labels[before],)
    return _GOES_ON, (labels[before], labels[after])


def measure_steps(
    kernel: Kernel,
    noise: AnswerNoise,
    length: int,
    alphabet: tuple[str, ...] | None,
) -> NoisySums:
    """How many cases take each step at least once, with noise, read as steps are asked for.

    Over A activities of an ``alphabet``, others being passed over, a step from code a to code b has
    the key a * (A + 1) + b; A is the start (before) and the END (after), which are steps too.
    Without one its key is made of labels (``_step_key``). A case is cut after ``length`` events,
    without its END, so that it takes at most ``length + 1`` different steps.
    """
    clip = Clip("max", 1, length + 1)

    def steps_of_labels(cases: Cases) -> Entries:
        case, before, after = _steps_of(cases, length)
        kind = np.where(after < 0, _ENDS, np.where(before < 0, _BEGINS, _GOES_ON))
        start = np.where(before < 0, after, before)
        stop = np.where(after < 0, before, after) + 1
        return Entries(case, np.ones(len(case), np.int64), kind, start, stop)

    if alphabet is None:
        return kernel.sum(steps_of_labels, noise, clip)
    end = len(alphabet)

    def steps_of_codes(cases: Cases) -> Entries:
        known = cases.within(alphabet)
        case, before, after = _steps_of(known, length)
        # Where there is no event, its place is -1: the code behind all others.
        codes = np.append(known.codes, end)
        return Entries(case, np.ones(len(case), np.int64), codes[before] * (end + 1) + codes[after])

    return kernel.sum(steps_of_codes, noise, clip, keys=(end + 1) ** 2)


def _steps_of(cases: Cases, length: int) -> tuple[Ints, Ints, Ints]:
    """The steps of each case, cut after ``length`` events, each once: the case's row, and the
    places of the events before and after the step, -1 for the start and the END.
    """
    after = np.flatnonzero(cases.place < length)
    before = np.where(cases.place[after] == 0, -1, after - 1)
    # A case without events is no case.
    ended = np.flatnonzero((cases.lengths > 0) & (cases.lengths <= length))
    case = np.concatenate([cases.case_of[after], ended])
    before = np.concatenate([before, cases.offsets[ended + 1] - 1])
    after = np.concatenate([after, np.full(len(ended), -1)])
    # Once is enough; where there is no event, the code is the one behind all others.
    width = len(cases.alphabet) + 1
    codes = np.append(cases.codes, width - 1)
    step = codes[before] * width + codes[after]
    order = np.lexsort((step, case))
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (np.diff(case[order]) != 0) | (np.diff(step[order]) != 0)
    first = order[is_first]
    return case[first], before[first], after[first]


HARMFUL_FALSE_PER_PREFIX: Final = 0.1
"""Harmful extensions that nobody took and a kept prefix may get on average."""

FALSE_STEPS: Final = 0.02
"""Of the steps that nobody takes, how many may pass for steps of the process, on average."""


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
    def lowest_thresholds(self) -> tuple[int, ...] | None:
        """The lower of the two, by stage."""
        if self.harmless is None or self.harmful is None:
            return None
        return tuple(map(min, self.harmless, self.harmful))

    @property
    def named_activities(self) -> frozenset[str]:
        """The activities that stated rules speak of."""
        return frozenset(label for one, _, other in self.rules or () for label in (one, other))


def calibrate_sacofa(
    goal: DifferentialPrivacy,
    facts: Facts,
    chosen: SacofaOptions,
    noise: NoiseKind,
) -> SacofaParams:
    """The least noise on the tree, and in proportion on the steps, that costs at most the goal's
    (epsilon, delta).
    """
    shape, steps = _least_noise(goal, facts, chosen, noise)
    params = SacofaParams(
        epsilon=goal.epsilon,
        delta=goal.delta,
        max_cases=facts.unit.max_cases,
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
    # Over a public alphabet no threshold has to hide anything.
    if params.alphabet is not None:
        return params
    least = hiding_thresholds(params)
    stricter = hiding_thresholds(params, HARMFUL_FALSE_PER_PREFIX / FALSE_PER_PREFIX)
    # What the policy states counts only as far as it hides prefixes of one unit.
    harmless = params.harmless or least
    harmful = params.harmful or stricter
    return params.model_copy(
        update={
            "harmless": tuple(map(max, least, harmless)),
            "harmful": tuple(map(max, least, harmful)),
        }
    )


def _least_noise(
    goal: DifferentialPrivacy,
    facts: Facts,
    chosen: SacofaOptions,
    noise: NoiseKind,
) -> tuple[tuple[Stage, ...], Stage | None]:
    """The tree's stages and, where rules are measured, the steps', at the least noise."""
    m = facts.unit.max_cases
    levels = counted_length(facts, chosen) + 1
    reserved_delta = 0.0 if facts.alphabet is not None else goal.delta * SHARE_OF_DELTA
    relative = level_stages(levels, chosen.split)
    if chosen.rules != "measured":
        return calibrated_shape(goal, relative, noise, m, reserved_delta), None
    # Steps are one stage more, calibrated together with the tree.
    # Costs go by 1/scale, and by 1/sigma**2: so the steps get their share of the budget.
    ratio = (1 - chosen.share) / chosen.share
    steps = Stage(levels=levels, scale=ratio**0.5 if noise == "gaussian" else ratio)
    *tree, steps = calibrated_shape(goal, (*relative, steps), noise, m, reserved_delta)
    return tuple(tree), steps


def _same_for_all_stages(shape: tuple[Stage, ...], threshold: int | None) -> tuple[int, ...] | None:
    return None if threshold is None else (threshold,) * len(shape)


def hiding_thresholds(params: SacofaParams, part: float = 1.0) -> tuple[int, ...]:
    """By stage, the threshold that prefixes of one unit alone pass with at most this ``part`` of
    the delta set aside for it.
    """
    return thresholds_hiding_singletons(
        params.shape,
        params.delta * SHARE_OF_DELTA * part,
        params.max_cases,
        params.noise,
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
    options: ClassVar[Mapping[str, str]] = {
        **TREE_OPTIONS,
        "rules": "a list of [activity, relation, activity] that are known beforehand, or measured: "
        "with noise, at a share of the budget (measured)",
        "rules_from": "the id of the earlier private release that the rules were read off (none)",
        "share": "the part of the budget for measuring rules (0.1)",
        "harmful_threshold": "as threshold, for extensions that break a rule (such that a quarter "
        "of one passes)",
        "most_harmful": "the most extensions kept of one length that break a rule (100)",
        "score": "which of these are kept: binary, all alike; bounded-count, rather those that "
        "break fewer rules (bounded-count)",
    }
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
    simulated: ClassVar[Simulated] = (
        (0, 0, 0.82, 0.87, 0.95, 0.96, 0.98, 0.98),
        (0, 0, 0.02, 0.09, 0.52, 0.58, 0.63, 0.67),
    )
    undeclared: ClassVar[Simulated] = (
        (0, 0, 0, 0.82, 0.92, 0.95, 0.96, 0.98),
        (0, 0, 0, 0, 0, 0.19, 0.54, 0.6),
    )

    def meet(
        self,
        goal: DifferentialPrivacy,
        facts: Facts,
        options: Options,
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
        # Steps are charged as levels are: a case takes as many different ones.
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
    params: SacofaParams,
    alphabet: tuple[str, ...],
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
            candidates,
            violations == 0,
            self._params.harmless,
            FALSE_PER_PREFIX,
        )
        is_harmful = self._above_threshold(
            candidates,
            violations > 0,
            self._params.harmful,
            HARMFUL_FALSE_PER_PREFIX,
        )
        # Few of the harmful ones stay, and those that break fewer rules likelier.
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
        return of_kind & (candidates.noisy >= threshold)

    def _draw_harmful(self, violations: Ints) -> Ints:
        """At most ``most_harmful``, drawn one after another with weight exp(-score)."""
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

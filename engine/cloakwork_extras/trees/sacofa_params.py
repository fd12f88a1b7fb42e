"""The parameters of variants/sacofa: what a policy may set, and the least noise for a goal."""

from typing import Annotated, Any, Final, Literal, get_args

from pydantic import Field, field_validator

from cloakwork.base.facts import Facts
from cloakwork.base.quantities import Number
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork_extras.trees.prefix_tree import (
    FALSE_PER_PREFIX,
    SHARE_OF_DELTA,
    NoisyTree,
    TreeOptions,
    alphabet_of,
    calibrated_shape,
    counted_length,
    most_cases_of,
    thresholds_hiding_singletons,
)
from cloakwork_extras.trees.rules import (
    Relation,
    Rule,
)
from cloakwork_extras.trees.tree_noise import (
    NoiseKind,
    Stage,
    least_tail_value,
    level_stages,
)

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
    goal: DifferentialPrivacy, facts: Facts, chosen: SacofaOptions, noise: NoiseKind
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
    if params.alphabet is not None:
        return params
    least = hiding_thresholds(params)
    stricter = hiding_thresholds(params, HARMFUL_FALSE_PER_PREFIX / FALSE_PER_PREFIX)
    harmless = params.harmless or least
    harmful = params.harmful or stricter
    return params.model_copy(
        update={
            "harmless": tuple(map(max, least, harmless)),
            "harmful": tuple(map(max, least, harmful)),
        }
    )


def _least_noise(
    goal: DifferentialPrivacy, facts: Facts, chosen: SacofaOptions, noise: NoiseKind
) -> tuple[tuple[Stage, ...], Stage | None]:
    """The tree's stages and, where rules are measured, the steps', at the least noise."""
    m = facts.unit.max_cases
    levels = counted_length(facts, chosen) + 1
    reserved_delta = 0.0 if facts.alphabet is not None else goal.delta * SHARE_OF_DELTA
    relative = level_stages(levels, chosen.split)
    if chosen.rules != "measured":
        return calibrated_shape(goal, relative, noise, m, reserved_delta), None
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
        params.shape, params.delta * SHARE_OF_DELTA * part, params.max_cases, params.noise
    )

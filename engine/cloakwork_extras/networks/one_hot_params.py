"""The parameters of networks over a finite set of variants: where the variants come from, how
training goes, and the least noise for a budget.
"""

import math
from typing import Annotated, Final, NamedTuple

from pydantic import BaseModel, Field, field_validator

from cloakwork.accounting.events import naive, upper_bound_epsilon
from cloakwork.accounting.gaussians import mu_of_cost
from cloakwork.base.costs import Composed, Cost, DiscreteLaplace, PrivacyEvent
from cloakwork.base.errors import MechanismError
from cloakwork.base.exact import exactly
from cloakwork.base.facts import Facts
from cloakwork.base.quantities import Frozen, Number
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.variants.accuracy import DEFAULT_CASES
from cloakwork.mechanisms.variants.threshold import (
    ThresholdParams,
    least_threshold,
    threshold_event,
)
from cloakwork_extras.networks.calibration import (
    least_multiplier,
    multiplier_of_mu,
    steps_event,
)

Variant = Annotated[tuple[str, ...], Field(min_length=1)]

MOST_DECLARED: Final = 8192
"""Variants that a policy may declare."""

MOST_SELECTED: Final = 1024
"""Variants that a selection keeps at most, the most frequent ones by noisy count; fewer where the
declared number of units cannot have so many.
"""

LEAST_WIDTH: Final = 8

SELECTION_SHARE: Final = 0.9
"""The part of epsilon that the selection gets: what it counts is worth more than what a network
then learns (``docs/decisions/0049-generative-mechanisms.md``).
"""

SELECTION_DELTA: Final = 0.9
"""The part of delta that the selection gets."""

COUNT_SHARE: Final = 0.05
"""The part of epsilon for the number of cases, where the variants are declared."""

NORM: Final = 1.0
"""What a case's gradient is clipped to: the gradient of cross-entropy by the logits has a norm of
at most the root of two.
"""


class OneHotOptions(BaseModel):
    """``domain``: the variants that are public, each a list of activities; None: they are selected,
    with ``selection_share`` of epsilon.

    ``steps``: gradient steps of each phase of training. ``hidden``: width of the hidden layers.
    ``rate``: chance of a unit to be in the sample of a step. At equal cost the steps of everybody
    have the least noise; those of a sample take less time.
    """

    model_config = {"extra": "forbid", "frozen": True}

    domain: Annotated[tuple[Variant, ...], Field(min_length=1, max_length=MOST_DECLARED)] | None = (
        None
    )
    selection_share: Annotated[float, Field(ge=0.05, le=0.99)] = SELECTION_SHARE
    steps: Annotated[int, Field(ge=1, le=10_000)] = 40
    hidden: Annotated[int, Field(ge=1, le=256)] = 16
    rate: Annotated[float, Field(gt=0, le=1)] = 1.0

    @field_validator("domain")
    @classmethod
    def _refuse_repeats(cls, domain: tuple[Variant, ...] | None) -> tuple[Variant, ...] | None:
        if domain is not None and len(set(domain)) < len(domain):
            raise ValueError("a variant is listed twice")
        return domain


class OneHotParams(Frozen):
    """Either ``domain``, the public variants, with ``count_scale`` of the discrete Laplace noise on
    the number of their cases; or ``selection``.

    ``width``: numbers that a variant is coded by, at least as many as there will be variants.
    ``hidden``: width of the hidden layers. ``steps`` of each phase, on samples that hold each unit
    with probability ``rate``; gradients of a case are clipped to ``norm``, and the noise has
    ``multiplier`` deviations to what a unit moves their sum by. ``learning_rate``: how far a step
    goes. ``unit``: the attribute that names it; ``max_cases``: its cases. ``epsilon`` and
    ``delta``: the target of all this together.
    """

    epsilon: Annotated[Number, Field(gt=0)]
    delta: Annotated[Number, Field(gt=0, lt=1)]
    unit: str | None = None
    max_cases: Annotated[int, Field(ge=1)] = 1
    domain: tuple[Variant, ...] | None = None
    count_scale: Annotated[Number, Field(gt=0)] | None = None
    selection: ThresholdParams | None = None
    width: Annotated[int, Field(ge=1)]
    hidden: Annotated[int, Field(ge=1)]
    steps: Annotated[int, Field(ge=1)]
    rate: Annotated[Number, Field(gt=0, le=1)]
    norm: Annotated[Number, Field(gt=0)] = NORM
    multiplier: Annotated[Number, Field(gt=0)]
    learning_rate: Annotated[Number, Field(gt=0)]


class LearningRates(NamedTuple):
    """How far a step goes: ``declared``, where nothing is known of the variants beforehand;
    ``selected``, where they have noisy counts.
    """

    declared: float
    selected: float


def expected_cases(facts: Facts) -> int:
    """How many cases there may be, as far as is declared."""
    return (facts.units_at_most or DEFAULT_CASES) * facts.unit.max_cases


def selected_width(tau: int, facts: Facts) -> int:
    """How many variants a selection may keep."""
    if facts.units_at_most is None:
        return MOST_SELECTED
    most = math.ceil(2 * expected_cases(facts) / tau)
    return max(LEAST_WIDTH, min(MOST_SELECTED, most))


def without_noise(
    goal: DifferentialPrivacy, facts: Facts, options: OneHotOptions, rates: LearningRates
) -> OneHotParams:
    """All but the noise of training: a multiplier of 1."""
    from cloakwork.accounting.calibrate import laplace_scale

    cases = facts.unit.max_cases
    selection, count_scale = None, None
    if options.domain is None:
        share = options.selection_share
        selection = least_threshold(goal.epsilon * share, goal.delta * SELECTION_DELTA, cases, None)
        width = selected_width(selection.tau, facts)
    else:
        count_scale = laplace_scale(goal.epsilon * COUNT_SHARE, cases)
        width = len(options.domain)
    return OneHotParams(
        epsilon=goal.epsilon,
        delta=goal.delta,
        unit=facts.unit.attribute,
        max_cases=cases,
        domain=options.domain,
        count_scale=count_scale,
        selection=selection,
        width=width,
        hidden=options.hidden,
        steps=options.steps,
        rate=options.rate,
        multiplier=1.0,
        learning_rate=rates.selected if options.domain is None else rates.declared,
    )


def with_noise(params: OneHotParams, sizes: tuple[int, ...]) -> OneHotParams:
    """The noise for phases of ``sizes`` weights each; raises MechanismError where none is enough.

    On samples the least that the accountant allows; on everybody what a closed form says, a few
    hundredths more, since a planner asks every mechanism and searches take their time.
    """

    def training_at(multiplier: float) -> PrivacyEvent:
        return training_event(params.model_copy(update={"multiplier": multiplier}), sizes)

    target = Cost(epsilon=params.epsilon, delta=params.delta)
    before = domain_event(params)
    if params.rate == 1:
        multiplier = _multiplier_of_everybody(params.steps * len(sizes), target, before)
        while upper_bound_epsilon(_both(before, training_at(multiplier)), target.delta) > (
            target.epsilon
        ):
            multiplier *= 1 + _MORE_NOISE
    else:
        multiplier = least_multiplier(training_at, target, before)
    return params.model_copy(update={"multiplier": multiplier})


_MORE_NOISE: Final = 1e-4
"""By which factor the noise grows where rounding made it too little."""


def _multiplier_of_everybody(times: int, target: Cost, before: PrivacyEvent) -> float:
    """The multiplier with which ``times`` steps on everybody cost what ``before`` leaves of
    ``target``, by plain sums.
    """
    own = naive(before)
    left = exactly(target.delta) - exactly(own.delta)
    rest = exactly(target.epsilon) - exactly(own.epsilon)
    if left <= 0 or rest <= 0:
        raise MechanismError("calibration", "nothing of the budget is left for training")
    return multiplier_of_mu(times, mu_of_cost(float(rest), float(left)))


def _both(one: PrivacyEvent, other: PrivacyEvent) -> PrivacyEvent:
    return Composed(events=(one, other))


def domain_event(params: OneHotParams) -> PrivacyEvent:
    """What it costs to find the variants, or the number of their cases."""
    if params.selection is not None:
        return threshold_event(params.selection)
    assert params.count_scale is not None  # noqa: S101 - a declared domain comes with its scale
    return DiscreteLaplace(scale=params.count_scale, sensitivity=params.max_cases)


def training_event(params: OneHotParams, sizes: tuple[int, ...]) -> PrivacyEvent:
    """What all phases of training cost."""
    each = (
        steps_event(params.steps, params.rate, params.multiplier, size, params.max_cases)
        for size in sizes
    )
    return Composed(events=tuple(each))

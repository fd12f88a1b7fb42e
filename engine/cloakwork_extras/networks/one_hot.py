"""What mechanisms share that train networks on variants of a finite set, a place each: where the
variants come from, how training goes, and the least noise for a budget.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, ClassVar, Final, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, Field, JsonValue, field_validator

from cloakwork.accounting.events import naive, upper_bound_epsilon
from cloakwork.accounting.leaf_events import mu_of_cost
from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.costs import Composed, Cost, DiscreteLaplace, PrivacyEvent
from cloakwork.base.errors import MechanismError
from cloakwork.base.exact import exactly
from cloakwork.base.facts import Facts
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.base.quantities import Frozen, Number
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Cases, Descent, Entries, Kernel, Laplace
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.mechanisms.steps import Measurement
from cloakwork.mechanisms.variants.accuracy import DEFAULT_CASES
from cloakwork.mechanisms.variants.chain import MOST_CASES, in_whole
from cloakwork.mechanisms.variants.family import VariantRelease
from cloakwork.mechanisms.variants.threshold import (
    ThresholdParams,
    least_threshold,
    select_variants,
    threshold_event,
)
from cloakwork_extras.networks.steps import (
    Shape,
    TrainsNetwork,
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
then learns (``docs/decisions/18-extras-and-other-packages.md``).
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
    # No more variants can reach the threshold than there are cases for, with some to spare.
    most = math.ceil(2 * expected_cases(facts) / tau)
    return max(LEAST_WIDTH, min(MOST_SELECTED, most))


def without_noise(
    goal: DifferentialPrivacy,
    facts: Facts,
    options: OneHotOptions,
    rates: LearningRates,
) -> OneHotParams:
    """All but the noise of training: a multiplier of 1."""
    from cloakwork.accounting.calibrate import laplace_scale

    cases = facts.unit.max_cases
    selection, count_scale = None, None
    # Variants are found, or their cases are counted: either comes out of the budget first.
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
        # The closed form leaves out how norms are rounded up: a little more noise makes up for it.
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
    # In exact fractions: rounding must not leave a budget where there is none.
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


LEAST_COUNT: Final = 0.5
"""A noisy count below it says no more than it."""


@frozen
class Domain:
    """The variants that a network knows, and what is known of them before it is trained.

    ``shares``: float64, above 0, of the cases, adding up to 1; ``cases``: how many there are, by
    noisy counts, 0 or more.
    """

    variants: tuple[tuple[str, ...], ...]
    shares: Floats
    cases: int

    @property
    def size(self) -> int:
        """How many variants there are."""
        return len(self.variants)

    def places(self, cases: Cases) -> Ints:
        """The place of each case's variant; -1 of a case that follows none of them."""
        return cases.among(self.variants)


class OneHotRelease(TrainsNetwork, VariantRelease[OneHotParams]):
    """Release as many cases of each variant as a trained network generates on average.

    Cases that follow no variant of the domain count for nothing. Where there are no cases by the
    noisy counts, or one variant at most, no network is trained.
    """

    Params = OneHotParams
    options: ClassVar[Mapping[str, str]] = {
        "domain": "the variants that are public, each a list of activities "
        "(none: they are selected, as by variants/threshold)",
        "selection_share": "the part of epsilon for selecting variants, where none are declared "
        "(0.9)",
        "steps": "gradient steps of each phase of training (40)",
        "hidden": "the width of the hidden layers (16)",
        "rate": "the chance of a unit to be in the sample of a step (1)",
    }
    needs_delta: ClassVar[bool] = True
    Options: type[OneHotOptions] = OneHotOptions
    learning_rates: ClassVar[LearningRates]

    @abstractmethod
    def sizes(self, params: OneHotParams) -> tuple[int, ...]:
        """How many weights each phase of training has."""

    @abstractmethod
    def learned_shares(
        self,
        params: OneHotParams,
        domain: Domain,
        kernel: Kernel,
    ) -> Floats:
        """The share of each variant among the cases that the trained network generates: float64,
        shape (domain.size,), at least 0, adding up to 1.
        """

    def meet(
        self,
        goal: DifferentialPrivacy,
        facts: Facts,
        options: Mapping[str, JsonValue],
    ) -> Offer[OneHotParams] | Refusal:
        """The variants first, and the least noise on gradients with what that leaves."""
        chosen = self.Options.model_validate(options)
        try:
            params = self._offered(goal, facts, chosen)
        except MechanismError as error:
            return Refusal("misconfigured", str(error))
        found = f"{params.width:,} variants that the policy declares public"
        if params.selection is not None:
            found = f"the variants that reach {params.selection.tau} cases by noisy count"
        return Offer(
            params,
            f"trains networks on {found}, with noise of {params.multiplier:.3g} gradients of a "
            f"case on each of {len(self.sizes(params)) * params.steps:,} sums of gradients",
        )

    def event(self, params: OneHotParams, facts: Facts) -> PrivacyEvent:
        """The variants or their number of cases, and every step of every phase."""
        del facts
        return Composed(events=(domain_event(params), training_event(params, self.sizes(params))))

    def lineage(self, params: OneHotParams) -> Lineage:
        """Measures which unit follows which variants; every case of the release is generated."""
        owner = frozenset() if params.unit is None else frozenset({params.unit})
        return Lineage(
            measures=frozenset({CONTROL_FLOW}) | owner,
            writes=frozenset({CONTROL_FLOW, METADATA}),
            generates=True,
        )

    def measure(self, params: OneHotParams, kernel: Kernel) -> Measurement:
        """Find the variants, train, and release what the network generates on average."""
        domain = domain_of(params, kernel)
        shares = domain.shares
        # Nothing can be learned of one variant, or of no case.
        if domain.size > 1 and domain.cases > 0:
            shares = self.learned_shares(params, domain, kernel)
        figures: dict[str, JsonValue] = {"variants of the domain": domain.size}
        return Measurement(domain.variants, cases_of(shares, domain.cases), figures)

    def training_seconds(
        self, params: OneHotParams, facts: Facts, device: Literal["cpu", "cuda"] = "cpu"
    ) -> float | None:
        """About how long training takes: what a step was measured to take for so many weights,
        and so many cases as are declared, each with a number for every place.
        """
        if device != "cpu":
            return None
        # Alike cases are computed once; a declared domain allows few different ones.
        distinct = expected_cases(facts) * params.rate
        if params.domain is not None:
            distinct = min(distinct, 2 * params.width)
        weights = sum(self.sizes(params))
        cells = distinct * params.width * len(self.sizes(params))
        a_step = SECONDS_A_STEP + SECONDS_A_WEIGHT * weights + SECONDS_A_CELL * cells
        return params.steps * a_step

    def _offered(
        self,
        goal: DifferentialPrivacy,
        facts: Facts,
        options: OneHotOptions,
    ) -> OneHotParams:
        params = without_noise(goal, facts, options, self.learning_rates)
        return _calibrated(params, self.sizes(params))


SECONDS_A_STEP: Final = 0.01
SECONDS_A_WEIGHT: Final = 1e-6
SECONDS_A_CELL: Final = 4e-8
"""Measured on one core, for 20, 500 and 1,500 variants."""


@lru_cache(maxsize=64)
def _calibrated(params: OneHotParams, sizes: tuple[int, ...]) -> OneHotParams:
    return with_noise(params, sizes)


def domain_of(params: OneHotParams, kernel: Kernel) -> Domain:
    """The declared variants, and how many cases follow one of them by a noisy count; or those that
    are selected, with their noisy counts.
    """
    if params.domain is not None:
        return _declared_domain(params, params.domain, kernel)
    assert params.selection is not None  # noqa: S101 - it stands where no domain is declared
    found = select_variants(params.selection, kernel)
    # The most frequent ones, where there are more than the network has places for.
    kept = np.sort(np.argsort(-found.noisy, kind="stable")[: params.width])
    counts = np.maximum(found.noisy[kept].astype(np.float64), LEAST_COUNT)
    variants = tuple(found.labels[place] for place in kept.tolist())
    shares = counts / counts.sum() if len(counts) else counts
    return Domain(variants, shares, _as_cases(counts.sum()))


def _declared_domain(
    params: OneHotParams,
    declared: tuple[tuple[str, ...], ...],
    kernel: Kernel,
) -> Domain:
    assert params.count_scale is not None  # noqa: S101 - a declared domain comes with its scale

    def is_inside(cases: Cases) -> Entries:
        # One key for every case that follows any of the variants; none for the others.
        return Entries.one_each(cases, np.minimum(cases.among(declared), 0))

    counted = kernel.sum(is_inside, Laplace(params.count_scale), keys=1)
    cases = _as_cases(float(counted.at(np.zeros(1, np.int64))[0]))
    return Domain(declared, np.full(len(declared), 1 / len(declared)), cases)


def _as_cases(noisy: float) -> int:
    return round(min(max(0.0, noisy), MOST_CASES))


def cases_of(shares: Floats, cases: int) -> Ints:
    """Whole numbers of cases by share: int64, adding up to ``cases``."""
    if not len(shares):
        return np.zeros(0, np.int64)
    return in_whole(shares * cases, cases)


def descent_of(params: OneHotParams, domain: Domain) -> Descent:
    """The steps of one phase; their means are over the noisy number of cases."""
    return Descent.of(
        times=params.steps,
        rate=params.rate,
        norm=params.norm,
        multiplier=params.multiplier,
        denominator=max(1, domain.cases) * params.rate,
        max_cases=params.max_cases,
    )


def padded(values: Floats, width: int, padding: float) -> Floats:
    """``values`` and ``padding`` up to ``width`` numbers: float64."""
    found = np.full(width, padding)
    found[: len(values)] = values
    return found


def autoencoder_sizes(params: OneHotParams) -> tuple[Shape, ...]:
    """A row for each variant, to the code; from the code, to a number for each variant."""
    hidden, code = params.hidden, code_size(params)
    return (
        (params.width, hidden),
        (hidden + 1, code),
        (code + 1, hidden),
        (hidden + 1, params.width),
    )


def discriminator_sizes(params: OneHotParams) -> tuple[Shape, ...]:
    """A row for each variant, to a score."""
    return ((params.width, params.hidden), (params.hidden + 1, 1))


def code_size(params: OneHotParams) -> int:
    """How many numbers the code of a case has."""
    return max(1, params.hidden // 2)


def denoiser_sizes(params: OneHotParams) -> tuple[Shape, ...]:
    """From a noisy variant, and how noisy it is, to a number for each variant."""
    return ((params.width + 2, params.hidden), (params.hidden + 1, params.width))


LEVELS: Final = 20
"""Of noise."""

CHAINS: Final = 1 << 15
WORK: Final = 100_000_000
"""How many variants are made of noise: at most ``CHAINS``, and as many as have ``WORK`` numbers
over all levels.
"""

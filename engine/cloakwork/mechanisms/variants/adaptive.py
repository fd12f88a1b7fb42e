"""Measure how the cases are spread over variants, with a little of the budget; then take the
mechanism that suits.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, ClassVar, Final

import numpy as np
from pydantic import BaseModel, Field, JsonValue

from cloakwork.base.arrays import Ints
from cloakwork.base.costs import (
    Composed,
    Cost,
    DiscreteLaplace,
    EpsilonDelta,
    NonPrivate,
    PrivacyEvent,
)
from cloakwork.base.exact import exactly, rounded_down
from cloakwork.base.facts import Facts
from cloakwork.base.naming import LAYERS_TABLE
from cloakwork.base.quantities import IF_SAID, Number
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import CustomQuery, Kernel, Laplace
from cloakwork.mechanisms.base import Offer, Options, Refusal, Theorem
from cloakwork.mechanisms.steps import Measurement
from cloakwork.mechanisms.variants.accuracy import DEFAULT_CASES, Simulated
from cloakwork.mechanisms.variants.chain import MOST_CASES
from cloakwork.mechanisms.variants.family import VariantParams, VariantRelease
from cloakwork.mechanisms.variants.markov import (
    SHARES_OF_ALL,
    UNIT_NORM,
    MarkovParams,
    VariantMarkov,
    cases_by_chance,
    what_steps_show,
)
from cloakwork.mechanisms.variants.threshold import (
    ThresholdParams,
    VariantThreshold,
    threshold_event,
)

LEAST_SHARE: Final = 0.05
"""The least part of epsilon spent on measuring the concentration of variants; more is spent on
small logs, up to ``MOST_SHARE``.
"""

MOST_SHARE: Final = 0.15

SUFFICIENT_SIGNAL: Final = 20.0
"""Epsilon times cases that show well enough how cases are spread."""

LEAST_SIGNIFICANCE: Final = 8.0
"""How large (tail / cases) (tail / sigma) must be for a model of the tail to pay; ``tail``: the
cases outside frequent variants, ``sigma``: the model's noise on a step.
"""

CLEAR_LOG: Final = 10.0
"""How many times that scale all layers must hold, for frequent variants to show in the last one."""

CLEAR_LAYER: Final = 3.0
"""How many times the scale of its noise the layer beyond tau must hold, for a threshold to be
likely to release anything.
"""

TAIL_EXPONENT: Final = 0.75
"""The other cases are released as cases of the frequent variants by this power of their counts:
rare variants are variations of all frequent ones, and of the most frequent less than its count
would say.

How these constants were found, and which were settled after real logs had been seen, is in
``docs/decisions/16-variants.md``. They bear on accuracy only.
"""


class AdaptiveOptions(BaseModel):
    """``share``: the part of epsilon spent on measuring, instead of the default."""

    model_config = {"extra": "forbid", "frozen": True}
    share: Annotated[float, Field(gt=0, le=0.5, allow_inf_nan=False)] | None = None


class AdaptiveParams(VariantParams):
    """``scale``: of the noise on the three layers, in cases. One of the others is what goes on
    from there: ``threshold``, ``markov``, and, where activities are declared, ``of_all``, a Markov
    model that spends nothing on frequent variants.

    ``max_cases``: cases of one unit. ``epsilon`` and ``delta`` are the target of both steps
    together.
    """

    scale: Annotated[Number, Field(gt=0)]
    threshold: ThresholdParams
    markov: MarkovParams
    of_all: Annotated[MarkovParams | None, IF_SAID] = None

    @property
    def tau(self) -> int:
        """Least noisy count that the threshold releases, in cases."""
        return self.threshold.tau


class VariantAdaptive(VariantRelease[AdaptiveParams]):
    """Measure, at a small cost, whether frequent variants hold most cases; then release by
    threshold, or by a Markov model.

    Each case lies in one of three layers: it is among the first tau/2 cases of its variant, among
    those up to tau, or beyond. The layers' noisy sizes show how many cases belong to variants that
    a threshold would lose. Where these are many, and stand out of the noise of ``variants/markov``,
    that is run with what is left of the budget; else ``variants/threshold``, and the other cases
    (about as many as the layers say) are released as cases of the frequent variants. So counts are
    a little too large, and the release has about as many cases as the log.

    Where activities are declared, no release is empty. If the last layer, which would show it, does
    not show that a threshold would release anything, all of the budget goes to a Markov model of
    all cases; and where a threshold releases nothing, some cases are made of the declared
    activities alone, each following each other one alike, which says next to nothing.

    An empty log, one case and logs of unique variants end as in the mechanism chosen; none aborts
    on data.
    """

    name: ClassVar[str] = "variants/adaptive"
    options: ClassVar[Mapping[str, str]] = {
        "share": "the part of epsilon that is spent on measuring how cases are spread over "
        "variants (a twentieth; more on small logs)",
    }
    summary: ClassVar[str] = (
        "Measures whether frequent variants hold most cases, and thresholds or models accordingly."
    )
    theorem: ClassVar[Theorem] = Theorem(
        "One case more makes one variant's count c into c + 1, so of the sums over variants of "
        "min(c, a), of min(c, b) - min(c, a) and of c - min(c, b) exactly one grows, by 1: the "
        "three layers have L1 sensitivity m for units of at most m cases, and DLap(scale) on each "
        "is m/scale-DP. Whichever mechanism their noisy sizes select is (e, delta)-DP with e at "
        "most the larger of their costs; adaptive composition adds the two.",
        "Dwork, McSherry, Nissim, Smith 2006, theorem 1; Dwork and Roth 2014, theorem B.1 "
        "(adaptive composition); variants/threshold and variants/markov for their own",
    )
    Params = AdaptiveParams
    simulated: ClassVar[Simulated] = (
        (0.43, 0.73, 0.89, 0.95, 0.97, 0.98, 0.99, 0.99),
        (0.26, 0.26, 0.55, 0.67, 0.71, 0.76, 0.78, 0.8),
    )
    undeclared: ClassVar[Simulated] = (
        (0.16, 0.83, 0.92, 0.94, 0.96, 0.98, 0.99, 0.99),
        (0.09, 0.08, 0.42, 0.65, 0.71, 0.76, 0.79, 0.8),
    )
    runs: ClassVar[tuple[str, ...]] = (VariantThreshold.name, VariantMarkov.name)
    needs_delta: ClassVar[bool] = True

    def meet(
        self,
        goal: DifferentialPrivacy,
        facts: Facts,
        options: Options,
    ) -> Offer[AdaptiveParams] | Refusal:
        """A share for measuring, and both mechanisms with all that it leaves."""
        from cloakwork.accounting.calibrate import laplace_scale

        chosen = AdaptiveOptions.model_validate(options)
        cases = facts.unit.max_cases
        # The share is of epsilon alone: noise on the layers needs no delta.
        share = chosen.share or default_measurement_share(goal.epsilon, facts)
        scale = laplace_scale(goal.epsilon * share, cases)
        # What the scale really costs is taken off, exactly, and the rest rounded down.
        left = rounded_down(exactly(goal.epsilon) - cases / Fraction(scale))
        rest = goal.model_copy(update={"epsilon": left})
        # Both get all of the rest, since only one of them is run.
        threshold = VariantThreshold().offer(rest, facts, {})
        markov = VariantMarkov().offer(rest, facts, {})
        of_all = VariantMarkov().offer(rest, facts, {"shares": list(SHARES_OF_ALL)})
        if isinstance(threshold, Refusal):
            return threshold
        if isinstance(markov, Refusal):
            return markov
        if isinstance(of_all, Refusal):
            return of_all
        params = AdaptiveParams(
            epsilon=goal.epsilon,
            delta=goal.delta,
            max_cases=cases,
            scale=scale,
            threshold=threshold.params,
            markov=markov.params,
            of_all=None if facts.alphabet is None else of_all.params,
        )
        why = (
            "measures how cases are spread over variants, then keeps the frequent ones or models "
            "the rest too"
        )
        return Offer(params, f"{why}; {_what_if_nothing_shows(params, facts)}")

    def event(self, params: AdaptiveParams, facts: Facts) -> PrivacyEvent:
        """The three layers, and the most expensive of the mechanisms."""
        # One of them is run, chosen by noisy answers, so the largest epsilon covers each.
        highest = _dearest(params).epsilon
        if math.isinf(highest):
            return NonPrivate(reason="nothing bounds the cost of what is run after measuring")
        measurement = DiscreteLaplace(scale=params.scale, sensitivity=params.max_cases)
        return Composed(events=(measurement, EpsilonDelta(epsilon=highest, delta=params.delta)))

    def measure(self, params: AdaptiveParams, kernel: Kernel) -> Measurement:
        """Measure the layers, choose, and delegate."""
        # First the layers: they are all that the choice may depend on.
        layer_counts = kernel.custom(layers_query(params.tau), Laplace(params.scale))
        name, taken = _chosen(params, layer_counts)
        # Whichever is taken the dearest cost is booked: the charge is known before the choice.
        way = kernel.branch(_way_event(taken), _dearest(params))
        if isinstance(taken, MarkovParams):
            found = VariantMarkov().measure(taken, way)
            cases = found.cases
        else:
            # Variants that break public rules are not released: the rest may be none.
            found = VariantThreshold().measure(taken, way).keeping(params.markov.rules)
            # The cases that the threshold loses come back as cases of frequent variants.
            cases = spread_over(found.cases, int(layer_counts.sum()))
        if params.of_all is not None and not len(cases):
            name = "chance, of declared activities"
            found = cases_by_chance(params.of_all, kernel)
            cases = found.cases
        figures: dict[str, JsonValue] = {
            "cases of rare variants (noisy)": estimated_tail_cases(layer_counts),
            "released by": name,
            **found.internal,
        }
        return Measurement(found.variants, cases, figures)


def _chosen(
    params: AdaptiveParams, layer_counts: Ints
) -> tuple[str, ThresholdParams | MarkovParams]:
    """The mechanism that suits the noisy layers, and what it is run with."""
    # The model's noise on a step of order 1, from grid steps to cases.
    sigma = params.markov.sigmas[3] / UNIT_NORM
    would_show = layer_counts.sum() > CLEAR_LOG * params.scale
    if params.of_all is not None and would_show and layer_counts[2] <= CLEAR_LAYER * params.scale:
        return f"{VariantMarkov.name}, of all cases", params.of_all
    if is_tail_model_worthwhile(layer_counts, sigma):
        return VariantMarkov.name, params.markov
    return VariantThreshold.name, params.threshold


def _way_event(way: ThresholdParams | MarkovParams) -> PrivacyEvent:
    """What going on so costs; nothing that is declared bears on it."""
    if isinstance(way, MarkovParams):
        return VariantMarkov().event(way, Facts())
    return threshold_event(way)


def _dearest(params: AdaptiveParams) -> Cost:
    from cloakwork.accounting.events import cost

    ways = (params.threshold, params.markov, params.of_all)
    events = [_way_event(way) for way in ways if way is not None]
    highest = max(cost(event, params.delta).epsilon for event in events)
    return Cost(epsilon=highest, delta=params.delta)


def _what_if_nothing_shows(params: AdaptiveParams, facts: Facts) -> str:
    """What becomes of a log in which nothing stands out, by declared facts."""
    if params.of_all is None:
        return (
            f"what no {params.tau:,} cases or so share may be lost, and the release be empty: "
            "declare assume.alphabet, and it is never"
        )
    return "where no variant is frequent, draws cases from counts of steps: " + what_steps_show(
        params.of_all, facts
    )


def default_measurement_share(epsilon: float, facts: Facts) -> float:
    """The part of epsilon spent on measuring, by the declared number of units."""
    cases = max(DEFAULT_CASES, facts.units_at_most or 0)
    sufficient = SUFFICIENT_SIGNAL / (cases * epsilon)
    # Small logs need a larger share for the same signal, within both ends.
    return max(LEAST_SHARE, min(MOST_SHARE, sufficient))


def layers_query(tau: int) -> CustomQuery:
    """How many cases lie in each layer."""
    return CustomQuery(
        LAYERS_TABLE,
        lambda counts: rank_layers(counts, tau),
        size=3,
        sensitivity=1,
        because="One case more makes one variant's count c into c + 1, so of the sums over "
        "variants of min(c, a), of min(c, b) - min(c, a) and of c - min(c, b) exactly one grows, "
        "by 1.",
    )


def rank_layers(counts: Ints, tau: int) -> Ints:
    """How many cases are among the first tau/2 of their variant, among those up to tau, and beyond:
    int64, shape (3,).

    ``counts``: int64, cases by variant.
    """
    up_to_half = np.minimum(counts, tau // 2).sum()
    up_to_tau = np.minimum(counts, tau).sum()
    return np.diff([0, up_to_half, up_to_tau, counts.sum()]).astype(np.int64)


def estimated_tail_cases(layer_counts: Ints) -> int:
    """About how many cases belong to variants of fewer than tau: a variant of more fills both lower
    layers alike.
    """
    return max(0, int(layer_counts[0] - layer_counts[1]))


def is_tail_model_worthwhile(layer_counts: Ints, sigma: float) -> bool:
    """Whether a model of the tail, whose steps are counted with noise of ``sigma`` cases, is worth
    its cost.
    """
    tail = estimated_tail_cases(layer_counts)
    cases = max(1, int(layer_counts.sum()))
    # (tail / cases) (tail / sigma) > LEAST_SIGNIFICANCE, without a division.
    return tail**2 > LEAST_SIGNIFICANCE * cases * sigma


def spread_over(released: Ints, cases: int) -> Ints:
    """The other cases, up to ``cases`` in all, as cases of the variants that were released, which
    have ``released`` (int64, 1 or more) by themselves: see ``TAIL_EXPONENT``.
    """
    counts = released.astype(np.float64)
    others = min(max(0, cases - int(counts.sum())), MOST_CASES)
    weight = counts**TAIL_EXPONENT
    spread = counts + others * weight / max(1.0, float(weight.sum()))
    return np.rint(spread).astype(np.int64)

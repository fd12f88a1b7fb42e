"""TraVaS: release the noisy counts of variants that reach a threshold."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BaseModel, Field

from cloakwork.accounting.calibrate import (
    gaussian_threshold,
    gaussian_threshold_delta,
    laplace_scale,
    partition_threshold,
    smallest_scale,
    threshold_delta,
    truncation_bound,
)
from cloakwork.base.costs import (
    Composed,
    Cost,
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDelta,
    PrivacyEvent,
    TruncatedGeometric,
)
from cloakwork.base.exact import drawn_sigma
from cloakwork.base.facts import Facts
from cloakwork.base.naming import VARIANTS_TABLE
from cloakwork.base.quantities import Number
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import (
    AnswerNoise,
    Entries,
    Gaussian,
    Kernel,
    Laplace,
    Selected,
    Table,
    Truncated,
)
from cloakwork.mechanisms.base import (
    Offer,
    Options,
    PartOfGoal,
    Prediction,
    Refusal,
    Theorem,
)
from cloakwork.mechanisms.steps import Measurement
from cloakwork.mechanisms.variants.accuracy import Simulated
from cloakwork.mechanisms.variants.family import VariantParams, VariantRelease

Kind = Literal["laplace", "gaussian", "truncated-geometric"]
"""Discrete Laplace noise; discrete Gaussian noise; Laplace noise that is drawn again where it
reaches the threshold.
"""


class ThresholdOptions(BaseModel):
    """``noise``: what is added to the counts; by default truncated geometric where its threshold is
    lower, else Laplace.
    """

    model_config = {"extra": "forbid", "frozen": True}

    noise: Kind | None = None


class ThresholdParams(VariantParams):
    """``scale``: of the noise (Gaussian: its sigma), in cases; ``tau``: least noisy count that is
    released, in cases.

    ``max_cases``: cases of one unit. ``epsilon`` and ``delta`` are the target that scale and tau
    were found for. Truncated geometric noise reaches from 1 - tau to tau - 1.
    """

    noise: Kind = "laplace"
    scale: Annotated[Number, Field(gt=0)]
    tau: Annotated[int, Field(ge=1)]

    @property
    def noise_factor(self) -> float:
        """Predictions were simulated with Laplace noise: Gaussian noise counts as that which has
        its threshold.
        """
        if self.noise != "gaussian" or self.epsilon / self.max_cases < -math.log1p(-self.delta):
            return 1.0
        return self.tau / calibrate_threshold(self.epsilon, self.delta, self.max_cases).tau


COUNT_NOISE: Final = (
    "laplace, gaussian or truncated-geometric "
    "(truncated-geometric where its threshold is lower, else laplace)"
)


class VariantThreshold(VariantRelease[ThresholdParams]):
    """Count each variant, add noise, release those that reach ``tau`` with their noisy counts.

    Only variants that occur are counted: what keeps a rare one from revealing its owner is the
    threshold, chosen so that it is passed with probability at most delta. An empty log gives an
    empty release; it never aborts on data. A log of unique variants gives an empty release but for
    probability delta a variant; a single activity is no special case.

    Which noise, with r = e**(-epsilon/m):

    - ``laplace``: tau - m is the least j with m r**j / (1 + r) <= delta.
    - ``truncated-geometric``: tau = k + 1, k the least with r**(k-m+1) (1 - r**m) / (1 + r - 2
      r**(k+1)) <= delta. For delta <= 1/2 its tau is never above Laplace's, since k = tau_laplace -
      1 meets the bound; it is Laplace noise given that it does not exceed k, so it errs less; a
      count above 2k is never lost; and for m = 1 no mechanism whatever selects more often at the
      delta that it spends. tau is lower by about (m/epsilon) ln(m / (1 - e**-epsilon)): much where
      epsilon is small or m large (delta = 1e-4: 64 for 87 at epsilon 0.1, 10 for 10 at 1; with m =
      5, 46 for 57 at 1). Where its tau is lower, any count is released with a probability that is
      higher, or lower by less than delta (computed over a grid in the tests); so that is when it is
      the default.
    - ``gaussian``: half of delta for the noise, half for the threshold. One unit may put all its m
      cases on one variant, so the noise grows with m like Laplace's, and its tail and its threshold
      are larger at every epsilon of use; it is there for plans that compose many Gaussian
      measurements.
    """

    name: ClassVar[str] = "variants/threshold"
    options: ClassVar[Mapping[str, str]] = {"noise": COUNT_NOISE}
    serves_parts: ClassVar[bool] = True
    summary: ClassVar[str] = "Releases the noisy counts of frequent variants (TraVaS)."
    theorem: ClassVar[Theorem] = Theorem(
        "Noise DLap(m/epsilon) on the counts of the variants present, released where the noisy "
        "count reaches the least tau with m Pr[m + DLap(m/epsilon) >= tau] <= delta, is (epsilon, "
        "delta)-DP for units of at most m cases (unbounded neighbours). So is truncated geometric "
        "noise, or a discrete Gaussian on half of delta, with its own tau.",
        "Rafiei, Wangelik, van der Aalst 2022 (TraVaS); Desfontaines, Voss, Gipson, Mandayam 2022, "
        "theorem 2",
    )
    Params = ThresholdParams
    simulated: ClassVar[Simulated] = (
        (0.65, 0.83, 0.92, 0.95, 0.97, 0.98, 0.99, 0.99),
        (0, 0, 0, 0, 0.56, 0.61, 0.66, 0.7),
    )

    needs_delta: ClassVar[bool] = True

    def meet(
        self,
        goal: DifferentialPrivacy,
        facts: Facts,
        options: Options,
    ) -> Offer[ThresholdParams] | Refusal:
        """The least noise and the least threshold."""
        kind = ThresholdOptions.model_validate(options).noise
        params = least_threshold(goal.epsilon, goal.delta, facts.unit.max_cases, kind)
        return Offer(params, _why(params))

    def meet_part(
        self,
        part: PartOfGoal,
        facts: Facts,
        options: Options,
    ) -> Offer[ThresholdParams] | Refusal:
        """Gaussian noise of m / ``mu`` cases, and the least threshold that spends ``delta``."""
        kind = ThresholdOptions.model_validate(options).noise
        # Parts of a goal are composed as Gaussian noise, so another kind cannot serve one.
        if kind not in (None, "gaussian"):
            return Refusal(
                "misconfigured", f"beside other columns its noise is gaussian, not {kind}"
            )
        params = threshold_part(part.mu, part.delta, facts.unit.max_cases)
        return Offer(params, _why(params))

    def predict(self, params: ThresholdParams, facts: Facts) -> Prediction | None:
        """By simulation; nothing where only a variant that most of all cases follow could reach
        ``tau``.
        """
        found = super().predict(params, facts)
        if found is not None and 2 * params.tau > found.cases * params.max_cases:
            return replace(found, usual=0.0, varied=0.0)
        return found

    def event(self, params: ThresholdParams, facts: Facts) -> PrivacyEvent:
        """The noise on the counts, and the chance that a variant of one unit alone passes the
        threshold.
        """
        return threshold_event(params)

    def measure(self, params: ThresholdParams, kernel: Kernel) -> Measurement:
        """The variants whose noisy counts reach ``tau``, with these counts."""
        found = select_variants(params, kernel)
        return Measurement(found.labels, found.noisy)


def _why(params: ThresholdParams) -> str:
    return (
        f"counts variants, adds {params.noise} noise, "
        f"and keeps those that reach {params.tau} cases, "
        f"each count off by {expected_error(params):,.3g} cases on average"
    )


def expected_error(params: ThresholdParams) -> float:
    """Mean absolute noise on a count, in cases, from above: E|DLap(b)| = 1 / sinh(1/b), which
    truncation only lowers; a Gaussian's is sigma sqrt(2/pi).
    """
    if params.noise == "gaussian":
        return params.scale * math.sqrt(2 / math.pi)
    return 1 / math.sinh(1 / params.scale)


def calibrate_threshold(
    epsilon: float,
    delta: float,
    max_cases: int,
    noise: Kind = "laplace",
) -> ThresholdParams:
    """The least noise and the least threshold that cost at most (epsilon, delta) for units of
    ``max_cases`` cases.
    """
    # Gaussian noise spends delta itself, so its threshold gets a part; the others' gets all of it.
    if noise == "gaussian":
        scale = _least_sigma(epsilon, delta, max_cases)
        tau = gaussian_threshold(scale, delta * _THRESHOLD_SHARE, max_cases)
    elif noise == "laplace":
        scale = laplace_scale(epsilon, max_cases)
        tau = partition_threshold(scale, delta, max_cases)
    else:
        scale = laplace_scale(epsilon, max_cases)
        # Noise reaches the bound at most: tau is one above it.
        tau = truncation_bound(scale, delta, max_cases) + 1
    return ThresholdParams(
        epsilon=epsilon,
        delta=delta,
        max_cases=max_cases,
        noise=noise,
        scale=scale,
        tau=tau,
    )


def threshold_part(
    mu: float,
    delta: float,
    max_cases: int,
) -> ThresholdParams:
    """Gaussian noise of which a unit of ``max_cases`` cases moves a count by ``mu`` deviations at
    most, and the least threshold that it passes with a probability of at most ``delta``.

    The target that these meet by themselves: delta for the threshold and as much for the noise.
    """
    from cloakwork.accounting.leaf_events import epsilon_of_normal

    scale = drawn_sigma(max_cases / mu)
    return ThresholdParams(
        epsilon=epsilon_of_normal(mu, delta),
        delta=delta / _THRESHOLD_SHARE,
        max_cases=max_cases,
        noise="gaussian",
        scale=scale,
        tau=gaussian_threshold(scale, delta, max_cases),
    )


def least_threshold(
    epsilon: float,
    delta: float,
    max_cases: int,
    noise: Kind | None,
) -> ThresholdParams:
    """With this noise; or truncated geometric noise where that has a lower threshold than Laplace
    noise, and else Laplace.
    """
    if noise is not None:
        return calibrate_threshold(epsilon, delta, max_cases, noise)
    laplace = calibrate_threshold(epsilon, delta, max_cases, "laplace")
    truncated = calibrate_threshold(epsilon, delta, max_cases, "truncated-geometric")
    return truncated if truncated.tau < laplace.tau else laplace


_THRESHOLD_SHARE: Final = 0.5
"""The share of delta that the threshold may spend under Gaussian noise; the noise spends the rest.
"""


def _least_sigma(
    epsilon: float,
    delta: float,
    max_cases: int,
) -> float:
    """The least sigma that costs, with a threshold, at most (epsilon, delta)."""
    threshold_cost = EpsilonDelta(epsilon=0.0, delta=delta * _THRESHOLD_SHARE)

    def cost_at(sigma: float) -> PrivacyEvent:
        # The charge is for the sigma that is drawn.
        noise = DiscreteGaussian(sigma=drawn_sigma(sigma), sensitivity=max_cases)
        return Composed(events=(noise, threshold_cost))

    target = Cost(epsilon=epsilon, delta=delta)
    return drawn_sigma(smallest_scale(cost_at, target))


def threshold_event(params: ThresholdParams) -> PrivacyEvent:
    """What counts of the variants present cost that get this noise and are released from ``tau``
    on.
    """
    scale = params.scale
    tau = params.tau
    cases = params.max_cases
    # Truncated noise carries the threshold's delta in its own event.
    if params.noise == "truncated-geometric":
        return TruncatedGeometric(scale=scale, bound=max(1, tau - 1), sensitivity=cases)
    noise: PrivacyEvent
    if params.noise == "gaussian":
        noise = DiscreteGaussian(sigma=scale, sensitivity=cases)
        passed = gaussian_threshold_delta(scale, tau, cases)
    else:
        noise = DiscreteLaplace(scale=scale, sensitivity=cases)
        passed = threshold_delta(scale, tau, cases)
    return Composed(events=(noise, EpsilonDelta(epsilon=0.0, delta=passed)))


def select_variants(params: ThresholdParams, kernel: Kernel) -> Selected:
    """The variants that are selected, as labels, and their noisy counts in cases."""
    table = Table(VARIANTS_TABLE)
    return kernel.select(Entries.of_variants, answer_noise(params), params.tau, table=table)


def answer_noise(params: ThresholdParams) -> AnswerNoise:
    """The noise on each count."""
    if params.noise == "gaussian":
        return Gaussian(params.scale)
    if params.noise == "laplace":
        return Laplace(params.scale)
    return Truncated(params.scale, max(1, params.tau - 1))

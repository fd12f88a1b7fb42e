"""TraVaS: release the noisy counts of variants that reach a threshold."""

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np
import polars as pl
from pydantic import Field, JsonValue

from cloakwork.facts import Facts
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Decision, Offer, Prediction, Refusal, Theorem
from cloakwork.mechanisms.variants.family import NoOptions, VariantRelease
from cloakwork.noise import Noise, drawn_scale
from cloakwork.privacy_event import Composed, DiscreteLaplace, EpsilonDelta, PrivacyEvent
from cloakwork.quantities import Frozen, Number


class ThresholdParams(Frozen):
    """``scale``: of the discrete Laplace noise, in cases; ``tau``: least noisy count that is released, in cases.

    ``max_cases``: cases of one unit. ``epsilon`` and ``delta`` are the target that scale and tau were found for.
    """

    epsilon: Annotated[Number, Field(gt=0)]
    delta: Annotated[Number, Field(gt=0, lt=1)]
    max_cases: Annotated[int, Field(ge=1)] = 1
    scale: Annotated[Number, Field(gt=0)]
    tau: Annotated[int, Field(ge=1)]


class VariantThreshold(VariantRelease[ThresholdParams]):
    """Count each variant, add discrete Laplace noise, release those that reach ``tau`` with their noisy counts.

    Only variants that occur are counted: what keeps a rare one from giving its owner away is the threshold, chosen so
    that it is passed with probability at most delta. An empty log gives an empty release; it never aborts on data.
    """

    name: ClassVar[str] = "variants/threshold"
    summary: ClassVar[str] = "Releases the noisy counts of frequent variants (TraVaS)."
    theorem: ClassVar[Theorem] = Theorem(
        "Noise DLap(m/epsilon) on the counts of the variants present, released where the noisy count reaches the least "
        "tau with m Pr[m + DLap(m/epsilon) >= tau] <= delta, is (epsilon, delta)-DP for units of at most m cases "
        "(unbounded neighbours).",
        "Rafiei, Wangelik, van der Aalst 2022 (TraVaS); Desfontaines, Voss, Gipson, Mandayam 2022, theorem 2",
    )
    Params = ThresholdParams

    needs_delta: ClassVar[bool] = True

    def meet(
        self, goal: DifferentialPrivacy, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[ThresholdParams] | Refusal:
        """The least noise and the least threshold."""
        NoOptions.model_validate(options)
        params = calibrated(goal.epsilon, goal.delta, facts.unit.max_cases)
        return Offer(params, "counts variants, adds noise, and keeps the frequent ones")

    def event(self, params: ThresholdParams, facts: Facts) -> PrivacyEvent:
        """The noise on the counts, and the chance that a variant of one unit alone passes the threshold."""
        from cloakwork.accounting.calibrate import threshold_delta

        leak = threshold_delta(params.scale, params.tau, params.max_cases)
        return Composed(
            events=(
                DiscreteLaplace(scale=params.scale, sensitivity=params.max_cases),
                EpsilonDelta(epsilon=0.0, delta=leak),
            )
        )

    def predict(self, params: ThresholdParams, facts: Facts) -> Prediction:
        """A count of ``tau`` passes with probability above 1/2, one less does not; E|DLap(b)| = 1 / sinh(1/b)."""
        return Prediction(least=params.tau, error=1 / math.sinh(1 / params.scale))

    def decide(self, params: ThresholdParams, summary: pl.DataFrame, noise: Noise) -> Decision:
        """Add noise to every count, keep those at or over ``tau``, forget the order in which they came."""
        summary = summary[noise.permutation(summary.height)]
        noisy = noise.laplace_counts(summary["cases"].to_numpy().astype(np.int64), params.scale)
        table = summary.select("variant").with_columns(pl.Series("cases", noisy, pl.Int64))
        kept = table.filter(pl.col("cases") >= params.tau)
        return Decision(
            kept,
            {
                "variants in the log": summary.height,
                "variants released": kept.height,
                "cases in the log": int(summary["cases"].sum()),
                "cases released": int(kept["cases"].sum()),
            },
        )


def calibrated(epsilon: float, delta: float, max_cases: int) -> ThresholdParams:
    """The least noise and the least threshold that cost at most (epsilon, delta) for units of ``max_cases`` cases."""
    from cloakwork.accounting.calibrate import partition_threshold

    scale = drawn_scale(max_cases / epsilon)
    tau = partition_threshold(scale, delta, max_cases)
    return ThresholdParams(epsilon=epsilon, delta=delta, max_cases=max_cases, scale=scale, tau=tau)

"""Amun in a form that is proved: from a guessing advantage to two-sided noise over variants that
may be named.
"""

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, Field, field_validator

from cloakwork.base.costs import PrivacyEvent, guessing_advantage
from cloakwork.base.exact import drawn_sigma
from cloakwork.base.facts import Facts
from cloakwork.base.quantities import Frozen, Number
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import AnswerNoise, Cases, Entries, Gaussian, Kernel, Laplace, Table
from cloakwork.kernel.vectors import ONE
from cloakwork.mechanisms.base import Offer, Options, PartOfGoal, Refusal, Theorem
from cloakwork.mechanisms.steps import Measurement
from cloakwork.mechanisms.variants.accuracy import Simulated
from cloakwork.mechanisms.variants.family import VariantRelease
from cloakwork.mechanisms.variants.threshold import (
    ThresholdParams,
    least_threshold,
    select_variants,
    threshold_event,
    threshold_part,
)

Variant = Annotated[tuple[str, ...], Field(min_length=1)]


class AmunOptions(BaseModel):
    """``variants``: those that are public, each a list of activities; None: they are selected."""

    model_config = {"extra": "forbid", "frozen": True}

    variants: Annotated[tuple[Variant, ...], Field(min_length=1)] | None = None

    @field_validator("variants")
    @classmethod
    def _refuse_repeats(cls, variants: tuple[Variant, ...] | None) -> tuple[Variant, ...] | None:
        if variants is not None and len(set(variants)) < len(variants):
            raise ValueError("a variant is listed twice")
        return variants


class AmunParams(Frozen):
    """Either ``variants``, the public domain, with ``scale`` of the ``noise`` in cases (Gaussian:
    its sigma; else discrete Laplace); or ``selection``.

    ``epsilon`` and ``delta`` are the target; ``advantage`` is the guessing advantage that they come
    to; ``max_cases``: cases of one unit.
    """

    epsilon: Annotated[Number, Field(gt=0)]
    delta: Annotated[Number, Field(ge=0, lt=1)] = 0.0
    max_cases: Annotated[int, Field(ge=1)] = 1
    advantage: Annotated[Number, Field(gt=0, lt=1)]
    variants: tuple[Variant, ...] | None = None
    scale: Annotated[Number, Field(gt=0)] | None = None
    noise: Literal["laplace", "gaussian"] = "laplace"
    selection: ThresholdParams | None = None


class VariantAmun(VariantRelease[AmunParams]):
    """Add two-sided noise to the count of every variant of a public domain; release the positive
    noisy counts.

    The domain is what the policy declares, present in the log or not; cases that follow no variant
    of it are left out. No threshold and no delta is needed, and every noisy count is unbiased
    before those below 1 are left out. Without a declared domain the variants are selected as in
    variants/threshold, and the release is that mechanism's, its budget stated as a guessing
    advantage: nothing else is gained, since there the selection's noisy counts are released
    already.

    An empty log gives a release made of noise (declared domain) or an empty one; logs of one case,
    of unique variants or of a single activity are no special cases.
    """

    name: ClassVar[str] = "variants/amun"
    options: ClassVar[Mapping[str, str]] = {
        "variants": "the variants that are public, each a list of activities "
        "(none: they are selected, as by variants/threshold)",
    }
    serves_parts: ClassVar[bool] = True
    summary: ClassVar[str] = (
        "Adds two-sided noise to the counts of declared variants, for a guessing advantage (Amun)."
    )
    theorem: ClassVar[Theorem] = Theorem(
        "Noise DLap(m/epsilon) on the counts of all variants of a declared domain is (epsilon, "
        "0)-DP for units of at most m cases (unbounded neighbours), which bounds the guessing "
        "advantage by tanh(epsilon/4). Beside other columns the noise is a discrete Gaussian, "
        "which is composed with theirs. Without a declared domain: the theorem of "
        "variants/threshold.",
        "Elkoumy, Pankova, Dumas 2022 (Amun), corrected; Dwork and Roth 2014, theorem 3.6",
    )
    Params = AmunParams
    simulated: ClassVar[Simulated] = (
        (0.16, 0.83, 0.91, 0.95, 0.97, 0.98, 0.99, 0.99),
        (0.1, 0.19, 0.08, 0.19, 0.56, 0.61, 0.66, 0.7),
    )

    def meet(
        self,
        goal: DifferentialPrivacy,
        facts: Facts,
        options: Options,
    ) -> Offer[AmunParams] | Refusal:
        """The least noise over the declared domain, or the selection of variants/threshold."""
        from cloakwork.accounting.calibrate import laplace_scale

        declared = AmunOptions.model_validate(options).variants
        cases = facts.unit.max_cases
        # A public domain: plain noise on every count, which needs no delta.
        if declared is not None:
            advantage = guessing_advantage(goal.epsilon)
            params = AmunParams(
                epsilon=goal.epsilon,
                max_cases=cases,
                advantage=advantage,
                variants=declared,
                scale=laplace_scale(goal.epsilon, cases),
            )
            return Offer(
                params,
                f"adds noise to the counts of the {len(declared)} variants that the policy "
                f"declares public; a guess who is in the log gains at most {advantage:.3g}",
            )
        # Without one, which variants occur is measured: that takes a threshold, hence a delta.
        if goal.delta == 0:
            return Refusal(
                "needs",
                "it needs its option 'variants' (a public list), or a delta above 0 to select some",
                ("guarantees[].delta",),
            )
        if goal.epsilon / cases < -math.log1p(-goal.delta):
            return Refusal(
                "misconfigured",
                "epsilon is smaller than delta allows: needs epsilon/m >= -ln(1 - delta)",
            )
        params = AmunParams(
            epsilon=goal.epsilon,
            delta=goal.delta,
            max_cases=cases,
            advantage=guessing_advantage(goal.epsilon, goal.delta),
            selection=least_threshold(goal.epsilon, goal.delta, cases, None),
        )
        return Offer(
            params,
            "no variants are declared, so it is variants/threshold with its budget stated as a "
            f"guessing advantage of {params.advantage:.3g}",
        )

    def meet_part(
        self,
        part: PartOfGoal,
        facts: Facts,
        options: Options,
    ) -> Offer[AmunParams] | Refusal:
        """Gaussian noise of m / ``mu`` cases on the declared domain, for which no delta is spent;
        or the selection of variants/threshold.
        """
        from cloakwork.accounting.leaf_events import epsilon_of_normal

        declared = AmunOptions.model_validate(options).variants
        cases = facts.unit.max_cases
        # Stated as epsilon for the reader: noise of m / mu is mu-Gaussian DP (Dong, Roth, Su 2022).
        epsilon = epsilon_of_normal(part.mu, part.delta)
        params = AmunParams(
            epsilon=epsilon,
            delta=part.delta,
            max_cases=cases,
            advantage=guessing_advantage(epsilon, part.delta),
            variants=declared,
            scale=None if declared is None else drawn_sigma(cases / part.mu),
            noise="laplace" if declared is None else "gaussian",
            selection=threshold_part(part.mu, part.delta, cases) if declared is None else None,
        )
        if declared is None:
            return Offer(params, "no variants are declared, so it is variants/threshold")
        return Offer(
            params,
            f"adds noise to the counts of the {len(declared)} variants that the policy declares "
            "public",
        )

    def event(self, params: AmunParams, facts: Facts) -> PrivacyEvent:
        """The noise on the counts of the domain, or the selection."""
        if params.selection is not None:
            return threshold_event(params.selection)
        return _declared_noise(params).events(ONE, params.max_cases, len(params.variants or ()))[0]

    def measure(self, params: AmunParams, kernel: Kernel) -> Measurement:
        """Noise on every count of the domain."""
        if params.selection is not None:
            found = select_variants(params.selection, kernel)
            return Measurement(found.labels, found.noisy)
        domain = params.variants or ()

        def variant_of_case(cases: Cases) -> Entries:
            # A case of any other variant gets no key and counts nowhere.
            return Entries.one_each(cases, cases.among(domain))

        # Every count of the domain is answered, zeros too, so that absence shows nothing but noise.
        table = Table("declared variants", lambda codes: [domain[at] for at in codes])
        noise = _declared_noise(params)
        counts = kernel.sum(variant_of_case, noise, keys=len(domain), table=table)
        return Measurement(domain, counts.at(np.arange(len(domain))))


def _declared_noise(params: AmunParams) -> AnswerNoise:
    assert params.scale is not None  # noqa: S101 - a declared domain comes with its scale
    return Gaussian(params.scale) if params.noise == "gaussian" else Laplace(params.scale)

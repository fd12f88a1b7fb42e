"""Libra as published: clip rare variants without noise, anonymise samples of the cases one by one,
and combine them.
"""

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

import numpy as np
from pydantic import BaseModel, Field, JsonValue

from cloakwork.base.arrays import Ints
from cloakwork.base.facts import Facts
from cloakwork.base.progress import say
from cloakwork.base.quantities import Frozen, Number
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Kernel, Randomness
from cloakwork.mechanisms.base import Offer, Refusal, Theorem
from cloakwork.mechanisms.steps import Measurement
from cloakwork_extras.dafsa import Dafsa, build_dafsa, draw_duplicates
from cloakwork_extras.published import PublishedRelease

MOST_NOISE: Final = 1e6
"""The largest scale that is searched for the paper's figure, in cases."""


class LibraPublishedOptions(BaseModel):
    """``rate``: share of the cases in a sample (gamma); ``alpha``: order of the Renyi divergence
    that is reported.
    """

    model_config = {"extra": "forbid", "frozen": True}

    rate: Annotated[Number, Field(gt=0, le=0.5)] = 0.05
    alpha: Annotated[int, Field(ge=2, le=1000)] = 10


class LibraPublishedParams(Frozen):
    """``scale``: of the noise on each edge (b), in cases; ``published``: the epsilon that the paper
    reports for it.

    ``rate`` and ``alpha``: see the options; there are 1/rate samples. ``delta`` only sets what is
    clipped.
    """

    rate: Annotated[Number, Field(gt=0, le=0.5)]
    alpha: Annotated[int, Field(ge=2)]
    delta: Annotated[Number, Field(gt=0, lt=1)]
    scale: Annotated[Number, Field(gt=0)]
    published: Annotated[Number, Field(ge=0)]


class VariantLibraPublished(PublishedRelease[LibraPublishedParams]):
    """Clip variants below b ln(2k/delta) cases (k variants, raw counts); then 1/gamma samples of a
    fixed size, drawn with replacement; in each, noise on every edge of the sample's automaton, by
    duplicating and deleting random cases; all are combined.

    The paper then keeps the cases of a sample that show something new, times included: one whose
    duration moves a mean does. No times are seen here, so all cases of a sample are kept, which
    flatters the utility if anything.
    """

    name: ClassVar[str] = "variants/libra-published"
    summary: ClassVar[str] = (
        "Anonymises samples as Libra was published; it is NOT differentially private."
    )
    theorem: ClassVar[Theorem] = Theorem(
        "Claimed: epsilon' = 1/gamma times the Renyi divergence of order alpha of one "
        "Poisson-sampled Laplace(b) count.",
        "Elkoumy and Dumas 2022 (Libra), ICPM; Zhu and Wang 2019, theorem 6",
    )
    Params = LibraPublishedParams
    needs_delta: ClassVar[bool] = True
    flaw: ClassVar[str] = (
        "rare variants are clipped by their raw counts, and every edge of the automaton is that of "
        "a true variant: one unit more can make a variant appear; a case moves as many noisy "
        "edges as it has events, of which one is accounted"
    )

    def meet(
        self, goal: DifferentialPrivacy, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[LibraPublishedParams] | Refusal:
        """The least noise whose published figure is at most epsilon."""
        chosen = LibraPublishedOptions.model_validate(options)
        samples = round(1 / chosen.rate)

        def meets_goal(scale: float) -> bool:
            figure = published_epsilon(scale, chosen.rate, chosen.alpha, samples)
            return figure <= goal.epsilon

        low, high = 2.0**-6, MOST_NOISE
        if not meets_goal(high):
            return Refusal(
                "misconfigured", f"no noise brings the published figure to epsilon {goal.epsilon:g}"
            )
        for _ in range(60):
            middle = math.sqrt(low * high)
            if meets_goal(middle):
                high = middle
            else:
                low = middle
        figure = published_epsilon(high, chosen.rate, chosen.alpha, samples)
        params = LibraPublishedParams(
            rate=chosen.rate, alpha=chosen.alpha, delta=goal.delta, scale=high, published=figure
        )
        return Offer(
            params,
            f"anonymises {samples} samples; published as epsilon {figure:.4g} "
            f"(Renyi order {chosen.alpha}), which does not hold: {self.flaw}",
        )

    def measure(self, params: LibraPublishedParams, kernel: Kernel) -> Measurement:
        """Clip, sample, anonymise each sample, combine."""
        noise = kernel.randomness
        all_variants, all_counts = kernel.raw().by_variant()
        clip = round(params.scale * math.log(2 * max(1, len(all_variants)) / params.delta))
        kept = np.flatnonzero(all_counts >= clip)
        variants = [all_variants[row] for row in kept]
        counts = all_counts[kept]
        combined = np.zeros(len(variants), np.int64)
        samples = round(1 / params.rate)
        say(f"anonymising {samples:,} samples of {len(variants):,} variants")
        for _ in range(samples):
            sample = _draw_sample(counts, params.rate, noise)
            present = np.flatnonzero(sample)
            automaton = build_dafsa([variants[row] for row in present])
            changes = _duplication_changes(automaton, params.scale, noise)
            combined[present] += np.maximum(sample[present] + changes, 0)
        figures: dict[str, JsonValue] = {
            "least count that is kept": clip,
            "variants kept": len(variants),
        }
        return Measurement(variants, combined, figures)


def _draw_sample(counts: Ints, rate: float, noise: Randomness) -> Ints:
    """Cases by variant of the different cases among rate * cases draws with replacement."""
    cases = int(counts.sum())
    draws = int(rate * cases)
    drawn = np.unique(noise.uniform(np.full(draws, cases, np.int64)))
    # Cases are numbered variant by variant: a number lies before the running count of its own.
    rows = np.searchsorted(np.cumsum(counts), drawn, side="right")
    return np.bincount(rows, minlength=len(counts)).astype(np.int64)


def _duplication_changes(automaton: Dafsa, scale: float, noise: Randomness) -> Ints:
    """Cases duplicated less cases deleted, by variant: noise above 0 is brought about by the one,
    below 0 by the other.
    """
    drawn = noise.laplace_values(scale, len(automaton.variants_of))
    duplicated = draw_duplicates(automaton, np.maximum(drawn, 0), noise)
    deleted = draw_duplicates(automaton, np.maximum(-drawn, 0), noise)
    return duplicated - deleted


def published_epsilon(scale: float, rate: float, alpha: int, samples: int) -> float:
    """What the paper reports: ``samples`` times the Renyi bound of a Poisson-sampled Laplace count
    (Zhu and Wang 2019).

    (1/(alpha-1)) ln( (1-q)^(alpha-1) (alpha q - q + 1) + C(alpha,2) q^2 (1-q)^(alpha-2) e^(E(2)) +
    3 sum over l = 3..alpha of C(alpha,l) (1-q)^(alpha-l) q^l e^((l-1) E(l)) ), with E(l) the Renyi
    divergence of Laplace noise. It is a divergence, not an epsilon: ln(1/delta)/(alpha-1) is
    missing.
    """

    def log_of_term(order: int) -> float:
        ways = math.lgamma(alpha + 1) - math.lgamma(order + 1) - math.lgamma(alpha - order + 1)
        chance = order * math.log(rate) + (alpha - order) * math.log1p(-rate)
        divergence = (order - 1) * _renyi_of_laplace(order, scale)
        factor = math.log(3) if order > 2 else 0.0
        return ways + chance + divergence + factor

    logs = [(alpha - 1) * math.log1p(-rate) + math.log(alpha * rate - rate + 1)]
    for order in range(2, alpha + 1):
        logs.append(log_of_term(order))
    # The logarithm of a sum of exponentials, the largest taken out so that none overflows.
    largest = max(logs)
    remaining_sum = math.fsum(math.exp(each - largest) for each in logs)
    log_of_sum = largest + math.log(remaining_sum)
    return samples * max(0.0, log_of_sum) / (alpha - 1)


def _renyi_of_laplace(order: int, scale: float) -> float:
    """Of order a between Laplace noise and itself moved by 1 (Mironov 2017, proposition 6)."""
    larger = math.log(order / (2 * order - 1)) + (order - 1) / scale
    smaller = math.log((order - 1) / (2 * order - 1)) - order / scale
    return (larger + math.log1p(math.exp(smaller - larger))) / (order - 1)

"""Libra in a form that is proved: count frequent variants in random samples of the units, with
noise in each sample. And as published: clip rare variants without noise, anonymise samples of the
cases one by one, and combine them.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, ClassVar, Final

import numpy as np
from pydantic import BaseModel, Field, JsonValue

from cloakwork.base.arrays import Ints
from cloakwork.base.costs import (
    Composed,
    Cost,
    DiscreteLaplace,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
)
from cloakwork.base.errors import MechanismError
from cloakwork.base.exact import drawn_rate, drawn_scale
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.base.progress import say
from cloakwork.base.quantities import Frozen, Number
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Cases, Entries, Kernel, Laplace, Randomness
from cloakwork.mechanisms.base import Offer, Options, PartOfGoal, Refusal, Theorem
from cloakwork.mechanisms.steps import Measurement
from cloakwork.mechanisms.variants.accuracy import Simulated
from cloakwork.mechanisms.variants.family import VariantRelease
from cloakwork.mechanisms.variants.threshold import (
    COUNT_NOISE,
    Kind,
    ThresholdParams,
    calibrate_threshold,
    least_threshold,
    select_variants,
    threshold_event,
    threshold_part,
)
from cloakwork_extras.published import Dafsa, PublishedRelease, build_dafsa, draw_duplicates

Share = Annotated[Number, Field(gt=0, lt=1)]

MOST_NOISE: Final = 1e6
"""The largest scale of the noise on a sample that is searched, in cases."""


class LibraOptions(BaseModel):
    """``rate``: chance of a unit to be in a sample (gamma); ``samples``: how many (eta; by default
    1/rate, rounded).

    ``selection_share``: of the budget, for finding frequent variants. ``omega``: noisy count from
    which a sample counts as a sighting of a variant; ``rho``: significance of the test that it was
    seen (1 keeps all). ``noise``: of the selection, as for variants/threshold.
    """

    model_config = {"extra": "forbid", "frozen": True}

    rate: Annotated[Number, Field(gt=0, le=1)] = 0.05
    samples: Annotated[int, Field(ge=1, le=10_000)] | None = None
    selection_share: Share = 0.5
    omega: Annotated[int, Field(ge=1)] = 1
    rho: Annotated[Number, Field(gt=0, le=1)] = 0.05
    noise: Kind | None = None


class LibraParams(Frozen):
    """``scale``: of the discrete Laplace noise on each count of each sample, in cases. ``unit``:
    the attribute that names it.

    ``rate``, ``samples``, ``omega``, ``rho``: see the options. ``selection``: how frequent variants
    are found.
    """

    epsilon: Annotated[Number, Field(gt=0)]
    delta: Annotated[Number, Field(gt=0, lt=1)]
    unit: str | None = None
    max_cases: Annotated[int, Field(ge=1)] = 1
    selection: ThresholdParams
    rate: Annotated[Number, Field(gt=0, le=1)]
    samples: Annotated[int, Field(ge=1)]
    scale: Annotated[Number, Field(gt=0)]
    omega: Annotated[int, Field(ge=1)]
    rho: Annotated[Number, Field(gt=0, le=1)]


class VariantLibra(VariantRelease[LibraParams]):
    """Find frequent variants by threshold; count them in eta Poisson samples of the units; release
    mean / rate.

    A variant found is released when it is seen (noisy count at least omega) in more samples than
    noise alone would explain at significance rho: Pr[Binomial(eta, Pr[DLap(scale) >= omega]) >=
    sightings] <= rho. The test and the mean read noisy samples only. The mean over the samples
    divided by the rate is an unbiased estimate of the variant's count, whatever the selection's
    noise was; the test keeps the larger estimates of rare variants.

    An empty log, or one whose variants are all unique, gives an empty release (but for probability
    delta a variant); one case and a single activity are no special cases. The declared rate is used
    as it is: no size is read off the log.
    """

    name: ClassVar[str] = "variants/libra"
    options: ClassVar[Mapping[str, str]] = {
        "rate": "the chance of a unit to be in a sample (0.05)",
        "samples": "how many samples are drawn (1/rate)",
        "selection_share": "the part of the budget for finding frequent variants (0.5)",
        "omega": "the noisy count from which a sample counts as a sighting of a variant (1)",
        "rho": "the significance of the test that a variant was seen; 1 keeps all (0.05)",
        "noise": f"of the selection: {COUNT_NOISE}",
    }
    serves_parts: ClassVar[bool] = True
    summary: ClassVar[str] = (
        "Counts frequent variants in random samples, with noise in each (Libra)."
    )
    theorem: ClassVar[Theorem] = Theorem(
        "Variants selected as in variants/threshold; then eta histograms over them, each of a "
        "sample that holds every unit independently with probability rate, with noise DLap(scale) "
        "on each count: the composition of the selection with eta Poisson-sampled discrete Laplace "
        "mechanisms of L1 sensitivity m. Privacy loss distributions give its epsilon at delta; "
        "test, mean and union are post-processing.",
        "Elkoumy and Dumas 2022 (Libra), corrected; Zhu, Dong and Wang 2022, theorem 11 "
        "(sampling), theorem 10 (composition)",
    )
    Params = LibraParams
    simulated: ClassVar[Simulated] = (
        (0, 0.33, 0.86, 0.91, 0.95, 0.97, 0.98, 0.98),
        (0, 0, 0, 0, 0.29, 0.57, 0.62, 0.65),
    )

    needs_delta: ClassVar[bool] = True

    def meet(
        self,
        goal: DifferentialPrivacy,
        facts: Facts,
        options: Options,
    ) -> Offer[LibraParams] | Refusal:
        """The least noise on the samples that the budget, less the selection's share, allows."""
        chosen = LibraOptions.model_validate(options)
        cases = facts.unit.max_cases
        share = goal.delta * chosen.selection_share
        if goal.epsilon * chosen.selection_share / cases < -math.log1p(-share):
            return Refusal(
                "misconfigured",
                "the selection's share of epsilon is smaller than its share of delta allows",
            )
        params = _find_params(goal, facts, chosen)
        if isinstance(params, str):
            return Refusal("misconfigured", params)
        return Offer(params, _compare_with_plain_noise(params))

    def meet_part(
        self,
        part: PartOfGoal,
        facts: Facts,
        options: Options,
    ) -> Offer[LibraParams] | Refusal:
        """A Gaussian selection with its share of the square of ``mu``; samples with the rest, by
        what many of them come to (the accountant charges each).
        """
        from cloakwork.accounting.leaf_events import epsilon_of_normal

        chosen = LibraOptions.model_validate(options)
        if chosen.noise not in (None, "gaussian"):
            return Refusal(
                "misconfigured",
                f"beside other columns its selection's noise is gaussian, not {chosen.noise}",
            )
        share, m = chosen.selection_share, facts.unit.max_cases
        # The budget is in mu squared, which adds up: shares of mu are roots.
        selection = threshold_part(part.mu * math.sqrt(share), part.delta, m)
        samples = chosen.samples or max(1, round(1 / chosen.rate))
        scale = _scale_at(part.mu * math.sqrt(1 - share), chosen.rate, samples, m)
        if scale is None:
            return Refusal("misconfigured", f"no noise on {samples:,} samples is large enough")
        params = LibraParams(
            epsilon=epsilon_of_normal(part.mu, part.delta),
            delta=selection.delta,
            unit=facts.unit.attribute,
            max_cases=m,
            selection=selection,
            rate=chosen.rate,
            samples=samples,
            scale=scale,
            omega=chosen.omega,
            rho=chosen.rho,
        )
        return Offer(params, _compare_with_plain_noise(params, m / part.mu))

    def event(self, params: LibraParams, facts: Facts) -> PrivacyEvent:
        """The selection, and every sample."""
        return _libra_event(params.selection, params.rate, params.samples, params.scale)

    def lineage(self, params: LibraParams) -> Lineage:
        """Measures which unit follows which variants; every case of the release is made from the
        noisy counts.
        """
        owner = frozenset() if params.unit is None else frozenset({params.unit})
        return Lineage(
            measures=frozenset({CONTROL_FLOW}) | owner,
            writes=frozenset({CONTROL_FLOW, METADATA}),
            generates=True,
        )

    def measure(self, params: LibraParams, kernel: Kernel) -> Measurement:
        """Select, sample, test, estimate."""
        # Which variants there are comes first; samples are counted over these alone.
        selected = select_variants(params.selection, kernel).labels

        def variant_of_case(cases: Cases) -> Entries:
            return Entries.one_each(cases, cases.among(selected))

        say(f"counting {len(selected):,} variants in {params.samples:,} samples")
        noisy = kernel.sample_sums(
            variant_of_case,
            Laplace(params.scale),
            params.rate,
            params.samples,
            len(selected),
        )
        # A variant is relevant where more samples see it than noise alone would bring about.
        sightings = (noisy >= params.omega).sum(axis=0)
        is_relevant = sightings >= samples_needed(params)
        # Sums are exact integers; the estimate is rounded once, to the nearest whole case.
        mean_over_rate = noisy.sum(axis=0) / (params.samples * params.rate)
        estimates = np.floor(mean_over_rate + 0.5).astype(np.int64)
        cases = np.where(is_relevant, estimates, 0)
        return Measurement(selected, cases, {"variants selected": len(selected)})


def _find_params(
    goal: DifferentialPrivacy,
    facts: Facts,
    chosen: LibraOptions,
) -> LibraParams | str:
    cases, share = facts.unit.max_cases, chosen.selection_share
    # Selection gets its share of both; the samples get what the accountant leaves.
    selection = least_threshold(goal.epsilon * share, goal.delta * share, cases, chosen.noise)
    samples = chosen.samples or max(1, round(1 / chosen.rate))
    try:
        scale = _least_scale(selection, chosen.rate, samples, goal.epsilon, goal.delta)
    except MechanismError as error:
        return str(error)
    return LibraParams(
        epsilon=goal.epsilon,
        delta=goal.delta,
        unit=facts.unit.attribute,
        max_cases=cases,
        selection=selection,
        rate=chosen.rate,
        samples=samples,
        scale=scale,
        omega=chosen.omega,
        rho=chosen.rho,
    )


@lru_cache(maxsize=64)
def _least_scale(
    selection: ThresholdParams,
    rate: float,
    samples: int,
    epsilon: float,
    delta: float,
) -> float:
    """The least noise at which selection and samples cost at most (epsilon, delta)."""
    from cloakwork.accounting.calibrate import smallest_scale

    budget = Cost(epsilon=epsilon, delta=delta)
    return drawn_scale(
        smallest_scale(lambda scale: _libra_event(selection, rate, samples, scale), budget)
    )


def _libra_event(
    selection: ThresholdParams,
    rate: float,
    samples: int,
    scale: float,
) -> PrivacyEvent:
    # Sensitivity m in each sample: all cases of a unit are drawn or left out together.
    counted = DiscreteLaplace(scale=drawn_scale(scale), sensitivity=selection.max_cases)
    sample = PoissonSampled(rate=drawn_rate(rate), event=counted)
    return Composed(events=(threshold_event(selection), Repeated(times=samples, event=sample)))


def _scale_at(
    mu: float,
    rate: float,
    samples: int,
    max_cases: int,
) -> float | None:
    """The noise at which many samples tell as much as a normal number that moves by ``mu``: None
    where more than ``MOST_NOISE`` would be needed.

    By the central limit theorem mu^2 = samples rate^2 chi^2, where chi^2 is the divergence of the
    noise from itself moved by m (Bu, Dong, Long, Su 2020, theorem 5, for Gaussian noise).
    """
    low, high = 2.0**-4, MOST_NOISE
    # Noise decreases what a sample tells, so bisection finds the least.
    if samples * rate**2 * _divergence(high, max_cases) > mu**2:
        return None
    while high > low * (1 + 1e-9):
        middle = math.sqrt(low * high)
        if samples * rate**2 * _divergence(middle, max_cases) > mu**2:
            low = middle
        else:
            high = middle
    return drawn_scale(high)


def _divergence(scale: float, moved: int) -> float:
    """Chi-squared, of discrete Laplace noise moved by ``moved`` from itself: with r = e**(-1/scale)
    the sum of p(x - m)^2 / p(x), less 1; infinite where it overflows.
    """
    r, step = math.exp(-1 / scale), moved / scale
    # exp would overflow above this.
    if step > 300:
        return math.inf
    below, above = math.exp(-2 * step), math.exp(step)
    # x <= 0, x >= m, and the values between, whose terms r**(2 m - 3 x) are a geometric sum.
    between = (above - math.exp((3 - 2 * moved) / scale)) / math.expm1(3 / scale)
    return (below + above) / (1 + r) + (1 - r) / (1 + r) * between - 1


def _compare_with_plain_noise(params: LibraParams, sigma: float | None = None) -> str:
    """How it compares, in closed form, with plain noise at the same budget (Gaussian of ``sigma``
    where that is given), on a variant of a hundred cases.
    """
    if sigma is None:
        other = calibrate_threshold(params.epsilon, params.delta, params.max_cases)
    plain = sigma or math.sqrt(_laplace_variance(other.scale))
    here = standard_deviation(params, 100)
    better = "plain noise" if here > plain else "sampling"
    return (
        f"finds frequent variants, then counts them in {params.samples} noisy samples; "
        f"a count of 100 errs by {here:.1f} cases (standard deviation), "
        f"and by {plain:.1f} with variants/threshold at equal cost: {better} is better for counts"
    )


def standard_deviation(params: LibraParams, count: int) -> float:
    """Standard deviation, in cases, of the estimate of a variant of ``count`` cases, each a unit of
    its own.
    """
    # Of one sample: the noise, and whether each case is drawn.
    one_sample = _laplace_variance(params.scale) + count * params.rate * (1 - params.rate)
    return math.sqrt(one_sample / params.samples) / params.rate


def _laplace_variance(scale: float) -> float:
    """Of discrete Laplace noise: 2 r / (1 - r)^2 with r = e**(-1/scale)."""
    return 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2


def samples_needed(params: LibraParams) -> int:
    """The least number of samples that see a variant which noise alone reaches with probability at
    most rho.
    """
    from scipy.stats import binom

    # Pr[DLap >= omega] = r**omega / (1 + r), for r = e**(-1/scale).
    r = math.exp(-1 / params.scale)
    by_noise_alone = r**params.omega / (1 + r)
    # The chance of 0, 1, ... sightings or more.
    chances = binom.sf(np.arange(-1, params.samples), params.samples, by_noise_alone)
    enough = np.flatnonzero(chances <= params.rho)
    if not enough.size:
        return params.samples + 1
    return int(enough[0])


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
    options: ClassVar[Mapping[str, str]] = {
        "rate": "the share of the cases in a sample (0.05)",
        "alpha": "the order of the Renyi divergence that is reported (10)",
    }
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
        self,
        goal: DifferentialPrivacy,
        facts: Facts,
        options: Options,
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
        # Bisection on a logarithmic scale, over what the paper would report.
        for _ in range(60):
            middle = math.sqrt(low * high)
            if meets_goal(middle):
                high = middle
            else:
                low = middle
        figure = published_epsilon(high, chosen.rate, chosen.alpha, samples)
        params = LibraPublishedParams(
            rate=chosen.rate,
            alpha=chosen.alpha,
            delta=goal.delta,
            scale=high,
            published=figure,
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
        # As published: what is rare is clipped by raw counts.
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
            # Each sample has an automaton of its own, over the variants that it holds.
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
    # Only draws by duplication exist: a deletion is one of the opposite sign.
    duplicated = draw_duplicates(automaton, np.maximum(drawn, 0), noise)
    deleted = draw_duplicates(automaton, np.maximum(-drawn, 0), noise)
    return duplicated - deleted


def published_epsilon(
    scale: float,
    rate: float,
    alpha: int,
    samples: int,
) -> float:
    """What the paper reports: ``samples`` times the Renyi bound of a Poisson-sampled Laplace count
    (Zhu and Wang 2019).

    (1/(alpha-1)) ln( (1-q)^(alpha-1) (alpha q - q + 1) + C(alpha,2) q^2 (1-q)^(alpha-2) e^(E(2)) +
    3 sum over l = 3..alpha of C(alpha,l) (1-q)^(alpha-l) q^l e^((l-1) E(l)) ), with E(l) the Renyi
    divergence of Laplace noise. It is a divergence, not an epsilon: ln(1/delta)/(alpha-1) is
    missing.
    """

    def log_of_term(order: int) -> float:
        # In logarithms, since binomials and exponentials overflow.
        ways = math.lgamma(alpha + 1) - math.lgamma(order + 1) - math.lgamma(alpha - order + 1)
        chance = order * math.log(rate) + (alpha - order) * math.log1p(-rate)
        divergence = (order - 1) * _renyi_of_laplace(order, scale)
        factor = math.log(3) if order > 2 else 0.0
        return ways + chance + divergence + factor

    # The terms of order 0 and 1, then those from 2 on.
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
    # The two exponentials, the larger one taken out.
    larger = math.log(order / (2 * order - 1)) + (order - 1) / scale
    smaller = math.log((order - 1) / (2 * order - 1)) - order / scale
    return (larger + math.log1p(math.exp(smaller - larger))) / (order - 1)

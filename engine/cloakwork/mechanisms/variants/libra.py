"""Libra in a form that is proved: count frequent variants in random samples of the units, with
noise in each sample.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, ClassVar

import numpy as np
import polars as pl
from pydantic import BaseModel, Field, JsonValue

from cloakwork.arrays import Ints
from cloakwork.budget import Cost
from cloakwork.errors import MechanismError
from cloakwork.facts import Facts
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.log.naming import named
from cloakwork.mechanisms.aggregates import CASES, UNIT, VARIANT, VariantCounts
from cloakwork.mechanisms.base import Aggregate, Decision, Offer, Refusal, Theorem
from cloakwork.mechanisms.variants.family import VariantRelease
from cloakwork.mechanisms.variants.threshold import (
    Kind,
    ThresholdParams,
    calibrate_threshold,
    least_threshold,
    select_variants,
    threshold_event,
)
from cloakwork.noise import Noise, drawn_rate, drawn_scale
from cloakwork.privacy_event import (
    Composed,
    DiscreteLaplace,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
)
from cloakwork.progress import say
from cloakwork.quantities import Frozen, Number

Share = Annotated[Number, Field(gt=0, lt=1)]


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

    needs_delta: ClassVar[bool] = True

    def meet(
        self, goal: DifferentialPrivacy, facts: Facts, options: Mapping[str, JsonValue]
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

    def summarise(self, params: LibraParams) -> Aggregate:
        """Cases by variant and unit."""
        return VariantCounts(params.unit)

    def decide(self, params: LibraParams, summary: pl.DataFrame, noise: Noise) -> Decision:
        """Select, sample, test, estimate."""
        variants = _group_by_variant(summary)
        cases_of_variant = variants[CASES].list.sum().to_numpy()
        rows, _ = select_variants(params.selection, cases_of_variant, noise)
        selected = variants[rows]
        noisy = _noisy_samples(params, selected, noise)
        sightings = (noisy >= params.omega).sum(axis=0)
        is_relevant = sightings >= samples_needed(params)
        # Sums are exact integers; the estimate is rounded once, to the nearest whole case.
        mean_over_rate = noisy.sum(axis=0) / (params.samples * params.rate)
        estimates = np.floor(mean_over_rate + 0.5)
        cases = pl.Series(CASES, estimates.astype(np.int64), pl.Int64)
        table = selected.select(VARIANT).with_columns(cases)
        kept = table.filter(pl.Series(is_relevant & (estimates > 0), dtype=pl.Boolean))
        return Decision(
            kept,
            {
                "variants in the log": variants.height,
                "variants selected": selected.height,
                "variants released": kept.height,
                "cases released": int(kept[CASES].sum()),
            },
        )


def _find_params(
    goal: DifferentialPrivacy, facts: Facts, chosen: LibraOptions
) -> LibraParams | str:
    """Parameters within the budget, or why there are none."""
    cases, share = facts.unit.max_cases, chosen.selection_share
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
    selection: ThresholdParams, rate: float, samples: int, epsilon: float, delta: float
) -> float:
    """The least noise on the samples at which selection and samples together cost at most (epsilon,
    delta).
    """
    from cloakwork.accounting.calibrate import smallest_scale

    budget = Cost(epsilon=epsilon, delta=delta)
    return drawn_scale(
        smallest_scale(lambda scale: _libra_event(selection, rate, samples, scale), budget)
    )


def _libra_event(
    selection: ThresholdParams, rate: float, samples: int, scale: float
) -> PrivacyEvent:
    counted = DiscreteLaplace(scale=drawn_scale(scale), sensitivity=selection.max_cases)
    sample = PoissonSampled(rate=drawn_rate(rate), event=counted)
    return Composed(events=(threshold_event(selection), Repeated(times=samples, event=sample)))


def _compare_with_plain_noise(params: LibraParams) -> str:
    """How it compares, in closed form, with plain noise at the same budget, on a variant of a
    hundred cases.
    """
    other = calibrate_threshold(params.epsilon, params.delta, params.max_cases)
    plain = math.sqrt(_laplace_variance(other.scale))
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


def _group_by_variant(summary: pl.DataFrame) -> pl.DataFrame:
    """One row a variant; ``cases`` and, where units are known, ``unit`` list what its units
    have.
    """
    listed = [column for column in (CASES, UNIT) if column in summary.columns]
    return summary.group_by(VARIANT, maintain_order=True).agg(named(*listed))


def _noisy_samples(params: LibraParams, selected: pl.DataFrame, noise: Noise) -> Ints:
    """Noisy counts (int64, shape (samples, variants)) of the variants found, each sample of units
    by coins of its own.
    """
    variant, unit, cases = _contributions_of_units(selected)
    units = int(unit.max(initial=-1)) + 1
    noisy = np.empty((params.samples, selected.height), np.int64)
    say(f"counting {selected.height:,} variants in {params.samples:,} samples")
    for sample in range(params.samples):
        # One coin a unit: all its cases are in the sample, or none.
        in_sample = noise.coins(params.rate, units)[unit]
        counts = np.bincount(
            variant[in_sample], weights=cases[in_sample], minlength=selected.height
        )
        noisy[sample] = noise.laplace_counts(counts.astype(np.int64), params.scale)
    return noisy


def _contributions_of_units(selected: pl.DataFrame) -> tuple[Ints, Ints, Ints]:
    """Variant, unit (both as indexes) and number of cases of each contribution; a case without a
    unit is its own.
    """
    listed = selected.drop(VARIANT)
    rows = listed.with_row_index("row").explode(named(*listed.columns))
    if UNIT not in rows.columns:
        rows = rows.with_columns(pl.lit(None, pl.String).alias(UNIT))
    owned = rows.filter(pl.col(UNIT).is_not_null())
    alone = rows.filter(pl.col(UNIT).is_null())
    # A dense rank numbers the units from 1.
    unit_of_owned = owned[UNIT].rank("dense").to_numpy().astype(np.int64) - 1
    units_so_far = int(unit_of_owned.max(initial=-1)) + 1
    # A row of n cases without a unit stands for n units of one case each.
    row_of_alone = np.repeat(alone["row"].to_numpy(), alone[CASES].to_numpy())
    unit_of_alone = units_so_far + np.arange(len(row_of_alone))
    one_each = np.ones(len(row_of_alone), np.int64)
    variant = np.concatenate([owned["row"].to_numpy(), row_of_alone])
    unit = np.concatenate([unit_of_owned, unit_of_alone])
    cases = np.concatenate([owned[CASES].to_numpy(), one_each])
    return variant.astype(np.int64), unit.astype(np.int64), cases.astype(np.int64)

"""Statistical audits of variants/threshold on its worst neighbours, and of broken counterparts that
must fail.

Variants are noised independently, so a summary of many equal variants is as many runs of the
mechanism at once. Draws are seeded: what is found is found in every run.
"""

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from cloakwork.accounting.calibrate import threshold_delta
from cloakwork.accounting.events import cost
from cloakwork.base.facts import Facts
from cloakwork.evaluation.dp_audit import AuditResult, HalfLine, OneOf, empirical_epsilon
from cloakwork.mechanisms.variants.threshold import (
    ThresholdParams,
    VariantThreshold,
    calibrate_threshold,
)
from cloakwork.noise import Noise, reproducible
from measuring import release

RUNS = 40_000
EPSILON, DELTA = 1.0, 1e-3
THRESHOLD = VariantThreshold()
Counterpart = Callable[[ThresholdParams], ThresholdParams]


def noisy_counts(
    count: int, params: ThresholdParams, runs: int, source: Noise
) -> NDArray[np.int64]:
    """The released count of one variant of ``count`` cases, 0 where it is not released, in ``runs``
    runs.
    """
    if count == 0:
        return np.zeros(runs, np.int64)
    summary = pl.DataFrame(
        {"variant": [[str(run)] for run in range(runs)], "cases": np.full(runs, count)}
    )
    kept = release(THRESHOLD, params, summary, source).table["cases"].to_numpy()
    return np.concatenate([kept, np.zeros(runs - len(kept), np.int64)])


def audit(counts: tuple[int, int], params: ThresholdParams, *, variants: int = 1) -> AuditResult:
    """Neighbours that differ in the number of cases of ``variants`` variants; the outcome is the
    largest noisy count.
    """
    source = reproducible(1)

    def outcomes(count: int) -> Callable[[int], NDArray[np.int64]]:
        return lambda runs: (
            noisy_counts(count, params, runs * variants, source).reshape(runs, variants).max(axis=1)
        )

    least = max(counts) if min(counts) else 1
    events = [HalfLine(least, upper=True), HalfLine(min(counts), upper=False)]
    return empirical_epsilon(
        outcomes(counts[0]),
        outcomes(counts[1]),
        runs=RUNS,
        delta=params.delta,
        claim=EPSILON,
        events=events,
    )


def faithful(params: ThresholdParams) -> ThresholdParams:
    """The mechanism itself."""
    return params


def half_the_noise(params: ThresholdParams) -> ThresholdParams:
    """A scale that ignores half of what one case can change."""
    return params.model_copy(update={"scale": params.scale / 2})


def no_threshold(params: ThresholdParams) -> ThresholdParams:
    """Release whatever has a positive noisy count."""
    return params.model_copy(update={"tau": 1})


def half_the_threshold(params: ThresholdParams) -> ThresholdParams:
    """A threshold that lets a variant of one unit alone pass far too often."""
    return params.model_copy(update={"tau": params.tau // 2})


class CutToIntegers:
    """The counterpart of the published code: continuous Laplace noise, cut to an integer towards
    zero by ``int()``.
    """

    def __init__(self) -> None:
        self.source = reproducible(1)
        self.generator = np.random.default_rng(1)

    def laplace_values(self, scale: float, size: int) -> NDArray[np.int64]:
        return np.trunc(self.generator.laplace(0, scale, size)).astype(np.int64)

    def __getattr__(self, name: str) -> object:
        return getattr(self.source, name)


def test_one_case_more_on_a_frequent_variant_is_covered() -> None:
    """And the audit is sharp: it finds four fifths of epsilon."""
    result = audit((31, 30), calibrate_threshold(EPSILON, DELTA, 1))
    assert result.passed, result
    assert result.epsilon_lower_bound > 0.8 * EPSILON


def test_half_the_noise_is_found() -> None:
    """Half the scale shows on a frequent variant."""
    assert not audit((31, 30), half_the_noise(calibrate_threshold(EPSILON, DELTA, 1))).passed


def test_a_variant_of_one_case_is_covered_by_delta() -> None:
    """Present in one log, absent from the other: it passes the threshold with probability at most
    delta.
    """
    assert audit((1, 0), calibrate_threshold(EPSILON, DELTA, 1)).passed


def test_a_missing_threshold_is_found() -> None:
    """Without the threshold a unique variant gives its owner away."""
    assert not audit((1, 0), no_threshold(calibrate_threshold(EPSILON, DELTA, 1))).passed


def test_half_the_threshold_is_found() -> None:
    """It is passed thirty times as often as delta allows."""
    assert not audit((1, 0), half_the_threshold(calibrate_threshold(EPSILON, DELTA, 1))).passed


def judged(source: Noise, counts: tuple[int, int]) -> AuditResult:
    """A frequent variant under noise of another source."""
    params = calibrate_threshold(EPSILON, DELTA, 1)
    a, b = (lambda runs, count=count: noisy_counts(count, params, runs, source) for count in counts)
    same, far = OneOf(frozenset({max(counts)})), HalfLine(max(counts) + 5, upper=True)
    return empirical_epsilon(a, b, runs=5_000, delta=DELTA, claim=EPSILON, events=[same, far])


def test_noise_cut_to_integers_is_found() -> None:
    """It leaves a count as it is in 63 of 100 runs. Noise scaled by the log, which was found here
    too, cannot be written any more: a mechanism is told no count without noise.
    """
    assert judged(reproducible(1), (32, 31)).passed
    assert not judged(CutToIntegers(), (32, 31)).passed  # type: ignore[arg-type]


def test_a_unit_of_three_cases_is_covered_where_it_is_assumed() -> None:
    """Three cases of one person: on one frequent variant, and on three variants of their own."""
    assumed = calibrate_threshold(EPSILON, DELTA, 3)
    assert audit((63, 60), assumed).passed
    assert audit((1, 0), assumed, variants=3).passed
    assert not audit((33, 30), calibrate_threshold(EPSILON, DELTA, 1)).passed


def test_a_threshold_one_too_low_is_found_by_arithmetic() -> None:
    """No audit of feasible size sees it; the exact tail does."""
    params = calibrate_threshold(EPSILON, DELTA, 1)
    assert (
        threshold_delta(params.scale, params.tau, 1)
        <= DELTA
        < threshold_delta(params.scale, params.tau - 1, 1)
    )


@pytest.mark.parametrize("counterpart", [half_the_noise, no_threshold])
def test_a_broken_counterpart_costs_more_than_it_claims(counterpart: Counterpart) -> None:
    """The event names the noise drawn, so the accountant finds the counterparts too."""
    params = calibrate_threshold(EPSILON, 1e-6, 1)
    honest = cost(THRESHOLD.step(params, Facts()).event, 1e-6)
    broken = cost(THRESHOLD.step(counterpart(params), Facts()).event, 1e-6)
    assert honest.epsilon <= EPSILON < broken.epsilon

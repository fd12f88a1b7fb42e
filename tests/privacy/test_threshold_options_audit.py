"""Statistical audits of the other noises of variants/threshold on its worst neighbours, and of
broken counterparts that must fail.

Variants are noised independently, so many equal counts are as many runs of the mechanism at once.
Draws are seeded: what is found is found in every run.
"""

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from cloakwork.accounting.calibrate import gaussian_threshold_delta
from cloakwork.accounting.events import cost
from cloakwork.accounting.leaf_events import truncation_delta
from cloakwork.evaluation.dp_audit import AuditResult, HalfLine, OutcomeSet, empirical_epsilon
from cloakwork.mechanisms.variants.threshold import (
    Kind,
    ThresholdParams,
    VariantThreshold,
    calibrate_threshold,
    threshold_event,
)
from cloakwork.noise import Noise, reproducible
from measuring import release

RUNS = 24_000
EPSILON, DELTA = 1.0, 1e-2
OTHERS: tuple[Kind, ...] = ("gaussian", "truncated-geometric")


def noisy_counts(count: int, params: ThresholdParams, runs: int, noise: Noise) -> NDArray[np.int64]:
    """The released count of a variant of ``count`` cases, 0 where it is not released, in ``runs``
    runs.
    """
    if count == 0:
        return np.zeros(runs, np.int64)
    summary = pl.DataFrame({"variant": [[str(run)] for run in range(runs)], "cases": count})
    kept = release(VariantThreshold(), params, summary, noise).table["cases"].to_numpy()
    return np.concatenate([kept, np.zeros(runs - len(kept), np.int64)])


def audit(counts: tuple[int, int], params: ThresholdParams) -> AuditResult:
    """Neighbours that differ in the cases of one variant, judged by fixed half-lines."""
    events: list[OutcomeSet] = [
        HalfLine(bound, upper)
        for bound in {max(1, *counts), max(counts) + 3}
        for upper in (True, False)
    ]
    events.append(HalfLine(min(counts), upper=False))
    noise = reproducible(1)
    a, b = (lambda runs, count=count: noisy_counts(count, params, runs, noise) for count in counts)
    return empirical_epsilon(
        a, b, runs=RUNS, delta=params.delta, claim=params.epsilon, events=events
    )


def counterpart(
    **changes: Callable[[ThresholdParams], object],
) -> Callable[[ThresholdParams], ThresholdParams]:
    """The mechanism with one fault."""
    return lambda params: params.model_copy(
        update={name: change(params) for name, change in changes.items()}
    )


half_the_noise = counterpart(scale=lambda params: params.scale / 2)
a_third_of_the_noise = counterpart(scale=lambda params: params.scale / 3)
no_threshold = counterpart(tau=lambda params: 2)
half_the_threshold = counterpart(tau=lambda params: params.tau // 2)

WIDE = 0.3
"""A delta at which the claim is audited too: half of a Gaussian noise shows there in thousands of
runs, not in millions.
"""


@pytest.mark.parametrize("kind", OTHERS)
def test_one_case_more_on_a_frequent_variant_is_covered(kind: Kind) -> None:
    """As are three cases of one unit, where three are assumed."""
    assert audit((61, 60), calibrate_threshold(EPSILON, DELTA, 1, kind)).passed
    assert audit((93, 90), calibrate_threshold(EPSILON, DELTA, 3, kind)).passed


@pytest.mark.parametrize("kind", OTHERS)
def test_a_variant_of_one_unit_is_covered_by_delta(kind: Kind) -> None:
    """Present in one log, absent from the other."""
    assert audit((1, 0), calibrate_threshold(EPSILON, DELTA, 1, kind)).passed
    assert audit((3, 0), calibrate_threshold(EPSILON, DELTA, 3, kind)).passed


def test_too_little_noise_is_found() -> None:
    """Half of it where the noise is geometric; a third of a Gaussian, whose loss is spread out."""
    assert not audit(
        (61, 60), half_the_noise(calibrate_threshold(EPSILON, DELTA, 1, "truncated-geometric"))
    ).passed
    assert not audit(
        (61, 60), a_third_of_the_noise(calibrate_threshold(EPSILON, DELTA, 1, "gaussian"))
    ).passed


@pytest.mark.parametrize(
    ("counterpart", "passes"), [(lambda honest: honest, True), (half_the_noise, False)]
)
def test_half_of_a_gaussian_is_found_at_a_large_delta(
    counterpart: Callable[[ThresholdParams], ThresholdParams], passes: bool
) -> None:
    """Where the same noise is charged next to no epsilon."""
    honest = calibrate_threshold(4.0, DELTA, 1, "gaussian")
    claim = cost(threshold_event(honest), WIDE).epsilon
    events = [HalfLine(61, upper=True), HalfLine(60, upper=False)]
    noise = reproducible(1)
    a, b = (
        lambda runs, count=count: noisy_counts(count, counterpart(honest), runs, noise)
        for count in (61, 60)
    )
    assert (
        empirical_epsilon(a, b, runs=6_000, delta=WIDE, claim=claim, events=events).passed is passes
    )


def test_half_the_threshold_is_found() -> None:
    """A variant of one unit alone passes it far more often than delta allows."""
    for kind in OTHERS:
        assert not audit(
            (1, 0), half_the_threshold(calibrate_threshold(EPSILON, DELTA, 1, kind))
        ).passed


def test_a_unit_of_several_cases_counted_as_one_is_found() -> None:
    """Three cases of one unit under noise for one."""
    for kind in OTHERS:
        assert not audit((93, 90), calibrate_threshold(EPSILON, DELTA, 1, kind)).passed


def test_a_missing_threshold_is_found() -> None:
    """A unique variant gives its owner away."""
    for kind in OTHERS:
        assert not audit((1, 0), no_threshold(calibrate_threshold(EPSILON, DELTA, 1, kind))).passed


def test_noise_cut_off_too_early_is_found() -> None:
    """Truncation at a third of the bound, the threshold as it was: counts beyond what the other log
    can give show.
    """
    params = calibrate_threshold(EPSILON, DELTA, 1, "truncated-geometric")
    short = params.model_copy(update={"tau": max(2, params.tau // 3)})
    assert not audit((1, 0), short).passed
    assert cost(threshold_event(short), DELTA).epsilon > EPSILON


def test_thresholds_one_too_low_are_found_by_arithmetic() -> None:
    """No audit of feasible size sees the least step; the exact tails do."""
    params = calibrate_threshold(EPSILON, DELTA, 1, "truncated-geometric")
    assert (
        truncation_delta(params.scale, params.tau - 1)
        <= DELTA
        < truncation_delta(params.scale, params.tau - 2)
    )
    params = calibrate_threshold(EPSILON, DELTA, 1, "gaussian")
    assert gaussian_threshold_delta(params.scale, params.tau) <= DELTA / 2
    assert gaussian_threshold_delta(params.scale, params.tau - 2) > DELTA / 2

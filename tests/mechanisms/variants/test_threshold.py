"""variants/threshold: what its options buy, and that its noisy counts are unbiased."""

import math
from functools import cache

import numpy as np
import polars as pl
import pytest

from cloakwork.accounting.events import cost
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.variants.threshold import (
    VariantThreshold,
    calibrate_threshold,
    least_threshold,
    threshold_event,
)
from cloakwork.noise import reproducible, secret
from conftest import in_long_form
from measuring import release

KINDS = ("laplace", "gaussian", "truncated-geometric")
EPSILONS, DELTAS, UNITS = (0.05, 0.1, 0.5, 1.0, 2.0, 6.0), (1e-3, 1e-4, 1e-9), (1, 2, 5, 20)


def budgets():
    """Those at which Laplace noise has a threshold at all."""
    return [(e, d, m) for e in EPSILONS for d in DELTAS for m in UNITS if e / m >= 2 * d]


def goal(epsilon, delta):
    """Differential privacy over the control flow."""
    return DifferentialPrivacy(
        kind="differential-privacy", epsilon=epsilon, delta=delta, over=("control-flow",)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_keeps_to_the_budget(kind):
    """What the event costs is at most what was asked for."""
    # A third of the budgets, unless the run is a long one; each number of cases is among them.
    asked = budgets()[:: 1 if in_long_form(1) else 3]
    if kind == "gaussian":
        # A Gaussian takes a third of a second to calibrate.
        asked = [(0.1, 1e-4, 1), (1.0, 1e-3, 2)]
    for epsilon, delta, cases in asked:
        found = cost(threshold_event(calibrate_threshold(epsilon, delta, cases, kind)), delta)
        assert found.epsilon <= epsilon
        assert found.delta <= delta


def release_chance(params, counts):
    """Probability that a variant of each count is released, for Laplace noise and its
    truncation.
    """
    reach = (
        params.tau - 1
        if params.noise == "truncated-geometric"
        else int(60 * params.scale) + 2 * params.tau
    )
    x = np.arange(-reach, reach + 1)
    mass = np.exp(-np.abs(x) / params.scale)
    above = np.append(np.cumsum((mass / mass.sum())[::-1])[::-1], 0.0)
    return above[np.clip(params.tau - counts + reach, 0, len(x))]


def test_the_default_loses_nothing_against_laplace():
    """Its threshold is never higher; where lower, every count is released as often or less often by
    less than delta.
    """
    lower = 0
    for epsilon, delta, cases in budgets():
        laplace, chosen = (
            calibrate_threshold(epsilon, delta, cases),
            least_threshold(epsilon, delta, cases, None),
        )
        assert calibrate_threshold(epsilon, delta, cases, "truncated-geometric").tau <= laplace.tau
        if chosen.noise == "laplace":
            continue
        lower += 1
        counts = np.arange(1, 3 * laplace.tau)
        assert (release_chance(chosen, counts) > release_chance(laplace, counts) - delta).all()
        assert (
            release_chance(chosen, np.arange(2 * chosen.tau - 1, 3 * chosen.tau)) > 1 - 1e-9
        ).all()
    assert lower > 30


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-4), (0.5, 1e-3), (1.0, 1e-6), (3.0, 1e-2)])
def test_truncated_noise_selects_as_often_as_any_mechanism_may(epsilon, delta):
    """One case a unit: the chance of release is the optimum at the delta spent, by the recursion of
    Desfontaines et al.
    """
    params = calibrate_threshold(epsilon, delta, 1, "truncated-geometric")
    spent, best = cost(threshold_event(params), delta).delta, [0.0]
    for _ in range(2 * params.tau):
        before = best[-1]
        best.append(
            min(
                math.exp(epsilon) * before + spent,
                1 - math.exp(-epsilon) * (1 - before - spent),
                1.0,
            )
        )
    found = release_chance(params, np.arange(1, 2 * params.tau + 1))
    assert found == pytest.approx(best[1:], rel=1e-6)


def test_the_figures_of_the_docstring():
    """Thresholds at delta 1e-4, and that Gaussian noise has the highest."""
    exact = ("laplace", "truncated-geometric")
    for (epsilon, cases), expected in {
        (0.1, 1): [87, 64],
        (1.0, 1): [10, 10],
        (1.0, 5): [57, 46],
    }.items():
        assert [calibrate_threshold(epsilon, 1e-4, cases, kind).tau for kind in exact] == expected
    assert calibrate_threshold(1.0, 1e-4, 1, "gaussian").tau == 15


@cache
def usual_params(kind):
    return calibrate_threshold(0.5, 1e-4, 1, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_noisy_counts_are_unbiased(kind):
    """Variants far above the threshold: the mean over many is the count, within five standard
    errors.
    """
    params = usual_params(kind)
    summary = pl.DataFrame({"variant": [[str(i)] for i in range(5_000)], "cases": 500})
    noisy = release(VariantThreshold(), params, summary, reproducible(1)).table["cases"].to_numpy()
    assert len(noisy) == 5_000
    assert abs(noisy.mean() - 500) < 5 * noisy.std() / np.sqrt(len(noisy))
    if kind == "truncated-geometric":
        assert np.abs(noisy - 500).max() < params.tau


@pytest.mark.parametrize("kind", KINDS)
def test_each_noisy_count_belongs_to_its_variant(kind):
    """Counts far apart stay with their variants, which come in the order of their labels.

    Noise of scale 2, or of sigma 9, moves none of 200 counts by 200 but for e**-90.
    """
    params = usual_params(kind)
    summary = pl.DataFrame(
        {"variant": [[str(i)] for i in range(200)], "cases": np.arange(200) * 1000 + 500}
    )
    table = release(VariantThreshold(), params, summary, secret()).table
    assert table.height == 200
    place = table["variant"].list.first().cast(pl.Int64).to_numpy()
    assert (np.abs(table["cases"].to_numpy() - (place * 1000 + 500)) < 200).all()
    assert place.tolist() == sorted(place)

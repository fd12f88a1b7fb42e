"""Audits of differential privacy: sound claims pass, broken ones fail."""

import math

import numpy as np
import pytest

from cloakwork.accounting.calibrate import partition_threshold, threshold_delta
from cloakwork.errors import MechanismError
from cloakwork.evaluation import pairs
from cloakwork.evaluation.dp_audit import (
    HalfLine,
    OneOf,
    empirical_epsilon,
    half_lines,
    ratio_sets,
)
from cloakwork.evaluation.one_mechanism import mechanism_of
from cloakwork.evaluation.pairs import audit_pair
from cloakwork.noise import reproducible
from cloakwork.testing import audit_mechanism
from evaluation.counterparts import _counterparts, _seeded  # noqa: F401 - fixtures

CLAIM = {"epsilon": 1.0, "delta": 1e-3}


@pytest.fixture(autouse=True)
def many_copies(monkeypatch):
    """A run on times is on so many cases alike: ten of them show what 100 on 50 cases would."""
    monkeypatch.setattr(pairs, "COPIES", 500)


def shown_on(name, words, runs):
    """What an audit of the one pair whose name has these words finds."""
    audited = pairs.audited_pairs(mechanism_of(name), **CLAIM, options={})
    ((pair, prepared, delta),) = [each for each in audited if words in each[0].name]
    return audit_pair(pair, prepared.runner, runs=runs, claim=1.0, delta=delta).result


@pytest.mark.parametrize(
    ("name", "runs", "words", "more"),
    [
        ("variants/threshold", 20, "one case more on a frequent variant", 400),
        ("timestamps/laplace", 10, "middle of three times", 10),
    ],
)
def test_what_keeps_its_claim_passes(name, runs, words, more):
    """And something is seen, so the pairs are not idle."""
    assert all(item.result.passed for item in audit_mechanism(name, **CLAIM, runs=runs))
    found = shown_on(name, words, more)
    assert found.passed
    assert found.epsilon_lower_bound > 0


@pytest.mark.parametrize(
    ("name", "words", "runs"),
    [
        ("variants/no-threshold", "variant of its own", 250),
        ("variants/a-tenth", "one case more on a frequent variant", 150),
        ("timestamps/quiet", "middle of three times", 10),
        ("timestamps/quiet", "one edge of the bounds", 10),
    ],
)
def test_a_broken_counterpart_is_found_on_the_pairs_made_for_it(name, words, runs):
    """By half more than the claim at least."""
    found = shown_on(name, words, runs)
    assert not found.passed, found
    assert found.epsilon_lower_bound > 1.5, found


def test_other_mechanisms_are_refused() -> None:
    for name in ("bound", "attributes/redact", "kanon/tlkc"):
        with pytest.raises(MechanismError, match="no differential privacy"):
            audit_mechanism(name, epsilon=1.0, delta=1e-3, runs=10)


@pytest.fixture
def noise():
    """Seeded, so that no run of the suite ever raises a false alarm."""
    return reproducible(20)


def counted(noise, count, scale):
    """A count under discrete Laplace noise."""
    return lambda runs: count + noise.laplace_values(scale, runs)


def selected(noise, count, scale, tau):
    """A key released with its noisy count where that reaches tau; () otherwise."""

    def run(runs):
        noisy = count + noise.laplace_values(scale, runs)
        return [(int(value),) if count and value >= tau else () for value in noisy]

    return run


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_discrete_laplace_passes_at_its_claim(noise, scale):
    """And the bound comes close to the truth."""
    found = empirical_epsilon(
        counted(noise, 3, scale), counted(noise, 4, scale), runs=100_000, claim=1 / scale
    )
    assert found.passed, found
    assert found.epsilon_lower_bound > 0.8 / scale


def test_half_the_noise_shows_in_441_runs(noise):
    """The design's figure, with the event named beforehand."""
    found = empirical_epsilon(
        counted(noise, 0, 0.5),
        counted(noise, 1, 0.5),
        runs=441,
        claim=1.0,
        events=[HalfLine(1, upper=True)],
    )
    assert not found.passed, found
    assert found.counted == 441


def test_half_the_noise_shows_when_events_are_searched_for(noise):
    """In a few thousand runs, whatever the event."""
    found = empirical_epsilon(counted(noise, 0, 0.5), counted(noise, 1, 0.5), runs=4_000, claim=1.0)
    assert not found.passed, found
    assert found.counted == 3_200


@pytest.mark.parametrize("choose", [half_lines, ratio_sets])
def test_every_choice_of_events_finds_half_the_noise(noise, choose):
    """Half-lines and likelihood-ratio sets."""
    found = empirical_epsilon(
        counted(noise, 0, 0.5), counted(noise, 1, 0.5), runs=20_000, claim=1.0, events=choose
    )
    assert not found.passed, found


def test_a_threshold_passes_and_its_absence_fails_at_once(noise):
    """One key present or absent, at delta 1e-3."""
    scale, delta = 1.0, 1e-3
    tau = partition_threshold(scale, delta)
    sound = empirical_epsilon(
        selected(noise, 1, scale, tau),
        selected(noise, 0, scale, tau),
        runs=20_000,
        delta=delta,
        claim=1 / scale,
    )
    assert sound.passed, sound
    assert threshold_delta(scale, tau) <= delta
    broken = empirical_epsilon(
        selected(noise, 1, scale, -99),
        selected(noise, 0, scale, -99),
        runs=500,
        delta=delta,
        claim=1 / scale,
    )
    assert not broken.passed, broken


def test_one_input_alone_shows_nothing(noise):
    """The same input twice: a bound at or below zero."""
    found = empirical_epsilon(
        counted(noise, 0, 1.0), counted(noise, 0, 1.0), runs=50_000, claim=0.0
    )
    assert found.passed, found


def test_delta_explains_rare_outcomes():
    """An outcome of probability below delta is no violation; above it, it is."""

    def gives_away(rare):
        return lambda runs: np.where(np.arange(runs) % 1000 < rare, 7, 0)

    clean = lambda runs: np.zeros(runs, dtype=np.int64)  # noqa: E731
    assert empirical_epsilon(gives_away(5), clean, runs=20_000, delta=0.01, claim=0.5).passed
    assert not empirical_epsilon(gives_away(50), clean, runs=20_000, delta=0.01, claim=0.5).passed


def test_any_hashable_outcome_will_do():
    """Strings, tuples, rows of an array, mixtures."""
    rows = empirical_epsilon(
        lambda n: np.ones((n, 2)), lambda n: np.zeros((n, 2)), runs=1_000, claim=1.0
    )
    words = empirical_epsilon(lambda n: ["a"] * n, lambda n: ["b"] * n, runs=1_000, claim=1.0)
    mixed = empirical_epsilon(
        lambda n: [None, (1, "a")] * (n // 2), lambda n: [None] * n, runs=1_000, claim=1.0
    )
    assert not rows.passed
    assert not words.passed
    assert not mixed.passed
    assert "outcome in {" in words.event


def test_the_bound_is_clopper_pearson():
    """All against nothing in n runs: ln(p_lo / q_hi) with both tails at a quarter of the error."""
    runs, error = 1_000, 1e-6 / 4
    lowest = error ** (1 / runs)
    found = empirical_epsilon(
        np.ones, np.zeros, runs=runs, events=[OneOf(frozenset([1.0]))], delta=0.0
    )
    assert found.epsilon_lower_bound == pytest.approx(math.log(lowest / (1 - lowest)), rel=1e-6)
    assert found.hits == (runs, 0)
    assert found.passed  # no claim, no failure


def test_too_few_runs_are_refused():
    """Nothing can be learned from nine."""
    with pytest.raises(ValueError, match="at least 10"):
        empirical_epsilon(np.ones, np.ones, runs=9)

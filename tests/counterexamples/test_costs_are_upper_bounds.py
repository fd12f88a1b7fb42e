"""A7: what a release costs is an upper bound at every delta, and a group is never named by a raw
value.
"""

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from mpmath import binomial, exp, mp, mpf

from cloakwork import apply, load_policy, make_plan
from cloakwork.accounting.events import cost, delta_at
from cloakwork.base.costs import Composed, DiscreteLaplace, EpsilonDelta, Repeated
from cloakwork.policy.lint import lint

mp.dps = 60


def exact_delta(epsilon, times, scale):
    """Delta of ``times`` discrete Laplace noises moved by one: the loss is a binomial walk of steps
    1/scale.
    """
    up = exp(mpf(1) / scale) / (1 + exp(mpf(1) / scale))
    total = mpf(0)
    for rises in range(times // 2, times + 1):
        loss = mpf(2 * rises - times) / scale
        if loss > epsilon:
            total += (
                binomial(times, rises)
                * up**rises
                * (1 - up) ** (times - rises)
                * (1 - exp(epsilon - loss))
            )
    return total


@pytest.mark.parametrize("delta", [1e-6, 1e-12, 1e-14, 1e-20])
def test_many_small_noises_cost_no_less_than_they_do(delta):
    """3,000 x DLap(20): at the epsilon charged, the true delta is at most the one asked for, and
    hardly less.
    """
    found = cost(Repeated(times=3000, event=DiscreteLaplace(scale=20.0)), delta).epsilon
    assert math.isfinite(found)
    truth = exact_delta(mpf(found), 3000, 20)
    assert truth <= mpf(delta)
    assert truth >= mpf(delta) * mpf("0.999")


@pytest.mark.parametrize(("times", "scale"), [(40, 1), (700, 7), (5000, 100)])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_deltas_read_off_are_upper_bounds(times, scale, share):
    """Also far out, where delta is far below what double precision can add to 1."""
    event = Repeated(times=times, event=DiscreteLaplace(scale=float(scale)))
    far = 12 * math.sqrt(times) / scale + times / scale * math.tanh(0.5 / scale)
    epsilon = share * min(far, times / scale)
    truth = exact_delta(mpf(epsilon), times, scale)
    found = mpf(delta_at(event, epsilon))
    assert truth <= found <= truth * mpf("1.001") + mpf("1e-25")


def test_a_mixture_of_noises_costs_no_less_than_it_does():
    """Two kinds of events, by enumeration of all their losses."""
    event = Composed(
        events=(
            Repeated(times=60, event=DiscreteLaplace(scale=4.0)),
            Repeated(times=9, event=EpsilonDelta(epsilon=0.5, delta=1e-13)),
        )
    )
    losses = {(0, 0): mpf(1)}
    for kind, times, epsilon in ((0, 60, mpf(1) / 4), (1, 9, mpf(1) / 2)):
        up = exp(epsilon) / (1 + exp(epsilon))
        whole = 1 - mpf("1e-13") if kind else mpf(1)
        steps = {
            r: binomial(times, r) * up**r * (1 - up) ** (times - r) * whole**times
            for r in range(times + 1)
        }
        losses = {
            (a + (0 if kind else 2 * r - times), b + (2 * r - times if kind else 0)): p * q
            for (a, b), p in losses.items()
            for r, q in steps.items()
        }
    infinite = 1 - (1 - mpf("1e-13")) ** 9
    for delta in (1e-3, 1e-9, 2e-12):
        found = mpf(cost(event, delta).epsilon)
        truth = infinite
        for (a, b), p in losses.items():
            loss = mpf(a) / 4 + mpf(b) / 2
            if loss > found:
                truth += p * (1 - exp(found - loss))
        assert truth <= mpf(delta), delta
        assert truth >= mpf(delta) * mpf("0.99"), delta


@pytest.mark.parametrize("seed", range(6))
def test_every_cell_bounds_the_exact_convolution(seed):
    """Against exact rationals; a plain transform, the twin without the bound, lies below in some
    cell.
    """
    from cloakwork.accounting.losses import LossDistribution, compose

    source = np.random.default_rng(seed)  # test data, not noise
    parts = []
    for size, times in ((7, 12), (5, 9)):
        masses = source.random(size) ** 6
        parts.append(
            (
                LossDistribution(
                    0.01, int(source.integers(-4, 3)), masses / masses.sum() * (1 - 1e-15), 0.0
                ),
                times,
            )
        )
    exact = [Fraction(1)]
    for part, times in parts:
        for _ in range(times):
            exact = convolved(exact, [Fraction(float(mass)) for mass in part.masses])
    found = compose(parts)
    first = sum(times * part.lowest for part, times in parts) - found.lowest
    cells = [Fraction(float(mass)) for mass in found.masses]
    below = sum(
        exact[: max(0, -first)], Fraction(0)
    )  # what lies below the window is moved up to its lowest cell
    assert cells[0] >= below + (exact[-first] if first <= 0 else 0)
    assert all(cells[first + i] >= mass for i, mass in enumerate(exact) if first + i >= 0)
    length = 256
    twin = np.ones(length // 2 + 1, complex)
    for part, times in parts:
        twin *= np.fft.rfft(part.masses, length) ** times
    twin = np.fft.irfft(twin, length)[: len(exact)]
    assert any(Fraction(float(cell)) < mass for cell, mass in zip(twin, exact, strict=True))


def convolved(one, other):
    """The convolution of two lists of rationals."""
    total = [Fraction(0)] * (len(one) + len(other) - 1)
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            total[i + j] += a * b
    return total


TREE = {"north": {"coast": ["Kiel", "Husum"]}, "south": ["Ulm"], "Berlin": None}
"""Kiel and Husum lie at depth 3, Ulm at depth 2, Berlin at depth 1."""


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (0, {"Kiel": "*", "Ulm": "*", "Berlin": "*"}),
        (1, {"Kiel": "north", "Ulm": "south", "Berlin": "*"}),
        (2, {"Kiel": "coast", "Ulm": "south", "Berlin": "*"}),
    ],
)
def test_a_shallow_branch_releases_its_lowest_group_not_its_value(level, expected):
    """What lies no deeper than the level asked for is a value, and stands under the group above
    it.
    """
    from cloakwork.mechanisms.generalisation import groups_at

    found = groups_at(pl.Series("town", list(expected)), TREE, level)
    assert found.to_list() == list(expected.values())


def test_a_policy_with_a_shallow_branch_releases_no_value_as_a_group(tmp_path):
    """End to end: the released column holds groups only."""
    log = pl.DataFrame(
        {
            "case:concept:name": [str(i // 2) for i in range(24)],
            "concept:name": ["a", "b"] * 12,
            "time:timestamp": ["2024-01-01T00:00:00Z"] * 24,
            "case:town": [("Kiel", "Ulm", "Berlin", "Husum")[i // 2 % 4] for i in range(24)],
        }
    )
    source = tmp_path / "log.csv"
    log.write_csv(source)
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        """\
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata:
  {name: towns, version: 1.0.0, owner: o@example.org, purpose: a test of groups, dataset: towns}
spec:
  unit: case
  guarantees: [{kind: k-anonymity, k: 2, over: [control-flow]}]
  attributes:
    "case:concept:name": {role: identifier}
    "concept:name": {role: control-flow}
    "case:town":
      treatment: generalise
      level: 2
      hierarchy: {north: {coast: [Kiel, Husum]}, south: [Ulm], east: [Berlin]}
    "*": {treatment: drop}
  expose:
    "case:town": the partner compares regions and needs to know which one
"""
    )
    loaded = load_policy(policy)
    released = apply(make_plan(loaded), source, ledger=str(tmp_path / "ledger.db")).log
    assert set(released.cases["case:town"].to_list()) == {"coast", "south", "east"}
    assert any(
        "'Ulm' and 1 more has no group at depth 2" in advice.message for advice in lint(loaded)
    )

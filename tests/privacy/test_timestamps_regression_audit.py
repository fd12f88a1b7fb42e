"""Statistical audits of timestamps/regression, with broken counterparts that must fail.

What one case adds to a gradient step is seen best where nobody else's gradient points that way: a
canary whose gradient is as long as the clip allows, in every step. The tables are audited in
``test_timestamps_histogram_audit``. Draws are seeded: what is found is found in every run.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import cache

import numpy as np
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.arrays import Floats
from cloakwork.base.facts import UNIX_EPOCH, Facts, Unit, Window
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.evaluation.dp_audit import AuditResult, HalfLine, empirical_epsilon
from cloakwork.kernel import Cases, Column, Columns, Gaussian
from cloakwork.kernel.perturb import Grid
from cloakwork.mechanisms.base import Offer, PartOfGoal
from cloakwork.mechanisms.timestamps.bins import HOUR, Clock, LogBins
from cloakwork.mechanisms.timestamps.regression import TimestampRegression
from cloakwork.mechanisms.timestamps.regressions import (
    DurationRegression,
    GapRegression,
    GradientSteps,
    RegressionParams,
)
from cloakwork.noise import Noise, reproducible

RUNS = 3_000
WINDOW = Window(start=UNIX_EPOCH, end=UNIX_EPOCH + timedelta(days=400))


@cache
def params(max_cases: int = 1, mu: float = 1.0) -> RegressionParams:
    facts = Facts(unit=Unit(attribute="case:who", max_cases=max_cases), window=WINDOW)
    found = TimestampRegression().offer_part(PartOfGoal((TIMESTAMPS,), mu, 0.0), facts, {})
    assert isinstance(found, Offer)
    return found.params


def steps_of(name: str, max_cases: int = 1) -> GradientSteps:
    """Those of gaps, or of durations."""
    found = params(max_cases)
    return found.gaps if name == "gaps" else found.durations


def canary_sums(
    steps: GradientSteps, cases: int, moved: float, share: float, noise: Noise
) -> Callable[[int], Floats]:
    """What all steps add up to along the gradient of a canary, in clips: Neyman and Pearson's
    ratio. ``cases``: how often it is there; ``moved``: clips that it moves a step by; ``share``:
    so much of the noise is drawn.
    """
    descent = steps.descent(100.0)

    def run(runs: int) -> Floats:
        drawn = Gaussian(descent.noise.sigma * share).draw(noise, runs * steps.times)
        summed = drawn.reshape(runs, steps.times).sum(axis=1)
        return np.asarray(summed / descent.clip + cases * moved * steps.times)

    return run


def audit(
    name: str, *, share: float = 1.0, moved: float = 1.0, more: int = 1, max_cases: int = 1
) -> AuditResult:
    """All steps of a regression together, against what they are charged for."""
    steps = steps_of(name, max_cases)
    descent = steps.descent(100.0)
    delta = 0.3 * max_cases * descent.clip * np.sqrt(steps.times) / descent.noise.sigma
    noise = reproducible(1)
    here, there = (canary_sums(steps, each, moved, share, noise) for each in (more, 0))
    bounds = [more * moved * steps.times * part for part in (0.15, 0.5, 0.85)]
    events = [HalfLine(bound, upper) for bound in bounds for upper in (True, False)]
    claim = cost(steps.event(), delta).epsilon
    return empirical_epsilon(here, there, runs=RUNS, claim=claim, delta=delta, events=events)


BOTH = pytest.mark.parametrize("name", ["gaps", "durations"])


@BOTH
def test_a_canary_keeps_within_what_all_steps_are_charged_for(name: str) -> None:
    """And is found where half of the noise is drawn."""
    honest = audit(name)
    assert honest.passed, honest
    assert not audit(name, share=0.5).passed


@BOTH
def test_a_gradient_without_a_clip_is_found(name: str) -> None:
    """One three times as long as the clip."""
    assert not audit(name, moved=3.0).passed


@BOTH
def test_three_cases_of_a_unit_are_covered_where_they_are_assumed(name: str) -> None:
    """And found where one case a unit is assumed."""
    assert audit(name, more=3, max_cases=3).passed
    assert not audit(name, more=3).passed


@pytest.mark.parametrize("events", [2, 2_000])
def test_no_case_moves_a_step_by_more_than_the_clip(events: int) -> None:
    """However long it is, at weights far off, where gradients are longest."""
    times = np.arange(events) * (7 * 24 * HOUR)
    columns = Columns({TIMESTAMPS: Column.of_times(times, np.zeros(events, np.bool_))})
    codes = np.arange(events, dtype=np.int64) % 30
    labels = tuple(f"a{number:02}" for number in range(30))
    case = Cases(labels, codes, np.array([0, events]), columns)
    clock, bins = Clock.of(Grid(UNIX_EPOCH, timedelta(seconds=1))), LogBins.up_to(10**8, 64)
    durations = DurationRegression.expecting(clock, bins, case, np.zeros(1, np.int64))
    gaps = GapRegression.expecting(clock, bins, case, np.full(len(bins), 1 / len(bins)))
    for steps, gradient in (
        (params().durations, durations.gradient),
        (params().gaps, gaps.gradient),
    ):
        descent = steps.descent(1.0)
        for scale in (0.0, 30.0):
            weights = scale * np.random.default_rng(1).normal(size=steps.size)
            (moved,) = descent.clipped(gradient, weights, case).rows()
            assert 0 < sum(int(step) ** 2 for step in moved) <= descent.clip**2

"""Statistical audits of gradient steps by canaries, and of broken twins that must fail.

With little noise and at a large delta few runs tell: there the same noise is charged next to no
epsilon, and half of it shows at once. Draws are seeded: what is found is found in every run.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.costs import Repeated
from cloakwork.kernel import Cases, Descent, Factors, Kernel, Measured, Owners
from cloakwork.kernel import gradients as steps
from cloakwork.kernel.gradients import DenseMoves, clipped_factors
from privacy.canaries import (
    ASIDE,
    DIRECTION,
    CanaryRuns,
    are_canaries,
    canary_gradient,
    gradient_by_events,
)

RUNS, STEPS, DELTA = 150, 2, 0.6


def descent_of(multiplier: float, rate: float = 1.0) -> Descent:
    """Two steps."""
    return Descent.of(
        times=STEPS, rate=rate, norm=0.5, multiplier=multiplier, denominator=10 * rate
    )


FULL = descent_of(math.sqrt(STEPS) / 2)
"""All cases at each step: together they tell as much as one normal number that moves by 2."""


def charged(descent: Descent, delta: float = DELTA) -> float:
    """The epsilon that the accountant charges for the steps."""
    return cost(Repeated(times=descent.times, event=descent.event(3, 1)), delta).epsilon


@pytest.mark.parametrize("gradient", [canary_gradient, gradient_by_events])
def test_a_canary_stays_within_what_is_charged(gradient: steps.Gradient) -> None:
    """By rows and by factors."""
    found = CanaryRuns(FULL, gradient).audit(RUNS, 1.0, claim=charged(FULL), delta=DELTA)
    assert found.passed, found


def test_half_the_noise_is_found() -> None:
    """In 150 runs."""
    found = CanaryRuns(FULL, share=0.5).audit(RUNS, 1.0, claim=charged(FULL), delta=DELTA)
    assert not found.passed, found


def clipped_by_event(
    found: list[Factors], cases: int, size: int, grid: float, clip: int
) -> DenseMoves:
    """A broken twin: each event's gradient is clipped, and a case's are added up."""
    rows = np.zeros((cases, size), np.int64)
    for place in range(found[0].left.shape[1]):
        alone = [Factors(each.left[:, [place]], each.right[:, [place]]) for each in found]
        rows += clipped_factors(alone, cases, size, grid, clip).rows()
    return DenseMoves(rows)


def test_clipping_by_event_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long case moves the sum by as many clips as it has events."""
    monkeypatch.setattr(steps, "clipped_factors", clipped_by_event)
    runs = CanaryRuns(FULL, gradient_by_events)
    assert not runs.audit(100, 6.0, claim=charged(FULL), delta=DELTA).passed


def turning_gradient(parameters: Floats, cases: Cases, step: int) -> Floats:
    """A canary's points the other way in every other step."""
    return canary_gradient(parameters, cases, step) * (1.0 - 2.0 * (step % 2))


def apart(moved: Floats) -> Floats:
    """How far the first step of each run lies from the second."""
    return np.asarray(moved[:, 0] - moved[:, 1])


def test_noise_that_is_used_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken twin that draws once for two steps: each step by itself is hidden as it should be,
    and so is the sum of both, but noise cancels out of their difference.
    """
    runs = CanaryRuns(FULL, turning_gradient)

    def audited() -> bool:
        return runs.audit(RUNS, 1.0, claim=charged(FULL), delta=DELTA, statistic=apart).passed

    assert audited()
    draw, latest = steps.Gaussian.draw, []

    def drawn_once(noise: steps.Gaussian, source: Any, size: int) -> Ints:
        if not latest:
            latest.append(draw(noise, source, size))
            return latest[0]
        return latest.pop()

    monkeypatch.setattr(steps.Gaussian, "draw", drawn_once)
    assert not audited()


SAMPLED = descent_of(0.2, rate=0.5)
IN_A_SAMPLE = 1 - (1 - SAMPLED.rate) ** STEPS
"""How likely a case is in a sample at all. Where it is in none, both logs release the same: the
steps are (0, this)-differentially private, whatever the noise.
"""


def furthest_step(moved: Floats) -> Floats:
    """Whether the canary was in any batch shows in one step."""
    return np.asarray(moved.max(axis=1))


def shuffled_batches() -> Callable[[Kernel, Measured, Owners, float], Ints]:
    """A broken twin of Poisson samples: batches of one size, of all units in random order."""
    waiting: list[Ints] = []

    def sample(kernel: Kernel, measured: Measured, owners: Owners, rate: float) -> Ints:
        if not waiting:
            order = kernel.randomness.permutation(owners.units)
            waiting.extend(np.array_split(order, round(1 / rate)))
        drawn = np.isin(owners.unit, waiting.pop())
        rows = int(owners.row.max(initial=-1)) + 1
        return np.bincount(owners.row[drawn], owners.cases[drawn], rows).astype(np.int64)

    return sample


def test_shuffled_batches_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every case is in a batch once an epoch; in Poisson samples it may be in none, and with next
    to no noise that is all that hides it.
    """
    runs = CanaryRuns(SAMPLED)

    def audited() -> bool:
        found = runs.audit(RUNS, 0.5, claim=0.0, delta=IN_A_SAMPLE, statistic=furthest_step)
        return found.passed

    assert audited()
    monkeypatch.setattr(Kernel, "_Kernel__sample", shuffled_batches())
    assert not audited()


def test_steps_left_out_for_empty_samples_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of one case, or of none: where an empty sample is no step, one that was taken tells."""
    hidden = descent_of(20.0, rate=0.5)
    runs = CanaryRuns(hidden, others=0)

    def steps_taken(moved: Floats) -> Floats:
        return np.asarray((moved != 0).sum(axis=1))

    def audited() -> bool:
        return runs.audit(100, 1.0, claim=0.0, delta=0.2, statistic=steps_taken).passed

    assert audited()
    is_empty, summed = [False], Descent.summed

    def noted(
        descent: Descent, gradient: steps.Gradient, start: Floats, cases: Cases, *rest: object
    ) -> Ints:
        is_empty[0] = len(cases) == 0
        return summed(descent, gradient, start, cases, *rest)

    draw = steps.Gaussian.draw

    def drawn(noise: steps.Gaussian, source: object, size: int) -> Ints:
        return draw(noise, source, size) * (not is_empty[0])

    monkeypatch.setattr(Descent, "summed", noted)
    monkeypatch.setattr(steps.Gaussian, "draw", drawn)
    assert not audited()


class Encoder:
    """A decoder learns what to make of an encoder's code; here the gradient by the decoder is the
    code itself, which the encoder's weight turns one way or the other.

    ``exact``: a broken twin, whose encoder goes by its exact gradients, unclipped and without
    noise, so that the decoder's gradient of every case depends on all cases.
    """

    def __init__(self, *, exact: bool) -> None:
        self.exact, self.weight = exact, 1.0

    def __call__(self, parameters: Floats, cases: Cases, step: int) -> Floats:
        """The decoder's gradients; then the encoder's step."""
        if step % STEPS == 0:
            self.weight = 1.0
        canaries = are_canaries(cases)[:, None]
        found = np.where(canaries, ASIDE, np.sign(self.weight) * DIRECTION)
        if self.exact:
            self.weight -= 1e6 * canaries.sum()
        return found


@pytest.mark.parametrize("exact", [False, True], ids=["fixed", "exact gradients"])
def test_an_encoder_without_noise_is_found(exact: bool) -> None:
    """Stands for an autoencoder that trains its decoder alone with noise: the canary turns the
    codes of all others.
    """
    hidden = descent_of(4.0)
    runs = CanaryRuns(hidden, Encoder(exact=exact), others=40)

    def last_step(moved: Floats) -> Floats:
        return -moved[:, -1]

    found = runs.audit(100, 0.0, claim=charged(hidden), delta=DELTA, statistic=last_step)
    assert found.passed is not exact, found


COPIES, LITTLE = 5, 0.1
HIDDEN = descent_of(math.sqrt(STEPS) / 0.3)
"""One canary moves a normal number by .3."""


@pytest.mark.parametrize(("share", "passed"), [(1.0, True), (0.5, False)])
def test_a_canary_inserted_several_times(share: float, passed: bool) -> None:
    """k copies are k neighbours further: k epsilon, at delta (e^(k epsilon) - 1)/(e^epsilon - 1).

    Half of the noise shows, where one canary hides it in as many runs.
    """
    of_one = cost(Repeated(times=STEPS, event=HIDDEN.event(3, 1)), 0.08)
    epsilon, delta = of_one.epsilon, 0.08
    of_all = delta * math.expm1(COPIES * epsilon) / math.expm1(epsilon)
    several = CanaryRuns(HIDDEN, copies=COPIES, share=share)
    found = several.audit(RUNS, STEPS * COPIES / 2, claim=COPIES * epsilon, delta=of_all)
    assert found.passed is passed, found
    once = CanaryRuns(HIDDEN, share=share).audit(RUNS, STEPS / 2, claim=epsilon, delta=delta)
    assert once.passed, once

"""Canaries for gradient steps: cases whose gradient is always the clip, in one direction.

No case moves a sum further, so with one canary more or less the inner products of all noisy means
with that direction tell as much of it as anything could (Nasr et al. 2021; Steinke, Nasr and
Jagielski 2023). Updates change nothing, so one descent of many steps is as many runs at once.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.costs import Repeated
from cloakwork.evaluation.dp_audit import AuditResult, HalfLine
from cloakwork.kernel import Cases, Descent, Factors
from cloakwork.kernel.gradients import Gradient
from cloakwork.noise import Noise, reproducible
from kernel.small import kernel_of, measured
from privacy.sources import seeded_audit

DIRECTION: Final = np.array([0.6, 0.0, 0.8])
ASIDE: Final = np.array([0.0, 0.5, 0.0])
"""What other cases' gradients are: at a right angle, so that they do not hide the canary."""

OTHERS: Final = ("a", "b")
CANARY: Final = ("z",) * 6
"""The longest case."""


def are_canaries(cases: Cases) -> Bools:
    """Of each case whether it is one: bool, shape (cases,)."""
    return np.asarray(cases.coded(("z",))[cases.offsets[:-1]] == 0)


def canary_gradient(parameters: Floats, cases: Cases, step: int) -> Floats:
    """A canary's is longer than the clip."""
    return np.where(are_canaries(cases)[:, None], 2 * DIRECTION, ASIDE)


def gradient_by_events(parameters: Floats, cases: Cases, step: int) -> list[Factors]:
    """The same in factors, to which each event of a case contributes: one alone is longer than the
    clip.
    """
    of_case = canary_gradient(parameters, cases, step)
    places = np.arange(int(cases.lengths.max(initial=1)))
    is_there = places < cases.lengths[:, None]
    right = np.where(is_there[:, :, None], of_case[:, None], 0.0)
    return [Factors(np.ones((*is_there.shape, 1)), right)]


class DrawnAhead:
    """A source whose Gaussian noise is drawn two thousand at a time: the same noise, sooner.

    ``share``: of the deviation that is asked for, what is drawn.
    """

    private = False

    def __init__(self, source: Noise, share: float = 1.0) -> None:
        self.source, self.share = source, share
        self._ahead: dict[float, Ints] = {}

    def gaussian_values(self, sigma: float, size: int) -> Ints:
        """Of deviation ``share * sigma``."""
        ahead = self._ahead.get(sigma, np.zeros(0, np.int64))
        if len(ahead) < size:
            ahead = self.source.gaussian_values(self.share * sigma, 2_000)
        self._ahead[sigma] = ahead[size:]
        return ahead[:size]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)


def sum_of_steps(moved: Floats) -> Floats:
    """How far all steps together lie along the direction."""
    return np.asarray(moved.sum(axis=1))


@dataclass(frozen=True)
class CanaryRuns:
    """How canaries are audited. ``others``: cases beside them; ``copies``: how often the canary is
    inserted on one side, and on the other not at all. ``share``: as of ``DrawnAhead``.
    """

    descent: Descent
    gradient: Gradient = canary_gradient
    others: int = 3
    copies: int = 1
    share: float = 1.0

    def moved(self, canaries: int, runs: int, source: Noise) -> Floats:
        """Along the direction, how many clips each step's noisy sum lies: shape (runs, steps)."""
        counted = {OTHERS: self.others, CANARY: canaries}
        there = [variant for variant, count in counted.items() if count]
        seen = measured(there, [counted[variant] for variant in there])
        many = replace(self.descent, times=runs * self.descent.times)
        charged = Repeated(times=many.times, event=many.event(3, 1))
        kernel = kernel_of(seen, charged, noise=DrawnAhead(source, self.share))
        means: list[float] = []

        def keep(parameters: Floats, mean: Floats) -> Floats:
            means.append(float(mean @ DIRECTION))
            return parameters

        kernel.steps(self.gradient, np.zeros(3), keep, many)
        clip = many.clip * many.grid / many.denominator
        return np.array(means).reshape(runs, -1) / clip

    def audit(
        self,
        runs: int,
        bound: float,
        *,
        claim: float,
        delta: float,
        statistic: Callable[[Floats], Floats] = sum_of_steps,
    ) -> AuditResult:
        """The lower bound on epsilon, by whether the ``statistic`` of a run reaches ``bound``."""
        source = reproducible(15)
        events = [HalfLine(bound, upper=True), HalfLine(bound, upper=False)]

        def outcomes(canaries: int) -> Callable[[int], Floats]:
            return lambda runs: statistic(self.moved(canaries, runs, source))

        return seeded_audit(
            outcomes(self.copies), outcomes(0), runs=runs, delta=delta, claim=claim, events=events
        )

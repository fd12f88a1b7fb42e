"""Training a network by gradient steps of a kernel."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

import numpy as np
from torch import Tensor

from cloakwork.accounting.events import cost
from cloakwork.base.arrays import Floats
from cloakwork.base.costs import Repeated
from cloakwork.base.progress import say
from cloakwork.kernel import Cases, Descent, Factors, Kernel
from cloakwork_extras.networks.devices import chosen_device
from cloakwork_extras.networks.layers import Shapes, Tape

Losses = Callable[[Tape, Cases, int], Tensor]
"""The loss of each case, shape (cases,), from a tape with the weights, the cases and the number of
the step: a pure function, in which no case's loss depends on another case.
"""

REPORTED: Final = 2.0
"""Seconds between two words about progress."""


@dataclass(slots=True)
class Adam:
    """Steps by running means of the gradient and of its square (Kingma and Ba 2015), and the mean
    of the last weights.

    ``rate``: how far a step goes. ``averaged``: the part of the steps, the last ones, whose weights
    are averaged. All of it is made of noisy answers.
    """

    rate: float
    times: int
    means: tuple[float, float] = (0.9, 0.99)
    averaged: float = 0.5
    steps: int = 0
    _first: Floats = field(default_factory=lambda: np.zeros(0))
    _second: Floats = field(default_factory=lambda: np.zeros(0))
    _sum: Floats = field(default_factory=lambda: np.zeros(0))
    _summed: int = 0

    def __call__(self, weights: Floats, gradient: Floats) -> Floats:
        """The weights after one step more."""
        if not self.steps:
            self._first, self._second = np.zeros_like(weights), np.zeros_like(weights)
            self._sum = np.zeros_like(weights)
        self.steps += 1
        first, second = self.means
        self._first = first * self._first + (1 - first) * gradient
        self._second = second * self._second + (1 - second) * gradient**2
        mean = self._first / (1 - first**self.steps)
        square = self._second / (1 - second**self.steps)
        weights = weights - self.rate * mean / (np.sqrt(square) + 1e-12)
        if self.steps > self.times * (1 - self.averaged):
            self._sum += weights
            self._summed += 1
        return weights

    def average(self, weights: Floats) -> Floats:
        """The mean of the last weights; ``weights`` where no step was averaged."""
        return self._sum / self._summed if self._summed else weights


def train(
    kernel: Kernel,
    losses: Losses,
    shapes: Shapes,
    start: Floats,
    descent: Descent,
    update: Callable[[Floats, Floats], Floats],
    *,
    title: str,
    delta: float = 0.0,
    max_cases: int = 1,
) -> Floats:
    """The weights (float64, shape (shapes.size,)) after the steps of ``descent``.

    ``update``: as of ``Kernel.steps``. ``title``: what is trained; ``delta``: at which it is told
    what the steps so far have cost, which the plan charged before the first one; 0: not at all.
    """
    device = chosen_device()
    progress = _Progress(title, descent, shapes.size, delta, max_cases)

    def gradient(weights: Floats, cases: Cases, step: int) -> list[Factors]:
        tape = Tape(shapes.split(weights, device))
        return tape.factors(losses(tape, cases, step))

    def updated(weights: Floats, mean: Floats) -> Floats:
        progress.step()
        return update(weights, mean)

    return kernel.steps(gradient, start, updated, descent)


@dataclass(slots=True)
class _Progress:
    """Says how far training is: in epochs, in time, and in what is spent."""

    title: str
    descent: Descent
    size: int
    delta: float
    max_cases: int
    done: int = 0
    began: float = field(default_factory=monotonic)
    reported: float = field(default_factory=monotonic)

    def step(self) -> None:
        """One step more is done."""
        self.done += 1
        now = monotonic()
        if now - self.reported < REPORTED:
            return
        self.reported = now
        times, rate = self.descent.times, self.descent.rate
        left = (now - self.began) / self.done * (times - self.done)
        epochs = f"epoch {self.done * rate:.3g} of {times * rate:.3g}"
        say(
            f"training {self.title}: {epochs} (step {self.done:,} of {times:,}), "
            f"{self._spent()}about {left:,.0f} s left"
        )

    def _spent(self) -> str:
        if not self.delta:
            return ""
        event = Repeated(times=self.done, event=self.descent.event(self.size, self.max_cases))
        return f"epsilon {cost(event, self.delta).epsilon:.3g} of these steps so far, "

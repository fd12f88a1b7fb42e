"""Training a network by gradient steps of a kernel.

A network is a function of a tape: it applies one matrix of weights after another, and the tape
notes what goes into each and, by one backward pass, what comes back. These are the factors of each
case's gradient that the kernel clips and sums (``cloakwork.kernel.gradients``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from time import monotonic
from typing import Final

import numpy as np
import torch
from torch import Tensor

from cloakwork.accounting.events import cost
from cloakwork.base.arrays import Floats
from cloakwork.base.costs import Repeated
from cloakwork.base.frozen import frozen
from cloakwork.base.progress import say
from cloakwork.kernel import Cases, Descent, Factors, Kernel, Randomness
from cloakwork_extras.networks.steps import chosen_device


@frozen
class Shapes:
    """The matrices of a network: ``sizes``, (inputs, outputs) each. A layer with an offset has one
    input more, which is 1.
    """

    sizes: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """How many weights there are."""
        return sum(inputs * outputs for inputs, outputs in self.sizes)

    def split(self, flat: Floats, device: torch.device | None = None) -> list[Tensor]:
        """The matrices, in single precision, of which ``flat`` holds the entries, row by row."""
        ends = np.cumsum([0, *(inputs * outputs for inputs, outputs in self.sizes)])
        return [
            torch.tensor(flat[start:end].reshape(size), dtype=torch.float32, device=device)
            for (start, end), size in zip(pairwise(ends.tolist()), self.sizes, strict=True)
        ]

    def initial(self, seed: int, zeros: Sequence[int] = ()) -> Floats:
        """Normal numbers whose variance is one over the inputs, as LeCun et al. 1998 have it;
        offsets and the layers ``zeros`` are 0. float64, shape (size,).
        """
        drawn = torch.Generator().manual_seed(seed)
        found = []
        for place, (inputs, outputs) in enumerate(self.sizes):
            weights = torch.randn((inputs, outputs), generator=drawn, dtype=torch.float64)
            # One input is the offset, which starts at 0.
            weights /= max(1, inputs - 1) ** 0.5
            weights[-1] = 0
            found.append(np.zeros(inputs * outputs) if place in zeros else weights.numpy().ravel())
        return np.concatenate(found)


def seed_from(randomness: Randomness) -> int:
    """A seed for what is random in training beside noise and samples; none of it hides anything."""
    return int(randomness.uniform(np.array([1 << 62]))[0])


def generator_of(seed: int, step: int) -> torch.Generator:
    """What is random in one step: the same for all its cases, however often it is asked."""
    return torch.Generator().manual_seed((seed ^ (step * 0x9E3779B97F4A7C15)) % (1 << 63))


class Tape:
    """One pass of a network, and what its weights' gradients are made of."""

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self.weights = [each.requires_grad_() for each in weights]
        self._inputs: list[list[Tensor]] = [[] for _ in weights]
        self._outputs: list[list[Tensor]] = [[] for _ in weights]

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.weights[0].device

    def linear(self, layer: int, values: Tensor) -> Tensor:
        """Weights and an offset: from shape (cases, ..., inputs - 1) to (cases, ..., outputs). A
        layer may be used several times.
        """
        weights = self.weights[layer]
        found = values @ weights[:-1] + weights[-1]
        ones = torch.ones_like(values[..., :1])
        self._note(layer, torch.cat([values, ones], dim=-1), found)
        return found

    def rows(self, layer: int, codes: Tensor) -> Tensor:
        """The row of each code, an embedding: from integers of shape (cases, ...) to (cases, ...,
        outputs).
        """
        weights = self.weights[layer]
        found = weights[codes]
        # One-hot, so that an embedding's gradient has the same factors as a matrix's.
        chosen = torch.nn.functional.one_hot(codes, len(weights)).to(weights.dtype)
        self._note(layer, chosen, found)
        return found

    def factors(self, losses: Tensor) -> list[Factors]:
        """The gradient of each case's loss, in factors of each layer; ``losses``: shape (cases,).

        The loss of a case must follow from what went in of that case alone.
        """
        # One backward pass returns the gradients at all outputs, of all cases at once.
        outputs = [each for layer in self._outputs for each in layer]
        found = torch.autograd.grad(losses.sum(), outputs, allow_unused=True)
        returned = iter(found)
        cases = len(losses)
        factors = []
        for layer, inputs in enumerate(self._inputs):
            rows, columns = self.weights[layer].shape
            # Uses of a layer stand side by side, as places of one case.
            left = [each.reshape(cases, -1, rows) for each in inputs]
            right = [
                _or_zeros(next(returned), each).reshape(cases, -1, columns)
                for each in self._outputs[layer]
            ]
            # A layer that was not used has a gradient of 0, not none.
            if not inputs:
                left = [torch.zeros((cases, 1, rows), device=self.device)]
                right = [torch.zeros((cases, 1, columns), device=self.device)]
            factors.append(Factors(torch.cat(left, 1), torch.cat(right, 1)))
        return factors

    def _note(
        self,
        layer: int,
        inputs: Tensor,
        outputs: Tensor,
    ) -> None:
        self._inputs[layer].append(inputs.detach())
        self._outputs[layer].append(outputs)


def _or_zeros(found: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros_like(like) if found is None else found


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
        # Both means start at 0: divided by what they have seen of their weight.
        mean = self._first / (1 - first**self.steps)
        square = self._second / (1 - second**self.steps)
        weights = weights - self.rate * mean / (np.sqrt(square) + 1e-12)
        # Only the last steps are averaged.
        if self.steps > self.times * (1 - self.averaged):
            self._sum += weights
            self._summed += 1
        return weights

    def average(self, weights: Floats) -> Floats:
        """The mean of the last weights; ``weights`` where no step was averaged."""
        return self._sum / self._summed if self._summed else weights


@frozen
class Training:
    """What is trained, and by which steps. ``title``: in words. ``delta``: at which it is told what
    the steps so far have cost, which the plan charged before the first one; 0: not at all.
    """

    title: str
    losses: Losses
    shapes: Shapes
    descent: Descent
    delta: float = 0.0
    max_cases: int = 1

    def run(
        self,
        kernel: Kernel,
        start: Floats,
        update: Callable[[Floats, Floats], Floats],
    ) -> Floats:
        """The weights (float64, shape (shapes.size,)) after all steps; ``update``: as of
        ``Kernel.steps``.
        """
        device = chosen_device()
        progress = _Progress(self)

        def gradient(weights: Floats, cases: Cases, step: int) -> list[Factors]:
            tape = Tape(self.shapes.split(weights, device))
            return tape.factors(self.losses(tape, cases, step))

        def updated(weights: Floats, mean: Floats) -> Floats:
            progress.step()
            return update(weights, mean)

        return kernel.steps(gradient, start, updated, self.descent)


@dataclass(slots=True)
class _Progress:
    """Says how far training is: in epochs, in time, and in what is spent."""

    training: Training
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
        descent = self.training.descent
        times, rate = descent.times, descent.rate
        left = (now - self.began) / self.done * (times - self.done)
        spent = ""
        if self.training.delta:
            size = self.training.shapes.size
            event = Repeated(times=self.done, event=descent.event(size, self.training.max_cases))
            epsilon = cost(event, self.training.delta).epsilon
            spent = f"epsilon {epsilon:.3g} of these steps so far, "
        say(
            f"training {self.training.title}: epoch {self.done * rate:.3g} of {times * rate:.3g} "
            f"(step {self.done:,} of {times:,}), {spent}about {left:,.0f} s left"
        )

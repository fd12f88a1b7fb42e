"""Networks of linear layers and how the papers train them: DP-SGD with each case's gradient clipped
over all layers, on Poisson batches, with floating-point Gaussian noise.

Of a linear layer, the gradient of one case is the sum over its places t of the outer product of
what came in at t and the loss's derivative of what went out at t. Norms and clipped sums follow
from these factors (Goodfellow 2015; Li et al. 2022); no case's gradient is ever written down. For
published forms only: what rests on a proof takes its gradient steps from the kernel.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from time import monotonic
from typing import Final

import numpy as np
import torch
from torch import Tensor

from cloakwork.base.arrays import Ints
from cloakwork.base.progress import say

_DECAY: Final = (0.9, 0.999)
_RMS_DECAY: Final = 0.99
_SMALL: Final = 1e-8
AT_ONCE: Final = 2048
"""Cases that are drawn at a time."""


@dataclass(frozen=True, slots=True)
class Layer:
    """``weight``: shape (outputs, inputs); ``bias``: shape (outputs,)."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def drawn(cls, inputs: int, outputs: int, generator: torch.Generator) -> "Layer":
        """Uniform within 1/sqrt(inputs)."""
        reach = 1 / math.sqrt(inputs)
        weight = torch.rand(outputs, inputs, generator=generator)
        bias = torch.rand(outputs, generator=generator)
        return cls((2 * weight - 1) * reach, (2 * bias - 1) * reach)

    def __call__(self, inputs: Tensor) -> Tensor:
        """What comes out."""
        return torch.nn.functional.linear(inputs, self.weight, self.bias)


def drawn_layers(sizes: Sequence[int], generator: torch.Generator) -> list[Layer]:
    """One after another, from ``sizes[0]`` inputs to ``sizes[-1]`` outputs."""
    return [Layer.drawn(inputs, outputs, generator) for inputs, outputs in pairwise(sizes)]


def tensors_of(layers: Sequence[Layer]) -> list[Tensor]:
    """Weights and biases in turn: what is trained."""
    return [tensor for layer in layers for tensor in (layer.weight, layer.bias)]


@dataclass(slots=True)
class LayerRecord:
    """Records what goes into and comes out of each layer, in the order in which layers are used:
    each of them once.
    """

    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)

    def through(self, layer: Layer, inputs: Tensor) -> Tensor:
        """What comes out of ``layer``; ``inputs``: shape (cases, inputs) or (cases, places,
        inputs).
        """
        outputs = layer(inputs)
        # So that a backward pass reaches it where nothing before it is trained.
        if not outputs.requires_grad:
            outputs.requires_grad_()
        self.inputs.append(inputs)
        self.outputs.append(outputs)
        return outputs

    def clipped_sum(
        self, losses: Tensor, norm: float, others: Sequence[Tensor] = ()
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The sum of all cases' gradients, each clipped to ``norm`` (L2, over all layers), as
        ``tensors_of`` has the layers; and the gradient of the sum of ``losses`` with respect to
        ``others``, which nothing clips.

        ``losses``: shape (cases,); each follows from its own case alone.
        """
        found = torch.autograd.grad(losses.sum(), [*self.outputs, *others])
        inputs = [_with_places(tensor).detach() for tensor in self.inputs]
        slopes = [_with_places(tensor) for tensor in found[: len(inputs)]]
        # The squared norm over all layers, by factors alone (Goodfellow 2015); 1 is for offsets.
        squares = torch.zeros(len(losses))
        for each, slope in zip(inputs, slopes, strict=True):
            products = each @ each.mT + 1
            squares += (products * (slope @ slope.mT)).sum(dim=(1, 2))
        # Norms are at most ``norm``; a gradient of zero stays zero.
        scales = (norm / squares.clamp(min=0).sqrt().clamp(min=1e-30)).clamp(max=1)
        sums = []
        # The clipped sum is a product of the same factors, scaled case by case.
        for each, slope in zip(inputs, slopes, strict=True):
            scaled = (slope * scales[:, None, None]).flatten(0, 1)
            sums += [scaled.T @ each.flatten(0, 1), scaled.sum(dim=0)]
        return sums, list(found[len(inputs) :])


def _with_places(tensor: Tensor) -> Tensor:
    return tensor[:, None] if tensor.dim() == 2 else tensor


@dataclass(frozen=True, slots=True)
class NoisyGradient:
    """Turns sums of clipped gradients into noisy means.

    ``multiplier``: deviation of the noise on each number, over ``norm``. ``batch``: cases in a
    batch on average, which sums are divided by.
    """

    norm: float
    multiplier: float
    batch: int
    generator: torch.Generator

    def means(self, sums: Sequence[Tensor]) -> list[Tensor]:
        """One draw of noise for each number."""
        deviation = self.norm * self.multiplier
        noisy = []
        for each in sums:
            noise = torch.randn(each.shape, generator=self.generator)
            noisy.append((each + noise * deviation) / self.batch)
        return noisy


@dataclass(slots=True)
class AdamSteps:
    """Kingma and Ba 2015, in place on ``tensors``; ``rate``: of learning."""

    tensors: list[Tensor]
    rate: float
    _means: list[Tensor] = field(init=False)
    _squares: list[Tensor] = field(init=False)
    _steps: int = 0

    def __post_init__(self) -> None:
        self._means = [torch.zeros_like(tensor) for tensor in self.tensors]
        self._squares = [torch.zeros_like(tensor) for tensor in self.tensors]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """One step against ``gradients``, one for each tensor."""
        self._steps += 1
        slow, slower = _DECAY
        # Bias of the running means, folded into the length and the spread.
        length = self.rate / (1 - slow**self._steps)
        spread = math.sqrt(1 - slower**self._steps)
        states = zip(self.tensors, self._means, self._squares, gradients, strict=True)
        for tensor, mean, square, gradient in states:
            mean.lerp_(gradient, 1 - slow)
            square.mul_(slower).addcmul_(gradient, gradient, value=1 - slower)
            tensor.addcdiv_(mean, (square.sqrt() / spread).add_(_SMALL), value=-length)


@dataclass(slots=True)
class RmspropSteps:
    """RMSprop (Hinton 2012), in place on ``tensors``; ``rate``: of learning."""

    tensors: list[Tensor]
    rate: float
    _squares: list[Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self._squares = [torch.zeros_like(tensor) for tensor in self.tensors]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """One step against ``gradients``, one for each tensor."""
        for tensor, square, gradient in zip(self.tensors, self._squares, gradients, strict=True):
            square.mul_(_RMS_DECAY).addcmul_(gradient, gradient, value=1 - _RMS_DECAY)
            tensor.addcdiv_(gradient, square.sqrt().add_(_SMALL), value=-self.rate)


@dataclass(frozen=True, slots=True)
class Batches:
    """Poisson samples of a log's cases. ``codes``: int64, shape (cases,): which variant each
    follows.
    """

    codes: Tensor
    rate: float
    steps: int
    generator: torch.Generator

    @classmethod
    def of(cls, cases: Ints, batch: int, epochs: int, generator: torch.Generator) -> "Batches":
        """Of so many cases of each variant, ``batch`` of them in a sample on average."""
        codes = torch.from_numpy(np.repeat(np.arange(len(cases)), cases))
        # Every case is drawn by itself, with the rate that makes a batch on average.
        rate = min(1.0, batch / len(codes))
        return cls(codes, rate, math.ceil(epochs / rate), generator)

    def drawn(self, title: str) -> Iterator[tuple[int, Tensor]]:
        """The number of each step and the codes of its sample; says how far it is."""
        reported = monotonic()
        for step in range(self.steps):
            if monotonic() - reported > 1:
                say(f"{title}: step {step:,} of {self.steps:,}")
                reported = monotonic()
            chosen = torch.rand(len(self.codes), generator=self.generator) < self.rate
            yield step, self.codes[chosen]


def one_hot(codes: Tensor, size: int) -> Tensor:
    """float32, shape (cases, size)."""
    vectors = torch.zeros(len(codes), size)
    vectors[torch.arange(len(codes)), codes] = 1
    return vectors


def count_codes(codes: Sequence[Tensor], size: int) -> Ints:
    """How often each of ``size`` codes is there: int64."""
    return torch.bincount(torch.cat(list(codes)), minlength=size).numpy().astype(np.int64)


def portions(cases: int) -> Iterator[int]:
    """How many cases to draw at a time, ``cases`` altogether."""
    for start in range(0, cases, AT_ONCE):
        yield min(AT_ONCE, cases - start)

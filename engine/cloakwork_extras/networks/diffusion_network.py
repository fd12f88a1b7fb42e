"""The denoiser of the published diffusion model, its training, and what it draws.

A one-hot variant x becomes sqrt(a) x + sqrt(1 - a) z, with z normal and a falling with the step of
the diffusion (Ho, Jain, Abbeel 2020: variances from ``LEAST`` to ``MOST``). The denoiser, twice as
wide as there are variants, adds an embedding of the step (sines and cosines, a linear layer, ReLU)
to its first layer, and finds z, in squared error. A draw starts from normal noise; which variant it
is, is its largest number.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch
from pydantic import JsonValue
from torch import Tensor

from cloakwork.base.arrays import Ints
from cloakwork.base.progress import say
from cloakwork_extras.networks.published import noise_multiplier
from cloakwork_extras.networks.published_training import (
    AdamSteps,
    Batches,
    Layer,
    LayerRecord,
    NoisyGradient,
    count_codes,
    one_hot,
    portions,
    tensors_of,
)

if TYPE_CHECKING:
    from cloakwork_extras.networks.published import DdpmPublishedParams

LEAST: Final = 1e-4
MOST: Final = 0.02

CLIP: Final = 1.0
"""L2 norm of a case's gradient; the paper does not print it."""

RATE: Final = 0.003
"""Of learning; the paper does not print it. With Adam, which divides by the size of the noise, it
decides with the number of steps how far noise alone moves the weights, and so what comes out where
epsilon is small.
"""

_WIDTH: Final = 2
_PERIODS: Final = 10_000.0

Through = Callable[[Layer, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Denoiser:
    """``layers``: in, of the step, in the middle, out. ``embedding``: shape (steps, width)."""

    layers: list[Layer]
    embedding: Tensor

    @classmethod
    def drawn(cls, size: int, steps: int, generator: torch.Generator) -> "Denoiser":
        """For ``size`` variants."""
        width = _WIDTH * size
        shapes = ((size, width), (width, width), (width, width), (width, size))
        layers = [Layer.drawn(inputs, outputs, generator) for inputs, outputs in shapes]
        return cls(layers, _embedding(steps, width))

    def __call__(self, values: Tensor, steps: Tensor, through: Through) -> Tensor:
        """The noise found in ``values`` (shape (cases, variants)); ``steps``: int64, shape
        (cases,), or (1,) where all are at one step.
        """
        first, of_step, middle, last = self.layers
        known = torch.relu(through(first, values))
        when = torch.relu(through(of_step, self.embedding[steps]))
        return through(last, torch.relu(through(middle, known + when)))


def _embedding(steps: int, width: int) -> Tensor:
    """Sines at even places and cosines at odd ones, of geometric periods (Vaswani et al. 2017)."""
    places = torch.arange(0, width, 2)
    # Periods from 2 pi up to ``_PERIODS`` of them.
    angles = torch.arange(steps)[:, None] * torch.exp(-math.log(_PERIODS) * places / width)
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[:, :width]


def train_and_draw(
    params: "DdpmPublishedParams", cases: Ints, seed: int
) -> tuple[Ints, dict[str, JsonValue]]:
    """As many cases as there are, by variant (int64), and how much noise there was."""
    generator = torch.Generator().manual_seed(seed)
    batches = Batches.of(cases, params.batch, params.epochs, generator)
    batch = min(params.batch, len(batches.codes))
    multiplier = noise_multiplier(batches.rate, batches.steps, params.published, params.delta)
    noise = NoisyGradient(CLIP, multiplier, batch, generator)
    variances = torch.linspace(LEAST, MOST, params.steps)
    denoiser = _train(
        Denoiser.drawn(len(cases), params.steps, generator), variances, batches, noise
    )
    drawn = []
    for portion in portions(len(batches.codes)):
        drawn.append(_draw(denoiser, variances, (portion, len(cases)), generator))
    figures: dict[str, JsonValue] = {
        "steps of the training": batches.steps,
        "noise multiplier": multiplier,
    }
    return count_codes(drawn, len(cases)), figures


def _train(
    denoiser: Denoiser, variances: Tensor, batches: Batches, noise: NoisyGradient
) -> Denoiser:
    """With noise; each case at a step of the diffusion of its own."""
    # How much of a variant is left after so many steps.
    kept = torch.cumprod(1 - variances, dim=0)
    random, size = batches.generator, denoiser.layers[0].weight.shape[1]
    descent = AdamSteps(tensors_of(denoiser.layers), RATE)
    for _, codes in batches.drawn("training the denoiser"):
        steps = torch.randint(len(variances), codes.shape, generator=random)
        share = kept[steps][:, None]
        added = torch.randn(len(codes), size, generator=random)
        # A variant at its step: its share of the signal, the rest noise.
        values = share.sqrt() * one_hot(codes, size) + (1 - share).sqrt() * added
        record = LayerRecord()
        found = denoiser(values, steps, record.through)
        losses = ((found - added) ** 2).mean(dim=1)
        sums, _ = record.clipped_sum(losses, noise.norm)
        descent.step(noise.means(sums))
    return denoiser


@torch.no_grad()
def _draw(
    denoiser: Denoiser, variances: Tensor, shape: tuple[int, int], random: torch.Generator
) -> Tensor:
    """Codes of variants: int64, shape (cases,)."""
    kept = torch.cumprod(1 - variances, dim=0)
    values = torch.randn(shape, generator=random)
    for step in reversed(range(len(variances))):
        if step % 10 == 0:
            say(f"drawing {shape[0]:,} cases: {step} steps to go")
        found = denoiser(values, torch.tensor([step]), _applied)
        # The noise found is taken out, step by step (Ho, Jain, Abbeel 2020, algorithm 2).
        share = variances[step] / (1 - kept[step]).sqrt()
        values = (values - share * found) / (1 - variances[step]).sqrt()
        # Noise is put back at all steps but the last.
        if step > 0:
            values += variances[step].sqrt() * torch.randn(shape, generator=random)
    return values.argmax(dim=1)


def _applied(layer: Layer, inputs: Tensor) -> Tensor:
    return layer(inputs)

"""The networks of TraVaG as published, their training, and what they draw.

Encoder and decoder mirror each other: variants, (variants + code) / 2 and code numbers wide, with
tanh between, a sigmoid at the end and binary cross-entropy. The generator maps code numbers of
normal noise to a code, by three linear layers with layer norms and tanh, the first two added to
what went in. The discriminator (two thirds and one third of the variants wide, leaky ReLU) scores
variants, with its weights held within ``WEIGHTS`` (Arjovsky, Chintala, Bottou 2017). A case's
gradient is that of its own score less that of one drawn case, which belongs to it: the clip is on
both.

The decoder is clipped case by case, as the papers say. The notebook for sepsis clips the mean
gradient of a batch instead, and divides the noise by the batch: that bounds no case.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch
from pydantic import JsonValue
from torch import Tensor
from torch.nn import functional

from cloakwork.base.arrays import Ints
from cloakwork_extras.networks.published import noise_multiplier
from cloakwork_extras.networks.published_training import (
    AdamSteps,
    Batches,
    Layer,
    LayerRecord,
    NoisyGradient,
    RmspropSteps,
    count_codes,
    drawn_layers,
    one_hot,
    portions,
    tensors_of,
)

if TYPE_CHECKING:
    from cloakwork_extras.networks.published import TravagPublishedParams

RATE: Final = 0.005
"""Of learning; the encoder's is divided by the cases in a batch."""

DECODER_CLIP: Final = 0.012
DISCRIMINATOR_CLIP: Final = 0.022
"""L2 norms of a case's gradient. The papers read them off trainings without noise, which is a use
of the data that nothing charges for.
"""

WEIGHTS: Final = 0.01
ROUNDS: Final = 15
"""Steps of the discriminator for each of the generator's."""

_LEAK: Final = 0.2


@dataclass(frozen=True, slots=True)
class Autoencoder:
    """``encoder`` and ``decoder``: two layers each."""

    encoder: list[Layer]
    decoder: list[Layer]

    def codes(self, variants: Tensor) -> Tensor:
        """Of ``variants`` (int64, shape (cases,)): shape (cases, code)."""
        first, second = self.encoder
        # The first layer on one-hot vectors is a look-up.
        hidden = torch.tanh(first.weight.T[variants] + first.bias)
        return torch.tanh(second(hidden))

    def logits(self, codes: Tensor, record: LayerRecord | None = None) -> Tensor:
        """Before the sigmoid: shape (cases, variants)."""
        first, second = self.decoder
        if record is None:
            return second(torch.tanh(first(codes)))
        return record.through(second, torch.tanh(record.through(first, codes)))


@dataclass(frozen=True, slots=True)
class Generator:
    """Three linear maps without bias, each before a layer norm; the last makes a code."""

    maps: list[Tensor]
    gains: list[Tensor]
    shifts: list[Tensor]

    @classmethod
    def drawn(cls, code: int, generator: torch.Generator) -> "Generator":
        """Layer norms that change nothing but the scale."""
        maps = [Layer.drawn(code, code, generator).weight for _ in range(3)]
        gains, shifts = [[fill(code) for _ in maps] for fill in (torch.ones, torch.zeros)]
        for tensor in (*maps, *gains, *shifts):
            tensor.requires_grad_()
        return cls(maps, gains, shifts)

    @property
    def tensors(self) -> list[Tensor]:
        """What is trained."""
        return [*self.maps, *self.gains, *self.shifts]

    def __call__(self, noise: Tensor) -> Tensor:
        """Codes, shape (cases, code), of normal ``noise`` of that shape."""
        values = noise
        for place, weight in enumerate(self.maps):
            straight = functional.linear(values, weight)
            normed = functional.layer_norm(
                straight, straight.shape[-1:], self.gains[place], self.shifts[place]
            )
            made = torch.tanh(normed)
            # The last map makes the code by itself; the others are added to what went in.
            values = made if place == 2 else made + values
        return values


def train_and_draw(
    params: "TravagPublishedParams", cases: Ints, seed: int
) -> tuple[Ints, dict[str, JsonValue]]:
    """As many cases as there are, by variant (int64), and how much noise there was."""
    generator = torch.Generator().manual_seed(seed)
    size = len(cases)

    def batches_of(epochs: int) -> Batches:
        return Batches.of(cases, params.batch, epochs, generator)

    # As published, each of the two networks is given the reported epsilon in full.
    def noise_on(batches: Batches, norm: float) -> NoisyGradient:
        multiplier = noise_multiplier(batches.rate, batches.steps, params.published, params.delta)
        return NoisyGradient(norm, multiplier, min(params.batch, len(batches.codes)), generator)

    of_codes, of_draws = batches_of(params.epochs), batches_of(params.adversarial_epochs)
    on_decoder = noise_on(of_codes, DECODER_CLIP)
    on_discriminator = noise_on(of_draws, DISCRIMINATOR_CLIP)
    autoencoder = _train_autoencoder(size, params.code, of_codes, on_decoder)
    made = _train_generator(autoencoder, size, params.code, of_draws, on_discriminator)
    drawn = []
    # A code is decoded to its likeliest variant.
    with torch.no_grad():
        for portion in portions(len(of_codes.codes)):
            codes = made(torch.randn(portion, params.code, generator=generator))
            drawn.append(autoencoder.logits(codes).argmax(dim=1))
    figures: dict[str, JsonValue] = {
        "steps of the decoder": of_codes.steps,
        "noise multiplier of the decoder": on_decoder.multiplier,
        "steps of the discriminator": of_draws.steps,
        "noise multiplier of the discriminator": on_discriminator.multiplier,
    }
    return count_codes(drawn, size), figures


def _train_autoencoder(size: int, code: int, batches: Batches, noise: NoisyGradient) -> Autoencoder:
    """The decoder with noise, the encoder without."""
    middle = (size + code) // 2
    encoder = drawn_layers((size, middle, code), batches.generator)
    decoder = drawn_layers((code, middle, size), batches.generator)
    autoencoder = Autoencoder(encoder, decoder)
    unprotected = tensors_of(encoder)
    for tensor in unprotected:
        tensor.requires_grad_()
    encoder_steps = AdamSteps(unprotected, RATE / noise.batch)
    decoder_steps = AdamSteps(tensors_of(decoder), RATE)
    for _, codes in batches.drawn("training the autoencoder"):
        record = LayerRecord()
        logits = autoencoder.logits(autoencoder.codes(codes), record)
        targets = one_hot(codes, size)
        losses = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        # The decoder's gradient is clipped and noised; the encoder's is taken raw, as published.
        sums, raw = record.clipped_sum(losses.mean(dim=1), noise.norm, unprotected)
        encoder_steps.step(raw)
        decoder_steps.step(noise.means(sums))
    return autoencoder


def _train_generator(
    autoencoder: Autoencoder, size: int, code: int, batches: Batches, noise: NoisyGradient
) -> Generator:
    """Against a discriminator that is trained with noise."""
    random = batches.generator
    generator = Generator.drawn(code, random)
    widths = (size, max(1, 2 * size // 3), max(1, size // 3), 1)
    discriminator = drawn_layers(widths, random)
    discriminator_steps = RmspropSteps(tensors_of(discriminator), RATE)
    generator_steps = RmspropSteps(generator.tensors, RATE)

    def drawn(count: int) -> Tensor:
        return torch.sigmoid(
            autoencoder.logits(generator(torch.randn(count, code, generator=random)))
        )

    for step, codes in batches.drawn("training the adversarial network"):
        # One generated case belongs to each real one: the clip is on their difference.
        with torch.no_grad():
            both = torch.stack([one_hot(codes, size), drawn(len(codes))], dim=1)
        record = LayerRecord()
        scores = _scores(discriminator, both, record.through)
        sums, _ = record.clipped_sum(scores[:, 1] - scores[:, 0], noise.norm)
        discriminator_steps.step(noise.means(sums))
        # Weights held within bounds make the score a Wasserstein critic.
        for tensor in discriminator_steps.tensors:
            tensor.clamp_(-WEIGHTS, WEIGHTS)
        # The generator learns every few rounds, from the discriminator alone.
        if step % ROUNDS == 0:
            loss = -_scores(discriminator, drawn(noise.batch), _applied).mean()
            generator_steps.step(torch.autograd.grad(loss, generator.tensors))
    return generator


def _scores(
    discriminator: list[Layer], variants: Tensor, through: Callable[[Layer, Tensor], Tensor]
) -> Tensor:
    """Of ``variants`` (shape (..., variants)): shape (...)."""
    values = variants
    for place, layer in enumerate(discriminator):
        values = through(layer, values)
        if place < len(discriminator) - 1:
            values = functional.leaky_relu(values, _LEAK)
    return values[..., 0]


def _applied(layer: Layer, inputs: Tensor) -> Tensor:
    return layer(inputs)

"""Networks of linear layers and how the papers train them: DP-SGD with each case's gradient clipped
over all layers, on Poisson batches, with floating-point Gaussian noise.

Of a linear layer, the gradient of one case is the sum over its places t of the outer product of
what came in at t and the loss's derivative of what went out at t. Norms and clipped sums follow
from these factors (Goodfellow 2015; Li et al. 2022); no case's gradient is ever written down. For
published forms only: what rests on a proof takes its gradient steps from the kernel.

**TraVaG.** Encoder and decoder mirror each other: variants, (variants + code) / 2 and code numbers
wide, with tanh between, a sigmoid at the end and binary cross-entropy. The generator maps code
numbers of normal noise to a code, by three linear layers with layer norms and tanh, the first two
added to what went in. The discriminator (two thirds and one third of the variants wide, leaky ReLU)
scores variants, with its weights held within ``WEIGHTS`` (Arjovsky, Chintala, Bottou 2017). A
case's gradient is that of its own score less that of one drawn case, which belongs to it: the clip
is on both.

The decoder is clipped case by case, as the papers say. The notebook for sepsis clips the mean
gradient of a batch instead, and divides the noise by the batch: that bounds no case.

**Diffusion.** A one-hot variant x becomes sqrt(a) x + sqrt(1 - a) z, with z normal and a falling
with the step of the diffusion (Ho, Jain, Abbeel 2020: variances from ``LEAST_VARIANCE`` to
``MOST_VARIANCE``). The denoiser, twice as wide as there are variants, adds an embedding of the step
(sines and cosines, a linear layer, ReLU) to its first layer, and finds z, in squared error. A draw
starts from normal noise; which variant it is, is its largest number.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from time import monotonic
from typing import Final

import numpy as np
import torch
from pydantic import JsonValue
from torch import Tensor
from torch.nn import functional

from cloakwork.base.arrays import Ints
from cloakwork.base.progress import say
from cloakwork_extras.networks.params import DdpmPublishedParams, TravagPublishedParams
from cloakwork_extras.networks.steps import noise_multiplier

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
    def drawn(
        cls,
        inputs: int,
        outputs: int,
        generator: torch.Generator,
    ) -> "Layer":
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


Through = Callable[[Layer, Tensor], Tensor]
"""What takes values through a layer: ``LayerRecord.through``, or the layer alone."""


def applied(layer: Layer, inputs: Tensor) -> Tensor:
    """What comes out, and nothing is recorded."""
    return layer(inputs)


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
        self,
        losses: Tensor,
        norm: float,
        others: Sequence[Tensor] = (),
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
    def of(
        cls,
        cases: Ints,
        batch: int,
        epochs: int,
        generator: torch.Generator,
    ) -> "Batches":
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
                straight,
                straight.shape[-1:],
                self.gains[place],
                self.shifts[place],
            )
            made = torch.tanh(normed)
            # The last map makes the code by itself; the others are added to what went in.
            values = made if place == 2 else made + values
        return values


def draw_by_travag(
    params: TravagPublishedParams,
    cases: Ints,
    seed: int,
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


def _train_autoencoder(
    size: int,
    code: int,
    batches: Batches,
    noise: NoisyGradient,
) -> Autoencoder:
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
    autoencoder: Autoencoder,
    size: int,
    code: int,
    batches: Batches,
    noise: NoisyGradient,
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
            loss = -_scores(discriminator, drawn(noise.batch), applied).mean()
            generator_steps.step(torch.autograd.grad(loss, generator.tensors))
    return generator


def _scores(discriminator: list[Layer], variants: Tensor, through: Through) -> Tensor:
    """Of ``variants`` (shape (..., variants)): shape (...)."""
    values = variants
    for place, layer in enumerate(discriminator):
        values = through(layer, values)
        if place < len(discriminator) - 1:
            values = functional.leaky_relu(values, _LEAK)
    return values[..., 0]


LEAST_VARIANCE: Final = 1e-4
MOST_VARIANCE: Final = 0.02

CLIP: Final = 1.0
"""L2 norm of a case's gradient; the paper does not print it."""

DIFFUSION_RATE: Final = 0.003
"""Of learning; the paper does not print it. With Adam, which divides by the size of the noise, it
decides with the number of steps how far noise alone moves the weights, and so what comes out where
epsilon is small.
"""

_WIDTH: Final = 2
_PERIODS: Final = 10_000.0


@dataclass(frozen=True, slots=True)
class Denoiser:
    """``layers``: in, of the step, in the middle, out. ``embedding``: shape (steps, width)."""

    layers: list[Layer]
    embedding: Tensor

    @classmethod
    def drawn(
        cls,
        size: int,
        steps: int,
        generator: torch.Generator,
    ) -> "Denoiser":
        """For ``size`` variants."""
        width = _WIDTH * size
        shapes = ((size, width), (width, width), (width, width), (width, size))
        layers = [Layer.drawn(inputs, outputs, generator) for inputs, outputs in shapes]
        return cls(layers, _embedding(steps, width))

    def __call__(
        self,
        values: Tensor,
        steps: Tensor,
        through: Through,
    ) -> Tensor:
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


def draw_by_diffusion(
    params: DdpmPublishedParams,
    cases: Ints,
    seed: int,
) -> tuple[Ints, dict[str, JsonValue]]:
    """As many cases as there are, by variant (int64), and how much noise there was."""
    generator = torch.Generator().manual_seed(seed)
    batches = Batches.of(cases, params.batch, params.epochs, generator)
    batch = min(params.batch, len(batches.codes))
    multiplier = noise_multiplier(batches.rate, batches.steps, params.published, params.delta)
    noise = NoisyGradient(CLIP, multiplier, batch, generator)
    variances = torch.linspace(LEAST_VARIANCE, MOST_VARIANCE, params.steps)
    denoiser = _train_denoiser(
        Denoiser.drawn(len(cases), params.steps, generator),
        variances,
        batches,
        noise,
    )
    drawn = []
    for portion in portions(len(batches.codes)):
        drawn.append(_drawn_codes(denoiser, variances, (portion, len(cases)), generator))
    figures: dict[str, JsonValue] = {
        "steps of the training": batches.steps,
        "noise multiplier": multiplier,
    }
    return count_codes(drawn, len(cases)), figures


def _train_denoiser(
    denoiser: Denoiser,
    variances: Tensor,
    batches: Batches,
    noise: NoisyGradient,
) -> Denoiser:
    """With noise; each case at a step of the diffusion of its own."""
    # How much of a variant is left after so many steps.
    kept = torch.cumprod(1 - variances, dim=0)
    random, size = batches.generator, denoiser.layers[0].weight.shape[1]
    descent = AdamSteps(tensors_of(denoiser.layers), DIFFUSION_RATE)
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
def _drawn_codes(
    denoiser: Denoiser,
    variances: Tensor,
    shape: tuple[int, int],
    random: torch.Generator,
) -> Tensor:
    """Codes of variants: int64, shape (cases,)."""
    kept = torch.cumprod(1 - variances, dim=0)
    values = torch.randn(shape, generator=random)
    for step in reversed(range(len(variances))):
        if step % 10 == 0:
            say(f"drawing {shape[0]:,} cases: {step} steps to go")
        found = denoiser(values, torch.tensor([step]), applied)
        # The noise found is taken out, step by step (Ho, Jain, Abbeel 2020, algorithm 2).
        share = variances[step] / (1 - kept[step]).sqrt()
        values = (values - share * found) / (1 - variances[step]).sqrt()
        # Noise is put back at all steps but the last.
        if step > 0:
            values += variances[step].sqrt() * torch.randn(shape, generator=random)
    return values.argmax(dim=1)

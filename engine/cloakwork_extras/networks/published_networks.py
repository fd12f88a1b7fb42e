"""Networks as the papers train them: DP-SGD on Poisson batches, each case's gradient clipped over
all layers, with floating-point Gaussian noise, by opacus and torch. For published forms only: what
rests on a proof takes its gradient steps from the kernel.

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
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final

import numpy as np
import torch
from opacus.grad_sample import GradSampleHooksFastGradientClipping
from opacus.optimizers import DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping
from pydantic import JsonValue
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Adam, Optimizer, RMSprop

from cloakwork.base.arrays import Ints
from cloakwork.base.frozen import frozen
from cloakwork.base.progress import say
from cloakwork_extras.networks.params import DdpmPublishedParams, TravagPublishedParams
from cloakwork_extras.networks.steps import noise_multiplier

AT_ONCE: Final = 2048
"""Cases that are drawn at a time."""


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """All that is drawn within follows from ``seed``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


class NoisySteps:
    """Steps of ``optimizer`` on a module's weights by DP-SGD, with ghost clipping (Li et al. 2022):
    no case's gradient is ever written down.

    ``norm``: of a case's gradient, L2, over all layers. ``multiplier``: deviation of the noise on
    each number, over ``norm``. ``batch``: cases in a batch on average, by which sums are divided.
    """

    def __init__(
        self, module: nn.Module, optimizer: Optimizer, norm: float, multiplier: float, batch: int
    ) -> None:
        self._hooks: Any = GradSampleHooksFastGradientClipping(
            module, loss_reduction="sum", max_grad_norm=norm
        )
        self._hooks.disable_hooks()
        self._optimizer: Any = DPOptimizerFastGradientClipping(
            optimizer,
            noise_multiplier=multiplier,
            max_grad_norm=norm,
            expected_batch_size=batch,
        )

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """What goes through the module's layers is kept for the next step."""
        self._hooks.enable_hooks()
        # A layer that is given data alone has no gradient to pass on, which torch warns of.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Full backward hook is firing")
            yield
        self._hooks.disable_hooks()

    def step(self, losses: Tensor) -> None:
        """One step; ``losses``: shape (cases,), recorded, each of its own case alone."""
        with self.recorded():
            DPTensorFastGradientClipping(self._hooks, self._optimizer, losses, "sum").backward()
        self._optimizer.step()


@frozen
class Batches:
    """Poisson samples of a log's cases. ``codes``: int64, shape (cases,): which variant each
    follows.
    """

    codes: Tensor
    rate: float
    steps: int

    @classmethod
    def of(cls, cases: Ints, batch: int, epochs: int) -> "Batches":
        """Of so many cases of each variant, ``batch`` of them in a sample on average."""
        codes = torch.tensor(np.repeat(np.arange(len(cases)), cases))
        # Every case is drawn by itself, with the rate that makes a batch on average.
        rate = min(1.0, batch / len(codes))
        return cls(codes, rate, math.ceil(epochs / rate))

    def drawn(self, title: str) -> Iterator[tuple[int, Tensor]]:
        """The number of each step and the codes of its sample; says how far it is."""
        reported = monotonic()
        for step in range(self.steps):
            if monotonic() - reported > 1:
                say(f"{title}: step {step:,} of {self.steps:,}")
                reported = monotonic()
            yield step, self.codes[torch.rand(len(self.codes)) < self.rate]


def one_hot(codes: Tensor, size: int) -> Tensor:
    """float32, shape (cases, size)."""
    return functional.one_hot(codes, size).float()


def count_codes(codes: Sequence[Tensor], size: int) -> Ints:
    """How often each of ``size`` codes is there: int64."""
    counts = torch.bincount(torch.cat(list(codes)), minlength=size)
    return counts.numpy().astype(np.int64)


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


class Autoencoder(nn.Module):
    """``encoder`` makes codes of one-hot variants, ``decoder`` numbers before the sigmoid."""

    def __init__(self, size: int, code: int) -> None:
        super().__init__()
        middle = (size + code) // 2
        self.encoder = nn.Sequential(
            nn.Linear(size, middle), nn.Tanh(), nn.Linear(middle, code), nn.Tanh()
        )
        self.decoder = nn.Sequential(nn.Linear(code, middle), nn.Tanh(), nn.Linear(middle, size))


class Generator(nn.Module):
    """Codes of normal noise, both of shape (cases, code)."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(code, code, bias=False), nn.LayerNorm(code), nn.Tanh())
            for _ in range(3)
        )

    def forward(self, noise: Tensor) -> Tensor:
        """The last block makes the code by itself; the others are added to what went in."""
        first, second, last = self.blocks
        values = noise + first(noise)
        made: Tensor = last(values + second(values))
        return made


def draw_by_travag(
    params: TravagPublishedParams,
    cases: Ints,
    seed: int,
) -> tuple[Ints, dict[str, JsonValue]]:
    """As many cases as there are, by variant (int64), and how much noise there was."""

    # As published, each of the two networks is given the reported epsilon in full.
    def noise_of(batches: Batches) -> float:
        return noise_multiplier(batches.rate, batches.steps, params.published, params.delta)

    size = len(cases)
    with seeded(seed):
        of_codes = Batches.of(cases, params.batch, params.epochs)
        of_draws = Batches.of(cases, params.batch, params.adversarial_epochs)
        batch = min(params.batch, len(of_codes.codes))
        autoencoder = Autoencoder(size, params.code)
        train_autoencoder(autoencoder, size, of_codes, noise_of(of_codes), batch)
        made = train_generator(autoencoder, size, params.code, of_draws, noise_of(of_draws), batch)
        drawn = []
        # A code is decoded to its likeliest variant.
        with torch.no_grad():
            for portion in portions(len(of_codes.codes)):
                codes = made(torch.randn(portion, params.code))
                drawn.append(autoencoder.decoder(codes).argmax(dim=1))
    figures: dict[str, JsonValue] = {
        "steps of the decoder": of_codes.steps,
        "noise multiplier of the decoder": noise_of(of_codes),
        "steps of the discriminator": of_draws.steps,
        "noise multiplier of the discriminator": noise_of(of_draws),
    }
    return count_codes(drawn, size), figures


def train_autoencoder(
    autoencoder: Autoencoder, size: int, batches: Batches, multiplier: float, batch: int
) -> None:
    """The decoder with noise, the encoder without."""
    encoder, decoder = autoencoder.encoder, autoencoder.decoder
    unprotected = list(encoder.parameters())
    encoder_steps = Adam(unprotected, RATE / batch)
    decoder_steps = NoisySteps(
        decoder, Adam(decoder.parameters(), RATE), DECODER_CLIP, multiplier, batch
    )
    for _, codes in batches.drawn("training the autoencoder"):
        targets = one_hot(codes, size)
        with decoder_steps.recorded():
            logits = decoder(encoder(targets))
        losses = functional.binary_cross_entropy_with_logits(
            logits, targets, reduction="none"
        ).mean(dim=1)
        # The decoder's gradient is clipped and noised; the encoder's is taken raw, as published.
        raw = torch.autograd.grad(losses.sum(), unprotected, retain_graph=True)
        decoder_steps.step(losses)
        for weights, gradient in zip(unprotected, raw, strict=True):
            weights.grad = gradient
        encoder_steps.step()
    autoencoder.requires_grad_(False)


def discriminating(size: int) -> nn.Sequential:
    """From variants, shape (..., size), to scores, shape (..., 1)."""
    wide, narrow = max(1, 2 * size // 3), max(1, size // 3)
    return nn.Sequential(
        nn.Linear(size, wide),
        nn.LeakyReLU(_LEAK),
        nn.Linear(wide, narrow),
        nn.LeakyReLU(_LEAK),
        nn.Linear(narrow, 1),
    )


def train_generator(
    autoencoder: Autoencoder,
    size: int,
    code: int,
    batches: Batches,
    multiplier: float,
    batch: int,
) -> Generator:
    """Against a discriminator that is trained with noise."""
    generator, discriminator = Generator(code), discriminating(size)
    generator_steps = RMSprop(generator.parameters(), RATE)
    discriminator_steps = NoisySteps(
        discriminator,
        RMSprop(discriminator.parameters(), RATE),
        DISCRIMINATOR_CLIP,
        multiplier,
        batch,
    )

    def drawn(count: int) -> Tensor:
        codes = generator(torch.randn(count, code))
        return torch.sigmoid(autoencoder.decoder(codes))

    for step, codes in batches.drawn("training the adversarial network"):
        # One generated case belongs to each real one: the clip is on their difference.
        with torch.no_grad():
            both = torch.stack([one_hot(codes, size), drawn(len(codes))], dim=1)
        with discriminator_steps.recorded():
            scores = discriminator(both)[..., 0]
        discriminator_steps.step(scores[:, 1] - scores[:, 0])
        # Weights held within bounds make the score a Wasserstein critic.
        with torch.no_grad():
            for weights in discriminator.parameters():
                weights.clamp_(-WEIGHTS, WEIGHTS)
        # The generator learns every few rounds, from the discriminator alone.
        if step % ROUNDS == 0:
            generator_steps.zero_grad()
            (-discriminator(drawn(batch))).mean().backward()
            generator_steps.step()
    return generator.requires_grad_(False)


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


class Denoiser(nn.Module):
    """Finds the noise in values, shape (cases, variants). ``embedding``: shape (steps, width)."""

    def __init__(self, size: int, steps: int) -> None:
        super().__init__()
        width = _WIDTH * size
        self.first, self.of_step = nn.Linear(size, width), nn.Linear(width, width)
        self.middle, self.last = nn.Linear(width, width), nn.Linear(width, size)
        self.embedding = embedding(steps, width)

    def forward(self, values: Tensor, steps: Tensor) -> Tensor:
        """``steps``: int64, shape (cases,), or (1,) where all are at one step."""
        known = torch.relu(self.first(values))
        when = torch.relu(self.of_step(self.embedding[steps]))
        found: Tensor = self.last(torch.relu(self.middle(known + when)))
        return found


def embedding(steps: int, width: int) -> Tensor:
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
    size = len(cases)
    with seeded(seed):
        batches = Batches.of(cases, params.batch, params.epochs)
        batch = min(params.batch, len(batches.codes))
        multiplier = noise_multiplier(batches.rate, batches.steps, params.published, params.delta)
        denoiser = Denoiser(size, params.steps)
        train_denoiser(denoiser, size, batches, multiplier, batch)
        shapes = [(portion, size) for portion in portions(len(batches.codes))]
        drawn = [drawn_codes(denoiser, shape) for shape in shapes]
    figures: dict[str, JsonValue] = {
        "steps of the training": batches.steps,
        "noise multiplier": multiplier,
    }
    return count_codes(drawn, size), figures


def _variances(denoiser: Denoiser) -> tuple[Tensor, Tensor]:
    """The noise that each step of the diffusion adds, and how much of a variant is left after."""
    variances = torch.linspace(LEAST_VARIANCE, MOST_VARIANCE, len(denoiser.embedding))
    return variances, torch.cumprod(1 - variances, dim=0)


def train_denoiser(
    denoiser: Denoiser, size: int, batches: Batches, multiplier: float, batch: int
) -> None:
    """With noise; each case at a step of the diffusion of its own."""
    _, kept = _variances(denoiser)
    descent = NoisySteps(
        denoiser, Adam(denoiser.parameters(), DIFFUSION_RATE), CLIP, multiplier, batch
    )
    for _, codes in batches.drawn("training the denoiser"):
        steps = torch.randint(len(kept), codes.shape)
        share = kept[steps][:, None]
        added = torch.randn(len(codes), size)
        # A variant at its step: its share of the signal, the rest noise.
        values = share.sqrt() * one_hot(codes, size) + (1 - share).sqrt() * added
        with descent.recorded():
            found = denoiser(values, steps)
        descent.step(((found - added) ** 2).mean(dim=1))


@torch.no_grad()
def drawn_codes(denoiser: Denoiser, shape: tuple[int, int]) -> Tensor:
    """Codes of variants: int64, shape (cases,)."""
    variances, kept = _variances(denoiser)
    values = torch.randn(shape)
    for step in reversed(range(len(variances))):
        if step % 10 == 0:
            say(f"drawing {shape[0]:,} cases: {step} steps to go")
        found = denoiser(values, torch.tensor([step]))
        # The noise found is taken out, step by step (Ho, Jain, Abbeel 2020, algorithm 2).
        share = variances[step] / (1 - kept[step]).sqrt()
        values = (values - share * found) / (1 - variances[step]).sqrt()
        # Noise is put back at all steps but the last.
        if step > 0:
            values += variances[step].sqrt() * torch.randn(shape)
    return values.argmax(dim=1)

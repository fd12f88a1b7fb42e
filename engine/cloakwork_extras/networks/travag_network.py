"""The networks of ``variants/travag``, and how they are trained."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus

from cloakwork.base.arrays import Floats
from cloakwork.base.frozen import frozen
from cloakwork.kernel import Cases, Kernel
from cloakwork_extras.networks.one_hot import (
    Domain,
    OneHotParams,
    autoencoder_sizes,
    code_size,
    descent_of,
    discriminator_sizes,
    padded,
)
from cloakwork_extras.networks.steps import chosen_device
from cloakwork_extras.networks.training import Adam, Shapes, Tape, Training, seed_from

FAKES: Final = 256
"""Generated cases in a step: a fixed number."""

GENERATED: Final = 4096
"""Codes whose decoded shares are averaged."""

_UNUSED: Final = -30.0
"""The logarithm of the share of a place without a variant."""


def trained_shares(params: OneHotParams, domain: Domain, kernel: Kernel) -> Floats:
    """The mean share of each variant in decoded codes: float64, shape (domain.size,)."""
    decoder = _trained_decoder(params, domain, kernel)
    found = _trained_generator(params, domain, decoder, kernel).mean_shares(GENERATED)
    shares: Floats = found[: domain.size] / found[: domain.size].sum()
    return shares


def _trained_decoder(params: OneHotParams, domain: Domain, kernel: Kernel) -> "Decoder":
    """The first phase: encoder and decoder together, on cross-entropy."""
    shapes = Shapes(autoencoder_sizes(params))

    def losses(tape: Tape, cases: Cases, step: int) -> Tensor:
        del step
        codes = torch.as_tensor(domain.places(cases), device=tape.device)
        # A case outside of the domain goes through as any other, and counts for nothing.
        inside = codes.clamp(min=0)
        code = torch.tanh(tape.linear(1, torch.tanh(tape.rows(0, inside))))
        logits = tape.linear(3, torch.tanh(tape.linear(2, code)))
        found = cross_entropy(logits, inside, reduction="none")
        return torch.where(codes >= 0, found, torch.zeros_like(found))

    update = Adam(rate=params.learning_rate, times=params.steps)
    start = _start(params, shapes, domain, seed_from(kernel.randomness))
    training = Training(
        title="encoder and decoder",
        losses=losses,
        shapes=shapes,
        descent=descent_of(params, domain),
        delta=params.delta,
        max_cases=params.max_cases,
    )
    weights = training.run(kernel, start, update)
    # The encoder's weights come first and are of no use any more.
    return Decoder(*shapes.split(update.average(weights), chosen_device())[2:])


def _start(
    params: OneHotParams,
    shapes: Shapes,
    domain: Domain,
    seed: int,
) -> Floats:
    """Weights of a decoder that decodes every code to the shares that are known."""
    # The last row, the offset, is the logarithm of the shares; all else there is zero.
    start = _with_rows(shapes, shapes.initial(seed, zeros=(3,)))
    start[-params.width :] = padded(np.log(domain.shares), params.width, _UNUSED)
    return start


def _with_rows(shapes: Shapes, weights: Floats) -> Floats:
    """The rows of the first matrix, one of which goes in at a time, with a variance of 1."""
    inputs, outputs = shapes.sizes[0]
    weights[: inputs * outputs] *= max(1, inputs - 1) ** 0.5
    return weights


@frozen
class Decoder:
    """From codes, shape (cases, numbers), to shares, shape (cases, width)."""

    hidden: Tensor
    output: Tensor

    def shares(self, codes: Tensor) -> Tensor:
        """Adding up to 1 in each case."""
        inner = torch.tanh(_linear(self.hidden, codes))
        return torch.softmax(_linear(self.output, inner), dim=1)


def _linear(weights: Tensor, values: Tensor) -> Tensor:
    return values @ weights[:-1] + weights[-1]


def _trained_generator(
    params: OneHotParams,
    domain: Domain,
    decoder: Decoder,
    kernel: Kernel,
) -> "Adversary":
    """The second phase: the discriminator on real cases, the generator on the discriminator."""
    shapes = Shapes(discriminator_sizes(params))

    def losses(tape: Tape, cases: Cases, step: int) -> Tensor:
        del step
        # The kernel sees real cases only; generated ones are added in ``Adversary``.
        codes = torch.as_tensor(domain.places(cases), device=tape.device)
        score = tape.linear(1, torch.tanh(tape.rows(0, codes.clamp(min=0))))[:, 0]
        return torch.where(codes >= 0, softplus(-score), torch.zeros_like(score))

    seed = seed_from(kernel.randomness)
    adversary = Adversary.of(params, shapes, decoder, seed)
    training = Training(
        title="discriminator",
        losses=losses,
        shapes=shapes,
        descent=descent_of(params, domain),
        delta=params.delta,
        max_cases=params.max_cases,
    )
    training.run(kernel, _with_rows(shapes, shapes.initial(seed)), adversary)
    return adversary


@dataclass(slots=True)
class Adversary:
    """What is done with the noisy gradient of the discriminator on real cases: a step of the
    discriminator on these and on generated ones, then a step of the generator on the discriminator.

    No case bears on it but through the noisy gradient: all of it is post-processing.
    """

    shapes: Shapes
    decoder: Decoder
    generator: Shapes
    weights: Floats
    random: torch.Generator
    of_discriminator: Adam
    of_generator: Adam

    @classmethod
    def of(
        cls,
        params: OneHotParams,
        shapes: Shapes,
        decoder: Decoder,
        seed: int,
    ) -> "Adversary":
        """With a generator that has not learned anything."""
        code, hidden = code_size(params), params.hidden
        generator = Shapes(((code + 1, hidden), (hidden + 1, code)))
        adams = [Adam(rate=params.learning_rate, times=params.steps) for _ in range(2)]
        random = torch.Generator().manual_seed(seed)
        return cls(shapes, decoder, generator, generator.initial(seed), random, *adams)

    def __call__(self, weights: Floats, mean: Floats) -> Floats:
        """The discriminator's weights after one step more."""
        device = chosen_device()
        generator = _with_gradients(self.generator.split(self.weights, device))
        # A fixed number of generated cases: no count of the log bears on it.
        fakes = self._generated(generator, FAKES)
        discriminator = _with_gradients(self.shapes.split(weights, device))
        # The discriminator first; the generator must not learn from this loss, so it is detached.
        rejected = softplus(_score(discriminator, fakes.detach())).mean()
        weights = self.of_discriminator(weights, mean + _gradient(rejected, discriminator))
        # Then the generator, on the discriminator as it is now.
        accepted = softplus(-_score(self.shapes.split(weights, device), fakes)).mean()
        self.weights = self.of_generator(self.weights, _gradient(accepted, generator))
        return weights

    def mean_shares(self, cases: int) -> Floats:
        """Over so many generated cases: float64, shape (width,)."""
        average = self.of_generator.average(self.weights)
        generator = self.generator.split(average, chosen_device())
        means = [
            self._generated(generator, FAKES).double().mean(dim=0).cpu().numpy()
            for _ in range(max(1, cases // FAKES))
        ]
        return np.asarray(np.mean(means, axis=0), np.float64)

    def _generated(self, generator: Sequence[Tensor], cases: int) -> Tensor:
        """Shares of generated codes: shape (cases, width)."""
        size = (cases, self.generator.sizes[0][0] - 1)
        drawn = torch.randn(size, generator=self.random).to(generator[0].device)
        codes = torch.tanh(_linear(generator[1], torch.tanh(_linear(generator[0], drawn))))
        return self.decoder.shares(codes)


def _score(discriminator: Sequence[Tensor], shares: Tensor) -> Tensor:
    rows, output = discriminator
    return _linear(output, torch.tanh(shares @ rows))[:, 0]


def _with_gradients(weights: list[Tensor]) -> list[Tensor]:
    return [each.requires_grad_() for each in weights]


def _gradient(loss: Tensor, weights: Sequence[Tensor]) -> Floats:
    found = torch.autograd.grad(loss, weights)
    flat = [each.detach().double().cpu().numpy().ravel() for each in found]
    return np.concatenate(flat)

"""The denoiser of ``variants/ddpm``: how it is trained, and how variants are made of noise."""

from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from cloakwork.base.arrays import Floats
from cloakwork.base.frozen import frozen
from cloakwork.kernel import Cases, Kernel
from cloakwork_extras.networks.one_hot import (
    CHAINS,
    LEVELS,
    WORK,
    Domain,
    OneHotParams,
    denoiser_sizes,
    descent_of,
    padded,
)
from cloakwork_extras.networks.steps import chosen_device
from cloakwork_extras.networks.training import (
    Adam,
    Shapes,
    Tape,
    Training,
    generator_of,
    seed_from,
)

LEAST_SIGNAL, MOST_SIGNAL = 0.01, 100.0
"""The square of the signal to that of the noise, from the last level to the first."""

CELLS_A_CASE: Final = 4096
MOST_AT_ONCE: Final = 2
"""A case is shown at as many levels in a step, at most, as have so many numbers together."""

_CHUNK: Final = 1 << 18
_UNUSED: Final = -30.0


def trained_shares(params: OneHotParams, domain: Domain, kernel: Kernel) -> Floats:
    """The mean share of each variant in what is made of noise: float64, shape (domain.size,)."""
    shapes = Shapes(denoiser_sizes(params))
    seed = seed_from(kernel.randomness)
    levels = Levels.geometric()
    # Wide variants are shown at one level a step, as memory goes by cells.
    at_once = min(MOST_AT_ONCE, max(1, CELLS_A_CASE // params.width))

    def losses(tape: Tape, cases: Cases, step: int) -> Tensor:
        codes = torch.as_tensor(domain.places(cases), device=tape.device)
        clean = one_hot(codes.clamp(min=0), params.width).float()[:, None, :]
        # The same levels and noise for every case of a step: no case's loss depends on another.
        drawn = generator_of(seed, step)
        level = torch.randint(LEVELS, (at_once,), generator=drawn)
        noise = torch.randn((at_once, params.width), generator=drawn)
        # Places without a variant stay empty.
        noise[:, domain.size :] = 0
        noisy = levels.noised(clean, noise.to(tape.device), level)
        inner = torch.tanh(tape.linear(0, levels.beside(noisy, level)))
        # The network only adds to what the noisy variant says by itself.
        logits = tape.linear(1, inner) + levels.evidence(noisy, level)
        chances = torch.log_softmax(logits, dim=2)
        own = chances[torch.arange(len(codes)), :, codes.clamp(min=0)].mean(dim=1)
        return torch.where(codes >= 0, -own, torch.zeros_like(own))

    update = Adam(rate=params.learning_rate, times=params.steps)
    # The last layer starts at zero, its offset at the shares that are known.
    start = shapes.initial(seed, zeros=(1,))
    start[-params.width :] = padded(np.log(domain.shares), params.width, _UNUSED)
    training = Training(
        title="denoiser",
        losses=losses,
        shapes=shapes,
        descent=descent_of(params, domain),
        delta=params.delta,
        max_cases=params.max_cases,
    )
    weights = training.run(kernel, start, update)
    network = shapes.split(update.average(weights), chosen_device())
    denoiser = VariantDenoiser(levels, network[0], network[1], domain.size)
    return denoiser.mean_shares(torch.Generator().manual_seed(seed))


@frozen
class Levels:
    """How much of a variant is left at each level: ``kept``, descending, the share of its square;
    float64, shape (levels,). The rest is normal noise.
    """

    kept: Tensor

    @classmethod
    def geometric(cls) -> "Levels":
        """Signal to noise falls by the same factor at each level."""
        signal = torch.logspace(
            float(np.log10(MOST_SIGNAL)),
            float(np.log10(LEAST_SIGNAL)),
            LEVELS,
            dtype=torch.float64,
        )
        return cls(signal / (1 + signal))

    def noised(
        self,
        clean: Tensor,
        noise: Tensor,
        level: Tensor,
    ) -> Tensor:
        """``clean`` of shape (cases, 1, width), ``noise`` (levels, width), ``level`` (levels,):
        shape (cases, levels, width).
        """
        kept = self.kept[level].float()[:, None].to(clean.device)
        return kept.sqrt() * clean + (1 - kept).sqrt() * noise

    def evidence(self, noisy: Tensor, level: Tensor) -> Tensor:
        """What a noisy variant says of each variant: the logarithm of its likelihood, but for what
        is the same for all.
        """
        kept = self.kept[level].float().to(noisy.device)
        return noisy * (kept.sqrt() / (1 - kept))[:, None]

    def beside(self, noisy: Tensor, level: Tensor) -> Tensor:
        """Noisy variants, and how much signal there is beside them."""
        signal = self.signal(level).float().to(noisy.device)
        return torch.cat([noisy, signal[:, None].expand(*noisy.shape[:-1], 1)], dim=-1)

    def signal(self, level: Tensor) -> Tensor:
        """The logarithm of signal to noise, about within 1."""
        kept = self.kept[level]
        return torch.log(kept / (1 - kept)) / float(np.log(MOST_SIGNAL))


@frozen
class VariantDenoiser:
    """The trained network: weights of both layers, for ``size`` variants."""

    levels: Levels
    first: Tensor
    second: Tensor
    size: int

    def chances(self, noisy: Tensor, level: int) -> Tensor:
        """Which variant it was: from shape (chains, size) to the same, adding up to 1."""
        at = torch.tensor([level])
        offset = self.levels.signal(at).item() * self.first[-2] + self.first[-1]
        inner = torch.tanh(torch.addmm(offset, noisy, self.first[: self.size]))
        logits = torch.addmm(self.second[-1, : self.size], inner, self.second[:-1, : self.size])
        logits += self.levels.evidence(noisy, at)
        return torch.softmax(logits, dim=1)

    def mean_shares(self, drawn: torch.Generator) -> Floats:
        """Of variants made of noise: float64, shape (size,)."""
        # Fewer chains where there are many variants: the work is bounded.
        chains = min(CHAINS, max(1, WORK // (self.size * LEVELS)))
        at_once = max(1, _CHUNK // self.size)
        total = np.zeros(self.size)
        for start in range(0, chains, at_once):
            chances = self._made_of_noise(min(at_once, chains - start), drawn)
            total += chances.double().sum(dim=0).cpu().numpy()
        shares: Floats = total / total.sum()
        return shares

    def _made_of_noise(self, chains: int, drawn: torch.Generator) -> Tensor:
        """The chances at the first level: shape (chains, size).

        At each level a variant is drawn as the network says, and then a noisy one of the level
        before, given both: with the right chances, the variants drawn have the right shares,
        however many levels there are.
        """
        device = self.first.device
        size = (chains, self.size)
        noisy = torch.randn(size, generator=drawn).to(device)
        for level in range(LEVELS - 1, 0, -1):
            chances = self.chances(noisy, level).cpu()
            guess = torch.multinomial(chances, 1, generator=drawn)[:, 0]
            # Mean and deviation of a noisy variant one level before (Ho et al. 2020, equation 7).
            kept, before = self.levels.kept[level].item(), self.levels.kept[level - 1].item()
            step = kept / before
            of_noisy = step**0.5 * (1 - before) / (1 - kept)
            of_guess = before**0.5 * (1 - step) / (1 - kept)
            deviation = ((1 - step) * (1 - before) / (1 - kept)) ** 0.5
            noise = torch.randn(size, generator=drawn).to(device)
            noisy = of_noisy * noisy + deviation * noise
            noisy[torch.arange(chains), guess.to(device)] += of_guess
        return self.chances(noisy, 0)

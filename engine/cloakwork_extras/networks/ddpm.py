"""A diffusion model over variants that are public or selected, in a form that is proved: the
denoiser is trained on gradients with noise.
"""

from typing import ClassVar, Final, Literal

from cloakwork.base.arrays import Floats
from cloakwork.base.facts import Facts
from cloakwork.kernel import Kernel
from cloakwork.mechanisms.base import Theorem
from cloakwork_extras.networks.one_hot import (
    Domain,
    LearningRates,
    OneHotOptions,
    OneHotParams,
    OneHotRelease,
    Shape,
    weights_of,
)

LEVELS: Final = 20
"""Of noise."""

CHAINS: Final = 1 << 15
WORK: Final = 100_000_000
"""How many variants are made of noise: at most ``CHAINS``, and as many as have ``WORK`` numbers
over all levels.
"""

SECONDS_A_NUMBER: Final = 4e-8
"""Of what is made of noise; measured on one core."""


def denoiser_sizes(params: OneHotParams) -> tuple[Shape, ...]:
    """From a noisy variant, and how noisy it is, to a number for each variant."""
    return ((params.width + 2, params.hidden), (params.hidden + 1, params.width))


class DdpmOptions(OneHotOptions):
    """See ``OneHotOptions``."""


class VariantDdpm(OneHotRelease):
    """Train a network to tell from a noisy variant which it was; release what it makes of noise.

    A variant is coded by a number for each place, 1 at its own, and normal noise is added at some
    levels; the network learns which variant it was. From noise alone, level by level, variants are
    drawn as the network says, and less noise is added. The variants are those that the policy
    declares, or those that ``variants/threshold`` selects with a share of the budget; the number of
    cases is a noisy count. The network begins at the denoiser that is right where the selection's
    noisy counts are; the number of each variant is its mean share in what is generated, not a draw.

    Where the variants are selected, their noisy counts know the shares better than a network can
    learn them from gradients with noise: a histogram is the model, and ``variants/threshold`` or
    ``variants/adaptive`` is more accurate at equal cost.

    An empty log, and one whose variants are all unique, gives an empty release (but for probability
    delta a variant; over a declared domain one made of noise); one case and a single activity are
    no special cases; of a single variant the noisy number of cases is released.
    """

    name: ClassVar[str] = "variants/ddpm"
    summary: ClassVar[str] = "Trains a diffusion model on declared or selected variants (DDPM)."
    theorem: ClassVar[Theorem] = Theorem(
        "Variants selected as in variants/threshold, or declared and their cases counted with "
        "DLap; then gradient steps of the denoiser, each on a sample that holds every unit "
        "independently with a fixed probability, the gradient of each case clipped in L2 over all "
        "weights and summed in whole steps, with discrete Gaussian noise for units of at most m "
        "cases: the composition of the selection with all steps. Gradients are computed in "
        "floating point. Levels and noise of a step are the same for all its cases, and drawn "
        "beforehand; what is generated is post-processing.",
        "Ho, Jain and Abbeel 2020 (DDPM); Abadi et al. 2016, section 3; Canonne, Kamath and "
        "Steinke 2020, theorem 7 (discrete Gaussian)",
    )
    Options = DdpmOptions
    learning_rates: ClassVar[LearningRates] = LearningRates(declared=0.1, selected=0.002)

    def sizes(self, params: OneHotParams) -> tuple[int, ...]:
        """Of the denoiser."""
        return (weights_of(denoiser_sizes(params)),)

    def learned_shares(self, params: OneHotParams, domain: Domain, kernel: Kernel) -> Floats:
        """Mean shares of what is made of noise."""
        from cloakwork_extras.networks.ddpm_network import trained_shares

        return trained_shares(params, domain, kernel)

    def training_seconds(
        self, params: OneHotParams, facts: Facts, device: Literal["cpu", "cuda"] = "cpu"
    ) -> float | None:
        """The steps, and what is then made of noise."""
        training = super().training_seconds(params, facts, device)
        if training is None:
            return None
        return training + SECONDS_A_NUMBER * min(WORK, CHAINS * LEVELS * params.width)

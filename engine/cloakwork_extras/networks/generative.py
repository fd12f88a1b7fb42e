"""Generative models in a form that is proved, over variants that are public or selected: TraVaG, an
autoencoder and an adversarial network, and a diffusion model, each trained on gradients with noise.
"""

from typing import ClassVar, Final, Literal

from cloakwork.base.arrays import Floats
from cloakwork.base.facts import Facts
from cloakwork.kernel import Kernel
from cloakwork.mechanisms.base import Theorem
from cloakwork_extras.networks.one_hot import (
    CHAINS,
    LEVELS,
    WORK,
    Domain,
    LearningRates,
    OneHotParams,
    OneHotRelease,
    autoencoder_sizes,
    denoiser_sizes,
    discriminator_sizes,
)
from cloakwork_extras.networks.steps import weights_of


class VariantTravag(OneHotRelease):
    """Train an encoder and a decoder of variants, and a generator of codes against a discriminator;
    release what the decoder makes of generated codes.

    The variants are those that the policy declares, or those that ``variants/threshold`` selects
    with a share of the budget; the number of cases is a noisy count. Encoder and decoder are
    trained together (a decoder beside an encoder without noise would tell of every case through
    it). The discriminator is trained on real cases against decoded codes, which no case bears on;
    the generator by the discriminator alone, so it needs no noise of its own. The decoder begins at
    what the selection's noisy counts say; the number of each variant is its mean share in what is
    generated, not a draw.

    Where the variants are selected, their noisy counts know the shares better than networks can
    learn them from gradients with noise: a histogram is the model, and ``variants/threshold`` or
    ``variants/adaptive`` is more accurate at equal cost.

    An empty log, and one whose variants are all unique, gives an empty release (but for probability
    delta a variant; over a declared domain one made of noise); one case and a single activity are
    no special cases; of a single variant the noisy number of cases is released.
    """

    name: ClassVar[str] = "variants/travag"
    summary: ClassVar[str] = (
        "Trains an autoencoder and an adversarial network on declared or selected variants "
        "(TraVaG)."
    )
    theorem: ClassVar[Theorem] = Theorem(
        "Variants selected as in variants/threshold, or declared and their cases counted with "
        "DLap; then two phases of gradient steps (encoder with decoder; discriminator), each on a "
        "sample that holds every unit independently with a fixed probability, the gradient of each "
        "case clipped in L2 over all weights and summed in whole steps, with discrete Gaussian "
        "noise for units of at most m cases: the composition of the selection with all steps. "
        "Gradients are computed in floating point. Generator, decoding and counts are "
        "post-processing.",
        "Rafiei, Wangelik, Pourbafrani, van der Aalst 2023 (TraVaG), corrected; Abadi et al. 2016, "
        "section 3; Canonne, Kamath and Steinke 2020, theorem 7 (discrete Gaussian)",
    )
    learning_rates: ClassVar[LearningRates] = LearningRates(declared=0.1, selected=0.002)

    def sizes(self, params: OneHotParams) -> tuple[int, ...]:
        """Of encoder and decoder, and of the discriminator."""
        return weights_of(autoencoder_sizes(params)), weights_of(discriminator_sizes(params))

    def learned_shares(
        self,
        params: OneHotParams,
        domain: Domain,
        kernel: Kernel,
    ) -> Floats:
        """Mean shares of decoded codes."""
        from cloakwork_extras.networks.travag_network import trained_shares

        return trained_shares(params, domain, kernel)


SECONDS_A_NUMBER: Final = 4e-8
"""Of what is made of noise; measured on one core."""


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
    learning_rates: ClassVar[LearningRates] = LearningRates(declared=0.1, selected=0.002)

    def sizes(self, params: OneHotParams) -> tuple[int, ...]:
        """Of the denoiser."""
        return (weights_of(denoiser_sizes(params)),)

    def learned_shares(
        self,
        params: OneHotParams,
        domain: Domain,
        kernel: Kernel,
    ) -> Floats:
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

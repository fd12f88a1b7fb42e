"""TraVaG in a form that is proved: an autoencoder and an adversarial network over variants that are
public or selected, each trained on gradients with noise.
"""

from typing import ClassVar

from cloakwork.base.arrays import Floats
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


def autoencoder_sizes(params: OneHotParams) -> tuple[Shape, ...]:
    """A row for each variant, to the code; from the code, to a number for each variant."""
    hidden, code = params.hidden, code_size(params)
    return (
        (params.width, hidden),
        (hidden + 1, code),
        (code + 1, hidden),
        (hidden + 1, params.width),
    )


def discriminator_sizes(params: OneHotParams) -> tuple[Shape, ...]:
    """A row for each variant, to a score."""
    return ((params.width, params.hidden), (params.hidden + 1, 1))


def code_size(params: OneHotParams) -> int:
    """How many numbers the code of a case has."""
    return max(1, params.hidden // 2)


class TravagOptions(OneHotOptions):
    """See ``OneHotOptions``."""


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
    Options = TravagOptions
    learning_rates: ClassVar[LearningRates] = LearningRates(declared=0.1, selected=0.002)

    def sizes(self, params: OneHotParams) -> tuple[int, ...]:
        """Of encoder and decoder, and of the discriminator."""
        return weights_of(autoencoder_sizes(params)), weights_of(discriminator_sizes(params))

    def learned_shares(self, params: OneHotParams, domain: Domain, kernel: Kernel) -> Floats:
        """Mean shares of decoded codes."""
        from cloakwork_extras.networks.travag_network import trained_shares

        return trained_shares(params, domain, kernel)

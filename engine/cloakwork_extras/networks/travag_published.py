"""TraVaG as published: an adversarial network over the variants of the log, behind an autoencoder
of which only one half is trained with noise.
"""

from typing import Annotated, ClassVar

from pydantic import Field, JsonValue

from cloakwork.base.arrays import Ints
from cloakwork.kernel import Randomness
from cloakwork.mechanisms.base import Theorem
from cloakwork_extras.networks.published_release import (
    Epochs,
    GenerativePublished,
    GenerativePublishedOptions,
    GenerativePublishedParams,
    seed_of,
)


class TravagPublishedOptions(GenerativePublishedOptions):
    """``epochs``: of the autoencoder; ``adversarial_epochs``: of the adversarial network. ``code``:
    numbers that a variant is encoded in.
    """

    epochs: Epochs = 20
    adversarial_epochs: Epochs = 10
    code: Annotated[int, Field(ge=1, le=4096)] = 128


class TravagPublishedParams(GenerativePublishedParams):
    """``adversarial_epochs`` and ``code``: see the options."""

    adversarial_epochs: Annotated[int, Field(ge=1)]
    code: Annotated[int, Field(ge=1)]


class VariantTravagPublished(GenerativePublished[TravagPublishedParams]):
    """Train an autoencoder of one-hot variants, the decoder by DP-SGD and the encoder without
    noise; then an adversarial network whose generator draws codes, the discriminator by DP-SGD.

    Widths, learning rates and clips are those of the notebooks behind the paper's figures; there
    20,000 steps of the autoencoder and 1,500 of the adversarial network are taken, whatever the
    log. Each of the two trainings is given the reported epsilon in full, as there.
    """

    name: ClassVar[str] = "variants/travag-published"
    summary: ClassVar[str] = (
        "Draws variants as TraVaG was published; it is NOT differentially private."
    )
    theorem: ClassVar[Theorem] = Theorem(
        "Claimed: (epsilon, delta) by DP-SGD on the decoder and on the discriminator.",
        "Rafiei, Wangelik, Pourbafrani, van der Aalst 2023 (TraVaG), CAiSE; Rafiei et al. 2025",
    )
    Params = TravagPublishedParams
    Options = TravagPublishedOptions
    draws: ClassVar[str] = "draws among the source's variants with an adversarial network"
    flaw: ClassVar[str] = (
        "only variants of the source can be drawn: a unique variant shows that its owner is in the "
        "log; the encoder is trained without noise, so each step of the decoder follows from every "
        "case"
    )

    def draw(
        self, params: TravagPublishedParams, cases: Ints, randomness: Randomness
    ) -> tuple[Ints, dict[str, JsonValue]]:
        """By ``adversarial_networks``."""
        from cloakwork_extras.networks import adversarial_networks as networks

        return networks.train_and_draw(params, cases, seed_of(randomness))

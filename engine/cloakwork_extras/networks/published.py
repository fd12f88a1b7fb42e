"""Generative models as their papers have them: variants as one-hot vectors over those of the
source, a noise that follows from the source's size, and torch.

What the papers report as epsilon, and the noise that they take for it, is for each network by
itself: a model of two networks spends the reported epsilon twice.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final, Literal, TypeVar

import numpy as np
from pydantic import JsonValue

from cloakwork.base.arrays import Ints
from cloakwork.base.facts import Facts
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Kernel, Randomness
from cloakwork.mechanisms.base import Offer, Refusal, Theorem
from cloakwork.mechanisms.steps import Measurement
from cloakwork_extras.networks.params import (
    DdpmPublishedOptions,
    DdpmPublishedParams,
    GenerativePublishedOptions,
    GenerativePublishedParams,
    TravagPublishedOptions,
    TravagPublishedParams,
)
from cloakwork_extras.networks.steps import TrainsNetwork, least_epsilon, require_torch
from cloakwork_extras.published import PublishedRelease

GENERATIVE_OPTIONS: Final = {
    "batch": "cases in a batch, on average (64)",
}


P = TypeVar("P", bound=GenerativePublishedParams)


class GenerativePublished(TrainsNetwork, PublishedRelease[P]):
    """A network that draws among the variants of the source."""

    Options: ClassVar[type[GenerativePublishedOptions]] = GenerativePublishedOptions
    draws: ClassVar[str]
    """What it does, in the plan's words."""

    def meet(
        self,
        goal: DifferentialPrivacy,
        facts: Facts,
        options: Mapping[str, JsonValue],
    ) -> Offer[P] | Refusal:
        """The goal as the paper claims it; the noise follows from the number of cases, which only
        the log tells.
        """
        chosen = self.Options.model_validate(options).model_dump()
        if goal.delta == 0:
            return Refusal("needs", "Gaussian noise needs a delta above 0", ("guarantees[].delta",))
        # What the accounting never reports is no goal: it ends at its largest order.
        least = least_epsilon(goal.delta)
        if goal.epsilon <= least:
            return Refusal(
                "misconfigured",
                f"the paper's accounting reports no epsilon below {least:.3g} at this delta",
            )
        claim = {"published": goal.epsilon, "delta": goal.delta}
        params: P = self.Params.model_validate({**claim, **chosen})
        return Offer(
            params,
            f"{self.draws}; published as epsilon {goal.epsilon:g} and delta {goal.delta:g}, which "
            f"does not hold: {self.flaw}",
        )

    def measure(self, params: P, kernel: Kernel) -> Measurement:
        """As many cases as the source has, each drawn among the source's variants."""
        variants, cases = kernel.raw().by_variant()
        # Nothing to draw among: an empty log gives an empty release.
        if not variants:
            return Measurement(variants, cases)
        require_torch("opacus")
        drawn, figures = self.draw(params, cases, kernel.randomness)
        return Measurement(variants, drawn, {"variants that can be drawn": len(cases), **figures})

    def training_device(self) -> Literal["cpu", "cuda"]:
        """Networks of this size are trained on no card."""
        return "cpu"

    def training_seconds(
        self, params: P, facts: Facts, device: Literal["cpu", "cuda"]
    ) -> float | None:
        """Nothing can be told: it follows from how many variants the source has."""
        del params, facts, device
        return None

    @abstractmethod
    def draw(
        self,
        params: P,
        cases: Ints,
        randomness: Randomness,
    ) -> tuple[Ints, dict[str, JsonValue]]:
        """Train on ``cases`` (int64, shape (variants,), 1 and more) and draw as many: int64 of the
        same shape; and figures for the internal report.
        """


def seed_of(randomness: Randomness) -> int:
    """A seed for torch, which follows from the source of randomness."""
    return int(randomness.uniform(np.array([2**62], np.int64))[0])


class VariantTravagPublished(GenerativePublished[TravagPublishedParams]):
    """Train an autoencoder of one-hot variants, the decoder by DP-SGD and the encoder without
    noise; then an adversarial network whose generator draws codes, the discriminator by DP-SGD.

    Widths, learning rates and clips are those of the notebooks behind the paper's figures; there
    20,000 steps of the autoencoder and 1,500 of the adversarial network are taken, whatever the
    log. Each of the two trainings is given the reported epsilon in full, as there.
    """

    name: ClassVar[str] = "variants/travag-published"
    options: ClassVar[Mapping[str, str]] = {
        **GENERATIVE_OPTIONS,
        "epochs": "how often the autoencoder sees every case (20)",
        "adversarial_epochs": "how often the adversarial network sees every case (10)",
        "code": "how many numbers a variant is encoded in (128)",
    }
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
        self,
        params: TravagPublishedParams,
        cases: Ints,
        randomness: Randomness,
    ) -> tuple[Ints, dict[str, JsonValue]]:
        """By an autoencoder and an adversarial network."""
        from cloakwork_extras.networks.published_networks import draw_by_travag

        return draw_by_travag(params, cases, seed_of(randomness))


class VariantDdpmPublished(GenerativePublished[DdpmPublishedParams]):
    """Train by DP-SGD a network that finds the noise in a one-hot variant with noise on it; draw by
    taking the noise found out of noise, step by step.
    """

    name: ClassVar[str] = "variants/ddpm-published"
    options: ClassVar[Mapping[str, str]] = {
        **GENERATIVE_OPTIONS,
        "epochs": "how often the network sees every case (10)",
        "steps": "the steps of the diffusion, from a variant to noise (100)",
    }
    summary: ClassVar[str] = (
        "Draws variants by diffusion as published; it is NOT differentially private."
    )
    theorem: ClassVar[Theorem] = Theorem(
        "Claimed: (epsilon, delta) by DP-SGD on the denoiser.",
        "Rafiei, Wangelik, Pourbafrani, van der Aalst 2025, Data & Knowledge Engineering",
    )
    Params = DdpmPublishedParams
    Options = DdpmPublishedOptions
    draws: ClassVar[str] = "draws among the source's variants with a diffusion model"
    flaw: ClassVar[str] = (
        "only variants of the source can be drawn: a unique variant shows that its owner is in the "
        "log; how many cases there are is exact"
    )

    def draw(
        self,
        params: DdpmPublishedParams,
        cases: Ints,
        randomness: Randomness,
    ) -> tuple[Ints, dict[str, JsonValue]]:
        """By a diffusion model."""
        from cloakwork_extras.networks.published_networks import draw_by_diffusion

        return draw_by_diffusion(params, cases, seed_of(randomness))

"""The diffusion model as published: noise turned step by step into variants of the log."""

from typing import Annotated, ClassVar

from pydantic import Field, JsonValue

from cloakwork.base.arrays import Ints
from cloakwork.kernel import Randomness
from cloakwork.mechanisms.base import Theorem
from cloakwork_extras.networks.published_release import (
    GenerativePublished,
    GenerativePublishedOptions,
    GenerativePublishedParams,
    seed_of,
)


class DdpmPublishedOptions(GenerativePublishedOptions):
    """``steps``: of the diffusion, from a variant to noise."""

    steps: Annotated[int, Field(ge=2, le=10_000)] = 100


class DdpmPublishedParams(GenerativePublishedParams):
    """``steps``: see the options."""

    steps: Annotated[int, Field(ge=2)]


class VariantDdpmPublished(GenerativePublished[DdpmPublishedParams]):
    """Train by DP-SGD a network that finds the noise in a one-hot variant with noise on it; draw by
    taking the noise found out of noise, step by step.
    """

    name: ClassVar[str] = "variants/ddpm-published"
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
        self, params: DdpmPublishedParams, cases: Ints, randomness: Randomness
    ) -> tuple[Ints, dict[str, JsonValue]]:
        """By ``diffusion_network``."""
        from cloakwork_extras.networks import diffusion_network as network

        return network.train_and_draw(params, cases, seed_of(randomness))

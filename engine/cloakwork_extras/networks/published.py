"""Generative models as their papers have them: variants as one-hot vectors over those of the
source, a noise that follows from the source's size, and torch.

What the papers report as epsilon, and the noise that they take for it, is for each network by
itself: a model of two networks spends the reported epsilon twice.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import Annotated, ClassVar, Final, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, Field, JsonValue

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.facts import Facts
from cloakwork.base.quantities import Frozen, Number
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Kernel, Randomness
from cloakwork.mechanisms.base import Offer, Refusal, Theorem
from cloakwork.mechanisms.steps import Measurement
from cloakwork_extras.networks.steps import TrainsNetwork, require_torch
from cloakwork_extras.published import PublishedRelease

MOST_NOISE: Final = 1e6
"""The largest noise multiplier that is searched."""

_ORDERS: Final = np.array([*range(2, 65), *range(68, 129, 4), *range(144, 513, 16)])
"""Renyi orders that are tried; the papers search 1 to 512."""

_HALVINGS: Final = 40


def least_epsilon(delta: float) -> float:
    """What is reported for endless noise: below it no noise reaches."""
    return math.log(1 / delta) / (int(_ORDERS[-1]) - 1)


def reported_epsilon(rate: float, multiplier: float, steps: int, delta: float) -> float:
    """The epsilon at ``delta`` of ``steps`` Poisson samples of ``rate``, with Gaussian noise of
    ``multiplier`` times the clip on each sum (Mironov, Talwar, Zhang 2019, section 3.3; the
    conversion of Mironov 2017, proposition 3).
    """
    # Moments add up over steps; each order gives an epsilon, and the least of them is reported.
    divergences = steps * _renyi_divergences(rate, multiplier)
    return float((divergences + math.log(1 / delta) / (_ORDERS - 1)).min())


@cache
def noise_multiplier(rate: float, steps: int, epsilon: float, delta: float) -> float:
    """The least multiplier at which ``epsilon`` is reported, to one part in a million;
    ``MOST_NOISE`` where none does.
    """
    # Bisection on a logarithmic scale.
    low, high = 0.2, MOST_NOISE
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        if reported_epsilon(rate, middle, steps, delta) <= epsilon:
            high = middle
        else:
            low = middle
    return high


def _renyi_divergences(rate: float, multiplier: float) -> Floats:
    """Of one sampled sum, at each of the orders a, for rate q and multiplier s: the logarithm of
    the sum over k of C(a,k) (1-q)^(a-k) q^k e^((k^2-k)/(2 s^2)), over a - 1.
    """
    # Without sampling it is the divergence of the Gaussian mechanism.
    if rate >= 1:
        return _ORDERS / (2 * multiplier**2)
    ways, drawn, left = _binomials()
    # All terms in logarithms: binomials and exponentials overflow.
    logs = (
        ways
        + drawn * math.log(rate)
        + left * math.log1p(-rate)
        + (drawn**2 - drawn) / (2 * multiplier**2)
    )
    # The largest is taken out of the sum, so that none overflows.
    largest = logs.max(axis=1)
    sums = np.exp(logs - largest[:, None]).sum(axis=1)
    return np.asarray(np.maximum(0.0, largest + np.log(sums)) / (_ORDERS - 1))


@cache
def _binomials() -> tuple[Floats, Ints, Ints]:
    """For each order a (rows) and each k from 0 to the largest: ln C(a,k), which is -infinity for k
    above a; k; and a - k, at least 0.
    """
    logarithms = np.log(np.maximum(np.arange(_ORDERS[-1] + 1), 1))
    factorials = np.cumsum(logarithms)
    drawn = np.arange(_ORDERS[-1] + 1)[None, :]
    order = _ORDERS[:, None]
    left = np.maximum(order - drawn, 0)
    ways = factorials[order] - factorials[drawn] - factorials[left]
    return np.where(drawn <= order, ways, -np.inf), drawn, left


Epochs = Annotated[int, Field(ge=1, le=100_000)]


GENERATIVE_OPTIONS: Final = {
    "batch": "cases in a batch, on average (64)",
}


class GenerativePublishedOptions(BaseModel):
    """``epochs``: how often each network sees every case on average. ``batch``: cases in a batch on
    average.
    """

    model_config = {"extra": "forbid", "frozen": True}

    epochs: Epochs = 10
    batch: Annotated[int, Field(ge=1, le=100_000)] = 64


class GenerativePublishedParams(Frozen):
    """``published`` and ``delta``: what the paper claims. ``epochs`` and ``batch``: see the
    options.
    """

    published: Annotated[Number, Field(gt=0)]
    delta: Annotated[Number, Field(gt=0, lt=1)]
    epochs: Annotated[int, Field(ge=1)]
    batch: Annotated[int, Field(ge=1)]


P = TypeVar("P", bound=GenerativePublishedParams)


class GenerativePublished(TrainsNetwork, PublishedRelease[P]):
    """A network that draws among the variants of the source."""

    Options: ClassVar[type[GenerativePublishedOptions]] = GenerativePublishedOptions
    draws: ClassVar[str]
    """What it does, in the plan's words."""

    def meet(
        self, goal: DifferentialPrivacy, facts: Facts, options: Mapping[str, JsonValue]
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
        require_torch()
        drawn, figures = self.draw(params, cases, kernel.randomness)
        return Measurement(variants, drawn, {"variants that can be drawn": len(cases), **figures})

    def training_seconds(
        self, params: P, facts: Facts, device: Literal["cpu", "cuda"]
    ) -> float | None:
        """Nothing can be told: it follows from how many variants the source has."""
        del params, facts, device
        return None

    @abstractmethod
    def draw(
        self, params: P, cases: Ints, randomness: Randomness
    ) -> tuple[Ints, dict[str, JsonValue]]:
        """Train on ``cases`` (int64, shape (variants,), 1 and more) and draw as many: int64 of the
        same shape; and figures for the internal report.
        """


def seed_of(randomness: Randomness) -> int:
    """A seed for torch, which follows from the source of randomness."""
    return int(randomness.uniform(np.array([2**62], np.int64))[0])


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
        self, params: TravagPublishedParams, cases: Ints, randomness: Randomness
    ) -> tuple[Ints, dict[str, JsonValue]]:
        """By ``adversarial_networks``."""
        from cloakwork_extras.networks import adversarial_networks as networks

        return networks.train_and_draw(params, cases, seed_of(randomness))


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
        self, params: DdpmPublishedParams, cases: Ints, randomness: Randomness
    ) -> tuple[Ints, dict[str, JsonValue]]:
        """By ``diffusion_network``."""
        from cloakwork_extras.networks import diffusion_network as network

        return network.train_and_draw(params, cases, seed_of(randomness))

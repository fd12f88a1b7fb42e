"""What generative models share that are built as their papers have them: variants as one-hot
vectors over those of the source, a noise that follows from the source's size, and torch.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, Field, JsonValue

from cloakwork.base.arrays import Ints
from cloakwork.base.facts import Facts
from cloakwork.base.quantities import Frozen, Number
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Kernel, Randomness
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.mechanisms.steps import Measurement
from cloakwork_extras.networks.devices import TrainsNetwork, require_torch
from cloakwork_extras.networks.published_accounting import least_epsilon
from cloakwork_extras.published import PublishedRelease

Epochs = Annotated[int, Field(ge=1, le=100_000)]


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

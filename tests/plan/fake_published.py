"""A made-up mechanism of the literature: it releases every variant's count as it is, and claims
epsilon.
"""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import BaseModel, JsonValue

from cloakwork.base.costs import Composed, DiscreteLaplace, NonPrivate, PrivacyEvent
from cloakwork.base.facts import Facts
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Kernel
from cloakwork.mechanisms.base import Offer, Proof, Theorem
from cloakwork.mechanisms.steps import Measurement
from cloakwork.mechanisms.variants.family import NoOptions, VariantRelease


class FakeParams(BaseModel):
    """``published``: the epsilon that the paper claims."""

    published: float


class FakePublished(VariantRelease[FakeParams]):
    """Releases raw counts and calls it private."""

    name: ClassVar[str] = "variants/fake-published"
    summary: ClassVar[str] = "Raw counts under a claim."
    proof: ClassVar[Proof] = "published"
    theorem: ClassVar[Theorem] = Theorem("is epsilon-DP", "Nobody 1999")
    Params = FakeParams

    def meet(
        self, goal: DifferentialPrivacy, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[FakeParams]:
        """Whatever was asked for."""
        NoOptions.model_validate(options)
        return Offer(
            FakeParams(published=goal.epsilon), f"the paper claims epsilon {goal.epsilon:g}"
        )

    def event(self, params: FakeParams, facts: Facts) -> PrivacyEvent:
        """Nothing bounds it."""
        return Composed(
            events=(DiscreteLaplace(scale=1.0), NonPrivate(reason="raw counts are released"))
        )

    def measure(self, params: FakeParams, kernel: Kernel) -> Measurement:
        """All of them."""
        return Measurement(*kernel.raw().by_variant())

"""What mechanisms that randomise each value by itself have in common."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import JsonValue

from cloakwork.base.facts import Facts
from cloakwork.base.lineage import Lineage
from cloakwork.guarantees import Guarantee
from cloakwork.mechanisms.attributes.local_params import (
    STEPS,
    LocalParams,
    PublicFact,
    local_params,
)
from cloakwork.mechanisms.base import Gives, Mechanism, Offer, Proof, Refusal
from cloakwork.mechanisms.steps import NoiseOnValuesStep, PublicValues


class RandomisesValues(Mechanism[LocalParams]):
    """The offer, the cost and the lineage of a step that puts a noisy value in the place of each
    value.
    """

    Params = LocalParams
    gives: ClassVar[tuple[Gives, ...]] = (Gives("local-dp"),)
    proof: ClassVar[Proof] = "proved"
    draws_from: ClassVar[PublicFact]
    does: ClassVar[str]
    """What an offer says of it."""

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[LocalParams] | Refusal:
        """Attributes of which ``draws_from`` is declared."""
        found = local_params(goal, facts, options, self.draws_from)
        return found if isinstance(found, Refusal) else Offer(found, self.does)

    def step(self, params: LocalParams, facts: Facts) -> NoiseOnValuesStep:
        """Each value is measured by itself, and whether there is one too: at the cost of one value,
        or of all values of a case.
        """
        noise = params.randomisation()
        return NoiseOnValuesStep(
            lineage=Lineage(measures=params.names, writes=params.names),
            event=noise.event(),
            noise=noise,
            values={
                each.name: PublicValues(each.domain, each.range, STEPS, each.integer)
                for each in params.attributes
            },
        )

"""What mechanisms that randomise each value by itself have in common."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import JsonValue

from cloakwork.base.budget import Currency
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import Lineage
from cloakwork.base.privacy_event import PrivacyEvent
from cloakwork.guarantees import Guarantee
from cloakwork.kernel.local import Randomisation
from cloakwork.mechanisms.attributes.local_params import (
    STEPS,
    LocalParams,
    PublicFact,
    local_params,
)
from cloakwork.mechanisms.base import Gives, Offer, Proof, Refusal
from cloakwork.mechanisms.local_values import PublicValues


class RandomisesValues:
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

    def event(self, params: LocalParams, facts: Facts) -> PrivacyEvent:
        """The cost of one value, or of all values of a case."""
        return params.randomisation().event()

    def currency(self, params: LocalParams) -> Currency:
        """Local differential privacy."""
        return "local"

    def lineage(self, params: LocalParams) -> Lineage:
        """Each value is measured by itself, and whether there is one too."""
        return Lineage(measures=params.names, writes=params.names)

    def facts_after(self, params: LocalParams, facts: Facts) -> Facts:
        """Unchanged."""
        return facts

    def randomises(self, params: LocalParams) -> Randomisation:
        """The noise, which the event charges for."""
        return params.randomisation()

    def public_values(self, params: LocalParams) -> dict[str, PublicValues]:
        """What the codes of each attribute stand for."""
        return {
            each.name: PublicValues(each.domain, each.range, STEPS, each.integer)
            for each in params.attributes
        }

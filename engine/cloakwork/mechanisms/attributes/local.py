"""What mechanisms that randomise each value by itself have in common."""

from cloakwork.budget import Currency
from cloakwork.facts import Facts
from cloakwork.kernel.local import Randomisation
from cloakwork.lineage import Lineage
from cloakwork.mechanisms.attributes.local_params import STEPS, LocalParams
from cloakwork.mechanisms.local_values import PublicValues
from cloakwork.privacy_event import PrivacyEvent


class RandomisesValues:
    """The cost and the lineage of a step that puts a noisy value in the place of each value."""

    Params = LocalParams

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

"""Laplace noise on numbers inside declared bounds, each value by itself."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import JsonValue

from cloakwork.facts import Facts
from cloakwork.guarantees import Guarantee
from cloakwork.mechanisms.attributes.local import RandomisesValues
from cloakwork.mechanisms.attributes.local_params import LocalAttribute, LocalParams, local_params
from cloakwork.mechanisms.base import Gives, Offer, Proof, Refusal, Theorem


class BoundedLaplace(RandomisesValues):
    """Each number is moved inside the declared range, gets discrete Laplace noise of the range's
    width over half of epsilon, and is moved inside again; the other half of epsilon hides whether
    there is a number at all.

    **Edge cases.** What is no number counts as missing, a number outside the range as its nearer
    end. Where a value is shown that the log does not have, it is the middle of the range with
    noise. An empty log stays empty; an attribute that the log lacks is missing everywhere. Of a
    claim about cases, values behind the ``longest_case``-th event count as missing.
    """

    name: ClassVar[str] = "attributes/bounded-laplace"
    gives: ClassVar[tuple[Gives, ...]] = (Gives("local-dp"),)
    summary: ClassVar[str] = "Adds noise to numbers, each by itself, inside declared bounds."
    proof: ClassVar[Proof] = "proved"
    theorem: ClassVar[Theorem] = Theorem(
        "Each released number, and whether there is one, is epsilon-locally private in the raw "
        "value; all values of a case of at most M events together, where the claim is about cases.",
        "Laplace mechanism: Dwork and Roth 2014, theorem 3.6, in its discrete form (Ghosh, "
        "Roughgarden and Sundararajan 2009); Warner 1965 for presence; composition: Dwork and "
        "Roth 2014, theorem 3.16",
    )

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[LocalParams] | Refusal:
        """Attributes with a declared range."""

        def declared(name: str) -> LocalAttribute | None:
            span = facts.numeric_range(name)
            integer = facts.types.get(name) == "integer"
            return LocalAttribute(name=name, range=span, integer=integer) if span else None

        found = local_params(goal, facts, options, declared, "range")
        if isinstance(found, Refusal):
            return found
        return Offer(found, "adds noise to numbers inside their declared range")

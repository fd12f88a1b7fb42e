"""Laplace noise on numbers inside declared bounds, each value by itself."""

from typing import ClassVar

from cloakwork.mechanisms.attributes.local import RandomisesValues
from cloakwork.mechanisms.attributes.local_params import PublicFact
from cloakwork.mechanisms.base import Theorem


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
    action: ClassVar[str] = "add noise to {attributes}"
    summary: ClassVar[str] = "Adds noise to numbers, each by itself, inside declared bounds."
    draws_from: ClassVar[PublicFact] = "range"
    does: ClassVar[str] = "adds noise to numbers inside their declared range"
    theorem: ClassVar[Theorem] = Theorem(
        "Each released number, and whether there is one, is epsilon-locally private in the raw "
        "value; all values of a case of at most M events together, where the claim is about cases.",
        "Laplace mechanism: Dwork and Roth 2014, theorem 3.6, in its discrete form (Ghosh, "
        "Roughgarden and Sundararajan 2009); Warner 1965 for presence; composition: Dwork and "
        "Roth 2014, theorem 3.16",
    )

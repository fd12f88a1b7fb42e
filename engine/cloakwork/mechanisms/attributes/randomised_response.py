"""k-ary randomised response: each value of an attribute by itself, over a declared domain."""

from typing import ClassVar

from cloakwork.mechanisms.attributes.local import RandomisesValues
from cloakwork.mechanisms.attributes.local_params import PublicFact
from cloakwork.mechanisms.base import Theorem


class RandomisedResponse(RandomisesValues):
    """Each value stays with a probability that epsilon allows, else another of the domain takes
    its place; a missing value is one of them, and one that is not declared counts as missing.

    **Edge cases.** An empty log stays empty; an attribute that the log lacks is drawn as one that
    is missing everywhere. Of a claim about cases, values behind the ``longest_case``-th event are
    drawn as missing ones. The larger the domain, the fewer values stay: at epsilon 2 e**2 / (e**2 +
    k), so 79 % of k = 2 values, 42 % of ten, 7 % of a hundred.

    **Large domains.** Optimal local hashing (Wang et al. 2017) estimates frequencies better, from
    hashes that are kept; as a value in a log it would keep fewer true ones (``kernel.local``).
    """

    name: ClassVar[str] = "attributes/randomised-response"
    action: ClassVar[str] = "randomise {attributes}"
    summary: ClassVar[str] = "Replaces values by others of their domain, each by itself at random."
    draws_from: ClassVar[PublicFact] = "domain"
    does: ClassVar[str] = "puts another value of its domain in the place of some values"
    theorem: ClassVar[Theorem] = Theorem(
        "Each released value is epsilon-locally private in the raw one, missing or not; all values "
        "of a case of at most M events together, where the claim is about cases.",
        "Warner 1965; Kairouz, Oh and Viswanath 2016, Extremal mechanisms; composition: Dwork and "
        "Roth 2014, theorem 3.16",
    )

"""The closed set of guarantees that a policy may ask for and a release may claim.

One file a kind holds all of it: its model, its words, its price, how it is derived from the steps
of a plan, how it is measured on a log, and what it leaves open. A new kind is one such file and its
line in ``Guarantee``; the import fails over a part that is left out.
"""

from collections.abc import Mapping
from typing import Annotated, Final, get_args

from pydantic import Field

from cloakwork.base.text import listed
from cloakwork.guarantees.base import (
    CountedGuarantee,
    GuaranteePrice,
    LeastGroup,
    PrivacyGuarantee,
    ReleaseOutline,
)
from cloakwork.guarantees.claims import Background, GuaranteeCaveat
from cloakwork.guarantees.confidence_bound import ConfidenceBound, background_in_words
from cloakwork.guarantees.differential_privacy import DifferentialPrivacy
from cloakwork.guarantees.k_anonymity import KAnonymity
from cloakwork.guarantees.l_diversity import LDiversity
from cloakwork.guarantees.local_dp import LocalDP
from cloakwork.guarantees.metric_privacy import MetricPrivacy
from cloakwork.guarantees.t_closeness import VACUOUS_T, TCloseness

__all__ = [
    "KINDS",
    "VACUOUS_T",
    "Background",
    "ConfidenceBound",
    "CountedGuarantee",
    "DifferentialPrivacy",
    "Guarantee",
    "GuaranteeCaveat",
    "GuaranteePrice",
    "KAnonymity",
    "LDiversity",
    "LeastGroup",
    "LocalDP",
    "MetricPrivacy",
    "PrivacyGuarantee",
    "ReleaseOutline",
    "TCloseness",
    "background_in_words",
    "short_description",
]

Guarantee = Annotated[
    KAnonymity
    | TCloseness
    | LDiversity
    | ConfidenceBound
    | DifferentialPrivacy
    | MetricPrivacy
    | LocalDP,
    Field(discriminator="kind"),
]
"""The registration of every kind."""


def _kinds(union: object) -> dict[str, type[PrivacyGuarantee]]:
    """The members of an annotated union by the name that a policy gives them."""
    members = get_args(get_args(union)[0])
    return {get_args(member.model_fields["kind"].annotation)[0]: member for member in members}


KINDS: Final[Mapping[str, type[PrivacyGuarantee]]] = _kinds(Guarantee)
"""Each kind by the name that a policy gives it."""


def short_description(guarantee: Guarantee) -> str:
    """A guarantee in a few words, with its strength:
    ``k-anonymity over control-flow (k 10, scope variants, ...)``.
    """
    # k of employees counts neither cases nor units.
    own = set() if guarantee.employees is None else {"count"}
    strengths = guarantee.model_dump(
        exclude={"kind", "over", "attribute", "unit", *own}, exclude_none=True, mode="json"
    )
    options = ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in strengths.items()
    )
    whose = "" if guarantee.employees is None else f" of each '{guarantee.employees}'"
    return f"{guarantee.kind}{whose} over {listed(guarantee.over)} ({options})"

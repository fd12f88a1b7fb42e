"""Why a column is released without protection, and why an attribute is treated as it is."""

from typing import Annotated, Literal

from pydantic import Field

from cloakwork.base.quantities import Frozen


class PolicyReason(Frozen):
    """The policy names the column under ``expose``, with its own words; they are data of the
    policy.
    """

    kind: Literal["policy"] = "policy"
    reason: str


class OnlyPublished(Frozen):
    """Only the published claim of ``mechanism`` covers the column, and the policy accepts that."""

    kind: Literal["only-published"] = "only-published"
    mechanism: str


class FormOfRelease(Frozen):
    """The number of cases, and which values are missing, show; ``changed_by``: mechanisms that
    change them.
    """

    kind: Literal["form-of-release"] = "form-of-release"
    changed_by: tuple[str, ...] = ()


ExposureReason = Annotated[
    PolicyReason | OnlyPublished | FormOfRelease, Field(discriminator="kind")
]

TreatmentReason = Literal[
    "fresh-ids", "covered", "policy", "activities", "undeclared", "unproven", "not-generated"
]
"""Why an attribute is treated as it is: ids are drawn anew; a guarantee covers it; the policy says
so; a log needs activities; nothing names it; only a published claim covers it.
"""

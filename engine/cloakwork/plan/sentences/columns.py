"""What a released column tells, and why an attribute or a column is treated as it is, in words."""

from collections.abc import Iterable
from typing import assert_never

from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.text import listed, quoted
from cloakwork.guarantees.claims import ExposureReason, TreatmentReason, exposures


def exposure_in_words(why: ExposureReason) -> str:
    """Why a column is released without protection."""
    match why:
        case exposures.PolicyReason(reason=reason):
            return reason
        case exposures.OnlyPublished(mechanism=name):
            return f"UNPROVEN: {name} is only published; the policy accepts it (accept_unproven)"
        case exposures.FormOfRelease(changed_by=names):
            shown = (
                "how many cases there are, and which values are missing, "
                "show as in the source after bounding"
            )
            change = "changes" if len(names) == 1 else "change"
            return f"released with the log: {shown}" + (
                f", except for what {listed(names)} {change}" if names else ""
            )
        case _:
            assert_never(why)


def column_in_words(column: str, treatment: str = "keep", names: Iterable[str] = ()) -> str:
    """What a column that was treated so tells whoever reads the released log; ``names``: the actual
    attributes.
    """
    standard = {
        CONTROL_FLOW: (
            "which activities happened in each case, in which order, "
            "and how often each variant occurs"
        ),
        TIMESTAMPS: "when each event happened",
        METADATA: (
            "how many cases and events there are, which values are missing, "
            "and which rows belong together"
        ),
    }
    if column in standard:
        return standard[column]
    each = listed(quoted(names)) or f"'{column}'"
    treated = {
        "generalise": f"which of the policy's groups each value of {each} falls into",
        "pseudonymise": (
            f"which rows share a value of {each} and how often each occurs, under another name"
        ),
    }
    return treated.get(treatment, f"the true values of {each}")


def treatment_in_words(why: TreatmentReason, mechanism: str | None = None) -> str:
    """Why an attribute is treated as it is.

    ``mechanism``: whose published claim alone covers it, or which makes cases without it.
    """
    match why:
        case "fresh-ids":
            return "releases carry fresh random case ids"
        case "covered":
            return "a guarantee covers it"
        case "policy":
            return "the policy says so"
        case "activities":
            return "a log without activities is none"
        case "undeclared":
            return "no guarantee covers it and the policy names no treatment"
        case "unproven":
            return f"UNPROVEN: only the published claim of {mechanism} covers it"
        case "not-generated":
            return f"{mechanism} makes new cases, which have no such attribute"
        case _:
            assert_never(why)

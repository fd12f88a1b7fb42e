"""What the guarantees leave open, said aloud."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from cloakwork.guarantees import VACUOUS_T, ConfidenceBound, KAnonymity, TCloseness
from cloakwork.lineage import METADATA
from cloakwork.plan.draft import Draft
from cloakwork.plan.model import RELEASED
from cloakwork.policy.model import Policy

_FORM: Final = {METADATA}


def warn(draft: Draft) -> Draft:
    """Say what the guarantees leave open."""
    return replace(draft, warnings=(*draft.warnings, *_warnings(draft)))


def _warnings(draft: Draft) -> Iterator[str]:
    goals, policy = draft.goals, draft.policy
    for step in draft.steps:
        if step.proof != "proved":
            yield f"UNPROVEN: {step.mechanism} is only published; this release is for comparison and must not be published"
    kanon = [goal for goal in goals if isinstance(goal, KAnonymity)]
    on_values = [goal for goal in goals if goal.kind in ("t-closeness", "l-diversity", "confidence-bound")]
    bounded = frozenset(column for goal in on_values for column in goal.over)
    sensitive = [
        i.attribute
        for i in draft.attributes
        if i.treatment in RELEASED and _role(policy, i.attribute) == "sensitive" and i.column not in bounded
    ]
    if kanon and sensitive:
        yield (
            f"k-anonymity says nothing about values: a group of indistinguishable cases may share one value of "
            f"{', '.join(sensitive)} (homogeneity); add t-closeness or l-diversity, or drop it"
        )
    if kanon:
        yield "two k-anonymous releases of one dataset can be intersected; the ledger counts them"
    if any(isinstance(goal, ConfidenceBound) for goal in goals):
        yield "two releases of one dataset with a confidence bound can be intersected; the ledger counts them"
    if copied := sorted(
        {column for step in draft.steps if step.lineage.fills for column in step.lineage.writes} - _FORM
    ):
        yield (
            f"events that k-anonymisation inserts copy {', '.join(copied)} from other events: values that number or "
            "identify events, or are the same throughout a case, show by being repeated (or not) which those are; drop such "
            "columns"
        )
    for goal in goals:
        if isinstance(goal, TCloseness) and goal.distance == "emd":
            yield from _weak_closeness(goal)
    if any(goal.count == "cases" for goal in kanon) and draft.facts.unit.attribute is not None:
        yield f"k counts cases, while one unit ({draft.facts.unit.attribute}) may own several: use count: units"
    for item in draft.attributes:
        if item.treatment == "pseudonymise":
            yield f"pseudonyms of '{item.attribute}' keep their frequencies: a value known to be common can be recognised"


def _weak_closeness(goal: TCloseness) -> Iterator[str]:
    """What t-closeness of numbers does not rule out."""
    if goal.scale == "range":
        yield (
            f"t-closeness over '{goal.attribute}' compares numbers as a share of their range: one outlier widens the range "
            "and makes it vacuous; scale: rank does not"
        )
    elif goal.t >= VACUOUS_T:
        yield (
            f"t = {goal.t:g} asks nothing of numbers in '{goal.attribute}': by rank, a class lies at most about "
            f"{VACUOUS_T:g} from the whole; choose t well below"
        )


def _role(policy: Policy, attribute: str) -> str | None:
    rule = policy.rule(attribute)
    return rule.role if rule else None

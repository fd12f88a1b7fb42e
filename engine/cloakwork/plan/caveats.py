"""What the guarantees leave open, said aloud."""

from collections.abc import Iterator
from dataclasses import replace

from cloakwork.guarantees import ConfidenceBound, KAnonymity
from cloakwork.lineage import METADATA, TIMESTAMPS
from cloakwork.log.eventlog import CASE_PREFIX
from cloakwork.plan.draft import Draft
from cloakwork.plan.model import RELEASED
from cloakwork.policy.model import Policy


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
    if kanon and any(item.column != METADATA for item in draft.exposed):
        yield "events that k-anonymisation inserts have no attributes and no raw time: exposed columns show which those are"
    if kanon and (lacking := sorted(_columns_with_gaps(draft))):
        yield (
            f"events that k-anonymisation inserts have no value of {', '.join(lacking)}, which shows which those are; "
            f"'missing: fill' under mechanisms.parameters gives them one"
        )
    if any(goal.count == "cases" for goal in kanon) and draft.facts.unit.attribute is not None:
        yield f"k counts cases, while one unit ({draft.facts.unit.attribute}) may own several: use count: units"
    for item in draft.attributes:
        if item.treatment == "pseudonymise":
            yield f"pseudonyms of '{item.attribute}' keep their frequencies: a value known to be common can be recognised"


def _columns_with_gaps(draft: Draft) -> Iterator[str]:
    """The attributes of events whose values are protected and not filled in."""
    for step in draft.steps:
        column = str(step.params.get("column", ""))
        of_events = column in step.lineage.writes - {TIMESTAMPS} and not column.startswith(CASE_PREFIX)
        if of_events and step.params.get("missing") == "keep":
            yield f"'{column}'"


def _role(policy: Policy, attribute: str) -> str | None:
    rule = policy.rule_of(attribute)
    return rule.role if rule else None

"""The steps that treat attributes: coarser quasi-identifiers, the policy's treatments, and values
for inserted events.
"""

from dataclasses import replace
from typing import Final, assert_never

from cloakwork.base.errors import Cause
from cloakwork.base.globs import is_glob
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.naming import CASE_PREFIX
from cloakwork.guarantees import KAnonymity
from cloakwork.mechanisms.attributes.redact import RedactParams, Treatment
from cloakwork.mechanisms.kanon.fill import FillParams
from cloakwork.mechanisms.kanon.generalise import (
    MOST_COMBINATIONS,
    GeneraliseParams,
    QuasiIdentifier,
)
from cloakwork.plan.choose import step_of
from cloakwork.plan.model import RELEASED, Draft, Step, TreatedAttribute
from cloakwork.policy.model import AttributeRule


def generalise_quasi_identifiers(draft: Draft) -> Draft:
    """Add a step for each k-anonymity over attributes beside the control flow, which makes their
    values coarser.
    """
    steps = list(draft.steps)
    causes = list(draft.causes)
    for index, goal in enumerate(draft.goals):
        if isinstance(goal, KAnonymity) and len(goal.over) > 1 and CONTROL_FLOW in goal.over:
            found = _generalisation_step(index, goal, draft)
            if isinstance(found, Cause):
                causes.append(found)
            else:
                steps.append(found)
    return replace(draft, steps=tuple(steps), causes=tuple(causes))


def _generalisation_step(index: int, goal: KAnonymity, draft: Draft) -> Step | Cause:
    """The step that makes the goal's attributes coarser, or why there can be none."""
    mechanism = draft.catalogue["kanon/generalise"]
    policy = draft.policy
    name = goal.cited()
    if not policy.spec.mechanisms.allows(mechanism.name):
        return Cause(name, "mechanisms.allow or mechanisms.deny rules it out", mechanism.name)
    others = [column for column in goal.over if column != CONTROL_FLOW]
    for column in others:
        if column in (TIMESTAMPS, METADATA) or is_glob(column):
            reason = f"'{column}' is no single attribute that could be made coarser"
            return Cause(name, reason, mechanism.name)
    # To count units, the step has to read whose case each is.
    unit = draft.facts.unit.attribute if goal.count == "units" else None
    levels = []
    for column in others:
        rule = policy.rule(column)
        if rule is None:
            levels.append(QuasiIdentifier(attribute=column))
            continue
        # With generalise the policy's level is the finest; else true values stay where they may.
        fixed = rule.treatment == "generalise"
        finest = rule.level if fixed and rule.hierarchy is not None else None
        levels.append(
            QuasiIdentifier(
                attribute=column,
                hierarchy=rule.hierarchy,
                bins=rule.bins,
                raw=not fixed,
                finest=finest,
            )
        )
    params = GeneraliseParams(k=goal.k, unit=unit, attributes=tuple(levels))
    if params.combinations > MOST_COMBINATIONS:
        # Python refuses to write a number of thousands of digits out, so it is compared first.
        endless = params.combinations >= _COUNTLESS
        count = f"more than {_COUNTLESS:,}" if endless else f"{params.combinations:,}"
        reason = f"{count} combinations of levels; {MOST_COMBINATIONS:,} can be compared"
        return Cause(name, reason, mechanism.name)
    listed = ", ".join(others)
    why = f"makes {listed} coarser where fewer than {goal.k} share a value within a variant"
    return step_of(mechanism, params, draft.facts, why=why, goals=(index,))


_COUNTLESS: Final = 10**12
"""From here on nobody reads the digits."""


def treat_attributes(draft: Draft) -> Draft:
    """End with a step that keeps, pseudonymises or generalises what the policy names, and drops all
    else.
    """
    rules = draft.policy.spec.attributes
    treatments = tuple(
        _treatment_of(item, rules[item.attribute], draft.policy.metadata.dataset)
        for item in draft.attributes
        if item.column not in (CONTROL_FLOW, TIMESTAMPS, METADATA)
    )
    # Where units are counted on the release, what identifies them must last until then.
    groups = [goal.least_group() for goal in draft.goals]
    unit = draft.facts.unit.attribute
    released = {item.attribute for item in draft.attributes if item.treatment in RELEASED}
    is_counted = any(group is not None and group.counts == "units" for group in groups)
    counted = {goal.employees for goal in draft.goals} | ({unit} if is_counted else set())
    hidden = sorted(name for name in counted if name is not None and name not in released)
    if hidden:
        others = (item for item in treatments if item.attribute not in hidden)
        lasting = (Treatment(attribute=name, treatment="protect") for name in hidden)
        treatments = (*others, *lasting)
    mechanism = draft.catalogue["attributes/redact"]
    why = "treats attributes as the policy says; whatever it does not name is dropped"
    step = step_of(mechanism, RedactParams(treatments=treatments), draft.facts, why=why)
    return replace(draft, steps=(*draft.steps, step))


def fill_inserted_events(draft: Draft) -> Draft:
    """Where a step inserts events, add one that gives these the attributes of kept events."""
    if not any(step.lineage.inserts for step in draft.steps):
        return draft
    attributes = draft.released - {CONTROL_FLOW, TIMESTAMPS, METADATA}
    columns = {column for column in attributes if not column.startswith(CASE_PREFIX)}
    # Every event is given those that are drawn anew.
    for step in draft.steps:
        if step.lineage.is_given_flow:
            columns -= step.lineage.writes
    # Times that a step writes anew need none filled in.
    times_written = any(TIMESTAMPS in step.lineage.writes for step in draft.steps)
    raw_times = TIMESTAMPS in draft.released and not times_written
    if not columns and not raw_times:
        return draft
    # Groups lie within a variant, so donors from another one could break them.
    grouped_by = any(columns & set(goal.quasi_identifiers()) for goal in draft.goals)
    filled = columns | {TIMESTAMPS} if raw_times else columns
    params = FillParams(
        columns=tuple(sorted(filled)),
        times=raw_times,
        donors="variant" if grouped_by else "activity",
    )
    why = (
        "gives inserted events attributes of other events of the same activity, "
        "so that none shows by what it lacks"
    )
    step = step_of(draft.catalogue["kanon/fill"], params, draft.facts, why=why)
    return replace(draft, steps=(*draft.steps, step))


def _treatment_of(item: TreatedAttribute, rule: AttributeRule, dataset: str) -> Treatment:
    """What ``attributes/redact`` does with an attribute."""
    match item.treatment:
        case "keep" | "protect" | "drop":
            return Treatment(attribute=item.attribute, treatment=item.treatment)
        case "pseudonymise" | "generalise":
            return Treatment(
                attribute=item.attribute,
                treatment=item.treatment,
                hierarchy=rule.hierarchy,
                level=rule.level,
                bins=rule.bins,
                link=dataset if rule.link else None,
            )
        case "replace":
            return Treatment(attribute=item.attribute, treatment="drop")
        case _:
            assert_never(item.treatment)

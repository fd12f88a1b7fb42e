"""The planner's passes: each takes a draft and returns a better one."""

from dataclasses import replace
from typing import Final

from cloakwork.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.mechanisms.bound import BoundParams
from cloakwork.plan.budget import charge_budget, check_deltas, check_profile, goal_after_profile
from cloakwork.plan.caveats import add_caveats
from cloakwork.plan.choose import choose_mechanism, step_of
from cloakwork.plan.columns import (
    classify_columns,
    expose_metadata,
    expose_unproven,
    refuse_open_globs,
)
from cloakwork.plan.draft import Draft, Pass
from cloakwork.plan.model import Step
from cloakwork.plan.treatments import (
    fill_inserted_events,
    generalise_quasi_identifiers,
    treat_attributes,
)


def bound_contributions(draft: Draft) -> Draft:
    """Begin with a step that bounds what one unit contributes, by declared facts only."""
    facts, mechanism = draft.facts, draft.catalogue["bound"]
    params = BoundParams(
        attribute=facts.unit.attribute,
        max_cases=facts.unit.max_cases,
        alphabet=facts.alphabet,
        longest_case=facts.longest_case,
    )
    why = (
        "cuts what the declared facts rule out, "
        "so that one protected unit counts for a bounded part of the log"
    )
    return replace(draft, steps=(*draft.steps, step_of(mechanism, params, facts, why=why)))


def choose_mechanisms(draft: Draft) -> Draft:
    """Choose one mechanism for each guarantee, for what the profile leaves of its budget."""
    choices = []
    for index, goal in enumerate(draft.goals):
        left = goal_after_profile(draft.profile, goal)
        if left is not None:
            allowed = draft.policy.spec.mechanisms
            choices.append(choose_mechanism(index, left, draft.facts, allowed, draft.catalogue))
    return replace(
        draft,
        steps=(*draft.steps, *(choice.step for choice in choices if choice.step)),
        considered=tuple(item for choice in choices for item in choice.considered),
        causes=(*draft.causes, *(cause for choice in choices for cause in choice.causes)),
    )


def order_steps(draft: Draft) -> Draft:
    """Run a step that makes new cases before those that change cases, and a writer of a column
    before its readers; then inserted events are completed; what protects an attribute's values
    comes last, after the policy's treatment of them, and sees every event that is released.
    """
    return replace(draft, steps=tuple(sorted(draft.steps, key=_running_order)))


def _running_order(step: Step) -> int:
    if step.mechanism == "bound":
        return 0
    if step.lineage.generates:
        return 1
    if CONTROL_FLOW in step.lineage.writes:
        return 2
    if step.lineage.fills:
        return 4
    protects = step.goals and step.lineage.writes - {TIMESTAMPS, METADATA}
    return 5 if protects else 3


PASSES: Final[tuple[Pass, ...]] = (
    classify_columns,
    refuse_open_globs,
    check_profile,
    bound_contributions,
    choose_mechanisms,
    expose_unproven,
    generalise_quasi_identifiers,
    treat_attributes,
    fill_inserted_events,
    order_steps,
    expose_metadata,
    charge_budget,
    check_deltas,
    add_caveats,
)

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
    step = step_of(mechanism, params, facts, why=_what_bound_leaves_out(params))
    return replace(draft, steps=(*draft.steps, step))


def _what_bound_leaves_out(params: BoundParams) -> str:
    """What the step does, in plain words; of cases and events it may leave out, it says which."""
    left_out = ["events without an activity"]
    if params.alphabet is not None:
        left_out = ["events whose activity the policy does not declare"]
    if params.longest_case is not None:
        left_out.append(f"events of a case after the first {params.longest_case:,}")
    left_out.append("cases without events")
    if params.attribute is not None:
        kept = f"{params.max_cases:,} cases" if params.max_cases > 1 else "one case"
        left_out.append(f"all but {kept} of each '{params.attribute}', chosen at random")
    listed = ", ".join(left_out[:-1]) + f" and {left_out[-1]}"
    return f"leaves out {listed}, so that one unit counts for no more than the policy allows"


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

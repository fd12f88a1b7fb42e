"""Prove a plan again from scratch: every cost and every claim is recomputed and compared with what it states."""

from cloakwork.errors import PlanMoved, PlanUnsound
from cloakwork.mechanisms.base import Offer
from cloakwork.mechanisms.registry import catalogue as all_mechanisms
from cloakwork.plan.choose import Catalogue, step_of
from cloakwork.plan.derive import derive, goal_name
from cloakwork.plan.model import Claim, Plan, Step
from cloakwork.plan.passes import Draft, charge_budget, classify_columns
from cloakwork.policy.load import digest


def prove(plan: Plan, catalogue: Catalogue | None = None) -> tuple[Claim, ...]:
    """The claims that follow from the plan's policy and steps, recomputed.

    Trusts nothing that the plan states about itself: digest, parameters, events, lineage, exposures, charges and claims
    are all derived anew. Raises PlanMoved where a step is unknown here, PlanUnsound where anything differs.
    """
    catalogue = all_mechanisms() if catalogue is None else catalogue
    _same("policy digest", digest(plan.policy), plan.policy_digest)
    _same("facts", plan.policy.facts(), plan.facts)
    draft = charge_budget(classify_columns(Draft(plan.policy, plan.facts, catalogue)))
    _same("attributes", draft.attributes, plan.attributes)
    _same("exposed columns", draft.exposed, plan.exposed)
    _same("charges", draft.charges, plan.charges)
    for step in plan.steps:
        _same(f"step {step.mechanism}", _again(step, plan, draft, catalogue), step)
    derivation = derive(draft.goals, plan.steps, draft.released, plan.facts)
    if draft.causes or derivation.causes:
        raise PlanUnsound("; ".join(str(cause) for cause in (*draft.causes, *derivation.causes)))
    _same("claims", derivation.claims, plan.claims)
    return derivation.claims


def _again(step: Step, plan: Plan, draft: Draft, catalogue: Catalogue) -> Step:
    """The step as its mechanism describes it today, after asking it again whether it meets the goals."""
    if step.mechanism not in catalogue:
        raise PlanMoved(f"the plan uses mechanism '{step.mechanism}', which is not installed here")
    mechanism = catalogue[step.mechanism]
    params = mechanism.Params.model_validate(step.params)
    for index in step.goals:
        goal = draft.goals[index]
        answer = mechanism.offer(goal, plan.facts, plan.policy.spec.mechanisms.parameters.get(step.mechanism, {}))
        if not isinstance(answer, Offer) or answer.params != params:
            raise PlanUnsound(f"step {step.mechanism} does not meet {goal_name(goal)} with these parameters")
    return step_of(mechanism, params, plan.facts, why=step.why, goals=step.goals)


def _same(what: str, derived: object, stated: object) -> None:
    if derived != stated:
        raise PlanUnsound(f"{what}: the plan states {stated!r}, derived is {derived!r}")

"""Prove a plan again from scratch: whatever it states must be what its policy implies."""

from cloakwork.base.errors import CloakworkError, PlanImpossible, PlanMoved, PlanUnsound
from cloakwork.base.records import stated, without_prose
from cloakwork.mechanisms.registry import catalogue as all_mechanisms
from cloakwork.plan.choose import Catalogue
from cloakwork.plan.model import Claim, Plan
from cloakwork.plan.planner import make_plan

_FIELDS_OF_THE_MAKER = ("engine",)
"""What a plan says about the program that made it, and nothing follows from."""


def prove(plan: Plan, catalogue: Catalogue | None = None) -> tuple[Claim, ...]:
    """The claims that follow from the plan's policy, recomputed.

    Raises PlanMoved and PlanUnsound as ``replan`` does.
    """
    return replan(plan, catalogue).claims


def replan(plan: Plan, catalogue: Catalogue | None = None) -> Plan:
    """The plan that follows from ``plan``'s policy: the same in all that it states, and worded as
    this engine words it.

    A plan is a function of its policy, of the window that it names and of the DP profile in it, if
    any, so nothing else that it states is trusted: facts, attributes, exposures, every step with
    its order, parameters, cost and lineage, charges, claims, what is unproven, warnings and what
    was considered are planned anew and must be the same. Prose is not compared: it proves nothing,
    and whoever shows a plan shows the one returned here. Raises PlanMoved where a step is unknown
    here, PlanUnsound where anything differs.
    """
    catalogue = all_mechanisms() if catalogue is None else catalogue
    used = [step.mechanism for step in plan.steps]
    weighed = [item.mechanism for item in plan.considered]
    for name in (*used, *weighed):
        if name not in catalogue:
            raise PlanMoved(f"the plan uses mechanism '{name}', which is not installed here")
    try:
        implied = make_plan(
            plan.policy,
            catalogue=catalogue,
            profile=plan.profile,
            window=plan.facts.release_window,
        )
    except PlanImpossible as error:
        raise PlanUnsound(str(error)) from error
    for name in Plan.model_fields.keys() - set(_FIELDS_OF_THE_MAKER):
        if stated(getattr(plan, name)) != stated(getattr(implied, name)):
            raise PlanUnsound(f"what the plan states about {name} is not what its policy implies")
    return implied


def require_window(plan: Plan, window: str | None) -> None:
    """Raise PlanMoved where ``window`` is named and ``plan`` was made for another, or for none."""
    planned = plan.facts.release_window
    if window not in (None, planned):
        made_for = "no window" if planned is None else f"window {planned}"
        raise PlanMoved(f"the plan was made for {made_for}, not for {window}; plan again for it")


def with_own_sentences(plan: Plan) -> Plan:
    """The plan as this engine words it; without any prose where it cannot be planned again here.

    For showing a plan that somebody else made: nothing of it is printed that does not follow from
    its records.
    """
    try:
        return replan(plan)
    except (
        CloakworkError,
        PlanUnsound,
        ValueError,
        TypeError,
        LookupError,
    ):  # parameters that no planner wrote
        return without_prose(plan)

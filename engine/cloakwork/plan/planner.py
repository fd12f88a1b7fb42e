"""Make a plan: run the passes, derive the claims, refuse with every cause at once. And prove a plan
again from scratch: whatever it states must be what its policy implies.
"""

from cloakwork.base.errors import CloakworkError, PlanImpossible, PlanMoved, PlanUnsound
from cloakwork.base.facts import Facts
from cloakwork.base.records import stated, without_prose
from cloakwork.base.text import version_of
from cloakwork.mechanisms.profile import Profile
from cloakwork.mechanisms.registry import catalogue as all_mechanisms
from cloakwork.plan.budget import facts_in_window
from cloakwork.plan.derive import derive
from cloakwork.plan.model import Catalogue, Claim, Draft, Pass, Plan
from cloakwork.plan.passes import PASSES
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.load import digest, placed_causes
from cloakwork.policy.model import Policy, describe_version


def plan_text(
    text: str, label: str, *, profile: Profile | None = None, window: str | None = None
) -> Plan:
    """``make_plan`` for a policy's text, which errors call ``label``. Raises PolicyError, and
    PlanImpossible whose causes say line and column where one place of the text is the cause.
    """
    policy = parse_policy(text, label)
    try:
        return make_plan(policy, profile=profile, window=window)
    except PlanImpossible as error:
        causes = placed_causes(error.causes, text, label)
        raise PlanImpossible(causes, policy=describe_version(policy)) from error


def make_plan(
    policy: Policy,
    facts: Facts | None = None,
    catalogue: Catalogue | None = None,
    *,
    profile: Profile | None = None,
    window: str | None = None,
    passes: tuple[Pass, ...] = PASSES,
) -> Plan:
    """The plan for ``policy``; reads the policy, declared facts and a profile that was paid for,
    never a log.

    ``facts``: what is publicly known; by default what the policy declares, and what ``profile``
    adds. ``catalogue``: the mechanisms to choose from; by default all that are installed.
    ``window``: of a policy with ``budget.windows``, by name: which cases are released. Raises
    PlanImpossible with every cause.
    """
    if facts is None:
        facts = policy.facts() if profile is None else profile.facts(policy.facts())
    facts = facts_in_window(policy, facts, window)
    draft = Draft(
        policy, facts, all_mechanisms() if catalogue is None else catalogue, profile=profile
    )
    # Passes note causes and go on, so that a refusal names all of them at once.
    for improve in passes:
        draft = improve(draft)
    accept = policy.spec.mechanisms.accept_unproven
    derivation = derive(
        draft.goals, draft.steps, draft.released, facts, accept_unproven=accept, profile=profile
    )
    # Where a pass refuses, what cannot be derived either only follows from that.
    causes = draft.causes or derivation.causes
    if causes:
        raise PlanImpossible(causes, policy=describe_version(policy))
    return Plan(
        engine=version_of("cloakwork"),
        policy=policy,
        policy_digest=digest(policy),
        facts=facts,
        profile=profile,
        attributes=draft.attributes,
        steps=draft.steps,
        claims=derivation.claims,
        unproven=derivation.unproven,
        exposed=draft.exposed,
        charges=draft.charges,
        considered=draft.considered,
        warnings=draft.warnings,
    )


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
    # What was only weighed counts, too: without it, what was considered would differ.
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
    # Field by field, so that the refusal names what differs; prose is left out.
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

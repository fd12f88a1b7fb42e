"""Make a plan: run the passes, derive the claims, refuse with every cause at once."""

from importlib.metadata import version
from pathlib import Path

from cloakwork.base.errors import PlanImpossible
from cloakwork.base.facts import Facts
from cloakwork.mechanisms.profile import Profile
from cloakwork.mechanisms.registry import catalogue as all_mechanisms
from cloakwork.plan.choose import Catalogue
from cloakwork.plan.derive import derive
from cloakwork.plan.draft import Draft, Pass
from cloakwork.plan.model import Plan
from cloakwork.plan.passes import PASSES
from cloakwork.plan.policies import parse_policy
from cloakwork.plan.windows import facts_in_window
from cloakwork.policy.document import read_text
from cloakwork.policy.load import digest, placed_causes
from cloakwork.policy.model import Policy, describe_version


def plan_file(
    path: str | Path, *, profile: Profile | None = None, window: str | None = None
) -> Plan:
    """``plan_text`` for a policy's file."""
    return plan_text(read_text(Path(path)), str(path), profile=profile, window=window)


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
    for improve in passes:
        draft = improve(draft)
    accept = policy.spec.mechanisms.accept_unproven
    derivation = derive(
        draft.goals, draft.steps, draft.released, facts, accept_unproven=accept, profile=profile
    )
    causes = draft.causes or derivation.causes
    if causes:
        raise PlanImpossible(causes, policy=describe_version(policy))
    return Plan(
        engine=version("cloakwork"),
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

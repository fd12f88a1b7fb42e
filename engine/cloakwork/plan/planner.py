"""Make a plan: run the passes, derive the claims, refuse with every cause at once. Each guarantee
judges by its own rule (``PrivacyGuarantee.derive``), from lineage and privacy events alone, which
claims follow from the steps. And prove a plan again from scratch: whatever it states must be what
its policy implies.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from cloakwork.accounting.events import cost
from cloakwork.base.costs import (
    Composed,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
)
from cloakwork.base.errors import Cause, CloakworkError, PlanImpossible, PlanMoved, PlanUnsound
from cloakwork.base.facts import Facts
from cloakwork.base.frozen import frozen
from cloakwork.base.records import agree, stated, without_prose
from cloakwork.base.text import version_of
from cloakwork.guarantees import Guarantee
from cloakwork.guarantees.claims import AskedAgain
from cloakwork.guarantees.flow import FlowStep, Underived, follow_columns
from cloakwork.mechanisms.profile import Profile
from cloakwork.mechanisms.registry import catalogue as all_mechanisms
from cloakwork.plan.budget import facts_in_window
from cloakwork.plan.model import Catalogue, Claim, Draft, Pass, Plan, Step, UnprovenClaim
from cloakwork.plan.passes import PASSES
from cloakwork.plan.policies import parse_policy
from cloakwork.plan.sentences import claim_sentence
from cloakwork.policy.load import digest, placed_causes
from cloakwork.policy.model import Policy, describe_version


@frozen
class Derivation:
    """The claims that follow from the steps, the goals that stay unproven, and the causes why
    others do not follow.
    """

    claims: tuple[Claim, ...]
    causes: tuple[Cause, ...]
    unproven: tuple[UnprovenClaim, ...] = ()


def derive(
    goals: Sequence[Guarantee],
    steps: Sequence[Step],
    released: Iterable[str],
    facts: Facts,
    *,
    accept_unproven: bool = False,
    profile: Profile | None = None,
) -> Derivation:
    """Derive each goal, or say why it does not follow.

    ``goals``: guarantees over columns (not attribute names). ``released``: the columns that are
    released, besides ``control-flow`` and ``metadata``, which always are. ``accept_unproven``: a
    goal whose step is only published becomes an entry under ``unproven`` instead of a cause; it is
    never a claim. ``profile``: what some of the facts were measured by; it is published with the
    plan, so its noise is part of what a claim of differential privacy costs.
    """
    profiled = None if profile is None else profile.params.event()
    flow = follow_columns([flow_step(step) for step in steps], released, facts, profiled)
    published_steps = {
        index: step for step in steps for index in step.goals if step.proof == "published"
    }
    claims = []
    causes = []
    unproven = []
    for index, goal in enumerate(goals):
        # Before deriving: what is only published never becomes a claim.
        if accept_unproven and index in published_steps:
            unproven.append(_unproven_entry(goal, published_steps[index]))
            continue
        # Steps say by index which goals they serve, so the rule has to know its own.
        found = goal.derive(replace(flow, goal=index))
        if isinstance(found, Underived):
            causes += [Cause(goal.cited(), reason) for reason in found.causes]
            continue
        price = goal.price()
        # All noise is composed, whichever goal a step serves.
        enforced = {step.mechanism for step in steps if step.proof == "kernel"}
        asked = (AskedAgain(mechanisms=tuple(sorted(enforced))),) if price and enforced else ()
        claims.append(
            Claim(
                guarantee=goal,
                sentence=claim_sentence(goal, found.given),
                basis=found.basis,
                currency=None if price is None else price.currency,
                cost=found.cost,
                naive=found.naive,
                given=found.given,
                derivation=found.derivation,
                assumptions=(*found.assumptions, *asked),
            )
        )
    return Derivation(tuple(claims), tuple(causes), tuple(unproven))


def flow_step(step: Step) -> FlowStep:
    """What rules read of a step."""
    return FlowStep(
        mechanism=step.mechanism,
        params=step.params,
        goals=step.goals,
        proved=step.proof != "published",
        event=step.event,
        currency=step.currency,
        lineage=step.lineage,
    )


def _unproven_entry(goal: Guarantee, step: Step) -> UnprovenClaim:
    """What is published of a goal, what is derived of it here, and what breaks it."""
    price = goal.price()
    # At the delta of the goal, so that both can be compared.
    spent = cost(step.event, 0.0 if price is None else price.cost.delta)
    broken = tuple(_unbounded_reasons(step.event))
    return UnprovenClaim(
        guarantee=goal,
        mechanism=step.mechanism,
        published=step.published or step.why,
        currency=step.currency,
        cost=None if math.isinf(spent.epsilon) else spent,
        why=broken or ("nobody has proved it here, whatever the noise that it draws would cost",),
    )


def _unbounded_reasons(event: PrivacyEvent) -> Iterator[str]:
    match event:
        case NonPrivate(reason=reason):
            yield reason
        case Composed(events=events):
            for each in events:
                yield from _unbounded_reasons(each)
        case Repeated(event=inner) | PoissonSampled(event=inner):
            yield from _unbounded_reasons(inner)


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


UNPROVABLE = (PlanUnsound, CloakworkError, ValueError, TypeError, LookupError)
"""What is raised while a plan is proved that nobody could have made: unknown steps, parameters,
goals.
"""


def prove(plan: Plan) -> tuple[Claim, ...]:
    """The claims that follow from the plan's policy, recomputed.

    Raises PlanMoved and PlanUnsound as ``replan`` does.
    """
    return replan(plan).claims


def replan(plan: Plan, catalogue: Catalogue | None = None) -> Plan:
    """The plan that follows from ``plan``'s policy: the same in all that it states, and worded as
    this engine words it.

    A plan is a function of its policy, of the window that it names, of the DP profile in it, if
    any, and of the form of the log's file, from which no claim follows. So nothing else that it
    states is trusted: facts, attributes, exposures, every step with its order, parameters, cost and
    lineage, charges, claims, what is unproven, warnings and what was considered are planned anew
    and must be the same, up to the last bits of a float. Prose is not compared: it proves nothing,
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
        ).model_copy(update={"form": plan.form})
    except PlanImpossible as error:
        raise PlanUnsound(str(error)) from error
    # Field by field, so that the refusal names what differs; prose is left out, and the program
    # that made the plan, from which nothing follows.
    for name in Plan.model_fields.keys() - {"engine"}:
        if not agree(stated(getattr(plan, name)), stated(getattr(implied, name))):
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
    except UNPROVABLE:
        return without_prose(plan)

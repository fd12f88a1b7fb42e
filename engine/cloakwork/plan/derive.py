"""Which claims follow from the steps of a plan: each guarantee judges by its own rule
(``PrivacyGuarantee.derive``), from lineage and privacy events alone.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from cloakwork.accounting.events import cost
from cloakwork.base.costs import (
    Composed,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
)
from cloakwork.base.errors import Cause
from cloakwork.base.facts import Facts
from cloakwork.guarantees import Guarantee
from cloakwork.guarantees.claims import AskedAgain
from cloakwork.guarantees.flow import FlowStep, Underived, follow_columns
from cloakwork.mechanisms.profile import Profile
from cloakwork.plan.model import Claim, Step, UnprovenClaim
from cloakwork.plan.sentences import claim_sentence


@dataclass(frozen=True, slots=True)
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

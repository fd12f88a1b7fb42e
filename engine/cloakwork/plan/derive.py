"""Derive what a sequence of steps guarantees, from lineage and privacy events alone. No step states
a claim itself.

The rules are those of ``docs/guarantees.md``; each is one function, in ``derive_counted`` or
``derive_noise``. A goal that cannot be derived yields causes.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from cloakwork.accounting.events import cost
from cloakwork.errors import Cause
from cloakwork.facts import Facts
from cloakwork.guarantees import (
    ConfidenceBound,
    DifferentialPrivacy,
    Guarantee,
    KAnonymity,
    LDiversity,
    LocalDP,
    MetricPrivacy,
    TCloseness,
)
from cloakwork.lineage import CONTROL_FLOW, METADATA
from cloakwork.mechanisms.profile import Profile
from cloakwork.plan.derive_counted import confidence_bound, k_anonymity, values_in_classes
from cloakwork.plan.derive_noise import conditional, unconditional
from cloakwork.plan.flow import trace
from cloakwork.plan.model import Claim, Step, Unproven
from cloakwork.plan.premises import Premises
from cloakwork.privacy_event import Composed, NonPrivate, PoissonSampled, PrivacyEvent, Repeated


@dataclass(frozen=True, slots=True)
class Derivation:
    """The claims that follow from the steps, the goals that stay unproven, and the causes why
    others do not follow.
    """

    claims: tuple[Claim, ...]
    causes: tuple[Cause, ...]
    unproven: tuple[Unproven, ...] = ()


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
    leaving = frozenset(released) | {CONTROL_FLOW, METADATA}
    premises = Premises(tuple(steps), trace(steps, leaving), leaving, facts, profile)
    unproven = {
        index: step
        for step in steps
        for index in step.goals
        if step.proof != "proved" and accept_unproven
    }
    results = [
        _derived(index, goal, premises) for index, goal in enumerate(goals) if index not in unproven
    ]
    return Derivation(
        tuple(result for result in results if isinstance(result, Claim)),
        tuple(cause for result in results if not isinstance(result, Claim) for cause in result),
        tuple(_unproven(goals[index], step) for index, step in sorted(unproven.items())),
    )


def _unproven(goal: Guarantee, step: Step) -> Unproven:
    """What is known of a goal that a published mechanism serves: its claim, what we derive, and
    what breaks.
    """
    price = goal.price()
    spent = cost(step.event, 0.0 if price is None else price.cost.delta)
    broken = tuple(_reasons_of(step.event))
    return Unproven(
        guarantee=goal,
        mechanism=step.mechanism,
        published=step.published or step.why,
        currency=step.currency,
        cost=None if math.isinf(spent.epsilon) else spent,
        why=broken or ("nobody has proved it here, whatever the noise that it draws would cost",),
    )


def _reasons_of(event: PrivacyEvent) -> Iterator[str]:
    """Why parts of an event have no bound."""
    match event:
        case NonPrivate(reason=reason):
            yield reason
        case Composed(events=events):
            for each in events:
                yield from _reasons_of(each)
        case Repeated(event=inner) | PoissonSampled(event=inner):
            yield from _reasons_of(inner)


def _derived(index: int, goal: Guarantee, premises: Premises) -> Claim | list[Cause]:
    """The claim that follows, or the causes why none does."""
    outcome = _by_rule_of_kind(index, goal, premises)
    if isinstance(outcome, Claim):
        return outcome
    name = goal_name(goal)
    return [Cause(name, reason) for reason in outcome]


def _by_rule_of_kind(index: int, goal: Guarantee, premises: Premises) -> Claim | list[str]:
    """Every kind has its rule here; without one this does not type-check."""
    match goal:
        case KAnonymity():
            return k_anonymity(index, goal, premises)
        case ConfidenceBound():
            return confidence_bound(index, goal, premises)
        case TCloseness() | LDiversity():
            return values_in_classes(index, goal, premises)
        case DifferentialPrivacy(neighbours="unbounded"):
            return unconditional(goal, premises)
        case DifferentialPrivacy() | MetricPrivacy():
            return conditional(goal, premises)
        case LocalDP():
            return [f"this version derives no {goal.kind}"]
        case _:
            assert_never(goal)


def goal_name(goal: Guarantee) -> str:
    """A goal as people cite it: ``differential-privacy over control-flow``."""
    return f"{goal.kind} over {', '.join(goal.over)}"

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
from cloakwork.base.costs import (
    Composed,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
)
from cloakwork.base.errors import Cause
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA
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
from cloakwork.guarantees.derivation_context import DerivationContext
from cloakwork.guarantees.derive_counted import (
    derive_confidence_bound,
    derive_k_anonymity,
    derive_values_in_classes,
)
from cloakwork.guarantees.derive_local import derive_local
from cloakwork.guarantees.derive_noise import derive_given_columns, derive_unconditional
from cloakwork.guarantees.flow import trace_columns
from cloakwork.guarantees.phrases import listed_briefly
from cloakwork.mechanisms.profile import Profile
from cloakwork.plan.model import Claim, Step, UnprovenClaim


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
    columns = frozenset(released) | {CONTROL_FLOW, METADATA}
    flow = trace_columns(steps, columns)
    context = DerivationContext(tuple(steps), flow, columns, facts, profile)
    published_steps = {
        index: step for step in steps for index in step.goals if step.proof == "published"
    }
    claims, causes, unproven = [], [], []
    for index, goal in enumerate(goals):
        if accept_unproven and index in published_steps:
            unproven.append(_unproven_entry(goal, published_steps[index]))
            continue
        outcome = _by_rule_of_kind(index, goal, context)
        if isinstance(outcome, Claim):
            claims.append(outcome)
        else:
            causes += [Cause(goal_name(goal), reason) for reason in outcome]
    return Derivation(tuple(claims), tuple(causes), tuple(unproven))


def _unproven_entry(goal: Guarantee, step: Step) -> UnprovenClaim:
    """What is known of a goal that a published mechanism serves: its claim, what we derive, and
    what breaks.
    """
    price = goal.price()
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
    """Why parts of an event have no bound."""
    match event:
        case NonPrivate(reason=reason):
            yield reason
        case Composed(events=events):
            for each in events:
                yield from _unbounded_reasons(each)
        case Repeated(event=inner) | PoissonSampled(event=inner):
            yield from _unbounded_reasons(inner)


def _by_rule_of_kind(index: int, goal: Guarantee, context: DerivationContext) -> Claim | list[str]:
    """Every kind has its rule here; without one this does not type-check."""
    match goal:
        case KAnonymity():
            return derive_k_anonymity(index, goal, context)
        case ConfidenceBound():
            return derive_confidence_bound(index, goal, context)
        case TCloseness() | LDiversity():
            return derive_values_in_classes(index, goal, context)
        case DifferentialPrivacy(neighbours="unbounded"):
            return derive_unconditional(goal, context)
        case DifferentialPrivacy() | MetricPrivacy():
            return derive_given_columns(goal, context)
        case LocalDP():
            return derive_local(goal, context)
        case _:
            assert_never(goal)


def goal_name(goal: Guarantee) -> str:
    """A goal as people cite it: ``differential-privacy over control-flow``; of many attributes,
    their number.
    """
    if isinstance(goal, DifferentialPrivacy) and goal.covers_whole_log():
        return f"{goal.kind} over {listed_briefly(goal.over)}"
    return f"{goal.kind} over {', '.join(goal.over)}"

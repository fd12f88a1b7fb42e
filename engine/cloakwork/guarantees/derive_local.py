"""The rule for local differential privacy: each value, or all values of a case, passed noise."""

from collections.abc import Iterator

from cloakwork.accounting.events import cost, naive
from cloakwork.base.costs import Composed, PrivacyEvent
from cloakwork.guarantees import LocalDP
from cloakwork.guarantees.claims.reasons import NoiseCosts, ValuesOnlyThroughNoise
from cloakwork.guarantees.derivation_context import DerivationContext, form_assumptions
from cloakwork.plan.model import Claim, Step
from cloakwork.plan.sentences import claim_sentence


def derive_local(goal: LocalDP, context: DerivationContext) -> Claim | list[str]:
    """No raw value of a covered attribute reaches any released column but through local noise,
    which costs a value, or a case, no more than the goal allows.

    Of a claim about values each attribute is charged by itself: the guarantee is about one value,
    and given all others. Of one about cases the costs of all attributes add up.
    """
    columns = context.flow.columns
    used = {
        column: columns[column].measured if column in columns else frozenset[int]()
        for column in goal.over
    }
    steps = sorted(frozenset[int]().union(*used.values()))
    causes = [
        *_chosen_by_value(goal, context),
        *_raw_values(goal, context),
        *_without_local_noise(goal, context, [context.steps[index] for index in steps]),
        *(reason for index, reason in context.flow.unproven_measurements.items() if index in steps),
    ]
    if causes:
        return causes
    if goal.per == "case":
        charged = [_composed(context, steps)]
    else:
        charged = [_composed(context, sorted(indexes)) for indexes in used.values()]
    largest = max(charged, key=lambda event: cost(event, 0.0).epsilon)
    spent, allowed = cost(largest, 0.0), goal.price().cost
    if spent.epsilon > allowed.epsilon or spent.delta > allowed.delta:
        return [
            f"the noise costs epsilon {spent.epsilon:.6g} a {goal.per}: "
            f"more than {allowed.epsilon:g}"
        ]
    return Claim(
        guarantee=goal,
        sentence=claim_sentence(goal, None),
        basis="derived",
        currency="local",
        cost=spent,
        naive=naive(largest),
        derivation=(
            ValuesOnlyThroughNoise(mechanisms=context.names_of(steps)),
            NoiseCosts(cost=spent),
        ),
        assumptions=tuple(form_assumptions(context.facts)),
    )


def _composed(context: DerivationContext, indexes: list[int]) -> PrivacyEvent:
    return Composed(events=tuple(context.steps[index].event for index in indexes))


def _chosen_by_value(goal: LocalDP, context: DerivationContext) -> Iterator[str]:
    """A covered attribute whose raw values say which cases stay."""
    unit = context.facts.unit.attribute
    if unit in goal.over:
        yield f"which cases are released follows from raw {unit}, the unit of privacy"


def _raw_values(goal: LocalDP, context: DerivationContext) -> Iterator[str]:
    """How raw values of the covered attributes would reach the release."""
    columns = context.flow.columns
    covered = set(goal.over)
    for column in goal.over:
        if column not in columns or column not in context.released:
            yield f"{column} is not in the release"
        # Of other columns it may hold what it will: the claim is about these values.
        elif covered & columns[column].raw:
            yield f"raw {column} would reach the release without noise"
        elif not columns[column].measured:
            yield f"no step randomises {column}"
    for column in sorted(context.released - covered):
        seen = covered & columns[column].raw if column in columns else set()
        if seen:
            yield f"raw {', '.join(sorted(seen))} would reach the released {column} without noise"


def _without_local_noise(
    goal: LocalDP, context: DerivationContext, used: list[Step]
) -> Iterator[str]:
    """The steps that do not randomise each value by itself, or count a case's values as one."""
    for step in used:
        if step.currency != "local":
            yield f"{step.mechanism} does not randomise each value by itself"
        elif step.proof == "published":
            yield f"{step.mechanism} is only published, not proved"
        elif goal.per == "case" and step.params.get("per") != "case":
            yield f"{step.mechanism} counts one value, and a case has several"

"""The rules for guarantees that rest on noise: differential privacy and metric privacy."""

from collections.abc import Iterable, Iterator

from cloakwork.accounting.events import cost, naive
from cloakwork.budget import Currency
from cloakwork.facts import Facts
from cloakwork.guarantees import DifferentialPrivacy, MetricPrivacy
from cloakwork.lineage import TIMESTAMPS
from cloakwork.plan.claims import Assumption, ConditionedOn, Reason
from cloakwork.plan.claims.assumptions import (
    GapsAtMost,
    IndependentPresence,
    ProtectsOneTime,
    StartsWithin,
    TimesRounded,
)
from cloakwork.plan.claims.reasons import (
    NoiseCosts,
    NothingElseObservable,
    OthersReadNoTimes,
    ProfileIsCharged,
    TimesOnlyThroughNoise,
    ValuesOnlyThroughNoise,
)
from cloakwork.plan.model import Claim
from cloakwork.plan.premises import Premises, bounds, joined, unit_assumptions
from cloakwork.plan.sentences import claim_sentence


def unconditional(goal: DifferentialPrivacy, premises: Premises) -> Claim | list[str]:
    """No raw value reaches any released column except through charged noise (rules 1 to 3)."""
    columns, reasons = premises.flow.columns, []
    for column in goal.over:
        if column not in columns:
            reasons.append(
                f"{column} does not exist in the release: a step makes new cases without it"
            )
        elif columns[column].raw:
            reasons.append(
                f"raw {joined(columns[column].raw)} would reach the released {column} without noise"
            )
    for column in sorted(premises.released - set(goal.over)):
        if column not in columns:
            reasons.append(
                f"{column} cannot be released beside it: a step makes new cases without it; drop it"
            )
        elif columns[column].raw:
            reasons.append(
                f"{column} would be released raw beside it, and can give the protected columns away"
            )
    used = frozenset().union(
        *(columns[column].measured for column in goal.over if column in columns)
    )
    reasons += _unproved(used, premises) + _overspent(goal.epsilon, goal.delta, "unit", premises)
    if reasons:
        return reasons
    profiled = (ProfileIsCharged(),) if premises.profile is not None else ()
    claim = _priced(
        goal,
        goal.delta,
        "unit",
        premises,
        derivation=(
            *profiled,
            ValuesOnlyThroughNoise(mechanisms=premises.names_of(used)),
            NothingElseObservable(),
        ),
    )
    return claim.model_copy(update={"assumptions": (*claim.assumptions, IndependentPresence())})


def conditional(goal: DifferentialPrivacy | MetricPrivacy, premises: Premises) -> Claim | list[str]:
    """Raw times reach nothing but through charged noise; whatever else is released is taken as
    known (rule 4).
    """
    columns, reasons = premises.flow.columns, []
    if goal.over != (TIMESTAMPS,):
        return [f"this version derives {goal.kind} over timestamps only"]
    if TIMESTAMPS not in columns or TIMESTAMPS not in premises.released:
        return ["no timestamps are released"]
    state = columns[TIMESTAMPS]
    if TIMESTAMPS in state.raw or not state.measured:
        reasons.append("raw timestamps would reach the released ones without noise")
    for column in sorted(premises.released - {TIMESTAMPS}):
        if column in columns and TIMESTAMPS in columns[column].raw:
            writer = columns[column].writer
            by = premises.steps[writer].mechanism if writer is not None else "the source"
            reasons.append(
                f"{by} reads timestamps otherwise than through the order of events, and writes {column}"
            )
    price = goal.price()
    currency, delta = price.currency, price.cost.delta
    reasons += _unproved(state.measured, premises) + _overspent(
        goal.epsilon, delta, currency, premises
    )
    if reasons:
        return reasons
    claim = _priced(
        goal,
        delta,
        currency,
        premises,
        derivation=(
            TimesOnlyThroughNoise(mechanisms=premises.names_of(state.measured)),
            OthersReadNoTimes(),
        ),
        given=_given(currency, premises),
    )
    return claim.model_copy(
        update={"assumptions": (*claim.assumptions, *_of_times(currency, premises.facts))}
    )


def _given(currency: Currency, premises: Premises) -> ConditionedOn:
    """All that is released beside the times, unless it is made of noised times alone.

    What a column looks like decides nothing: a counter, a day or a pseudonym of a clock may tell
    every time.
    """
    columns, noised = premises.flow.columns, premises.flow.columns[TIMESTAMPS].measured
    known = (
        column
        for column in premises.released - {TIMESTAMPS}
        if column not in columns or columns[column].raw or not columns[column].measured <= noised
    )
    return ConditionedOn(
        columns=tuple(sorted(known)), window=premises.facts.window if currency == "unit" else None
    )


def _of_times(currency: Currency, facts: Facts) -> Iterator[Assumption]:
    """What the noise is scaled to."""
    yield TimesRounded(grid=facts.grid, epoch=facts.epoch)
    if facts.window is not None and currency == "unit":
        yield StartsWithin(window=facts.window)
    if facts.longest_gap is not None and currency == "unit":
        yield GapsAtMost(longest=facts.longest_gap)


def _priced(
    goal: DifferentialPrivacy | MetricPrivacy,
    delta: float,
    currency: Currency,
    premises: Premises,
    *,
    derivation: tuple[Reason, ...],
    given: ConditionedOn | None = None,
) -> Claim:
    events = premises.events(currency)
    spent = cost(events, delta)
    return Claim(
        guarantee=goal,
        sentence=claim_sentence(goal, given),
        basis="derived",
        currency=currency,
        cost=spent,
        naive=naive(events),
        given=given,
        derivation=(*derivation, NoiseCosts(cost=spent)),
        assumptions=_of_one_time(premises.facts)
        if currency == "metric"
        else unit_assumptions(premises.facts),
    )


def _of_one_time(facts: Facts) -> tuple[Assumption, ...]:
    return (ProtectsOneTime(), *bounds(facts))


def _unproved(used: Iterable[int], premises: Premises) -> list[str]:
    published = [
        f"{premises.steps[i].mechanism} is only published, not proved"
        for i in sorted(used)
        if premises.steps[i].proof != "proved"
    ]
    return published + [reason for i, reason in premises.flow.void.items() if i in set(used)]


def _overspent(epsilon: float, delta: float, currency: Currency, premises: Premises) -> list[str]:
    spent = cost(premises.events(currency), delta)
    if spent.epsilon <= epsilon and spent.delta <= delta:
        return []
    return [
        f"the steps cost epsilon {spent.epsilon:.6g}, delta {spent.delta:.3g}: more than {epsilon:g}, {delta:g}"
    ]

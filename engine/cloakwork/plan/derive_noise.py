"""The rules for guarantees that rest on noise: differential privacy and metric privacy."""

from collections.abc import Iterable
from typing import Final

from cloakwork.accounting.events import cost, naive
from cloakwork.budget import Currency
from cloakwork.facts import Facts
from cloakwork.guarantees import DifferentialPrivacy, MetricPrivacy
from cloakwork.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.plan.model import Claim
from cloakwork.plan.premises import Premises, bounds, joined, unit_assumptions
from cloakwork.quantities import format_duration


def unconditional(goal: DifferentialPrivacy, premises: Premises) -> Claim | list[str]:
    """No raw value reaches any released column except through charged noise (rules 1 to 3)."""
    columns, reasons = premises.flow.columns, []
    for column in goal.over:
        if column not in columns:
            reasons.append(f"{column} does not exist in the release: a step makes new cases without it")
        elif columns[column].raw:
            reasons.append(f"raw {joined(columns[column].raw)} would reach the released {column} without noise")
    for column in sorted(premises.released - set(goal.over)):
        if column not in columns:
            reasons.append(f"{column} cannot be released beside it: a step makes new cases without it; drop it")
        elif columns[column].raw:
            reasons.append(f"{column} would be released raw beside it, and can give the protected columns away")
    used = frozenset().union(*(columns[column].measured for column in goal.over if column in columns))
    reasons += _unproved(used, premises) + _overspent(goal.epsilon, goal.delta, "unit", premises)
    if reasons:
        return reasons
    profiled = ("the noisy figures of the DP profile are published with the plan, and part of the cost",)
    claim = _priced(
        goal,
        goal.delta,
        "unit",
        premises,
        derivation=(
            *(profiled if premises.profile is not None else ()),
            f"no raw value reaches a released column except through the noise of {premises.names_of(used)}",
            "ids are fresh and random, cases come in random order, and no step stops because of what the log holds",
        ),
    )
    independent = "a guess is bounded where one unit's presence does not depend on everybody else's data"
    return claim.model_copy(update={"assumptions": (*claim.assumptions, independent)})


def conditional(goal: DifferentialPrivacy | MetricPrivacy, premises: Premises) -> Claim | list[str]:
    """Raw times reach nothing but through charged noise; the control flow is taken as given (rule 4)."""
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
            reasons.append(f"{by} reads timestamps otherwise than through the order of events, and writes {column}")
    currency: Currency = "metric" if isinstance(goal, MetricPrivacy) else "unit"
    delta = 0.0 if isinstance(goal, MetricPrivacy) else goal.delta
    reasons += _unproved(state.measured, premises) + _overspent(goal.epsilon, delta, currency, premises)
    if reasons:
        return reasons
    given = tuple(sorted(state.raw))
    claim = _priced(
        goal,
        delta,
        currency,
        premises,
        derivation=(
            f"raw times reach the release only through the noise of {premises.names_of(state.measured)}",
            f"everything else that is released depends on {joined(given) or 'noise'} and on the order of events, not on times",
        ),
    )
    others = sorted(premises.released - {TIMESTAMPS, CONTROL_FLOW, METADATA})
    claim = _given(claim, given, premises.facts)
    if not others:
        return claim
    timeless = f"the values of {joined(others)} tell no times (what looks like one stops the run)"
    return claim.model_copy(update={"assumptions": (*claim.assumptions, timeless)})


def _given(claim: Claim, given: tuple[str, ...], facts: Facts) -> Claim:
    """The claim with what it is conditional on, in its assumptions too."""
    declared = [f"times are rounded to {format_duration(facts.grid)} and counted from {facts.epoch:%Y-%m-%d}"]
    if facts.window is not None and claim.currency == "unit":
        declared.append(
            f"cases start between {facts.window.start:%Y-%m-%d} and {facts.window.end:%Y-%m-%d} (others are moved)"
        )
    if facts.longest_gap is not None and claim.currency == "unit":
        declared.append(f"gaps are at most {format_duration(facts.longest_gap)} (longer ones are cut)")
    return claim.model_copy(update={"given": given, "assumptions": (*claim.assumptions, *declared)})


def _priced(
    goal: DifferentialPrivacy | MetricPrivacy,
    delta: float,
    currency: Currency,
    premises: Premises,
    *,
    derivation: tuple[str, ...],
) -> Claim:
    events = premises.events(currency)
    spent = cost(events, delta)
    return Claim(
        guarantee=goal,
        sentence=goal.sentence(),
        basis="derived",
        currency=currency,
        cost=spent,
        naive=naive(events),
        derivation=(
            *derivation,
            f"the noise actually drawn costs epsilon {spent.epsilon:.6g}, delta {spent.delta:.3g}",
        ),
        assumptions=_VALUE + bounds(premises.facts) if currency == "metric" else unit_assumptions(premises.facts),
    )


_VALUE: Final = ("protected is one time of one event: not a premises, and not a person",)


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
    return [f"the steps cost epsilon {spent.epsilon:.6g}, delta {spent.delta:.3g}: more than {epsilon:g}, {delta:g}"]

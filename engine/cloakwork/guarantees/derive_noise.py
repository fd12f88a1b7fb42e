"""The rules for guarantees that rest on noise: differential privacy and metric privacy."""

import math
from collections.abc import Iterable, Iterator

from cloakwork.accounting.events import cost, naive
from cloakwork.base.costs import Cost, Currency, PrivacyEvent
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.guarantees import DifferentialPrivacy, MetricPrivacy
from cloakwork.guarantees.claims import Assumption, ConditionedOn, Reason
from cloakwork.guarantees.claims.assumptions import (
    DomainsDeclared,
    GapsAtMost,
    IndependentPresence,
    ProtectsOneTime,
    StartsWithin,
    TimesRounded,
)
from cloakwork.guarantees.claims.reasons import (
    NoiseCosts,
    NothingElseObservable,
    OthersReadNoTimes,
    ProfileIsCharged,
    TimesOnlyThroughNoise,
    ValuesOnlyThroughNoise,
)
from cloakwork.guarantees.derivation_context import (
    DerivationContext,
    form_assumptions,
    unit_assumptions,
)
from cloakwork.plan.model import Claim
from cloakwork.plan.sentences import claim_sentence

NoisedGoal = DifferentialPrivacy | MetricPrivacy


def derive_unconditional(
    goal: DifferentialPrivacy, context: DerivationContext
) -> Claim | list[str]:
    """No raw value reaches any released column except through charged noise (rules 1 to 3)."""
    columns = context.flow.columns
    existing = [columns[column] for column in goal.over if column in columns]
    used = frozenset().union(*(state.measured for state in existing))
    seen = used.union(*(columns[name].measured for name in context.released & columns.keys()))
    causes = [
        *_raw_in_covered_columns(goal, context),
        *_raw_beside_covered_columns(goal, context),
        *_charged_otherwise(seen, context),
        *_unproved_causes(seen, context),
        *_budget_causes(goal, context),
    ]
    if causes:
        return causes
    profiled = (ProfileIsCharged(),) if context.profile is not None else ()
    through_noise = ValuesOnlyThroughNoise(mechanisms=context.names_of(used))
    return _claim_with_cost(
        goal,
        context,
        derivation=(*profiled, through_noise, NothingElseObservable()),
        assumptions=(
            *unit_assumptions(context.facts),
            *_value_assumptions(goal, context.facts),
            IndependentPresence(),
        ),
    )


def _value_assumptions(goal: DifferentialPrivacy, facts: Facts) -> Iterator[Assumption]:
    """What is taken as public of times and attributes that come with the control flow."""
    if not goal.covers_whole_log():
        return
    if TIMESTAMPS in goal.over:
        yield from _time_assumptions("unit", facts)
    known = facts.domains.keys() | facts.ranges.keys()
    attributes = tuple(name for name in dict.fromkeys(goal.over) if name in known)
    if attributes:
        yield DomainsDeclared(attributes=attributes)


def _raw_in_covered_columns(goal: DifferentialPrivacy, context: DerivationContext) -> Iterator[str]:
    """What would be seen of the log without noise in the columns that the goal covers."""
    columns = context.flow.columns
    for column in goal.over:
        if column not in columns:
            yield f"{column} does not exist in the release: a step makes new cases without it"
        elif columns[column].raw:
            raw = " and ".join(sorted(columns[column].raw))
            yield f"raw {raw} would reach the released {column} without noise"
        elif not columns[column].measured:
            yield f"no step measures {column} through noise"


def _raw_beside_covered_columns(
    goal: DifferentialPrivacy, context: DerivationContext
) -> Iterator[str]:
    """What would be seen of the log in the other columns."""
    columns = context.flow.columns
    for column in sorted(context.released - set(goal.over)):
        if column not in columns:
            yield (
                f"{column} cannot be released beside it: a step makes new cases without it; drop it"
            )
        elif columns[column].raw:
            yield (
                f"{column} would be released raw beside it, and can give the protected columns away"
            )


def _charged_otherwise(seen: Iterable[int], context: DerivationContext) -> Iterator[str]:
    """The noise that protects no unit, of the steps ``seen`` that what is released came through."""
    for index in sorted(seen):
        step = context.steps[index]
        if step.currency != "unit":
            yield (
                f"{step.mechanism} is charged for {step.currency} privacy: its noise hides single "
                "values, not whether somebody is in the log"
            )


def derive_given_columns(goal: NoisedGoal, context: DerivationContext) -> Claim | list[str]:
    """Raw times reach nothing but through charged noise; whatever else is released is taken as
    known (rule 4).
    """
    columns = context.flow.columns
    if goal.over != (TIMESTAMPS,):
        return [f"this version derives {goal.kind} over timestamps only"]
    if TIMESTAMPS not in columns or TIMESTAMPS not in context.released:
        return ["no timestamps are released"]
    used = columns[TIMESTAMPS].measured
    causes = [
        *_raw_times(context),
        *_counted_once(used, context),
        *_unproved_causes(used, context),
        *_budget_causes(goal, context),
    ]
    if causes:
        return causes
    currency = goal.price().currency
    protected = unit_assumptions(context.facts)
    if currency == "metric":
        protected = (ProtectsOneTime(), *form_assumptions(context.facts))
    return _claim_with_cost(
        goal,
        context,
        derivation=(
            TimesOnlyThroughNoise(mechanisms=context.names_of(used)),
            OthersReadNoTimes(),
        ),
        assumptions=(*protected, *_time_assumptions(currency, context.facts)),
        given=_conditioning_columns(currency, context),
    )


def _counted_once(used: Iterable[int], context: DerivationContext) -> Iterator[str]:
    """The noise of the steps ``used`` that is drawn for a unit more or less: with other times it is
    one less and one more.
    """
    for index in sorted(used):
        step = context.steps[index]
        if step.lineage.enriches or step.lineage.generates:
            yield (
                f"{step.mechanism} draws noise for one unit more or less: "
                "other times of a unit would change what it measures twice"
            )


def _raw_times(context: DerivationContext) -> Iterator[str]:
    """How raw times would reach the release."""
    columns = context.flow.columns
    times = columns[TIMESTAMPS]
    if TIMESTAMPS in times.raw or not times.measured:
        yield "raw timestamps would reach the released ones without noise"
    for column in sorted(context.released - {TIMESTAMPS}):
        if column in columns and TIMESTAMPS in columns[column].raw:
            writer = columns[column].writer
            by = context.steps[writer].mechanism if writer is not None else "the source"
            yield (
                f"{by} reads timestamps otherwise than through the order of events, "
                f"and writes {column}"
            )


def _conditioning_columns(currency: Currency, context: DerivationContext) -> ConditionedOn:
    """All that is released beside the times, unless it is made of noised times alone.

    What a column looks like decides nothing: a counter, a day or a pseudonym of a clock may tell
    every time.
    """
    columns = context.flow.columns
    noised = columns[TIMESTAMPS].measured
    known = (
        column
        for column in context.released - {TIMESTAMPS}
        if column not in columns or columns[column].raw or not columns[column].measured <= noised
    )
    facts = context.facts
    # Other times of a case may put it into another window, and it would be gone from this one.
    is_known = currency == "unit" or facts.release_window is not None
    window = facts.window if is_known else None
    return ConditionedOn(columns=tuple(sorted(known)), window=window)


def _time_assumptions(currency: Currency, facts: Facts) -> Iterator[Assumption]:
    """What the noise is scaled to."""
    yield TimesRounded(grid=facts.grid, epoch=facts.epoch)
    if facts.window is not None and currency == "unit":
        yield StartsWithin(window=facts.window)
    if facts.longest_gap is not None and currency == "unit":
        yield GapsAtMost(longest=facts.longest_gap)


def _claim_with_cost(
    goal: NoisedGoal,
    context: DerivationContext,
    *,
    derivation: tuple[Reason, ...],
    assumptions: tuple[Assumption, ...],
    given: ConditionedOn | None = None,
) -> Claim:
    """The claim, with what the accountant charges for all noise in its currency."""
    price = goal.price()
    events = context.events(price.currency)
    spent = cost(events, price.cost.delta)
    return Claim(
        guarantee=goal,
        sentence=claim_sentence(goal, given),
        basis="derived",
        currency=price.currency,
        cost=spent,
        naive=_plain_sum(events, price.cost.delta),
        given=given,
        derivation=(*derivation, NoiseCosts(cost=spent)),
        assumptions=assumptions,
    )


def _plain_sum(events: PrivacyEvent, delta: float) -> Cost | None:
    """What adding up charges: Gaussian noise has no epsilon without some of ``delta``. None where
    no figure is finite, which a file could not hold.
    """
    sums = (naive(events, spent) for spent in (0.0, delta))
    return next((each for each in sums if math.isfinite(each.epsilon)), None)


def _unproved_causes(used: Iterable[int], context: DerivationContext) -> list[str]:
    """Which of the steps ``used`` prove nothing, and why."""
    used = frozenset(used)
    steps = (context.steps[index] for index in sorted(used))
    published = [
        f"{step.mechanism} is only published, not proved"
        for step in steps
        if step.proof == "published"
    ]
    unproven = context.flow.unproven_measurements.items()
    return published + [reason for index, reason in unproven if index in used]


def _budget_causes(goal: NoisedGoal, context: DerivationContext) -> list[str]:
    """Whether the noise costs more than the goal allows."""
    price = goal.price()
    allowed = price.cost
    spent = cost(context.events(price.currency), allowed.delta)
    if spent.epsilon <= allowed.epsilon and spent.delta <= allowed.delta:
        return []
    return [
        f"the steps cost epsilon {spent.epsilon:.6g}, delta {spent.delta:.3g}: "
        f"more than {allowed.epsilon:g}, {allowed.delta:g}"
    ]

"""What the rules of guarantees that rest on noise share: what the noise costs, where it is not
proved, and the claim that takes other columns as known.
"""

import math
from collections.abc import Iterable, Iterator

from cloakwork.accounting.events import cost, naive
from cloakwork.base.costs import Currency
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.guarantees.base import NoiseGuarantee
from cloakwork.guarantees.claims import (
    Assumption,
    ConditionedOn,
    GapsAtMost,
    NoiseCosts,
    OthersReadNoTimes,
    ProtectsOneTime,
    Reason,
    StartsWithin,
    TimesOnlyThroughNoise,
    TimesRounded,
)
from cloakwork.guarantees.flow import (
    Derived,
    Flow,
    Underived,
    form_assumptions,
    unit_assumptions,
)


def derive_given_columns(goal: NoiseGuarantee, flow: Flow) -> Derived | Underived:
    """Raw times reach nothing but through charged noise; whatever else is released is taken as
    known (rule 4 of ``docs/guarantees.md``).
    """
    if goal.over != (TIMESTAMPS,):
        return Underived((f"this version derives {goal.kind} over timestamps only",))
    if TIMESTAMPS not in flow.columns or TIMESTAMPS not in flow.released:
        return Underived(("no timestamps are released",))
    used = flow.columns[TIMESTAMPS].measured
    steps = [flow.steps[index] for index in sorted(used)]
    # Noise for a unit more or less: with other times it is one less and one more.
    measured_twice = [
        f"{step.mechanism} draws noise for one unit more or less: "
        "other times of a unit would change what it measures twice"
        for step in steps
        if step.lineage.generates or (step.lineage.enriches and not step.lineage.is_given_flow)
    ]
    causes = (
        *_raw_times(flow),
        *measured_twice,
        *unproved_causes(used, flow),
        *budget_causes(goal, flow),
    )
    if causes:
        return Underived(causes)
    # Metric privacy speaks of one time of one event, differential privacy of a unit's times.
    currency = goal.price().currency
    protected: Iterable[Assumption] = unit_assumptions(flow.facts)
    if currency == "metric":
        protected = (ProtectsOneTime(), *form_assumptions(flow.facts))
    return derived_at_cost(
        goal,
        flow,
        (TimesOnlyThroughNoise(mechanisms=flow.names_of(used)), OthersReadNoTimes()),
        (*protected, *time_assumptions(currency, flow.facts)),
        given=_conditioning_columns(currency, flow),
    )


def _raw_times(flow: Flow) -> Iterator[str]:
    columns = flow.columns
    times = columns[TIMESTAMPS]
    if TIMESTAMPS in times.raw or not times.measured:
        yield "raw timestamps would reach the released ones without noise"
    # What else is released must not be made of raw times either.
    for column in sorted(flow.released - {TIMESTAMPS}):
        if column in columns and TIMESTAMPS in columns[column].raw:
            writer = flow.writer_of(column)
            by = "the source" if writer is None else writer.mechanism
            yield (
                f"{by} reads timestamps otherwise than through the order of events, "
                f"and writes {column}"
            )


def _conditioning_columns(currency: Currency, flow: Flow) -> ConditionedOn:
    """All that is released beside the times, unless it is made of noised times alone.

    What a column looks like decides nothing: a counter, a day or a pseudonym of a clock may tell
    every time.
    """
    columns = flow.columns
    noised = columns[TIMESTAMPS].measured
    known = (
        column
        for column in flow.released - {TIMESTAMPS}
        if column not in columns or columns[column].raw or not columns[column].measured <= noised
    )
    # Other times of a case may put it into another window, and it would be gone from this one.
    is_known = currency == "unit" or flow.facts.release_window is not None
    window = flow.facts.window if is_known else None
    return ConditionedOn(columns=tuple(sorted(known)), window=window)


def time_assumptions(currency: Currency, facts: Facts) -> Iterator[Assumption]:
    """What noise on times is scaled to."""
    yield TimesRounded(grid=facts.grid, epoch=facts.epoch)
    if facts.window is not None and currency == "unit":
        yield StartsWithin(window=facts.window)
    if facts.longest_gap is not None and currency == "unit":
        yield GapsAtMost(longest=facts.longest_gap)


def derived_at_cost(
    goal: NoiseGuarantee,
    flow: Flow,
    derivation: tuple[Reason, ...],
    assumptions: tuple[Assumption, ...],
    *,
    given: ConditionedOn | None = None,
) -> Derived:
    """That it follows, with what the accountant charges for all noise in its currency."""
    price = goal.price()
    events = flow.events(price.currency)
    spent = cost(events, price.cost.delta)
    # What adding up charges: Gaussian noise has no epsilon without some of ``delta``; a figure that
    # is not finite no file could hold.
    sums = (naive(events, delta) for delta in (0.0, price.cost.delta))
    plain_sum = next((each for each in sums if math.isfinite(each.epsilon)), None)
    return Derived(
        derivation=(*derivation, NoiseCosts(cost=spent)),
        assumptions=assumptions,
        cost=spent,
        naive=plain_sum,
        given=given,
    )


def unproved_causes(used: Iterable[int], flow: Flow) -> list[str]:
    """Which of the steps ``used`` prove nothing, and why."""
    used = frozenset(used)
    steps = [flow.steps[index] for index in sorted(used)]
    return [
        *(f"{step.mechanism} is only published, not proved" for step in steps if not step.proved),
        *(reason for index, reason in flow.unproven.items() if index in used),
    ]


def budget_causes(goal: NoiseGuarantee, flow: Flow) -> list[str]:
    """Whether the noise costs more than the goal allows."""
    price = goal.price()
    allowed = price.cost
    # At the delta of the goal, so that both can be compared.
    spent = cost(flow.events(price.currency), allowed.delta)
    if spent.epsilon <= allowed.epsilon and spent.delta <= allowed.delta:
        return []
    return [
        f"the steps cost epsilon {spent.epsilon:.6g}, delta {spent.delta:.3g}: "
        f"more than {allowed.epsilon:g}, {allowed.delta:g}"
    ]

"""What the rules of guarantees that rest on noise share: what the noise costs, where it is not
proved, and the claim that takes other columns as known.
"""

import math
from collections.abc import Iterable, Iterator

from cloakwork.accounting.events import cost, naive
from cloakwork.base.costs import Currency
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.text import listed
from cloakwork.guarantees.base import NoiseGuarantee
from cloakwork.guarantees.claims import (
    Assumption,
    ConditionedOn,
    DomainsDeclared,
    GapsAtMost,
    LocalTime,
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
    """Raw times, and raw values of covered attributes, reach nothing but through charged noise;
    whatever else is released is taken as known (rule 4 of ``docs/guarantees.md``).
    """
    covered = frozenset(goal.over)
    lacking = [name for name in goal.over if name not in flow.columns or name not in flow.released]
    if lacking:
        return Underived((f"no {listed(lacking)} are released",))
    used = frozenset[int]().union(*(flow.columns[name].measured for name in covered))
    steps = [flow.steps[index] for index in sorted(used)]
    # Noise for a unit more or less: with other times it is one less and one more.
    measured_twice = [
        f"{step.mechanism} draws noise for one unit more or less: "
        "other values of a unit would change what it measures twice"
        for step in steps
        if step.lineage.generates or (step.lineage.enriches and not step.lineage.is_given_flow)
    ]
    # Metric privacy speaks of one time of one event, differential privacy of a unit's values: noise
    # for the one is not counted for the other, and would let through what it was drawn for.
    currency = goal.price().currency
    uncounted = [
        f"{step.mechanism} looks at {listed(sorted(covered & step.lineage.measures))} through "
        "noise that is not counted for this guarantee: ask for one of the two"
        for step in steps
        if step.currency != currency and covered & step.lineage.measures
    ]
    causes = (
        *_raw_values(covered, flow),
        *measured_twice,
        *uncounted,
        *unproved_causes(used, flow),
        *budget_causes(goal, flow),
    )
    if causes:
        return Underived(causes)
    are_drawn = any(step.lineage.enriches for step in steps)
    public = _public_values(covered, currency, flow.facts, are_drawn=are_drawn)
    protected: Iterable[Assumption] = unit_assumptions(flow.facts)
    if currency == "metric":
        protected = (ProtectsOneTime(), *form_assumptions(flow.facts))
    # In terms of times, or of all covered columns where there are others.
    columns = () if covered == {TIMESTAMPS} else tuple(sorted(covered))
    return derived_at_cost(
        goal,
        flow,
        (
            TimesOnlyThroughNoise(mechanisms=flow.names_of(used), columns=columns),
            OthersReadNoTimes(columns=columns),
        ),
        (*protected, *public),
        given=_conditioning_columns(covered, used, currency, flow),
    )


def _public_values(
    covered: frozenset[str],
    currency: Currency,
    facts: Facts,
    *,
    are_drawn: bool,
) -> Iterator[Assumption]:
    """What is taken as public of the covered columns; ``are_drawn``: and not noised one by one."""
    if TIMESTAMPS in covered:
        yield from time_assumptions(currency, facts, are_drawn=are_drawn)
    attributes = tuple(sorted(covered - {TIMESTAMPS}))
    if attributes:
        yield DomainsDeclared(attributes=attributes)


def _raw_values(covered: frozenset[str], flow: Flow) -> Iterator[str]:
    columns = flow.columns
    for name in sorted(covered):
        if covered & columns[name].raw or not columns[name].measured:
            yield f"raw {name} would reach the released ones without noise"
    # What else is released must not be made of raw values either.
    for column in sorted(flow.released - covered):
        read = sorted(covered & columns[column].raw) if column in columns else []
        if read:
            writer = flow.writer_of(column)
            by = "the source" if writer is None else writer.mechanism
            how = " otherwise than through the order of events" if TIMESTAMPS in read else ""
            yield f"{by} reads {listed(read)}{how}, and writes {column}"


def _conditioning_columns(
    covered: frozenset[str],
    noised: frozenset[int],
    currency: Currency,
    flow: Flow,
) -> ConditionedOn:
    """All that is released beside the covered columns, unless it is made of these, noised, alone.

    What a column looks like decides nothing: a counter, a day or a pseudonym of a clock may tell
    every time.
    """
    columns = flow.columns
    known = (
        column
        for column in flow.released - covered
        if column not in columns or columns[column].raw or not columns[column].measured <= noised
    )
    # Other times of a case may put it into another window, and it would be gone from this one.
    is_known = currency == "unit" or flow.facts.release_window is not None
    window = flow.facts.window if is_known else None
    return ConditionedOn(columns=tuple(sorted(known)), window=window)


def time_assumptions(
    currency: Currency,
    facts: Facts,
    *,
    are_drawn: bool,
) -> Iterator[Assumption]:
    """What noise on times is scaled to, and, where they ``are_drawn``, whose clocks they follow."""
    yield TimesRounded(grid=facts.grid, epoch=facts.epoch)
    if facts.time_zone is not None and are_drawn:
        yield LocalTime(zone=facts.time_zone)
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
    if spent.is_within(allowed):
        return []
    return [
        f"the steps cost epsilon {spent.epsilon:.6g}, delta {spent.delta:.3g}: "
        f"more than {allowed.epsilon:g}, {allowed.delta:g}"
    ]

"""What the guarantees leave open."""

from collections.abc import Iterator
from dataclasses import replace

from cloakwork.guarantees import (
    VACUOUS_T,
    ConfidenceBound,
    DifferentialPrivacy,
    Guarantee,
    KAnonymity,
    MetricPrivacy,
    TCloseness,
)
from cloakwork.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.plan.claims import (
    Caveat,
    CountsCases,
    FrequenciesKept,
    Homogeneity,
    InsertedEventsCopy,
    Intersection,
    LargeT,
    MayTellTimes,
    RangeScale,
    RunsUnproven,
    SingleTimesOnly,
)
from cloakwork.plan.draft import Draft
from cloakwork.plan.model import RELEASED
from cloakwork.policy.model import Policy


def warn(draft: Draft) -> Draft:
    """Say what the guarantees leave open."""
    return replace(draft, warnings=(*draft.warnings, *_warnings(draft)))


def _warnings(draft: Draft) -> Iterator[Caveat]:
    for step in draft.steps:
        if step.proof != "proved":
            yield RunsUnproven(mechanism=step.mechanism)
    yield from _about_counted_groups(draft)
    if copied := {
        column for step in draft.steps if step.lineage.fills for column in step.lineage.writes
    } - {METADATA}:
        yield InsertedEventsCopy(columns=tuple(sorted(copied)))
    for goal in draft.goals:
        if isinstance(goal, TCloseness) and goal.distance == "emd":
            yield from _weak_closeness(goal)
    for item in draft.attributes:
        if item.treatment == "pseudonymise":
            yield FrequenciesKept(attribute=item.attribute)
    if clocks := tuple(sorted(_kept_beside_times(draft))):
        yield MayTellTimes(columns=clocks)
    if any(isinstance(goal, MetricPrivacy) and TIMESTAMPS in goal.over for goal in draft.goals):
        yield SingleTimesOnly()


def _about_counted_groups(draft: Draft) -> Iterator[Caveat]:
    """What k-anonymity and confidence bounds leave open."""
    kanon = [goal for goal in draft.goals if isinstance(goal, KAnonymity)]
    if kanon and (sensitive := _released_sensitive(draft)):
        yield Homogeneity(attributes=sensitive)
    if kanon:
        yield Intersection(of="k-anonymity")
    if any(isinstance(goal, ConfidenceBound) for goal in draft.goals):
        yield Intersection(of="confidence-bound")
    if any(goal.count == "cases" for goal in kanon) and draft.facts.unit.attribute is not None:
        yield CountsCases(attribute=draft.facts.unit.attribute)


def _released_sensitive(draft: Draft) -> tuple[str, ...]:
    """Sensitive attributes that are released and that no guarantee about values covers."""
    on_values = ("t-closeness", "l-diversity", "confidence-bound")
    bounded = frozenset(
        column for goal in draft.goals if goal.kind in on_values for column in goal.over
    )
    return tuple(
        item.attribute
        for item in draft.attributes
        if item.treatment in RELEASED
        and _role(draft.policy, item.attribute) == "sensitive"
        and item.column not in bounded
    )


def _kept_beside_times(draft: Draft) -> Iterator[str]:
    """The released attributes that a claim over timestamps can only take as known."""
    if any(_is_conditional(goal) for goal in draft.goals):
        yield from draft.released - {CONTROL_FLOW, TIMESTAMPS, METADATA}


def _is_conditional(goal: Guarantee) -> bool:
    """Whether a guarantee rests on noise over times alone, so that it takes everything else that is
    released as known.
    """
    bounded = isinstance(goal, DifferentialPrivacy) and goal.neighbours == "bounded"
    return bounded or isinstance(goal, MetricPrivacy)


def _weak_closeness(goal: TCloseness) -> Iterator[Caveat]:
    """What t-closeness of numbers does not rule out."""
    if goal.scale == "range":
        yield RangeScale(attribute=goal.attribute)
    elif goal.t >= VACUOUS_T:
        yield LargeT(attribute=goal.attribute, t=goal.t)


def _role(policy: Policy, attribute: str) -> str | None:
    rule = policy.rule_of(attribute)
    return rule.role if rule else None

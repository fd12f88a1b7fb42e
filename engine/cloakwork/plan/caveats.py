"""What the guarantees leave open."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.guarantees import ReleaseOutline
from cloakwork.guarantees.claims import (
    Caveat,
    CountsCases,
    FlattenedObjects,
    FrequenciesKept,
    Homogeneity,
    InsertedEventsCopy,
    Intersection,
    LargeT,
    MayRevealTimes,
    PreferenceUnused,
    RangeScale,
    RunsUnproven,
    SingleTimesOnly,
)
from cloakwork.plan.model import RELEASED, Draft
from cloakwork.policy.model import Policy

_ORDER: Final[tuple[tuple[type[Caveat], ...], ...]] = (
    (RunsUnproven,),
    (FlattenedObjects,),
    (PreferenceUnused,),
    (Homogeneity,),
    (Intersection,),
    (CountsCases,),
    (InsertedEventsCopy,),
    (RangeScale, LargeT),
    (FrequenciesKept,),
    (MayRevealTimes,),
    (SingleTimesOnly,),
)
"""In which order a plan lists its warnings; those of one entry come in the order of the goals."""


def add_caveats(draft: Draft) -> Draft:
    """Say what the guarantees leave open, each once."""
    found = [
        *_caveats_of_input(draft),
        *_caveats_of_goals(draft),
        *_caveats_of_steps(draft),
        *dict.fromkeys(_unused_preferences(draft)),
    ]
    return replace(draft, warnings=(*draft.warnings, *sorted(found, key=_rank)))


def _rank(caveat: Caveat) -> int:
    """Its place in ``_ORDER``; a kind that is not listed there comes last."""
    listed = (place for place, kinds in enumerate(_ORDER) if isinstance(caveat, kinds))
    return next(listed, len(_ORDER))


def _caveats_of_input(draft: Draft) -> Iterator[Caveat]:
    """What the way in which the log is read leaves open."""
    options = draft.policy.spec.input
    if options is not None and options.object_type is not None:
        yield FlattenedObjects(object_type=options.object_type)


def _caveats_of_goals(draft: Draft) -> Iterator[Caveat]:
    """What each kind of guarantee says that it leaves open."""
    outline = _outline(draft)
    said: set[Caveat] = set()
    for goal in draft.goals:
        for caveat in goal.caveats(outline):
            # Old plans hold these two once a goal; a plan that is made again must be the same.
            repeats = isinstance(caveat, RangeScale | LargeT)
            if repeats or caveat not in said:
                yield caveat
            said.add(caveat)


def _caveats_of_steps(draft: Draft) -> Iterator[Caveat]:
    """What mechanisms and treatments leave open."""
    for step in draft.steps:
        if step.proof == "published":
            yield RunsUnproven(mechanism=step.mechanism)
    filling = (step for step in draft.steps if step.lineage.fills)
    copied = {column for step in filling for column in step.lineage.writes} - {METADATA}
    if copied:
        yield InsertedEventsCopy(columns=tuple(sorted(copied)))
    for item in draft.attributes:
        if item.treatment == "pseudonymise":
            yield FrequenciesKept(attribute=item.attribute)


def _unused_preferences(draft: Draft) -> Iterator[Caveat]:
    """Mechanisms that the policy prefers by their very names, and that no step takes though they
    give what some goal asks for.
    """
    taken = {step.mechanism for step in draft.steps}
    for item in draft.considered:
        is_preferred = item.mechanism in draft.policy.spec.mechanisms.prefer
        # One that gives something else may be meant for another log or a later goal.
        if is_preferred and item.mechanism not in taken and item.kind != "never":
            yield PreferenceUnused(mechanism=item.mechanism, reason=item.reason)


def _outline(draft: Draft) -> ReleaseOutline:
    """What kinds of guarantee need to know of the release."""
    beside_times = draft.released - {CONTROL_FLOW, TIMESTAMPS, METADATA}
    return ReleaseOutline(
        unit_attribute=draft.facts.unit.attribute,
        sensitive=_released_sensitive(draft),
        beside_times=tuple(sorted(beside_times)),
    )


def _released_sensitive(draft: Draft) -> tuple[str, ...]:
    """Sensitive attributes that are released and that no guarantee about values covers."""
    on_values = (goal for goal in draft.goals if goal.bounds_values)
    bounded = frozenset(column for goal in on_values for column in goal.over)
    return tuple(
        item.attribute
        for item in draft.attributes
        if item.treatment in RELEASED
        and _role(draft.policy, item.attribute) == "sensitive"
        and item.column not in bounded
    )


def _role(policy: Policy, attribute: str) -> str | None:
    rule = policy.rule_of(attribute)
    return rule.role if rule else None

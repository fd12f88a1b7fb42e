"""What the guarantees leave open."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.guarantees import DifferentialPrivacy, ReleaseOutline
from cloakwork.guarantees.claims import (
    Caveat,
    FlattenedObjects,
    FrequenciesKept,
    InsertedEventsCopy,
    LargeT,
    NoiseForEmployees,
    PreferenceUnused,
    RangeScale,
    RunsUnproven,
)
from cloakwork.plan.model import RELEASED, Draft

_ORDER: Final = (
    "runs-unproven",
    "flattened-objects",
    "preference-unused",
    "homogeneity",
    "intersection",
    "counts-cases",
    "inserted-events-copy",
    "range-scale",
    "frequencies-kept",
    "may-tell-times",
    "single-times-only",
)
"""In which order a plan lists its warnings, others last; those of one kind come in the order of the
goals, and ``large-t`` counts as ``range-scale``.
"""


def add_caveats(draft: Draft) -> Draft:
    """Say what the guarantees leave open, each once."""
    found = [*_caveats_of_goals(draft), *_caveats_of_steps(draft)]
    places = {kind: place for place, kind in enumerate(_ORDER)} | {
        "large-t": _ORDER.index("range-scale")
    }
    found.sort(key=lambda caveat: places.get(caveat.kind, len(places)))
    return replace(draft, warnings=(*draft.warnings, *found))


def _caveats_of_goals(draft: Draft) -> Iterator[Caveat]:
    policy = draft.policy
    # Through noise, a value tells as little of a group as of one unit.
    on_values = (
        goal for goal in draft.goals if goal.bounds_values or goal.takes_columns_as_known()
    )
    bounded = frozenset(column for goal in on_values for column in goal.over)
    # Sensitive attributes that are released and that no guarantee about values covers.
    sensitive = []
    for item in draft.attributes:
        rule = policy.rule_of(item.attribute)
        is_sensitive = rule is not None and rule.role == "sensitive"
        if is_sensitive and item.treatment in RELEASED and item.column not in bounded:
            sensitive.append(item.attribute)
    outline = ReleaseOutline(
        unit_attribute=draft.facts.unit.attribute,
        sensitive=tuple(sensitive),
        beside_times=tuple(sorted(draft.released - {CONTROL_FLOW, TIMESTAMPS, METADATA})),
    )
    if (name := draft.facts.employees) is not None:
        for goal in draft.goals:
            if isinstance(goal, DifferentialPrivacy) and (size := goal.cases_changed(draft.facts)):
                yield NoiseForEmployees(
                    attribute=name, cases=size, epsilon=float(f"{goal.epsilon / size:.6g}")
                )
    said: set[Caveat] = set()
    for goal in draft.goals:
        for caveat in goal.caveats(outline):
            # Old plans hold these two once a goal; a plan that is made again must be the same.
            if caveat not in said or isinstance(caveat, RangeScale | LargeT):
                yield caveat
            said.add(caveat)


def _caveats_of_steps(draft: Draft) -> Iterator[Caveat]:
    """What reading, mechanisms and treatments leave open, and what the policy prefers in vain."""
    spec = draft.policy.spec
    if spec.input is not None and spec.input.object_type is not None:
        yield FlattenedObjects(object_type=spec.input.object_type)
    for step in draft.steps:
        if step.proof == "published":
            yield RunsUnproven(mechanism=step.mechanism)
    # What is filled into inserted events is copied from others, and may show it.
    filling = (step for step in draft.steps if step.lineage.fills)
    copied = {column for step in filling for column in step.lineage.writes} - {METADATA}
    if copied:
        yield InsertedEventsCopy(columns=tuple(sorted(copied)))
    for item in draft.attributes:
        if item.treatment == "pseudonymise":
            yield FrequenciesKept(attribute=item.attribute)
    taken = {step.mechanism for step in draft.steps}
    unused = {
        PreferenceUnused(mechanism=item.mechanism, reason=item.reason): None
        for item in draft.considered
        # One that gives something else may be meant for another log or a later goal.
        if item.mechanism in spec.mechanisms.prefer
        and item.mechanism not in taken
        and item.kind != "never"
    }
    yield from unused

"""What the guarantees leave open."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from cloakwork.base.globs import is_glob, matches
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
    ReadOffLog,
    RunsUnproven,
)
from cloakwork.guarantees.flow import suggestion_assumptions
from cloakwork.plan.model import RELEASED, Draft

_ORDER: Final = (
    "runs-unproven",
    "chosen-by-figures",
    "read-off-log",
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
    claims_noise = any(goal.price() is not None for goal in draft.goals)
    for said in suggestion_assumptions(draft.facts):
        # What somebody confirmed stands with the claims alone.
        if not isinstance(said, ReadOffLog) or (said.by is None and claims_noise):
            yield said
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
    yield from _unused_preferences(draft)


def _unused_preferences(draft: Draft) -> Iterator[Caveat]:
    """What ``prefer`` names in vain: each name or glob of which nothing is used, with the reason of
    the mechanism that came nearest.
    """
    taken = {step.mechanism for step in draft.steps}
    is_first = True
    for glob in dict.fromkeys(draft.policy.spec.mechanisms.prefer):
        if any(matches(glob, name) for name in taken):
            is_first = False
            continue
        said = [item for item in draft.considered if matches(glob, item.mechanism)]
        # Of those that give something else, one says it for all.
        said.sort(key=lambda item: item.kind == "never")
        # To come after one that is preferred more is what the policy asks for.
        if said and said[0].kind == "other chosen" and not is_first:
            continue
        reason = said[0].reason if said else "it meets no guarantee of this policy"
        if not said and is_glob(glob):
            reason = "mechanisms of other packages take part only where they are named in full"
        yield PreferenceUnused(mechanism=glob, reason=reason)

"""What happens to each column: who covers it, what is released without protection, how attributes
are treated.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from cloakwork.base.errors import Cause
from cloakwork.base.globs import clashes, is_glob
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.naming import ACTIVITY, CASE_ID, TIMESTAMP
from cloakwork.guarantees import CountedGuarantee
from cloakwork.guarantees.claims import (
    ExposureReason,
    FormOfRelease,
    OnlyPublished,
    PolicyReason,
    TreatmentReason,
)
from cloakwork.plan.model import (
    RELEASED,
    AttributeTreatment,
    Draft,
    PlannedExposure,
    TreatedAttribute,
)
from cloakwork.plan.sentences import exposure_in_words
from cloakwork.policy.model import AttributeRule, Role


def classify_columns(draft: Draft) -> Draft:
    """Decide what happens to each declared attribute, and refuse columns that are released with
    neither a guarantee nor a reason.
    """
    policy = draft.policy
    goals = policy.goals()
    covered = frozenset(column for goal in goals for column in goal.over)
    coarsened = frozenset(name for goal in goals for name in goal.quasi_identifiers())
    attributes = tuple(
        _treated(name, rule, policy.column(name), covered, coarsened)
        for name, rule in policy.spec.attributes.items()
    )
    draft = replace(draft, goals=goals, attributes=attributes)
    # What is released and covered by no guarantee needs a reason from the policy.
    names_by_column: dict[str, list[str]] = {}
    for item in attributes:
        if item.treatment in RELEASED:
            names_by_column.setdefault(item.column, []).append(item.attribute)
    exposed = []
    causes = list(draft.causes)
    reasons = policy.spec.expose
    for column in sorted(names_by_column.keys() - covered):
        names = names_by_column[column]
        # It may be given for the column or for any attribute that the column holds.
        stated = [reasons[key] for key in (column, *names) if key in reasons]
        if stated:
            exposed.append(exposure(column, PolicyReason(reason=stated[0])))
        else:
            shown = f"'{column}'" if names == [column] else f"{column} ({', '.join(names)})"
            reason = "it would be released without protection; "
            reason += "cover it, drop it, or name it under expose with a reason"
            causes.append(Cause(f"release of {shown}", reason))
    causes += _unusable_attributes(draft, covered)
    return replace(draft, exposed=tuple(exposed), causes=tuple(causes))


def _treated(
    name: str,
    rule: AttributeRule,
    column: str,
    covered: frozenset[str],
    coarsened: frozenset[str],
) -> TreatedAttribute:
    """What happens to one attribute; k-anonymity makes coarser what is in ``coarsened``."""
    treatment: AttributeTreatment
    why: TreatmentReason
    left_to_guarantee = rule.treatment in (None, "keep")
    left_to_k_anonymity = rule.treatment == "generalise" and column in coarsened
    # The order decides: case ids, then guarantees, then the policy's word, then the defaults.
    if name == CASE_ID:
        column = METADATA
        treatment = "replace"
        why = "fresh-ids"
    elif column in covered and (left_to_guarantee or left_to_k_anonymity):
        treatment = "protect"
        why = "covered"
    elif rule.treatment is not None:
        treatment = rule.treatment
        why = "policy"
    elif column == CONTROL_FLOW:
        treatment = "keep"
        why = "activities"
    else:
        treatment = "drop"
        why = "undeclared"
    return TreatedAttribute(attribute=name, column=column, treatment=treatment, why=why)


def refuse_open_globs(draft: Draft) -> Draft:
    """Refuse globs of which the policy leaves open what they decide or, under differential privacy,
    what they release.

    Which names a log has is data: one case may be the only one with some attribute. So beside a
    differential privacy that hides whether a case is there, the policy must spell out every name.
    Beside the other guarantees every name is taken as given.
    """
    causes = list(draft.causes)
    rules = draft.policy.spec.attributes
    globs = [item for item in draft.attributes if is_glob(item.attribute)]
    effects: dict[str, object] = {}
    for item in globs:
        # The role in itself changes nothing about what happens to what a glob matches.
        rule = rules[item.attribute].model_copy(update={"role": None})
        effects[item.attribute] = None if item.treatment == "drop" else (item.treatment, rule)
    for later, earlier, alike in clashes(effects):
        both = f"'{later}' and '{earlier}'"
        if alike:
            reason = f"{both} match the same names: keep one of them"
        else:
            reason = (
                f"{both} overlap, and neither contains the other: which of them decides about a "
                "name that fits both is open; narrow one of them, or give both the same rule"
            )
        causes.append(Cause("rules of the attributes", reason))
    hiding = next((goal for goal in draft.goals if goal.hides_attribute_names()), None)
    for item in globs:
        if hiding is not None and item.treatment in RELEASED:
            reason = (
                f"it hides whether a case is there, and which attributes match '{item.attribute}' "
                "may tell: which names a log has is data; "
                "spell out the names, or drop what matches"
            )
            causes.append(Cause(hiding.cited(), reason))
    return replace(draft, causes=tuple(causes))


def _unusable_attributes(draft: Draft, covered: frozenset[str]) -> Iterator[Cause]:
    """What no plan can do with the attributes as declared."""
    policy = draft.policy
    released = draft.released
    if CONTROL_FLOW not in released:
        yield Cause(
            "release",
            "no released attribute has the role control-flow; "
            "give it to the activity, such as concept:name",
        )
    for item in draft.attributes:
        if item.column in _ROLE and is_glob(item.attribute):
            role = _ROLE[item.column]
            reason = f"role {role} belongs to one attribute by name, not to '{item.attribute}'"
            yield Cause("release", reason)
    rule = policy.rule(CASE_ID)
    if rule is not None and rule.treatment == "keep":
        reason = f"'{CASE_ID}' cannot be kept: releases never carry original case ids"
        yield Cause("release", reason)
    for column in sorted(covered - released - {METADATA}):
        reason = "the policy drops it, so there is nothing to cover"
        if column in _ROLE and policy.attribute_with(_ROLE[column]) is None:
            reason = f"no attribute has the role {_ROLE[column]}"
        yield Cause(f"guarantee over {column}", reason)
    # The release calls its activity and its time by their standard names: no other attribute can
    # have these.
    for column, standard in ((CONTROL_FLOW, ACTIVITY), (TIMESTAMPS, TIMESTAMP)):
        given = policy.attribute_with(_ROLE[column])
        is_released = any(
            item.attribute == standard and item.treatment in RELEASED for item in draft.attributes
        )
        if given not in (None, standard) and (is_released or standard in covered):
            yield Cause(
                f"release of '{standard}'",
                f"'{given}' has the role {_ROLE[column]} and is released under that name; "
                f"drop '{standard}', or rename it in the log",
            )
    # What is counted in cases must not count the parts of one (``privacy.md`` 1).
    if policy.spec.unit.on_conflict == "split":
        for goal in draft.goals:
            if isinstance(goal, CountedGuarantee):
                reason = (
                    "it would count the parts of a case that on_conflict: split makes; "
                    "use on_conflict: refuse"
                )
                yield Cause(goal.cited(), reason)


_ROLE: Final[Mapping[str, Role]] = {CONTROL_FLOW: "control-flow", TIMESTAMPS: "timestamp"}


def expose_unproven(draft: Draft) -> Draft:
    """A column that only a published claim covers is shown as released without protection.

    Where an unproven mechanism makes new cases, what the policy releases of the source's other
    attributes is not there to be released: it is shown as dropped.
    """
    unproven = [step for step in draft.steps if step.proof == "published"]
    generators = [step for step in unproven if step.lineage.generates]
    made = {column for step in generators for column in step.lineage.writes}
    mechanism_of = {
        column: step.mechanism
        for step in unproven
        for index in step.goals
        for column in (*draft.goals[index].over, METADATA)
    }
    attributes = []
    for item in draft.attributes:
        change: dict[str, str] = {}
        if generators and item.treatment in SOURCE_VALUES and item.column not in made:
            mechanism = generators[0].mechanism
            change = {"treatment": "drop", "why": "not-generated", "mechanism": mechanism}
        elif item.column in mechanism_of and item.treatment == "protect":
            change = {"why": "unproven", "mechanism": mechanism_of[item.column]}
        attributes.append(item.model_copy(update=change))
    draft = replace(draft, attributes=tuple(attributes))
    exposed = draft.exposed
    # What new cases lack is not there to be exposed either.
    if generators:
        exposed = tuple(item for item in exposed if item.column in draft.released | made)
    already = {item.column for item in exposed}
    added = [
        exposure(column, OnlyPublished(mechanism=name))
        for column, name in mechanism_of.items()
        if column not in already
    ]
    return replace(draft, exposed=(*added, *exposed))


SOURCE_VALUES: Final = ("keep", "pseudonymise", "generalise")
"""Treatments that release values of the source in some form."""


def expose_metadata(draft: Draft) -> Draft:
    """Say what the form of the release shows, unless a claim about whole cases covers it."""
    covered = any(goal.hides_presence() for goal in draft.goals)
    if covered or METADATA in {item.column for item in draft.exposed}:
        return draft
    changing = dict.fromkeys(
        step.mechanism for step in draft.steps if METADATA in step.lineage.writes
    )
    why = FormOfRelease(changed_by=tuple(changing))
    return replace(draft, exposed=(*draft.exposed, exposure(METADATA, why)))


def exposure(column: str, why: ExposureReason) -> PlannedExposure:
    """A column that is released without protection."""
    return PlannedExposure(column=column, why=why, reason=exposure_in_words(why))

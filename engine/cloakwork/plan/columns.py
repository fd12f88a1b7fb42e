"""What happens to each column: who covers it, what is released without protection, how attributes
are treated.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from cloakwork.base.errors import Cause
from cloakwork.base.globs import clashes, is_glob
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.guarantees import CountedGuarantee
from cloakwork.guarantees.claims import ExposureReason, FormOfRelease, OnlyPublished, PolicyReason
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP
from cloakwork.plan.model import RELEASED, Draft, PlannedExposure, TreatedAttribute
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
        _treatment_of_attribute(name, rule, policy.column(name), covered, coarsened)
        for name, rule in policy.spec.attributes.items()
    )
    draft = replace(draft, goals=goals, attributes=attributes)
    exposed, causes = _uncovered_columns(draft, covered)
    return replace(
        draft,
        exposed=exposed,
        causes=(*draft.causes, *causes, *_unusable_attributes(draft, covered)),
    )


def _treatment_of_attribute(
    name: str, rule: AttributeRule, column: str, covered: frozenset[str], coarsened: frozenset[str]
) -> TreatedAttribute:
    """What happens to one attribute: some guarantee covers the columns in ``covered``, k-anonymity
    those in ``coarsened``.
    """
    if name == CASE_ID:
        return TreatedAttribute(
            attribute=name, column=METADATA, treatment="replace", why="fresh-ids"
        )
    left_to_guarantee = rule.treatment in (None, "keep")
    left_to_k_anonymity = rule.treatment == "generalise" and column in coarsened
    if column in covered and (left_to_guarantee or left_to_k_anonymity):
        return TreatedAttribute(attribute=name, column=column, treatment="protect", why="covered")
    if rule.treatment is not None:
        return TreatedAttribute(
            attribute=name, column=column, treatment=rule.treatment, why="policy"
        )
    if column == CONTROL_FLOW:
        return TreatedAttribute(attribute=name, column=column, treatment="keep", why="activities")
    return TreatedAttribute(attribute=name, column=column, treatment="drop", why="undeclared")


def _uncovered_columns(
    draft: Draft, covered: frozenset[str]
) -> tuple[tuple[PlannedExposure, ...], list[Cause]]:
    """The columns that stay uncovered, with the policy's reasons; a cause for each without one."""
    names_by_column: dict[str, list[str]] = {}
    for item in draft.attributes:
        if item.treatment in RELEASED:
            names_by_column.setdefault(item.column, []).append(item.attribute)
    exposed, causes = [], []
    reasons = draft.policy.spec.expose
    for column in sorted(names_by_column.keys() - covered):
        names = names_by_column[column]
        stated = [reasons[key] for key in (column, *names) if key in reasons]
        if stated:
            exposed.append(exposure(column, PolicyReason(reason=stated[0])))
        else:
            causes.append(_exposed_without_reason(column, names))
    return tuple(exposed), causes


def _exposed_without_reason(column: str, names: list[str]) -> Cause:
    shown = f"'{column}'" if names == [column] else f"{column} ({', '.join(names)})"
    return Cause(
        f"release of {shown}",
        "it would be released without protection; "
        "cover it, drop it, or name it under expose with a reason",
    )


def refuse_open_globs(draft: Draft) -> Draft:
    """Refuse globs of which the policy leaves open what they decide or, under differential privacy,
    what they release.

    Which names a log has is data: one case may be the only one with some attribute. So beside a
    differential privacy that hides whether a case is there, the policy must spell out every name.
    Beside the other guarantees every name is taken as given.
    """
    causes = (*draft.causes, *_clashing_globs(draft), *_revealing_globs(draft))
    return replace(draft, causes=causes)


def _clashing_globs(draft: Draft) -> Iterator[Cause]:
    """Two globs that may decide about one name."""
    for later, earlier, alike in clashes(_treatment_by_glob(draft)):
        both = f"'{later}' and '{earlier}'"
        if alike:
            reason = f"{both} match the same names: keep one of them"
        else:
            reason = (
                f"{both} overlap, and neither contains the other: which of them decides about a "
                "name that fits both is open; narrow one of them, or give both the same rule"
            )
        yield Cause("rules of the attributes", reason)


def _revealing_globs(draft: Draft) -> Iterator[Cause]:
    """A released glob beside a guarantee that must hide which names a log has."""
    hiding = [goal for goal in draft.goals if goal.hides_attribute_names()]
    if not hiding:
        return
    for item in draft.attributes:
        if is_glob(item.attribute) and item.treatment in RELEASED:
            reason = (
                f"it hides whether a case is there, and which attributes match '{item.attribute}' "
                "may tell: which names a log has is data; "
                "spell out the names, or drop what matches"
            )
            yield Cause(hiding[0].cited(), reason)


def _treatment_by_glob(draft: Draft) -> dict[str, object]:
    """What happens to what each glob matches; the role in itself changes nothing about it."""
    rules = draft.policy.spec.attributes
    treatments: dict[str, object] = {}
    for item in draft.attributes:
        if is_glob(item.attribute):
            rule = rules[item.attribute].model_copy(update={"role": None})
            dropped = item.treatment == "drop"
            treatments[item.attribute] = None if dropped else (item.treatment, rule)
    return treatments


def _unusable_attributes(draft: Draft, covered: frozenset[str]) -> Iterator[Cause]:
    """What no plan can do with the attributes as declared."""
    policy, released = draft.policy, draft.released
    if CONTROL_FLOW not in released:
        yield Cause(
            "release",
            "no released attribute has the role control-flow; "
            "give it to the activity, such as concept:name",
        )
    for item in draft.attributes:
        if item.column in (CONTROL_FLOW, TIMESTAMPS) and is_glob(item.attribute):
            yield Cause(
                "release",
                f"role {_ROLE[item.column]} belongs to one attribute by name, "
                f"not to '{item.attribute}'",
            )
    rule = policy.rule(CASE_ID)
    if rule is not None and rule.treatment == "keep":
        yield Cause(
            "release", f"'{CASE_ID}' cannot be kept: releases never carry original case ids"
        )
    for column in sorted(covered - released - {METADATA}):
        if column in (CONTROL_FLOW, TIMESTAMPS) and policy.attribute_with(_ROLE[column]) is None:
            yield Cause(f"guarantee over {column}", f"no attribute has the role {_ROLE[column]}")
        elif column not in released:
            yield Cause(
                f"guarantee over {column}", "the policy drops it, so there is nothing to cover"
            )
    yield from _standard_names_taken(draft, covered)
    yield from _split_cases_counted(draft)


def _standard_names_taken(draft: Draft, covered: frozenset[str]) -> Iterator[Cause]:
    """The release calls its activity and its time by their standard names: no other attribute can
    have these.
    """
    for column, standard in ((CONTROL_FLOW, ACTIVITY), (TIMESTAMPS, TIMESTAMP)):
        given = draft.policy.attribute_with(_ROLE[column])
        if given in (None, standard):
            continue
        item = next((item for item in draft.attributes if item.attribute == standard), None)
        if (item is not None and item.treatment in RELEASED) or standard in covered:
            yield Cause(
                f"release of '{standard}'",
                f"'{given}' has the role {_ROLE[column]} and is released under that name; "
                f"drop '{standard}', or rename it in the log",
            )


def _split_cases_counted(draft: Draft) -> Iterator[Cause]:
    """What is counted in cases must not count the parts of one (``privacy.md`` 1)."""
    if draft.policy.spec.unit.on_conflict != "split":
        return
    reason = (
        "it would count the parts of a case that on_conflict: split makes; use on_conflict: refuse"
    )
    for goal in draft.goals:
        if isinstance(goal, CountedGuarantee):
            yield Cause(goal.cited(), reason)


_ROLE: Final[Mapping[str, Role]] = {CONTROL_FLOW: "control-flow", TIMESTAMPS: "timestamp"}


def expose_unproven(draft: Draft) -> Draft:
    """A column that only a published claim covers is shown as released without protection.

    Where an unproven mechanism makes new cases, what the policy releases of the source's other
    attributes is not there to be released: it is shown as dropped.
    """
    draft = _without_ungenerated(draft)
    unproven = {
        index: step.mechanism
        for step in draft.steps
        for index in step.goals
        if step.proof == "published"
    }
    if not unproven:
        return draft
    mechanism_of = {
        column: name
        for index, name in unproven.items()
        for column in (*draft.goals[index].over, METADATA)
    }
    already = {item.column for item in draft.exposed}
    exposed = tuple(
        exposure(column, OnlyPublished(mechanism=name))
        for column, name in mechanism_of.items()
        if column not in already
    )
    attributes = tuple(_as_unproven(item, mechanism_of) for item in draft.attributes)
    return replace(draft, attributes=attributes, exposed=(*exposed, *draft.exposed))


def _without_ungenerated(draft: Draft) -> Draft:
    """The draft without the attributes that an unproven generator of cases does not make."""
    unproven = [step for step in draft.steps if step.proof == "published"]
    generators = [step for step in unproven if step.lineage.generates]
    if not generators:
        return draft
    mechanism = generators[0].mechanism
    made = {column for step in generators for column in step.lineage.writes}
    attributes = tuple(
        item.model_copy(
            update={"treatment": "drop", "why": "not-generated", "mechanism": mechanism}
        )
        if item.treatment in SOURCE_VALUES and item.column not in made
        else item
        for item in draft.attributes
    )
    draft = replace(draft, attributes=attributes)
    exposed = tuple(item for item in draft.exposed if item.column in draft.released | made)
    return replace(draft, exposed=exposed)


SOURCE_VALUES: Final = ("keep", "pseudonymise", "generalise")
"""Treatments that release values of the source in some form."""


def _as_unproven(item: TreatedAttribute, mechanism_of: Mapping[str, str]) -> TreatedAttribute:
    """An attribute that a guarantee was to cover, where only a published claim does."""
    if item.column not in mechanism_of or item.treatment != "protect":
        return item
    update = {"why": "unproven", "mechanism": mechanism_of[item.column]}
    return item.model_copy(update=update)


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

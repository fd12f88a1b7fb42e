"""What happens to each column: who covers it, what is released without protection, how attributes
are treated.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from cloakwork.errors import Cause
from cloakwork.guarantees import CountedGuarantee, Guarantee, KAnonymity
from cloakwork.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP
from cloakwork.mechanisms.attributes.redact import RedactParams, Treatment
from cloakwork.mechanisms.kanon.fill import FillParams
from cloakwork.mechanisms.kanon.generalise import (
    MOST_COMBINATIONS,
    GeneraliseParams,
    QuasiIdentifier,
)
from cloakwork.plan.choose import step_of
from cloakwork.plan.claims import ExposureReason
from cloakwork.plan.claims.exposures import FormOfRelease, OnlyPublished, PolicyReason
from cloakwork.plan.derive import goal_name
from cloakwork.plan.draft import Draft
from cloakwork.plan.model import RELEASED, Exposure, Step, Treated
from cloakwork.plan.sentences import exposure_in_words
from cloakwork.policy.globs import clashes, is_glob
from cloakwork.policy.model import AttributeRule, Policy, Role


def classify_columns(draft: Draft) -> Draft:
    """Decide what happens to each declared attribute, and refuse columns that leave uncovered and
    unexplained.
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
) -> Treated:
    """The fate of one attribute: some guarantee covers the columns in ``covered``, k-anonymity
    those in ``coarsened``.
    """
    if name == CASE_ID:
        return Treated(attribute=name, column=METADATA, treatment="replace", why="fresh-ids")
    if column in covered and rule.treatment in (
        None,
        "keep",
        *(["generalise"] if column in coarsened else []),
    ):
        return Treated(attribute=name, column=column, treatment="protect", why="covered")
    if rule.treatment is not None:
        return Treated(attribute=name, column=column, treatment=rule.treatment, why="policy")
    if column == CONTROL_FLOW:
        return Treated(attribute=name, column=column, treatment="keep", why="activities")
    return Treated(attribute=name, column=column, treatment="drop", why="undeclared")


def _uncovered_columns(
    draft: Draft, covered: frozenset[str]
) -> tuple[tuple[Exposure, ...], list[Cause]]:
    """The columns that stay uncovered, with the policy's reasons; a cause for each that has none."""
    exposed, causes = [], []
    names_of: dict[str, list[str]] = {}
    for item in draft.attributes:
        if item.treatment in RELEASED:
            names_of.setdefault(item.column, []).append(item.attribute)
    reasons = draft.policy.spec.expose
    for column in sorted(names_of.keys() - covered):
        names = names_of[column]
        reason = next((reasons[key] for key in (column, *names) if key in reasons), None)
        if reason is None:
            said = f"{column} ({', '.join(names)})" if names != [column] else f"'{column}'"
            causes.append(
                Cause(
                    f"release of {said}",
                    "it would be released without protection; cover it, drop it, or name it under expose with a reason",
                )
            )
        else:
            exposed.append(exposure(column, PolicyReason(reason=reason)))
    return tuple(exposed), causes


def refuse_open_globs(draft: Draft) -> Draft:
    """Refuse globs of which the policy leaves open what they decide or, under differential privacy,
    what they release.

    Which names a log has is data: one case may be the only one with some attribute. So a
    differential privacy that hides whether a case is there leaves no room for a name that the
    policy does not spell out. Beside the other guarantees every name is taken as given.
    """
    causes = [
        Cause(
            "rules of the attributes",
            f"'{later}' and '{earlier}' match the same names: keep one of them"
            if alike
            else f"'{later}' and '{earlier}' overlap, and neither contains the other: which of them decides about a name "
            "that fits both is open; narrow one of them, or give both the same rule",
        )
        for later, earlier, alike in clashes(_treatment_by_glob(draft))
    ]
    hiding = [goal for goal in draft.goals if goal.hides_attribute_names()]
    for item in draft.attributes if hiding else ():
        if is_glob(item.attribute) and item.treatment in RELEASED:
            reason = (
                f"it hides whether a case is there, and which attributes match '{item.attribute}' may tell: which names a "
                "log has is data; spell out the names, or drop what matches"
            )
            causes.append(Cause(goal_name(hiding[0]), reason))
    return replace(draft, causes=(*draft.causes, *causes))


def _treatment_by_glob(draft: Draft) -> dict[str, object]:
    """What happens to what each glob matches; the role in itself changes nothing about it."""
    rules = draft.policy.spec.attributes
    return {
        item.attribute: None
        if item.treatment == "drop"
        else (item.treatment, rules[item.attribute].model_copy(update={"role": None}))
        for item in draft.attributes
        if is_glob(item.attribute)
    }


def _unusable_attributes(draft: Draft, covered: frozenset[str]) -> Iterator[Cause]:
    """What no plan can do with the attributes as declared."""
    policy, released = draft.policy, draft.released
    if CONTROL_FLOW not in released:
        yield Cause(
            "release",
            "no released attribute has the role control-flow; give it to the activity, such as concept:name",
        )
    for item in draft.attributes:
        if item.column in (CONTROL_FLOW, TIMESTAMPS) and is_glob(item.attribute):
            yield Cause(
                "release",
                f"role {_ROLE[item.column]} belongs to one attribute by name, not to '{item.attribute}'",
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
                f"'{given}' has the role {_ROLE[column]} and is released under that name; drop '{standard}', or rename "
                "it in the log",
            )


def _split_cases_counted(draft: Draft) -> Iterator[Cause]:
    """What is counted in cases must not count the parts of one (``privacy.md`` 1)."""
    if draft.policy.spec.unit.on_conflict != "split":
        return
    for goal in draft.goals:
        if isinstance(goal, CountedGuarantee):
            why = "it would count the parts of a case that on_conflict: split makes; use on_conflict: refuse"
            yield Cause(goal_name(goal), why)


_ROLE: Final[Mapping[str, Role]] = {CONTROL_FLOW: "control-flow", TIMESTAMPS: "timestamp"}


def expose_unproven(draft: Draft) -> Draft:
    """A column that only a published claim covers is released without protection, and is shown so."""
    by = {
        index: step.mechanism
        for step in draft.steps
        for index in step.goals
        if step.proof != "proved"
    }
    if not by:
        return draft
    bare = {
        column: name
        for index, name in by.items()
        for column in (*draft.goals[index].over, METADATA)
    }
    shown = {item.column for item in draft.exposed}
    exposed = tuple(
        exposure(column, OnlyPublished(mechanism=name))
        for column, name in bare.items()
        if column not in shown
    )
    attributes = tuple(
        item.model_copy(update={"why": "unproven", "mechanism": bare[item.column]})
        if item.column in bare and item.treatment == "protect"
        else item
        for item in draft.attributes
    )
    return replace(draft, attributes=attributes, exposed=(*exposed, *draft.exposed))


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


def exposure(column: str, why: ExposureReason) -> Exposure:
    """A column that is released without protection."""
    return Exposure(column=column, why=why, reason=exposure_in_words(why))


def generalise_quasi_identifiers(draft: Draft) -> Draft:
    """Add a step for each k-anonymity over attributes beside the control flow, which makes their
    values coarser.
    """
    steps, causes = list(draft.steps), list(draft.causes)
    for index, goal in enumerate(draft.goals):
        if isinstance(goal, KAnonymity) and len(goal.over) > 1 and CONTROL_FLOW in goal.over:
            found = _generalisation_step(index, goal, draft)
            if isinstance(found, Cause):
                causes.append(found)
            else:
                steps.append(found)
    return replace(draft, steps=tuple(steps), causes=tuple(causes))


def _generalisation_step(index: int, goal: KAnonymity, draft: Draft) -> Step | Cause:
    mechanism, policy = draft.catalogue["kanon/generalise"], draft.policy
    name = goal_name(goal)
    if not policy.spec.mechanisms.allows(mechanism.name):
        return Cause(name, "mechanisms.allow or mechanisms.deny rules it out", mechanism.name)
    others = [column for column in goal.over if column != CONTROL_FLOW]
    if unfit := [
        column for column in others if column in (TIMESTAMPS, METADATA) or is_glob(column)
    ]:
        return Cause(
            name, f"'{unfit[0]}' is no single attribute that could be made coarser", mechanism.name
        )
    unit = draft.facts.unit.attribute if goal.count == "units" else None
    params = GeneraliseParams(
        k=goal.k,
        unit=unit,
        attributes=tuple(_generalisation_levels(column, policy) for column in others),
    )
    if params.combinations > MOST_COMBINATIONS:
        count = (
            f"{params.combinations:,}"
            if params.combinations < _COUNTLESS
            else f"more than {_COUNTLESS:,}"
        )
        return Cause(
            name,
            f"{count} combinations of levels; {MOST_COMBINATIONS:,} can be compared",
            mechanism.name,
        )
    why = f"makes {', '.join(others)} coarser where fewer than {goal.k} share a value within a variant"
    return step_of(mechanism, params, draft.facts, why=why, goals=(index,))


_COUNTLESS: Final = 10**12


def _generalisation_levels(column: str, policy: Policy) -> QuasiIdentifier:
    """The levels that the policy gives an attribute."""
    rule = policy.rule(column)
    if rule is None:
        return QuasiIdentifier(attribute=column)
    fixed = rule.treatment == "generalise"
    finest = rule.level if fixed and rule.hierarchy is not None else None
    return QuasiIdentifier(
        attribute=column, hierarchy=rule.hierarchy, bins=rule.bins, raw=not fixed, finest=finest
    )


def treat_attributes(draft: Draft) -> Draft:
    """End with a step that keeps, pseudonymises or generalises what the policy names, and drops all
    else.
    """
    rules = draft.policy.spec.attributes
    treatments = tuple(
        _redaction(item, rules[item.attribute], draft.policy.metadata.dataset)
        for item in draft.attributes
        if item.column not in (CONTROL_FLOW, TIMESTAMPS, METADATA)
    )
    if any(_is_counted_in_units(goal) for goal in draft.goals):
        treatments = _kept_until_counted(treatments, draft)
    mechanism = draft.catalogue["attributes/redact"]
    why = "treats attributes as the policy says; whatever it does not name is dropped"
    return replace(
        draft,
        steps=(
            *draft.steps,
            step_of(mechanism, RedactParams(treatments=treatments), draft.facts, why=why),
        ),
    )


def fill_inserted_events(draft: Draft) -> Draft:
    """Where a step inserts events, add one that gives these the attributes of kept events."""
    if not any(step.lineage.inserts for step in draft.steps):
        return draft
    attributes = draft.released - {CONTROL_FLOW, TIMESTAMPS, METADATA}
    columns = {column for column in attributes if not column.startswith(CASE_PREFIX)}
    written = any(TIMESTAMPS in step.lineage.writes for step in draft.steps)
    raw_times = TIMESTAMPS in draft.released and not written
    if not columns and not raw_times:
        return draft
    known = any(columns & set(goal.quasi_identifiers()) for goal in draft.goals)
    params = FillParams(
        columns=tuple(sorted(columns | ({TIMESTAMPS} if raw_times else set()))),
        times=raw_times,
        donors="variant" if known else "activity",
    )
    why = "gives inserted events attributes of other events of the same activity, so that none shows by what it lacks"
    step = step_of(draft.catalogue["kanon/fill"], params, draft.facts, why=why)
    return replace(draft, steps=(*draft.steps, step))


def _is_counted_in_units(goal: Guarantee) -> bool:
    group = goal.least_group()
    return group is not None and group.counts == "units"


def _kept_until_counted(treatments: tuple[Treatment, ...], draft: Draft) -> tuple[Treatment, ...]:
    """The attribute that tells units apart stays until the check has counted them; only then does
    it go, if it must.
    """
    unit = draft.facts.unit.attribute
    if unit is None or any(
        item.attribute == unit and item.treatment in RELEASED for item in draft.attributes
    ):
        return treatments
    others = tuple(item for item in treatments if item.attribute != unit)
    return (*others, Treatment(attribute=unit, treatment="protect"))


def _redaction(item: Treated, rule: AttributeRule, dataset: str) -> Treatment:
    if item.treatment in ("keep", "protect"):
        return Treatment(
            attribute=item.attribute, treatment="keep" if item.treatment == "keep" else "protect"
        )
    if item.treatment not in ("pseudonymise", "generalise"):
        return Treatment(attribute=item.attribute, treatment="drop")
    return Treatment(
        attribute=item.attribute,
        treatment="pseudonymise" if item.treatment == "pseudonymise" else "generalise",
        hierarchy=rule.hierarchy,
        level=rule.level,
        bins=rule.bins,
        link=dataset if rule.link else None,
    )

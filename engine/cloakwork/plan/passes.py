"""The planner's passes: each takes a draft and returns a better one. The last says what the
guarantees leave open.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from cloakwork.base.costs import Cost
from cloakwork.base.errors import Cause
from cloakwork.base.globs import is_glob, matches
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.naming import SERVICE_TIME
from cloakwork.base.text import listed
from cloakwork.guarantees import DifferentialPrivacy, Guarantee, KAnonymity, ReleaseOutline
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
    StartsFromService,
)
from cloakwork.guarantees.flow import suggestion_assumptions
from cloakwork.mechanisms.base import Offer
from cloakwork.mechanisms.bound import BoundParams
from cloakwork.plan.budget import (
    charge_budget,
    check_deltas,
    check_profile,
    goal_after_profile,
    say_window,
)
from cloakwork.plan.choose import (
    JointTerms,
    MechanismChoice,
    choose_mechanism,
    choose_parts,
    is_joint,
    options_for,
    step_of,
)
from cloakwork.plan.columns import (
    classify_columns,
    expose_metadata,
    expose_unproven,
    refuse_open_globs,
)
from cloakwork.plan.model import RELEASED, ConsideredMechanism, Draft, Pass, Step
from cloakwork.plan.treatments import (
    fill_inserted_events,
    generalise_quasi_identifiers,
    treat_attributes,
)

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
    asked = draft.policy.spec.input
    if asked is not None and asked.object_type is not None:
        yield FlattenedObjects(object_type=asked.object_type)
    has_starts = asked is not None and asked.starts is not None
    treatments = {item.column: item.treatment for item in draft.attributes}
    # Of groups or pseudonyms no start is made.
    is_number = treatments.get(SERVICE_TIME) in ("keep", "protect")
    if has_starts and is_number and TIMESTAMPS in draft.released:
        yield StartsFromService()
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


def bound_contributions(draft: Draft) -> Draft:
    """Begin with a step that bounds what one unit contributes, by declared facts only."""
    facts = draft.facts
    mechanism = draft.catalogue["bound"]
    params = BoundParams.of(facts)
    # Of the cases and events that the step may leave out, it says which.
    left_out = ["events without an activity"]
    if params.alphabet is not None:
        left_out = ["events whose activity the policy does not declare"]
    if params.longest_case is not None:
        left_out.append(f"events of a case after the first {params.longest_case:,}")
    left_out.append("cases without events")
    if params.attribute is not None:
        kept = f"{params.max_cases:,} cases" if params.max_cases > 1 else "one case"
        left_out.append(f"all but {kept} of each '{params.attribute}', chosen at random")
    why = (
        f"leaves out {listed(left_out)}, so that one unit counts for no more than the policy allows"
    )
    step = step_of(mechanism, params, facts, why=why)
    return replace(draft, steps=(*draft.steps, step))


def choose_mechanisms(draft: Draft) -> Draft:
    """Choose mechanisms for each guarantee, for what the profile leaves of its budget: one, or one
    for each part of a joint goal.
    """
    steps = list(draft.steps)
    causes = list(draft.causes)
    considered: list[ConsideredMechanism] = []
    for index, goal in enumerate(draft.goals):
        left = goal_after_profile(draft.profile, goal)
        if left is None:
            continue
        # Mechanisms protect single cases, by as much more as employees change of them.
        whole: Guarantee = goal
        if draft.facts.employees is not None and isinstance(left, DifferentialPrivacy):
            of_cases = left.of_single_cases(draft.facts)
            if isinstance(of_cases, str):
                causes.append(Cause(goal.cited(), of_cases, where=("spec", "guarantees", index)))
                continue
            left = whole = of_cases
        choice = _choose(index, left, whole, draft)
        steps += choice.steps
        considered += choice.considered
        # At the guarantee's place where they have none of their own.
        where = ("spec", "guarantees", index)
        causes += [replace(cause, where=cause.where or where) for cause in choice.causes]
    return replace(draft, steps=tuple(steps), considered=tuple(considered), causes=tuple(causes))


def _choose(index: int, left: Guarantee, goal: Guarantee, draft: Draft) -> MechanismChoice:
    """For one goal, of which the profile leaves ``left``."""
    allowed = draft.policy.spec.mechanisms
    catalogue = draft.catalogue
    alone = choose_mechanism(index, left, draft.facts, allowed, catalogue)
    if not isinstance(left, DifferentialPrivacy) or not is_joint(left):
        return alone
    assert isinstance(goal, DifferentialPrivacy)  # noqa: S101 - of the kind of what is left
    # One mechanism for the whole goal comes before several that share it; but on a flow that is
    # known, drawn values err less than noise on each one, unless the policy names that first.
    given = left.takes_columns_as_known()
    if alone.steps and (not given or _is_named_first(alone.steps[0], draft)):
        return alone
    # Options of it that the policy sets wrongly are refused, not passed over.
    wrongly_set = (
        each.kind == "misconfigured" and each.mechanism in allowed.parameters
        for each in alone.considered
    )
    if given and any(wrongly_set):
        return alone
    terms = JointTerms(
        goal=left,
        facts=draft.facts,
        allowed=allowed,
        catalogue=catalogue,
        shares=draft.policy.spec.budget.shares,
        profiled=None if draft.profile is None else draft.profile.params.event(),
        in_all=Cost(epsilon=goal.epsilon, delta=goal.delta),
    )
    parts = choose_parts(index, terms, alone.considered)
    # What the policy sets wrongly is refused; a list that rules out all parts leaves the whole.
    lists = (("spec", "mechanisms", "allow"), ("spec", "mechanisms", "deny"))
    if not alone.steps or any(c.where and c.where not in lists for c in parts.causes):
        return parts
    if not parts.steps:
        # What serves parts says there why it does not, rather than that it serves no whole.
        whole = [each for each in alone.considered if not catalogue[each.mechanism].serves_parts]
        of_parts = [each for each in parts.considered if catalogue[each.mechanism].serves_parts]
        return replace(alone, considered=(*whole, *of_parts))
    passed_over = ConsideredMechanism(
        goal=left.cited(),
        mechanism=alone.steps[0].mechanism,
        kind="other chosen",
        reason=f"{parts.steps[0].mechanism} comes first; name it under mechanisms.prefer to use "
        f"it: it {alone.steps[0].why}",
    )
    return replace(parts, considered=(*parts.considered, passed_over))


def _is_named_first(step: Step, draft: Draft) -> bool:
    """Whether ``prefer`` has the name of the step's mechanism, and none that draws before it."""
    for name in draft.policy.spec.mechanisms.prefer:
        if name == step.mechanism:
            return True
        if name in draft.catalogue and draft.catalogue[name].serves_parts:
            return False
    return False


def protect_cases_and_employees(draft: Draft) -> Draft:
    """Where one k-anonymity protects employees and others cases, let the step for the first bring
    about all of them: two steps would undo each other's work.
    """
    counted = {i: goal for i, goal in enumerate(draft.goals) if isinstance(goal, KAnonymity)}
    of_employees = {i: goal for i, goal in counted.items() if goal.employees is not None}
    if not of_employees or len(counted) == 1:
        return draft
    others = {i: goal for i, goal in counted.items() if goal.employees is None}
    causes = []
    if len(of_employees) > 1:
        reason = "one k-anonymity of employees is possible beside others: leave one of them"
        causes.append(Cause(of_employees[min(of_employees)].cited(), reason))
    for index, goal in others.items():
        by_units = goal.count == "units" and draft.facts.unit.attribute is not None
        if goal.over != (CONTROL_FLOW,) or by_units:
            reason = (
                "beside k-anonymity of employees it must count cases, over control-flow alone: "
                "what else it asks would be undone where cases are left out for employees"
            )
            where = ("spec", "guarantees", index)
            causes.append(Cause(goal.cited(), reason, where=where))
    index = next(iter(of_employees))
    step = next((each for each in draft.steps if index in each.goals), None)
    if causes or step is None:
        return replace(draft, causes=(*draft.causes, *causes))
    mechanism = draft.catalogue[step.mechanism]
    options = options_for(mechanism, draft.policy.spec.mechanisms)
    options["least_cases"] = max(goal.k for goal in counted.values())
    offer = mechanism.offer(of_employees[index], draft.facts, options)
    assert isinstance(offer, Offer)  # noqa: S101 - it offered for fewer cases
    serving = step_of(mechanism, offer.params, draft.facts, why=offer.why, goals=tuple(counted))
    kept = [each for each in draft.steps if not others.keys() & {*each.goals} and each is not step]
    considered = tuple(item for item in draft.considered if item.mechanism != step.mechanism)
    return replace(draft, steps=(*kept, serving), considered=considered)


def check_rules(draft: Draft) -> Draft:
    """Refuse rules of the process where no cases are drawn: they would bind nothing."""
    draws = any(step.lineage.generates for step in draft.steps)
    if draft.facts.rules is None or draws or draft.causes:
        return draft
    reason = "they bind the cases that a step draws, and none draws any; leave them out"
    cause = Cause("rules of the process", reason, where=("spec", "assume", "rules"))
    return replace(draft, causes=(*draft.causes, cause))


def order_steps(draft: Draft) -> Draft:
    """Run a step that makes new cases before those that add columns to them, these before those
    that change cases, and a writer of a column before its readers; then inserted events are
    completed; what protects an attribute's values comes last, after the policy's treatment of
    them, and sees every event that is released.
    """
    # The first step bounds what a unit contributes, before anything else is done.
    first = draft.steps[:1]
    others = draft.steps[1:]
    return replace(draft, steps=(*first, *sorted(others, key=_running_order)))


def _running_order(step: Step) -> int:
    # Before cases are changed, and values copied: each value is one of the source's, or none.
    if step.lineage.generates or step.currency == "local":
        return 1
    if step.lineage.enriches and not step.lineage.is_given_flow:
        return 2
    if CONTROL_FLOW in step.lineage.writes:
        return 3
    # Before what the policy does with drawn values.
    if step.lineage.is_given_flow:
        return 4
    if step.lineage.fills:
        return 5
    protects = step.goals and step.lineage.writes - {TIMESTAMPS, METADATA}
    return 6 if protects else 4


PASSES: Final[tuple[Pass, ...]] = (
    # What the policy asks for, column by column, and whether its profile fits.
    classify_columns,
    refuse_open_globs,
    check_profile,
    # The steps: what bounds a unit first, then a mechanism for each guarantee.
    bound_contributions,
    choose_mechanisms,
    protect_cases_and_employees,
    check_rules,
    expose_unproven,
    # What the guarantees leave to the treatment of attributes.
    generalise_quasi_identifiers,
    treat_attributes,
    fill_inserted_events,
    order_steps,
    # What the release shows, costs and leaves open.
    expose_metadata,
    charge_budget,
    check_deltas,
    add_caveats,
    say_window,
)

"""The planner's passes: each takes a draft and returns a better one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cloakwork.accounting.charge import Charge
from cloakwork.accounting.exact import exactly, rounded_down
from cloakwork.budget import NOTHING, Cost, Currency
from cloakwork.errors import Cause
from cloakwork.facts import Facts
from cloakwork.guarantees import ConfidenceBound, DifferentialPrivacy, Guarantee, KAnonymity, LocalDP, MetricPrivacy
from cloakwork.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.log.eventlog import CASE_ID, CASE_PREFIX
from cloakwork.mechanisms.attributes.redact import RedactParams, Treatment
from cloakwork.mechanisms.bound import BoundParams
from cloakwork.mechanisms.kanon.generalise import MOST_COMBINATIONS, GeneraliseParams, QuasiIdentifier
from cloakwork.mechanisms.profile import Profile
from cloakwork.plan.choose import Catalogue, choose, step_of
from cloakwork.plan.derive import goal_name
from cloakwork.plan.model import RELEASED, Considered, Exposure, Step, Treated
from cloakwork.policy.model import AttributeRule, Budget, Limit, Policy, Role

CURRENCIES: Final[tuple[Currency, ...]] = ("unit", "metric", "local")


@dataclass(frozen=True, slots=True)
class Draft:
    """A plan in the making. ``goals`` are the policy's guarantees over columns instead of attribute names."""

    policy: Policy
    facts: Facts
    catalogue: Catalogue
    goals: tuple[Guarantee, ...] = ()
    attributes: tuple[Treated, ...] = ()
    exposed: tuple[Exposure, ...] = ()
    steps: tuple[Step, ...] = ()
    charges: tuple[Charge, ...] = ()
    considered: tuple[Considered, ...] = ()
    causes: tuple[Cause, ...] = ()
    warnings: tuple[str, ...] = ()
    profile: Profile | None = None

    @property
    def released(self) -> frozenset[str]:
        """The columns that leave the house."""
        return frozenset(item.column for item in self.attributes if item.treatment in RELEASED)


Pass = Callable[[Draft], Draft]


def classify_columns(draft: Draft) -> Draft:
    """Decide what happens to each declared attribute, and refuse columns that leave uncovered and unexplained."""
    policy = draft.policy
    goals = policy.goals()
    covered = frozenset(column for goal in goals for column in goal.over)
    attributes = tuple(_treated(name, rule, policy, goals) for name, rule in policy.spec.attributes.items())
    draft = replace(draft, goals=goals, attributes=attributes)
    exposed, causes = _exposures(draft, covered)
    return replace(draft, exposed=exposed, causes=(*draft.causes, *causes, *_unusable(draft, covered)))


def _treated(name: str, rule: AttributeRule, policy: Policy, goals: Sequence[Guarantee]) -> Treated:
    column = policy.column(name)
    covered = frozenset(column for goal in goals for column in goal.over)
    coarsened = any(isinstance(goal, KAnonymity) and column in goal.over for goal in goals)
    if name == CASE_ID:
        return Treated(attribute=name, column=METADATA, treatment="replace", why="releases carry fresh random case ids")
    if column in covered and rule.treatment in (None, "keep", *(["generalise"] if coarsened else [])):
        return Treated(attribute=name, column=column, treatment="protect", why="a guarantee covers it")
    if rule.treatment is not None:
        return Treated(attribute=name, column=column, treatment=rule.treatment, why="the policy says so")
    if column == CONTROL_FLOW:
        return Treated(attribute=name, column=column, treatment="keep", why="a log without activities is none")
    return Treated(
        attribute=name, column=column, treatment="drop", why="no guarantee covers it and the policy names no treatment"
    )


def _exposures(draft: Draft, covered: frozenset[str]) -> tuple[tuple[Exposure, ...], list[Cause]]:
    """The columns that stay uncovered, with the policy's reasons; a cause for each that has none."""
    exposed, causes = [], []
    for column in sorted(draft.released - covered):
        names = [item.attribute for item in draft.attributes if item.column == column and item.treatment in RELEASED]
        reason = next((why for key, why in draft.policy.spec.expose.items() if key in (column, *names)), None)
        if reason is None:
            said = f"{column} ({', '.join(names)})" if names != [column] else f"'{column}'"
            causes.append(
                Cause(
                    f"release of {said}",
                    "it would leave the house under no guarantee; cover it, drop it, or name it under expose with a reason",
                )
            )
        else:
            exposed.append(Exposure(column=column, reason=reason))
    if not any(isinstance(goal, DifferentialPrivacy) and goal.neighbours == "unbounded" for goal in draft.goals):
        what = "how many cases there are, and which values are missing, show as in the source after bounding"
        exposed.append(Exposure(column=METADATA, reason=f"released with the log: {what}"))
    return tuple(exposed), causes


def _unusable(draft: Draft, covered: frozenset[str]) -> Iterator[Cause]:
    """What no plan can do with the attributes as declared."""
    policy, released = draft.policy, draft.released
    if CONTROL_FLOW not in released:
        yield Cause(
            "release", "no released attribute has the role control-flow; give it to the activity, such as concept:name"
        )
    for item in draft.attributes:
        if item.column in (CONTROL_FLOW, TIMESTAMPS) and set(item.attribute) & set("*?["):
            yield Cause(
                "release", f"role {_ROLE[item.column]} belongs to one attribute by name, not to '{item.attribute}'"
            )
    rule = policy.rule(CASE_ID)
    if rule is not None and rule.treatment == "keep":
        yield Cause("release", f"'{CASE_ID}' cannot be kept: releases never carry original case ids")
    for column in sorted(covered - released - {METADATA}):
        if column in (CONTROL_FLOW, TIMESTAMPS) and policy.attribute_with(_ROLE[column]) is None:
            yield Cause(f"guarantee over {column}", f"no attribute has the role {_ROLE[column]}")
        elif column not in released:
            yield Cause(f"guarantee over {column}", "the policy drops it, so there is nothing to cover")


_ROLE: Final[Mapping[str, Role]] = {CONTROL_FLOW: "control-flow", TIMESTAMPS: "timestamp"}


def bound_contributions(draft: Draft) -> Draft:
    """Begin with a step that bounds what one unit contributes, by declared facts only."""
    facts, mechanism = draft.facts, draft.catalogue["bound"]
    params = BoundParams(
        attribute=facts.unit.attribute,
        max_cases=facts.unit.max_cases,
        alphabet=facts.alphabet,
        longest_case=facts.longest_case,
    )
    why = "cuts what the declared facts rule out, so that one protected unit counts for a bounded part of the log"
    return replace(draft, steps=(*draft.steps, step_of(mechanism, params, facts, why=why)))


def choose_mechanisms(draft: Draft) -> Draft:
    """Choose one mechanism for each guarantee, for what the profile leaves of its budget."""
    choices = [
        choose(index, left, draft.facts, draft.policy.spec.mechanisms, draft.catalogue)
        for index, goal in enumerate(draft.goals)
        if (left := _left_by(draft.profile, goal)) is not None
    ]
    return replace(
        draft,
        steps=(*draft.steps, *(choice.step for choice in choices if choice.step)),
        considered=tuple(item for choice in choices for item in choice.considered),
        causes=(*draft.causes, *(cause for choice in choices for cause in choice.causes)),
    )


def check_profile(draft: Draft) -> Draft:
    """Refuse a profile that is not of this dataset and unit, or that leaves a guarantee nothing."""
    return replace(draft, causes=(*draft.causes, *_unfit(draft)), warnings=(*draft.warnings, *_without_profile(draft)))


def _unfit(draft: Draft) -> Iterator[Cause]:
    profile, policy = draft.profile, draft.policy
    if profile is None:
        return
    if profile.dataset != policy.metadata.dataset:
        yield Cause("profile", f"it is of dataset '{profile.dataset}', not of '{policy.metadata.dataset}'")
    if profile.params.unit != policy.spec.unit:
        yield Cause("profile", f"its unit of privacy is {profile.params.unit}, the policy's is {policy.spec.unit}")
    if policy.spec.profile is None:
        yield Cause("profile", "the policy sets no spec.profile, so it has no budget for one")
    if not any(_bears_profile(goal) for goal in draft.goals):
        yield Cause("profile", "it belongs to a guarantee of differential privacy with unbounded neighbours")
    for goal in draft.goals:
        if _left_by(profile, goal) is None:
            yield Cause(
                goal_name(goal),
                f"the profile costs epsilon {profile.cost().epsilon:g}, delta "
                f"{profile.cost().delta:g}, and leaves nothing of it",
            )


def _without_profile(draft: Draft) -> Iterator[str]:
    if draft.profile is None and draft.policy.spec.profile is not None:
        yield "the policy buys a DP profile, and none was given: only declared facts are used, and its share goes unspent"


def _bears_profile(goal: Guarantee) -> bool:
    return isinstance(goal, DifferentialPrivacy) and goal.neighbours == "unbounded"


def _left_by(profile: Profile | None, goal: Guarantee) -> Guarantee | None:
    """The goal with what the profile leaves of its budget; None where that is nothing."""
    if profile is None or not isinstance(goal, DifferentialPrivacy) or not _bears_profile(goal):
        return goal
    spent = profile.cost()
    epsilon, delta = exactly(goal.epsilon) - exactly(spent.epsilon), exactly(goal.delta) - exactly(spent.delta)
    if epsilon <= 0 or delta < 0:
        return None
    return goal.model_copy(update={"epsilon": rounded_down(epsilon), "delta": rounded_down(delta)})


def expose_unproven(draft: Draft) -> Draft:
    """A column that only a published claim covers leaves the house under no guarantee, and is shown so."""
    by = {index: step.mechanism for step in draft.steps for index in step.goals if step.proof != "proved"}
    if not by:
        return draft
    bare = {column: name for index, name in by.items() for column in (*draft.goals[index].over, METADATA)}
    shown = {item.column for item in draft.exposed}
    exposed = tuple(
        Exposure(column=column, reason=f"UNPROVEN: accepted by the policy (accept_unproven); {name} is only published")
        for column, name in bare.items()
        if column not in shown
    )
    attributes = tuple(
        item.model_copy(update={"why": f"UNPROVEN: only the published claim of {bare[item.column]} covers it"})
        if item.column in bare and item.treatment == "protect"
        else item
        for item in draft.attributes
    )
    return replace(draft, attributes=attributes, exposed=(*exposed, *draft.exposed))


def generalise_quasi_identifiers(draft: Draft) -> Draft:
    """Add a step for each k-anonymity over attributes beside the control flow, which makes their values coarser."""
    steps, causes = list(draft.steps), list(draft.causes)
    for index, goal in enumerate(draft.goals):
        if isinstance(goal, KAnonymity) and len(goal.over) > 1 and CONTROL_FLOW in goal.over:
            found = _generalisation(index, goal, draft)
            if isinstance(found, Cause):
                causes.append(found)
            else:
                steps.append(found)
    return replace(draft, steps=tuple(steps), causes=tuple(causes))


def _generalisation(index: int, goal: KAnonymity, draft: Draft) -> Step | Cause:
    mechanism, policy = draft.catalogue["kanon/generalise"], draft.policy
    name = goal_name(goal)
    if not policy.spec.mechanisms.allows(mechanism.name):
        return Cause(name, "mechanisms.allow or mechanisms.deny rules it out", mechanism.name)
    others = [column for column in goal.over if column != CONTROL_FLOW]
    if unfit := [column for column in others if column in (TIMESTAMPS, METADATA) or set(column) & set("*?[")]:
        return Cause(name, f"'{unfit[0]}' is no single attribute that could be made coarser", mechanism.name)
    unit = draft.facts.unit.attribute if goal.count == "units" else None
    params = GeneraliseParams(k=goal.k, unit=unit, attributes=tuple(_ladder(column, policy) for column in others))
    if params.combinations > MOST_COMBINATIONS:
        return Cause(
            name,
            f"{params.combinations:,} combinations of levels; {MOST_COMBINATIONS:,} can be compared",
            mechanism.name,
        )
    why = f"makes {', '.join(others)} coarser where fewer than {goal.k} share a value within a course of events"
    return step_of(mechanism, params, draft.facts, why=why, goals=(index,))


def _ladder(column: str, policy: Policy) -> QuasiIdentifier:
    """The levels that the policy gives an attribute."""
    rule = policy.rule(column)
    if rule is None:
        return QuasiIdentifier(attribute=column)
    fixed = rule.treatment == "generalise"
    finest = rule.level if fixed and rule.hierarchy is not None else None
    return QuasiIdentifier(attribute=column, hierarchy=rule.hierarchy, bins=rule.bins, raw=not fixed, finest=finest)


def treat_attributes(draft: Draft) -> Draft:
    """End with a step that keeps, pseudonymises or generalises what the policy names, and drops all else."""
    rules = draft.policy.spec.attributes
    treatments = tuple(
        _treatment(item, rules[item.attribute], draft.policy.metadata.dataset)
        for item in draft.attributes
        if item.column not in (CONTROL_FLOW, TIMESTAMPS, METADATA)
    )
    if any(_counts_units(goal) for goal in draft.goals):
        treatments = _with_unit(treatments, draft)
    mechanism = draft.catalogue["attributes/redact"]
    why = "treats attributes as the policy says; whatever it does not name is dropped"
    return replace(
        draft, steps=(*draft.steps, step_of(mechanism, RedactParams(treatments=treatments), draft.facts, why=why))
    )


def _counts_units(goal: Guarantee) -> bool:
    return isinstance(goal, ConfidenceBound) or (isinstance(goal, KAnonymity) and goal.count == "units")


def _with_unit(treatments: tuple[Treatment, ...], draft: Draft) -> tuple[Treatment, ...]:
    """The attribute that tells units apart stays until the check has counted them; only then does it go, if it must."""
    unit = draft.facts.unit.attribute
    if unit is None or any(item.attribute == unit and item.treatment in RELEASED for item in draft.attributes):
        return treatments
    others = tuple(item for item in treatments if item.attribute != unit)
    return (*others, Treatment(attribute=unit, treatment="protect"))


def _treatment(item: Treated, rule: AttributeRule, dataset: str) -> Treatment:
    if item.treatment in ("keep", "protect"):
        return Treatment(attribute=item.attribute, treatment="keep" if item.treatment == "keep" else "protect")
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


def order_steps(draft: Draft) -> Draft:
    """Run a step that makes new cases before those that change cases, and a writer of a column before its readers; what
    protects an attribute's values comes last, after the policy's treatment of them."""
    return replace(draft, steps=tuple(sorted(draft.steps, key=_rank)))


def _rank(step: Step) -> int:
    if step.mechanism == "bound":
        return 0
    if step.lineage.generates:
        return 1
    if CONTROL_FLOW in step.lineage.writes:
        return 2
    protects = step.goals and step.lineage.writes - {TIMESTAMPS, METADATA}
    return 4 if protects else 3


def charge_budget(draft: Draft) -> Draft:
    """Say what the release takes from the dataset's budget, and refuse what neither release nor dataset may cost.

    A goal that stays unproven takes nothing: the ledger records the release as one without bound.
    """
    unproven = {index for step in draft.steps for index in step.goals if step.proof != "proved"}
    bought = [_left_by(draft.profile, goal) for goal in draft.goals]  # the profile was charged when it was measured
    proved = [goal for index, goal in enumerate(bought) if index not in unproven and goal is not None]
    charges = tuple(charge for charge in map(_charge, proved) if charge is not None)
    budget = draft.policy.spec.budget
    causes = [cause for name in CURRENCIES for cause in _over_budget(total_of(charges, name), name, budget)]
    if budget.composition == "tight":
        causes.append(Cause("budget.composition: tight", "this version adds releases up by basic composition only"))
    warnings = () if budget.total or not charges else (_NO_TOTAL,)
    return replace(draft, charges=charges, causes=(*draft.causes, *causes), warnings=(*draft.warnings, *warnings))


_NO_TOTAL: Final = "the policy sets no budget.total: nothing limits how much all releases of the dataset spend together"


def _charge(goal: Guarantee) -> Charge | None:
    """What a goal may cost at most is what is charged for it: the accountant's figure is never higher."""
    if isinstance(goal, DifferentialPrivacy):
        return Charge(currency="unit", cost=Cost(epsilon=goal.epsilon, delta=goal.delta))
    if isinstance(goal, MetricPrivacy):
        return Charge(currency="metric", cost=Cost(epsilon=goal.epsilon), shift=goal.shift)
    return Charge(currency="local", cost=Cost(epsilon=goal.epsilon)) if isinstance(goal, LocalDP) else None


def total_of(charges: tuple[Charge, ...], currency: Currency) -> Cost:
    """The charges of one currency, added up."""
    return sum((charge.cost for charge in charges if charge.currency == currency), NOTHING)


def totals(budget: Budget) -> Mapping[Currency, Cost | None]:
    """The dataset's total by currency; metric and local privacy share the figure of ``total`` unless given their own."""
    total = budget.total
    if total is None:
        return {"unit": None, "metric": None, "local": None}
    own: Mapping[Currency, Limit] = {"unit": total, "metric": total.metric or total, "local": total.local or total}
    return {currency: limit.cost() for currency, limit in own.items()}


def _over_budget(asked: Cost, currency: Currency, budget: Budget) -> Iterator[Cause]:
    limits = {
        "budget.total": totals(budget)[currency],
        "budget.release": budget.release.cost() if budget.release else None,
    }
    for name, limit in limits.items():
        if limit is not None and (asked.epsilon > limit.epsilon or asked.delta > limit.delta):
            yield Cause(
                f"cost of the release ({currency})",
                f"the guarantees ask for epsilon {asked.epsilon:g}, delta {asked.delta:g}; "
                f"{name} allows {limit.epsilon:g}, {limit.delta:g}",
            )


def check_deltas(draft: Draft) -> Draft:
    """Refuse a delta so large that it would allow publishing somebody outright."""
    from cloakwork.accounting.calibrate import largest_delta

    limit = largest_delta(draft.facts.units_at_most)
    declared = draft.facts.units_at_most
    because = f"1/(10 x {declared:,} units)" if declared else "1e-06 while assume.units_at_most is undeclared"
    causes = tuple(
        Cause(goal_name(goal), f"delta {goal.delta:g} is more than {because}")
        for goal in draft.goals
        if isinstance(goal, DifferentialPrivacy) and goal.delta > limit
    )
    return replace(draft, causes=(*draft.causes, *causes))


def warn(draft: Draft) -> Draft:
    """Say what the guarantees leave open."""
    return replace(draft, warnings=(*draft.warnings, *_warnings(draft)))


def _warnings(draft: Draft) -> Iterator[str]:
    goals, policy = draft.goals, draft.policy
    for step in draft.steps:
        if step.proof != "proved":
            yield f"UNPROVEN: {step.mechanism} is only published; this release is for comparison and must not be published"
    kanon = [goal for goal in goals if isinstance(goal, KAnonymity)]
    on_values = [goal for goal in goals if goal.kind in ("t-closeness", "l-diversity", "confidence-bound")]
    bounded = frozenset(column for goal in on_values for column in goal.over)
    sensitive = [
        i.attribute
        for i in draft.attributes
        if i.treatment in RELEASED and _role(policy, i.attribute) == "sensitive" and i.column not in bounded
    ]
    if kanon and sensitive:
        yield (
            f"k-anonymity says nothing about values: a group of indistinguishable cases may share one value of "
            f"{', '.join(sensitive)} (homogeneity); add t-closeness or l-diversity, or drop it"
        )
    if kanon:
        yield "two k-anonymous releases of one dataset can be intersected; the ledger counts them"
    if any(isinstance(goal, ConfidenceBound) for goal in goals):
        yield "two releases of one dataset with a confidence bound can be intersected; the ledger counts them"
    if kanon and any(item.column != METADATA for item in draft.exposed):
        yield "events that k-anonymisation inserts have no attributes and no raw time: exposed columns show which those are"
    if kanon and (lacking := sorted(_columns_with_gaps(draft))):
        yield (
            f"events that k-anonymisation inserts have no value of {', '.join(lacking)}, which shows which those are; "
            f"'missing: fill' under mechanisms.parameters gives them one"
        )
    if any(goal.count == "cases" for goal in kanon) and draft.facts.unit.attribute is not None:
        yield f"k counts cases, while one unit ({draft.facts.unit.attribute}) may own several: use count: units"
    for item in draft.attributes:
        if item.treatment == "pseudonymise":
            yield f"pseudonyms of '{item.attribute}' keep their frequencies: a value known to be common can be recognised"


def _columns_with_gaps(draft: Draft) -> Iterator[str]:
    """The attributes of events whose values are protected and not filled in."""
    for step in draft.steps:
        column = str(step.params.get("column", ""))
        of_events = column in step.lineage.writes - {TIMESTAMPS} and not column.startswith(CASE_PREFIX)
        if of_events and step.params.get("missing") == "keep":
            yield f"'{column}'"


def _role(policy: Policy, attribute: str) -> str | None:
    rule = policy.rule(attribute)
    return rule.role if rule else None


PASSES: Final[tuple[Pass, ...]] = (
    classify_columns,
    check_profile,
    bound_contributions,
    choose_mechanisms,
    expose_unproven,
    generalise_quasi_identifiers,
    treat_attributes,
    order_steps,
    charge_budget,
    check_deltas,
    warn,
)

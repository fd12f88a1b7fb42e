"""What the plan may spend: the profile's share, the guarantees' charges against the limits, the
largest deltas.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, Literal

from cloakwork.accounting.account import BudgetTerms
from cloakwork.accounting.charge import Charge
from cloakwork.accounting.exact import exactly, rounded_down
from cloakwork.budget import NOTHING, Cost, Currency
from cloakwork.errors import Cause
from cloakwork.facts import Unit, unit_name
from cloakwork.guarantees import DifferentialPrivacy, Guarantee, LocalDP, MetricPrivacy
from cloakwork.lineage import TIMESTAMPS
from cloakwork.mechanisms.profile import Profile
from cloakwork.plan.claims import BooksApart, Caveat, NoProfileGiven, NoTotal
from cloakwork.plan.derive import goal_name
from cloakwork.plan.draft import Draft
from cloakwork.policy.model import Budget, Limit, Policy

CURRENCIES: Final[tuple[Currency, ...]] = ("unit", "metric", "local")


def check_profile(draft: Draft) -> Draft:
    """Refuse a profile that is not of this dataset and unit, or that leaves a guarantee nothing."""
    return replace(
        draft,
        causes=(*draft.causes, *_unfit(draft)),
        warnings=(*draft.warnings, *_without_profile(draft)),
    )


def _unfit(draft: Draft) -> Iterator[Cause]:
    profile, policy = draft.profile, draft.policy
    if profile is None:
        return
    if profile.dataset != policy.metadata.dataset:
        yield Cause(
            "profile", f"it is of dataset '{profile.dataset}', not of '{policy.metadata.dataset}'"
        )
    if profile.params.unit != policy.spec.unit:
        yield Cause(
            "profile",
            f"its unit of privacy is {profile.params.unit}, the policy's is {policy.spec.unit}",
        )
    if policy.spec.profile is None:
        yield Cause("profile", "the policy sets no spec.profile, so it has no budget for one")
    if not any(_bears_profile(goal) for goal in draft.goals):
        yield Cause(
            "profile", "it belongs to a guarantee of differential privacy with unbounded neighbours"
        )
    for goal in draft.goals:
        if left_by(profile, goal) is None:
            yield Cause(
                goal_name(goal),
                f"the profile costs epsilon {profile.cost().epsilon:g}, delta "
                f"{profile.cost().delta:g}, and leaves nothing of it",
            )


def _without_profile(draft: Draft) -> Iterator[Caveat]:
    if draft.profile is None and draft.policy.spec.profile is not None:
        yield NoProfileGiven()


def _bears_profile(goal: Guarantee) -> bool:
    return isinstance(goal, DifferentialPrivacy) and goal.neighbours == "unbounded"


def left_by(profile: Profile | None, goal: Guarantee) -> Guarantee | None:
    """The goal with what the profile leaves of its budget; None where that is nothing."""
    if profile is None or not isinstance(goal, DifferentialPrivacy) or not _bears_profile(goal):
        return goal
    spent = profile.cost()
    epsilon, delta = (
        exactly(goal.epsilon) - exactly(spent.epsilon),
        exactly(goal.delta) - exactly(spent.delta),
    )
    if epsilon <= 0 or delta < 0:
        return None
    return goal.model_copy(update={"epsilon": rounded_down(epsilon), "delta": rounded_down(delta)})


def charge_budget(draft: Draft) -> Draft:
    """Say what the release takes from the dataset's budget, and refuse what neither release nor
    dataset may cost.

    A goal that stays unproven takes nothing: the ledger records the release as one without bound.
    """
    unproven = {index for step in draft.steps for index in step.goals if step.proof != "proved"}
    bought = [
        left_by(draft.profile, goal) for goal in draft.goals
    ]  # the profile was charged when it was measured
    proved = [
        (index, goal)
        for index, goal in enumerate(bought)
        if index not in unproven and goal is not None
    ]
    charges = tuple(charge for index, goal in proved for charge in _charge(index, goal, draft))
    budget, unit = draft.policy.spec.budget, unit_name(draft.policy.spec.unit)
    causes = [
        cause
        for name in CURRENCIES
        for cause in _over_budget(total_of(charges, name), name, budget, unit)
    ]
    if budget.composition == "tight":
        causes.append(
            Cause(
                "budget.composition: tight",
                "this version adds releases up by basic composition only",
            )
        )
    warnings = (() if budget.total or budget.books or not charges else (NoTotal(),)) + tuple(
        _books_apart(draft)
    )
    return replace(
        draft,
        charges=charges,
        causes=(*draft.causes, *causes),
        warnings=(*draft.warnings, *warnings),
    )


def _charge(index: int, goal: Guarantee, draft: Draft) -> Iterator[Charge]:
    """What a goal may cost at most is what is charged for it: the accountant's figure is never
    higher.
    """
    if isinstance(goal, DifferentialPrivacy):
        times = goal.neighbours if _covers_times(index, goal, draft) else None
        yield unit_charge(Cost(epsilon=goal.epsilon, delta=goal.delta), draft.facts.unit, times)
    if isinstance(goal, MetricPrivacy):
        yield Charge(currency="metric", cost=Cost(epsilon=goal.epsilon), shift=goal.shift)
    if isinstance(goal, LocalDP):
        yield Charge(currency="local", cost=Cost(epsilon=goal.epsilon), unit=goal.per)


def _covers_times(index: int, goal: DifferentialPrivacy, draft: Draft) -> bool:
    """Whether timestamps reach the release through what this goal pays for."""
    steps = [step for step in draft.steps if index in step.goals]
    return TIMESTAMPS in goal.over or any(TIMESTAMPS in step.lineage.measures for step in steps)


def unit_charge(
    cost: Cost, unit: Unit, times: Literal["bounded", "unbounded"] | None = None
) -> Charge:
    """A cost of differential privacy, with whom it protects."""
    most = None if unit.attribute is None else unit.max_cases
    return Charge(currency="unit", cost=cost, unit=unit_name(unit), max_cases=most, times=times)


def terms(policy: Policy) -> BudgetTerms:
    """What ``policy`` declares about its dataset's budget, for the ledger."""
    spec = policy.spec
    return BudgetTerms(
        unit=unit_name(spec.unit),
        totals=totals(spec.budget),
        books={unit: limit.cost() for unit, limit in spec.budget.books.items()},
        cases_per_unit=spec.assume.cases_per_unit,
    )


def _books_apart(draft: Draft) -> Iterator[Caveat]:
    names = tuple(sorted(draft.policy.spec.budget.books))
    if len(names) > 1:
        yield BooksApart(kept_apart=names)


def total_of(charges: tuple[Charge, ...], currency: Currency) -> Cost:
    """The charges of one currency, added up."""
    return sum((charge.cost for charge in charges if charge.currency == currency), NOTHING)


def totals(budget: Budget) -> Mapping[Currency, Cost | None]:
    """The dataset's total by currency; metric and local privacy share the figure of ``total``
    unless given their own.
    """
    total = budget.total
    if total is None:
        return {"unit": None, "metric": None, "local": None}
    own: Mapping[Currency, Limit] = {
        "unit": total,
        "metric": total.metric or total,
        "local": total.local or total,
    }
    return {currency: limit.cost() for currency, limit in own.items()}


def _over_budget(asked: Cost, currency: Currency, budget: Budget, unit: str) -> Iterator[Cause]:
    apart = budget.books.get(unit) if currency == "unit" else None
    total, total_name = totals(budget)[currency], "budget.total"
    if apart is not None:
        total, total_name = apart.cost(), "budget.books"
    limits = {
        total_name: total,
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
    because = (
        f"1/(10 x {declared:,} units)"
        if declared
        else "1e-06 while assume.units_at_most is undeclared"
    )
    causes = tuple(
        Cause(goal_name(goal), f"delta {goal.delta:g} is more than {because}")
        for goal in draft.goals
        if isinstance(goal, DifferentialPrivacy) and goal.delta > limit
    )
    return replace(draft, causes=(*draft.causes, *causes))

"""What a plan may spend: the profile's share, the guarantees' charges against the limits, the
largest deltas; and what windows of a growing log do to charges.

Where the unit is the case, a release of one window is charged to that window alone (parallel
composition: McSherry 2009, theorem 4). A case counts in the window of the time of its first event,
which depends on nobody else's data, and once a window was released with it, in no other window
(``ledger``): whether it is in the log changes releases of one window alone, and up to the first of
these nothing. A person may have cases in many windows, so where the unit is a person each release
is charged to all of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from cloakwork.accounting.calibrate import largest_delta
from cloakwork.base.costs import NOTHING, Charge, Cost, Currency
from cloakwork.base.errors import Cause, PlanImpossible
from cloakwork.base.exact import exactly, rounded_down
from cloakwork.base.facts import CASE, Facts, unit_name
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.text import folded
from cloakwork.guarantees import DifferentialPrivacy, Guarantee, short_description
from cloakwork.guarantees.claims import (
    HoldsWindow,
    NoProfileGiven,
    NoTotal,
    SeparateBudgets,
)
from cloakwork.ledger.account import CURRENCIES, BudgetTerms
from cloakwork.ledger.ledger import ReservationRequest
from cloakwork.mechanisms.profile import Profile, ProfileParams, params_within
from cloakwork.plan.model import Draft, Plan
from cloakwork.policy.declared import SPELLINGS
from cloakwork.policy.model import Budget, Limit, Policy, describe_version

__all__ = ["Profile", "profile_params", "require_profile_params"]


def require_profile_params(policy: Policy) -> ProfileParams:
    """``profile_params`` of a policy that may pay for a profile; raises PlanImpossible also where
    its delta is too large.
    """
    params = profile_params(policy)
    limit = largest_delta(policy.facts().units_at_most)
    if params.delta > limit:
        raise _no_profile(
            policy, f"delta {params.delta:g} is more than {limit:g}, which the units declared allow"
        )
    return params


def profile_params(policy: Policy) -> ProfileParams:
    """The noise for the policy's share. Raises PlanImpossible where the policy has none, or none
    that it can pay for.
    """
    share = policy.spec.profile
    if share is None:
        raise _no_profile(policy, "the policy sets no spec.profile, so there is no budget for one")
    # Some guarantee that hides who is there must have more to spend.
    paying = (
        goal
        for goal in policy.goals()
        if isinstance(goal, DifferentialPrivacy)
        and goal.neighbours == "unbounded"
        and goal.epsilon > share.epsilon
        and goal.delta >= share.delta
    )
    if next(paying, None) is None:
        reason = (
            "no guarantee of differential privacy with unbounded neighbours has more to spend "
            "than spec.profile"
        )
        raise _no_profile(policy, reason)
    if policy.spec.unit.level == "event":
        raise _no_profile(policy, "a profile is measured for single cases, not for employees")
    return params_within(
        policy.spec.unit,
        Cost(epsilon=share.epsilon, delta=share.delta),
        share.activities_per_case,
        selects_alphabet=policy.spec.assume.alphabet is None and share.delta > 0,
    )


def _no_profile(policy: Policy, reason: str) -> PlanImpossible:
    return PlanImpossible([Cause("profile", reason)], policy=policy.metadata.name)


def facts_in_window(policy: Policy, facts: Facts, window: str | None) -> Facts:
    """The facts of a release of ``window``, which is when its cases start.

    Raises PlanImpossible where the policy has no such window, or where it has windows and none is
    named.
    """
    windows = policy.spec.budget.windows
    if windows is None and window is None:
        return facts
    if windows is None:
        raise _impossible(
            policy,
            f"the policy has no windows, and '{window}' was named; leave it out, or let the "
            "policy say windows: {by: case-start, every: 1 month} under budget",
        )
    if window is None:
        example = SPELLINGS[windows.every]
        raise _impossible(
            policy,
            f"each release is of one window (every: {windows.every}), and none was named; "
            f"name the one that you want, spelt as in this example: --window {example}",
        )
    try:
        within = windows.starts_within(window, facts.grid)
    except ValueError as error:
        raise _impossible(policy, str(error)) from None
    # A window that was named is public, no longer measured by the profile.
    measured = tuple(name for name in facts.measured if name != "window")
    return facts.model_copy(
        update={"window": within, "release_window": window, "measured": measured}
    )


def _impossible(policy: Policy, reason: str) -> PlanImpossible:
    return PlanImpossible([Cause("budget.windows", reason)], policy=describe_version(policy))


def charged_window(facts: Facts) -> str | None:
    """The window in which alone a release is charged; None where it is charged in every one."""
    return facts.release_window if unit_name(facts.protected) == CASE else None


def say_window(draft: Draft) -> Draft:
    """Say which cases the release is made of, and what that means for other releases."""
    name = draft.facts.release_window
    if name is None:
        return draft
    protected = draft.facts.protected
    caveat = HoldsWindow(
        window=name,
        unit_attribute=None if unit_name(protected) == CASE else protected.attribute,
        tells_starts=not any(goal.hides_presence() for goal in draft.goals),
    )
    return replace(draft, warnings=(*draft.warnings, caveat))


def check_profile(draft: Draft) -> Draft:
    """Refuse a profile that is not of this dataset and unit, or that leaves a guarantee nothing."""
    if draft.profile is not None:
        causes = _profile_faults(draft.profile, draft)
        return replace(draft, causes=(*draft.causes, *causes))
    if draft.policy.spec.profile is None:
        return draft
    return replace(draft, warnings=(*draft.warnings, NoProfileGiven()))


def _profile_faults(profile: Profile, draft: Draft) -> Iterator[Cause]:
    policy = draft.policy
    if folded(profile.dataset) != folded(policy.metadata.dataset):
        yield Cause(
            "profile", f"it is of dataset '{profile.dataset}', not of '{policy.metadata.dataset}'"
        )
    if profile.params.unit != policy.spec.unit:
        yield Cause(
            "profile",
            f"its unit of privacy is {profile.params.unit}, the policy's is {policy.spec.unit}",
        )
    if profile.window != draft.facts.release_window:
        of = "the whole log" if profile.window is None else f"window {profile.window}"
        yield Cause("profile", f"it was measured on {of}: measure one on what is to be released")
    if policy.spec.profile is None:
        yield Cause("profile", "the policy sets no spec.profile, so it has no budget for one")
    if not any(goal.hides_presence() for goal in draft.goals):
        yield Cause(
            "profile", "it belongs to a guarantee of differential privacy with unbounded neighbours"
        )
    for goal in draft.goals:
        if goal_after_profile(profile, goal) is None:
            yield Cause(
                goal.cited(),
                f"the profile costs epsilon {profile.cost().epsilon:g}, delta "
                f"{profile.cost().delta:g}, and leaves nothing of it",
            )


def goal_after_profile(profile: Profile | None, goal: Guarantee) -> Guarantee | None:
    """The goal with what the profile leaves of its budget; None where that is nothing."""
    # A DP profile belongs to the guarantee that hides who is there; that is one of DP.
    if profile is None or not isinstance(goal, DifferentialPrivacy) or not goal.hides_presence():
        return goal
    spent = profile.cost()
    # In exact fractions, then rounded down: goal and profile together never exceed the policy.
    epsilon = exactly(goal.epsilon) - exactly(spent.epsilon)
    delta = exactly(goal.delta) - exactly(spent.delta)
    if epsilon <= 0 or delta < 0:
        return None
    return goal.model_copy(update={"epsilon": rounded_down(epsilon), "delta": rounded_down(delta)})


def charge_budget(draft: Draft) -> Draft:
    """Say what the release takes from the dataset's budget, and refuse what neither release nor
    dataset may cost.

    A goal that stays unproven takes nothing: the ledger records the release as one without bound.
    """
    unproven = {index for step in draft.steps for index in step.goals if step.proof == "published"}
    charges = tuple(
        charge
        for index, goal in enumerate(draft.goals)
        if index not in unproven
        for charge in _charges_of_goal(index, goal, draft)
    )
    budget = draft.policy.spec.budget
    unit = unit_name(draft.policy.spec.unit)
    causes = list(draft.causes)
    # Each currency has limits of its own; they are never added up.
    for currency in CURRENCIES:
        own = (charge.cost for charge in charges if charge.currency == currency)
        asked = sum(own, NOTHING)
        causes += _over_budget(asked, currency, budget, unit)
    if budget.composition == "tight":
        reason = "this version adds releases up by basic composition only"
        causes.append(Cause("budget.composition: tight", reason))
    warnings = list(draft.warnings)
    if charges and not budget.total and not budget.books:
        warnings.append(NoTotal())
    if len(budget.books) > 1:
        warnings.append(SeparateBudgets(kept_apart=tuple(sorted(budget.books))))
    return replace(draft, charges=charges, causes=tuple(causes), warnings=tuple(warnings))


def _charges_of_goal(index: int, goal: Guarantee, draft: Draft) -> Iterator[Charge]:
    """What a goal may cost at most is what is charged for it: the accountant's figure is never
    higher. The profile was charged when it was measured.
    """
    left = goal_after_profile(draft.profile, goal)
    price = None if left is None else left.price()
    if price is None:
        return
    if price.currency != "unit":
        yield Charge(
            currency=price.currency,
            cost=price.cost,
            shift=price.shift,
            unit=price.per,
            window=charged_window(draft.facts),
        )
        return
    # Whether timestamps reach the release through what this goal pays for.
    steps = [step for step in draft.steps if index in step.goals]
    times: Literal["bounded", "unbounded"] | None = None
    if TIMESTAMPS in goal.over or any(TIMESTAMPS in step.lineage.measures for step in steps):
        times = "unbounded" if goal.hides_presence() else "bounded"
    yield unit_charge(price.cost, draft.facts, times)


def unit_charge(
    cost: Cost, facts: Facts, times: Literal["bounded", "unbounded"] | None = None
) -> Charge:
    """A cost of differential privacy, with whom it protects."""
    unit = facts.protected
    counts_cases = unit.attribute is not None and unit.level == "case"
    return Charge(
        currency="unit",
        cost=cost,
        unit=unit_name(unit),
        max_cases=unit.max_cases if counts_cases else None,
        times=times,
        window=charged_window(facts),
    )


def ledger_terms(policy: Policy, window: str | None = None) -> BudgetTerms:
    """What ``policy`` declares about its dataset's budget, for the ledger; ``window``: which one is
    released.
    """
    spec = policy.spec
    return BudgetTerms(
        unit=unit_name(spec.unit),
        totals=_ledger_totals(policy),
        books={unit: limit.cost() for unit, limit in spec.budget.books.items()},
        cases_per_unit=_cases_per_unit(policy),
        window=window,
        every=None if spec.budget.windows is None else spec.budget.windows.every,
    )


def _cases_per_unit(policy: Policy) -> Mapping[str, int]:
    """By unit, in how many cases one is at most, as declared."""
    assume = policy.spec.assume
    unit = policy.spec.unit
    if unit.level == "case" or assume.cases_per_employee is None:
        return assume.cases_per_unit
    return {**assume.cases_per_unit, unit_name(unit): assume.cases_per_employee}


def reservation_request(plan: Plan) -> ReservationRequest:
    """What a release of ``plan`` asks of its dataset's ledger."""
    meta = plan.policy.metadata
    unproven = [item.guarantee for item in plan.unproven]
    claimed = [claim.guarantee for claim in plan.claims]
    said = [f"UNPROVEN: {short_description(goal)}" for goal in unproven]
    said += [short_description(goal) for goal in claimed]
    return ReservationRequest(
        dataset=meta.dataset,
        policy=meta.name,
        version=meta.version,
        policy_digest=plan.policy_digest,
        # ``none`` marks a release without bound, whatever its other charges are.
        charges=plan.charges if plan.bounded else (*plan.charges, Charge(currency="none")),
        terms=ledger_terms(plan.policy, plan.facts.release_window),
        note="; ".join(said),
        details={
            "mechanisms": [step.mechanism for step in plan.steps],
            "guarantees": [goal.model_dump(mode="json") for goal in claimed],
            "unproven": [goal.model_dump(mode="json") for goal in unproven],
        },
    )


def _ledger_totals(policy: Policy) -> Mapping[Currency, Cost | None]:
    """The totals that a policy puts in force.

    A total without one of its own for single values stands for these too where a guarantee is about
    them. Where only times of whole units are covered, it says what a unit may risk: as a
    replacement of one time by another the same charge may count twice, and would never fit the
    figure that was meant for units. What other policies declare for single values binds it.
    """
    found = totals(policy.spec.budget)
    total = policy.spec.budget.total
    prices = (goal.price() for goal in policy.goals())
    is_about_values = any(price is not None and price.currency == "metric" for price in prices)
    if is_about_values or total is None or total.metric is not None:
        return found
    return {**found, "metric": None}


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
    """Each limit that the charges of one currency exceed."""
    limits: list[tuple[str, Cost]] = []
    total = totals(budget)[currency]
    # A unit's own book takes the place of the total.
    book = budget.books.get(unit) if currency == "unit" else None
    if book is not None:
        limits.append(("budget.books", book.cost()))
    elif total is not None:
        limits.append(("budget.total", total))
    if budget.release:
        limits.append(("budget.release", budget.release.cost()))
    for name, limit in limits:
        if not asked.is_within(limit):
            yield Cause(
                f"cost of the release ({currency})",
                f"the guarantees ask for epsilon {asked.epsilon:g}, delta {asked.delta:g}; "
                f"{name} allows {limit.epsilon:g}, {limit.delta:g}",
            )


def check_deltas(draft: Draft) -> Draft:
    """Refuse a delta so large that it would allow publishing somebody outright."""
    declared = draft.facts.units_at_most
    why = "1e-06 while assume.units_at_most is undeclared"
    if draft.facts.employees is not None:
        # That fact counts cases, and a case may have any number of employees.
        declared = None
        why = "1e-06, the most for employees: assume.units_at_most counts cases"
    elif declared:
        why = f"1/(10 x {declared:,} units)"
    limit = largest_delta(declared)
    causes = list(draft.causes)
    for index, goal in enumerate(draft.goals):
        price = goal.price()
        if price is not None and price.cost.delta > limit:
            reason = f"delta {price.cost.delta:g} is more than {why}"
            where = ("spec", "guarantees", index, "delta")
            causes.append(Cause(goal.cited(), reason, where=where))
    return replace(draft, causes=tuple(causes))

"""Windows of a growing log, as planning sees them: the facts of one, and what they do to charges.

Where the unit is the case, a release of one window is charged to that window alone (parallel
composition: McSherry 2009, theorem 4). A case counts in the window of the time of its first event,
which depends on nobody else's data, and once a window was released with it, in no other window
(``accounting.windows``): whether it is in the log changes releases of one window alone, and up to
the first of these nothing. A person may have cases in many windows, so where the unit is a person
each release is charged to all of them.
"""

from dataclasses import replace

from cloakwork.base.errors import Cause, PlanImpossible
from cloakwork.base.facts import CASE, Facts, unit_name
from cloakwork.guarantees.claims import HoldsWindow
from cloakwork.plan.draft import Draft
from cloakwork.policy.declared import SPELLINGS
from cloakwork.policy.model import Policy, describe_version


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
    measured = tuple(name for name in facts.measured if name != "window")
    return facts.model_copy(
        update={"window": within, "release_window": window, "measured": measured}
    )


def _impossible(policy: Policy, reason: str) -> PlanImpossible:
    return PlanImpossible([Cause("budget.windows", reason)], policy=describe_version(policy))


def charged_window(facts: Facts) -> str | None:
    """The window in which alone a release is charged; None where it is charged in every one."""
    return facts.release_window if unit_name(facts.unit) == CASE else None


def say_window(draft: Draft) -> Draft:
    """Say which cases the release is made of, and what that means for other releases."""
    name = draft.facts.release_window
    if name is None:
        return draft
    caveat = HoldsWindow(
        window=name,
        unit_attribute=None if unit_name(draft.facts.unit) == CASE else draft.facts.unit.attribute,
        tells_starts=not any(goal.hides_presence() for goal in draft.goals),
    )
    return replace(draft, warnings=(*draft.warnings, caveat))

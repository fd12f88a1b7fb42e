"""Forms of release tried on a log before one is chosen: what each keeps, and who is found in it.

Figures of the raw log, internal. The form that is proposed follows from the answers alone, so it is
no choice by these figures; whoever takes another one has chosen by them, and the policy says so
(``privacy.md`` 3.7 and 3.8). Nothing is released, and no budget is charged.
"""

from collections.abc import Mapping
from typing import Final

from cloakwork.base.costs import Cost
from cloakwork.base.errors import BudgetExceeded, CloakworkError, PlanImpossible, first_line
from cloakwork.base.progress import Reporter
from cloakwork.base.quantities import Frozen
from cloakwork.engines.memory import in_memory
from cloakwork.evaluation.compare import (
    comparison_event,
    in_few_words,
    measured_figures,
    searching_briefly,
)
from cloakwork.evaluation.knowledge import shares_found
from cloakwork.evaluation.risk_figures import Share
from cloakwork.evaluation.sweeping import settings_of
from cloakwork.evaluation.utility import ATTACKED
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.eventlog import EventLog
from cloakwork.noise import secret
from cloakwork.plan.budget import reservation_request
from cloakwork.plan.planner import make_plan
from cloakwork.policy.model import Policy
from cloakwork.run.run import Run

SEARCH_SECONDS: Final = 5.0


class RehearsedForm(Frozen):
    """One form of release, as it was tried. ``name``: what it is called.

    ``similarity`` of the control flow (1 best), ``durations``, ``waits`` and ``attributes`` (0
    best): what is kept; None where there is nothing to compare. ``found``: the share of the cases
    that are found, by what is known (``KNOWN``). ``claims``: in few words; ``cost`` in the currency
    of its unit, and ``left`` of the budget after it, None where no total binds. ``fault``: why it
    cannot be; all else is then empty.
    """

    name: str
    claims: tuple[str, ...] = ()
    similarity: float | None = None
    durations: float | None = None
    waits: float | None = None
    attributes: float | None = None
    found: dict[str, Share] = {}
    cost: Cost | None = None
    left: Cost | None = None
    fault: str | None = None


def rehearsed(
    log: EventLog, forms: Mapping[str, Policy], ledger: Ledger, reporter: Reporter
) -> tuple[RehearsedForm, ...]:
    """Each form, by name, tried once on ``log``, with what ``ledger`` has left for it; the ledger
    notes that they were compared.
    """
    policies = list(forms.values())
    found = []
    # Noted before anything is tried, so that no choice by what is seen goes unnoted.
    noted = comparison_event(policies, settings_of(policies, []), "log")
    ledger.record_event("compared", policies[0].metadata.dataset, noted)
    for place, (name, policy) in enumerate(forms.items(), start=1):
        reporter(f"trying {name} ({place} of {len(forms)})")
        claims = tuple(map(in_few_words, policy.goals()))
        row = RehearsedForm(name=name, claims=claims)
        try:
            found.append(_tried(row, policy, log, ledger, reporter))
        except CloakworkError as error:
            found.append(row.model_copy(update={"fault": first_line(error)}))
    return tuple(found)


def budget_fault(policy: Policy, ledger: Ledger) -> str | None:
    """Why the dataset's budget does not pay for a release under ``policy``; None where it does, or
    where there is no plan that asks for some.
    """
    try:
        ledger.check(reservation_request(make_plan(policy)))
    except BudgetExceeded as error:
        return first_line(error)
    except PlanImpossible:
        pass
    return None


def _tried(
    row: RehearsedForm, policy: Policy, log: EventLog, ledger: Ledger, reporter: Reporter
) -> RehearsedForm:
    plan = make_plan(policy)
    own = next((charge for charge in plan.charges if charge.currency != "none"), None)
    if own is not None:
        row = row.model_copy(update={"cost": own.cost})
    try:
        forecast = ledger.check(reservation_request(plan))
    except BudgetExceeded as error:
        return row.model_copy(update={"fault": first_line(error)})
    if forecast.after:
        row = row.model_copy(update={"left": forecast.after[0].left})
    brief = make_plan(searching_briefly(policy, SEARCH_SECONDS))
    source, released = map(in_memory, Run(plan=brief, noise=secret()).trial(log))
    figures = measured_figures(brief, source, released)
    kept = {name: figures[name] for name in ("similarity", "durations", "waits", "attributes")}
    found = shares_found(source, released, brief, targets=ATTACKED, reporter=reporter)
    return row.model_copy(update={**kept, "found": found})

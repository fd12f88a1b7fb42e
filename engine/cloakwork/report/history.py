"""What the ledger knows of a release beside its own charge: the budget before and after it, the
approval of its policy, and comparisons of settings that were made before.
"""

from datetime import datetime
from typing import Any, Final

from pydantic import AwareDatetime

from cloakwork.base.errors import CloakworkError
from cloakwork.base.quantities import Duration, Frozen
from cloakwork.ledger.account import Account
from cloakwork.ledger.declarations import declaration_of
from cloakwork.ledger.forecast import forecast_budget
from cloakwork.ledger.journal import Entry, EventKind
from cloakwork.ledger.ledger import Ledger
from cloakwork.ledger.records import Record
from cloakwork.plan.budget import ledger_terms
from cloakwork.plan.model import Plan
from cloakwork.publishing.statement import PublishedCost


class BookAtRelease(Frozen):
    """One book of the dataset when the release was made: spent before it, by it, what may be spent
    and what was left after it. ``total`` and ``left`` are None where no total is declared.
    """

    book: str
    currency: str
    before: PublishedCost
    release: PublishedCost
    total: PublishedCost | None
    left: PublishedCost | None
    shift: Duration | None = None
    window: str | None = None


class StatedApproval(Frozen):
    """Who approved the policy of a release, when and why, as the ledger's entry says."""

    policy: str
    author: str
    approver: str
    approved_at: AwareDatetime
    reason: str
    author_keyid: str | None = None
    approver_keyid: str | None = None


class LedgerView(Frozen):
    """What the ledger knew of a release: ``earlier`` releases of the dataset, and how many
    comparisons of settings were noted before it.
    """

    books: tuple[BookAtRelease, ...]
    earlier: int
    comparisons: tuple[AwareDatetime, ...] = ()
    approval: StatedApproval | None = None


def ledger_view(ledger: Ledger | None, plan: Plan, release: str) -> LedgerView | None:
    """What ``ledger`` knows of the release with that identity; None where it does not know it, or
    cannot be read.
    """
    if ledger is None:
        return None
    dataset = plan.policy.metadata.dataset
    try:
        records = ledger.history(dataset) if ledger.exists() else ()
        place = next((row for row, item in enumerate(records) if item.id == release), None)
        if place is None:
            return None
        return _view(ledger, plan, records[:place], records[place])
    except CloakworkError:
        return None


def _view(ledger: Ledger, plan: Plan, before: tuple[Record, ...], own: Record) -> LedgerView:
    terms = ledger_terms(plan.policy, plan.facts.release_window)
    declared = declaration_of(_earlier(ledger, "dataset-declared", own), own.dataset, ledger.url)
    account = declared.bind(Account.of(before), own.charges)
    outlook = forecast_budget(before, account, own.charges, own.totals, terms)
    balances = zip(outlook.before, outlook.cost, outlook.after, strict=True)
    return LedgerView(
        books=tuple(
            BookAtRelease(
                book=after.book.name,
                currency=after.currency,
                before=PublishedCost.of(earlier.spent),
                release=PublishedCost.of(cost),
                total=None if after.total is None else PublishedCost.of(after.total),
                left=None if after.left is None else PublishedCost.of(after.left),
                shift=after.shift,
                window=after.window,
            )
            for earlier, cost, after in balances
        ),
        earlier=outlook.earlier,
        comparisons=_comparisons(ledger, own),
        approval=_approval(own),
    )


def _comparisons(ledger: Ledger, own: Record) -> tuple[datetime, ...]:
    """When comparisons of settings on this dataset were noted, before the release was reserved."""
    return tuple(datetime.fromisoformat(each.at) for each in _earlier(ledger, "compared", own))


def _earlier(ledger: Ledger, kind: EventKind, own: Record) -> list[Entry]:
    """Entries about the dataset from before the release was reserved."""
    entries = ledger.events(kind, dataset=own.dataset)
    return [entry for entry in entries if datetime.fromisoformat(entry.at) <= own.created_at]


_APPROVAL: Final = "approval"


def _approval(own: Record) -> StatedApproval | None:
    """The approval that the release's entry names among its details."""
    said: Any = own.details.get(_APPROVAL)
    if not isinstance(said, dict):
        return None
    known = {name: said[name] for name in StatedApproval.model_fields if said.get(name)}
    try:
        return StatedApproval.model_validate(known)
    except ValueError:
        return None

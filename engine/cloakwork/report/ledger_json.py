"""What ``cloakwork ledger`` and ``plan`` say of the budget, as JSON values."""

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from cloakwork.base.quantities import format_duration
from cloakwork.report.ledger_text import without_release

if TYPE_CHECKING:
    from cloakwork.base.costs import Cost
    from cloakwork.ledger.account import Balance
    from cloakwork.ledger.declarations import DatasetDeclaration
    from cloakwork.ledger.forecast import BudgetForecast
    from cloakwork.ledger.ledger import Summary
    from cloakwork.ledger.records import Record
    from cloakwork.publishing.reconcile import Reconciliation


def summary_json(summary: "Summary") -> dict[str, Any]:
    """A dataset's budgets and what concerns its releases."""
    return {
        "dataset": summary.dataset,
        "releases": sum(not record.failed_before_release for record in summary.records),
        "failed": sum(record.failed_before_release for record in summary.records),
        "budgets": [_balance_json(balance) for balance in summary.balances],
        "without_dp": [record.id for record in summary.without_dp],
        "concerned": _concerned(summary),
        "declaration": declaration_json(summary.declaration),
    }


def _concerned(summary: "Summary") -> list[dict[str, Any]]:
    from cloakwork.ledger.records import advisories_of

    found = ((record, finding) for record in summary.records for finding in advisories_of(record))
    return [
        {"release": record.id, "advisory": finding.advisory.id, "status": finding.status}
        for record, finding in found
    ]


def _balance_json(balance: "Balance") -> dict[str, Any]:
    return {
        "currency": balance.currency,
        "book": balance.book.name,
        "unit": balance.book.unit,
        "window": balance.window,
        "apart_from": list(balance.apart_from),
        "unconverted": list(balance.unconverted),
        "shift": _shift_json(balance.shift),
        "spent": cost_json(balance.spent),
        "left": cost_json(balance.left),
        "total": cost_json(balance.total),
    }


def outlook_json(outlook: "BudgetForecast") -> dict[str, Any]:
    """What a release would mean for the budget, book by book."""
    books = zip(outlook.before, outlook.cost, outlook.after, strict=True)
    return {
        "books": [
            {
                "book": before.book.name,
                "window": before.window,
                "currency": before.currency,
                "shift": _shift_json(before.shift),
                "before": cost_json(before.left),
                "this": cost_json(cost),
                "after": cost_json(after.left),
                "spent": cost_json(before.spent),
                "total": cost_json(before.total),
                "apart_from": list(after.apart_from),
            }
            for before, cost, after in books
        ],
        "earlier_releases": outlook.earlier,
        "earlier_without_dp": outlook.without_dp,
        "declaration": declaration_json(outlook.declaration),
    }


def declaration_json(declaration: "DatasetDeclaration") -> dict[str, Any]:
    """What a dataset is declared with."""
    return {
        "owner": declaration.owner,
        "unit": declaration.unit,
        "totals": {name: cost_json(cost) for name, cost in declaration.totals.items()},
        "windows": declaration.windows,
        "require_approval": declaration.require_approval,
    }


def record_json(record: "Record") -> dict[str, Any]:
    """One entry of the ledger."""
    from cloakwork.ledger.records import advisories_of

    found = advisories_of(record)
    return {
        "id": record.id,
        "dataset": record.dataset,
        "policy": record.policy,
        "version": record.version,
        "policy_digest": record.policy_digest,
        "unit": record.unit,
        "makes": record.makes,
        "window": record.window,
        "state": record.state,
        "without_release": without_release(record),
        "folder": record.place.folder if record.place else None,
        "host": record.place.host if record.place else None,
        "created_at": record.created_at.isoformat(),
        "committed_at": record.committed_at.isoformat() if record.committed_at else None,
        "statement_digest": record.statement_digest,
        "guarantees": record.note,
        "engine": record.engine,
        "advisories": [
            {"id": each.advisory.id, "status": each.status, "title": each.advisory.title}
            for each in found
        ],
        "charges": [
            {
                "currency": charge.currency,
                "unit": charge.unit,
                "shift": _shift_json(charge.shift),
                **(cost_json(charge.cost) or {}),
            }
            for charge in record.charges
        ],
        "details": dict(record.details),
    }


def reconciliation_json(done: "Reconciliation") -> dict[str, Any]:
    """What ``ledger reconcile`` found and did."""
    return {
        "agrees": done.agrees,
        "drafts_removed": done.drafts_removed,
        "findings": [
            {
                "outcome": each.outcome,
                "release": each.release or None,
                "folder": each.folder,
                "says": each.says,
            }
            for each in done.findings
        ],
    }


def _shift_json(shift: timedelta | None) -> str | None:
    return format_duration(shift) if shift else None


def cost_json(cost: "Cost | None") -> dict[str, float | None] | None:
    """Epsilon is null where there is no bound: JSON has no infinity."""
    if cost is None:
        return None
    return {"epsilon": cost.epsilon if math.isfinite(cost.epsilon) else None, "delta": cost.delta}

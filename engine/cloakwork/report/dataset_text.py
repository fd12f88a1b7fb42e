"""What ``cloakwork dataset`` prints, in words and as JSON values."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from cloakwork.report.ledger_json import summary_json
from cloakwork.report.ledger_text import (
    balance_text,
    budget_name,
    listed_balances,
    priced,
    summary_lines,
    total_text,
)
from cloakwork.report.screen import block, columns
from cloakwork.report.texts import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloakwork.ledger.account import Balance
    from cloakwork.ledger.datasets import DatasetOverview
    from cloakwork.ledger.declarations import DatasetDeclaration

_GAUGE: Final = 20
"""Characters of a gauge."""

_LABEL: Final = 12


def share_spent(balance: "Balance") -> float | None:
    """The larger of the shares of epsilon and of delta that are spent; None without a total."""
    if balance.left is None or balance.total is None:
        return None
    pairs = [
        (balance.left.epsilon, balance.total.epsilon),
        (balance.left.delta, balance.total.delta),
    ]
    shares = [left / total for left, total in pairs if total > 0 and math.isfinite(total)]
    return 1 - min(shares, default=1.0)


def gauge(share: float) -> str:
    """How much is spent as a bar; full and empty only where it is exactly that.

    >>> gauge(0.5), gauge(0.001)
    ('[##########..........]', '[#...................]')
    """
    cells = min(max(round(share * _GAUGE), 1), _GAUGE - 1)
    if share in (0.0, 1.0):
        cells = int(share * _GAUGE)
    return f"[{'#' * cells}{'.' * (_GAUGE - cells)}]"


def list_lines(found: "Sequence[DatasetOverview]", width: int | None = None) -> Iterator[str]:
    """Every dataset in a few lines: name, owner, releases, and a gauge a book."""
    width = columns() if width is None else width
    for number, each in enumerate(found):
        if number:
            yield ""
        owner = each.declaration.owner
        answers = f"owner {owner}" if owner else "no owner declared"
        head = f"{each.name}  ({answers}; {_release_count(each)})"
        yield from block("", [head], width, indent=0)
        for balance in listed_balances(each.summary):
            yield from block("", [gauge_text(balance)], width, indent=2)
        if each.overlaps:
            names = ", ".join(overlap.dataset for overlap in each.overlaps)
            line = f"seems to hold cases of: {names} (internal)"
            yield from block("", [line], width, indent=2)


def show_lines(overview: "DatasetOverview", width: int | None = None) -> Iterator[str]:
    """One dataset: what is declared, what is left of each book, and what to know of it."""
    width = columns() if width is None else width
    for label, entries in declared_fields(overview.declaration).items():
        yield from block(label, entries, width, indent=_LABEL)
    yield ""
    yield from summary_lines(overview.summary, width, with_declaration=False, describe=gauge_text)
    yield ""
    yield from block("", list(_overlap_lines(overview)), width, indent=0)
    yield from block("", list(_history_lines(overview)), width, indent=0)


def declared_fields(declaration: "DatasetDeclaration") -> dict[str, list[str]]:
    """What is declared, by label; what is not is said to be so."""
    unit = f"each {declaration.unit}" if declaration.unit else "not declared: any policy's"
    windows = {None: "not declared: any policy's", "none": "none"}
    approval = "any valid policy may be applied"
    if declaration.require_approval:
        approval = "only approved policies may be applied"
    totals = [total_text(currency, cost) for currency, cost in declaration.totals.items()]
    return {
        "owner": [declaration.owner or "not declared"],
        "unit": [unit],
        "total": totals or ["not declared: the smallest of its policies binds"],
        "windows": [windows.get(declaration.windows, f"of {declaration.windows}")],
        "approval": [approval],
    }


def gauge_text(balance: "Balance") -> str:
    """One budget with its gauge; in words alone where no total is declared."""
    share = share_spent(balance)
    if share is None:
        return balance_text(balance)
    spent, left, total = (
        priced(balance, cost) for cost in (balance.spent, balance.left, balance.total)
    )
    amount = f"{spent} of {total}; {left} left"
    return f"{gauge(share)} {100 * share:.3g}% spent: {amount}; {budget_name(balance)}"


def _release_count(overview: "DatasetOverview") -> str:
    records = overview.summary.records
    return counted(sum(not record.failed_before_release for record in records), "release")


def _overlap_lines(overview: "DatasetOverview") -> Iterator[str]:
    if overview.overlaps is None:
        yield "Overlaps with other datasets: not readable with these rights."
    elif not overview.overlaps:
        yield "Overlaps: no other dataset is known to hold the same cases."
    else:
        for found in overview.overlaps:
            yield f"Internal, read off the raw logs: {found}"


def _history_lines(overview: "DatasetOverview") -> Iterator[str]:
    made = len(overview.comparisons)
    yield f"Comparisons made before choosing: {made}." if made else "No comparisons were made."
    for entry in overview.declared:
        reason = entry.fields().get("reason")
        yield f"Declared {entry.at[:16].replace('T', ' ')}{f': {reason}' if reason else ''}."


def overview_json(overview: "DatasetOverview") -> dict[str, Any]:
    """One dataset."""
    overlaps = overview.overlaps
    return summary_json(overview.summary) | {
        "declarations": [
            {"at": entry.at, "entry": entry.seq, "says": entry.fields()}
            for entry in overview.declared
        ],
        "overlaps": None
        if overlaps is None
        else [{"dataset": each.dataset, "share": each.share} for each in overlaps],
        "comparisons": [{"at": entry.at, "entry": entry.seq} for entry in overview.comparisons],
    }

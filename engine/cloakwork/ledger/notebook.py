"""What notebooks show of a ledger, of a dataset's budget, and of one book of it."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from cloakwork.base.costs import Cost
from cloakwork.base.notebook_html import listing, paragraph, shown, table
from cloakwork.base.quantities import format_duration

if TYPE_CHECKING:
    from cloakwork.ledger.account import Balance
    from cloakwork.ledger.ledger import Summary

_HEADINGS: Final = ("budget", "spent", "left", "total")
_CURRENCIES: Final = {"unit": "differential privacy", "metric": "metric privacy", "local": "local"}


def ledger_html(address: str, summaries: "Iterable[Summary]") -> str:
    """Every dataset with its budgets; ``address``: without a password."""
    blocks = [
        f"{_heading(summary)}{_budgets(summary.balances)}{_unbounded(summary)}"
        for summary in summaries
    ]
    return shown(f"Ledger {address}", *(blocks or [paragraph("It holds no release.")]))


def summary_html(summary: "Summary") -> str:
    """One dataset with its budgets."""
    blocks = (_heading(summary), _budgets(summary.balances), _unbounded(summary))
    return shown("Budget of a dataset", *blocks)


def balance_html(balance: "Balance") -> str:
    """One book."""
    return shown("Budget", _budgets([balance]))


def _heading(summary: "Summary") -> str:
    failed = sum(record.failed_before_release for record in summary.records)
    made = len(summary.records) - failed
    text = f"Dataset {summary.dataset}: {made:,} release{'' if made == 1 else 's'}"
    return paragraph(text + (f"; {failed:,} failed, whose cost stays spent" if failed else ""))


def _unbounded(summary: "Summary") -> str:
    count = len(summary.without_dp)
    return listing("", [f"no budget bounds what {count:,} of them disclose"] if count else [])


def _budgets(balances: "Iterable[Balance]") -> str:
    rows = [
        (
            _name(balance),
            cost_text(balance.spent),
            cost_text(balance.left),
            cost_text(balance.total),
        )
        for balance in balances
    ]
    return table(_HEADINGS, rows)


def _name(balance: "Balance") -> str:
    name = f"{_CURRENCIES[balance.currency]} ({balance.book.name}"
    if balance.shift is not None:
        name += f", per {format_duration(balance.shift)}"
    if balance.window is not None:
        name += f", window {balance.window}"
    lacks = f"; lacks charges per {', '.join(balance.unconverted)}" if balance.unconverted else ""
    return f"{name}){lacks}"


def cost_text(cost: Cost | None) -> str:
    """Epsilon, and delta where there is one; that no total is declared for None."""
    if cost is None:
        return "no total is declared"
    epsilon = "no bound" if math.isinf(cost.epsilon) else f"epsilon {cost.epsilon:.6g}"
    return epsilon + (f", delta {cost.delta:.3g}" if cost.delta else "")

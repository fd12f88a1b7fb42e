"""Datasets: what their releases have spent, what is left, and what was released."""

from collections.abc import Mapping
from typing import Final, cast

from starlette.responses import Response

from cloakwork.base.costs import Cost, Currency
from cloakwork.base.frozen import frozen
from cloakwork.console.visits import STATEMENT, OutsideFolder, Visit, address, go
from cloakwork.ledger.account import Balance
from cloakwork.ledger.datasets import datasets as all_known
from cloakwork.ledger.datasets import declare_dataset
from cloakwork.ledger.declarations import WINDOW_LENGTHS, DatasetWindows, declared_cost
from cloakwork.ledger.ledger import Ledger, Summary
from cloakwork.ledger.records import Record
from cloakwork.report.ledger_text import (
    affected_lines,
    budget_name,
    budget_notes,
    charge_text,
    date_text,
    declared_fields,
    kept_apart,
    listed_balances,
    other_windows,
    priced,
    releases_text,
    share_spent,
    unbounded_text,
    without_release,
)


@frozen
class BudgetGauge:
    """One budget: its name, what is spent and left as text, and the percentage of its epsilon that
    is spent (0 to 100); None where no total is declared.
    """

    name: str
    spent: str
    left: str
    total: str
    percent: float | None
    note: str = ""

    @property
    def level(self) -> str:
        """How full it is, for its colour: text says it as well."""
        if self.percent is None:
            return "open"
        if self.percent >= 100:
            return "used"
        return "low" if self.percent > 75 else "free"


def all_datasets(visit: Visit) -> Response:
    """Every dataset of the ledger with its budgets."""
    ledger = visit.state.ledger()
    return visit.page(
        "datasets.html",
        ledger=ledger.url,
        exists=ledger.exists(),
        altered=altered(ledger),
        datasets=[
            {
                "name": each.dataset,
                "owner": each.declaration.owner or "no owner declared",
                "releases": releases_text(each),
                "gauges": gauges_of(each),
                "unbounded": unbounded_text(each),
            }
            for each in ledger.summary()
        ],
    )


def one_dataset(visit: Visit) -> Response:
    """One dataset: its budgets, what they rest on, and its releases."""
    name = visit.asked("name")
    ledger = visit.state.ledger()
    found = next((each for each in all_known(ledger) if each.name == name), None)
    if found is None:
        raise OutsideFolder(f"dataset {name!r}: this ledger does not know it")
    summary = found.summary
    return visit.page(
        "dataset.html",
        name=summary.dataset,
        ledger=ledger.url,
        altered=altered(ledger),
        declared=declared_fields(found.declaration),
        window_lengths=WINDOW_LENGTHS,
        releases=releases_text(summary),
        gauges=gauges_of(summary),
        notes=[line.strip() for line in (*budget_notes(summary), *affected_lines(summary))],
        unbounded=unbounded_text(summary),
        overlaps=tuple(map(str, found.overlaps or ())),
        comparisons=len(found.comparisons),
        rows=[row_of(record, visit) for record in reversed(summary.records)],
    )


def declare(visit: Visit) -> Response:
    """Declare what binds every later release of a dataset; what is left empty stays as it was."""
    name = visit.sent("name")
    windows = visit.sent("windows")
    if windows not in ("", *WINDOW_LENGTHS):
        raise OutsideFolder("there are no such windows; choose of the list")
    ledger = visit.state.ledger()
    declare_dataset(
        ledger,
        name,
        owner=visit.sent("owner") or None,
        unit=visit.sent("unit") or None,
        totals=_totals_sent(visit, ledger.declaration(name).totals),
        windows=cast("DatasetWindows", windows) or None,
        require_approval=bool(visit.sent("require_approval")),
        reason=visit.sent("reason"),
    )
    return go(address("/dataset", name=name))


_TOTALS: Final[tuple[tuple[Currency, str, str], ...]] = (
    ("unit", "epsilon", "delta"),
    ("metric", "metric_epsilon", ""),
    ("local", "local_epsilon", ""),
)
"""Each currency, and the fields that name its total."""


def _totals_sent(visit: Visit, known: Mapping[Currency, Cost]) -> dict[Currency, Cost]:
    """The totals that the form names; where delta is empty, it stays."""
    found: dict[Currency, Cost] = {}
    for currency, epsilon_field, delta_field in _TOTALS:
        epsilon = visit.sent(epsilon_field)
        delta = visit.sent(delta_field) if delta_field else ""
        if not epsilon and not delta:
            continue
        before = known.get(currency) or Cost(epsilon=0.0)
        try:
            total = declared_cost(float(epsilon or before.epsilon), float(delta or before.delta))
        except ValueError as error:
            raise OutsideFolder(
                f"{currency} total, epsilon {epsilon!r}, delta {delta!r}: is no total: {error}"
            ) from None
        found[currency] = total
    return found


def altered(ledger: Ledger) -> str:
    """How it shows that an entry was altered; empty where the ledger is whole."""
    found = ledger.verify()
    return "" if found is None else str(found)


def gauges_of(summary: Summary) -> list[BudgetGauge]:
    """A gauge for each budget that is in use."""
    return [
        gauge_of(balance, other_windows(summary, balance)) for balance in listed_balances(summary)
    ]


def gauge_of(balance: Balance, before: str = "") -> BudgetGauge:
    """The gauge of one budget; ``before``: what stands before its name."""
    name = before + budget_name(balance)
    share = share_spent(balance)
    return BudgetGauge(
        name=name[0].upper() + name[1:],
        spent=priced(balance, balance.spent),
        left=priced(balance, balance.left),
        total=priced(balance, balance.total),
        percent=None if share is None else 100 * share,
        note=kept_apart(balance) if balance.apart_from else "",
    )


def row_of(record: Record, visit: Visit) -> dict[str, object]:
    """One entry of the ledger, as a row of a table; ``folder``: as the console calls it, None where
    it lies elsewhere.
    """
    folder = None
    if record.place is not None:
        place = visit.workplace.root / record.place.folder
        # A folder is linked only while the release still lies there.
        folder = visit.workplace.relative(place) if (place / STATEMENT).is_file() else None
    return {
        "id": record.id,
        "made": f"{date_text(record.created_at)} UTC",
        "policy": f"{record.policy} {record.version}".strip(),
        "window": record.window or "",
        "state": record.state,
        "charged": tuple(map(charge_text, record.charges)),
        "says": without_release(record) or "",
        "folder": folder,
    }

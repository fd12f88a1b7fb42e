"""``cloakwork ledger``: what every dataset's releases have spent, what is left, and whether the ledger is whole."""

import json
import math
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import click

from cloakwork.errors import VerificationFailed
from cloakwork.quantities import format_duration

if TYPE_CHECKING:
    from cloakwork.accounting.charge import Charge
    from cloakwork.accounting.ledger import Balance, Ledger, Summary
    from cloakwork.accounting.records import Record
    from cloakwork.advisories import Finding
    from cloakwork.budget import Cost

_P = ParamSpec("_P")

CURRENCY_NAMES = {
    "unit": "differential privacy of a unit",
    "metric": "metric privacy of a value",
    "local": "local privacy of a value",
    "none": "no DP guarantee",
}


@click.group()
def ledger() -> None:
    """Show what releases of each dataset have spent, and what is left."""


def _options(command: Callable[_P, None]) -> Callable[_P, None]:
    url = click.option("--ledger", "url", metavar="URL", help="Where the ledger lives. Default: $CLOAKWORK_LEDGER.")
    as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    return url(as_json(command))


_of_dataset = click.option("--dataset", metavar="NAME", help="Only this dataset.")


@ledger.command()
@_of_dataset
@_options
def show(url: str | None, as_json: bool, dataset: str | None) -> None:
    """Show what is spent and what is left, dataset by dataset."""
    book = _open(url)
    _warn_if_altered(book)
    summaries = book.summary(dataset)
    if as_json:
        click.echo(json.dumps({"ledger": book.url, "datasets": [_summary_json(each) for each in summaries]}, indent=2))
        return
    if not summaries:
        click.echo(_nothing(book, dataset))
    for each in summaries:
        _print_summary(each)


@ledger.command()
@_of_dataset
@_options
def history(url: str | None, as_json: bool, dataset: str | None) -> None:
    """List every release, oldest first."""
    book = _open(url)
    _warn_if_altered(book)
    records = book.history(dataset)
    if as_json:
        click.echo(json.dumps({"ledger": book.url, "releases": [_record_json(each) for each in records]}, indent=2))
    elif not records:
        click.echo(_nothing(book, dataset))
    else:
        _print_history(records)


@ledger.command()
@_options
@click.option(
    "--release",
    "releases",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A release made with this ledger: its signed statement shows whether newer entries were cut off.",
)
def verify(url: str | None, as_json: bool, releases: tuple[Path, ...]) -> None:
    """Check that no entry was changed since it was written, and none removed from before another.

    Only a release's statement can show that the newest entries are gone: name releases to check against.
    """
    book = _open(url)
    found = book.verify(entry for entry in map(_entry_of, releases) if entry is not None)
    if found is not None:
        failure = VerificationFailed([f"ledger {book.url}: {found}"])
        failure.beside = {
            "ledger": book.url,
            "whole": False,
            "broken": {"entry": found.seq, "reason": found.reason},
        }
        raise failure
    if as_json:
        click.echo(json.dumps({"ledger": book.url, "whole": True, "broken": None}, indent=2))
    else:
        count = len(book.history())
        if not count:
            click.echo(_nothing(book, None))
            return
        against = f", all {len(releases)} statements found" if releases else ""
        click.echo(f"The chain of entries is whole: {count} release{'' if count == 1 else 's'}{against}.")


def _entry_of(folder: Path) -> str | None:
    """The ledger entry that a verified release's statement names."""
    from cloakwork.report.verify import verify as verify_release

    return verify_release(folder).statement.ledger_entry


def _open(url: str | None) -> "Ledger":
    from cloakwork.accounting.ledger import Ledger

    return Ledger(url)


def _warn_if_altered(book: "Ledger") -> None:
    found = book.verify()
    if found is not None:
        click.echo(f"warning: ledger {book.url}: {found}; its figures cannot be trusted", err=True)


def _nothing(book: "Ledger", dataset: str | None) -> str:
    return f"No releases{'' if dataset is None else f' of dataset {dataset!r}'} in {book.url}."


def _print_summary(summary: "Summary") -> None:
    from rich.table import Table

    count = len(summary.records)
    table = Table(title=f"Dataset {summary.dataset}: {count} release{'' if count == 1 else 's'}", title_justify="left")
    for heading in ("budget", "spent", "left", "total"):
        table.add_column(heading, overflow="fold")
    for balance in summary.balances:
        left, total = _cost(balance.left, "no total declared"), _cost(balance.total, "no total declared")
        table.add_row(_budget(balance), _cost(balance.spent), left, total)
    if summary.balances:
        _console().print(table)
    else:
        _console().print(table.title, markup=False)
    _print_warnings(summary)
    _print_affected(summary)


def _print_affected(summary: "Summary") -> None:
    """Entries whose claims were found false since: which, by which advisory, and how to settle it."""
    from cloakwork.accounting.affected import findings_of

    told = ((record, findings_of(record)) for record in summary.records)
    listed = [(record, [each for each in found if each.status in _SHORTLY]) for record, found in told]
    concerned = [(record, found) for record, found in listed if found]
    if not concerned:
        return
    click.echo(f"{len(concerned)} concerned by what was found since; 'cloakwork verify DIR' settles what it can:")
    for record, found in concerned:
        said = [f"{says} {_ids(found, status)}" for status, says in _SHORTLY.items() if _ids(found, status)]
        click.echo(f"  {_date(record.created_at)}  {record.id}  {record.policy} {record.version}: {'; '.join(said)}")
    titles = {each.advisory.id: each.advisory.title for _, found in concerned for each in found}
    for number, title in sorted(titles.items()):
        click.echo(f"  {number}  {title}")


def _ids(found: "list[Finding]", status: str) -> str:
    return ", ".join(sorted({each.advisory.id for each in found if each.status == status}))


_SHORTLY = {"void": "void", "open": "may be void", "weakened": "weakened"}


def _print_warnings(summary: "Summary") -> None:
    pending = sum(record.state == "reserved" for record in summary.records)
    if pending:
        click.echo(
            f"{pending} reserved, not committed: in progress, or ended before completion; what is reserved stays spent."
        )
    if summary.without_dp:
        click.echo(f"{len(summary.without_dp)} without a DP guarantee; no budget bounds what these disclose:")
        for record in summary.without_dp:
            click.echo(f"  {_date(record.created_at)}  {record.id}  {record.policy} {record.version}".rstrip())


def _print_history(records: "tuple[Record, ...]") -> None:
    from rich.table import Table

    table = Table(title=f"{len(records)} release{'' if len(records) == 1 else 's'}", title_justify="left")
    for heading in ("reserved at (UTC)", "release", "dataset", "policy", "state", "cost"):
        table.add_column(heading, overflow="fold")
    for record in records:
        policy = f"{record.policy} {record.version}".strip()
        cells = (_date(record.created_at), record.id, record.dataset, policy, record.state, _charges(record))
        table.add_row(*(_plain(cell) for cell in cells))
    _console().print(table)


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(text)


def _budget(balance: "Balance") -> str:
    return CURRENCY_NAMES[balance.currency] + (f", per {format_duration(balance.shift)}" if balance.shift else "")


def _cost(cost: "Cost | None", absent: str = "") -> str:
    if cost is None:
        return absent
    epsilon = "no bound" if math.isinf(cost.epsilon) else f"epsilon {cost.epsilon:.12g}"
    return epsilon + (f", delta {cost.delta:.12g}" if cost.delta else "")


def _charges(record: "Record") -> str:
    return "\n".join(_charge(charge) for charge in record.charges)


def _charge(charge: "Charge") -> str:
    if charge.currency == "none":
        return CURRENCY_NAMES["none"]
    return f"{charge.currency}: {_cost(charge.cost)}" + (
        f" per {format_duration(charge.shift)}" if charge.shift else ""
    )


def _date(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"


def _summary_json(summary: "Summary") -> dict[str, Any]:
    return {
        "dataset": summary.dataset,
        "releases": len(summary.records),
        "budgets": [_balance_json(balance) for balance in summary.balances],
        "without_dp": [record.id for record in summary.without_dp],
        "concerned": _concerned(summary),
    }


def _concerned(summary: "Summary") -> list[dict[str, Any]]:
    from cloakwork.accounting.affected import findings_of

    found = ((record, finding) for record in summary.records for finding in findings_of(record))
    return [
        {"release": record.id, "advisory": finding.advisory.id, "status": finding.status} for record, finding in found
    ]


def _balance_json(balance: "Balance") -> dict[str, Any]:
    return {
        "currency": balance.currency,
        "shift": _shift_json(balance.shift),
        "spent": _cost_json(balance.spent),
        "left": _cost_json(balance.left),
        "total": _cost_json(balance.total),
    }


def _record_json(record: "Record") -> dict[str, Any]:
    from cloakwork.accounting.affected import findings_of

    found = findings_of(record)
    return {
        "id": record.id,
        "dataset": record.dataset,
        "policy": record.policy,
        "version": record.version,
        "policy_digest": record.policy_digest,
        "state": record.state,
        "created_at": record.created_at.isoformat(),
        "committed_at": record.committed_at.isoformat() if record.committed_at else None,
        "statement_digest": record.statement_digest,
        "guarantees": record.note,
        "engine": record.engine,
        "advisories": [{"id": each.advisory.id, "status": each.status, "title": each.advisory.title} for each in found],
        "charges": [
            {"currency": charge.currency, "shift": _shift_json(charge.shift), **(_cost_json(charge.cost) or {})}
            for charge in record.charges
        ],
    }


def _shift_json(shift: timedelta | None) -> str | None:
    return format_duration(shift) if shift else None


def _cost_json(cost: "Cost | None") -> dict[str, float | None] | None:
    """Epsilon is null where there is no bound: JSON has no infinity."""
    if cost is None:
        return None
    return {"epsilon": cost.epsilon if math.isfinite(cost.epsilon) else None, "delta": cost.delta}

"""``cloakwork ledger``: what every dataset's releases have spent, what is left, and whether the
ledger is whole.
"""

import json
import math
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec

import click

from cloakwork.errors import VerificationFailed
from cloakwork.quantities import format_duration

if TYPE_CHECKING:
    from cloakwork.accounting.account import Balance
    from cloakwork.accounting.charge import Charge
    from cloakwork.accounting.ledger import Ledger, Summary
    from cloakwork.accounting.records import Record
    from cloakwork.advisories import AdvisoryMatch
    from cloakwork.budget import Cost
    from cloakwork.publishing.reconcile import Reconciliation

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
    where = (
        "Where the ledger lives. Default: $CLOAKWORK_LEDGER, else ledger.db in your data folder."
    )
    url = click.option("--ledger", "url", metavar="URL", help=where)
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
        click.echo(
            json.dumps(
                {"ledger": book.url, "datasets": [_summary_json(each) for each in summaries]},
                indent=2,
            )
        )
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
        click.echo(
            json.dumps(
                {"ledger": book.url, "releases": [_record_json(each) for each in records]}, indent=2
            )
        )
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

    Only a release's statement can show that the newest entries are gone: name releases to check
    against.
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
        click.echo(
            f"The chain of entries is whole: {count} release{'' if count == 1 else 's'}{against}."
        )


@ledger.command()
@click.argument(
    "folders", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR..."
)
@_options
@click.pass_context
def reconcile(
    ctx: click.Context, url: str | None, as_json: bool, folders: tuple[Path, ...]
) -> None:
    """Bring the ledger and the releases below each DIR to agreement, after a crash.

    Commits entries whose folder stands there; closes, as spent, those that were aimed there and
    have neither a folder nor a running process; removes the drafts of dead processes. Exit 1 where
    a release is found that this ledger does not know, or whose files are not those that its
    statement signs.
    """
    from cloakwork.publishing.reconcile import reconcile as bring_to_agreement

    book = _open(url)
    done = bring_to_agreement(book, folders)
    if as_json:
        click.echo(
            json.dumps(
                {"ledger": book.url, **_reconciliation_json(done)}, indent=2, ensure_ascii=False
            )
        )
    else:
        _print_reconciliation(done)
    if not done.agrees:
        ctx.exit(1)


def _print_reconciliation(done: "Reconciliation") -> None:
    quiet = [
        finding for finding in done.findings if finding.outcome == "agrees" and not finding.says
    ]
    for finding in done.findings:
        if finding not in quiet:
            name = f" {finding.release}" if finding.release else ""
            click.echo(f"{finding.outcome}: {finding.folder}{name}: {finding.says}")
    if done.drafts_removed:
        click.echo(f"removed {_number(done.drafts_removed, 'draft')} of processes that had ended")
    found = sum(finding.outcome in ("agrees", "completed") for finding in done.findings)
    click.echo(
        f"{_number(found, 'release')} found here {'agrees' if found == 1 else 'agree'} with the ledger"
    )


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _reconciliation_json(done: "Reconciliation") -> dict[str, Any]:
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


def _entry_of(folder: Path) -> str | None:
    """The ledger entry that a verified release's statement names."""
    from cloakwork.publishing.verify import verify as verify_release

    return verify_release(folder).statement.ledger_entry


def _open(url: str | None) -> "Ledger":
    from cloakwork.cli.options import open_ledger

    return open_ledger(url, tell_missing=True)


def _warn_if_altered(book: "Ledger") -> None:
    found = book.verify()
    if found is not None:
        click.echo(f"warning: ledger {book.url}: {found}; its figures cannot be trusted", err=True)


def _nothing(book: "Ledger", dataset: str | None) -> str:
    return f"No releases{'' if dataset is None else f' of dataset {dataset!r}'} in {book.url}."


def _print_summary(summary: "Summary") -> None:
    from rich.table import Table

    table = Table(title=f"Dataset {summary.dataset}: {_counted(summary)}", title_justify="left")
    for heading in ("budget", "spent", "left", "total"):
        table.add_column(heading, overflow="fold")
    for balance in summary.balances:
        left, total = (
            _cost(balance.left, "no total declared"),
            _cost(balance.total, "no total declared"),
        )
        table.add_row(_plain(book_in_words(balance)), _cost(balance.spent), left, total)
    if summary.balances:
        _console().print(table)
    else:
        _console().print(table.title, markup=False)
    _print_books(summary)
    _print_warnings(summary)
    _print_affected(summary)


def _counted(summary: "Summary") -> str:
    """How many releases there are, and how many runs ended before one was written."""
    failed = sum(record.failed_before_release for record in summary.records)
    count = len(summary.records) - failed
    said = f"{count} release{'' if count == 1 else 's'}"
    return said + (f", and {failed} failed, whose cost stays spent" if failed else "")


def _print_affected(summary: "Summary") -> None:
    """Entries whose claims were found false since: which, by which advisory, and how to settle it."""
    from cloakwork.accounting.affected import advisories_of

    told = ((record, advisories_of(record)) for record in summary.records)
    listed = [
        (record, [each for each in found if each.status in _SHORTLY]) for record, found in told
    ]
    concerned = [(record, found) for record, found in listed if found]
    if not concerned:
        return
    click.echo(
        f"{len(concerned)} concerned by what was found since; 'cloakwork verify DIR' settles what it can:"
    )
    for record, found in concerned:
        said = [
            f"{says} {_ids(found, status)}"
            for status, says in _SHORTLY.items()
            if _ids(found, status)
        ]
        click.echo(
            f"  {_date(record.created_at)}  {record.id}  {record.policy} {record.version}: {'; '.join(said)}"
        )
    titles = {each.advisory.id: each.advisory.title for _, found in concerned for each in found}
    for number, title in sorted(titles.items()):
        click.echo(f"  {number}  {title}")


def _ids(found: "list[AdvisoryMatch]", status: str) -> str:
    return ", ".join(sorted({each.advisory.id for each in found if each.status == status}))


_SHORTLY = {"void": "void", "open": "may be void", "weakened": "weakened"}


def _print_books(summary: "Summary") -> None:
    """What the figures of the books leave out, and what they rest on."""
    for balance in summary.balances:
        if balance.apart_from:
            click.echo(f"The book per {balance.book.name} is {kept_apart(balance)}.")
        if balance.unconverted:
            missing = ", ".join(balance.unconverted)
            click.echo(
                f"The book per {balance.book.name} lacks what was charged per {missing}: it cannot be converted."
            )
    if any(
        charge.unit is None
        for record in summary.records
        for charge in record.charges
        if charge.currency == "unit"
    ):
        click.echo(
            "Entries of version 0.1.0 do not say whom they protected, and count as the costliest they may be; "
            "'cloakwork ledger reconcile DIR' reads it from the releases in DIR."
        )


def _print_warnings(summary: "Summary") -> None:
    for record in summary.records:
        if (why := without_release(record)) is not None:
            click.echo(f"  {record.id} ({record.state}): {why}")
    if summary.without_dp:
        click.echo(
            f"{len(summary.without_dp)} without a DP guarantee; no budget bounds what these disclose:"
        )
        for record in summary.without_dp:
            click.echo(
                f"  {_date(record.created_at)}  {record.id}  {record.policy} {record.version}".rstrip()
            )


_FAILURES: Final = {
    "KeyboardInterrupt": "interrupted",
    "SystemExit": "the process was ended",
    "OutputError": "the release could not be written",
    "OSError": "a file could not be read or written",
    "MechanismError": "a step refused the log",
    "Infeasible": "no release of this log gives what the policy asks for",
    "GuaranteeBroken": "a guarantee did not hold on the result",
    "VerificationFailed": "what was written did not pass verification",
    "LogError": "the log could not be read",
    "LedgerError": "the ledger could not be written",
    "MissingExtra": "a package is not installed",
    "MemoryError": "memory ran out",
}


def failure_in_words(recorded: str | None) -> str:
    """Why a release came to nothing, in plain words; ``recorded``: the kind of error, or a
    sentence, from the ledger.
    """
    if recorded is None:
        return "the reason was not recorded"
    if recorded.isidentifier():
        return _FAILURES.get(recorded, f"an internal error, {recorded}")
    return recorded


def without_release(record: "Record") -> str | None:
    """Why the ledger knows of no release folder for an entry, in plain words; None where one stood,
    or none is made.
    """
    aim = "" if record.place is None else f"{record.place.folder} on {record.place.host}"
    look = f"'cloakwork ledger reconcile {record.place.folder}' tells" if record.place else ""
    match record.state:
        case "reserved" if record.makes == "profile":
            return "a DP profile that is being measured, or whose process ended; its cost is spent"
        case "reserved" if not aim:
            return "released in memory, no folder was written; or its process ended before that; its cost is spent"
        case "reserved":
            return (
                f"running, or ended before anything was written to {aim}; its cost is spent; {look}"
            )
        case "publishing":
            return f"written for {aim}, and not confirmed to stand there; its cost is spent; {look}"
        case "failed":
            return f"no release came of it ({failure_in_words(record.failure)}); its cost is spent"
        case "committed" if record.makes == "release" and record.statement_digest is None:
            return "committed before it was written, as version 0.1.0 did: a folder may never have stood"
    return None


def _print_history(records: "tuple[Record, ...]") -> None:
    from rich.table import Table

    table = Table(
        title=f"{len(records)} release{'' if len(records) == 1 else 's'}", title_justify="left"
    )
    for heading in (
        "reserved at (UTC)",
        "release",
        "dataset",
        "policy",
        "protects",
        "state",
        "cost",
        "folder",
    ):
        table.add_column(heading, overflow="fold")
    for record in records:
        policy = f"{record.policy} {record.version}".strip()
        folder = without_release(record) or (record.place.folder if record.place else "")
        whom = record.unit or "not said"
        cells = (_date(record.created_at), record.id, record.dataset, policy, whom, record.state)
        table.add_row(*(_plain(cell) for cell in (*cells, _charges(record), folder)))
    _console().print(table)


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(text)


def book_in_words(balance: "Balance") -> str:
    """What a book is about, as people read it."""
    if balance.currency == "unit":
        whom = "case" if balance.book.unit == "case" else f"unit of '{balance.book.unit}'"
        return f"differential privacy of each {whom}"
    return CURRENCY_NAMES[balance.currency] + (
        f", per {format_duration(balance.shift)}" if balance.shift else ""
    )


def kept_apart(balance: "Balance") -> str:
    """From which units' books a book is kept apart, and what that means."""
    names = ", ".join(balance.apart_from)
    return f"kept apart from what is charged per {names}: they do not add up to one person's risk"


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
    whom = f" per {charge.unit or 'a unit that is not said'}" if charge.currency == "unit" else ""
    return f"{charge.currency}{whom}: {_cost(charge.cost)}" + (
        f" per {format_duration(charge.shift)}" if charge.shift else ""
    )


def _date(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"


def _summary_json(summary: "Summary") -> dict[str, Any]:
    return {
        "dataset": summary.dataset,
        "releases": sum(not record.failed_before_release for record in summary.records),
        "failed": sum(record.failed_before_release for record in summary.records),
        "budgets": [_balance_json(balance) for balance in summary.balances],
        "without_dp": [record.id for record in summary.without_dp],
        "concerned": _concerned(summary),
    }


def _concerned(summary: "Summary") -> list[dict[str, Any]]:
    from cloakwork.accounting.affected import advisories_of

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
        "apart_from": list(balance.apart_from),
        "unconverted": list(balance.unconverted),
        "shift": _shift_json(balance.shift),
        "spent": cost_json(balance.spent),
        "left": cost_json(balance.left),
        "total": cost_json(balance.total),
    }


def _record_json(record: "Record") -> dict[str, Any]:
    from cloakwork.accounting.affected import advisories_of

    found = advisories_of(record)
    return {
        "id": record.id,
        "dataset": record.dataset,
        "policy": record.policy,
        "version": record.version,
        "policy_digest": record.policy_digest,
        "unit": record.unit,
        "makes": record.makes,
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


def _shift_json(shift: timedelta | None) -> str | None:
    return format_duration(shift) if shift else None


def cost_json(cost: "Cost | None") -> dict[str, float | None] | None:
    """Epsilon is null where there is no bound: JSON has no infinity."""
    if cost is None:
        return None
    return {"epsilon": cost.epsilon if math.isfinite(cost.epsilon) else None, "delta": cost.delta}

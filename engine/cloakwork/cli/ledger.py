"""``cloakwork ledger``: what every dataset's releases have spent, what is left, and whether the
ledger is whole.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

import click

from cloakwork.base.errors import VerificationFailed
from cloakwork.cli.compared_entries import comparison_json, comparison_lines
from cloakwork.cli.ledger_backup import backup, restore
from cloakwork.cli.options import LEDGER_HELP, json_option
from cloakwork.report.ledger_json import reconciliation_json, record_json, summary_json
from cloakwork.report.ledger_text import history_lines, print_lines, summary_lines
from cloakwork.report.texts import counted

if TYPE_CHECKING:
    from cloakwork.ledger.case_hashes import WindowCheck
    from cloakwork.ledger.ledger import Ledger
    from cloakwork.publishing.reconcile import Reconciliation

_P = ParamSpec("_P")


@click.group()
def ledger() -> None:
    """Show what releases of each dataset have spent, and what is left."""


def _options(command: Callable[_P, None]) -> Callable[_P, None]:
    url = click.option("--ledger", "url", metavar="URL", help=LEDGER_HELP)
    return url(json_option(command))


ledger.add_command(backup)
ledger.add_command(restore)

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
                {"ledger": book.url, "datasets": [summary_json(each) for each in summaries]},
                indent=2,
            )
        )
        return
    if not summaries:
        click.echo(_nothing(book, dataset))
    for each in summaries:
        print_lines(summary_lines(each))


@ledger.command()
@_of_dataset
@_options
def history(url: str | None, as_json: bool, dataset: str | None) -> None:
    """List every release, oldest first, then every comparison of settings."""
    book = _open(url)
    _warn_if_altered(book)
    records = book.history(dataset)
    compared = book.events("compared", dataset=dataset)
    if as_json:
        document = {
            "ledger": book.url,
            "releases": [record_json(each) for each in records],
            "comparisons": [comparison_json(each) for each in compared],
        }
        click.echo(json.dumps(document, indent=2))
        return
    if records:
        print_lines(history_lines(records))
    else:
        click.echo(_nothing(book, dataset))
    print_lines(comparison_lines(compared))


@ledger.command(short_help="Check that no entry was changed or removed.")
@_options
@click.option(
    "--release",
    "releases",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A release made with this ledger: its signed statement shows whether newer entries "
    "were cut off.",
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
    windows = book.check_windows()
    document = {"ledger": book.url, "whole": True, "broken": None, "windows": asdict(windows)}
    if windows.faults:
        failure = VerificationFailed([f"ledger {book.url}: {fault}" for fault in windows.faults])
        failure.beside = document | {"whole": False}
        raise failure
    if as_json:
        click.echo(json.dumps(document, indent=2))
    elif not book.exists():
        click.echo(_nothing(book, None))
    else:
        against = ""
        if releases:
            against = f", with {counted(len(releases), 'statement')} found in it"
        count = counted(len(book.history()), "release")
        click.echo(f"The chain of entries is whole: {count}{against}.")
        _print_windows(windows)


@ledger.command(short_help="Bring ledger and release folders to agreement.")
@click.argument(
    "folders", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR..."
)
@_options
@click.pass_context
def reconcile(
    ctx: click.Context, url: str | None, as_json: bool, folders: tuple[Path, ...]
) -> None:
    """Bring the ledger and the releases below each DIR to agreement, after a crash.

    Commits entries whose folder stands there; closes, as spent, those that were to be written
    there and have neither a folder nor a running process; removes the drafts of dead processes.
    Exit 1 where a release is found that this ledger does not know, or whose files are not those
    that its statement signs.
    """
    from cloakwork.publishing.reconcile import reconcile as bring_to_agreement

    book = _open(url)
    done = bring_to_agreement(book, folders)
    if as_json:
        click.echo(
            json.dumps(
                {"ledger": book.url, **reconciliation_json(done)}, indent=2, ensure_ascii=False
            )
        )
    else:
        _print_reconciliation(done)
    if not done.agrees:
        ctx.exit(1)


def _print_windows(found: "WindowCheck") -> None:
    if found.checked:
        records = counted(found.checked, "record")
        click.echo(f"Which cases were released with which window is whole: {records}.")
    if found.reason is not None:
        count = f"{counted(found.unchecked, 'record')} of " if found.unchecked else ""
        click.echo(f"Not checked: {count}which cases windows held; {found.reason}.")


def _print_reconciliation(done: "Reconciliation") -> None:
    quiet = [
        finding for finding in done.findings if finding.outcome == "agrees" and not finding.says
    ]
    for finding in done.findings:
        if finding not in quiet:
            name = f" {finding.release}" if finding.release else ""
            click.echo(f"{finding.outcome}: {finding.folder}{name}: {finding.says}")
    if done.drafts_removed:
        click.echo(f"removed {counted(done.drafts_removed, 'draft')} of processes that had ended")
    found = sum(finding.outcome in ("agrees", "completed") for finding in done.findings)
    agree = "agrees" if found == 1 else "agree"
    click.echo(f"{counted(found, 'release')} found here {agree} with the ledger")


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

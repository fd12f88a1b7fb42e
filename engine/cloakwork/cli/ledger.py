"""``cloakwork ledger``: what every dataset's releases have spent, what is left, and whether the
ledger is whole, and a copy of it; ``cloakwork dataset``: what each dataset is declared with.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from cloakwork.base.errors import CloakworkError, VerificationFailed
from cloakwork.base.files import require_new
from cloakwork.base.text import counted, folded, printable
from cloakwork.cli.options import (
    PATH,
    checked_ledger,
    json_option,
    key_option,
    ledger_option,
    open_ledger,
    print_block,
    print_json,
    print_lines,
)
from cloakwork.ledger.declarations import WINDOW_LENGTHS, DatasetWindows, declared_cost
from cloakwork.report.ledger_text import (
    comparison_lines,
    fields_json,
    history_lines,
    list_lines,
    overview_json,
    reconciliation_json,
    record_json,
    show_lines,
    summary_json,
    summary_lines,
)

if TYPE_CHECKING:
    from cloakwork.base.costs import Cost, Currency
    from cloakwork.ledger.backup import LedgerCopy
    from cloakwork.ledger.datasets import DatasetOverview
    from cloakwork.ledger.ledger import Ledger
    from cloakwork.publishing.reconcile import SignedCheckpoint


_of_dataset = click.option("--dataset", metavar="NAME", help="Only this dataset.")


@click.group()
def ledger() -> None:
    """Show what releases of each dataset have spent, and what is left."""


@ledger.command(short_help="Write the ledger to a file, as of this moment.")
@click.option(
    "--out",
    required=True,
    type=PATH,
    metavar="FILE",
    help="The file to make; it is a ledger itself, in SQLite.",
)
@ledger_option
@json_option
def backup(out: Path, ledger: str | None, as_json: bool) -> None:
    """Write the ledger to a file, as of this moment, while others go on writing.

    The key of case ids is not in it: keep a copy of that elsewhere.
    """
    from cloakwork.ledger.backup import back_up

    book = open_ledger(ledger)
    made = back_up(book, out)
    if as_json:
        print_json(_copy_json(book, out, made), only_ascii=True)
        return
    click.echo(f"{_entries(made.entries)} written to {printable(str(out))}")
    if made.key_file.exists():
        key = printable(str(made.key_file))
        click.echo(f"Not in it: the key of case ids, {key}; keep a copy of it apart from this one.")


@ledger.command(short_help="Bring a ledger to what a backup holds.")
@click.argument("file", type=PATH)
@ledger_option
@json_option
def restore(file: Path, ledger: str | None, as_json: bool) -> None:
    """Bring a ledger to what the backup FILE holds: begin it, or add the entries that it lacks.

    Refused where the ledger has entries that FILE lacks: what they spent would be handed back. What
    was released after FILE was made is not in it: 'cloakwork ledger reconcile DIR' tells which
    releases below DIR the ledger does not know.
    """
    from cloakwork.ledger.backup import restore as bring_back

    book = open_ledger(ledger)
    made = bring_back(file, book)
    if as_json:
        print_json(_copy_json(book, file, made), only_ascii=True)
        return
    click.echo(f"{_entries(made.added)} added to {book.url}, which has {made.entries} now")
    if made.latest is not None:
        click.echo(
            f"The last one is of {made.latest[:16].replace('T', ' ')}: what was released since is "
            "not in it; 'cloakwork ledger reconcile DIR' tells which releases in DIR are missing."
        )
    if not made.key_file.exists():
        key = printable(str(made.key_file))
        click.echo(f"The key of case ids is not in a backup: copy it to {key}.")


def _entries(count: int) -> str:
    return f"{count:,} {'entry' if count == 1 else 'entries'}"


def _copy_json(book: "Ledger", file: Path, made: "LedgerCopy") -> dict[str, Any]:
    return {
        "ledger": book.url,
        "file": str(file),
        **fields_json(made, "entries", "added", "latest"),
        "key_file": str(made.key_file),
        "key_is_there": made.key_file.exists(),
    }


@ledger.command()
@_of_dataset
@ledger_option
@json_option
def show(dataset: str | None, ledger: str | None, as_json: bool) -> None:
    """Show what is spent and what is left, dataset by dataset."""
    book = checked_ledger(ledger)
    summaries = book.summary(dataset)
    if as_json:
        found = [summary_json(each) for each in summaries]
        print_json({"ledger": book.url, "datasets": found}, only_ascii=True)
        return
    if not summaries:
        click.echo(_nothing(book, dataset))
    for each in summaries:
        print_lines(summary_lines(each))


@ledger.command()
@_of_dataset
@ledger_option
@json_option
def history(dataset: str | None, ledger: str | None, as_json: bool) -> None:
    """List every release, oldest first, then every comparison of settings."""
    book = checked_ledger(ledger)
    records = book.history(dataset)
    compared = book.events("compared", dataset=dataset)
    if as_json:
        document = {
            "ledger": book.url,
            "releases": [record_json(each) for each in records],
            "comparisons": [
                {"at": each.at, "dataset": each.dataset, **each.fields()} for each in compared
            ],
        }
        print_json(document, only_ascii=True)
        return
    if records:
        print_lines(history_lines(records))
    else:
        click.echo(_nothing(book, dataset))
    print_lines(comparison_lines(compared))


@ledger.command(short_help="Check that no entry was changed or removed.")
@ledger_option
@json_option
@click.option(
    "--release",
    "releases",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A release made with this ledger: its signed statement shows whether newer entries "
    "were cut off.",
)
@click.option(
    "--checkpoint",
    "checkpoints",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="What 'cloakwork ledger checkpoint' signed earlier: the ledger has to lead to it.",
)
def verify(
    ledger: str | None, as_json: bool, releases: tuple[Path, ...], checkpoints: tuple[Path, ...]
) -> None:
    """Check that no entry was changed since it was written, and none removed from before another.

    That the newest entries are gone, or all were written anew, shows against what was signed
    earlier: name checkpoints or releases. The newest checkpoint that you made or verified is kept
    in your data folder, and looked at each time.
    """
    from cloakwork.publishing.examine import verify as verify_release
    from cloakwork.publishing.reconcile import compare, read_checkpoint

    book = open_ledger(ledger, tell_missing=True)
    # A chain whose newest entries were cut off is whole; statements name entries it must hold.
    stated = (verify_release(folder).statement.ledger_entry for folder in releases)
    signed = [read_checkpoint(path) for path in checkpoints]
    found = book.verify(entry for entry in stated if entry is not None)
    past = compare(book, signed)
    if found is not None or past:
        first = found or past[0][1]
        said = [
            *([] if found is None else [str(found)]),
            *(f"{path}: {lost}" for path, lost in past),
        ]
        failure = VerificationFailed([f"ledger {book.url}: {each}" for each in said])
        broken_at = {"entry": first.seq, "reason": first.reason}
        failure.beside = {"ledger": book.url, "whole": False, "broken": broken_at}
        raise failure
    # The chain is whole; now whether the cases of windows are as recorded.
    windows = book.check_windows()
    document = {
        "ledger": book.url,
        "whole": True,
        "broken": None,
        "windows": asdict(windows),
        "checkpoints": [_checkpoint_json(each) for each in signed],
    }
    if windows.faults:
        failure = VerificationFailed([f"ledger {book.url}: {fault}" for fault in windows.faults])
        failure.beside = document | {"whole": False}
        raise failure
    if as_json:
        print_json(document, only_ascii=True)
    elif not book.exists():
        click.echo(_nothing(book, None))
    else:
        against = ""
        if releases:
            against = f", with {counted(len(releases), 'statement')} found in it"
        count = counted(len(book.history()), "release")
        click.echo(f"The chain of entries is whole: {count}{against}.")
        for each in signed:
            print_block("It leads to ", _said_of(each), indent=2)
        if windows.checked:
            records = counted(windows.checked, "record")
            click.echo(f"Which cases were released with which window is whole: {records}.")
        if windows.reason is not None:
            missing = f"{counted(windows.unchecked, 'record')} of " if windows.unchecked else ""
            click.echo(f"Not checked: {missing}which cases windows held; {windows.reason}.")


@ledger.command(short_help="Sign the head of the ledger.")
@click.option(
    "--out", required=True, type=PATH, metavar="FILE", help="The file to make, to keep elsewhere."
)
@key_option
@ledger_option
@json_option
def checkpoint(out: Path, key_file: str | None, ledger: str | None, as_json: bool) -> None:
    """Sign how many entries the ledger has now and the digest of the last, which fixes them all.

    Keep FILE where whoever writes to the ledger cannot change it: 'cloakwork ledger verify
    --checkpoint FILE' finds what was taken out or changed since. Your data folder keeps the newest,
    and neither releases nor approvals are granted from a ledger that no longer leads to it.
    """
    from cloakwork.publishing.keys import signing_key
    from cloakwork.publishing.reconcile import make_checkpoint

    book = open_ledger(ledger, tell_missing=True)
    require_new(out)
    made = make_checkpoint(book, out, signing_key(key_file))
    if as_json:
        print_json({"ledger": book.url, **_checkpoint_json(made)}, only_ascii=True)
        return
    print_block("Signed: ", _said_of(made), indent=2)
    click.echo("Keep it where whoever writes to the ledger cannot change it.")


def _said_of(signed: "SignedCheckpoint") -> str:
    head = signed.checkpoint
    key = f"key {signed.keyid[:16]}, {signed.trusted}"
    entries = _entries(head.entries)
    made = f"{head.made_at:%Y-%m-%d %H:%M} UTC"
    return f"{signed.path}, {entries} of {made}, by {key}."


def _checkpoint_json(signed: "SignedCheckpoint") -> dict[str, Any]:
    return {
        "file": str(signed.path),
        "checkpoint": signed.checkpoint.model_dump(mode="json"),
        **fields_json(signed, "keyid", "trusted"),
    }


@ledger.command(short_help="Bring ledger and release folders to agreement.")
@click.argument("folders", nargs=-1, required=True, type=PATH, metavar="DIR...")
@ledger_option
@json_option
@click.pass_context
def reconcile(
    context: click.Context, folders: tuple[Path, ...], ledger: str | None, as_json: bool
) -> None:
    """Bring the ledger and the releases below each DIR to agreement, after a crash.

    Commits entries whose folder stands there; closes, as spent, those that were to be written
    there and have neither a folder nor a running process; removes the drafts of dead processes.
    Exit 1 where a release is found that this ledger does not know, or whose files are not those
    that its statement signs.
    """
    from cloakwork.publishing.reconcile import reconcile as bring_to_agreement

    book = open_ledger(ledger, tell_missing=True)
    done = bring_to_agreement(book, folders)
    if as_json:
        print_json({"ledger": book.url, **reconciliation_json(done)})
    else:
        for finding in done.findings:
            # What agrees, and has nothing more to say, is only counted.
            if finding.outcome != "agrees" or finding.says:
                name = f" {finding.release}" if finding.release else ""
                click.echo(f"{finding.outcome}: {finding.folder}{name}: {finding.says}")
        if done.drafts_removed:
            drafts = counted(done.drafts_removed, "draft")
            click.echo(f"removed {drafts} of processes that had ended")
        found = sum(finding.outcome in ("agrees", "completed") for finding in done.findings)
        agree = "agrees" if found == 1 else "agree"
        click.echo(f"{counted(found, 'release')} found here {agree} with the ledger")
    if not done.agrees:
        context.exit(1)


def _nothing(book: "Ledger", dataset: str | None) -> str:
    return f"No releases{'' if dataset is None else f' of dataset {dataset!r}'} in {book.url}."


# The currency and delta may be left out.
_TOTAL: Final = re.compile(r"(?:(unit|metric|local):)?epsilon=([^,]+)(?:,\s*delta=([^,]+))?")


@click.group()
def dataset() -> None:
    """Show and declare datasets: owner, unit, total, windows, and what is left of the budget."""


@dataset.command("list", short_help="List every dataset and what is left of its budget.")
@ledger_option
@json_option
def list_datasets(ledger: str | None, as_json: bool) -> None:
    """List every dataset of the ledger: who answers for it, and what is left."""
    from cloakwork.ledger.datasets import datasets

    book = open_ledger(ledger, tell_missing=True)
    found = datasets(book)
    if as_json:
        shown = [overview_json(each) for each in found]
        print_json({"ledger": book.url, "datasets": shown}, only_ascii=True)
    elif not found:
        click.echo(f"No datasets in {book.url}; 'cloakwork dataset declare NAME' declares one.")
    else:
        print_lines(list_lines(found))


@dataset.command("show", short_help="Show one dataset: declared, spent, left, overlaps.")
@click.argument("name")
@ledger_option
@json_option
def show_dataset(name: str, ledger: str | None, as_json: bool) -> None:
    """Show one dataset: what it is declared with, spent and left in each book and window, overlaps
    with other datasets, comparisons made.

    Overlaps are read off the raw logs: keep them inside.
    """
    book = open_ledger(ledger, tell_missing=True)
    found = _named(book, name)
    if as_json:
        print_json({"ledger": book.url, "dataset": overview_json(found)}, only_ascii=True)
    else:
        print_lines(show_lines(found))


@dataset.command(short_help="Declare what binds every later release of a dataset.")
@click.argument("name")
@click.option("--owner", metavar="NAME", help="Who answers for it.")
@click.option(
    "--unit", metavar="UNIT", help="Whom every policy must protect: case or an attribute."
)
@click.option(
    "--total",
    "totals",
    multiple=True,
    metavar="[CURRENCY:]epsilon=E[,delta=D]",
    help="The most that all releases may cost together; with 'metric:' or 'local:' in front, "
    "the total of single values.",
)
@click.option(
    "--windows",
    type=click.Choice(WINDOW_LENGTHS),
    help="How long the windows are that it is released in; none: it has none.",
)
@click.option(
    "--require-approval", is_flag=True, help="Only approved policies may be applied to it."
)
@click.option(
    "--distinct-from",
    multiple=True,
    metavar="NAME",
    help="Another dataset with some of the same case ids whose cases are other people; signed.",
)
@click.option("--amend", is_flag=True, help="Raise totals of which nothing was spent yet; signed.")
@click.option("--reason", default="", metavar="TEXT", help="Why, for the record.")
@key_option
@ledger_option
@json_option
def declare(
    name: str,
    owner: str | None,
    unit: str | None,
    totals: tuple[str, ...],
    windows: DatasetWindows | None,
    require_approval: bool,
    distinct_from: tuple[str, ...],
    amend: bool,
    reason: str,
    key_file: str | None,
    ledger: str | None,
    as_json: bool,
) -> None:
    """Declare NAME's owner, unit, total or windows; every later release must keep to them.

    What is not given stays as it was. A later declaration may lower a total or add a condition,
    never loosen one; the owner may change. Costs of earlier releases count.
    """
    from cloakwork.ledger.datasets import declare_dataset
    from cloakwork.publishing.keys import signature_of

    # An empty declaration would say that something was declared.
    if not (owner or unit or totals or windows or require_approval or distinct_from):
        raise click.UsageError("nothing to declare: say --owner, --unit, --total or --windows")
    book = open_ledger(ledger)
    _, is_new = declare_dataset(
        book,
        name,
        owner=owner,
        unit=unit,
        totals=_parsed_totals(totals, book.declaration(name).totals),
        windows=windows,
        require_approval=require_approval,
        distinct_from=distinct_from,
        reason=reason,
        amend=amend,
        sign=partial(signature_of, path=key_file),
    )
    found = _named(book, name)
    if as_json:
        document = {"ledger": book.url, "declared": is_new, "dataset": overview_json(found)}
        print_json(document, only_ascii=True)
        return
    click.echo("Declared." if is_new else "Declared already; nothing was written.")
    print_lines(show_lines(found))


def _parsed_totals(
    given: tuple[str, ...], known: "Mapping[Currency, Cost]"
) -> "dict[Currency, Cost]":
    """The totals by currency; where delta is not given, that of ``known`` stays."""
    bad = partial(click.BadParameter, param_hint="--total")
    found: dict[Currency, Cost] = {}
    for text in given:
        match = _TOTAL.fullmatch(text.strip())
        if match is None:
            raise bad(f"'{text}' is not [CURRENCY:]epsilon=E[,delta=D], such as epsilon=2")
        # The pattern has no other currencies.
        currency = cast("Currency", match[1] or "unit")
        if currency in found:
            raise bad(f"'{text}' is the second for {currency}")
        # Delta may be left out where a total is only lowered in epsilon.
        kept = known[currency].delta if currency in known else 0.0
        try:
            delta = kept if match[3] is None else float(match[3])
            found[currency] = declared_cost(float(match[2]), delta)
        except ValueError as error:
            raise bad(f"'{text}' is no total: {error}") from None
    return found


def _named(book: "Ledger", name: str) -> "DatasetOverview":
    from cloakwork.ledger.datasets import datasets

    for found in datasets(book):
        if folded(found.name) == folded(name):
            return found
    raise CloakworkError(
        f"ledger {book.url}: knows no dataset '{name}'; 'cloakwork dataset list' lists them"
    )

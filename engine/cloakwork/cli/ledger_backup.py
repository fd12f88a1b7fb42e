"""``cloakwork ledger backup`` and ``restore``: a copy of the ledger, and the way back."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cloakwork.cli.options import json_option, ledger_option
from cloakwork.report.screen import printable

if TYPE_CHECKING:
    from cloakwork.ledger.backup import LedgerCopy


@click.command(short_help="Write the ledger to a file, as of this moment.")
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file to make; it is a ledger itself, in SQLite.",
)
@ledger_option
@json_option
def backup(out: Path, ledger: str | None, as_json: bool) -> None:
    """Write the ledger to a file, as of this moment, while others go on writing.

    The key of case ids is not in it: keep a copy of that elsewhere.
    """
    from cloakwork.cli.options import open_ledger
    from cloakwork.ledger.backup import back_up

    book = open_ledger(ledger)
    made = back_up(book, out)
    if as_json:
        click.echo(json.dumps({"ledger": book.url, "file": str(out), **_copy_json(made)}, indent=2))
        return
    click.echo(f"{_entries(made.entries)} written to {printable(str(out))}")
    if made.key_file.exists():
        key = printable(str(made.key_file))
        click.echo(f"Not in it: the key of case ids, {key}; keep a copy of it apart from this one.")


@click.command(short_help="Bring a ledger to what a backup holds.")
@click.argument("file", type=click.Path(path_type=Path))
@ledger_option
@json_option
def restore(file: Path, ledger: str | None, as_json: bool) -> None:
    """Bring a ledger to what the backup FILE holds: begin it, or add the entries that it lacks.

    Refused where the ledger has entries that FILE lacks: what they spent would be handed back. What
    was released after FILE was made is not in it: 'cloakwork ledger reconcile DIR' tells which
    releases below DIR the ledger does not know.
    """
    from cloakwork.cli.options import open_ledger
    from cloakwork.ledger.backup import restore as bring_back

    book = open_ledger(ledger)
    made = bring_back(file, book)
    if as_json:
        click.echo(
            json.dumps({"ledger": book.url, "file": str(file), **_copy_json(made)}, indent=2)
        )
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


def _copy_json(made: "LedgerCopy") -> dict[str, object]:
    return {
        "entries": made.entries,
        "added": made.added,
        "latest": made.latest,
        "key_file": str(made.key_file),
        "key_is_there": made.key_file.exists(),
    }

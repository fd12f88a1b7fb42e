"""``cloakwork report``: what a release says, for insiders or for everybody."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cloakwork.cli.options import ledger_option

if TYPE_CHECKING:
    from cloakwork.report.model import Audience, Format


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--audience",
    type=click.Choice(["internal", "public"]),
    default="public",
    show_default=True,
    help="internal: with figures from the raw log, never to be published.",
)
@click.option(
    "--public-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The signer's public key (PEM). Without it: the keys that are trusted here.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["html", "json", "pdf"]),
    default="html",
    show_default=True,
    help="pdf: not in this version; print the page to PDF from a browser.",
)
@ledger_option
def report(
    folder: Path,
    audience: "Audience",
    format_: "Format",
    public_key: Path | None,
    ledger: str | None,
) -> None:
    """Print the audit report of the release in DIR to standard output.

    Exit code 5: the statement is not signed by a trusted key, or a file is not the one that was
    signed. Whether the release keeps what it says is checked by 'cloakwork verify'. Where the
    ledger knows the release, the report warns of other releases only if there are any.
    """
    from cloakwork.accounting.ledger import Ledger
    from cloakwork.report.render import render

    if not folder.is_dir():
        raise click.BadParameter(
            f"'{folder}' is a file, and a report is made of a release's folder; "
            "unpack the file first, then name the folder",
            param_hint="DIR",
        )
    book = Ledger(ledger)
    click.echo(render(folder, audience, format_, public_key=public_key, ledger=book))

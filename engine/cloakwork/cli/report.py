"""``cloakwork report``: what a release says, for insiders or for everybody."""

import sys
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
    type=click.Choice(["html", "json", "pdf", "dpv", "oscal", "dpia"]),
    default="html",
    show_default=True,
    help="pdf needs the extra 'pdf'. dpv: terms of the Data Privacy Vocabulary (JSON-LD). oscal: "
    "assessment results. dpia: an impact assessment to be completed (Markdown, internal).",
)
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A new file to write to, instead of standard output.",
)
@click.option(
    "--risk",
    "risk_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What 'cloakwork risk LOG DIR --json' printed: its figures, for the internal report and "
    "the impact assessment.",
)
@ledger_option
def report(
    folder: Path,
    audience: "Audience",
    format_: "Format",
    public_key: Path | None,
    out: Path | None,
    risk_file: Path | None,
    ledger: str | None,
) -> None:
    """Print the audit report of the release in DIR, or write it to a file.

    The report says whether the release was verified. Exit code 5: the statement is not signed by a
    trusted key, or a file is not the one that was signed. Where the ledger knows the release, the
    report warns of other releases only if there are any.
    """
    from cloakwork.ledger.ledger import Ledger
    from cloakwork.report.out import check_file, write_file
    from cloakwork.report.render import render, render_pdf
    from cloakwork.report.risk_file import read_risk

    if not folder.is_dir():
        raise click.BadParameter(
            f"'{folder}' is a file, and a report is made of a release's folder; "
            "unpack the file first, then name the folder",
            param_hint="DIR",
        )
    if out is not None:
        check_file(out)
    elif format_ == "pdf" and is_terminal():
        raise click.UsageError("a PDF is not for a terminal: name a file with --out FILE")
    book = Ledger(ledger)
    risk = None if risk_file is None else read_risk(risk_file)
    made: str | bytes
    if format_ == "pdf":
        made = render_pdf(folder, audience, public_key=public_key, ledger=book, risk=risk)
    else:
        text = render(folder, audience, format_, public_key=public_key, ledger=book, risk=risk)
        made = text.rstrip("\n") + "\n"
    if out is None:
        click.echo(made, nl=False)
        return
    content = made.encode() if isinstance(made, str) else made
    write_file(out, content, private=audience == "internal")
    click.echo(f"wrote {out}", err=True)


def is_terminal() -> bool:
    """Whether a person sees what is printed."""
    return sys.stdout.isatty()

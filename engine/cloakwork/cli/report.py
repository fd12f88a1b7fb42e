"""``cloakwork report``: what a release says, for insiders or for everybody."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from cloakwork.report.model import Audience, Format


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--audience",
    type=click.Choice(["internal", "public"]),
    default="public",
    show_default=True,
    help="internal: with figures from the raw log, never to be published.",
)
@click.option("--format", "format_", type=click.Choice(["html", "json", "pdf"]), default="html", show_default=True)
def report(folder: Path, audience: "Audience", format_: "Format") -> None:
    """Print the audit report of the release in DIR to standard output."""
    from cloakwork.report.render import render

    click.echo(render(folder, audience, format_))

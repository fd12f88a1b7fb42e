"""``cloakwork console``: the same in a browser, on this machine alone."""

from importlib import import_module
from pathlib import Path
from typing import Final

import click

from cloakwork.base.errors import MissingExtra
from cloakwork.cli.options import PATH, ledger_option, progress

SERVER: Final = "cloakwork.console.server"
"""Named and not imported: the command line stands beside the console, and works without it."""


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of this machine to listen at; by default any that is free.",
)
@click.option(
    "--folder",
    type=PATH,
    default=Path(),
    help="The policies, logs and releases that are shown; by default the working folder.",
)
@click.option("--no-browser", is_flag=True, help="Only print the link; do not open a browser.")
@ledger_option
def console(port: int, folder: Path, no_browser: bool, ledger: str | None) -> None:
    """Do what the command line does in a browser: datasets and their budgets, policies, plans,
    releases.

    The pages are served to this machine alone, to whoever opens the link that is printed, which
    works once. Files are read and written below FOLDER only. Ctrl-C ends it.
    """
    try:
        server = import_module(SERVER)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"the console needs the package '{error.name}'; install cloakwork[console]"
        ) from error
    server.serve(folder, ledger, port, browser=not no_browser, say=click.echo, note=progress)

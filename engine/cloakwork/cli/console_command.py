"""``cloakwork console``: the same in a browser, on this machine alone."""

from pathlib import Path

import click

from cloakwork.base.errors import MissingExtra
from cloakwork.cli.options import ledger_option


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of this machine to listen at; by default any that is free.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
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
        from cloakwork.console.server import ConsoleServer
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"the console needs the package '{error.name}'; install cloakwork[console]"
        ) from error
    from cloakwork.console.visits import ConsoleState
    from cloakwork.console.workplace import Workplace

    state = ConsoleState(Workplace.at(folder), ledger)
    book = state.ledger()
    click.echo(f"folder {state.workplace.root}, ledger {book.url}", err=True)
    server = ConsoleServer(state, port, say=_show_link)
    server.run(browser=not no_browser)


def _show_link(link: str) -> None:
    click.echo(f"Open this link, which works once (Ctrl-C ends the console):\n  {link}")

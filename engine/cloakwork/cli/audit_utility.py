"""``cloakwork audit utility``: what a release keeps of its source."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from cloakwork.base.errors import LogError
from cloakwork.cli.options import column_mapping, column_option, json_option, require_log
from cloakwork.cli.progress import progress_of
from cloakwork.report.screen import block
from cloakwork.report.screen import columns as screen_width

if TYPE_CHECKING:
    from cloakwork.evaluation.utility import Utility

_LABEL: Final = 54


@click.command(short_help="Compare RELEASE with SOURCE: how much of the log is left.")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("release", type=click.Path(path_type=Path))
@column_option
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
@json_option
def utility(
    source: Path, release: Path, columns: tuple[str, ...], quiet: bool, as_json: bool
) -> None:
    """Compare RELEASE, a release folder, a packed release or a log, with the log SOURCE, which it
    was made from: how much is left.

    The figures of the internal report, without a plan; times and attributes as distributions.
    --column is for SOURCE. They read the raw log: never publish them, and choose no release by
    them.
    """
    from cloakwork.evaluation.release_comparison import utility_of_logs
    from cloakwork.log.formats import read_log
    from cloakwork.publishing.opened import opened_log

    require_log(source)
    if not release.exists():
        raise LogError(release, "there is no such file or folder")
    mapping = column_mapping(columns, source)
    with progress_of(quiet=quiet) as reporter:
        reporter("reading both logs")
        before, after = read_log(source, columns=mapping), opened_log(release).log
        reporter("comparing them")
        found = utility_of_logs(before, after)
    click.echo(found.model_dump_json(indent=2) if as_json else "\n".join(_lines(found)))


def _lines(found: "Utility") -> Iterator[str]:
    """Each figure by its plain name, below what they must not be used for."""
    from cloakwork.report.html import lines
    from cloakwork.report.texts import INTERNAL

    yield f"{INTERNAL[:1].upper()}{INTERNAL[1:]}"
    for line in lines(found):
        yield f"{line.name:<{_LABEL}}{line.value}"
    notes = (*found.notes, *(found.whole_log.notes if found.whole_log else ()))
    yield from block("Note", notes, screen_width(), indent=6)

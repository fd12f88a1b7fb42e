"""``cloakwork compare``: privacy against what is left, before choosing."""

from pathlib import Path

import click

from cloakwork.cli.options import (
    column_mapping,
    column_option,
    device_option,
    json_option,
    ledger_option,
    open_ledger,
    read_profile,
    require_log,
    window_option,
)
from cloakwork.cli.progress import progress_of
from cloakwork.report.screen import columns as screen_columns


@click.command()
@click.argument("log", type=click.Path(path_type=Path))
@click.argument("policies", nargs=-1, required=True, metavar="POLICY...")
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="NAME=VALUES",
    help="Values of a guarantee's number, e.g. k=5,10,20 or epsilon=.5,1,2; several options give "
    "every combination.",
)
@click.option(
    "--cases",
    type=click.IntRange(min=1),
    help="How many cases LOG has, where that is public: for a stand-in.",
)
@click.option(
    "--profile",
    type=click.Path(path_type=Path),
    help="Noisy figures of LOG that 'cloakwork profile' wrote: for a stand-in.",
)
@click.option(
    "--html", type=click.Path(path_type=Path), help="Write the comparison here as a page, too."
)
@column_option
@window_option
@ledger_option
@device_option
@click.option("--all", "show_all", is_flag=True, help="Show everything that is taken for granted.")
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
@json_option
def compare(
    log: Path,
    policies: tuple[str, ...],
    sweeps: tuple[str, ...],
    cases: int | None,
    profile: Path | None,
    html: Path | None,
    columns: tuple[str, ...],
    window: str | None,
    ledger: str | None,
    device: str,
    show_all: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Compare settings of each POLICY: what they guarantee, and what they leave of LOG.

    Nothing is released or charged; the ledger notes that settings were compared. Where one of them
    asks for differential privacy of whole units, or for local privacy, all are tried on a stand-in,
    a log invented from what the policies declare, and LOG is not opened: choosing by noisy runs of
    LOG would void the guarantee. Otherwise they are tried on LOG, with invented times where noise
    is to protect these; such figures are internal.
    """
    from cloakwork import api
    from cloakwork.evaluation.compare import compare as compare_settings
    from cloakwork.mechanisms.devices import computed_on
    from cloakwork.report.compare_screen import print_comparison
    from cloakwork.report.comparison_page import comparison_html
    from cloakwork.report.out import check_file, write_file

    if log.suffix in (".yaml", ".yml"):
        raise click.UsageError(f"{log} looks like a policy; the log comes first, then the policies")
    mapping = column_mapping(columns, log) or None
    book = open_ledger(ledger)
    read = [api.load_policy(each, ledger=book) for each in policies]
    paid_for = None if profile is None else read_profile(profile)
    require_log(log)
    if html is not None:
        check_file(html)
    training = computed_on(device)
    with progress_of(quiet=quiet) as reporter, training:
        found = compare_settings(
            log,
            read,
            sweep=sweeps,
            ledger=book,
            columns=mapping,
            profile=paid_for,
            cases=cases,
            window=window,
            reporter=reporter,
        )
    if html is not None:
        write_file(html, comparison_html(found, log.name).encode(), private=True)
    if as_json:
        click.echo(found.model_dump_json(indent=2))
        return
    print_comparison(found, log.name, screen_columns(), show_all=show_all)
    if html is not None:
        click.echo(f"\nPage written to {html}")

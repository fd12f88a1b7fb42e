"""``cloakwork profile``: buy noisy figures of a log, for planning to go by."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cloakwork.base.errors import OutputError
from cloakwork.cli.failures import noting_remains
from cloakwork.cli.options import (
    column_mapping,
    column_option,
    json_option,
    ledger_option,
    open_ledger,
    require_log,
    window_option,
)
from cloakwork.cli.progress import progress_of

if TYPE_CHECKING:
    from cloakwork.mechanisms.profile import Profile


@click.command()
@click.argument("policy")
@click.argument("log", type=click.Path(path_type=Path))
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="New file that the profile becomes.",
)
@column_option
@window_option
@ledger_option
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
@json_option
def profile(
    policy: str,
    log: Path,
    out: Path,
    columns: tuple[str, ...],
    window: str | None,
    ledger: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Measure noisy figures of LOG for the share of the budget that POLICY sets under spec.profile.

    How many cases there are, how long they are, how many the most frequent variants hold, and,
    where the policy declares none, the activities. The ledger is charged. 'cloakwork plan
    --profile' reads the file; a guarantee of differential privacy made with it covers its cost too.
    """
    from cloakwork import api
    from cloakwork.authoring.sources import policy_source

    read = policy_source(policy, ledger).policy()
    require_log(log)
    if out.exists() or out.is_symlink():
        raise OutputError(f"{out}: exists, and a profile is paid for each time; name a new file")
    if not out.parent.is_dir():
        raise OutputError(f"{out}: cannot be written, there is no folder {out.parent}")
    book, mapping = open_ledger(ledger), column_mapping(columns, log) or None
    with noting_remains(book, out), progress_of(quiet=quiet) as reporter:
        made = api.profile(
            read, log, ledger=book, reporter=reporter, columns=mapping, window=window
        )
    text = made.model_dump_json(indent=2)
    try:
        out.write_text(text + "\n", "utf-8")
    except OSError as error:
        failure = OutputError(f"{out}: cannot be written: {error.strerror}")
        failure.beside = {"profile": made.model_dump(mode="json")}
        if not as_json:
            click.echo(text)  # it is paid for: better on the terminal than lost
        raise failure from error
    if as_json:
        click.echo(text)
    else:
        _show(made, out)


def _show(made: "Profile", out: Path) -> None:
    found, noise = made.figures, made.params
    click.echo(f"about {found.cases:,} cases (noise of scale {noise.count_scale:.4g})")
    for share, length in found.lengths.items():
        most = f"{length} events" if length is not None else "more events than the bins reach"
        click.echo(f"  {float(share):.0%} of them have at most {most}")
    for most, held in found.top.items():
        scale = f"{noise.top_scale:.4g}"
        which = f"the {most} most frequent variants hold"
        if most == "1":
            which = "the most frequent variant holds"
        click.echo(f"  {which} about {held:,} (noise of scale {scale})")
    if found.alphabet is not None:
        shown = f"{len(found.alphabet):,}"
        click.echo(f"  activities that at least about {noise.tau:,} cases have: {shown}")
    click.echo(
        f"charged: epsilon {noise.epsilon:g}, delta {noise.delta:g}, "
        f"as release {made.release} of the ledger"
    )
    click.echo(f"written to {out}")

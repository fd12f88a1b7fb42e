"""``cloakwork apply``: anonymize a log under a policy, atomically."""

from pathlib import Path

import click

from cloakwork.cli.options import (
    PATH,
    column_mapping,
    column_option,
    device_option,
    json_option,
    ledger_option,
    open_ledger,
    print_json,
    quiet_option,
    require_log,
    window_option,
)
from cloakwork.cli.progress import progress_of
from cloakwork.report.screen import columns as screen_columns
from cloakwork.report.screen import print_sections


@click.command()
@click.argument("policy_or_plan")
@click.argument("log")
@click.option(
    "--out", required=True, type=PATH, help="Folder that the release becomes; must not exist."
)
@ledger_option
@column_option
@window_option
@click.option(
    "--engine",
    type=click.Choice(["memory", "local", "spark", "polars"]),
    help="Where the plan runs: in memory, in batches on disk (local), or on Spark; by default in "
    "memory, and a log of more than 5 million events in batches. polars is memory.",
)
@device_option
@click.option(
    "--signing-key",
    metavar="FILE",
    help="Ed25519 private key (PEM); default: $CLOAKWORK_SIGNING_KEY, else your own.",
)
@click.option(
    "--mine",
    "mining_seconds",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="For the internal report: mine a process model of the release and try it on LOG, "
    "for so long at most.",
)
@click.option(
    "--require-approval",
    is_flag=True,
    help="Refuse a policy that the registry does not approve.",
)
@quiet_option
@json_option
def apply(
    policy_or_plan: str,
    log: str,
    out: Path,
    ledger: str | None,
    columns: tuple[str, ...],
    window: str | None,
    engine: str | None,
    device: str,
    signing_key: str | None,
    mining_seconds: float,
    require_approval: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Anonymize LOG as POLICY_OR_PLAN says, and write the release to a new folder: whole, or not at
    all.

    POLICY_OR_PLAN: a policy's file, a shipped policy's name, NAME@VERSION of the registry, or a
    plan that 'cloakwork plan --out' wrote.

    LOG: a file, or a folder of files that are one log; on Spark also an address that Spark reads
    (Parquet), or spark:TABLE.
    """
    from cloakwork import api
    from cloakwork.authoring.sources import plan_from
    from cloakwork.report.failures import noting_remains
    from cloakwork.report.outcome import outcome, outcome_json

    mapping = column_mapping(columns, Path(log))
    plan = plan_from(policy_or_plan, window, ledger)
    if engine != "spark":
        require_log(Path(log), folders=True)
    book = open_ledger(ledger)
    with noting_remains(book, out), progress_of(plan, quiet=quiet) as reporter:
        published = api.release(
            plan,
            log,
            out,
            ledger=book,
            signing_key=signing_key,
            reporter=reporter,
            columns=mapping or None,
            mining_seconds=mining_seconds,
            require_approval=require_approval,
            engine=engine,
            device=device,
        )
    if as_json:
        print_json(outcome_json(published))
        return
    print_sections(outcome(published), screen_columns())
    if published.new_public_key is not None:
        click.echo("A signing key was made for you; give this public half to those who verify:")
        click.echo(published.new_public_key)

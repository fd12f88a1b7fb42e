"""``cloakwork apply``: anonymize a log under a policy, atomically."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cloakwork.cli.failures import noting_remains
from cloakwork.cli.options import (
    column_mapping,
    column_option,
    device_option,
    json_option,
    ledger_option,
    open_ledger,
    plan_from,
    require_log,
    window_option,
)
from cloakwork.cli.progress import progress_of
from cloakwork.plan.sentences import caveat_in_words
from cloakwork.report.outcome import outcome
from cloakwork.report.screen import columns as screen_columns
from cloakwork.report.screen import print_sections
from cloakwork.report.texts import purpose_lines

if TYPE_CHECKING:
    from cloakwork.publishing.publish import Published


@click.command()
@click.argument("policy_or_plan")
@click.argument("log")
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder that the release becomes; must not exist.",
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
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
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
        click.echo(json.dumps(_summary(published), indent=2, ensure_ascii=False))
        return
    width = screen_columns()
    print_sections(outcome(published), width)
    if published.new_public_key is not None:
        click.echo("A signing key was made for you; give this public half to those who verify:")
        click.echo(published.new_public_key)


def _summary(published: "Published") -> dict[str, Any]:
    """What was released; nothing here was counted on the raw log."""
    release = published.release
    unproven = [item.model_dump(mode="json") for item in release.plan.unproven]
    window = release.plan.facts.release_window
    of_window = {} if window is None else {"window": window}
    return ({"unproven": unproven} if unproven else {}) | {
        "release": str(published.folder),
        "release_id": release.release_id,
        **of_window,
        "log": {"cases": release.log.case_count, "events": release.log.event_count},
        "guarantees": [claim.model_dump(mode="json") for claim in release.plan.claims],
        "exposed": [item.model_dump(mode="json") for item in release.plan.exposed],
        "charges": [charge.model_dump(mode="json") for charge in release.plan.charges],
        "warnings": [
            *purpose_lines(release.plan.policy.metadata.purpose),
            *map(caveat_in_words, release.plan.warnings),
        ],
        "statement": published.statement_digest,
        "signed_by": published.keyid,
    }

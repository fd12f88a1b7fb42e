"""``cloakwork apply``: anonymize a log under a policy, atomically."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cloakwork.cli.failures import saying_what_stays
from cloakwork.cli.options import (
    column_mapping,
    column_option,
    json_option,
    ledger_option,
    open_ledger,
    plan_from,
    progress,
    require_log,
)
from cloakwork.plan.sentences import caveat_in_words, unproven_cost, unproven_sentence
from cloakwork.progress import silent

if TYPE_CHECKING:
    from cloakwork.accounting.charge import Charge
    from cloakwork.plan.model import Plan
    from cloakwork.publishing.publish import Published


@click.command()
@click.argument("policy_or_plan")
@click.argument("log", type=click.Path(path_type=Path))
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder that the release becomes; must not exist.",
)
@ledger_option
@column_option
@click.option(
    "--engine",
    type=click.Choice(["polars", "spark"]),
    default="polars",
    show_default=True,
    help="Where the plan runs.",
)
@click.option(
    "--signing-key",
    metavar="FILE",
    help="Ed25519 private key (PEM); default: $CLOAKWORK_SIGNING_KEY, else your own.",
)
@click.option(
    "--mine",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="For the internal report: mine a process model of the release and try it on LOG, for so long at most.",
)
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
@json_option
def apply(
    policy_or_plan: str,
    log: Path,
    out: Path,
    ledger: str | None,
    columns: tuple[str, ...],
    engine: str,
    signing_key: str | None,
    mine: float,
    quiet: bool,
    as_json: bool,
) -> None:
    """Anonymize LOG as POLICY_OR_PLAN says, and write the release to a new folder: whole, or not at
    all.
    """
    from cloakwork import api

    mapping = column_mapping(columns)
    plan = plan_from(policy_or_plan)
    if engine == "spark":
        raise click.UsageError("the spark engine is not part of this version; use --engine polars")
    require_log(log)
    if mapping and log.name.endswith((".xes", ".xes.gz")):
        raise click.UsageError("--column is for CSV and Parquet; XES names its attributes itself")
    book = open_ledger(ledger)
    with saying_what_stays(book, out):
        published = api.release(
            plan,
            log,
            out,
            ledger=book,
            signing_key=signing_key,
            reporter=silent if quiet else progress,
            columns=mapping or None,
            mine=mine,
        )
    if as_json:
        click.echo(json.dumps(_summary(published), indent=2, ensure_ascii=False))
        return
    _show(published)
    if published.new_public_key is not None:
        click.echo(
            f"  a signing key was made for you; give this public half to those who verify:\n{published.new_public_key}"
        )


def _summary(published: "Published") -> dict[str, Any]:
    """What was released; nothing here was counted on the raw log."""
    release = published.release
    unproven = [item.model_dump(mode="json") for item in release.plan.unproven]
    return ({"unproven": unproven} if unproven else {}) | {
        "release": str(published.folder),
        "release_id": release.release_id,
        "log": {"cases": release.log.cases.height, "events": release.log.events.height},
        "guarantees": [claim.model_dump(mode="json") for claim in release.plan.claims],
        "exposed": [item.model_dump(mode="json") for item in release.plan.exposed],
        "charges": [charge.model_dump(mode="json") for charge in release.plan.charges],
        "warnings": [caveat_in_words(warning) for warning in release.plan.warnings],
        "statement": published.statement_digest,
        "signed_by": published.keyid,
    }


def _why_empty(plan: "Plan") -> str:
    """What may have left nothing; told from the policy alone, as the log may not be told of."""
    if plan.facts.alphabet is not None:
        return "no declared activity occurs in enough cases; check assume.alphabet, or spend a larger epsilon"
    return "nothing occurs in enough cases for this guarantee; a larger epsilon or delta, or a smaller k, keeps more"


def _book(charge: "Charge") -> str:
    return f"{charge.currency}, per {charge.unit}" if charge.currency == "unit" else charge.currency


def _show(published: "Published") -> None:
    """What is unproven first, then exposed columns, then what holds, then where it lies."""
    from cloakwork.publishing.released import absent_attributes

    release = published.release
    plan = release.plan
    for goal in plan.unproven:
        click.echo(f"UNPROVEN: {unproven_sentence(goal)}")
        click.echo(f"  {unproven_cost(goal)}: {'; '.join(goal.why)}")
    click.echo(
        f"Released {release.log.cases.height:,} cases, {release.log.events.height:,} events to {published.folder}"
    )
    if not release.log.events.height:
        click.echo(f"  the release is EMPTY: {_why_empty(plan)}")
    for item in published.statement.exposed:
        click.echo(f"  exposed: {', '.join(item.names) or item.column}: {item.reason}")
    if absent := absent_attributes(plan, published.statement.released):
        click.echo(
            f"  not in the log, so not released: {', '.join(absent)}; check how the policy spells them"
        )
    for verdict in release.verdicts:
        click.echo(f"  holds: {verdict.claim.sentence}")
    if plan.unproven:
        click.echo("  the ledger records a release without bound")
    for charge in plan.charges:
        click.echo(
            f"  charged ({_book(charge)}): epsilon {charge.cost.epsilon:g}, delta {charge.cost.delta:g}"
        )
    click.echo(f"  public: log, plan.json, statement.json (signed by key {published.keyid[:16]})")
    click.echo("  internal, never publish: internal/report.html, internal/report.json")

"""``cloakwork plan``: say what would be done, what it gives, what it costs."""

import json
import os
from pathlib import Path
from typing import Any

import click

from cloakwork.cli.options import json_option, ledger_option
from cloakwork.errors import OutputError
from cloakwork.plan.model import Plan


@click.command()
@click.argument("policy")
@click.argument("log", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write the plan here; 'cloakwork apply' takes it instead of a policy.",
)
@ledger_option
@json_option
def plan(policy: str, log: Path, out: Path | None, ledger: str | None, as_json: bool) -> None:
    """Say what would be done with LOG under POLICY, what that gives, and what it costs.

    Planning reads the policy and the facts it declares, never the rows of LOG.
    """
    from cloakwork.accounting.ledger import Ledger
    from cloakwork.plan.passes import totals
    from cloakwork.plan.planner import make_plan
    from cloakwork.policy.library import resolve_policy
    from cloakwork.policy.load import load_policy

    path = resolve_policy(policy)
    made = make_plan(load_policy(path))
    if not log.is_file():
        raise click.UsageError(f"the log {log} does not exist or is no file")
    Ledger(ledger).check(made.policy.metadata.dataset, charges=made.charges, totals=totals(made.policy.spec.budget))
    document = made.model_dump(mode="json", by_alias=True)
    if out is not None:
        _write(out, document | {"made_from": os.path.relpath(path, out.parent)})
    if as_json:
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        show(made)
        if out is not None:
            click.echo(f"\nPlan written to {out}")


def _write(out: Path, document: dict[str, Any]) -> None:
    try:
        out.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
    except OSError as error:
        raise OutputError(f"{out}: cannot be written: {error.strerror}") from error


def show(made: Plan) -> None:
    """Print a plan for people: what leaves uncovered first, then guarantees, steps, cost, and what was refused."""
    from rich.console import Console
    from rich.tree import Tree

    console = Console(highlight=False, soft_wrap=True)
    meta = made.policy.metadata
    console.print(f"[bold]{meta.name} {meta.version}[/]  dataset {meta.dataset}, unit of privacy: {made.facts.unit}")
    tree = Tree("Plan", guide_style="dim")
    exposed = tree.add("[bold]Exposed[/] (leaves the house under no guarantee)")
    for item in made.exposed:
        exposed.add(f"{item.column}: {item.reason}")
    if not made.exposed:
        exposed.add("nothing")
    guarantees = tree.add("[bold]Guarantees[/]")
    for claim in made.claims:
        branch = guarantees.add(f"[green]{claim.guarantee.kind}[/]: {claim.sentence}")
        for line in claim.derivation:
            branch.add(f"because {line}")
        for line in claim.assumptions:
            branch.add(f"assuming {line}")
        if claim.cost is not None and claim.naive is not None:
            branch.add(
                f"accountant: epsilon {claim.cost.epsilon:.6g}, delta {claim.cost.delta:.3g}; "
                f"plain sum: epsilon {claim.naive.epsilon:.6g}, delta {claim.naive.delta:.3g}"
            )
    steps = tree.add("[bold]Steps[/]")
    for step in made.steps:
        branch = steps.add(f"[cyan]{step.mechanism}[/]: {step.why}")
        settings = ", ".join(
            f"{name} {_short(value)}" for name, value in step.params.items() if value not in (None, [], {})
        )
        if settings:
            branch.add(f"with {settings}")
    attributes = tree.add("[bold]Attributes[/]")
    for attribute in made.attributes:
        attributes.add(f"{attribute.attribute}: {attribute.treatment} ({attribute.why})")
    budget = tree.add("[bold]Budget[/]")
    for charge in made.charges:
        per = f" per shift of {charge.model_dump()['shift']}" if charge.shift else ""
        budget.add(f"{charge.currency}: epsilon {charge.cost.epsilon:g}, delta {charge.cost.delta:g}{per}")
    if not made.charges:
        budget.add("no differential privacy is claimed: recorded in the ledger as a release without bound")
    if made.considered:
        refused = tree.add("[bold]Considered and not chosen[/]")
        for other in made.considered:
            refused.add(f"{other.mechanism} for {other.goal}: {other.reason}")
    if made.warnings:
        warnings = tree.add("[bold yellow]Warnings[/]")
        for line in made.warnings:
            warnings.add(line)
    console.print(tree)


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."

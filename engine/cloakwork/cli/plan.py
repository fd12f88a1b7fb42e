"""``cloakwork plan``: say what would be done, what it gives, what it costs."""

import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from cloakwork.accounting.charge import Charge
from cloakwork.budget import Cost
from cloakwork.cli.ledger import book_in_words, cost_json, kept_apart
from cloakwork.cli.options import (
    column_mapping,
    column_option,
    json_option,
    ledger_option,
    open_ledger,
    progress,
    read_profile,
    require_log,
)
from cloakwork.errors import OutputError
from cloakwork.plan.model import Claim, Plan, Step, UnprovenClaim
from cloakwork.plan.sentences import (
    assumptions_in_words,
    caveat_in_words,
    reasons_in_words,
    treatment_in_words,
    unproven_cost,
    unproven_sentence,
)
from cloakwork.progress import silent
from cloakwork.quantities import format_duration

if TYPE_CHECKING:
    from cloakwork.accounting.account import BudgetForecast
    from cloakwork.run.release import StepRecord


@click.command()
@click.argument("policy")
@click.argument("log", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write the plan here, for 'cloakwork apply'.",
)
@click.option(
    "--profile",
    type=click.Path(path_type=Path),
    help="Noisy figures of LOG that 'cloakwork profile' wrote.",
)
@column_option
@ledger_option
@click.option(
    "--no-preview",
    is_flag=True,
    help="Do not read LOG at all: leave out what the plan would change in it.",
)
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
@json_option
def plan(
    policy: str,
    log: Path,
    out: Path | None,
    profile: Path | None,
    columns: tuple[str, ...],
    ledger: str | None,
    no_preview: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Say what would be done with LOG under POLICY, what that gives, and what it costs.

    The plan itself follows from the policy alone. Where k-anonymity is asked for, its steps are
    also tried out on LOG, to tell how much they would change: these figures come from the raw log,
    are never part of the plan, and are not to be published. What differential privacy protects is
    never read here.
    """
    from cloakwork import api
    from cloakwork.plan.planner import make_plan
    from cloakwork.policy.library import resolve_policy
    from cloakwork.policy.load import load_policy

    path = resolve_policy(policy)
    made = make_plan(load_policy(path), profile=None if profile is None else read_profile(profile))
    require_log(log)
    outlook = api.budget(made, ledger=open_ledger(ledger, tell_missing=not quiet))
    heard = silent if quiet else progress
    foreseen = (
        ()
        if no_preview
        else api.preview(made, log, reporter=heard, columns=column_mapping(columns) or None)
    )
    document = made.model_dump(mode="json", by_alias=True)
    if out is not None:
        _write(out, document | {"made_from": os.path.relpath(path, out.parent)})
    if as_json:
        internal = (
            {"internal": {step.mechanism: dict(step.figures) for step in foreseen}}
            if foreseen
            else {}
        )
        budget = {"ledger": _outlook_json(outlook)}
        click.echo(json.dumps(document | budget | internal, indent=2, ensure_ascii=False))
    else:
        show(made, foreseen, outlook)
        if out is not None:
            click.echo(f"\nPlan written to {out}")


def _write(out: Path, document: dict[str, Any]) -> None:
    try:
        if (out.parent / "statement.json").exists():
            raise OutputError(
                f"{out}: lies in a release, whose files are signed; name another place"
            )
        out.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
    except OSError as error:
        raise OutputError(f"{out}: cannot be written: {error.strerror}") from error


def show(
    made: Plan, foreseen: "Sequence[StepRecord]" = (), outlook: "BudgetForecast | None" = None
) -> None:
    """Print a plan for people: what is unproven or unprotected, then guarantees, steps, cost, and
    what was refused.

    ``foreseen``: figures of the raw log, printed last and marked so. ``outlook``: what the ledger
    says of the budget.
    """
    from rich.console import Console
    from rich.tree import Tree

    console = Console(highlight=False, width=None if sys.stdout.isatty() else UNCUT)
    meta = made.policy.metadata
    console.print(
        f"[bold]{meta.name} {meta.version}[/]  dataset {meta.dataset}, unit of privacy: {made.facts.unit}"
    )
    tree = Tree("Plan", guide_style="dim")
    for heading, lines in [*_sections(made, outlook), *_foreseen(foreseen)]:
        branch = tree.add(heading)
        for line, *below in lines:
            twig = branch.add(line)
            for detail in below:
                twig.add(detail)
    console.print(tree)


Lines = list[list[str]]

UNCUT = 1000
"""Columns where nobody looks at a terminal: a sentence stays on its line."""


def _sections(made: Plan, outlook: "BudgetForecast | None" = None) -> Iterator[tuple[str, Lines]]:
    """Headings, each with its lines; the first entry of a line is the line, the others stand below
    it.
    """
    if made.unproven:
        yield (
            "[bold red]UNPROVEN[/] (asked for, accepted by the policy, and not guaranteed)",
            [_unproven(item) for item in made.unproven],
        )
    exposed = [[f"{escape(item.column)}: {escape(item.reason)}"] for item in made.exposed]
    yield "[bold]Exposed[/] (released without protection)", exposed or [["nothing"]]
    yield "[bold]Guarantees[/]", [_claim(claim) for claim in made.claims] or [["none"]]
    yield "[bold]Steps[/]", [_step(step) for step in made.steps]
    yield (
        "[bold]Attributes[/]",
        [
            [
                f"{escape(item.attribute)}: {item.treatment} ({treatment_in_words(item.why, item.mechanism)})"
            ]
            for item in made.attributes
        ],
    )
    charged = [[_charge(charge)] for charge in made.charges] or [[_UNBOUNDED]]
    yield (
        "[bold]Budget[/]",
        charged + ([[line] for line in _outlook(outlook, made)] if outlook else []),
    )
    if made.profile is not None:
        known = made.profile.params
        paid = f"release {made.profile.release} of the ledger; epsilon {known.epsilon:g}, delta {known.delta:g}"
        taken = ", ".join(made.facts.measured) or "none: the policy declares all of it"
        yield (
            "[bold]DP profile[/]",
            [[f"paid for by {paid}"], [f"facts that come from it: {escape(taken)}"]],
        )
    if made.considered:
        said: dict[tuple[str, str], list[str]] = {}
        for item in made.considered:
            said.setdefault((item.goal, item.reason), []).append(item.mechanism)
        others = [
            f"{', '.join(names)} for {goal}: {reason}" for (goal, reason), names in said.items()
        ]
        yield "[bold]Considered and not chosen[/]", [[escape(line)] for line in others]
    if made.warnings:
        yield (
            "[bold yellow]Warnings[/]",
            [[escape(caveat_in_words(caveat))] for caveat in made.warnings],
        )


def _outlook(outlook: "BudgetForecast", made: Plan) -> Iterator[str]:
    """Before, this release and after, a line a book; and what no budget bounds."""
    for before, cost, after in zip(outlook.before, outlook.cost, outlook.after, strict=True):
        book = book_in_words(before)
        if before.left is None or after.left is None:
            yield escape(
                f"{book}: {_cost(before.spent)} spent, this release {_cost(cost)}; no total is declared"
            )
        else:
            yield escape(
                f"{book}: {_cost(before.left)} left, this release {_cost(cost)}, then {_cost(after.left)} left"
            )
        if after.unconverted:
            missing = ", ".join(after.unconverted)
            yield escape(f"{book}: lacks what was charged per {missing}, which cannot be converted")
        if after.apart_from:
            yield escape(f"{book}: {kept_apart(after)}")
    if outlook.without_dp:
        one = outlook.without_dp == 1
        many = f"{outlook.without_dp} earlier release{'' if one else 's'}"
        beside = "; this one can be held against them" if not made.bounded else ""
        carry = "carries" if one else "carry"
        yield f"{many} of this dataset {carry} no DP guarantee (k-anonymity and its kin): no budget bounds it{beside}"


def _outlook_json(outlook: "BudgetForecast") -> dict[str, Any]:
    books = zip(outlook.before, outlook.cost, outlook.after, strict=True)
    return {
        "books": [
            {
                "book": before.book.name,
                "currency": before.currency,
                "shift": format_duration(before.shift) if before.shift else None,
                "before": cost_json(before.left),
                "this": cost_json(cost),
                "after": cost_json(after.left),
                "spent": cost_json(before.spent),
                "total": cost_json(before.total),
                "apart_from": list(after.apart_from),
            }
            for before, cost, after in books
        ],
        "earlier_releases": outlook.earlier,
        "earlier_without_dp": outlook.without_dp,
    }


_UNBOUNDED = "no differential privacy is claimed: recorded in the ledger as a release without bound"


def _foreseen(steps: "Sequence[StepRecord]") -> Iterator[tuple[str, Lines]]:
    from cloakwork.report.html import figure

    if steps:
        lines = [
            [
                f"[cyan]{step.mechanism}[/]",
                *(escape(f"{name}: {figure(value)}") for name, value in step.figures.items()),
            ]
            for step in steps
        ]
        yield (
            "[bold]What it would change[/] (figures of the raw log: [bold]internal, never publish[/])",
            lines,
        )


def _unproven(item: UnprovenClaim) -> list[str]:
    return [
        f"[red]{escape(unproven_sentence(item))}[/]",
        f"published: {escape(item.published)}",
        unproven_cost(item),
        *(f"because {escape(line)}" for line in item.why),
    ]


def _claim(claim: Claim) -> list[str]:
    lines = [f"[green]{claim.guarantee.kind}[/]: {escape(claim.sentence)}"]
    lines += [f"because {escape(line)}" for line in reasons_in_words(claim)]
    lines += [f"assuming {escape(line)}" for line in assumptions_in_words(claim)]
    if claim.cost is not None and claim.naive is not None:
        lines.append(f"accountant: {_cost(claim.cost)}; plain sum: {_cost(claim.naive)}")
    return lines


def _step(step: Step) -> list[str]:
    settings = [
        f"{name} {_short(value)}"
        for name, value in step.params.items()
        if value not in (None, [], {})
    ]
    below = ["with " + ", ".join(settings)] if settings else []
    below += [f"predicted: {step.predicted}"] if step.predicted else []
    return [f"[cyan]{step.mechanism}[/]: {step.why}", *map(escape, below)]


def _charge(charge: Charge) -> str:
    per = f" per shift of {format_duration(charge.shift)}" if charge.shift else ""
    unit = f", per {escape(charge.unit)}" if charge.currency == "unit" and charge.unit else ""
    return f"{charge.currency}{unit}: {_cost(charge.cost)}{per}"


def _cost(cost: Cost) -> str:
    epsilon = "no bound" if math.isinf(cost.epsilon) else f"epsilon {cost.epsilon:.6g}"
    return f"{epsilon}, delta {cost.delta:.3g}"


def _short(value: Any) -> str:
    """A setting on one line, without what is not set, cut at 80 characters."""
    if isinstance(value, list):
        value = [_without_nothing(item) for item in value]
    text = f"{value:g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."


def _without_nothing(value: Any) -> Any:
    return (
        {key: item for key, item in value.items() if item is not None}
        if isinstance(value, dict)
        else value
    )

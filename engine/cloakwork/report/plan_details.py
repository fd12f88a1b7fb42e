"""What ``plan --why`` and ``plan --all`` add to the first screen: a tree of reasons."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
from rich.markup import escape

from cloakwork.plan.model import Claim, Plan, Step, UnprovenClaim
from cloakwork.plan.sentences import (
    assumptions_in_words,
    enforced_sentence,
    reasons_in_words,
    treatment_in_words,
    unproven_cost,
    unproven_sentence,
)
from cloakwork.policy.waivers import waiver_lines
from cloakwork.report.ledger_text import charge_text
from cloakwork.report.screen import columns
from cloakwork.report.texts import INTERNAL, cost_text, unbounded_line, warning_lines

if TYPE_CHECKING:
    from cloakwork.run.release import StepRecord

Branch = tuple[str, list[list[str]]]
"""A heading and its lines; the first entry of a line is the line, the others stand below it."""

LONGEST_SETTING: Final = 80


def print_details(
    plan: Plan,
    previewed: "Sequence[StepRecord]",
    *,
    show_all: bool,
    earlier_without_bound: int | None = None,
) -> None:
    """Print why the plan is as it is; with ``show_all`` parameters and alternatives, too.

    ``earlier_without_bound``: as for ``warning_lines``.
    """
    from rich.tree import Tree

    from cloakwork.cli.console import console

    tree = Tree("Details", guide_style="dim")
    warnings = warning_lines(plan, earlier_without_bound)
    for heading, lines in branches(plan, previewed, warnings, show_all=show_all):
        branch = tree.add(f"[bold]{heading}[/]")
        for line, *below in lines:
            twig = branch.add(escape(line))
            for detail in below:
                twig.add(escape(detail))
    screen = console(width=columns())
    with screen.capture() as printed:
        screen.print(tree)
    # rich leaves a blank where it wraps a line.
    for line in printed.get().splitlines():
        click.echo(line.rstrip())


def branches(
    plan: Plan, previewed: "Sequence[StepRecord]", warnings: Sequence[str], *, show_all: bool
) -> Iterator[Branch]:
    """The reasons as headings with lines; arguments as for ``print_details``, but ``warnings``,
    which are lines.
    """
    if plan.unproven:
        yield "Unproven", [_unproven(item) for item in plan.unproven]
    yield "Guarantees", [_claim(claim) for claim in plan.claims] or [["none"]]
    exposed = [[f"{item.column}: {item.reason}"] for item in plan.exposed]
    yield "Released without protection", exposed or [["nothing"]]
    yield "Steps", [_step(step, show_all=show_all) for step in plan.steps]
    yield "Attributes", [[_attribute_line(item)] for item in plan.attributes]
    unbounded = unbounded_line(plan)
    charged = [charge_text(charge) for charge in plan.charges]
    yield "Charged", [[line] for line in (*charged, unbounded) if line is not None]
    if plan.profile is not None:
        params = plan.profile.params
        yield "DP profile", [[f"epsilon {params.epsilon:g}, delta {params.delta:g}"]]
    if waived := waiver_lines(plan.policy.spec.waivers):
        yield "Waived advice", [[line] for line in waived]
    if warnings:
        yield "Warnings", [[warning] for warning in warnings]
    if show_all:
        yield from _everything(plan, previewed)


def _everything(plan: Plan, previewed: "Sequence[StepRecord]") -> Iterator[Branch]:
    from cloakwork.report.html import figure

    if plan.considered:
        names: dict[tuple[str, str], list[str]] = {}
        for item in plan.considered:
            names.setdefault((item.goal, item.reason), []).append(item.mechanism)
        lines = [[f"{', '.join(of)} for {goal}: {why}"] for (goal, why), of in names.items()]
        yield "Considered and not chosen", lines
    if previewed:
        yield (
            f"Would change ({INTERNAL})",
            [
                [
                    record.mechanism,
                    *(f"{name}: {figure(value)}" for name, value in record.figures.items()),
                ]
                for record in previewed
            ],
        )


def _unproven(item: UnprovenClaim) -> list[str]:
    return [
        unproven_sentence(item),
        f"published: {item.published}",
        unproven_cost(item),
        *(f"because {line}" for line in item.why),
    ]


def _claim(claim: Claim) -> list[str]:
    lines = [f"{claim.guarantee.kind}: {claim.sentence}"]
    lines += [f"because {line}" for line in reasons_in_words(claim)]
    lines += [f"assuming {line}" for line in assumptions_in_words(claim)]
    if claim.cost is not None and claim.naive is not None:
        accounted, summed = cost_text(claim.cost, digits=6), cost_text(claim.naive, digits=6)
        lines.append(f"accountant: {accounted}; plain sum: {summed}")
    return lines


def _attribute_line(item: Any) -> str:
    why = treatment_in_words(item.why, item.mechanism)
    return f"{item.attribute}: {item.treatment} ({why})"


def _step(step: Step, *, show_all: bool) -> list[str]:
    lines = [f"{step.mechanism}: {step.why}"]
    if step.proof == "kernel":
        lines.append(enforced_sentence())
    if step.predicted:
        lines.append(f"predicted: {step.predicted}")
    settings = [
        f"{name} {_setting(value)}"
        for name, value in step.params.items()
        if value not in (None, [], {})
    ]
    if show_all and settings:
        lines.append("with " + ", ".join(settings))
    return lines


def _setting(value: Any) -> str:
    """A setting on one line, without what is not set, cut where it is long."""
    if isinstance(value, list):
        value = [_without_nothing(item) for item in value]
    text = f"{value:g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
    if len(text) <= LONGEST_SETTING:
        return text
    return text[: LONGEST_SETTING - 3] + "..."


def _without_nothing(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: item for key, item in value.items() if item is not None}

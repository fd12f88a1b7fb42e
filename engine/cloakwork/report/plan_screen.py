"""What ``plan`` says: the first screen (what happens, what it protects, what it does not, what it
costs), and the tree of reasons that ``--why`` and ``--all`` add.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue
from rich.markup import escape

from cloakwork.base.costs import Cost, cost_text
from cloakwork.base.quantities import hours, rounded
from cloakwork.base.text import counted, listed
from cloakwork.evaluation.risk_figures import Attack, Share
from cloakwork.guarantees import LocalDP, MetricPrivacy
from cloakwork.plan.model import Claim, Plan, Step
from cloakwork.plan.sentences import (
    assumptions_in_words,
    enforced_sentence,
    prediction_of,
    reasons_in_words,
    treatment_in_words,
    unproven_cost,
    unproven_sentence,
)
from cloakwork.policy.advice import waiver_lines
from cloakwork.policy.lint import little_left, noise_of_a_wait
from cloakwork.report.ledger_text import (
    budget_name,
    charge_text,
    declaration_line,
    kept_apart,
    lowered_lines,
)
from cloakwork.report.screen import LABEL, ScreenSection, columns, console, fitted
from cloakwork.report.texts import (
    FOUND,
    INTERNAL,
    NOTHING_EXPOSED,
    and_employees,
    exposure_line,
    findable_lines,
    guarantee_line,
    open_window_line,
    released_line,
    step_line,
    unbounded_line,
    unit_text,
    warning_lines,
)
from cloakwork.run.requirements import training_line
from cloakwork.run.run import previewable

if TYPE_CHECKING:
    from cloakwork.ledger.account import Balance
    from cloakwork.ledger.ledger import BudgetForecast
    from cloakwork.run.run import StepRecord


MOST_LINES: Final = 25
MOST_REASONS: Final = 4
"""Columns that are released without protection whose reasons are shown beside them."""
MOST_GUARANTEES: Final = 8
"""Guarantees that are each named on the screen."""

LITTLE_SIMILARITY: Final = 0.5
"""A predicted similarity to the log below which little is left of it."""

WHY = "--why"
ALL = "--all"

_NOBODY: Final = "nobody: nothing is guaranteed"


def first_screen(
    plan: Plan,
    log_name: str,
    previewed: "Sequence[StepRecord]",
    outlook: "BudgetForecast | None",
    width: int,
    command: str,
) -> tuple[ScreenSection, ...]:
    """The sections of the screen, at most ``MOST_LINES`` lines of ``width`` columns.

    ``previewed``: figures of the raw log, shown as internal. ``command``: what to type next. What
    is unproven stands first, and is never left out.
    """
    # A command that fits on a line can be copied; else what it consists of is told.
    if len(command) > width - LABEL:
        command = "cloakwork apply: the same policy, log and options, and --out DIR"
    more = f"{WHY}: reasons    {ALL}: alternatives, parameters as well"
    following = ScreenSection("Next", (command, more))
    sections = (*plan_sections(plan, log_name, previewed, outlook), following)
    return fitted(sections, MOST_LINES, width)


def plan_sections(
    plan: Plan, log_name: str, previewed: "Sequence[StepRecord]", outlook: "BudgetForecast | None"
) -> tuple[ScreenSection, ...]:
    """What the screen says of a plan, whole; arguments as for ``first_screen``."""
    meta = plan.policy.metadata
    window = plan.facts.release_window
    of_window = "" if window is None else f", window {window}"
    head = f"{log_name} under {meta.name} {meta.version}, dataset {meta.dataset}{of_window}"
    protected = _NOBODY
    if plan.claims:
        unit = plan.facts.protected
        goals = [claim.guarantee for claim in plan.claims]
        protected = f"each {unit_text(unit)}{and_employees(unit, goals)}"
    training = training_line(plan)
    profile: tuple[str, ...] = ()
    if plan.profile is not None:
        known = ", ".join(plan.facts.measured) or "none: the policy declares all of it"
        profile = (
            f"release {plan.profile.release} of the ledger; facts that come from it: {known}",
        )
    tried = [record for record in previewed if record.figures and record.mechanism != FOUND]
    changes = [change_line(record.figures) for record in tried]
    # The beginning of the first entry is never hidden: the mark stands wherever figures do.
    changes[:1] = [f"{INTERNAL}: {line}" for line in changes[:1]]
    if not changes and not previewable(plan):
        changes = ["not known: the log is not read while planning"]
    warnings = [
        *little_is_left(plan),
        *warning_lines(plan, None if outlook is None else outlook.without_dp),
        *lost_waits(plan),
    ]
    if still_open := open_window_line(plan):
        warnings.append(still_open)
    return (
        unproven_section(plan),
        ScreenSection("Plan", (head,), most_lines=2, legible_lines=2),
        ScreenSection("Protected", (protected,), most_lines=2),
        ScreenSection("Released", (released_line(plan),), most_lines=3, legible_lines=2),
        _guarantees(plan),
        _not_protected(plan),
        ScreenSection("Steps", (", ".join(map(step_line, plan.steps)),), most_lines=4),
        # How long the steps train that do.
        ScreenSection("Takes", () if training is None else (training,), most_lines=2),
        ScreenSection("Would change", tuple(changes), ALL, most_lines=3, legible_lines=2),
        ScreenSection("Found", tuple(_found(plan, previewed)), most_lines=3, legible_lines=2),
        ScreenSection("Profile", profile, most_lines=2),
        *_budget(plan, outlook),
        ScreenSection("Warnings", tuple(warnings), WHY, most_lines=3, legible_lines=2),
    )


def _found(plan: Plan, previewed: "Sequence[StepRecord]") -> Iterator[str]:
    """Who is found in the release, where that was measured; else where it is told."""
    figures = next((each.figures for each in previewed if each.mechanism == FOUND), None)
    if figures is None:
        unread = "this" if previewable(plan) else "the log"
        yield (
            f"not measured: a plan does not read {unread}; the internal report that 'apply' writes "
            "tells how many cases are found"
        )
        return
    attacks = [
        Attack(name=name, knows="this", before=None, after=Share.model_validate(share))
        for name, share in figures.items()
    ]
    lines = list(findable_lines(attacks, plan.policy.spec.assume.risk_threshold))
    lines[:1] = [f"{INTERNAL}: {line}" for line in lines[:1]]
    yield from lines


def unproven_section(plan: Plan, *, why: bool = False) -> ScreenSection:
    """What is unproven, a line each; ``why``: with the reasons. Nothing where all is proved."""
    lines = []
    for each in plan.unproven:
        reasons = f": {'; '.join(each.why)}" if why else ""
        lines.append(f"{unproven_sentence(each)} {unproven_cost(each)}{reasons}")
    return ScreenSection("UNPROVEN", tuple(lines))


def _guarantees(plan: Plan) -> ScreenSection:
    """A line each; of so many that no screen holds them, the first ones."""
    alike = _values_alike(plan.claims)
    lines = tuple(guarantee_line(claim, plan.facts.protected) for claim in alike) or ("none",)
    if len(lines) > MOST_GUARANTEES:
        return ScreenSection("Guarantees", lines, WHY)
    # What a guarantee takes as known ends its line: nothing else gives way later.
    return ScreenSection("Guarantees", lines, most_lines=4, legible_lines=4)


def _values_alike(claims: Sequence[Claim]) -> Iterator[Claim]:
    """The claims; those of local noise on single values that differ in attribute alone as one."""
    groups: dict[object, list[Claim]] = {}
    for place, claim in enumerate(claims):
        goal = claim.guarantee
        is_local = isinstance(goal, LocalDP) and goal.per == "value"
        # Of local noise all but the attribute is the key; any other claim has its own.
        key = (goal.model_copy(update={"over": ()}), claim.given) if is_local else place
        groups.setdefault(key, []).append(claim)
    for alike in groups.values():
        first = alike[0]
        if len(alike) > 1:
            over = tuple(name for claim in alike for name in claim.guarantee.over)
            goal = first.guarantee.model_copy(update={"over": over})
            first = first.model_copy(update={"guarantee": goal})
        yield first


def _not_protected(plan: Plan) -> ScreenSection:
    """Every column released without protection: of a few, with the reason; of many all names."""
    lines = tuple(map(exposure_line, plan.exposed)) or (NOTHING_EXPOSED,)
    if len(lines) == 1:
        return ScreenSection("Not protected", lines, WHY, most_lines=3, legible_lines=2)
    if len(lines) <= MOST_REASONS:
        return ScreenSection("Not protected", lines, most_lines=1)
    names = ", ".join(item.column for item in plan.exposed)
    return ScreenSection("Not protected", (f"{names} ({WHY}: reasons)",))


def change_line(figures: Mapping[str, JsonValue]) -> str:
    """What a step changed, in one line; the figures themselves for mechanisms not known here."""
    # The names of the figures tell which kind of step it was.
    match figures:
        case {
            "distance": int(edits),
            "cases": int(cases),
            "cases_moved": int(moved),
            "variants_before": int(before),
            "variants_after": int(after),
        }:
            becomes = "becomes" if before == 1 else "become"
            gap = figures.get("gap")
            least = ""
            if isinstance(gap, int | float):
                within = f", within {gap:.1%} of the least possible"
                least = ", the least possible" if gap == 0 else within
            out = figures.get("cases_left_out")
            lost = f", and {counted(out, 'case')} left out" if isinstance(out, int) and out else ""
            return (
                f"{moved:,} of {counted(cases, 'case')}, {counted(edits, 'event')}{least}{lost}; "
                f"{counted(before, 'variant')} {becomes} {after:,}"
            )
        case {"events": int(events), "events_kept": int(kept), "cases": int(cases)}:
            cases_kept = figures.get("cases_kept", cases)
            return (
                f"{kept:,} of {counted(events, 'event')} and {cases_kept:,} of "
                f"{counted(cases, 'case')} stay"
            )
        case _:
            # In which share of the cases each attribute is how coarse, where the figures say so.
            shares: dict[str, list[str]] = {}
            for name, value in figures.items():
                for level in _LEVELS:
                    if name.endswith(f" {level}") and isinstance(value, float) and value > 0:
                        attribute = name.removesuffix(f" {level}")
                        shown = f"{rounded(100 * value)}% {level}"
                        shares.setdefault(attribute, []).append(shown)
            if shares:
                return "; ".join(f"{name}: {', '.join(found)}" for name, found in shares.items())
            numbers = {
                name.replace("_", " "): f"{value:,}" if isinstance(value, int) else rounded(value)
                for name, value in figures.items()
                if isinstance(value, int | float) and not isinstance(value, bool)
            }
            return ", ".join([f"{name} {text}" for name, text in numbers.items()][:6])


_LEVELS: Final = ("as it is", "coarser", "left out")
"""What kanon/generalise does to the values of an attribute, as its figures name it."""


def _budget(plan: Plan, outlook: "BudgetForecast | None") -> Iterator[ScreenSection]:
    """Before, this release and after, a line a budget that pays; and what no budget bounds."""
    own = {charge.currency for charge in plan.charges}
    balances = []
    if outlook is not None:
        for before, cost, after in zip(outlook.before, outlook.cost, outlook.after, strict=True):
            if cost.epsilon > 0 or cost.delta > 0:
                # No guarantee of the plan is about a budget that pays all the same.
                other = "" if before.currency in own else "the same noise counts as "
                balances.append(other + balance_line(before, cost, after))
    unbounded = unbounded_line(plan)
    # Of a price the end says most, so that it is cut last; the rest can be read elsewhere.
    yield ScreenSection("Budget", tuple(balances), most_lines=3, legible_lines=3)
    if unbounded is not None:
        yield ScreenSection("" if balances else "Budget", (unbounded,), most_lines=3)
    if outlook is None:
        return
    lowered = tuple(lowered_lines(outlook))
    yield ScreenSection("Lowers", lowered, most_lines=3, legible_lines=3)
    declared = declaration_line(outlook.declaration)
    if declared is not None:
        yield ScreenSection("Dataset", (declared,), most_lines=2)


def balance_line(before: "Balance", cost: Cost, after: "Balance") -> str:
    """One budget before, in and after a release."""
    line = f"{budget_name(before)}: "
    has_delta = before.currency == "unit" or cost.delta > 0 or before.spent.delta > 0
    if before.left is None or after.left is None:
        spent = _amount(before.spent)
        line += f"epsilon {spent} spent, this release {_amount(cost)}; no total is declared"
    else:
        left, rest = (_amount(each, has_delta=has_delta) for each in (before.left, after.left))
        line += f"epsilon {left} left, this release {_amount(cost)}, then {rest} left"
    if after.unconverted:
        line += f"; lacks what was charged per {listed(after.unconverted)}: no conversion is known"
    if after.apart_from:
        line += f"; {kept_apart(after)}"
    return line


def _amount(cost: Cost, *, has_delta: bool = True) -> str:
    """Epsilon as a number, with delta where there is one, and the currency has it."""
    epsilon = "without bound" if math.isinf(cost.epsilon) else f"{cost.epsilon:.6g}"
    return epsilon + (f" (delta {cost.delta:.3g})" if cost.delta and has_delta else "")


def lost_waits(plan: Plan) -> Iterator[str]:
    """Which waits noise hides: told without the log."""
    for goal in plan.policy.spec.guarantees:
        if isinstance(goal, MetricPrivacy):
            # How many of the log's waits are shorter, only the log tells.
            lost = hours(noise_of_a_wait(goal) / timedelta(hours=1))
            yield f"waits under {lost} are mostly noise ('policy lint' tells more)"


def little_is_left(plan: Plan) -> Iterator[str]:
    """Why little may be left, told from declared facts and from simulations, never from the log."""
    yield from (advice.message for advice in little_left(plan.policy))
    for step in plan.steps:
        predicted = prediction_of(step, plan.facts)
        if predicted is not None and predicted.expected < LITTLE_SIMILARITY:
            yield f"little may be left: {step.mechanism} is predicted to be {predicted}"


Branch = tuple[str, list[list[str]]]
"""A heading and its lines; the first entry of a line is the line, the others stand below it."""

LONGEST_SETTING: Final = 80


def detail_lines(
    plan: Plan,
    previewed: "Sequence[StepRecord]",
    earlier_without_bound: int | None,
    *,
    show_all: bool,
) -> Iterator[str]:
    """Why the plan is as it is, as a tree; with ``show_all`` parameters and alternatives, too.

    ``earlier_without_bound``: as for ``warning_lines``.
    """
    from rich.tree import Tree

    tree = Tree("Details", guide_style="dim")
    privacy = warning_lines(plan, earlier_without_bound)
    warnings = [*little_is_left(plan), *privacy, *lost_waits(plan)]
    for heading, lines in branches(plan, previewed, warnings, show_all=show_all):
        # Headings are ours and may hold markup; lines hold names of the log, and are escaped.
        branch = tree.add(f"[bold]{heading}[/]")
        for line, *below in lines:
            twig = branch.add(escape(line))
            for detail in below:
                twig.add(escape(detail))
    screen = console(width=columns())
    with screen.capture() as printed:
        screen.print(tree)
    # rich leaves a blank where it wraps a line.
    yield from (line.rstrip() for line in printed.get().splitlines())


def branches(
    plan: Plan, previewed: "Sequence[StepRecord]", warnings: Sequence[str], *, show_all: bool
) -> Iterator[Branch]:
    """The reasons as headings with lines; arguments as for ``detail_lines``, but ``warnings``,
    which are lines.
    """
    if plan.unproven:
        yield (
            "Unproven",
            [
                [
                    unproven_sentence(item),
                    f"published: {item.published}",
                    unproven_cost(item),
                    *(f"because {line}" for line in item.why),
                ]
                for item in plan.unproven
            ],
        )
    guarantees = []
    for claim in plan.claims:
        lines = [f"{claim.guarantee.kind}: {claim.sentence}"]
        lines += [f"because {line}" for line in reasons_in_words(claim)]
        lines += [f"assuming {line}" for line in assumptions_in_words(claim)]
        if claim.cost is not None and claim.naive is not None:
            accounted = cost_text(claim.cost, digits=6)
            summed = cost_text(claim.naive, digits=6)
            lines.append(f"accountant: {accounted}; plain sum: {summed}")
        guarantees.append(lines)
    yield "Guarantees", guarantees or [["none"]]
    exposed = [[f"{item.column}: {item.reason}"] for item in plan.exposed]
    yield "Released without protection", exposed or [["nothing"]]
    yield "Steps", [_step_branch(step, plan, show_all=show_all) for step in plan.steps]
    yield (
        "Attributes",
        [
            [f"{item.attribute}: {item.treatment} ({treatment_in_words(item.why, item.mechanism)})"]
            for item in plan.attributes
        ],
    )
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
        # Mechanisms that were passed over for one reason share a line.
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


def _step_branch(
    step: Step,
    plan: Plan,
    *,
    show_all: bool,
) -> list[str]:
    lines = [f"{step.mechanism}: {step.why}"]
    # Where another one yields to it, by what is declared, such as how many cases there are.
    chosen = f"{step.mechanism} comes first, for "
    lines += [
        f"in place of {item.mechanism}: {item.reason.removeprefix(chosen)}"
        for item in plan.considered
        if item.reason.startswith(chosen)
    ]
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
        value = [
            {key: held for key, held in item.items() if held is not None}
            if isinstance(item, dict)
            else item
            for item in value
        ]
    text = f"{value:g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
    if len(text) <= LONGEST_SETTING:
        return text
    return text[: LONGEST_SETTING - 3] + "..."

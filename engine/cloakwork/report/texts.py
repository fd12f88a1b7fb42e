"""The words of the screens: what a guarantee, a step or a treatment is in one plain line.

The full sentences that a statement signs are those of the guarantees and of ``plan.sentences``;
these lines are shorter, claim no more, and are printed on screens only.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from cloakwork.base.facts import Unit
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.text import counted, listed
from cloakwork.evaluation.risk_figures import (
    Attack,
    MembershipFigures,
    MembershipGroup,
    Share,
    above_threshold,
)
from cloakwork.evaluation.utility import ATTACKED
from cloakwork.guarantees import ConfidenceBound, Guarantee
from cloakwork.plan.model import Claim, Plan, PlannedExposure, Step, TreatedAttribute
from cloakwork.plan.sentences import action_of, caveat_in_words, column_in_words
from cloakwork.policy.semantics import PURPOSE_ASKED, is_unstated

if TYPE_CHECKING:
    from cloakwork.publishing.statement import ExposedColumn, StatedGuarantee

FOUND: Final = "who is found"
"""What a record of a preview is called that tells who is found."""

INTERNAL: Final = "raw log: internal, never publish"
NOTHING_EXPOSED: Final = "nothing: a guarantee covers all of it"
NOTHING_CHARGED: Final = (
    "nothing is charged: no DP guarantee covers this release, "
    "so no budget bounds what it discloses; the ledger lists it as such"
)
PARTLY_CHARGED: Final = (
    "the charge covers the columns of its guarantee alone; "
    "no budget bounds what the rest of the release discloses"
)
UNPROVEN_CHARGED: Final = (
    "nothing is proved, so no budget bounds what this release discloses; "
    "the ledger lists it as such"
)

_WEIGHTIEST: Final = (
    "runs-unproven",
    "single-times-only",
    "may-tell-times",
    "homogeneity",
    "counts-cases",
    "flattened-objects",
    "intersection",
    "frequencies-kept",
    "holds-window",
)
"""Kinds of warnings in the order in which they are to be read; others follow."""


def unit_text(unit: Unit) -> str:
    """Whom the guarantees protect: ``case``, or all cases of one person and the like."""
    if unit.attribute is None:
        return "case"
    if unit.level == "event":
        return f"'{unit.attribute}', with all events of one"
    return f"'{unit.attribute}' (at most {counted(unit.max_cases, 'case')} kept of each)"


def and_employees(unit: Unit, guarantees: Iterable[Guarantee]) -> str:
    """Whom guarantees protect beside ``unit``, as the end of a list; empty where nobody."""
    names = dict.fromkeys(goal.employees for goal in guarantees)
    others = (name for name in names if name not in (None, unit.attribute))
    return "".join(f", and each '{name}' of events" for name in others)


def guarantee_line(claim: "Claim | StatedGuarantee", unit: Unit) -> str:
    """A claim in one plain line, its kind first."""
    who = "case" if unit.attribute is None else f"'{unit.attribute}'"
    known = ", given everything else that is released" if claim.given is not None else ""
    return f"{claim.guarantee.kind}: {claim.guarantee.in_short(who)}{known}"


def step_line(step: Step) -> str:
    """A step in a few words, with its name."""
    words = action_of(step)
    return f"{words} ({step.mechanism})" if words else step.mechanism


MOST_RELEASED: Final = 10
"""Columns that are named where a guarantee covers all of them; of the others, the number."""


def released_line(plan: Plan) -> str:
    """What the released log holds, in one line."""
    # The rule * is for what is not named: it is said at the end.
    said = [_released_column(plan, item) for item in plan.attributes if item.attribute != "*"]
    said = [each for each in said if each]
    # What is released without protection is always named.
    if not plan.exposed and len(said) > MOST_RELEASED:
        more = len(said) - MOST_RELEASED
        said = [*said[:MOST_RELEASED], f"{more:,} attributes more"]
    rest = plan.treated("*")
    kept = rest is not None and rest.treatment != "drop"
    others = "every other attribute as well" if kept else "every other attribute is dropped"
    return "; ".join([listed(said), others])


def _released_column(plan: Plan, item: TreatedAttribute) -> str:
    """One attribute as it is released; empty where it is not, or always is anew."""
    if item.treatment in ("drop", "replace"):
        return ""
    if item.column == CONTROL_FLOW:
        return "activities in order"
    if item.column == TIMESTAMPS:
        writers = [step for step in plan.steps if TIMESTAMPS in step.lineage.writes]
        if any(step.lineage.enriches for step in writers):
            return "times drawn anew"
        noised = any(step.mechanism.startswith("timestamps/") for step in writers)
        return "noised times" if noised else "times"
    how = {"pseudonymise": " (pseudonyms)", "generalise": " (generalised)"}
    return f"{item.attribute}{how.get(item.treatment, '')}"


def exposure_line(item: "PlannedExposure | ExposedColumn", names: Iterable[str] = ()) -> str:
    """A column that is released without protection, and why; ``names``: what it is called."""
    if item.column == METADATA and item.why.kind == "form-of-release":
        return column_in_words(METADATA)
    return f"{', '.join(names) or item.column}: {item.reason}"


def unbounded_line(plan: Plan) -> str | None:
    """What no budget bounds of a release, in one line; None where differential privacy covers all
    of it.
    """
    if plan.bounded:
        return None
    if plan.unproven:
        return UNPROVEN_CHARGED
    return PARTLY_CHARGED if plan.charges else NOTHING_CHARGED


def purpose_lines(purpose: str) -> tuple[str, ...]:
    """The warning about a purpose that is not stated."""
    return (PURPOSE_ASKED,) if is_unstated(purpose) else ()


def purpose_text(purpose: str) -> str:
    """What a release is for, marked where its policy says nothing of it."""
    if not is_unstated(purpose):
        return purpose
    return "NOT STATED (Article 5(1)(b) of the GDPR asks for a specified purpose)"


def warning_lines(plan: Plan, without_bound: int | None, which: str = "earlier") -> tuple[str, ...]:
    """The warnings that are true now, the weightiest first.

    ``without_bound``: how many releases of the dataset, ``which`` ones, no budget bounds; None
    where unknown. Two such releases can be intersected, one alone cannot.
    """
    # Where the number of other releases is known, it takes the place of the plan's warning.
    weighed = [
        (_weight(caveat.kind), caveat_in_words(caveat))
        for caveat in plan.warnings
        if caveat.kind != "intersection" or without_bound is None
    ]
    if without_bound:
        hold, it = ("holds", "it") if without_bound == 1 else ("hold", "them")
        line = (
            f"{counted(without_bound, f'{which} release')} of this dataset {hold} what no DP "
            "guarantee covers"
        )
        if plan.bounded:
            they = "it" if without_bound == 1 else "they"
            line += f": no budget bounds what {they} disclosed"
        else:
            line += f": whoever has {it} and this one can intersect them"
        weighed.insert(0, (_weight("intersection"), line))
    # Sorting is stable: warnings of one weight stay in their order.
    said = [line for _, line in sorted(weighed, key=lambda each: each[0])]
    return (*said, *purpose_lines(plan.policy.metadata.purpose))


def _weight(kind: str) -> int:
    return _WEIGHTIEST.index(kind) if kind in _WEIGHTIEST else len(_WEIGHTIEST)


def main_clause(warning: str) -> str:
    """What a warning says first: what is not protected, without what is to be done."""
    return warning.partition("; ")[0]


def open_window_line(plan: Plan) -> str | None:
    """A warning where the window of the release has not ended yet; None elsewhere."""
    windows = plan.policy.spec.budget.windows
    name = plan.facts.release_window
    if windows is None or name is None:
        return None
    _, after = windows.span(name)
    if datetime.now(UTC) >= after:
        return None
    return (
        f"window {name} ends on {after:%Y-%m-%d} (UTC): cases that start after this release need "
        "another release of it, which is charged again"
    )


_USUAL_LEVEL: Final = 0.01
"""Of the shares of false alarms, the one that is said first."""


def membership_lines(found: MembershipFigures) -> list[str]:
    """One sentence on all targets beside the claim, one on those alone, one where the claim is
    exceeded; this one first.
    """
    lines = []
    if found.claimed is not None and found.exceeded:
        lines.append(
            f"The attack on membership EXCEEDS the claim of epsilon {found.claimed.epsilon:g}: "
            f"epsilon is at least {found.epsilon_at_least:.2f}."
        )
    return lines + [_group_line(found, group) for group in found.groups]


def _group_line(found: MembershipFigures, group: MembershipGroup) -> str:
    words = f"Membership by {found.judged:,} releases of {found.mechanism}, {group.in_words}: "
    area = f"area {group.area.share:.3f} (guessing: .5)"
    if not group.levels:
        return f"{words}{area}, too few to say more."
    # Few targets allow coarse levels only: the one nearest to the usual is said.
    level = min(group.levels, key=lambda each: abs(each.at_most - _USUAL_LEVEL))
    false = level.false_positives
    true = level.true_positives
    recognised = (
        f"{true.share:.1%} of members recognised ({true.low:.1%} to {true.high:.1%}) at "
        f"{false.share:.1%} false alarms"
    )
    if found.claimed is None:
        return f"{words}{recognised}; {area}."
    allowed = found.claimed.limit(false.share)
    bound = f"epsilon {found.claimed.epsilon:g} allows {allowed:.1%}"
    if found.claimed.basis == "published":
        bound = f"the published epsilon {found.claimed.epsilon:g} would allow {allowed:.1%}"
    return f"{words}{recognised}, where {bound}; {area}."


def range_text(share: Share | None) -> str:
    """The bounds in percent; one figure where they are the same.

    >>> range_text(Share(share=0.5, low=0.45, high=0.55)), range_text(None)
    ('45-55 %', '-')
    """
    if share is None:
        return "-"
    low = f"{100 * share.low:.0f}"
    high = f"{100 * share.high:.0f}"
    return f"{low} %" if low == high else f"{low}-{high} %"


def threshold_lines(attacks: Iterable[Attack], threshold: float | None) -> Iterator[str]:
    """Whether attacks find more cases in the release than may be found; nothing without a
    threshold, or a release.
    """
    looked = [each for each in attacks if each.name.startswith("linking/") and each.after]
    if threshold is None or not looked:
        return
    above = above_threshold(looked, threshold)
    most = f"{100 * threshold:g} %"
    if not above:
        line = f"No linking attack finds more than {most} of all cases, the threshold"
        highest = max(each.after.high for each in looked if each.after)
        if highest > threshold:
            line += f", by the best estimate; the bounds reach {100 * highest:.0f} %"
        yield f"{line}."
        return
    worst = above[0]
    yield (
        f"ABOVE {most}, the largest share of cases that may be found (!): who knows {worst.knows} "
        f"finds {range_text(worst.after)} of them."
    )


def findable_lines(attacks: Iterable[Attack], threshold: float | None) -> Iterator[str]:
    """What share of the cases is found in the release, by what is known of them; internal."""
    known = {each.name: range_text(each.after) for each in attacks}
    words_of = {
        "linking/sequence": "by its activities in order",
        "linking/timed-events-3": "by three of its times",
        "linking/sequence-times": "by all of both",
    }
    parts = [f"{words} {known[name]}" for name, words in words_of.items() if name in known]
    if parts:
        said = "chance included; docs: risk"
        yield f"a case is found {', '.join(parts)} (of at most {ATTACKED}, {said})"
    yield from threshold_lines(attacks, threshold)


def still_possible(plan: Plan) -> Iterator[str]:
    """What somebody who knows a few activities, times or values of a case can still do with the
    release; from the plan alone, with no figure of the log.
    """
    if not plan.claims:
        yield "Who knows a few events or values of a case may find it: nothing is guaranteed."
        return
    goals = [claim.guarantee for claim in plan.claims]
    prices = [(goal, price) for goal in goals if (price := goal.price()) is not None]
    units = {column for goal, price in prices if price.currency == "unit" for column in goal.over}
    priced = {column for goal, _ in prices for column in goal.over}
    yield from _by_activities(plan, goals, units)
    if TIMESTAMPS not in plan.released:
        yield (
            "Who knows when something happened to somebody finds nothing by that: no times are "
            "released."
        )
    elif TIMESTAMPS in units:
        yield (
            "Who knows when something happened to somebody learns more by the released times only "
            "as far as epsilon allows: noise hides those of a whole case."
        )
    elif TIMESTAMPS in priced:
        yield (
            "Who knows several times of a case, or when it began, can often still find it: noise "
            "hides each time by itself, not the case."
        )
    else:
        yield "Who knows one or two times of a case can often find it: times are as in the log."
    names = [
        item.column
        for item in plan.exposed
        if item.column not in (CONTROL_FLOW, TIMESTAMPS, METADATA)
    ]
    if names:
        yield f"Who knows {listed(names)} of somebody may find the case by that: it is as it was."


def _by_activities(plan: Plan, goals: Iterable[Guarantee], units: Iterable[str]) -> Iterator[str]:
    # Where several goals count cases, each says something of its own knowledge.
    counted_goals = [
        (goal, group)
        for goal in goals
        if goal.employees is None and (group := goal.least_group()) is not None
    ]
    for goal, group in counted_goals:
        known = "which activities a case has, in their order"
        if isinstance(goal, ConfidenceBound):
            known = f"at most {counted(goal.L, 'event')} of a case"
        elif goal.quasi_identifiers():
            known += f", and its {listed(goal.quasi_identifiers())}"
        yield (
            f"Who knows {known}, finds at least {group.least:,} that fit, or none: by that alone "
            f"the case is picked out once in {group.least:,} guesses at most."
        )
    if counted_goals:
        return
    if CONTROL_FLOW in units:
        yield (
            "Who knows activities of a case can tell whether it is in the log at all only as far "
            "as epsilon allows: see what holds."
        )
    elif CONTROL_FLOW in plan.released:
        yield (
            "Who knows a few activities of a case, and their order, may find it: nothing protects "
            "them, and rare ones stand out."
        )

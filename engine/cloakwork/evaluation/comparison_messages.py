"""What a setting guarantees, bounds and costs, in a few words."""

import math
from collections.abc import Iterator
from typing import Final

from cloakwork.base.costs import guessing_advantage
from cloakwork.base.lineage import METADATA, TIMESTAMPS
from cloakwork.base.quantities import format_duration
from cloakwork.evaluation.comparison_model import (
    AttackBound,
    ComparedSetting,
    Comparison,
    FigureSpread,
)
from cloakwork.guarantees import ConfidenceBound, Guarantee
from cloakwork.plan.model import Plan
from cloakwork.report.texts import cost_text

_THOUSAND: Final = 1000

_KINDS: Final = {
    "k-anonymity": "",
    "differential-privacy": "DP",
    "metric-privacy": "metric",
    "local-dp": "local",
    "t-closeness": "",
    "l-diversity": "",
    "confidence-bound": "",
}


def in_few_words(guarantee: Guarantee) -> str:
    """``k 10``, ``DP epsilon 1, delta 1e-06``, ``t 0.3 of diagnosis``."""
    numbers = []
    for name in guarantee.stricter_if:
        value = getattr(guarantee, name, None)
        if value is None or (name, value) in (("delta", 0.0), ("C", 1.0)):
            continue
        if name == "shift":
            numbers.append(f"shift {format_duration(value)}")
        else:
            numbers.append(f"{name} {value:g}")
    words = f"{_KINDS.get(guarantee.kind, guarantee.kind)} {', '.join(numbers)}".strip()
    attribute = getattr(guarantee, "attribute", None)
    if attribute is not None:
        return f"{words} of {attribute}"
    if guarantee.price() is not None and tuple(guarantee.over) == (TIMESTAMPS,):
        return f"{words} of times"
    return words


def attack_bounds(plan: Plan) -> Iterator[AttackBound]:
    """What the claims of a plan bound of an attack; by derivation, with no figure of any log."""
    for claim in plan.claims:
        goal = claim.guarantee
        group = goal.least_group()
        price = goal.price()
        if group is not None:
            knows = "the activity sequence"
            if isinstance(goal, ConfidenceBound):
                knows = f"{goal.L} events"
            elif goal.quasi_identifiers():
                knows = f"the activity sequence and {', '.join(goal.quasi_identifiers())}"
            attack = f"picking out a case by {knows}"
            yield AttackBound(
                kind="guess", attack=attack, most=1 / group.least, beside=_beside(plan)
            )
        elif price is not None and goal.hides_presence():
            rise = guessing_advantage(price.cost.epsilon, price.cost.delta)
            attack = "telling whether somebody is in the log"
            yield AttackBound(kind="presence", attack=attack, most=rise)


def _beside(plan: Plan) -> tuple[str, ...]:
    """Released columns that tell cases apart though k cases share a sequence: those without any
    protection, and those of which noise hides single values only.
    """
    single = [
        column
        for claim in plan.claims
        if (price := claim.guarantee.price()) is not None and price.currency != "unit"
        for column in claim.guarantee.over
    ]
    exposed = [item.column for item in plan.exposed if item.column != METADATA]
    return tuple(dict.fromkeys([*single, *exposed]))


def costs(plan: Plan) -> Iterator[str]:
    """What a release takes from the dataset's budget, by currency."""
    for charge in plan.charges:
        name = {"unit": "", "metric": "metric ", "local": "local "}.get(charge.currency, "")
        yield f"{name}{cost_text(charge.cost, digits=6)}"


def labels(found: Comparison) -> list[str]:
    """What each row is called: what was swept, after the policy where several are compared; its
    guarantees where nothing was swept.
    """
    several = len({setting.policy for setting in found.settings}) > 1
    return [_label(setting, with_policy=several) for setting in found.settings]


def _label(setting: ComparedSetting, *, with_policy: bool) -> str:
    values = ", ".join(f"{name} {value}" for name, value in setting.values.items())
    if with_policy:
        return f"{setting.policy.partition(' ')[0]} {values}".strip()
    return values or " + ".join(setting.guarantees)


def beside_lines(found: Comparison) -> list[str]:
    """What the star of ``attack_text`` means, a line for each set of columns."""
    bounds = [bound for setting in found.settings for bound in setting.bounds if bound.beside]
    column_lists = dict.fromkeys(", ".join(bound.beside) for bound in bounds)
    return [
        f"* by the activity sequence alone: whoever knows values of {columns} can often tell "
        "which released case it is"
        for columns in column_lists
    ]


def attack_text(bound: AttackBound) -> str:
    """``1 in 10`` for a guess, with a star where other columns tell more; ``+27%`` for a rise, in
    percentage points, rounded up.
    """
    if bound.kind == "guess":
        cases = round(1 / bound.most)
        shown = f"{cases}" if cases < _THOUSAND else f"{cases / _THOUSAND:.3g}k"
        return f"1 in {shown}" + ("*" if bound.beside else "")
    return f"+{math.ceil(100 * bound.most)}%"


def share_text(figure: FigureSpread | None) -> str:
    """The median in per cent."""
    return "-" if figure is None else f"{figure.median:.0%}"

"""What a setting guarantees, bounds and costs, in a few words."""

from collections.abc import Iterator

from cloakwork.budget import guessing_advantage
from cloakwork.comparing.model import AttackBound
from cloakwork.guarantees import ConfidenceBound, Guarantee
from cloakwork.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.plan.model import Plan
from cloakwork.quantities import format_duration
from cloakwork.report.texts import cost_text

_KINDS = {
    "k-anonymity": "",
    "differential-privacy": "DP",
    "metric-privacy": "metric",
    "local-dp": "local",
    "t-closeness": "",
    "l-diversity": "",
    "confidence-bound": "",
}
_USUAL_COLUMNS = (CONTROL_FLOW, TIMESTAMPS)


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
            yield AttackBound(kind="guess", attack=attack, most=1 / group.least)
        elif price is not None and goal.hides_presence():
            rise = guessing_advantage(price.cost.epsilon, price.cost.delta)
            attack = "telling whether somebody is in the log"
            yield AttackBound(kind="presence", attack=attack, most=rise)


def costs(plan: Plan) -> Iterator[str]:
    """What a release takes from the dataset's budget, by currency."""
    for charge in plan.charges:
        name = {"unit": "", "metric": "metric ", "local": "local "}.get(charge.currency, "")
        yield f"{name}{cost_text(charge.cost, digits=6)}"

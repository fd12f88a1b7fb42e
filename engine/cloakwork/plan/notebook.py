"""What notebooks show of a plan."""

from typing import TYPE_CHECKING

from cloakwork.base.lineage import METADATA
from cloakwork.base.notebook_html import listing, paragraph, shown, table
from cloakwork.ledger.notebook import cost_text
from cloakwork.plan.sentences import caveat_in_words, column_in_words, unproven_sentence
from cloakwork.policy.model import describe_version

if TYPE_CHECKING:
    from cloakwork.plan.model import Plan


def plan_html(plan: "Plan") -> str:
    """What happens, what it protects, what it does not, what it costs; what is unproven first."""
    claims = [(claim.guarantee.kind, claim.sentence) for claim in plan.claims]
    costs = [
        f"{charge.currency}: {cost_text(charge.cost)}"
        for charge in plan.charges
        if charge.currency != "none"
    ]
    return shown(
        f"Plan of {describe_version(plan.policy)}, dataset {plan.policy.metadata.dataset}",
        listing("Unproven", map(unproven_sentence, plan.unproven)),
        table(("guarantee", "says"), claims) or paragraph("Nothing is guaranteed."),
        listing("Not protected", exposed_lines(plan)),
        table(("step", "why"), [(step.mechanism, step.why) for step in plan.steps]),
        listing("Cost", costs or ["nothing is charged to a budget"]),
        listing("Warnings", map(caveat_in_words, plan.warnings)),
    )


def exposed_lines(plan: "Plan") -> list[str]:
    """Each column that is released without protection, and why."""
    return [
        column_in_words(METADATA) if item.column == METADATA else f"{item.column}: {item.reason}"
        for item in plan.exposed
    ]

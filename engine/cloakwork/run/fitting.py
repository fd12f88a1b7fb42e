"""Whether a plan can run on an engine that has a batch of a log at a time."""

from typing import Final

from cloakwork.base.errors import Infeasible
from cloakwork.engines.base import Engine
from cloakwork.log.handle import LogHandle
from cloakwork.plan.choose import Catalogue
from cloakwork.plan.model import Plan

AT_ONCE: Final = 5_000_000
"""Events that a step may have in memory at once where it asks for all: about 1 GB."""


def require_fitting(plan: Plan, log: LogHandle, engine: Engine, catalogue: Catalogue) -> None:
    """Refuse, before any budget is spent, a plan with a step that needs all cases at once where
    there are too many for that on ``engine``: ``Infeasible``.
    """
    if engine.name == "memory":
        return
    for mechanism, reason in needs_all_cases(plan, catalogue).items():
        if log.event_count > AT_ONCE:
            raise Infeasible(
                mechanism,
                f"needs all cases at once ({reason}), and the {engine.name} engine has at most "
                f"{AT_ONCE:,} events at once; the log has {log.event_count:,}: use --engine "
                "memory, or let the policy drop or noise what is filled",
            )


def needs_all_cases(plan: Plan, catalogue: Catalogue) -> dict[str, str]:
    """The mechanisms of a plan that need all cases at once, and why."""
    reasons = {
        step.mechanism: catalogue[step.mechanism].needs_all_cases
        for step in plan.steps
        if step.mechanism in catalogue
    }
    return {mechanism: reason for mechanism, reason in reasons.items() if reason}

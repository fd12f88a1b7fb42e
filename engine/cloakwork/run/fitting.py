"""Whether a plan can run on an engine."""

from cloakwork.engines.base import Engine
from cloakwork.errors import Infeasible
from cloakwork.mechanisms.registry import catalogue
from cloakwork.plan.choose import Catalogue
from cloakwork.plan.model import Plan


def require_fitting(plan: Plan, engine: Engine, mechanisms: Catalogue | None = None) -> None:
    """Refuse a plan with a step that needs all cases at once on an engine that has a batch at a
    time: ``Infeasible``.
    """
    if engine.name == "memory":
        return
    known = catalogue() if mechanisms is None else mechanisms
    for step in plan.steps:
        reason = getattr(known[step.mechanism], "needs_all_cases", None)
        if reason is not None:
            raise Infeasible(
                step.mechanism,
                f"needs all cases at once ({reason}), and the {engine.name} engine has one batch "
                "of them at a time: use --engine memory, or let the policy drop or noise what it "
                "fills",
            )

"""A plan as something that makes releases of any log, for attacks on what it releases of one."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from cloakwork.authoring.sources import policy_source
from cloakwork.base.errors import LogError, MechanismError
from cloakwork.base.lineage import CONTROL_FLOW
from cloakwork.base.progress import Reporter
from cloakwork.engines.memory import in_memory
from cloakwork.evaluation.membership import AttackedMechanism, membership
from cloakwork.evaluation.risk_figures import ClaimBasis, ClaimedBound, MembershipFigures
from cloakwork.evaluation.shadow_runs import ReleaseOf
from cloakwork.guarantees import DifferentialPrivacy, Guarantee
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.eventlog import EventLog
from cloakwork.noise import Noise, reproducible
from cloakwork.plan.model import Plan, Step
from cloakwork.plan.planner import make_plan
from cloakwork.policy.model import Policy
from cloakwork.publishing.opened import OpenedLog
from cloakwork.run.prepare import prepared_log
from cloakwork.run.run import Run

_NOT_MADE_UP: Final = (
    "the plan makes no cases anew (it changes those of the log), so releases of halves of the log "
    "tell nothing that linking does not; leave out --membership"
)


def plan_attacked(
    releases: Sequence[OpenedLog], policy: Policy | str | Path | None, ledger: Ledger | str | None
) -> Plan:
    """The plan of the first release, else the plan that ``policy`` gives. Raises LogError where
    there is neither.
    """
    if releases and releases[0].plan is not None:
        return releases[0].plan
    if isinstance(policy, Policy):
        return make_plan(policy)
    if policy is not None:
        return policy_source(policy, ledger).plan()
    raise LogError(
        "risk",
        "an attack on membership makes releases anew, and no plan says how",
        hint="name a release with its plan, or --policy POLICY",
    )


def attack_by_plan(
    plan: Plan, log: EventLog, runs: int, *, targets: int, seed: int, reporter: Reporter
) -> MembershipFigures:
    """``membership`` of a raw ``log``, by releases that ``plan`` makes."""
    attacked = attacked_plan(plan, seed)
    prepared = log_for(plan, log)
    return membership(prepared, attacked, runs=runs, targets=targets, seed=seed, reporter=reporter)


def attacked_plan(plan: Plan, seed: int) -> AttackedMechanism:
    """The steps of ``plan`` up to the one that makes the cases, and what the plan claims of it.

    No ledger is charged, and nothing is released: what comes out must not leave the attack. The
    noise follows from ``seed``. Raises MechanismError where the plan makes no cases anew.
    """
    steps = _up_to_cases(plan)
    return AttackedMechanism(
        steps[-1].mechanism,
        _release_by(plan.model_copy(update={"steps": steps}), reproducible(seed)),
        _claimed(plan),
        plan.facts.unit.attribute,
    )


def log_for(plan: Plan, log: EventLog) -> EventLog:
    """``log`` as the plan's steps see it, of which halves may be taken."""
    return replace(prepared_log(log, plan), notes=())


def _up_to_cases(plan: Plan) -> tuple[Step, ...]:
    for place, step in enumerate(plan.steps):
        if step.lineage.generates:
            return plan.steps[: place + 1]
    raise MechanismError("risk", _NOT_MADE_UP)


def _release_by(plan: Plan, noise: Noise) -> ReleaseOf:
    run = Run(plan=plan, noise=noise)

    def release(prepared: EventLog) -> EventLog:
        return in_memory(run.steps(prepared)[0])

    return release


def _claimed(plan: Plan) -> ClaimedBound | None:
    """The least bound that holds for the control flow whatever else is released; else what a paper
    claims.
    """
    derived = _hiding_members(each.guarantee for each in plan.claims if each.given is None)
    published = _hiding_members(each.guarantee for each in plan.unproven)
    found = derived or published
    if not found:
        return None
    least = min(found, key=lambda each: each.epsilon)
    basis: ClaimBasis = "derived" if derived else "published"
    return ClaimedBound(epsilon=least.epsilon, delta=least.delta, basis=basis)


def _hiding_members(guarantees: Iterable[Guarantee]) -> list[DifferentialPrivacy]:
    """Those that hide from who sees the control flow whether a unit is in the log."""
    return [
        each
        for each in guarantees
        if isinstance(each, DifferentialPrivacy)
        and each.neighbours == "unbounded"
        and CONTROL_FLOW in each.over
    ]

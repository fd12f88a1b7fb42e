"""What a plan needs of the engine and of the machine, told before anything is charged."""

from typing import Any, Final

from cloakwork.base.errors import Infeasible
from cloakwork.base.facts import Facts
from cloakwork.base.progress import Reporter
from cloakwork.engines.base import Engine
from cloakwork.log.eventlog import LogHandle
from cloakwork.mechanisms.base import Device, Mechanism
from cloakwork.mechanisms.devices import INSTALL, computed_on, has_torch
from cloakwork.mechanisms.registry import catalogue as all_mechanisms
from cloakwork.plan.model import Catalogue, Plan

AT_ONCE: Final = 5_000_000
"""Events that a step may have in memory at once where it asks for all: about 1 GB."""


def require_fitting(
    plan: Plan,
    log: LogHandle,
    engine: Engine,
    catalogue: Catalogue,
) -> None:
    """Refuse, before any budget is spent, a plan with a step that needs all cases at once where
    there are too many for that on ``engine``: ``Infeasible``.
    """
    # In memory the log is there as a whole anyhow.
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
    # A mechanism that is gone is found by whoever proves the plan again.
    reasons = {
        step.mechanism: catalogue[step.mechanism].needs_all_cases
        for step in plan.steps
        if step.mechanism in catalogue
    }
    return {mechanism: reason for mechanism, reason in reasons.items() if reason}


MINUTE: Final = 60
HOUR: Final = 3600


def require_device(
    plan: Plan,
    device: str,
    reporter: Reporter,
) -> None:
    """Load what ``plan`` needs to train on ``device``, and tell ``reporter`` how long that takes.

    Raises MissingExtra without torch, and MissingDevice where there is no such device. Where no
    step trains, torch is not loaded.
    """
    with computed_on(device):
        trained = _trained(plan)
        devices = [mechanism.training_device() for mechanism, _ in trained]
        said = _duration(trained, plan.facts, "cuda" if "cuda" in devices else "cpu")
        if said is not None:
            reporter(said)


def training_line(plan: Plan) -> str | None:
    """How long training takes here without a graphics card, or what is missing for it; None where
    no step trains, or nothing can be told.

    From the plan alone; torch is not loaded.
    """
    trained = _trained(plan)
    if trained and not has_torch():
        return f"training needs torch, which is not installed here: {INSTALL}"
    return _duration(trained, plan.facts, "cpu")


def _trained(plan: Plan) -> list[tuple[Mechanism[Any], Any]]:
    mechanisms = all_mechanisms()
    steps = [
        (mechanisms[step.mechanism], step) for step in plan.steps if step.mechanism in mechanisms
    ]
    return [
        (mechanism, mechanism.Params.model_validate(step.params))
        for mechanism, step in steps
        if mechanism.trains
    ]


def _duration(
    trained: list[tuple[Mechanism[Any], Any]],
    facts: Facts,
    device: Device,
) -> str | None:
    """How long training takes in all; None where nothing is trained, or a step cannot tell."""
    found = [mechanism.training_seconds(params, facts, device) for mechanism, params in trained]
    known = [each for each in found if each is not None]
    # One step that cannot tell would make the sum untrue.
    if not found or len(known) < len(found):
        return None
    return f"training takes {duration_in_words(sum(known))} on this machine"


def duration_in_words(seconds: float) -> str:
    """A time that was predicted: no more is said of it than is known."""
    if seconds < MINUTE:
        return "less than a minute"
    amount, unit = (seconds / MINUTE, "minute") if seconds < HOUR else (seconds / HOUR, "hour")
    rounded = round(amount)
    return f"about {rounded:,} {unit}{'' if rounded == 1 else 's'}"

"""What a plan needs of the machine, told before anything is charged."""

from typing import Any, Final

from cloakwork.base.facts import Facts
from cloakwork.base.progress import Reporter
from cloakwork.mechanisms.base import Device, Mechanism
from cloakwork.mechanisms.devices import INSTALL, computed_on, has_torch
from cloakwork.mechanisms.registry import catalogue as all_mechanisms
from cloakwork.plan.model import Plan

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

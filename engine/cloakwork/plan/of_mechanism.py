"""What the mechanism of a planned step says of it beyond what the plan holds."""

from cloakwork.base.facts import Facts
from cloakwork.mechanisms.base import Prediction
from cloakwork.mechanisms.registry import catalogue
from cloakwork.plan.model import Step


def action_of(step: Step) -> str:
    """What a step does, in a few words; empty where its mechanism is not known here, or says
    nothing.
    """
    mechanism = catalogue().get(step.mechanism)
    if mechanism is None:
        return ""
    named = step.params.get("attributes")
    attributes = [
        str(each["name"])
        for each in (named if isinstance(named, list) else [])
        if isinstance(each, dict) and "name" in each
    ]
    listed = " and ".join(", ".join(attributes).rsplit(", ", 1))
    return mechanism.action.replace("{attributes}", listed)


def prediction_of(step: Step, facts: Facts) -> Prediction | None:
    """What a simulation tells of a step; None where there is none."""
    mechanism = catalogue().get(step.mechanism)
    if step.predicted is None or mechanism is None:
        return None
    return mechanism.predict(mechanism.Params.model_validate(step.params), facts)

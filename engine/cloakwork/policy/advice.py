"""What advice on a policy consists of."""

from dataclasses import dataclass

from cloakwork.policy.document import Steps


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece of advice about the value at a path."""

    steps: Steps
    message: str

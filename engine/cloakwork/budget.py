"""Epsilon and delta, and the guessing advantage that says the same in plainer words."""

import math
from typing import Annotated, Literal

from pydantic import Field

from cloakwork.quantities import Frozen, Number

Currency = Literal["unit", "metric", "local"]
"""Unit-level DP, metric privacy per value and local DP per value never add up with each other."""


class Cost(Frozen):
    """What a release spends, or may spend; ``math.inf`` epsilon stands for "no bound"."""

    epsilon: float = Field(ge=0, allow_inf_nan=True)
    delta: Annotated[Number, Field(ge=0, le=1)] = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        """Basic composition: epsilons add, deltas add (Dwork and Roth 2014, theorem 3.16)."""
        return Cost(epsilon=self.epsilon + other.epsilon, delta=min(1.0, self.delta + other.delta))


NOTHING = Cost(epsilon=0.0)


def guessing_advantage(epsilon: float) -> float:
    """Largest rise of an attacker's probability that a unit is in the log, over all independent priors.

    For pure epsilon-DP: ``g = tanh(epsilon / 4)`` (``privacy.md`` section 4).

    >>> round(guessing_advantage(1.69), 2)
    0.4
    """
    return math.tanh(epsilon / 4)


def epsilon_of_advantage(advantage: float) -> float:
    """Largest epsilon whose guessing advantage is at most ``advantage`` (0 < g < 1): ``2 ln((1+g)/(1-g))``.

    >>> round(epsilon_of_advantage(0.01), 2)
    0.04
    """
    return 2 * math.log((1 + advantage) / (1 - advantage))

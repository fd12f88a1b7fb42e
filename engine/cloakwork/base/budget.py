"""Epsilon and delta, and the guessing advantage that says the same in plainer words."""

import math
from typing import Annotated, Final, Literal

from pydantic import Field

from cloakwork.base.quantities import Frozen, Number

Currency = Literal["unit", "metric", "local"]
"""Unit-level DP, metric privacy per value and local DP per value never add up with each other."""


class Cost(Frozen):
    """What a release spends, or may spend; ``math.inf`` epsilon stands for "no bound"."""

    epsilon: float = Field(ge=0, allow_inf_nan=True)
    delta: Annotated[Number, Field(ge=0, le=1)] = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        """Basic composition: epsilons add, deltas add (Dwork and Roth 2014, theorem 3.16)."""
        delta = min(1.0, self.delta + other.delta)
        return Cost(epsilon=self.epsilon + other.epsilon, delta=delta)


NOTHING = Cost(epsilon=0.0)


RARE: Final = 10
"""With delta above 0 the guessing advantage holds apart from outcomes of probability at most
``RARE * delta``.
"""

_ALLOWANCE: Final = math.log(RARE / (RARE - 1))
"""How far, with delta above 0, the privacy loss may exceed epsilon but for such outcomes."""


def _allowance(delta: float) -> float:
    return _ALLOWANCE if delta > 0 else 0.0


def guessing_advantage(epsilon: float, delta: float = 0.0) -> float:
    """Largest rise of an attacker's probability that a unit is in the log, over all independent
    priors.

    For pure epsilon-DP ``g = tanh(epsilon / 4)``. Under (epsilon, delta)-DP the privacy loss
    exceeds ``epsilon + a`` with probability at most ``delta / (1 - exp(-a))``, since delta bounds
    ``E[max(0, 1 - exp(epsilon - loss))]`` (Balle and Wang 2018, theorem 5); with ``a = ln(10/9)``
    the figure holds apart from outcomes of probability 10 delta.

    >>> round(guessing_advantage(1.69), 2), round(guessing_advantage(1.0, 1e-6), 3)
    (0.4, 0.269)
    """
    most_loss = epsilon + _allowance(delta)
    return math.tanh(most_loss / 4)


def epsilon_of_advantage(advantage: float, delta: float = 0.0) -> float:
    """Largest epsilon whose guessing advantage (at ``delta``) is at most ``advantage`` (0 < g < 1).

    Without delta ``2 ln((1+g)/(1-g))``. Raises ValueError where delta leaves no epsilon above 0.

    >>> round(epsilon_of_advantage(0.01), 2)
    0.04
    """
    most_loss = 2 * math.log((1 + advantage) / (1 - advantage))
    epsilon = most_loss - _allowance(delta)
    if epsilon <= 0:
        raise ValueError(
            f"a guessing advantage of {advantage:g} cannot be had with a delta above 0; "
            "set delta: 0 or allow more"
        )
    return epsilon

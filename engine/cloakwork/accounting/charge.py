"""What one release takes from a dataset's budget."""

import math
from datetime import timedelta
from typing import Literal

from pydantic import model_validator

from cloakwork.budget import Cost, Currency
from cloakwork.quantities import Duration, Frozen


class Charge(Frozen):
    """What a release spends in one currency.

    ``none`` marks a release without any DP guarantee: unbounded for DP purposes, charged to no budget.
    ``metric`` costs are per ``shift``: the distance over which ``cost.epsilon`` holds; they are pure.
    """

    currency: Currency | Literal["none"]
    cost: Cost = Cost(epsilon=math.inf)
    shift: Duration | None = None

    @model_validator(mode="after")
    def _shift_is_for_metric(self) -> "Charge":
        if (self.currency == "metric") != (self.shift is not None):
            raise ValueError("a metric charge names its shift, and no other charge does")
        if self.shift is not None and (self.shift <= timedelta(0) or self.cost.delta > 0):
            raise ValueError("a metric charge has a positive shift and no delta")
        return self

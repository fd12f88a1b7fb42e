"""What one release takes from a dataset's budget."""

import math
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from cloakwork.base.budget import Cost, Currency
from cloakwork.base.facts import CASE
from cloakwork.base.quantities import Duration, Frozen

Times = Literal["bounded", "unbounded"]
"""How a charge of differential privacy covers timestamps: the control flow given (bounded), or
together with everything else of the unit (unbounded).
"""


class Charge(Frozen):
    """What a release spends in one currency, and whom that protects.

    ``none`` marks a release without any DP guarantee: unbounded for DP purposes, charged to no
    budget. ``unit``: for currency ``unit`` the protected unit by name (``case`` or an attribute);
    for ``local`` whether ``cost`` holds per ``value`` or
    per ``case``. ``max_cases``: how many cases of one unit the release drew on at most;
    information, no bound on the dataset. ``times``: whether and how it covers timestamps.
    ``metric`` costs are per ``shift``: the distance over which ``cost.epsilon`` holds; they are
    pure. ``window``: of a growing log, the window in which alone the charge counts; None: in every
    one, as where a person is protected, who may have cases in all of them.
    """

    currency: Currency | Literal["none"]
    cost: Cost = Cost(epsilon=math.inf)
    shift: Duration | None = None
    unit: str | None = None
    max_cases: Annotated[int | None, Field(ge=1)] = None
    times: Times | None = None
    window: Annotated[str | None, Field(exclude_if=lambda name: name is None)] = None

    @model_validator(mode="before")
    @classmethod
    def _unit_unless_said(cls, values: Any) -> Any:
        defaults = {"unit": CASE, "local": "value"}
        if not isinstance(values, dict) or "unit" in values:
            return values
        currency = values.get("currency")
        return {**values, "unit": defaults[currency]} if currency in defaults else values

    @model_validator(mode="after")
    def _shift_is_for_metric(self) -> "Charge":
        if (self.currency == "metric") != (self.shift is not None):
            raise ValueError("a metric charge names its shift, and no other charge does")
        if self.shift is not None and (self.shift <= timedelta(0) or self.cost.delta > 0):
            raise ValueError("a metric charge has a positive shift and no delta")
        if self.currency == "unit" and self.unit is None:
            raise ValueError("a charge of differential privacy names the unit that it protects")
        if self.times is not None and self.currency != "unit":
            raise ValueError("only a charge of differential privacy says how it covers timestamps")
        if self.window is not None and self.currency == "unit" and self.unit != CASE:
            raise ValueError("what is charged per person counts in every window")
        return self

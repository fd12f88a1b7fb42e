"""The parameters of timestamps/regression: tables as timestamps/histogram has them, and gradient
steps for durations.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field, JsonValue

from cloakwork.errors import MechanismError
from cloakwork.facts import Facts
from cloakwork.kernel import Descent
from cloakwork.mechanisms.base import Refusal
from cloakwork.mechanisms.timestamps.histogram_params import (
    SHARES,
    HistogramParams,
    TableName,
    event_of,
    norm_charged,
    offered_params,
)
from cloakwork.privacy_event import Composed, PrivacyEvent, Repeated
from cloakwork.quantities import Frozen, Number

STEPS: Final = 64
"""Gradient steps, each on all cases: together they tell as much as one normal number."""

NORM: Final = 4.0
"""What a case's gradient is clipped to (L2); most are shorter."""

ACTIVITIES: Final = 32
"""Activities that durations may depend on; all others are one more."""

INPUTS: Final = 2 + 2 * (ACTIVITIES + 1)
"""Of the regression, by case: 1, the length, the last activity, and the activities there are."""

OUTPUTS: Final = 16
"""Curves over the scale of durations that inputs weigh."""

WEIGHTS: Final = INPUTS * OUTPUTS
"""Parameters: as many whatever is released, so that the plan can charge for them."""


REGRESSION_SHARES: Final[Mapping[TableName, float]] = {**SHARES, "totals": 0.30}
"""Parts of the budget: as of timestamps/histogram, but for durations, where a little more noise on
all tables costs less than it gains.
"""


class RegressionParams(Frozen):
    """``tables``: all of timestamps/histogram but that of durations, in whose place there are
    gradient steps. ``multiplier``: deviations of their noise to what a unit moves a sum of
    gradients by.
    """

    tables: HistogramParams
    multiplier: Annotated[Number, Field(gt=0)]

    @property
    def steps_mu(self) -> float:
        """By how many deviations a unit moves all steps together, as one normal number."""
        return math.sqrt(STEPS) / self.multiplier

    def descent(self, cases: float) -> Descent:
        """The steps, for a mean over about so many ``cases``."""
        return Descent.of(
            times=STEPS,
            rate=1.0,
            norm=NORM,
            multiplier=self.multiplier,
            denominator=cases,
            max_cases=self.tables.max_cases,
        )

    def event(self) -> PrivacyEvent:
        """What all tables and all steps cost."""
        step = self.descent(1.0).event(WEIGHTS, self.tables.max_cases)
        steps = Repeated(times=STEPS, event=step)
        return Composed(events=(self.tables.event(), steps))


def offered_regression(
    mu: float, facts: Facts, options: Mapping[str, JsonValue]
) -> RegressionParams | Refusal:
    """The least noise at ``mu``; the steps have the share of ``totals``."""
    tables = offered_params(mu, facts, options, REGRESSION_SHARES)
    if isinstance(tables, Refusal):
        return tables
    sigma = tables.sigmas["totals"]
    share = norm_charged(event_of("totals", sigma, tables.max_cases)) / sigma
    kept = {name: each for name, each in tables.sigmas.items() if name != "totals"}
    multiplier = math.sqrt(STEPS) / share * (1 + 1e-9)
    found = RegressionParams(
        tables=tables.model_copy(update={"sigmas": kept}), multiplier=multiplier
    )
    try:
        found.event()
    except MechanismError as error:
        # Noise that is too coarse to be drawn.
        return Refusal("misconfigured", str(error))
    return found

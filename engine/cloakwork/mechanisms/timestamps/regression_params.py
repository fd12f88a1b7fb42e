"""The parameters of timestamps/regression: some tables as timestamps/histogram has them, and
gradient steps for gaps and for durations.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field, JsonValue

from cloakwork.base.costs import Composed, PrivacyEvent, Repeated
from cloakwork.base.errors import MechanismError
from cloakwork.base.facts import Facts
from cloakwork.base.quantities import Frozen, Number
from cloakwork.kernel import Descent
from cloakwork.mechanisms.base import Refusal
from cloakwork.mechanisms.timestamps.histogram_params import (
    SHARES,
    HistogramOptions,
    HistogramParams,
    TableName,
    event_of,
    norm_charged,
    offered_params,
)

ACTIVITIES: Final = 32
"""Activities that gaps and durations may depend on; all others are one more."""

PAIRS: Final = 64
"""Directly-follows pairs whose gaps may differ from what their activities say."""

GAP_INPUTS: Final = 1 + 2 * (ACTIVITIES + 1) + PAIRS
"""Of the regression of gaps, by event: 1, its activity, the one before, and the pair."""

GAP_OUTPUTS: Final = 13
"""Curves over the scale of gaps that inputs weigh."""

INPUTS: Final = 2 + 2 * (ACTIVITIES + 1)
"""Of the regression of durations, by case: 1, the length, the last activity, and the activities
there are.
"""

OUTPUTS: Final = 16
"""Curves over the scale of durations that inputs weigh."""

REGRESSION_SHARES: Final[Mapping[TableName, float]] = {
    **{name: share for name, share in SHARES.items() if name != "gaps-by-activity"},
    "gaps-by-pair": 0.20,
    "totals": 0.47,
}
"""Parts of the budget. ``gaps-by-pair`` and ``totals``: of both regressions. Gaps need less than
tables do, and what that leaves goes to durations.
"""


class GradientSteps(Frozen):
    """``times`` gradient steps, each on all cases, of ``inputs`` times ``outputs`` weights: as many
    whatever is released, so that the plan can charge for them. All together tell as much as one
    normal number.

    ``norm``: what a case's gradient is clipped to (L2). ``multiplier``: deviations of the noise to
    what a unit of ``max_cases`` cases moves a sum of gradients by.
    """

    times: Annotated[int, Field(ge=1)]
    norm: Annotated[Number, Field(gt=0)]
    inputs: Annotated[int, Field(ge=1)]
    outputs: Annotated[int, Field(ge=1)]
    multiplier: Annotated[Number, Field(gt=0)]
    max_cases: Annotated[int, Field(ge=1)] = 1

    @property
    def size(self) -> int:
        """How many weights there are."""
        return self.inputs * self.outputs

    @property
    def mu(self) -> float:
        """By how many deviations a unit moves all steps together, as one normal number."""
        return math.sqrt(self.times) / self.multiplier

    def descent(self, cases: float) -> Descent:
        """The steps, for a mean over about so many ``cases``."""
        return Descent.of(
            times=self.times,
            rate=1.0,
            norm=self.norm,
            multiplier=self.multiplier,
            denominator=cases,
            max_cases=self.max_cases,
        )

    def event(self) -> PrivacyEvent:
        """What all steps cost."""
        step = self.descent(1.0).event(self.size, self.max_cases)
        return Repeated(times=self.times, event=step)


class RegressionParams(Frozen):
    """``tables``: those of timestamps/histogram that are measured. In place of the tables of gaps
    by activity and by pair, and of that of durations, there are gradient steps: ``gaps``,
    ``durations``.
    """

    tables: HistogramParams
    gaps: GradientSteps
    durations: GradientSteps

    def event(self) -> PrivacyEvent:
        """What all tables and all steps cost."""
        return Composed(events=(self.tables.event(), self.gaps.event(), self.durations.event()))


def offered_regression(
    mu: float, facts: Facts, options: Mapping[str, JsonValue]
) -> RegressionParams | Refusal:
    """The least noise at ``mu``."""
    tables = offered_params(mu, facts, options, REGRESSION_SHARES)
    if isinstance(tables, Refusal):
        return tables
    if "gaps-by-activity" in HistogramOptions.model_validate(options).shares:
        return Refusal(
            "misconfigured",
            "shares.gaps-by-activity: timestamps/regression has no such table; "
            "gaps-by-pair is the share of all gaps by activity",
        )
    kept = {
        name: sigma
        for name, sigma in tables.sigmas.items()
        if name not in ("gaps-by-pair", "totals")
    }
    found = RegressionParams(
        tables=tables.model_copy(update={"sigmas": kept}),
        gaps=_steps("gaps-by-pair", tables, 48, 3.0, GAP_INPUTS, GAP_OUTPUTS),
        durations=_steps("totals", tables, 64, 4.0, INPUTS, OUTPUTS),
    )
    try:
        found.event()
    except MechanismError as error:
        # Noise that is too coarse to be drawn.
        return Refusal("misconfigured", str(error))
    return found


def _steps(
    name: TableName, tables: HistogramParams, times: int, norm: float, inputs: int, outputs: int
) -> GradientSteps:
    """Steps that have the share of a table, in whose place they are."""
    sigma = tables.sigmas[name]
    mu = norm_charged(event_of(name, sigma, tables.max_cases)) / sigma
    return GradientSteps(
        times=times,
        norm=norm,
        inputs=inputs,
        outputs=outputs,
        multiplier=math.sqrt(times) / mu * (1 + 1e-9),
        max_cases=tables.max_cases,
    )

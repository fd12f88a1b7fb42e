"""The parameters of timestamps/histogram: its tables, how a budget is shared among them, and the
noise that each gets.
"""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field, JsonValue, ValidationError

from cloakwork.base.costs import Composed, DiscreteGaussian, PrivacyEvent, Repeated
from cloakwork.base.exact import drawn_sigma
from cloakwork.base.facts import UNIX_EPOCH, Facts, Window
from cloakwork.base.quantities import Duration, Frozen, Number
from cloakwork.kernel import Clip, Gaussian
from cloakwork.mechanisms.base import Refusal, option_fault

UNIT_NORM: Final = 2**14
"""Grid steps in one case: what a group counts for, and (L2) a case in one table."""

MOST_CELLS: Final = 2**10
"""Cells of one table that a case may count for; those that come first in it."""

LEAST_LONGEST: Final = timedelta(days=366)
"""Where the policy declares no longest gap, it is the length of the window, and at least this."""

WINDOW: Final = Window(
    start=datetime.fromisoformat("1970-01-01T00:00:00Z"),
    end=datetime.fromisoformat("2070-01-01T00:00:00Z"),
)
"""Where the policy declares none, one is looked for here; cases that start outside count at its
edges.
"""

TableName = Literal[
    "window", "gaps", "gaps-by-activity", "gaps-by-pair", "starts", "hours", "totals"
]

SPREAD: Final = Clip("l2", UNIT_NORM, MOST_CELLS)
"""A case counts for a vector of norm 1."""

CLIPS: Final[Mapping[TableName, Clip]] = {
    "window": Clip("l2", UNIT_NORM, 1),
    "gaps": SPREAD,
    "gaps-by-activity": SPREAD,
    "gaps-by-pair": SPREAD,
    "starts": Clip("l2", UNIT_NORM, 3),
    "hours": SPREAD,
    "totals": Clip("l2", UNIT_NORM, 3),
}
"""The tables, in the order in which they are asked for; ``window`` where none is declared."""

SHARES: Final[Mapping[TableName, float]] = {
    "window": 0.05,
    "gaps": 0.10,
    "gaps-by-activity": 0.10,
    "gaps-by-pair": 0.35,
    "starts": 0.10,
    "hours": 0.13,
    "totals": 0.22,
}
"""Parts of the budget (of mu squared), found on synthetic logs; without a declared window all
others are by the first one's smaller.
"""

LEAST_SIGMA: Final = 1024.0
"""Grid steps: with sigma above 1,000 the accountant charges a whole vector by its norm."""

Share = Annotated[float, Field(ge=0.001, le=1, allow_inf_nan=False)]


class HistogramOptions(BaseModel):
    """``shares``: how the budget is split between the tables; those left out keep their defaults,
    and all are scaled to add up to 1.
    """

    model_config = {"extra": "forbid", "frozen": True}
    shares: dict[TableName, Share] = {}


class HistogramParams(Frozen):
    """``sigmas``: of the discrete Gaussian noise on each table, in grid steps, ``UNIT_NORM`` to a
    case. ``max_cases``: cases of a unit. ``mu``: what the sigmas were found for.

    ``window``: of case starts; ``longest_gap``, ``epoch``, ``grid``: as declared (``Facts``).
    ``is_window_declared``: whether the window is the policy's; else it is measured within this one.
    """

    mu: Annotated[Number, Field(gt=0)]
    max_cases: Annotated[int, Field(ge=1)] = 1
    sigmas: dict[TableName, Annotated[Number, Field(ge=LEAST_SIGMA)]]
    window: Window = WINDOW
    is_window_declared: bool = False
    longest_gap: Duration | None = None
    epoch: datetime = UNIX_EPOCH
    grid: Duration = timedelta(seconds=1)

    def longest_in(self, window: Window) -> timedelta:
        """The longest gap, by what is declared or by the window of case starts."""
        return self.longest_gap or max(window.end - window.start, LEAST_LONGEST)

    def event(self) -> PrivacyEvent:
        """What all tables cost, as the kernel charges them."""
        events = [event_of(name, sigma, self.max_cases) for name, sigma in self.sigmas.items()]
        return Composed(events=tuple(events))


def event_of(name: TableName, sigma: float, max_cases: int) -> PrivacyEvent:
    """What one table costs: what ``kernel.sum`` records for it."""
    return Gaussian(sigma).events(CLIPS[name], max_cases, None)[0]


def offered_params(
    mu: float,
    facts: Facts,
    options: Mapping[str, JsonValue],
    defaults: Mapping[TableName, float] = SHARES,
) -> HistogramParams | Refusal:
    """The least noise at ``mu``, shared out as ``defaults`` and ``options`` say."""
    try:
        chosen = HistogramOptions.model_validate(options)
    except ValidationError as error:
        return Refusal("misconfigured", option_fault(error))
    shares = {**defaults, **chosen.shares}
    if facts.window is not None:
        del shares["window"]
    total = sum(shares.values())
    m = facts.unit.max_cases
    return HistogramParams(
        mu=mu,
        max_cases=m,
        sigmas={
            name: least_sigma(name, mu * math.sqrt(share / total), m)
            for name, share in shares.items()
        },
        window=facts.window or WINDOW,
        is_window_declared=facts.window is not None,
        longest_gap=facts.longest_gap,
        epoch=facts.epoch,
        grid=facts.grid,
    )


def least_sigma(name: TableName, mu: float, max_cases: int) -> float:
    """The sigma (grid steps) at which a table, as it is charged, has the ratio ``mu``."""
    norm = norm_charged(event_of(name, 2.0**40, max_cases))
    return drawn_sigma(max(norm / mu * (1 + 1e-12), LEAST_SIGMA))


def norm_charged(event: PrivacyEvent) -> float:
    """The norm (L2) of the moves of a discrete Gaussian event, in grid steps."""
    times, one = 1, event
    if isinstance(event, Repeated):
        times, one = event.times, event.event
    if not isinstance(one, DiscreteGaussian):
        raise TypeError(f"no Gaussian noise: {event!r}")
    return math.sqrt(times) * one.sensitivity

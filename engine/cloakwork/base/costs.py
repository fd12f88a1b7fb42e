"""What a release costs, as data: epsilon and delta, the events that name the noise really drawn,
and what a dataset's budget is charged.

The mathematics that turns an event into epsilon and delta is in ``accounting.events``; an event
needs no other knowledge, and is serialised with the plan.
"""

import math
from datetime import timedelta
from fractions import Fraction
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from cloakwork.base.exact import delta_of_group, exactly, rounded_down, rounded_up
from cloakwork.base.facts import CASE
from cloakwork.base.quantities import IF_SAID, Duration, Frozen, Number
from cloakwork.base.records import Prose

Currency = Literal["unit", "metric", "local"]
"""Unit-level DP, metric privacy per value and local DP per value never add up with each other."""


class Cost(Frozen):
    """What a release spends, or may spend; ``math.inf`` epsilon stands for "no bound"."""

    epsilon: float = Field(ge=0, allow_inf_nan=True)
    delta: Annotated[Number, Field(ge=0, le=1)] = 0.0

    def is_within(self, most: "Cost") -> bool:
        """Whether neither epsilon nor delta is above that of ``most``."""
        return self.epsilon <= most.epsilon and self.delta <= most.delta

    def __add__(self, other: "Cost") -> "Cost":
        """Basic composition: epsilons add, deltas add (Dwork and Roth 2014, theorem 3.16)."""
        # A delta above 1 says no more than 1.
        delta = min(1.0, self.delta + other.delta)
        return Cost(epsilon=self.epsilon + other.epsilon, delta=delta)


NOTHING = Cost(epsilon=0.0)


def cost_of_group(cost: Cost, size: int) -> Cost:
    """What a guarantee that costs ``cost`` for one costs a group of ``size`` (group privacy),
    rounded up.
    """
    if math.isinf(cost.epsilon):
        return cost
    epsilon = exactly(cost.epsilon)
    delta = exactly(cost.delta)
    of_group = delta_of_group(epsilon, delta, size)
    return Cost(epsilon=rounded_up(size * epsilon), delta=min(1.0, rounded_up(of_group)))


def cost_of_member(cost: Cost, size: int) -> Cost:
    """What one may cost, so that a group of ``size`` costs ``cost`` at most, rounded down."""
    epsilon = rounded_down(exactly(cost.epsilon) / size)
    # The factor by which delta grows does not depend on delta, as long as that comes to at most 1:
    # this one does up to an epsilon of 400 and a million members.
    unit = Fraction(1, 1 << 600)
    factor = delta_of_group(exactly(epsilon), unit, size) / unit
    return Cost(epsilon=epsilon, delta=rounded_down(exactly(cost.delta) / factor))


def cost_text(cost: Cost | None, *, digits: int = 12) -> str:
    """Epsilon, and delta where there is one; empty for no cost."""
    if cost is None:
        return ""
    epsilon = "no bound" if math.isinf(cost.epsilon) else f"epsilon {cost.epsilon:.{digits}g}"
    return epsilon + (f", delta {cost.delta:.{digits}g}" if cost.delta else "")


RARE: Final = 10
"""With delta above 0 the guessing advantage, and the odds, hold apart from outcomes of probability
at most ``RARE * delta``.
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
    (0.4, 0.27)
    """
    most_loss = epsilon + _allowance(delta)
    return math.tanh(most_loss / 4)


def odds_sentence(epsilon: float, delta: float, guess: str, of_it: str = "") -> str:
    """Epsilon in the odds of one who thought 10 in 100 of ``guess``, whatever everybody else's data
    are: they grow by the exponential of the privacy loss (Bayes' rule), which with a delta is more
    than epsilon with a probability above delta; so, as in ``guessing_advantage``, by that of
    ``epsilon + ln(10/9)`` at most, apart from outcomes of probability 10 delta.

    Rounded up to a tenth of one in 100. ``of_it``: what the thought is of, where ``guess`` does not
    say it by itself.

    >>> odds_sentence(2.0, 0.0, "that you are in the log")
    'who thought 10 in 100 that you are in the log thinks at most 45.1 in 100 afterwards'
    """
    before = 0.1
    # 1 over (1 + (1 - p)/p e^-epsilon): no epsilon is too large for it.
    after = 1 / (1 + (1 - before) / before * math.exp(-epsilon - _allowance(delta)))
    most = math.ceil(round(1000 * after, 6)) / 10
    apart = f", apart from outcomes of probability {RARE * delta:g}" if delta else ""
    return f"who thought 10 in 100 {guess} thinks at most {most:g} in 100{of_it} afterwards{apart}"


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


Positive = Annotated[Number, Field(gt=0)]


class DiscreteLaplace(Frozen):
    """Integer noise with P[x] proportional to exp(-|x|/scale); ``scale`` and ``sensitivity`` in
    grid steps.
    """

    kind: Literal["discrete-laplace"] = "discrete-laplace"
    scale: Positive
    sensitivity: Annotated[int, Field(ge=1)] = 1


class DiscreteGaussian(Frozen):
    """Integer noise with P[x] proportional to exp(-x^2/(2 sigma^2)); ``sigma`` and L2
    ``sensitivity`` in grid steps.
    """

    kind: Literal["discrete-gaussian"] = "discrete-gaussian"
    sigma: Positive
    sensitivity: Annotated[int, Field(ge=1)] = 1


class TruncatedGeometric(Frozen):
    """Integer noise with P[x] proportional to exp(-|x|/scale) for |x| <= ``bound``, and no larger
    one, on counts of which only those that come out above ``bound`` are released; ``scale``,
    ``bound`` and L1 ``sensitivity`` in grid steps.
    """

    kind: Literal["truncated-geometric"] = "truncated-geometric"
    scale: Positive
    bound: Annotated[int, Field(ge=1)]
    sensitivity: Annotated[int, Field(ge=1)] = 1


class EpsilonDelta(Frozen):
    """A mechanism known only to be (epsilon, delta)-differentially private."""

    kind: Literal["epsilon-delta"] = "epsilon-delta"
    epsilon: Annotated[Number, Field(ge=0)]
    delta: Annotated[Number, Field(ge=0, lt=1)] = 0.0


class PoissonSampled(Frozen):
    """``event`` run on a sample that holds each unit independently with probability ``rate``."""

    kind: Literal["poisson-sampled"] = "poisson-sampled"
    rate: Annotated[Number, Field(gt=0, le=1)]
    event: "PrivacyEvent"


class Repeated(Frozen):
    """``event`` run ``times`` times, each with fresh noise."""

    kind: Literal["repeated"] = "repeated"
    times: Annotated[int, Field(ge=1)]
    event: "PrivacyEvent"


def gaussian_moves(event: "PrivacyEvent") -> tuple[int, int]:
    """How many times a discrete Gaussian event runs, and the L2 sensitivity of each run in grid
    steps; raises TypeError for any other event.
    """
    times, one = (event.times, event.event) if isinstance(event, Repeated) else (1, event)
    if not isinstance(one, DiscreteGaussian):
        raise TypeError(f"no Gaussian noise: {event!r}")
    return times, one.sensitivity


class Composed(Frozen):
    """All of ``events`` released together; no events cost nothing."""

    kind: Literal["composed"] = "composed"
    events: tuple["PrivacyEvent", ...] = ()


class NonPrivate(Frozen):
    """Something that no epsilon bounds; it costs infinity instead of failing."""

    kind: Literal["non-private"] = "non-private"
    reason: Prose


PrivacyEvent = Annotated[
    DiscreteLaplace
    | DiscreteGaussian
    | TruncatedGeometric
    | EpsilonDelta
    | PoissonSampled
    | Repeated
    | Composed
    | NonPrivate,
    Field(discriminator="kind"),
]

FREE = Composed()

for _model in (PoissonSampled, Repeated, Composed):
    _model.model_rebuild()


def charges_anything(event: PrivacyEvent) -> bool:
    """Whether an event costs anything at all."""
    match event:
        case Composed(events=events):
            return any(charges_anything(each) for each in events)
        case Repeated(event=inner) | PoissonSampled(event=inner):
            return charges_anything(inner)
        case EpsilonDelta(epsilon=epsilon, delta=delta):
            return epsilon > 0 or delta > 0
    return True


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
    window: Annotated[str | None, IF_SAID] = None

    @model_validator(mode="before")
    @classmethod
    def _unit_unless_said(cls, values: Any) -> Any:
        # Entries that were written before charges named units.
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

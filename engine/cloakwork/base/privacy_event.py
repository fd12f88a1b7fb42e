"""What a measurement costs, as data: each event names the noise that was actually drawn.

The mathematics that turns an event into epsilon and delta is in ``accounting.events``; an event
needs no other knowledge, and is serialised with the plan.
"""

from typing import Annotated, Literal

from pydantic import Field

from cloakwork.base.quantities import Frozen, Number
from cloakwork.base.records import Prose

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

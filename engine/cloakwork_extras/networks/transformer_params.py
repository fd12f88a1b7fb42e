"""The parameters of variants/transformer: how it is trained, by what is declared; without torch."""

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BaseModel, Field

from cloakwork.base.quantities import Frozen, Number
from cloakwork.mechanisms.variants.markov_params import MarkovParams

SHARE: Final = 0.3
"""The part of the budget (of 1/sigma**2) that trains the network."""

TIMES: Final = 20
"""Gradient steps, each on all cases: with noise for so many of them, more steps learn no more."""

LEARNING: Final = 0.18
"""How far a step changes what the last layer adds to the logarithm of a share, for an input of 1.
"""

LAST_LAYER: Final = 6.0
"""How much faster the last layer learns than the others."""

PLACES: Final = 64
"""Places of a case that the network learns from, at most."""

MOST_LABELS: Final = 64
"""Labels that the network tells apart; the others are one to it, those that are rarest by the noisy
tables.
"""

ATTENTION: Final = 8
"""Numbers a place in attention, by default."""

WEAK: Final = 100.0
"""Declared units times what one moves the network's noise by, in deviations, under which
steps are half as long: what is learned would be noise.

These constants were chosen on synthetic logs alone (``benchmarks/variants/synthetic.py``).
"""

UNITS: Final = 1000
"""Units that are assumed where the policy does not declare how many there are."""

MOST_UNITS: Final = 100_000
"""Units in a step, about: of more, each step takes a sample."""

Share = Annotated[float, Field(ge=0.01, le=0.9, allow_inf_nan=False)]
Width = Annotated[int, Field(ge=0, le=256, multiple_of=2)]


class TransformerOptions(BaseModel):
    """``share``: the part of the budget that trains the network. ``steps``: how many; ``learning``:
    how far each goes. ``width``: numbers a place in attention, even; 0: none of it. ``places``:
    events of a case that are learned from.
    """

    model_config = {"extra": "forbid", "frozen": True}

    share: Share = SHARE
    steps: Annotated[int, Field(ge=1, le=100_000)] = TIMES
    learning: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] | None = None
    width: Width = ATTENTION
    places: Annotated[int, Field(ge=1, le=4096)] = PLACES


class TransformerParams(Frozen):
    """``markov``: how everything but the network is measured. ``steps``, ``rate``, ``multiplier``:
    of the gradient steps (``kernel.steps``), whose clip is 1. ``labels`` and ``width``: of the
    network; ``learning`` and ``places``: see the options. ``unit``: the attribute that names it.

    ``epsilon`` and ``delta``: the target of all of it.
    """

    epsilon: Annotated[Number, Field(gt=0)]
    delta: Annotated[Number, Field(gt=0, lt=1)]
    unit: str | None = None
    max_cases: Annotated[int, Field(ge=1)] = 1
    markov: MarkovParams
    steps: Annotated[int, Field(ge=1)]
    rate: Annotated[Number, Field(gt=0, le=1)]
    multiplier: Annotated[Number, Field(gt=0)]
    learning: Annotated[Number, Field(gt=0)]
    labels: Annotated[int, Field(ge=1, le=MOST_LABELS)]
    width: Width
    places: Annotated[int, Field(ge=1)]

    @property
    def size(self) -> int:
        """How many weights the network has."""
        return number_of_weights(self.labels, self.width)


def number_of_weights(labels: int, width: int) -> int:
    """Of ``PrefixNetwork``."""
    return sum(inputs * outputs for inputs, outputs in layer_sizes(labels, width))


def layer_sizes(labels: int, width: int) -> tuple[tuple[int, int], ...]:
    """(inputs, outputs) of each layer of ``PrefixNetwork``, the last one at the end; the inputs
    count the offset.
    """
    steps = labels + 1
    last = (labels + 1 + width + 1, steps)
    if not width:
        return (last,)
    attention = ((steps, width), (width + 1, 2 * width), (width + 1, width))
    return (*attention, (2 * width + 1, width), last)


@dataclass(frozen=True, slots=True)
class Schedule:
    """What follows from what is declared: ``width`` of attention, ``learning`` of a step, ``rate``
    of the samples.
    """

    width: int
    learning: float
    rate: float

    @classmethod
    def of(cls, options: TransformerOptions, units: int | None, mu: float) -> "Schedule":
        """By the declared number of units, or ``UNITS``, and by what one of them moves the
        network's noise by, in deviations (``mu``); by ``options`` where they say so.
        """
        known = units or UNITS
        learning = LEARNING / 2 if known * mu < WEAK else LEARNING
        return cls(
            options.width,
            learning if options.learning is None else options.learning,
            min(1.0, MOST_UNITS / known),
        )

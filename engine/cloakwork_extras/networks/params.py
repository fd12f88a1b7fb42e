"""Parameters of networks, and how large these are: what a mechanism and the network that it trains
both know, without torch.
"""

from typing import Annotated, Final

from pydantic import BaseModel, Field

from cloakwork.base.quantities import Frozen, Number
from cloakwork.mechanisms.variants.markov import MarkovParams
from cloakwork_extras.networks.steps import weights_of

LAST_LAYER: Final = 6.0
"""How much faster the last layer learns than the others."""

MOST_LABELS: Final = 64
"""Labels that the network tells apart; the others are one to it, those that are rarest by the noisy
tables.
"""

Width = Annotated[int, Field(ge=0, le=256, multiple_of=2)]


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
        return weights_of(layer_sizes(self.labels, self.width))


def layer_sizes(labels: int, width: int) -> tuple[tuple[int, int], ...]:
    """(inputs, outputs) of each layer of ``PrefixNetwork``, the last one at the end; the inputs
    count the offset.
    """
    steps = labels + 1
    # Labels that have occurred, the number of events, attention, and the offset.
    last = (labels + 1 + width + 1, steps)
    if not width:
        return (last,)
    attention = ((steps, width), (width + 1, 2 * width), (width + 1, width))
    return (*attention, (2 * width + 1, width), last)


Epochs = Annotated[int, Field(ge=1, le=100_000)]


class GenerativePublishedOptions(BaseModel):
    """``epochs``: how often each network sees every case on average. ``batch``: cases in a batch on
    average.
    """

    model_config = {"extra": "forbid", "frozen": True}

    epochs: Epochs = 10
    batch: Annotated[int, Field(ge=1, le=100_000)] = 64


class GenerativePublishedParams(Frozen):
    """``published`` and ``delta``: what the paper claims. ``epochs`` and ``batch``: see the
    options.
    """

    published: Annotated[Number, Field(gt=0)]
    delta: Annotated[Number, Field(gt=0, lt=1)]
    epochs: Annotated[int, Field(ge=1)]
    batch: Annotated[int, Field(ge=1)]


class TravagPublishedOptions(GenerativePublishedOptions):
    """``epochs``: of the autoencoder; ``adversarial_epochs``: of the adversarial network. ``code``:
    numbers that a variant is encoded in.
    """

    epochs: Epochs = 20
    adversarial_epochs: Epochs = 10
    code: Annotated[int, Field(ge=1, le=4096)] = 128


class TravagPublishedParams(GenerativePublishedParams):
    """``adversarial_epochs`` and ``code``: see the options."""

    adversarial_epochs: Annotated[int, Field(ge=1)]
    code: Annotated[int, Field(ge=1)]


class DdpmPublishedOptions(GenerativePublishedOptions):
    """``steps``: of the diffusion, from a variant to noise."""

    steps: Annotated[int, Field(ge=2, le=10_000)] = 100


class DdpmPublishedParams(GenerativePublishedParams):
    """``steps``: see the options."""

    steps: Annotated[int, Field(ge=2)]

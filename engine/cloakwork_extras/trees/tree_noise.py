"""The noise on a prefix tree: how much on which level, what it costs, and how far it reaches."""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from cloakwork.base.costs import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    PrivacyEvent,
    Repeated,
)
from cloakwork.base.exact import drawn_scale, drawn_sigma
from cloakwork.base.quantities import Frozen, Number
from cloakwork.kernel import Gaussian, Laplace
from cloakwork.kernel.noises import gaussian_tail, laplace_tail

NoiseKind = Literal["gaussian", "laplace"]
T = TypeVar("T")


class Stage(Frozen):
    """Consecutive levels of the tree that share their noise: ``levels`` of them, at ``scale`` (or
    sigma) in cases.
    """

    levels: Annotated[int, Field(ge=1)]
    scale: Annotated[Number, Field(gt=0)]


def level_stages(levels: int, split: Literal["uniform", "geometric"]) -> tuple[Stage, ...]:
    """``levels`` levels in stages of relative scale 1 and less.

    ``geometric``: up to four stages of about as many levels, each with 2**(-1/3) times the noise of
    the one before it, since counts get smaller as prefixes get longer (Cormode, Procopiuc,
    Srivastava, Shen and Yu 2012, section 4.2).
    """
    if split == "uniform":
        return (Stage(levels=levels, scale=1.0),)
    count = min(4, levels)
    size, rest = divmod(levels, count)
    stages = []
    for number in range(count):
        # What the division leaves goes to the first stages, a level each.
        own = size + 1 if number < rest else size
        stages.append(Stage(levels=own, scale=2 ** (-number / 3)))
    return tuple(stages)


def by_level(shape: Sequence[Stage], of_stage: Sequence[T]) -> list[T]:
    """What each stage has, once for each of its levels, from the first level on."""
    pairs = zip(shape, of_stage, strict=True)
    return [each for stage, each in pairs for _ in range(stage.levels)]


def with_scale(shape: Sequence[Stage], scale: float, noise: NoiseKind) -> tuple[Stage, ...]:
    """The stages with their relative scales times ``scale``, as they are really drawn."""
    as_drawn = drawn_sigma if noise == "gaussian" else drawn_scale
    stages = []
    for stage in shape:
        scaled = as_drawn(scale * stage.scale)
        stages.append(Stage(levels=stage.levels, scale=scaled))
    return tuple(stages)


def cost_of(shape: Sequence[Stage], noise: NoiseKind, max_cases: int) -> PrivacyEvent:
    """One noisy count a level, moved by ``max_cases``: a case touches one count of each level at
    most.
    """
    events = []
    for stage in shape:
        level = _count_event(stage, noise, max_cases)
        events.append(Repeated(times=stage.levels, event=level))
    return Composed(events=tuple(events))


def _count_event(stage: Stage, noise: NoiseKind, max_cases: int) -> PrivacyEvent:
    if noise == "gaussian":
        return DiscreteGaussian(sigma=stage.scale, sensitivity=max_cases)
    return DiscreteLaplace(scale=stage.scale, sensitivity=max_cases)


def tail_probability(scale: float, at_least: int, noise: NoiseKind) -> float:
    """An upper bound on Pr[noise >= at_least] for ``at_least`` of 1 or more."""
    tail = gaussian_tail if noise == "gaussian" else laplace_tail
    return tail(scale, at_least)


def least_tail_value(scale: float, probability: float, noise: NoiseKind) -> int:
    """The least integer, 1 or more, that noise reaches with at most ``probability`` (in (0, 1)) by
    the bound of ``tail_probability``.
    """
    low, high = 0, 1
    while tail_probability(scale, high, noise) > probability:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if tail_probability(scale, middle, noise) <= probability:
            high = middle
        else:
            low = middle
    return high


def answer_noise(kind: NoiseKind, scale: float) -> Gaussian | Laplace:
    """The noise on each count, as a kernel draws it."""
    return Gaussian(scale) if kind == "gaussian" else Laplace(scale)

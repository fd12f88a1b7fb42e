"""Gradient steps of networks, without torch: the device that they are computed on, and from a
budget to their noise: the least that the accountant allows, and what papers take for theirs.
"""

import math
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import numpy as np

from cloakwork.accounting.events import cost
from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.costs import FREE, Composed, Cost, PrivacyEvent, Repeated
from cloakwork.base.errors import MechanismError, MissingDevice, MissingExtra, first_line
from cloakwork.kernel import Descent
from cloakwork.mechanisms.devices import INSTALL, chosen_name

if TYPE_CHECKING:
    import torch


class TrainsNetwork:
    """What mechanisms that train a network share: they say which device is there."""

    trains: ClassVar[bool] = True

    def training_device(self) -> Literal["cpu", "cuda"]:
        """See ``Mechanism``."""
        return "cuda" if chosen_device().type == "cuda" else "cpu"


def require_torch(*beside: str) -> None:
    """Load torch, and the packages ``beside`` it; raises MissingExtra, in one line, where that
    cannot be.

    To be called before anything is charged, and before a kernel asks for a gradient: what fails
    there is passed over in silence.
    """
    for name in ("torch", *beside):
        try:
            import_module(name)
        except (ImportError, OSError) as error:
            missing = f"which cannot be loaded ({first_line(error)})"
            if isinstance(error, ModuleNotFoundError) and error.name == name:
                missing = "which is not installed"
            raise MissingExtra(f"training a network needs {name}, {missing}: {INSTALL}") from error


def chosen_device() -> "torch.device":
    """The device that networks are computed on.

    Raises MissingExtra without torch, MissingDevice where a graphics card was asked for and there
    is none that torch can use.
    """
    require_torch()
    import torch

    name, has_card = chosen_name(), bool(torch.cuda.is_available())
    if name == "cuda" and not has_card:
        raise MissingDevice(
            "there is no graphics card that torch can use (cuda); take cpu, or auto"
        )
    if name == "auto":
        name = "cuda" if has_card else "cpu"
    return torch.device(name)


Shape = tuple[int, int]
"""Inputs and outputs of a matrix of weights."""


def weights_of(sizes: tuple[Shape, ...]) -> int:
    """How many weights there are in matrices of ``sizes``."""
    return sum(inputs * outputs for inputs, outputs in sizes)


_TOLERANCE: Final = 1.002
"""By how much more noise there may be than the least."""

_MOST: Final = 2.0**20


def steps_event(
    times: int,
    rate: float,
    multiplier: float,
    size: int,
    max_cases: int = 1,
) -> PrivacyEvent:
    """What ``times`` gradient steps of ``size`` weights cost; ``multiplier`` as of
    ``Descent.of``.
    """
    descent = Descent.of(
        times=times,
        rate=rate,
        norm=1.0,
        multiplier=multiplier,
        denominator=1.0,
        max_cases=max_cases,
    )
    return Repeated(times=times, event=descent.event(size, max_cases))


def least_multiplier(
    event_at: Callable[[float], PrivacyEvent],
    target: Cost,
    beside: PrivacyEvent = FREE,
) -> float:
    """The least multiplier, up to two thousandths, whose event costs at most ``target`` together
    with ``beside``.

    Raises MechanismError where there is none.
    """

    def epsilon_at(multiplier: float) -> float:
        event = Composed(events=(event_at(multiplier), beside))
        return cost(event, target.delta).epsilon

    # The cost falls as the multiplier grows, so two ends enclose the target.
    low, high = _bracket(epsilon_at, target.epsilon)
    # Narrow both ends until they are as near as the noise may be above the least.
    while high[0] / low[0] > _TOLERANCE:
        between = _between(low, high, target.epsilon)
        found = (between, epsilon_at(between))
        if found[1] <= target.epsilon:
            high = found
        else:
            low = found
    return high[0]


_Point = tuple[float, float]
"""A multiplier, and epsilon there."""


def _bracket(epsilon_at: Callable[[float], float], epsilon: float) -> tuple[_Point, _Point]:
    """Two multipliers, the higher one at most twice the other, between which the target lies."""
    # Doubling from above the target, else halving from below it.
    multiplier = 2.0
    found = epsilon_at(multiplier)
    while found > epsilon:
        low = (multiplier, found)
        multiplier *= 2
        if multiplier > _MOST:
            raise MechanismError("calibration", f"no noise meets epsilon {epsilon:g}")
        found = epsilon_at(multiplier)
        if found <= epsilon:
            return low, (multiplier, found)
    while True:
        high = (multiplier, found)
        multiplier /= 2
        if multiplier < 1 / _MOST:
            return high, high
        found = epsilon_at(multiplier)
        if found > epsilon:
            return (multiplier, found), high


def _between(low: _Point, high: _Point, epsilon: float) -> float:
    """Where a power law through both meets the target, or the middle if that is no help."""
    middle = math.sqrt(low[0] * high[0])
    if not (math.isfinite(low[1]) and 0 < high[1] < low[1]):
        return middle
    # A line through both points in logarithms, met where it reaches the target.
    share = math.log(low[1] / epsilon) / math.log(low[1] / high[1])
    guess = low[0] * (high[0] / low[0]) ** share
    # A little to the side where less is known, so that both ends come near.
    nearer_high = high[0] / guess < guess / low[0]
    guess *= 1 / _TOLERANCE**0.5 if nearer_high else _TOLERANCE**0.5
    return guess if low[0] < guess < high[0] else middle


@lru_cache(maxsize=64)
def multiplier_for(
    times: int,
    rate: float,
    size: int,
    max_cases: int,
    target: Cost,
    beside: PrivacyEvent = FREE,
) -> float:
    """``least_multiplier`` of one phase of steps, remembered."""
    return least_multiplier(
        lambda multiplier: steps_event(times, rate, multiplier, size, max_cases),
        target,
        beside,
    )


def multiplier_of_mu(times: int, mu: float) -> float:
    """The multiplier of ``times`` steps on everybody (rate 1) that tell no more of one unit than a
    normal number of deviation 1 that it moves by ``mu``: sqrt(times) / mu (Dong, Roth and Su 2022,
    corollary 3.3), and a billionth more for the rounding of floats. That norms are rounded up cell
    by cell is not in it: with n weights it is up to sqrt(n) 2^-30 more.
    """
    return math.sqrt(times) / mu * (1 + 1e-9)


MOST_NOISE: Final = 1e6
"""The largest noise multiplier that is searched."""

_ORDERS: Final = np.array([*range(2, 65), *range(68, 129, 4), *range(144, 513, 16)])
"""Renyi orders that are tried; the papers search 1 to 512."""

_HALVINGS: Final = 40


def least_epsilon(delta: float) -> float:
    """What is reported for endless noise: below it no noise reaches."""
    return math.log(1 / delta) / (int(_ORDERS[-1]) - 1)


def reported_epsilon(
    rate: float,
    multiplier: float,
    steps: int,
    delta: float,
) -> float:
    """The epsilon at ``delta`` of ``steps`` Poisson samples of ``rate``, with Gaussian noise of
    ``multiplier`` times the clip on each sum (Mironov, Talwar, Zhang 2019, section 3.3; the
    conversion of Mironov 2017, proposition 3).
    """
    # Moments add up over steps; each order gives an epsilon, and the least of them is reported.
    divergences = steps * _renyi_divergences(rate, multiplier)
    return float((divergences + math.log(1 / delta) / (_ORDERS - 1)).min())


@cache
def noise_multiplier(
    rate: float,
    steps: int,
    epsilon: float,
    delta: float,
) -> float:
    """The least multiplier at which ``epsilon`` is reported, to one part in a million;
    ``MOST_NOISE`` where none does.
    """
    # Bisection on a logarithmic scale.
    low, high = 0.2, MOST_NOISE
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        if reported_epsilon(rate, middle, steps, delta) <= epsilon:
            high = middle
        else:
            low = middle
    return high


def _renyi_divergences(rate: float, multiplier: float) -> Floats:
    """Of one sampled sum, at each of the orders a, for rate q and multiplier s: the logarithm of
    the sum over k of C(a,k) (1-q)^(a-k) q^k e^((k^2-k)/(2 s^2)), over a - 1.
    """
    # Without sampling it is the divergence of the Gaussian mechanism.
    if rate >= 1:
        return _ORDERS / (2 * multiplier**2)
    ways, drawn, left = _binomials()
    # All terms in logarithms: binomials and exponentials overflow.
    logs = (
        ways
        + drawn * math.log(rate)
        + left * math.log1p(-rate)
        + (drawn**2 - drawn) / (2 * multiplier**2)
    )
    # The largest is taken out of the sum, so that none overflows.
    largest = logs.max(axis=1)
    sums = np.exp(logs - largest[:, None]).sum(axis=1)
    return np.asarray(np.maximum(0.0, largest + np.log(sums)) / (_ORDERS - 1))


@cache
def _binomials() -> tuple[Floats, Ints, Ints]:
    """For each order a (rows) and each k from 0 to the largest: ln C(a,k), which is -infinity for k
    above a; k; and a - k, at least 0.
    """
    logarithms = np.log(np.maximum(np.arange(_ORDERS[-1] + 1), 1))
    factorials = np.cumsum(logarithms)
    drawn = np.arange(_ORDERS[-1] + 1)[None, :]
    order = _ORDERS[:, None]
    left = np.maximum(order - drawn, 0)
    ways = factorials[order] - factorials[drawn] - factorials[left]
    return np.where(drawn <= order, ways, -np.inf), drawn, left

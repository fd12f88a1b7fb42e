"""What the papers on generative models report as epsilon, and the noise that they take for it.

For each network by itself: a model of two networks spends the reported epsilon twice.
"""

import math
from functools import cache
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats

MOST_NOISE: Final = 1e6
"""The largest noise multiplier that is searched."""

_ORDERS: Final = np.array([*range(2, 65), *range(68, 129, 4), *range(144, 513, 16)])
"""Renyi orders that are tried; the papers search 1 to 512."""

_HALVINGS: Final = 40


def least_epsilon(delta: float) -> float:
    """What is reported for endless noise: below it no noise reaches."""
    return math.log(1 / delta) / (int(_ORDERS[-1]) - 1)


def reported_epsilon(rate: float, multiplier: float, steps: int, delta: float) -> float:
    """The epsilon at ``delta`` of ``steps`` Poisson samples of ``rate``, with Gaussian noise of
    ``multiplier`` times the clip on each sum (Mironov, Talwar, Zhang 2019, section 3.3; the
    conversion of Mironov 2017, proposition 3).
    """
    best = math.inf
    for order in _ORDERS.tolist():
        divergence = steps * _renyi_divergence(rate, multiplier, order)
        best = min(best, divergence + math.log(1 / delta) / (order - 1))
    return best


@cache
def noise_multiplier(rate: float, steps: int, epsilon: float, delta: float) -> float:
    """The least multiplier at which ``epsilon`` is reported, to one part in a million;
    ``MOST_NOISE`` where none does.
    """
    low, high = 0.2, MOST_NOISE
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        if reported_epsilon(rate, middle, steps, delta) <= epsilon:
            high = middle
        else:
            low = middle
    return high


def _renyi_divergence(rate: float, multiplier: float, order: int) -> float:
    """Of one sampled sum, of order a, rate q and multiplier s: the logarithm of the sum over k of
    C(a,k) (1-q)^(a-k) q^k e^((k^2-k)/(2 s^2)), over a - 1.
    """
    if rate >= 1:
        return order / (2 * multiplier**2)
    ways = _log_factorials(order)
    drawn = np.arange(order + 1)
    logs = (
        ways[order]
        - ways[drawn]
        - ways[order - drawn]
        + drawn * math.log(rate)
        + (order - drawn) * math.log1p(-rate)
        + (drawn**2 - drawn) / (2 * multiplier**2)
    )
    largest = float(logs.max())
    return max(0.0, largest + math.log(float(np.exp(logs - largest).sum()))) / (order - 1)


def _log_factorials(most: int) -> Floats:
    """ln 0! to ln most!."""
    steps = np.log(np.maximum(np.arange(most + 1), 1))
    return np.asarray(np.cumsum(steps))

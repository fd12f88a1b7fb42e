"""Shares with confidence bounds."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from cloakwork.evaluation.risk_figures import Share

NORMAL_95: Final = 1.959963984540054
"""Standard deviations on either side that hold 95 % of a normal distribution."""


def share_of(chances: Sequence[float], *, census: bool) -> Share:
    """The mean of chances from 0 to 1, with Wilson's score interval at 95 % (Wilson 1927).

    ``census``: nothing was drawn at random, so there is nothing to bound.
    """
    mean = min(1.0, max(0.0, float(np.mean(chances))))
    if census:
        return Share(share=mean, low=mean, high=mean)
    middle, half = wilson(mean, len(chances))
    return Share(
        share=mean, low=max(0.0, min(mean, middle - half)), high=max(mean, min(1.0, middle + half))
    )


def wilson(mean: float, number: float, normal: float = NORMAL_95) -> tuple[float, float]:
    """The middle of Wilson's interval and half its width, ``normal`` standard deviations; a mean of
    chances varies no more than one of outcomes.
    """
    square = normal**2
    middle = (mean * number + square / 2) / (number + square)
    spread = number * mean * (1 - mean) + square / 4
    return middle, normal / (number + square) * math.sqrt(spread)


def excess(attack: Sequence[float], control: Sequence[float]) -> Share:
    """What an attack finds beyond its control: (attack - control) / (1 - control), bounds by
    propagated errors (Giomi et al. 2023, section 3).
    """
    rate, error = wilson(float(np.mean(attack)), len(attack))
    base, base_error = wilson(float(np.mean(control)), len(control))
    value = (rate - base) / (1 - base)
    apart = math.hypot(error / (1 - base), base_error * (rate - 1) / (1 - base) ** 2)

    def bound(share: float) -> float:
        return min(1.0, max(0.0, share))

    return Share(share=bound(value), low=bound(value - apart), high=bound(value + apart))

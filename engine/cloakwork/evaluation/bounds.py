"""Shares with confidence bounds, and how well scores tell members from others."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.evaluation.risk_figures import Share

NORMAL_95: Final = 1.959963984540054
"""Standard deviations on either side that hold 95 % of a normal distribution."""

NORMAL_999: Final = 3.2905267314919255
"""The same for 99.9 %."""

_POINTS: Final = 200
"""Of a curve that is kept."""


def share_of(chances: Sequence[float], *, census: bool) -> Share:
    """The mean of chances from 0 to 1, with Wilson's score interval at 95 % (Wilson 1927).

    ``census``: nothing was drawn at random, so there is nothing to bound.
    """
    mean = float(np.mean(chances))
    mean = min(1.0, max(0.0, mean))
    middle, half = (mean, 0.0) if census else wilson(mean, len(chances))
    return _bounded(mean, middle, half)


def wilson(
    mean: float,
    number: float,
    normal: float = NORMAL_95,
) -> tuple[float, float]:
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
    # Each rate's error times the derivative of the value by that rate (delta method).
    apart = math.hypot(error / (1 - base), base_error * (rate - 1) / (1 - base) ** 2)
    return _bounded(max(0.0, value), value, apart)


def _bounded(share: float, middle: float, half: float) -> Share:
    """An interval that holds the share itself, whatever rounding did."""
    low = min(share, max(0.0, middle - half))
    high = max(share, min(1.0, middle + half))
    return Share(share=share, low=low, high=high)


@dataclass(frozen=True, slots=True)
class JudgedScores:
    """Scores of targets in releases, each release drawn independently of the others: bounds allow
    for what targets of one release have in common.

    ``scores``: float64, shape (releases, targets). ``member``: bool, of the same shape.
    """

    scores: Floats
    member: Bools

    def of_targets(self, chosen: Ints) -> "JudgedScores":
        """Those of some of the targets."""
        return JudgedScores(self.scores[:, chosen], self.member[:, chosen])

    @property
    def can_be_judged(self) -> bool:
        """Whether there are members and others."""
        return bool(self.member.any() and not self.member.all())

    def area(self) -> Share:
        """The area under the curve of true against false positives, at 95 % confidence: of
        clusters of scores (Obuchowski 1997), one cluster a release.
        """
        inside = np.sort(self.scores[self.member])
        outside = np.sort(self.scores[~self.member])
        # For each member which share of the others it is above; for each other, which share of
        # the members is above it. The mean of either is the area.
        above = _share_below(outside, self.scores) * self.member
        below = (1 - _share_below(inside, self.scores)) * ~self.member
        found = float(above.sum() / len(inside))
        # How far the sums of each release are from what the area makes expect there.
        of_members = above.sum(axis=1) - self.member.sum(axis=1) * found
        of_others = below.sum(axis=1) - (~self.member).sum(axis=1) * found
        summed = of_members / len(inside) + of_others / len(outside)
        releases = len(self.scores)
        # Between clusters, with n / (n - 1) as for the variance of any sample (Obuchowski 1997).
        variance = releases / max(1, releases - 1) * float(np.square(summed).sum())
        apart = NORMAL_95 * math.sqrt(variance)
        return _bounded(found, found, apart)

    def threshold(self, at_most: float) -> float:
        """The least score above which at most the share ``at_most`` of the others lies."""
        outside = np.sort(self.scores[~self.member])[::-1]
        # Scores above the one at this place are at most that share of the others.
        return float(outside[min(int(at_most * len(outside)), len(outside) - 1)])

    def rates(self, threshold: float, normal: float = NORMAL_95) -> tuple[Share, Share]:
        """The shares of others and of members that score above ``threshold``; bounds lie
        ``normal`` standard deviations away.
        """
        above = self.scores > threshold
        return _rate(above, ~self.member, normal), _rate(above, self.member, normal)

    def curve(self) -> tuple[tuple[float, float], ...]:
        """Points (false positives, true positives), ascending, some hundred of them, from (0, 0) to
        (1, 1); denser where there are few false positives.
        """
        order = np.argsort(-self.scores.ravel(), kind="stable")
        scores = self.scores.ravel()[order]
        member = self.member.ravel()[order]
        # Equal scores are one point.
        last = np.flatnonzero(np.append(np.diff(scores) != 0, True))
        true = np.cumsum(member)[last] / member.sum()
        false = np.cumsum(~member)[last] / (~member).sum()
        # Of all points those at some shares of false positives, by powers and evenly.
        sought = np.concatenate([np.geomspace(1e-4, 1, _POINTS // 2), np.linspace(0, 1, 51)])
        chosen = np.searchsorted(false, sought, side="right") - 1
        rows = np.unique(chosen[chosen >= 0])
        points = zip(false[rows].tolist(), true[rows].tolist(), strict=True)
        return ((0.0, 0.0), *points)


def _share_below(values: Floats, scores: Floats) -> Floats:
    """Which share of the ascending ``values`` each score is above; equal ones count half."""
    below = np.searchsorted(values, scores) + np.searchsorted(values, scores, side="right")
    shares: Floats = below / (2 * len(values))
    return shares


def _rate(above: Bools, counted: Bools, normal: float) -> Share:
    """The share of the ``counted`` that lie ``above``, with Wilson's bounds for as many
    independent scores as would vary as much from release to release; at least one a release.
    """
    of_release = (above & counted).sum(axis=1)
    sizes = counted.sum(axis=1)
    number, releases = int(sizes.sum()), len(sizes)
    share = float(of_release.sum() / number)
    # The variance of the share, by how far releases are apart.
    squares = float(np.square(of_release - share * sizes).sum())
    variance = releases / max(1, releases - 1) * squares / number**2
    effective = float(releases)
    if variance > 0:
        # As many independent scores as give a binomial share this variance.
        effective = min(float(number), max(effective, share * (1 - share) / variance))
    return _bounded(share, *wilson(share, effective, normal))

"""How well scores tell members from others, with bounds that allow for what targets of one release
have in common.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.evaluation.bounds import NORMAL_95, wilson
from cloakwork.evaluation.risk_figures import Share

NORMAL_999: Final = 3.2905267314919255
"""Standard deviations on either side that hold 99.9 % of a normal distribution."""

_POINTS: Final = 200
"""Of a curve that is kept."""


@dataclass(frozen=True, slots=True)
class JudgedScores:
    """Scores of targets in releases, each release drawn independently of the others.

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
        inside, outside = np.sort(self.scores[self.member]), np.sort(self.scores[~self.member])
        members, others = len(inside), len(outside)
        above = _share_below(outside, self.scores) * self.member
        below = (1 - _share_below(inside, self.scores)) * ~self.member
        found = float(above.sum() / members)
        in_release = self.member.sum(axis=1)
        of_members = above.sum(axis=1) - in_release * found
        of_others = below.sum(axis=1) - (~self.member).sum(axis=1) * found
        releases = len(self.scores)
        summed = of_members / members + of_others / others
        deviation = math.sqrt(releases / max(1, releases - 1) * float(np.square(summed).sum()))
        low = max(0.0, found - NORMAL_95 * deviation)
        return Share(share=found, low=low, high=min(1.0, found + NORMAL_95 * deviation))

    def threshold(self, at_most: float) -> float:
        """The least score above which at most the share ``at_most`` of the others lies."""
        outside = np.sort(self.scores[~self.member])[::-1]
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
        scores, member = self.scores.ravel()[order], self.member.ravel()[order]
        # Equal scores are one point.
        last = np.flatnonzero(np.append(np.diff(scores) != 0, True))
        true = np.cumsum(member)[last] / member.sum()
        false = np.cumsum(~member)[last] / (~member).sum()
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
    of_release, sizes = (above & counted).sum(axis=1), counted.sum(axis=1)
    number, releases = int(sizes.sum()), len(sizes)
    share = float(of_release.sum() / number)
    squares = float(np.square(of_release - share * sizes).sum())
    variance = releases / max(1, releases - 1) * squares / number**2
    effective = float(releases)
    if variance > 0:
        effective = min(float(number), max(effective, share * (1 - share) / variance))
    middle, half = wilson(share, effective, normal)
    low, high = min(share, max(0.0, middle - half)), max(share, min(1.0, middle + half))
    return Share(share=share, low=low, high=high)

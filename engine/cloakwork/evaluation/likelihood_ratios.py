"""How much likelier what a release shows of a target is with the target in the log than without:
the likelihood-ratio attack (Carlini et al. 2022), by normal distributions of one covariance.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.evaluation.shadow_runs import ShadowRuns

_RUNS_OF_GROUP: Final = 20
"""Runs that the covariance of a target's group counts for beside its own."""

_LEAST_VARIANCE: Final = 1e-6
_DECIMALS: Final = 9


@dataclass(frozen=True, slots=True)
class LikelihoodRatios:
    """What membership changes in the statistics of each target, learned from shadow runs.

    ``middle`` and ``weights``: float64, shape (targets, statistics); the logarithm of the ratio is
    the product of ``weights`` with the distance from ``middle``.
    """

    middle: Floats
    weights: Floats

    @classmethod
    def learned(cls, runs: ShadowRuns, group: Ints) -> "LikelihoodRatios":
        """From runs; ``group``: int64, shape (targets,): targets that are alike.

        Few runs tell little of one target. So its effect is drawn towards the mean effect of its
        group, by as much as chance explains the difference (James and Stein 1961), and so is its
        covariance.
        """
        values, member = runs.statistics, runs.member[:, :, None]
        inside, outside = member.sum(axis=0), (~member).sum(axis=0)
        mean_inside = np.where(member, values, 0.0).sum(axis=0) / np.maximum(inside, 1)
        mean_outside = np.where(member, 0.0, values).sum(axis=0) / np.maximum(outside, 1)
        known = (inside[:, 0] > 0) & (outside[:, 0] > 0)
        effect = np.where(known[:, None], mean_inside - mean_outside, 0.0)
        residual = values - np.where(member, mean_inside, mean_outside)
        own = np.einsum("rti,rtj->tij", residual, residual) / max(1, len(runs) - 2)
        covariance, expected = np.empty_like(own), np.empty_like(effect)
        for each in np.unique(group):
            alike = group == each
            shared = own[alike].mean(axis=0)
            added = (len(runs) * own[alike] + _RUNS_OF_GROUP * shared) / (
                len(runs) + _RUNS_OF_GROUP
            )
            covariance[alike] = added
            rows = alike & known
            expected[alike] = effect[rows].mean(axis=0) if rows.any() else 0.0
        covariance += _LEAST_VARIANCE * np.eye(values.shape[2])
        error = 1 / np.maximum(inside[:, 0], 1) + 1 / np.maximum(outside[:, 0], 1)
        effect = expected + _kept(effect - expected, covariance, error, known)
        weights = np.linalg.solve(covariance, effect[:, :, None])[:, :, 0]
        middle = (values - (member - 0.5) * effect).mean(axis=0)
        return cls(middle, weights)

    def scores(self, runs: ShadowRuns) -> Floats:
        """The logarithm of each ratio: float64, shape (runs, targets)."""
        found = ((runs.statistics - self.middle) * self.weights).sum(axis=2)
        # What differs by rounding alone is the same.
        rounded: Floats = np.round(found, _DECIMALS)
        return rounded


def _kept(apart: Floats, covariance: Floats, error: Floats, known: Floats) -> Floats:
    """What of the differences ``apart`` chance does not explain."""
    solved = np.linalg.solve(covariance, apart[:, :, None])[:, :, 0]
    distance = (apart * solved).sum(axis=1) / error
    share = np.maximum(0.0, 1 - apart.shape[1] / np.maximum(distance, 1e-12))
    return np.where(known, share, 0.0)[:, None] * apart

"""Multinomial logistic regressions over bins of a log scale, fitted by gradient steps under noise.

The probability of bin b, given inputs x, is proportional to e^(base[b] + (x W) . curve[b]):
``base`` is what is expected of everything, and W (inputs, outputs) weighs curves over the bins, of
which finer ones are flatter. What is learned goes into few numbers, by which all groups that share
an input differ from others; a table has a cell for each group and bin, and noise in each.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats
from cloakwork.kernel import Kernel
from cloakwork.kernel.gradients import Gradient
from cloakwork.mechanisms.timestamps.regression_params import GradientSteps

PACE: Final = 1.0
"""By how much noise moves a weight over all steps, about, where data tell nothing of it."""

CAUTION: Final = 0.5
"""The part of Newton's step that is taken where data tell much."""

SETTLED: Final = 0.5
"""The weights are the mean over so large a part of the steps, the last ones."""


def cosines_over(bins: int, number: int) -> Floats:
    """Cosines over the bins, the j-th with j half-waves and mean square 1: shape (bins, number);
    zeros from the j-th on where there are so few bins.
    """
    waves = np.arange(1, number + 1)
    middle = (np.arange(bins) + 0.5) / bins
    heights = np.where(waves < bins, np.sqrt(2), 0.0)
    return np.asarray(np.cos(np.pi * middle[:, None] * waves) * heights)


def distributions_of(base: Floats, inputs: Floats, weights: Floats, curves: Floats) -> Floats:
    """The distribution over the bins for each row of ``inputs``: shape (rows, bins)."""
    weights = weights.reshape(inputs.shape[1], curves.shape[1])
    logits = base + inputs @ weights @ curves.T
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def bends_of_curves(base: Floats, curves: Floats) -> Floats:
    """How curves vary where the bins are as ``base`` (a logarithm) expects: their covariance, shape
    (outputs, outputs).
    """
    expected = np.exp(base - base.max())
    expected /= expected.sum()
    mean = expected @ curves
    return np.asarray((curves * expected[:, None]).T @ curves - np.outer(mean, mean))


def fitted(
    gradient: Gradient,
    steps: GradientSteps,
    kernel: Kernel,
    cases: int,
    moments: Floats,
    covariance: Floats,
) -> Floats:
    """Weights after all ``steps``, the mean of the last ones: float64, shape (steps.size,).

    ``cases``: how many the log has, about. ``moments`` (inputs, inputs) and ``covariance``
    (outputs, outputs) say how the likelihood bends, from released cases alone: the moments of
    inputs, a case each, and the covariance of curves.
    """
    descent = steps.descent(cases)
    ascent = _Ascent.along(moments, covariance, steepest_step(steps, cases))
    kernel.steps(gradient, np.zeros(steps.size), ascent.update, descent)
    last = ascent.path[-max(1, int(SETTLED * steps.times)) :]
    return np.asarray(np.mean(last, axis=0))


def steepest_step(steps: GradientSteps, cases: int) -> float:
    """What a gradient is multiplied by in directions of which data tell little: such that noise
    alone moves a weight by about ``PACE`` over all steps.
    """
    return PACE * cases * steps.mu / (steps.norm * steps.times * steps.max_cases)


@dataclass(frozen=True, slots=True)
class _Ascent:
    """Steps up the likelihood, shorter in directions in which it bends more (Newton's, damped).

    ``of_inputs``, ``of_curves``: the directions, a column each; ``sizes``: of steps along them,
    shape (inputs, outputs). ``path``: the weights after each step.
    """

    of_inputs: Floats
    of_curves: Floats
    sizes: Floats
    path: list[Floats]

    @classmethod
    def along(cls, moments: Floats, covariance: Floats, steepest: float) -> "_Ascent":
        """In the directions in which inputs and curves vary."""
        inputs, of_inputs = np.linalg.eigh(moments)
        curves, of_curves = np.linalg.eigh(covariance)
        bends = np.outer(np.maximum(inputs, 0), np.maximum(curves, 0))
        return cls(of_inputs, of_curves, CAUTION / (bends + CAUTION / steepest), [])

    def update(self, weights: Floats, mean: Floats) -> Floats:
        """The next weights."""
        turned = self.of_inputs.T @ mean.reshape(self.sizes.shape) @ self.of_curves
        step = self.of_inputs @ (turned * self.sizes) @ self.of_curves.T
        self.path.append(np.asarray(weights + step.reshape(-1)))
        return self.path[-1]

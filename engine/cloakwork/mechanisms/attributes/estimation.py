"""Estimates of many counts at once from noisy ones: how they are spread is learnt from all of them,
and each is then what it is expected to be (empirical Bayes).
"""

from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats

GRID: Final = 60
"""Sizes that a count may have, beside next to none."""

STEPS: Final = 60
"""Of expectation and maximisation."""

LARGEST_RATIO: Final = 128.0
"""A count is at most so many times what was expected of it."""

_MOST_ROWS: Final = 20_000
"""Counts that the spread is learnt from, and that are looked at together."""

_NONE: Final = 1e-3
"""Next to none, in deviations of the noise, or as a share of what was expected."""


def expected_counts(counts: Floats, sigma: float) -> Floats:
    """What each of ``counts`` is expected to be without its noise, of deviation ``sigma`` (above
    0): above 0, of the same shape.

    Their spread is the one under which they are likeliest (Kiefer and Wolfowitz 1956), which loses
    little where most counts are none (Jiang and Zhang 2009).
    """
    largest = max(float(counts.max(initial=0.0)), sigma)
    sizes = np.concatenate([[_NONE * sigma], np.geomspace(sigma / 8, largest, GRID)])
    return _means(counts, np.ones_like(counts), sizes, sigma)


def expected_beside(counts: Floats, guess: Floats, sigma: float) -> Floats:
    """The same, where ``guess`` (above 0) says what they should be like: estimated is how many
    times that they are.
    """
    ratios = np.geomspace(1 / LARGEST_RATIO, LARGEST_RATIO, GRID)
    return _means(counts, guess, np.concatenate([[_NONE], ratios]), sigma) * guess


def _means(counts: Floats, unit: Floats, sizes: Floats, sigma: float) -> Floats:
    """The posterior mean of each count's size, in units of ``unit``; sizes are those of a grid."""
    flat, scale = counts.ravel(), unit.ravel()
    if not len(flat):
        return counts
    some = slice(None, None, -(-len(flat) // _MOST_ROWS))
    likelihood = _likelihood(flat[some], scale[some], sizes, sigma)
    weight = np.full(len(sizes), 1 / len(sizes))
    for _ in range(STEPS):
        weight = _posterior(likelihood, weight).mean(axis=0)
    found = np.empty(len(flat))
    for begin in range(0, len(flat), _MOST_ROWS):
        part = slice(begin, begin + _MOST_ROWS)
        found[part] = _posterior(_likelihood(flat[part], scale[part], sizes, sigma), weight) @ sizes
    return found.reshape(counts.shape)


def _likelihood(counts: Floats, unit: Floats, sizes: Floats, sigma: float) -> Floats:
    """Of each count (row) under each size (column), up to a factor a row."""
    square = ((counts[:, None] - unit[:, None] * sizes) / sigma) ** 2
    return np.asarray(np.exp((square.min(axis=1, keepdims=True) - square) / 2), np.float64)


def _posterior(likelihood: Floats, weight: Floats) -> Floats:
    # No weight reaches zero, so each row has some.
    posterior = likelihood * np.maximum(weight, 1e-12)
    return np.asarray(posterior / posterior.sum(axis=1, keepdims=True), np.float64)

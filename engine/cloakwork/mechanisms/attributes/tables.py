"""From noisy counts of values to distributions: post-processing, which costs nothing.

Counts that do not stand out of their noise are not believed: a group (the events of an activity)
is taken to be like all groups of its attribute where its own counts say nothing else, and what
counts add up to is kept.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.arrays import Bools, Floats

STANDS_OUT: Final = 3.0
"""How many deviations of its noise a count must differ by, to be believed as it is."""

ROUNDS: Final = 3
"""How often groups learn from those before them: values travel so many steps further."""

GRID: Final = 60
"""Sizes that a count without noise may have, where these are estimated."""

STEPS: Final = 100
"""Of that estimate (expectation and maximisation)."""

PLAUSIBLE: Final = 2.5
"""Within how many deviations a share is taken to be none, or all."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Noisy counts of one attribute, float64, in cases.

    ``values``: shape (groups, values), with noise of deviation ``sigma``. ``totals``: what each
    group's values add up to, shape (groups,), with noise of deviation ``total_sigma``; ``mass``:
    how many cases have the group, with noise of deviation ``mass_sigma``.
    """

    values: Floats
    sigma: float
    totals: Floats
    total_sigma: float
    mass: Floats
    mass_sigma: float


@dataclass(frozen=True, slots=True)
class Distribution:
    """The values of one attribute by group: ``present``, the share that has one, shape (groups,);
    ``shape``: how often each of these is, shape (groups, values), rows that add up to 1.
    """

    present: Floats
    shape: Floats


def totals_of(values: Floats, sigma: float, alone: Floats | None, alone_sigma: float) -> Floats:
    """Each group's total, shape (groups,): what its values add up to, and its own count if any,
    weighted by how precise they are.
    """
    added: Floats = values.sum(axis=1)
    variance = sigma**2 * max(values.shape[1], 1)
    if alone is None:
        return added
    weight = alone_sigma**2 / (variance + alone_sigma**2)
    return np.asarray(weight * added + (1 - weight) * alone, np.float64)


def fitted(counted: Counted, passed_on: Floats | None = None) -> Distribution:
    """What the counts say, with the noise taken out as far as it can be.

    ``passed_on``: for each group (row) the share of its values that are known to be those of each
    group (column), shape (groups, groups), rows that add up to 1 at most: of activities that come
    before it. What else a group is expected to be like are all groups together.
    """
    present = _present(counted)
    mass = np.where(present > 0, np.maximum(counted.totals, 0.0), 0.0)
    everywhere = _over_all_groups(counted, present > 0)
    parents = np.broadcast_to(everywhere, counted.values.shape)
    shape = _of_groups(counted, mass, parents)
    if passed_on is not None:
        known = np.where(mass > 0, passed_on, 0.0)
        rest = 1 - known.sum(axis=1, keepdims=True)
        for _ in range(ROUNDS):
            shape = _of_groups(counted, mass, known @ shape + rest * everywhere)
    return Distribution(present, shape)


def _of_groups(counted: Counted, mass: Floats, parents: Floats) -> Floats:
    """The shape of each group, expected to be like its row of ``parents``."""
    rows = zip(counted.values, mass, parents, strict=True)
    shapes = [_of_group(row, total, parent, counted.sigma) for row, total, parent in rows]
    return np.array(shapes).reshape(counted.values.shape)


def _present(counted: Counted) -> Floats:
    """The share of each group that has a value: none or all, where that is plausible; where both
    are, the share over all groups.
    """
    totals, mass = counted.totals, np.maximum(counted.mass, 0.0)
    overall = float(np.clip(totals.sum() / max(mass.sum(), 1e-9), 0.0, 1.0))
    some = totals > PLAUSIBLE * counted.total_sigma
    apart = np.hypot(counted.total_sigma, counted.mass_sigma)
    all_of_them = mass - totals < PLAUSIBLE * apart
    share = np.clip(totals / np.maximum(mass, 1e-9), 0.0, 1.0)
    share = np.where(all_of_them, 1.0, share)
    return np.where(some, share, np.where(all_of_them, overall, 0.0))


def _over_all_groups(counted: Counted, used: Bools) -> Floats:
    """The shape over all groups that are ``used``: shape (values,)."""
    size = counted.values.shape[1]
    counts = counted.values[used].sum(axis=0)
    sigma = counted.sigma * np.sqrt(max(int(used.sum()), 1))
    if not len(counts) or not used.any() or sigma <= 0:
        return np.full(size, 1 / max(size, 1))
    expected = _expected(counts, sigma)
    return expected / expected.sum()


def _expected(counts: Floats, sigma: float) -> Floats:
    """What each count is expected to be without its noise, given all: at least 0, shape (values,).

    Where they lie is estimated from the counts themselves (the nonparametric maximum likelihood of
    Kiefer and Wolfowitz 1956; Jiang and Zhang 2009, for means that are mostly none).
    """
    most = max(float(counts.max()), sigma)
    grid = np.concatenate([[1e-3 * sigma], np.geomspace(sigma / 8, most, GRID)])
    scaled = (counts[:, None] - grid) / sigma
    likelihood = np.exp(-(scaled**2 - (scaled**2).min(axis=1, keepdims=True)) / 2)
    weight = np.full(len(grid), 1 / len(grid))
    for _ in range(STEPS):
        posterior = likelihood * weight
        posterior /= posterior.sum(axis=1, keepdims=True)
        weight = posterior.mean(axis=0)
    return np.asarray(posterior @ grid, np.float64)


def _of_group(counts: Floats, total: float, parent: Floats, sigma: float) -> Floats:
    """A shape for ``counts`` that add up to ``total``, where they are expected to be like
    ``parent``.

    A count that stands out of the expected one is kept. The others are drawn towards it, the more
    the less they vary beyond their noise (James and Stein 1961, with the variance estimated), and
    scaled to what is left of the total.
    """
    if total <= 0 or not len(counts):
        return parent
    expected = parent * total
    residual = counts - expected
    stands_out = np.abs(residual) > STANDS_OUT * sigma
    others = residual[~stands_out]
    beyond = float(np.mean(others**2) - sigma**2) if len(others) else 0.0
    shrunk = expected + max(beyond, 0.0) / (max(beyond, 0.0) + sigma**2) * residual
    kept = np.where(stands_out, np.maximum(counts, 0.0), 0.0)
    rest = np.where(stands_out, 0.0, np.maximum(shrunk, 0.0))
    left = max(total - float(kept.sum()), 0.0)
    if rest.sum() > 0:
        kept += rest * (left / rest.sum())
    return kept / kept.sum() if kept.sum() > 0 else parent

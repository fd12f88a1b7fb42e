"""From noisy counts of values to distributions: post-processing, which costs nothing.

What does not stand out of its noise is not believed: a group (the events of an activity) is taken
to be like the groups that it shares values with, and like all groups of its attribute, where its
own counts say nothing else.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats
from cloakwork.mechanisms.attributes.estimation import expected_beside, expected_counts

PLAUSIBLE: Final = 2.5
"""Within how many deviations a share is taken to be none, or all."""

ROUNDS: Final = 3
"""How often groups learn from those before them: values travel so many steps further."""

_LEAST: Final = 1e-9


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
class ValueShares:
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


def fitted(counted: Counted, passed_on: Floats) -> ValueShares:
    """What the counts say, with the noise taken out as far as it can be.

    ``passed_on``: for each group (row) the share of its values that are known to be those of each
    group (column), shape (groups, groups), rows that add up to 1 at most: of activities that come
    before it. What else a group is expected to be like are all groups together.
    """
    present = _present(counted)
    used = (present > 0) & (counted.totals > 0)
    everywhere = _over_all_groups(counted, used)
    shape = np.tile(everywhere, (len(present), 1))
    if used.sum() > 1 and len(everywhere):
        parents = shape
        known = np.where(used, passed_on, 0.0)
        rest = 1 - known.sum(axis=1, keepdims=True)
        for _ in range(1 + ROUNDS * bool(known.any())):
            shape = _of_groups(counted, used, parents)
            parents = known @ shape + rest * everywhere
    return ValueShares(present, shape)


def _present(counted: Counted) -> Floats:
    """The share of each group that has a value: none or all, where that is plausible; where both
    are, the share over all groups.
    """
    totals, mass = counted.totals, np.maximum(counted.mass, 0.0)
    if not counted.values.shape[1]:
        return np.zeros(len(totals))
    overall = float(np.clip(totals.sum() / max(mass.sum(), _LEAST), 0.0, 1.0))
    some = totals > PLAUSIBLE * counted.total_sigma
    apart = np.hypot(counted.total_sigma, counted.mass_sigma)
    all_of_them = mass - totals < PLAUSIBLE * apart
    share = np.clip(totals / np.maximum(mass, _LEAST), 0.0, 1.0)
    share = np.where(all_of_them, 1.0, share)
    return np.where(some, share, np.where(all_of_them, overall, 0.0))


def _over_all_groups(counted: Counted, used: Bools) -> Floats:
    """The shape over all groups that are ``used``, shape (values,); even, where there are none."""
    size = counted.values.shape[1]
    if not used.any() or not size:
        return np.full(size, 1 / max(size, 1))
    counts = counted.values[used].sum(axis=0)
    expected = expected_counts(counts, counted.sigma * float(np.sqrt(used.sum())))
    return np.asarray(expected / expected.sum(), np.float64)


def _of_groups(counted: Counted, used: Bools, parents: Floats) -> Floats:
    """The shape of each group that is ``used``, expected to be like its row of ``parents``; of the
    others that.
    """
    guess = np.maximum(counted.totals[used, None] * parents[used], _LEAST)
    found = expected_beside(counted.values[used], guess, counted.sigma)
    shape = parents.copy()
    shape[used] = found / found.sum(axis=1, keepdims=True)
    return shape

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


def fitted(counted: Counted) -> Distribution:
    """What the counts say, with the noise taken out as far as it can be."""
    present = _present(counted)
    mass = np.where(present > 0, np.maximum(counted.totals, 0.0), 0.0)
    everywhere = _over_all_groups(counted, present > 0)
    shape = np.array(
        [
            _of_group(row, total, everywhere, counted.sigma)
            for row, total in zip(counted.values, mass, strict=True)
        ]
    ).reshape(counted.values.shape)
    return Distribution(present, shape)


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
    even = np.full(size, 1 / max(size, 1))
    counts = counted.values[used].sum(axis=0)
    sigma = counted.sigma * np.sqrt(max(int(used.sum()), 1))
    return _of_group(counts, float(np.maximum(counted.totals[used], 0).sum()), even, sigma)


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

"""Distances between samples, group by group: total variation of codes, Wasserstein-1 of numbers.

All groups at once, by sorting: no loop over groups, whose number is that of directly-follows pairs
or activities. A group is an integer from 0; a sample is two arrays of one length, the group and the
value of each of its members.
"""

from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints

MISSING: Final = -1
"""The code of a value that is missing."""

_ROUNDING: Final = 1e-12


def total_variation(
    source: tuple[Ints, Ints], release: tuple[Ints, Ints], groups: int, codes: int
) -> Floats:
    """For each group, half the sum of |share in the source - share in the release| over the codes.

    ``source`` and ``release``: group and code of each member, int64 of one length; codes lie from
    MISSING to ``codes - 1``. Shape (groups,), between 0 and 1; 1 where one side alone has the
    group, NaN where neither has.
    """
    sides = (source, release)
    keys = [group * (codes + 1) + code + 1 for group, code in sides]
    cells, cell_of = np.unique(np.concatenate(keys), return_inverse=True)
    split = len(keys[0])
    group_of_cell = cells // (codes + 1)
    shares = []
    for (group, _), places in zip(sides, (cell_of[:split], cell_of[split:]), strict=True):
        sizes = np.bincount(group, minlength=groups)
        counts = np.bincount(places, minlength=len(cells))
        shares.append(counts / np.maximum(sizes[group_of_cell], 1))
    apart = np.abs(shares[0] - shares[1])
    found = 0.5 * np.bincount(group_of_cell, weights=apart, minlength=groups)
    return _where_both(np.minimum(found, 1.0), source[0], release[0], one_alone=1.0)


def wasserstein(source: tuple[Ints, Floats], release: tuple[Ints, Floats], groups: int) -> Floats:
    """For each group, the area between the distribution functions of both samples (Wasserstein-1,
    in one dimension; Vallender 1974).

    ``source`` and ``release``: group (int64) and value (float64, finite) of each member. Shape
    (groups,), in the unit of the values; NaN where a side lacks the group.
    """
    group = np.concatenate([source[0], release[0]])
    values = np.concatenate([source[1], release[1]])
    before, after = (np.bincount(side[0], minlength=groups) for side in (source, release))
    is_source = np.arange(len(group)) < len(source[0])
    # The sum of these up to a value is the difference of both distribution functions there.
    weights = np.where(
        is_source, 1 / np.maximum(before[group], 1), -1 / np.maximum(after[group], 1)
    )
    order = np.lexsort((values, group))
    group, values, weights = group[order], values[order], weights[order]
    same = group[1:] == group[:-1]
    difference = np.abs(_sums_within(weights, group)[:-1])
    # Sums of floats that are 0 in truth; a real difference is at least 1 over both sizes' product.
    difference[difference < _ROUNDING] = 0.0
    areas = np.where(same, difference * np.diff(values), 0.0)
    found = np.bincount(group[:-1], weights=areas, minlength=groups).astype(np.float64)
    return _where_both(found, source[0], release[0], one_alone=np.nan)


def kolmogorov_smirnov(source: Floats, release: Floats) -> float | None:
    """The largest difference between the distribution functions of two samples, between 0 and 1;
    None where one is empty.
    """
    if not (len(source) and len(release)):
        return None
    places = np.concatenate([source, release])
    shares = [
        np.searchsorted(np.sort(side), places, side="right") / len(side)
        for side in (source, release)
    ]
    return float(np.abs(shares[0] - shares[1]).max())


def weighted_mean(values: Floats, weights: Ints) -> float | None:
    """The mean over the values that are not NaN; None without any weight."""
    known = ~np.isnan(values)
    total = weights[known].sum()
    if not total:
        return None
    return float((values[known] * weights[known]).sum() / total)


def round_edges(least: float, most: float) -> Floats:
    """Edges of 8 to 21 bins of one round width (1, 2, 2.5 or 5 times a power of ten) that cover
    ``least`` to ``most``; two edges where these are the same.
    """
    span = most - least
    if not span > 0:
        return np.array([least, least + 1.0])
    power = 10.0 ** np.floor(np.log10(span / 20))
    widths = power * np.array([1, 2, 2.5, 5, 10, 20])
    # One bin more than span / width may be needed, where the least value lies inside a bin.
    width = widths[np.argmax(span / widths <= 20 + 1e-9)]
    first = np.floor(least / width + 1e-9)
    bins = max(1, int(np.ceil(most / width - 1e-9) - first))
    return np.asarray((first + np.arange(bins + 1)) * width, np.float64)


def bins_of(values: Floats, edges: Floats) -> Ints:
    """The bin of each value, from 0; values beyond the edges are in the outer bins, NaN is MISSING.

    A bin holds its lower edge and not its upper one, but for the last.
    """
    bins = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    return np.where(np.isnan(values), MISSING, bins).astype(np.int64)


def _sums_within(weights: Floats, group: Ints) -> Floats:
    """Running sums that begin anew with each group; members of a group lie together."""
    sums = np.cumsum(weights)
    begins = np.flatnonzero(np.diff(group, prepend=-1))
    before = np.where(begins > 0, sums[begins - 1], 0.0)
    sizes = np.diff(np.append(begins, len(group)))
    return np.asarray(sums - np.repeat(before, sizes), np.float64)


def _where_both(found: Floats, source: Ints, release: Ints, one_alone: float) -> Floats:
    """``found`` for groups that both sides have; ``one_alone`` where one has it, NaN where none."""
    has_source = np.bincount(source, minlength=len(found)) > 0
    has_release = np.bincount(release, minlength=len(found)) > 0
    found = np.where(has_source & has_release, found, one_alone)
    return np.where(has_source | has_release, found, np.nan)

"""Restore the order of times that noise has disturbed, for all cases at once."""

from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints

_NEAREST: Final = 0.45
"""How much of the way to a neighbour a run may take: below a half, so that two runs never meet."""


def isotonic_projection(values: Floats, offsets: Ints) -> Floats:
    """The non-decreasing sequence nearest to each case's ``values`` in the sense of least squares.

    ``values``: float64, shape (events,), finite; case ``i`` is
    ``values[offsets[i]:offsets[i + 1]]``. Neighbouring blocks that violate the order are pooled
    into their mean (Ayer et al. 1955); pooling all of them at once, in any grouping, gives the same
    result. Cases that are in order take no further part.
    """
    result = values.copy()
    case = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    # Blocks: each begins at ``row``, adds up to ``total`` and covers ``weight`` rows.
    row = np.arange(len(values))
    total = values.copy()
    weight = np.ones(len(values), np.int64)
    while True:
        mean = total / weight
        same_case = case[1:] == case[:-1]
        falls = (mean[1:] < mean[:-1]) & same_case
        if not falls.any():
            break
        disturbed = np.zeros(len(offsets), bool)
        disturbed[case[1:][falls]] = True
        is_open = disturbed[case]
        _write_block_means(result, row, mean, weight, ~is_open)
        # A block that lies below the one before it is pooled with it.
        begins = np.concatenate([[True], ~falls])[is_open]
        first = np.flatnonzero(begins)
        case = case[is_open][first]
        row = row[is_open][first]
        # Each block that begins takes over all up to the next that does.
        total = np.add.reduceat(total[is_open], first)
        weight = np.add.reduceat(weight[is_open], first)
    _write_block_means(result, row, mean, weight, np.ones(len(row), bool))
    return result


def spread_pooled(values: Floats, offsets: Ints, spacing: Ints) -> Floats:
    """Draw apart what ``isotonic_projection`` pooled, around its value.

    ``values``: float64, not decreasing inside a case; case ``i`` is
    ``values[offsets[i]:offsets[i + 1]]``. ``spacing``: int64, positive; how far each event should
    lie behind the one before it; those of a case add up to less than 2**63. A run of equal values
    keeps its mean; where its spacings would reach further than ``_NEAREST`` of the way to a
    neighbour, all of them shrink, so that order is kept.
    """
    if len(values) == 0:
        return values
    case = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    differs = (case[1:] != case[:-1]) | (values[1:] != values[:-1])
    begins = np.concatenate([[True], differs])
    first = np.flatnonzero(begins)
    size = np.diff(first, append=len(values))
    # How far each event lies from the first of its run, then from the run's mean.
    # In integers: the running total may wrap, its differences inside a run are exact all the same,
    # and do not depend on the cases before.
    total = np.cumsum(np.where(begins, 0, spacing))
    shift = (total - np.repeat(total[first], size)).astype(np.float64)
    shift -= np.repeat(np.add.reduceat(shift, first) / size, size)
    same_case = case[first][1:] == case[first][:-1]
    between = np.where(same_case, np.diff(values[first]), np.inf)
    open_end = np.array([np.inf])
    space_below = _NEAREST * np.concatenate([open_end, between])
    space_above = _NEAREST * np.concatenate([between, open_end])
    # A run of one event reaches nowhere: any space is enough for it, and nothing is divided by 0.
    reach_below = np.maximum(-shift[first], 1e-200)
    reach_above = np.maximum(shift[first + size - 1], 1e-200)
    fits = np.minimum(space_below / reach_below, space_above / reach_above)
    share = np.minimum(1.0, fits)
    return np.asarray(values + shift * np.repeat(share, size), np.float64)


def _write_block_means(
    result: Floats,
    row: Ints,
    mean: Floats,
    weight: Ints,
    chosen: Bools,
) -> None:
    """Write the means of the ``chosen`` blocks into their rows, ``row:row + weight``."""
    row, mean, weight = row[chosen], mean[chosen], weight[chosen]
    before = np.concatenate([[0], np.cumsum(weight)])
    # All ranges ``row:row + weight`` end to end, without a loop.
    covered = np.arange(before[-1]) + np.repeat(row - before[:-1], weight)
    result[covered] = np.repeat(mean, weight)

"""Restore the order of times that noise has disturbed, for all cases at once."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

_NEAREST: Final = 0.45
"""How much of the way to a neighbour a run may take: below a half, so that two runs never meet."""


def isotonic_projection(
    values: NDArray[np.float64], offsets: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The non-decreasing sequence nearest to each case's ``values`` in the sense of least squares.

    ``values``: float64, shape (events,), finite; case ``i`` is
    ``values[offsets[i]:offsets[i + 1]]``. Neighbouring blocks that violate the order are pooled
    into their mean (Ayer et al. 1955); pooling all of them at once, in any grouping, gives the same
    result. Cases that are in order take no further part.
    """
    result = values.copy()
    case = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    row, total, weight = np.arange(len(values)), values.copy(), np.ones(len(values), np.int64)
    while True:
        mean = total / weight
        falls = (mean[1:] < mean[:-1]) & (case[1:] == case[:-1])
        if not falls.any():
            break
        disturbed = np.zeros(len(offsets), bool)
        disturbed[case[1:][falls]] = True
        open_blocks = disturbed[case]
        _write_block_means(result, row, mean, weight, ~open_blocks)
        stays = np.concatenate([[True], ~falls])[open_blocks]
        first = np.flatnonzero(stays)
        case, row = case[open_blocks][first], row[open_blocks][first]
        total = np.add.reduceat(total[open_blocks], first)
        weight = np.add.reduceat(weight[open_blocks], first)
    _write_block_means(result, row, mean, weight, np.ones(len(row), bool))
    return result


def spread_pooled(
    values: NDArray[np.float64], offsets: NDArray[np.int64], spacing: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Draw apart what ``isotonic_projection`` pooled, around its value.

    ``values``: float64, not decreasing inside a case; case ``i`` is
    ``values[offsets[i]:offsets[i + 1]]``. ``spacing``: how far each event should lie behind the one
    before it, positive. A run of equal values keeps its mean; where its spacings would reach
    further than ``_NEAREST`` of the way to a neighbour, all of them shrink, so that order is kept.
    """
    if len(values) == 0:
        return values
    case = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    begins = np.concatenate([[True], (case[1:] != case[:-1]) | (values[1:] != values[:-1])])
    first = np.flatnonzero(begins)
    size = np.diff(first, append=len(values))
    way = np.cumsum(np.where(begins, 0.0, spacing))
    way -= np.repeat(way[first], size)
    way -= np.repeat(np.add.reduceat(way, first) / size, size)
    between = np.where(case[first][1:] == case[first][:-1], np.diff(values[first]), np.inf)
    open_end = np.array([np.inf])
    below, above = (
        _NEAREST * np.concatenate([open_end, between]),
        _NEAREST * np.concatenate([between, open_end]),
    )
    low, high = -way[first], way[first + size - 1]
    share = np.minimum(
        1.0, np.minimum(below / np.maximum(low, 1e-300), above / np.maximum(high, 1e-300))
    )
    return np.asarray(values + way * np.repeat(share, size), np.float64)


def _write_block_means(
    result: NDArray[np.float64],
    row: NDArray[np.int64],
    mean: NDArray[np.float64],
    weight: NDArray[np.int64],
    chosen: NDArray[np.bool_],
) -> None:
    """Write the means of the ``chosen`` blocks into the rows ``row:row + weight`` that they cover."""
    row, mean, weight = row[chosen], mean[chosen], weight[chosen]
    before = np.concatenate([[0], np.cumsum(weight)])
    covered = np.arange(before[-1]) + np.repeat(row - before[:-1], weight)
    result[covered] = np.repeat(mean, weight)

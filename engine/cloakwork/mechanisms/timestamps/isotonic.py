"""Restore the order of times that noise has disturbed, for all cases at once."""

import numpy as np
from numpy.typing import NDArray


def project(values: NDArray[np.float64], offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """The non-decreasing sequence nearest to each case's ``values`` in the sense of least squares.

    ``values``: float64, shape (events,), finite; case ``i`` is ``values[offsets[i]:offsets[i + 1]]``. Neighbouring
    blocks that violate the order are pooled into their mean (Ayer et al. 1955); pooling all of them at once, in any
    grouping, gives the same result. Cases that are in order take no further part.
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
        _settle(result, row, mean, weight, ~open_blocks)
        stays = np.concatenate([[True], ~falls])[open_blocks]
        first = np.flatnonzero(stays)
        case, row = case[open_blocks][first], row[open_blocks][first]
        total = np.add.reduceat(total[open_blocks], first)
        weight = np.add.reduceat(weight[open_blocks], first)
    _settle(result, row, mean, weight, np.ones(len(row), bool))
    return result


def _settle(
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

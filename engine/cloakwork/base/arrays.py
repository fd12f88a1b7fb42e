"""The numpy arrays that the engine computes with: their names, and how rows are counted off."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Places = NDArray[np.int8]
"""Small integers, such as places in a list that is known to be short."""
Words = NDArray[np.uint64]
"""Words of 64 random bits, thresholds that such words are compared with, and hashes."""


def offsets_of(lengths: ArrayLike) -> Ints:
    """Where ranges of these lengths begin, end to end, and where the last one ends: int64, shape
    (lengths + 1,).
    """
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def ranges_of(first: Ints, lengths: Ints) -> Ints:
    """The numbers ``first[i]``, ..., ``first[i] + lengths[i] - 1`` for each i, one range after the
    other: int64.
    """
    begins = np.cumsum(lengths) - lengths
    return np.asarray(np.arange(lengths.sum()) + np.repeat(first - begins, lengths), np.int64)


def owners_of(lengths: Ints) -> Ints:
    """For ranges of these lengths, end to end, which range each item lies in: int64."""
    return np.repeat(np.arange(len(lengths)), lengths)


def group_sums(group: Ints, values: Ints, groups: int) -> Ints:
    """The sum of the ``values`` of each group: int64, shape (groups,)."""
    total = np.zeros(groups, np.int64)
    np.add.at(total, group, values)
    return total


def begins_of(codes: Ints) -> Ints:
    """The rows at which a run of one code begins, of codes of 0 or more: int64."""
    return np.flatnonzero(np.diff(codes, prepend=-1))


def place_in_run(ascending: Ints) -> Ints:
    """For each row of ascending codes how many rows before it hold the same one: int64."""
    return np.asarray(np.arange(len(ascending)) - np.searchsorted(ascending, ascending), np.int64)


def shares_in_rows(table: Floats) -> Floats:
    """Each number of a table as its share of the sum of its row."""
    return np.asarray(table / table.sum(axis=1, keepdims=True), np.float64)


def rank_among_equals(codes: Ints) -> Ints:
    """For each row how many rows before it hold the same code: int64."""
    order = np.argsort(codes, kind="stable")
    rank = np.empty(len(codes), np.int64)
    rank[order] = place_in_run(codes[order])
    return rank

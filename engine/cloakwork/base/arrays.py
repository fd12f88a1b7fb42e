"""The numpy arrays that the engine computes with: their names, and how rows are counted off."""

from typing import Final

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


_PLACES: Final = 4
"""Of a table, at most, for each of the codes that are counted in it."""


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
    # Whole numbers below 2**53 add up exactly as floats, in a tenth of the time.
    if int(np.abs(values).max(initial=0)) * len(values) < 1 << 53:
        return np.bincount(group, values, groups).astype(np.int64)
    total = np.zeros(groups, np.int64)
    np.add.at(total, group, values)
    return total


def begins_of(codes: Ints) -> Ints:
    """The rows at which a run of one code begins, of codes of 0 or more: int64."""
    return np.flatnonzero(np.diff(codes, prepend=-1))


def place_in_run(ascending: Ints) -> Ints:
    """For each row of ascending codes how many rows before it hold the same one: int64."""
    begins = np.flatnonzero(np.append(True, np.diff(ascending) != 0))
    lengths = np.diff(begins, append=len(ascending))
    return np.arange(len(ascending)) - np.repeat(begins, lengths)


def grouped(major: Ints, minor: Ints | None = None) -> tuple[Ints, Ints]:
    """The rows by ``major``, of equal ones by ``minor``, of equal ones as they stand; and where in
    this order other ones begin. Both are 0 or more.

    As ``np.lexsort``, in a tenth of its time where all of it fits into one number: numbers are
    sorted much faster than places are.
    """
    minor = np.zeros(1, np.int64) if minor is None else minor
    bits = len(major).bit_length()
    shift = int(minor.max(initial=0)).bit_length()
    if (int(major.max(initial=0)) + 1) << (bits + shift) > 1 << 63:
        minor = np.broadcast_to(minor, major.shape)
        order = np.lexsort((minor, major))
        differs = np.diff([major[order], minor[order]], prepend=-1).any(axis=0)
        return order, np.flatnonzero(differs)
    packed = ((major << shift) + minor << bits) + np.arange(len(major))
    # What is in order but for a few runs is merged faster than sorted.
    is_random = np.count_nonzero(np.diff(major) < 0) > len(major) // 8
    packed.sort(kind="quicksort" if is_random else "stable")
    return packed & ((1 << bits) - 1), begins_of(packed >> bits)


def distinct(codes: Ints) -> tuple[Ints, Ints, Ints]:
    """The distinct ones of codes of 0 or more, ascending; which of these each is; and how often
    each occurs. In linear time, where no code is much above their number.
    """
    if int(codes.max(initial=0)) < _PLACES * len(codes):
        times = np.bincount(codes)
        occurs = times > 0
        return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[codes], times[occurs]
    order, begins = grouped(codes)
    times = np.diff(begins, append=len(codes))
    place = np.empty_like(codes)
    place[order] = owners_of(times)
    return codes[order[begins]], place, times


def shares_in_rows(table: Floats) -> Floats:
    """Each number of a table as its share of the sum of its row."""
    return np.asarray(table / table.sum(axis=1, keepdims=True), np.float64)


def rank_among_equals(codes: Ints) -> Ints:
    """For each row how many rows before it hold the same code: int64."""
    order = np.argsort(codes, kind="stable")
    rank = np.empty(len(codes), np.int64)
    rank[order] = place_in_run(codes[order])
    return rank

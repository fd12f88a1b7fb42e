"""The numpy arrays that the engine computes with: their names, and offsets."""

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

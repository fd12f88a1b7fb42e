"""Names for the numpy arrays that the engine computes with."""

import numpy as np
from numpy.typing import NDArray

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

"""Names for the numpy arrays that the engine computes with."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Words = NDArray[np.uint64]
"""Words of 64 random bits, and thresholds that such words are compared with."""

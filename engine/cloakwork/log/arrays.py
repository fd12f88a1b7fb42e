"""Short names for arrays of one type, as the readers of logs use them."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Marks = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Places = NDArray[np.int8]

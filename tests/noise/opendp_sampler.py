"""OpenDP's exact samplers, which ours are compared with."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace
from opendp.metrics import l1_distance, l2_distance
from opendp.mod import enable_features


def drawn_by_opendp(
    kind: Literal["laplace", "gaussian"], scale: float, size: int
) -> NDArray[np.int64]:
    """``size`` draws; the scale is the float's exact value."""
    enable_features("contrib")
    integers = vector_domain(atom_domain(T="i64"))
    if kind == "laplace":
        measurement = make_laplace(integers, l1_distance(T="i64"), scale)
    else:
        measurement = make_gaussian(integers, l2_distance(T="i64"), scale)
    return np.array(measurement(np.zeros(size, np.int64)), np.int64)

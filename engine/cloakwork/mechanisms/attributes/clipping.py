"""What the vectors of cases are clipped to: where less would distort more than it saves noise."""

from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats
from cloakwork.mechanisms.attributes.contributions import NORMS

NOISE_PRICE: Final = 30.0
"""What noise in a count, as a share of the cases, costs beside cases that are weighted unevenly."""


def best_norm(norms: Floats, times: Floats, sigma: float) -> float:
    """The norm to clip to, of powers of 2^(1/4) from 1 on: ``times`` cases (above 0 in all) have
    each of ``norms``, and noise is ``sigma`` cases where it is 1.
    """
    cases, best = float(times.sum()), (np.inf, 1.0)
    for candidate in 2.0 ** (np.arange(2 * NORMS - 1) / 4):
        weight = np.minimum(1.0, candidate / norms)
        mean = float(times @ weight) / cases
        noise = sigma * float(candidate) / (cases * mean)
        uneven = float(times @ np.abs(weight / mean - 1)) / (2 * cases)
        best = min(best, (NOISE_PRICE * noise + uneven, float(candidate)))
    return best[1]

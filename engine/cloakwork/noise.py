"""The only door to privacy noise, and the only place that holds a random source for it.

Everything a guarantee rests on (noise, which cases stay, which identical case moves, ids, row order) is drawn here.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Noise(Protocol):
    """A source of randomness: ``secret()`` for releases, ``reproducible(seed)`` for tests only."""

    @property
    def private(self) -> bool:
        """Whether the source is the operating system's entropy; False stamps a release NOT PRIVATE."""
        ...

    def laplace_counts(self, counts: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """``counts`` (int64, any length) plus discrete Laplace noise of ``scale``, by OpenDP's sampler."""
        ...

    def laplace_values(self, scale: float, size: int) -> NDArray[np.int64]:
        """``size`` draws of discrete Laplace noise, exact, vectorised: P[x] proportional to exp(-|x|/scale)."""
        ...

    def uniform(self, below: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each bound (int64 > 0) an independent uniform integer in [0, bound)."""
        ...

    def permutation(self, size: int) -> NDArray[np.int64]:
        """A uniformly random order of ``range(size)``: int64."""
        ...

    def names(self, size: int) -> Sequence[str]:
        """``size`` distinct fresh random ids of lower-case letters."""
        ...

    def key(self) -> bytes:
        """A fresh 32-byte key."""
        ...

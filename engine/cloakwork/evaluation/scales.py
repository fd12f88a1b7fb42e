"""How far a release moved times, and how likely that makes each released case."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from cloakwork.base.arrays import Floats, Ints


class Scales(NamedTuple):
    """How far times moved, as scales of Laplace noise in microseconds.

    ``start``: of a case's first time. ``gap``: of the time from one event to the next. Where each
    time moved by itself, ``gap`` is None and ``start`` is the scale of every one.
    """

    start: float
    gap: float | None = None

    def moved(self, times: Ints, noise: np.random.Generator) -> Floats:
        """The times of a case with such noise, and in order again."""
        if self.gap is None:
            after = times + noise.laplace(0, self.start, len(times))
        else:
            gaps = np.diff(times) + noise.laplace(0, self.gap, len(times) - 1)
            first = times[0] + noise.laplace(0, self.start)
            after = np.concatenate([[first], first + np.cumsum(gaps)])
        return np.asarray(isotonic_regression(after).x)


class Moved(NamedTuple):
    """How far the times of some cases lie from those of one: the number of times compared, and for
    each case the summed distances, the distance of the first, and the summed distances of the gaps,
    in microseconds.
    """

    times: int
    apart: Floats
    first: Floats
    gaps: Floats

    @classmethod
    def between(cls, ours: Floats | Ints, theirs: Ints) -> "Moved":
        """``ours``: shape (times,); ``theirs``: shape (cases, times)."""
        if not len(ours):
            nothing = np.zeros(len(theirs))
            return cls(0, nothing, nothing, nothing)
        apart = (theirs - ours).astype(np.float64)
        gaps = np.abs(np.diff(apart, axis=1)).sum(axis=1)
        return cls(len(ours), np.abs(apart).sum(axis=1), np.abs(apart[:, 0]), gaps)

    def log_likelihood(self, scales: Scales, span: float) -> Floats:
        """The logarithm of how likely each case is, beside times that lie anywhere in ``span``."""
        if not self.times:
            return np.zeros(len(self.apart))
        norm = np.log(span / (2 * scales.start))
        if scales.gap is None:
            return np.asarray(self.times * norm - self.apart / scales.start)
        norm += (self.times - 1) * np.log(span / (2 * scales.gap))
        return np.asarray(norm - self.first / scales.start - self.gaps / scales.gap)

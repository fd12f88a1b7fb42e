"""Randomness that a mechanism may use on answers: it has no data that this could hide or show."""

from dataclasses import dataclass

from cloakwork.base.arrays import Bools, Ints
from cloakwork.noise import Noise


@dataclass(frozen=True, slots=True)
class Randomness:
    """Draws that are the same for the same answers and the same seed."""

    source: Noise

    def uniform(self, below: Ints) -> Ints:
        """For each bound (int64 > 0) an independent uniform integer in [0, bound)."""
        return self.source.uniform(below)

    def coins(self, rate: float, size: int) -> Bools:
        """``size`` independent coins, True with probability ``rate``."""
        return self.source.coins(rate, size)

    def permutation(self, size: int) -> Ints:
        """A uniformly random order of ``range(size)``: int64."""
        return self.source.permutation(size)

    def laplace_values(self, scale: float, size: int) -> Ints:
        """``size`` draws of discrete Laplace noise: int64."""
        return self.source.laplace_values(scale, size)

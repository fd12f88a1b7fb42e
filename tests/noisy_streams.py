"""Sources of noise for single times that are no noise, or too little: to see what lies beneath, and
to see that an audit finds them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.noise import Addresses, Stream, reproducible


class Silence(Stream):
    """Noise that is none, to see what lies beneath; draws the middle where something is drawn
    uniformly.
    """

    def laplace_values(self, scale: float, at: Addresses) -> Ints:
        return np.zeros(len(at), np.int64)

    def uniform(self, below: Ints, at: Addresses) -> Ints:
        return np.asarray(below // 2)


SILENCE = Silence(bytes(32), private=False)


def chosen(values: Callable[[Addresses], Ints]) -> Stream:
    """Noise of the test's choice at each address."""

    class Chosen(Stream):
        def laplace_values(self, scale: float, at: Addresses) -> Ints:
            return values(at)

    return Chosen(reproducible(1).stream().secret, private=False)


class HalfTheNoise(Stream):
    """A kernel that draws at half of the scale that it enters in the books."""

    def laplace_values(self, scale: float, at: Addresses) -> Ints:
        return super().laplace_values(scale / 2, at)


class TwiceAveraged(Stream):
    """A kernel that draws the noise on a value twice, and adds the mean."""

    def laplace_values(self, scale: float, at: Addresses) -> Ints:
        again = super().part("again")
        return (super().laplace_values(scale, at) + Stream.laplace_values(again, scale, at)) // 2


def drawing_from(stream: Stream | type[Stream]) -> Any:
    """A source of noise whose stream, the only thing that noise on times asks for, is this one."""
    if isinstance(stream, type):
        stream = stream(reproducible(1).stream().secret, private=False)

    class Source:
        private = False

        def stream(self) -> Stream:
            return stream

    return Source()

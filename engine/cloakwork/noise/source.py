"""The only source of privacy noise, and the only place that draws random bits for it.

Everything a guarantee rests on (noise, which cases stay, which identical case moves, ids, row
order) is drawn here, the noise by one exact sampler (``sampler``). No floating-point noise, no
truncation, no numpy or ``random`` generator (``privacy.md`` section 5).
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from typing import Final, Protocol

import numpy as np

from cloakwork.base.arrays import Bools, Ints, Words
from cloakwork.base.exact import drawn_scale, drawn_sigma, exact_rate, exact_scale
from cloakwork.base.frozen import frozen
from cloakwork.noise import sampler
from cloakwork.noise.keyed import Addresses, Stream

KEY_LENGTH: Final = 32
"""Bytes of a stream's key."""


class Noise(Protocol):
    """A source of randomness: ``secret()`` for releases, ``reproducible(seed)`` for tests and for
    comparisons, of which nothing is released.
    """

    @property
    def private(self) -> bool:
        """Whether it draws the operating system's entropy; False stamps a release NOT PRIVATE."""
        ...

    def laplace_values(self, scale: float, size: int) -> Ints:
        """``size`` draws (int64) of discrete Laplace noise, exact, vectorised: P[x] proportional to
        exp(-|x|/scale).

        It is drawn at ``drawn_scale(scale)``, which is ``scale`` itself from
        2**-7 to 2**53 grid steps.
        """
        ...

    def gaussian_values(self, sigma: float, size: int) -> Ints:
        """``size`` draws (int64) of discrete Gaussian noise, exact, vectorised: P[x] proportional
        to exp(-x^2/(2 sigma^2)).

        It is drawn at ``drawn_sigma(sigma)``, which is ``sigma`` itself from
        2**-7 to 2**53 grid steps.
        """
        ...

    def coins(self, rate: Fraction | float, size: int) -> Bools:
        """``size`` independent coins (bool), True with probability exactly ``rate`` in [0, 1]; a
        float is its binary value.

        An event charges for ``drawn_rate(rate)``, never below what is drawn.
        """
        ...

    def uniform(self, below: Ints) -> Ints:
        """For each bound (int64 > 0) an independent uniform integer in [0, bound)."""
        ...

    def permutation(self, size: int) -> Ints:
        """A uniformly random order of ``range(size)``: int64."""
        ...

    def stream(self) -> Stream:
        """A stream of draws for one step under a fresh key; it changes no other draw."""
        ...


def secret() -> Noise:
    """The source that releases draw from: the operating system's entropy."""
    return _Source(
        words=lambda size: np.frombuffer(os.urandom(8 * size), dtype=np.uint64),
        private=True,
    )


def reproducible(seed: int) -> Noise:
    """A source for tests and comparisons: the same ``seed`` draws the same values; a release made
    with it is NOT PRIVATE.
    """
    return _Source(
        words=_Keystream(seed),
        private=False,
        keys=_Keys(seed),
    )


@dataclass(slots=True)
class _Keystream:
    """Words from SHAKE-256 over a seed and a counter: stable across platforms and versions of
    numpy.
    """

    seed: int
    _requests: "count[int]" = field(default_factory=count)

    def __call__(self, size: int) -> Words:
        name = f"cloakwork test noise {self.seed} {next(self._requests)}"
        stream = hashlib.shake_256(name.encode())
        return np.frombuffer(stream.digest(8 * size), dtype="<u8").astype(np.uint64)


@dataclass(slots=True)
class _Keys:
    """Keys of streams from a seed; counted for themselves, so that a stream more moves no draw."""

    seed: int
    _requests: "count[int]" = field(default_factory=count)

    def __call__(self) -> bytes:
        named = f"cloakwork test stream {self.seed} {next(self._requests)}"
        return hashlib.sha256(named.encode()).digest()


@dataclass(slots=True)
class _WordsOfStream:
    """Words at one address of a stream after another."""

    stream: Stream
    _used: int = 0

    def __call__(self, size: int) -> Words:
        blocks = -(-size // 2)
        places = np.arange(self._used, self._used + blocks)
        self._used += blocks
        return np.column_stack(self.stream.words(Addresses.of_cases(places))).ravel()[:size]


def source_of(stream: Stream) -> Noise:
    """A source of its own, which draws the same values each time that it is made of ``stream``."""
    return _Source(_WordsOfStream(stream), stream.private)


@frozen
class _Source:
    """Draws of every kind from one stream of uniform words, each as ``Noise`` tells."""

    words: sampler.WordSource
    private: bool
    keys: Callable[[], bytes] = field(default=lambda: os.urandom(KEY_LENGTH))

    def laplace_values(self, scale: float, size: int) -> Ints:
        drawn_scale(scale)
        return sampler.discrete_laplace(exact_scale(scale), size, self.words)

    def gaussian_values(self, sigma: float, size: int) -> Ints:
        drawn_sigma(sigma)
        return sampler.discrete_gaussian(exact_scale(sigma), size, self.words)

    def coins(self, rate: Fraction | float, size: int) -> Bools:
        return sampler.bernoulli(exact_rate(rate), size, self.words)

    def uniform(self, below: Ints) -> Ints:
        bounds = np.asarray(below, dtype=np.int64)
        if bounds.size and bounds.min() < 1:
            raise ValueError("every bound must be at least 1")
        return sampler.uniform_below_each(bounds.astype(np.uint64), self.words).astype(np.int64)

    def permutation(self, size: int) -> Ints:
        while True:
            keys = self.words(size)
            order = np.argsort(keys)
            # Keys that are all distinct are in uniformly random order; a tie (rarer than 2**-23 at
            # a million) starts anew.
            if not (np.diff(keys[order]) == 0).any():
                return order.astype(np.int64)

    def stream(self) -> Stream:
        return Stream(self.keys(), self.private)

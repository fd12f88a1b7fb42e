"""Keyed hashes that two batches of a log, and two processes, agree in: what tells classes of cases
apart without holding their events.

Texts are hashed by BLAKE2b, under a secret key. Rows are polynomials over the hashes of their
columns modulo p = 2^61 - 1, and sequences over the hashes of their symbols, each taken twice at
secret random points (Carter and Wegman, JCSS 1979; Dietzfelbinger et al., STACS 1992). Two
different sequences of different hashes have one hash with probability at most (d / p)^2, where d is
the sum of the events of the longer one, its columns, and 8: for a million classes of up to 10,000
events below 1e-17 that any two have; two texts have one with probability 2^-122, unless BLAKE2b is
broken. That holds for every log that does not depend on the key, which is drawn anew for each
check.

What a collision would do: two classes count as one, of the size of both.
"""

import secrets
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Words

PRIME: Final = 2**61 - 1
_P: Final = np.uint64(PRIME)
_LOW_32: Final = np.uint64(2**32 - 1)
_LOW_29: Final = np.uint64(2**29 - 1)
_3, _29, _32, _61 = (np.uint64(bits) for bits in (3, 29, 32, 61))

Points = tuple[int, int]
"""Where both polynomials are evaluated."""


@dataclass(frozen=True, slots=True, repr=False)
class HashKey:
    """The secrets of one check: a key of 32 bytes for texts, and points. Hashes are uint64, shape
    (2, n), each below the prime.
    """

    text: bytes
    row: Points
    sequence: Points

    @classmethod
    def drawn(cls) -> "HashKey":
        """A key from the operating system's entropy."""
        points = [(secrets.randbelow(PRIME), secrets.randbelow(PRIME)) for _ in range(2)]
        return cls(secrets.token_bytes(32), *points)

    def of_values(self, values: pl.Series) -> Words:
        """The hash of each value by its text, times by their number; 0 for a missing one.

        0.0 and -0.0 have one hash.
        """
        texts = _texts(values)
        digests = [
            blake2b(text.encode("utf-8", "surrogatepass"), key=self.text, digest_size=16).digest()
            for text in texts.fill_null("").to_list()
        ]
        words = np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2).T
        return np.where(texts.is_null().to_numpy(), np.uint64(0), words % _P)

    def of_rows(self, columns: list[Words], rows: int) -> Words:
        """The hash of each of ``rows`` rows by those of its values, column by column."""
        # Begun with 1, so that missing values at the front, which are 0, count.
        hashes = np.ones((2, rows), np.uint64)
        for column in columns:
            hashes = _times_plus(hashes, self.row, column)
        return hashes

    def longer(self, sequences: Words, symbols: Words) -> Words:
        """The hash of each sequence with one symbol more; that of none is 1."""
        return _times_plus(sequences, self.sequence, symbols)


def with_one_zero(values: pl.Series) -> pl.Series:
    """``values`` with 0.0 in place of -0.0: one value with two spellings."""
    if not values.dtype.is_float():
        return values
    # polars takes adding zero for nothing.
    return values.set((values == 0).fill_null(False), 0.0)


def _texts(values: pl.Series) -> pl.Series:
    values = with_one_zero(values)
    if values.dtype.is_temporal():
        values = values.to_physical()
    return values.cast(pl.String)


def _times_plus(hashes: Words, points: Points, added: Words) -> Words:
    """``hashes * points + added`` modulo the prime; all are below it."""
    result = np.empty_like(hashes)
    for row, point in enumerate(points):
        terms = added if added.ndim == 1 else added[row]
        numbers = _product(hashes[row], point) + terms
        # 2^61 is 1 modulo the prime, so the high bits are added to the low ones.
        reduced = (numbers & _P) + (numbers >> _61)
        result[row] = np.where(reduced >= _P, reduced - _P, reduced)
    return result


def _product(factor: Words, point: int) -> Words:
    """A number below 2^62 that is ``factor * point`` modulo the prime, in halves of 32 bits.

    With a = a1 2^32 + a0 and b likewise: a1 b1 2^64 = 8 a1 b1, and the middle term m 2^32 is
    (m >> 29) + (m mod 2^29) 2^32, as 2^61 is 1.
    """
    high = np.uint64(point >> 32)
    low = np.uint64(point & (2**32 - 1))
    factor_high = factor >> _32
    factor_low = factor & _LOW_32
    middle = factor_high * low + factor_low * high
    lowest = factor_low * low
    result = (factor_high * high) << _3
    result += middle >> _29
    result += (middle & _LOW_29) << _32
    result += (lowest & _P) + (lowest >> _61)
    return (result & _P) + (result >> _61)

"""A keyed stream of draws: each draw has an address, and depends on its key and address alone.

What is drawn for a case is then the same in whichever batch the case lies, in whichever order the
batches come, and however often one of them is computed (``privacy.md`` section 5). An address is
(case, position, draw): the case's index in the whole log, the position of an event in its case (0
where the draw is the case's own), and the number of the draw there.

**Construction.** AES-256 in counter mode (NIST SP 800-38A): the 128 bits at an address are the
encryption of the address, 64 bits of case, 32 of position and 32 of draw, under the stream's key.
Every key is fresh from the operating system and used for one step of one run. Different addresses
are different blocks, so the 128 bits are independent and uniform up to the advantage of telling
AES-256 from a random function: beside an attack on AES, at most q**2 / 2**129 for q blocks (the
switching lemma), 2**-49 for the 2**40 blocks of a hundred thousand million draws. So what rests on
a stream is computational, as it is with the operating system's generator.

``part`` gives a stream of its own for each purpose: BLAKE2b, keyed (RFC 7693), of its name.

**Samplers.** Each address runs the scheme of ``sampler`` on words of its own: candidate after
candidate, until one is accepted. All addresses whose candidate was refused go on together.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Ints, Words
from cloakwork.base.exact import LARGEST_SCALE, drawable, exact_scale
from cloakwork.base.frozen import frozen
from cloakwork.noise import sampler

CHUNK: Final = 1 << 15
"""Addresses worked on at a time: their arrays stay in the processor's cache."""

NAME_LENGTH: Final = 20
"""Letters of a new id."""

_POSITIONS: Final = 32
"""Bits of an address that hold the position; the draw has as many."""

_SLOTS: Final = 4
"""Blocks set apart for each candidate of a sampler."""

_CANDIDATES: Final = 1 << 16
"""Blocks set apart for one discrete Laplace value; that it needs more has probability e**-7000."""


@frozen
class Addresses:
    """Where draws are: ``cases`` and ``positions``, int64, not negative, shape (n,) each.

    ``cases``: indexes in the whole log, never in a batch. ``positions``: of an event in its case,
    below 2**32; 0 where a draw is the case's own.
    """

    cases: Ints
    positions: Ints

    @classmethod
    def of_cases(cls, cases: Ints) -> "Addresses":
        """One address a case."""
        return cls(cases, np.zeros(len(cases), np.int64))

    def __len__(self) -> int:
        return len(self.cases)

    def at(self, rows: Ints | slice) -> "Addresses":
        """Those at ``rows``."""
        return Addresses(self.cases[rows], self.positions[rows])


@frozen
class Stream:
    """Draws of one step of one run. ``secret``: 32 bytes, guarded like raw data and never stored.

    ``private``: whether the key comes from the operating system; False stamps a release NOT
    PRIVATE.
    """

    secret: bytes
    private: bool

    def __repr__(self) -> str:
        # The key must not get into a traceback or a report.
        return f"Stream(private={self.private})"

    def part(self, name: str) -> "Stream":
        """The stream for one purpose of the step, independent of all others."""
        return replace(self, secret=self.key(f"part {name}"))

    def key(self, name: str) -> bytes:
        """A key of 32 bytes for one purpose: the same in every batch."""
        return hashlib.blake2b(
            name.encode(),
            digest_size=32,
            key=self.secret,
        ).digest()

    def words(self, at: Addresses, draw: int = 0) -> tuple[Words, Words]:
        """Two independent uniform 64-bit words (uint64, shape (n,) each) for each address."""
        # Loaded here: what draws nothing, such as the command line's help, starts without it.
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        blocks = np.empty((len(at), 2), "<u8")
        blocks[:, 0] = at.cases
        # 32 bits of position and 32 of draw: neither reaches into the other's.
        blocks[:, 1] = (at.positions << _POSITIONS) | draw
        # Each block is an address that occurs once, so encrypting them one by one is counter mode.
        counter_mode = Cipher(algorithms.AES(self.secret), modes.ECB())  # noqa: S305 - see above
        encrypted = counter_mode.encryptor().update(blocks.tobytes())
        drawn = np.frombuffer(encrypted, "<u8").reshape(-1, 2)
        return drawn[:, 0].astype(np.uint64), drawn[:, 1].astype(np.uint64)

    def laplace_values(self, scale: float, at: Addresses) -> Ints:
        """For each address discrete Laplace noise (int64), exact: P[x] proportional to
        exp(-|x|/scale).

        ``scale``, in grid steps, as in ``Noise.laplace_values``: drawn at ``drawn_scale(scale)``.
        """
        exact = exact_scale(drawable("laplace noise", "a scale", scale))
        return _by_chunks(at, lambda part: _draw_laplace(self, exact, part, begin=0))

    def gaussian_values(self, sigma: float, at: Addresses) -> Ints:
        """For each address discrete Gaussian noise (int64), exact: P[x] proportional to
        exp(-x^2/(2 sigma^2)).

        ``sigma``, in grid steps, as in ``Noise.gaussian_values``: drawn at ``drawn_sigma(sigma)``.
        """
        exact = exact_scale(drawable("gaussian noise", "a sigma", sigma))
        return _by_chunks(at, lambda part: _draw_gaussian(self, exact, part))

    def uniform(self, below: Ints, at: Addresses) -> Ints:
        """For each address a uniform integer (int64) in [0, ``below``); ``below``: int64, above 0,
        shape (n,).
        """
        if len(below) and below.min() < 1:
            raise ValueError("every bound must be at least 1")
        bounds = below.astype(np.uint64)

        def candidates(rows: Ints, turn: int) -> tuple[Ints, Bools]:
            words, _ = self.words(at.at(rows), turn)
            bound = bounds[rows]
            accepted = words <= sampler.last_fair_words(bound)
            return (words % bound).astype(np.int64), accepted

        return _first_accepted(len(at), candidates)

    def order(self, at: Addresses) -> Ints:
        """The addresses in random order: int64, shape (n,). Of two of them the same always comes
        first, whatever others there are.

        It sorts by 128 random bits: that any two are equal has probability n**2 / 2**129 at most.
        """
        first, second = self.words(at)
        return np.lexsort((second, first)).astype(np.int64)

    def names(self, at: Addresses) -> list[str]:
        """For each address an id of ``NAME_LENGTH`` lower-case letters.

        26**20 is about 2**94: that any two of n are equal has probability n**2 / 2**95 at most,
        3e-15 for ten million.
        """
        half = NAME_LENGTH // 2
        powers = np.uint64(26) ** np.arange(half, dtype=np.uint64)
        words = np.stack(self.words(at), axis=1)
        letters = (words[:, :, None] // powers) % np.uint64(26) + np.uint64(ord("a"))
        joined = letters.astype(np.uint8).tobytes().decode("ascii")
        return [joined[start : start + NAME_LENGTH] for start in range(0, len(joined), NAME_LENGTH)]


def _by_chunks(at: Addresses, draw: Callable[[Addresses], Ints]) -> Ints:
    starts = range(0, len(at), CHUNK)
    drawn = [draw(at.at(slice(start, start + CHUNK))) for start in starts]
    return np.concatenate([np.zeros(0, np.int64), *drawn])


Candidates = Callable[[Ints, int], tuple[Ints, Bools]]
"""Of the addresses at some rows (int64), the candidates of one turn: values, and whether each is
accepted.
"""


def _first_accepted(size: int, candidates: Candidates) -> Ints:
    """For each of ``size`` addresses the first candidate that is accepted."""
    values = np.empty(size, np.int64)
    rows = np.arange(size)
    turn = 0
    while rows.size:
        found, accepted = candidates(rows, turn)
        values[rows[accepted]] = found[accepted]
        rows = rows[~accepted]
        turn += 1
    return values


def _draw_laplace(
    stream: Stream,
    scale: Fraction,
    at: Addresses,
    begin: int,
) -> Ints:
    """Discrete Laplace noise by algorithm 2 of ``sampler``; the draws of an address lie from
    ``begin`` on.
    """
    p, shift = sampler.scale_and_shift(scale)
    last_fair = sampler.last_fair_word(p)

    def candidates(rows: Ints, turn: int) -> tuple[Ints, Bools]:
        asked = at.at(rows)
        draw = begin + turn * _SLOTS
        # The block's first word is U's, its second the coin's and, in its lowest bit, the sign's.
        uniform, coin = stream.words(asked, draw)
        # The remainder by one division: numpy's ``%`` of unsigned words is slower.
        u = uniform - (uniform // np.uint64(p)) * np.uint64(p)
        thresholds = sampler.laplace_thresholds(u, p)
        exponents = sampler.laplace_exponents(u, p)
        heads = _settle_coins(
            stream,
            asked,
            draw,
            coin,
            thresholds,
            exponents,
        )
        accepted = heads & (uniform <= last_fair)
        kept = np.flatnonzero(accepted)
        negative = (coin[kept] & np.uint64(1)).astype(bool)
        v = _draw_geometric(stream, asked.at(kept), draw + 1)
        magnitude = (u[kept].astype(np.int64) + p * v) >> shift
        values = np.zeros(len(rows), np.int64)
        values[kept] = np.where(negative, -magnitude, magnitude)
        # "Minus zero" is drawn again, else 0 would come twice as often.
        minus_zero = negative & (magnitude == 0)
        accepted[kept[minus_zero]] = False
        return values, accepted

    return _first_accepted(len(at), candidates)


def _draw_gaussian(
    stream: Stream,
    sigma: Fraction,
    at: Addresses,
) -> Ints:
    """Discrete Gaussian noise by algorithm 3 of ``sampler``."""
    t = min(int(sigma) + 1, int(LARGEST_SCALE))
    coin_stream = stream.part("gaussian coins")

    def candidates(rows: Ints, turn: int) -> tuple[Ints, Bools]:
        asked = at.at(rows)
        y = _draw_laplace(
            stream,
            Fraction(t),
            asked,
            begin=turn * _CANDIDATES,
        )
        size = np.abs(y)
        coin, _ = coin_stream.words(asked, turn)
        thresholds = sampler.gaussian_thresholds(size, sigma, t)
        exponents = sampler.gaussian_exponents(size, sigma, t)
        return y, _settle_coins(
            coin_stream,
            asked,
            turn,
            coin,
            thresholds,
            exponents,
        )

    return _first_accepted(len(at), candidates)


def _settle_coins(
    stream: Stream,
    at: Addresses,
    draw: int,
    drawn: Words,
    thresholds: Words,
    exponents: sampler.Exponents,
) -> Bools:
    """The coins of ``settle_coins``; further bits come from each address's own words."""

    def further(row: int) -> sampler.WordSource:
        return _further_words(stream, f"coin {draw}", at, row)

    return sampler.settle_coins(drawn, thresholds, exponents, further)


def _draw_geometric(
    stream: Stream,
    at: Addresses,
    draw: int,
) -> Ints:
    """V with Pr[V >= k] = exp(-k) for each address, held at ``sampler.MOST_GEOMETRIC``."""
    words, _ = stream.words(at, draw)
    values = sampler.geometric_by_table(words)
    for row in np.flatnonzero(values < 0):
        further = _further_words(
            stream,
            f"geometric {draw}",
            at,
            int(row),
        )
        values[row] = sampler.exact_geometric(int(words[row]), further)
    return np.minimum(values, sampler.MOST_GEOMETRIC)


def _further_words(
    stream: Stream,
    purpose: str,
    at: Addresses,
    row: int,
) -> sampler.WordSource:
    """A source of words for one draw of one address, in the form that ``sampler`` asks for."""
    further = stream.part(f"more of {purpose}")
    address = at.at(slice(row, row + 1))
    draws = iter(range(1 << _POSITIONS))

    def next_words(size: int) -> Words:
        found = np.empty(size, np.uint64)
        for place in range(size):
            found[place : place + 1], _ = further.words(address, next(draws))
        return found

    return next_words

"""Values that change places at random, for stochastic t-closeness: the mathematics of it.

An activity has N values; a class E has |E| of them, and f_E(v) is the share of v among these, f(v)
that among all N. E puts m_E of its values into a pool, every choice of m_E as likely as any other;
the M values of the pool change places, every order as likely as any other. So the activity keeps
exactly the values that it had: of the whole, v is released with probability f(v).

**What a class releases.** Let q_E = m_E / |E|. At one of the |E| places of a class, each as likely
as the others, the value stays with probability 1 - q_E, and is then v with probability f_E(v),
since each value of E is as likely to stay. Else it is one of the pool, each as likely as the
others. E gave to the pool m_E f_E(v) times v on average, so this is v with probability g(v), the
sum of m_E f_E(v) over all classes, divided by M. With r = f_E(v) / f(v),

    P(v | E) / P(v) = (1 - q_E) r + q_E g(v) / f(v).                                      (*)

With one q for all classes g is f: each value is replaced, with probability q, by a draw from all of
its activity, and (*) lies in [1/t, t] where 1 - q is at most (t - 1) / (r_max - 1) and
(1 - 1/t) / (1 - r_min). One small class would then decide for all, as r_max is N / |E| for a value
that it alone has. So each class has a q of its own, and (*) is computed for every class and value.

**Values of one case move together.** Both draws are made once for all activities, over *tracks*:
the first event of each activity of a case is of its first track, the second one of its second, and
so on, so an activity has at most one row of a track. Rows are given up in a random order of their
tracks. A random permutation of tracks, in cycles, tells where values go: each row of the pool gets
the value of the next one of the pool in its cycle. Leaving others out of the cycles of a uniformly
random permutation leaves a uniformly random one of the rest (that is how the Chinese restaurant
process builds it: Pitman, Combinatorial Stochastic Processes, 2006, 3.1). So every activity is
exchanged with the probabilities above, while a case mostly takes its new values from one other.

**What follows.** A set of outcomes has a ratio between the least and the largest of its members'.
A class that is a union of cells releases a weighted mean of what these release. With all values in
the pool (*) is 1: every t >= 1 is met. A missing value is one more v. An inserted event gets a draw
from the kept values of its activity, so (*) holds of the kept values alone, and with inserted ones
it is a weighted mean of (*) and 1.

These are probabilities of a single value, given the log; shares that are counted on one release may
differ by more. The definition is that of Domingo-Ferrer and Soria-Comas (Knowledge-Based Systems
2015), who reach it by noise, as PRETSA* does (Fahrenkrog-Petersen et al. 2023, equation 6).
"""

from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints, distinct, rank_among_equals
from cloakwork.base.frozen import frozen
from cloakwork.noise import Noise

_LEAST_SHARES: Final = tuple(step / 32 for step in range(33))
"""Which share of its values every class gives up at least; the one that moves fewest is taken."""
_ROUNDS: Final = 50
"""How often the shares of classes are raised, each in answer to the others."""
_ROUNDING: Final = 1e-9
"""By what t is narrowed; sums of a million positive floats are off by a tenth of that at most."""


@frozen
class TrackDraws:
    """What is drawn of all tracks, once for all activities: int64, shape (tracks,) each.

    ``turn``: when a track gives up its values. ``place``, ``cycle``: where it stands when the
    permutation is written in cycles, one after the other, and in which of them.
    """

    turn: Ints
    place: Ints
    cycle: Ints

    @classmethod
    def of(cls, tracks: int, noise: Noise) -> "TrackDraws":
        """Each permutation as likely as any other.

        A random word, cut before each number that is larger than all before it, is the cycles of a
        random permutation (Foata's correspondence: Stanley, Enumerative Combinatorics 1, 1.3.1).
        """
        word = noise.permutation(tracks)
        cycle = np.cumsum(word == np.maximum.accumulate(word))
        place = np.argsort(word)
        return cls(noise.permutation(tracks), place, cycle[place])


def exchange_at_random(
    codes: Ints,
    cells: Ints,
    tracks: Ints,
    t: float,
    drawn: TrackDraws,
) -> Ints:
    """The values of one activity after the exchange, so that no class makes any of them more than t
    times as likely as the whole, or as unlikely: int64, shape (n,).

    ``codes``, ``cells``, ``tracks``: int64, shape (n,), n >= 1: the value of each row, its cell,
    and its track, which no other row has.
    """
    cells = distinct(cells)[1]
    given = values_given_up(codes, cells, t)
    # The first rows of each cell, in a random order.
    order = np.lexsort((drawn.turn[tracks], cells))
    pooled = order[rank_among_equals(cells[order]) < given[cells[order]]]
    pooled = pooled[np.argsort(drawn.place[tracks[pooled]])]
    cycle = drawn.cycle[tracks[pooled]]
    # The next row of the same cycle; after the last one its first.
    following = np.arange(1, len(pooled) + 1)
    is_last = np.searchsorted(cycle, cycle, "right") == following
    following[is_last] = np.searchsorted(cycle, cycle[is_last])
    exchanged = codes.copy()
    exchanged[pooled] = codes[pooled[following]]
    return exchanged


def values_given_up(codes: Ints, cells: Ints, t: float) -> Ints:
    """m_E of each cell: int64, shape (cells,), such that (*) is within t for all cells and values.

    ``cells``: dense from 0. Each cell gives up a share at least, and more where (*) asks for it.
    Whatever this search comes to is judged by (*) in the end.
    """
    size = np.bincount(cells)
    fewest = size
    if len(size) == 1:
        # One class alone is the whole.
        return np.zeros_like(size)
    ratios = _Ratios.of(codes, cells)
    for least in _LEAST_SHARES:
        given = np.ceil(least * size).astype(np.int64)
        for _ in range(_ROUNDS):
            raised = np.maximum(given, ratios.needed(given, t))
            if (raised == given).all():
                break
            given = raised
        if given.sum() < fewest.sum() and ratios.are_within(given, t):
            fewest = given
    return fewest


@frozen
class _Ratios:
    """What (*) is computed from, pair by pair of a cell and a value that it holds, in this order.

    ``cell``, ``value``, ``count``: int64, shape (pairs,); how often the cell holds the value.
    ``size``: int64, shape (cells,); ``total``: int64, shape (values,), how often a value occurs.
    """

    cell: Ints
    value: Ints
    count: Ints
    size: Ints
    total: Ints

    @classmethod
    def of(cls, codes: Ints, cells: Ints) -> "_Ratios":
        """Values that one cell alone holds have the same (*) in every cell: they count as one."""
        width = int(codes.max()) + 1
        pairs = np.unique(cells * width + codes)
        is_shared = np.bincount(pairs % width, minlength=width)[codes] > 1
        merged = np.where(is_shared, codes, width + cells)
        distinct, value = np.unique(merged, return_inverse=True)
        pairs, count = np.unique(cells * len(distinct) + value, return_counts=True)
        cell, value_of_pair = np.divmod(pairs, len(distinct))
        return cls(cell, value_of_pair, count, np.bincount(cells), np.bincount(value))

    def needed(self, given: Ints, t: float) -> Ints:
        """How many values each cell would have to give up, if the pool stayed as it is: int64."""
        cell, r, of_pool = self._terms(given)
        nearest = np.clip(r, (1 + _ROUNDING) / t, t * (1 - _ROUNDING))
        away = nearest - r
        far = of_pool - r
        share = np.divide(away, far, out=np.ones_like(far), where=far != 0)
        share[(share < 0) | (share > 1)] = 1.0
        share[away == 0] = 0.0
        largest = np.zeros(len(self.size))
        np.maximum.at(largest, cell, share)
        return np.ceil(largest * self.size).astype(np.int64)

    def are_within(self, given: Ints, t: float) -> bool:
        """Whether (*) lies in [1/t, t] for all cells and values, round-off included."""
        cell, r, of_pool = self._terms(given)
        share = (given / self.size)[cell]
        ratio = (1 - share) * r + share * of_pool
        return bool(((1 + _ROUNDING) / t <= ratio).all() and (ratio <= t * (1 - _ROUNDING)).all())

    def _terms(self, given: Ints) -> tuple[Ints, Floats, Floats]:
        """The cell, r and g(v)/f(v) of every pair, and of each cell that lacks values: with the
        least g(v)/f(v) of these, and with the largest of all.
        """
        whole = self.size.sum()
        of_pool = np.ones(len(self.total))
        if given.any():
            gave = self.count * (given / self.size)[self.cell]
            of_pool = np.bincount(self.value, gave) / self.total * (whole / given.sum())
        r = self.count / self.size[self.cell] * (whole / self.total[self.value])
        lacking, least = self._least_lacking(of_pool)
        return (
            np.concatenate([self.cell, lacking, lacking]),
            np.concatenate([r, np.zeros(2 * len(lacking))]),
            np.concatenate([of_pool[self.value], least, np.full(len(lacking), of_pool.max())]),
        )

    def _least_lacking(self, of_pool: Floats) -> tuple[Ints, Floats]:
        """The cells that do not hold all values, and the least ``of_pool`` of those that each
        lacks.
        """
        ascending = np.argsort(of_pool)
        rank = np.argsort(ascending)
        # The ranks of what a cell holds, ascending; the first that is not 0, 1, 2, ... is lacking.
        ranks = rank[self.value][np.lexsort((rank[self.value], self.cell))]
        place = rank_among_equals(self.cell)
        first_lacking = np.bincount(self.cell)
        is_beyond: Bools = ranks != place
        np.minimum.at(first_lacking, self.cell[is_beyond], place[is_beyond])
        lacking = np.flatnonzero(first_lacking < len(ascending))
        return lacking, of_pool[ascending[first_lacking[lacking]]]

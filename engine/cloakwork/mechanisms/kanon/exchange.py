"""Values change places between classes until every class holds values much like the whole: the
mathematics of it.

All values of one activity stand in *cells*, one a class. Cells put a share of their values into a
pool, and the pool is dealt out again, evenly, each cell taking as many as it gave. Whatever
happens, the activity as a whole keeps exactly the values that it had; only who has them changes.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from cloakwork.noise import Noise

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SHARES: Final = (0.0, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8)
"""Which share of its values every cell gives up at least, tried in this order until all groups meet
the aim.
"""

ROUNDING: Final = 1e-10
"""What floating-point sums may be off by; the independent checks allow ten times as much."""

_GOLDEN: Final = (5**0.5 - 1) / 2
_DRAWS: Final = 2**20


@dataclass(frozen=True, slots=True)
class Groups:
    """What is judged: the cells, or groups of cells that lie inside one another, like the
    beginnings of courses.

    ``member``, ``group``: int64, shape (m,); row ``member[i]`` stands in group ``group[i]``; groups
    are dense, from 0. ``whole``: the rows that they are compared with; None: all.
    """

    member: Ints
    group: Ints
    whole: Ints | None = None

    def among(self, rows: Bools) -> "Groups":
        """What stands in them of ``rows`` (bool, shape (n,)), compared with these alone."""
        stays = rows[self.member]
        group = np.unique(self.group[stays], return_inverse=True)[1].astype(np.int64)
        return Groups(self.member[stays], group, np.flatnonzero(rows))

    @classmethod
    def of_cells(cls, cells: Ints) -> "Groups":
        """Every cell for itself."""
        return cls(np.arange(len(cells)), cells)

    @classmethod
    def above(cls, cells: Ints, cell: Ints, group: Ints) -> "Groups":
        """The rows of each ``cell[i]`` stand in ``group[i]``; cells that no row is in do not count."""
        size = np.bincount(cells, minlength=int(cell.max(initial=-1)) + 1)
        known = size[cell] > 0
        cell, group = cell[known], np.unique(group[known], return_inverse=True)[1].astype(np.int64)
        first, times = (np.cumsum(size) - size)[cell], size[cell]
        turn = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        return cls(
            np.argsort(cells, kind="stable")[np.repeat(first, times) + turn],
            np.repeat(group, times),
        )


class Aim(ABC):
    """What every group is to hold. ``codes``: int64, shape (n,), dense from 0: all values of one
    activity.
    """

    @abstractmethod
    def measure(self, codes: Ints, groups: Groups) -> Floats:
        """The figure that the aim bounds, for each group: float64, shape (groups,)."""

    @abstractmethod
    def lacking(self, figures: Floats) -> Floats:
        """For each group by which share of its values it misses the aim: in [0, 1], 0 if and only
        if it holds.
        """

    def among(self, distinct: Ints, count: Ints) -> "Aim":
        """The same aim where only the codes ``distinct`` (ascending) occur, ``count`` times each,
        renumbered from 0.
        """
        return self

    def dealt_anew(self, codes: Ints, cells: Ints) -> Ints:
        """All values of all cells, dealt out evenly: as near to the aim as this comes. Nothing of
        it is random.
        """
        return deal(codes, cells, np.ones(len(codes), np.bool_))


@dataclass(frozen=True, slots=True)
class Near(Aim):
    """Every group is within ``t`` of all values, by the earth mover's distance.

    ``places``: float64, shape (codes,), ascending; where each value lies, from 0 to 1. ``ranked``:
    they are found by rank among the values of each activity, so that only their order counts before
    ``among``. None: any two values lie 1 apart. ``missing``: the last code stands for values that
    are missing, 1 from all others; None: there is no such code.
    """

    t: float
    places: Floats | None
    ranked: bool = False
    missing: int | None = None

    def among(self, distinct: Ints, count: Ints) -> "Near":
        """The places of these codes only. Values move and stay what they are, so the exchange does
        not change ranks.
        """
        missing = len(distinct) - 1 if len(distinct) and distinct[-1] == self.missing else None
        if self.places is None:
            return Near(self.t, None, missing=missing)
        number = slice(missing)
        places = self.places[distinct[number]]
        if self.ranked:
            places = (np.cumsum(count[number]) - count[number] / 2) / max(count[number].sum(), 1)
        return Near(self.t, places, missing=missing)

    def measure(self, codes: Ints, groups: Groups) -> Floats:
        """Each group's distance from the whole."""
        part, whole = codes[groups.member], codes if groups.whole is None else codes[groups.whole]
        if self.places is None:
            return total_variation(whole, part, groups.group)
        if self.missing is None:
            return moved_earth(whole, part, groups.group, self.places)
        return self._beside_missing(whole, part, groups.group, self.places)

    def _beside_missing(self, whole: Ints, part: Ints, group: Ints, places: Floats) -> Floats:
        """Where a group lacks more values (or fewer) than the whole, the difference moves by 1, the
        others in proportion.
        """
        there = part != self.missing
        share, of_all = (
            np.bincount(group, there) / np.bincount(group),
            float((whole != self.missing).mean()),
        )
        moved = np.zeros(len(share))
        if there.any():
            known, dense = np.unique(group[there], return_inverse=True)
            moved[known] = moved_earth(
                whole[whole != self.missing], part[there], dense.astype(np.int64), places
            )
        return np.asarray(np.abs(share - of_all) + np.minimum(share, of_all) * moved, np.float64)

    def lacking(self, figures: Floats) -> Floats:
        """A group that keeps a share ``t / distance`` and gets the rest from the whole is within
        ``t``: EMD is convex.
        """
        lacking = 1 - self.t / np.maximum(figures, self.t)
        return np.where(figures <= self.t + ROUNDING, 0.0, lacking)


@dataclass(frozen=True, slots=True)
class Varied(Aim):
    """Every group holds at least ``l`` values: different ones, or by their entropy."""

    l: float  # noqa: E741 - the field's standard name
    variety: Literal["distinct", "entropy"]

    def measure(self, codes: Ints, groups: Groups) -> Floats:
        """How many values each group holds."""
        width = int(codes.max(initial=0)) + 1
        pairs, count = np.unique(groups.group * width + codes[groups.member], return_counts=True)
        group = pairs // width
        if self.variety == "distinct":
            return np.bincount(group).astype(np.float64)
        share = count / np.bincount(groups.group)[group]
        return np.exp(np.bincount(group, -share * np.log(share)))

    def lacking(self, figures: Floats) -> Floats:
        """The share of ``l`` that is missing."""
        return np.where(figures >= self.l * (1 - ROUNDING), 0.0, 1 - figures / self.l)

    def dealt_anew(self, codes: Ints, cells: Ints) -> Ints:
        """For distinct values: as many different ones to each cell as can be given to all."""
        if self.variety == "entropy":
            return deal(codes, cells, np.ones(len(codes), np.bool_))
        return _apart(codes, cells)


def exchange(codes: Ints, cells: Ints, judged: Sequence[Groups], aim: Aim, noise: Noise) -> Ints:
    """``codes`` in other cells, so that all groups ``judged`` meet ``aim`` if that can be reached:
    int64, shape (n,).

    ``cells``: int64, shape (n,), dense from 0. Each cell gives up the share that it (or the worst
    of its groups) lacks. While some group misses the aim, its cells keep half as much of their own
    as before, and all others give a little to the pool, so that it becomes more like the whole.
    What a cell gives up is spread over its values, from a random start. Where even dealing
    everything anew does not reach the aim, that is what comes back: the best that this knows.
    """
    lacking = _lacking(codes, judged, aim)
    if not lacking.any():
        return codes
    share = np.zeros(int(cells.max()) + 1)
    np.maximum.at(share, cells, lacking)
    shuffled = noise.permutation(len(codes))
    for least in SHARES:
        share = np.maximum(share, least)
        moved = deal(codes, cells, _given_up(codes, cells, share, shuffled, noise))
        misses = _lacking(moved, judged, aim) > 0
        if not misses.any():
            return _settled(codes, moved, cells)
        failing = np.unique(cells[misses])
        share[failing] = (1 + share[failing]) / 2
    return _settled(codes, aim.dealt_anew(codes, cells), cells)


def _lacking(codes: Ints, judged: Sequence[Groups], aim: Aim) -> Floats:
    """For each row by which share of its values the worst of its groups misses ``aim``: float64,
    shape (n,).
    """
    worst = np.zeros(len(codes))
    for groups in judged:
        lacking = aim.lacking(aim.measure(codes, groups))
        np.maximum.at(worst, groups.member, lacking[groups.group])
    return worst


def deal(codes: Ints, cells: Ints, given: Bools) -> Ints:
    """Deal the codes of the rows ``given`` out over these rows, each cell getting an even sample of
    them.

    A cell with m of these rows takes a value from the middle of each m-th of the pool, in ascending
    order. Where several cells want the same place, a sequence of low discrepancy (Kronecker's, of
    the golden ratio) says who goes first, so that no cell always comes before another.
    """
    rows = np.flatnonzero(given)
    rows = rows[np.lexsort((codes[rows], cells[rows]))]
    size = np.bincount(cells[rows])
    rank = np.arange(len(rows)) - (np.cumsum(size) - size)[cells[rows]]
    wanted = (rank + 0.5) / size[cells[rows]]
    precedence = np.arange(len(rows)) * _GOLDEN % 1
    dealt = codes.copy()
    dealt[rows[np.lexsort((precedence, wanted))]] = np.sort(codes[rows])
    return dealt


def _given_up(codes: Ints, cells: Ints, share: Floats, shuffled: Ints, noise: Noise) -> Bools:
    """Rows that are given up: of each cell the ``share`` (shape (cells,)), evenly over its values
    in order, so that what it keeps is spread like what it had. Equal values are told apart by
    ``shuffled``.
    """
    order = np.lexsort((shuffled, codes, cells))
    cell = cells[order]
    size = np.bincount(cells)
    rank = np.arange(len(order)) - (np.cumsum(size) - size)[cell]
    begin = noise.uniform(np.full(len(size), _DRAWS, np.int64)) / _DRAWS
    given = np.zeros(len(codes), np.bool_)
    given[order] = np.floor((rank + 1) * share[cell] + begin[cell]) > np.floor(
        rank * share[cell] + begin[cell]
    )
    return given


def _settled(before: Ints, after: Ints, cells: Ints) -> Ints:
    """``after`` in an order in which, inside each cell, as many rows as possible keep the value
    that they had.
    """
    rows = len(before)
    width = max(int(before.max(initial=0)), int(after.max(initial=0))) + 1
    pairs = np.concatenate([cells * width + before, cells * width + after])
    held = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
    old, new = (half * rows + _earlier_like_it(half) for half in (held[:rows], held[rows:]))
    _, stays, taken = np.intersect1d(old, new, assume_unique=True, return_indices=True)
    free, left = np.ones((2, rows), np.bool_)
    free[stays] = left[taken] = False
    vacant, values = np.flatnonzero(free), np.flatnonzero(left)
    vacant = vacant[np.lexsort((before[vacant], cells[vacant]))]
    values = values[np.lexsort((after[values], cells[values]))]
    settled = before.copy()
    settled[vacant] = after[values]
    return settled


def _earlier_like_it(codes: Ints) -> Ints:
    """For each row how many rows before it hold the same code."""
    order = np.argsort(codes, kind="stable")
    ascending = codes[order]
    earlier = np.empty(len(codes), np.int64)
    earlier[order] = np.arange(len(codes)) - np.searchsorted(ascending, ascending)
    return earlier


def _rounds(codes: Ints, cells: Ints) -> int:
    """How often all cells can be given a value that they do not have yet, if they have rows for it."""
    cell_count = int(cells.max()) + 1
    return int(np.minimum(np.bincount(codes), cell_count).sum()) // cell_count


def _apart(codes: Ints, cells: Ints) -> Ints:
    """All codes dealt anew: to each cell as many different ones as all can have, or it has rows
    for; the others evenly.

    At most as many copies of a value as there are cells lie side by side in one row of values; that
    row is dealt round robin, so that no cell meets a value twice. With G cells, l different values
    for each can be had if and only if all cells have l rows and the sum over values of min(copies,
    G) is at least ``l * G`` (Gale and Ryser 1957: as that sum is concave in G, the other conditions
    follow); so the least variety that comes of this is the largest possible.
    """
    count, rounds = int(cells.max()) + 1, _rounds(codes, cells)
    ascending = np.sort(codes)
    able = np.flatnonzero(_earlier_like_it(ascending) < count)[: rounds * count]
    turn = np.arange(len(able))
    place = np.full((rounds, count), -1, np.int64)
    rank = _earlier_like_it(cells)
    early = rank < rounds
    place[rank[early], cells[early]] = np.flatnonzero(early)
    rows = place[turn // count, turn % count]
    dealt = np.empty_like(codes)
    dealt[rows[rows >= 0]] = ascending[able[rows >= 0]]
    rest = np.ones(len(codes), np.bool_)
    rest[rows[rows >= 0]] = False
    spare = np.ones(len(codes), np.bool_)
    spare[able[rows >= 0]] = False
    dealt[rest] = ascending[spare]
    return deal(dealt, cells, rest)


def total_variation(whole: Ints, part: Ints, group: Ints) -> Floats:
    """For each group of the codes ``part`` half the sum of how much its shares differ from those of
    ``whole``.
    """
    width = int(whole.max()) + 1
    share, size = np.bincount(whole) / len(whole), np.bincount(group)
    pairs, count = np.unique(group * width + part, return_counts=True)
    of_group = pairs // width
    common = np.minimum(count / size[of_group], share[pairs % width])
    return np.maximum(1 - np.bincount(of_group, common), 0.0)


def moved_earth(whole: Ints, part: Ints, group: Ints, places: Floats) -> Floats:
    """For each group of the codes ``part`` the integral of how far its distribution function lies
    from that of ``whole``.

    Between two neighbouring values of a group its own function is level, while that of the whole
    rises, through that level at one place at most: so two differences of the whole's integral give
    the area, and the cost is linear in values.
    """
    rising = np.cumsum(np.bincount(whole, minlength=len(places))) / len(whole)
    area = np.concatenate([[0.0], np.cumsum(rising[:-1] * np.diff(places))])
    order = np.lexsort((part, group))
    left, of_group, size = part[order], group[order], np.bincount(group)
    first = np.cumsum(size) - size
    right = np.append(left[1:], 0)
    right[first + size - 1] = len(places) - 1
    level = (np.arange(len(left)) - first[of_group] + 1) / size[of_group]
    cross = np.clip(np.searchsorted(rising, level), left, right)
    below = level * (places[cross] - places[left]) - (area[cross] - area[left])
    above = (area[right] - area[cross]) - level * (places[right] - places[cross])
    return np.asarray(area[left[first]] + np.bincount(of_group, below + above), np.float64)

"""Exchange values between classes until the values of every class are close to, or as diverse as,
what is asked for: the mathematics of it.

The values of one activity are in *cells*, one a class. Cells put a share of their values into a
pool. The pool is redistributed evenly, and each cell takes as many values as it gave. So the
activity keeps exactly the values that it had; only which cell has them changes.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints, distinct, ranges_of, rank_among_equals
from cloakwork.base.frozen import frozen
from cloakwork.noise import Noise

POOLED_SHARES: Final = (0.0, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8)
"""Which share of its values every cell gives up at least, tried in this order until all groups meet
the goal.
"""

ROUNDING: Final = 1e-10
"""What floating-point sums may be off by; the independent checks allow ten times as much."""

_GOLDEN_RATIO: Final = (5**0.5 - 1) / 2
_DRAWS: Final = 2**20
"""A random start lies on a grid of so many points in [0, 1)."""


@frozen
class Groups:
    """What is checked: the cells, or groups of cells, which may be nested, as prefixes are.

    ``member``, ``group``: int64, shape (m,); row ``member[i]`` is in group ``group[i]``; groups are
    dense, from 0. ``reference``: the rows that groups are compared with; None: all.
    """

    member: Ints
    group: Ints
    reference: Ints | None = None

    def restricted_to(self, rows: Bools) -> "Groups":
        """The members that are among ``rows`` (bool, shape (n,)), compared with these alone."""
        stays = rows[self.member]
        group = distinct(self.group[stays])[1]
        return Groups(self.member[stays], group, np.flatnonzero(rows))

    @classmethod
    def of_cells(cls, cells: Ints) -> "Groups":
        """Every cell as a group."""
        return cls(np.arange(len(cells)), cells)

    @classmethod
    def of_cell_groups(cls, cells: Ints, cell: Ints, group: Ints) -> "Groups":
        """The rows of each ``cell[i]`` are in ``group[i]``; cells without a row are passed over."""
        size = np.bincount(cells, minlength=int(cell.max(initial=-1)) + 1)
        occurs = size[cell] > 0
        cell = cell[occurs]
        group = distinct(group[occurs])[1]
        # All rows of a cell lie side by side in this order, from its ``first_place`` on.
        by_cell = np.argsort(cells, kind="stable")
        first_place = np.cumsum(size) - size
        # Each pair once for each row of its cell.
        place = ranges_of(first_place[cell], size[cell])
        return cls(by_cell[place], np.repeat(group, size[cell]))


class ClassGoal(ABC):
    """What the values of every group are to be like.

    ``codes``: int64, shape (n,), dense from 0; all values of one activity.
    """

    @abstractmethod
    def measure(self, codes: Ints, groups: Groups) -> Floats:
        """The figure that the goal bounds, for each group: float64, shape (groups,)."""

    @abstractmethod
    def shortfall(self, figures: Floats) -> Floats:
        """For each group the share of its values by which it misses the goal: in [0, 1], and 0 if
        and only if it meets the goal.
        """

    def restricted_to(self, distinct: Ints, count: Ints) -> "ClassGoal":
        """The same goal where only the codes ``distinct`` (ascending) occur, ``count`` times each,
        renumbered from 0.
        """
        return self

    def redistribute_all(self, codes: Ints, cells: Ints) -> Ints:
        """All values redistributed evenly, as near to the goal as that comes; nothing is random."""
        return redistribute(codes, cells, np.ones(len(codes), np.bool_))


@frozen
class TClosenessGoal(ClassGoal):
    """Every group is within ``t`` of all values, by the earth mover's distance.

    ``positions``: float64, shape (codes,), ascending; where each value lies, from 0 to 1. None: any
    two values lie 1 apart. ``by_rank``: the positions follow from ranks among the values of each
    activity, so that only their order counts before ``restricted_to``. ``missing_code``: the last
    code stands for missing values, which lie 1 from all others; -1: there is no such code.
    """

    t: float
    positions: Floats | None
    by_rank: bool = False
    missing_code: int = -1

    def restricted_to(self, distinct: Ints, count: Ints) -> "TClosenessGoal":
        """The positions of these codes only. The exchange keeps all values, and so their ranks."""
        is_present = distinct != self.missing_code
        missing_code = -1 if is_present.all() else len(distinct) - 1
        if self.positions is None:
            return TClosenessGoal(self.t, None, missing_code=missing_code)
        positions = self.positions[distinct[is_present]]
        if self.by_rank:
            # The middle rank of the copies of each value, as a share of all ranks.
            copies = count[is_present]
            positions = (np.cumsum(copies) - copies / 2) / max(copies.sum(), 1)
        return TClosenessGoal(self.t, positions, missing_code=missing_code)

    def measure(self, codes: Ints, groups: Groups) -> Floats:
        """Each group's distance from all values. Where it lacks more values (or fewer) than these
        do, the difference moves by 1, the other values in proportion.
        """
        values = codes[groups.member]
        group = groups.group
        reference = codes if groups.reference is None else codes[groups.reference]
        if self.positions is None:
            return total_variation(reference, values, group)
        is_present = values != self.missing_code
        present_reference = reference != self.missing_code
        share = np.bincount(group, is_present) / np.bincount(group)
        share_of_reference = float(present_reference.mean())
        distance = np.zeros(len(share))
        if is_present.any():
            has_values = share > 0
            distance[has_values] = earth_mover_distance(
                reference[present_reference],
                values[is_present],
                # Groups with values only, renumbered from 0.
                (np.cumsum(has_values) - 1)[group[is_present]],
                self.positions,
            )
        common = np.minimum(share, share_of_reference)
        return np.asarray(np.abs(share - share_of_reference) + common * distance, np.float64)

    def shortfall(self, figures: Floats) -> Floats:
        """A group that keeps a share ``t / distance`` and takes the rest evenly from all values is
        within ``t``: the earth mover's distance is convex.
        """
        shortfall = 1 - self.t / np.maximum(figures, self.t)
        return np.where(figures <= self.t + ROUNDING, 0.0, shortfall)


@frozen
class LDiversityGoal(ClassGoal):
    """Every group holds at least ``l`` values: different ones, or by their entropy."""

    l: float  # noqa: E741 - the field's standard name
    variety: Literal["distinct", "entropy"]

    def measure(self, codes: Ints, groups: Groups) -> Floats:
        """How many values each group holds."""
        # One number for each pair of a group and a code that it holds.
        width = int(codes.max(initial=0)) + 1
        pairs, count = np.unique(groups.group * width + codes[groups.member], return_counts=True)
        group_of_pair = pairs // width
        if self.variety == "distinct":
            return np.bincount(group_of_pair).astype(np.float64)
        # exp(H), where each value adds -p log p to the entropy H of its group.
        share = count / np.bincount(groups.group)[group_of_pair]
        entropy = np.bincount(group_of_pair, -share * np.log(share))
        return np.exp(entropy)

    def shortfall(self, figures: Floats) -> Floats:
        """The share of ``l`` that is missing."""
        return np.where(figures >= self.l * (1 - ROUNDING), 0.0, 1 - figures / self.l)

    def redistribute_all(self, codes: Ints, cells: Ints) -> Ints:
        """For distinct values: as many different ones to each cell as all cells can have."""
        if self.variety == "distinct":
            return _spread_distinct(codes, cells)
        return ClassGoal.redistribute_all(self, codes, cells)


def exchange_values(
    codes: Ints,
    cells: Ints,
    to_check: Sequence[Groups],
    goal: ClassGoal,
    noise: Noise,
) -> Ints:
    """``codes`` in other cells, so that all groups ``to_check`` meet ``goal`` if that can be
    reached: int64, shape (n,).

    ``cells``: int64, shape (n,), dense from 0. Each cell gives up the share by which it (or the
    worst of its groups) misses the goal. While some group misses it, the cells of that group keep
    half as much of their own as before, and all others give a little to the pool, so that it
    becomes more like all values. What a cell gives up is spread over its values, from a random
    start. Where even redistributing everything does not reach the goal, that is returned: this
    knows nothing better.
    """
    shortfall = _row_shortfall(codes, to_check, goal)
    if not shortfall.any():
        return codes
    share = np.zeros(int(cells.max()) + 1)
    np.maximum.at(share, cells, shortfall)
    # Cell by cell and by value; among equal values chance decides.
    order = np.lexsort((noise.permutation(len(codes)), codes, cells))
    cell = cells[order]
    rank = rank_among_equals(cell)
    pooled = np.zeros(len(codes), np.bool_)
    for least_share in POOLED_SHARES:
        share = np.maximum(share, least_share)
        # Systematic sampling: a row is taken where a line of slope ``share`` passes an integer. So
        # what a cell keeps is spread like what it had.
        start = noise.uniform(np.full(len(share), _DRAWS, np.int64)) / _DRAWS
        before = np.floor(rank * share[cell] + start[cell])
        after = np.floor((rank + 1) * share[cell] + start[cell])
        pooled[order] = after > before
        exchanged = redistribute(codes, cells, pooled)
        misses = _row_shortfall(exchanged, to_check, goal) > 0
        if not misses.any():
            return _with_most_values_in_place(codes, exchanged, cells)
        failing = np.unique(cells[misses])
        share[failing] = (1 + share[failing]) / 2
    return _with_most_values_in_place(codes, goal.redistribute_all(codes, cells), cells)


def _row_shortfall(codes: Ints, to_check: Sequence[Groups], goal: ClassGoal) -> Floats:
    """For each row the largest shortfall of a group that it is in: float64, shape (n,)."""
    worst = np.zeros(len(codes))
    for groups in to_check:
        shortfall = goal.shortfall(goal.measure(codes, groups))
        np.maximum.at(worst, groups.member, shortfall[groups.group])
    return worst


def redistribute(codes: Ints, cells: Ints, pooled: Bools) -> Ints:
    """Redistribute the codes of the rows ``pooled`` over these rows, each cell getting an even
    sample of them.

    A cell with m of these rows takes a value from the middle of each m-th of the pool, in ascending
    order. Where several cells ask for the same place, a sequence of low discrepancy (Kronecker's,
    of the golden ratio) says which is first, so that no cell always comes before another.
    """
    rows = np.flatnonzero(pooled)
    rows = rows[np.lexsort((codes[rows], cells[rows]))]
    cell = cells[rows]
    # The middle of each m-th, as a share of the pool.
    place_in_pool = (rank_among_equals(cell) + 0.5) / np.bincount(cell)[cell]
    precedence = np.arange(len(rows)) * _GOLDEN_RATIO % 1
    takers_in_order = rows[np.lexsort((precedence, place_in_pool))]
    redistributed = codes.copy()
    redistributed[takers_in_order] = np.sort(codes[rows])
    return redistributed


def _with_most_values_in_place(before: Ints, after: Ints, cells: Ints) -> Ints:
    """``after``, with as many rows of each cell as possible on their value of ``before``."""
    rows = len(before)
    width = max(int(before.max(initial=0)), int(after.max(initial=0))) + 1
    # Number every value by its cell, its code, and how many such values come earlier. Numbers that
    # occur both before and after are the values that can stay.
    pairs = np.concatenate([cells * width + before, cells * width + after])
    number_before, number_after = np.split(distinct(pairs)[1], 2)
    key_before = number_before * rows + rank_among_equals(number_before)
    key_after = number_after * rows + rank_among_equals(number_after)
    _, stays, taken = np.intersect1d(
        key_before,
        key_after,
        assume_unique=True,
        return_indices=True,
    )
    # The other values go to the other rows of their cell, in ascending order of both. Each cell has
    # as many of the ones as of the others, so that sorting by cell brings them together.
    vacant = np.delete(np.arange(rows), stays)
    vacant = vacant[np.lexsort((before[vacant], cells[vacant]))]
    left = np.delete(np.arange(rows), taken)
    left = left[np.lexsort((after[left], cells[left]))]
    arranged = before.copy()
    arranged[vacant] = after[left]
    return arranged


def _spread_distinct(codes: Ints, cells: Ints) -> Ints:
    """All codes redistributed: to each cell as many different ones as all cells can have, or as it
    has rows for; the other codes evenly.

    Of each value at most as many copies as there are cells are laid side by side, value after
    value. They are given out round robin, so that no cell meets a value twice. With G cells, each
    can have l different values if and only if all cells have l rows and the sum over values of
    min(copies, G) is at least ``l * G`` (Gale and Ryser 1957: as that sum is concave in G, the
    other conditions follow). So the least diversity of a cell is the largest possible.
    """
    cell_count = int(cells.max()) + 1
    usable = np.minimum(np.bincount(codes), cell_count).sum()
    rounds = int(usable) // cell_count
    ascending = np.sort(codes)
    is_usable = rank_among_equals(ascending) < cell_count
    given = np.flatnonzero(is_usable)[: rounds * cell_count]
    # row_of[r, c]: the row in which cell c takes its value of round r; -1 where it has no row left.
    row_of = np.full((rounds, cell_count), -1, np.int64)
    rank = rank_among_equals(cells)
    in_rounds = np.flatnonzero(rank < rounds)
    row_of[rank[in_rounds], cells[in_rounds]] = in_rounds
    # Round after round, and within a round cell after cell, as the values are laid out.
    rows = row_of.ravel()[: len(given)]
    has_row = rows >= 0
    rows = rows[has_row]
    given = given[has_row]
    is_open = np.ones(len(codes), np.bool_)
    is_open[rows] = False
    spread = np.empty_like(codes)
    spread[rows] = ascending[given]
    spread[is_open] = np.delete(ascending, given)
    return redistribute(spread, cells, is_open)


def total_variation(reference: Ints, values: Ints, group: Ints) -> Floats:
    """For each group half the sum of how much its shares differ from those of ``reference``."""
    width = int(reference.max()) + 1
    share_in_reference = np.bincount(reference) / len(reference)
    pairs, count = np.unique(group * width + values, return_counts=True)
    group_of_pair, value_of_pair = np.divmod(pairs, width)
    share = count / np.bincount(group)[group_of_pair]
    # Half the sum of differences is what the two do not have in common.
    common = np.minimum(share, share_in_reference[value_of_pair])
    return np.maximum(1 - np.bincount(group_of_pair, common), 0.0)


def earth_mover_distance(
    reference: Ints,
    values: Ints,
    group: Ints,
    positions: Floats,
) -> Floats:
    """For each group of the codes ``values`` the integral of how far its distribution function lies
    from that of ``reference``.

    Between two neighbouring values of a group its own distribution function is level. That of the
    reference rises, and crosses the level at one position at most. So two differences of the
    reference's integral give the area, and the cost is linear in values.
    """
    count_in_reference = np.bincount(reference, minlength=len(positions))
    rising = np.cumsum(count_in_reference) / len(reference)
    area = np.concatenate([[0.0], np.cumsum(rising[:-1] * np.diff(positions))])
    order = np.lexsort((values, group))
    of_group = group[order]
    size = np.bincount(group)
    first = np.cumsum(size) - size
    # The level from each value of a group to its next one; from the last value to the end.
    left = values[order]
    right = np.append(left[1:], 0)
    last = first + size - 1
    right[last] = len(positions) - 1
    values_up_to = np.arange(len(left)) - first[of_group] + 1
    level = values_up_to / size[of_group]
    # Where the reference crosses the level; up to there it lies below.
    cross = np.clip(np.searchsorted(rising, level), left, right)
    below = level * (positions[cross] - positions[left]) - (area[cross] - area[left])
    above = (area[right] - area[cross]) - level * (positions[right] - positions[cross])
    # Before its first value a group's distribution function is 0: all of the reference's area.
    before_first = area[left[first]]
    return np.asarray(before_first + np.bincount(of_group, below + above), np.float64)

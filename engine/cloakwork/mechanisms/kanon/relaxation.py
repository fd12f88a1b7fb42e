"""A lower bound on what moving whole variants costs: the constraint "every variant goes to one
class" is relaxed with multipliers.

Give each variant i a multiplier w_i, and let the classes choose their members without regard to
each other: class j picks a set T of mass at least ``required_mass[j]`` for which

    sum of move_cost[i, j] - w_i over T

is least, and is opened only where that is below 0. Every k-anonymous answer is such a choice, in
which each variant is picked once and the multipliers cancel out. So for any multipliers w

    L(w)  =  sum of w_i  +  sum over classes of min(0, that least sum)  <=  cost of every answer.

(Lagrangian relaxation; Geoffrion, Approaches to Integer Programming, Mathematical Programming Study
2, 1974.) The least sum is exact for masses up to ``MOST_MASS_UNITS``, and else bounded from below:
what has a negative cost is picked; the mass that is still missing is a covering knapsack, solved by
dynamic programming over it.

Over prefixes a class needs its mass only where no extension of it is open, and the choice is made
along the tree of variants that begin with one another. Of trees that share no variant, no more than
the whole mass divided by k hold an open class, since each that does holds mass k.

All figures are integers, in 1/``SCALE`` of an edit, so that rounding never makes a bound too high.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Ints
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.whole_variants import MoveCosts

SCALE: Final = 1024
MOST_MASS_UNITS: Final = 256
"""In how many units missing mass is counted at most."""
_NO_LIMIT: Final = Deadline()
_FORBIDDEN: Final = 1 << 60
"""Cost that stands for what is not allowed. int64 holds the sum of seven of them, not of eight."""
_CELLS_AT_ONCE: Final = 1 << 23
"""Most cells of a dynamic programme at once: classes * variants * mass."""


@dataclass(frozen=True, slots=True)
class OpenDecisions:
    """What earlier decisions of a search leave possible.

    ``may_move``: bool, shape (variants, variants); whether variant i may go to class j.
    ``must_open``: bool, shape (variants,); classes that must be open.
    """

    may_move: Bools
    must_open: Bools


@dataclass(frozen=True, slots=True)
class RelaxationValue:
    """The value of L(w), in 1/``SCALE`` edits (no answer is allowed where it is ``_FORBIDDEN`` or
    more), and the choice behind it.

    ``picked``: bool, shape (variants, variants); whether class j picks variant i. ``opened``: bool,
    shape (variants,).
    """

    value: int
    picked: Bools
    opened: Bools

    @property
    def bound(self) -> int:
        """The least whole number of edits that is not below the value."""
        return -(-self.value // SCALE)


@dataclass(frozen=True, slots=True)
class _ClassChoice:
    """Which classes open, at what cost in 1/``SCALE`` edits.

    ``is_extended``: of which an extension is open, so that they need no mass of their own.
    """

    cost: int
    opened: Bools
    is_extended: Bools


class Relaxation:
    """L(w) for one problem; see the module's docstring."""

    def __init__(self, costs: MoveCosts, deadline: Deadline = _NO_LIMIT) -> None:
        self.costs, self.deadline = costs, deadline
        self.scaled_cost = SCALE * costs.move_cost
        self.parent = _nearest_enclosing(costs.prefix_end)
        self.most_trees = max(1, int(costs.mass.sum()) // costs.k)
        self.children: dict[int, list[int]] = {}
        for child in np.flatnonzero(self.parent >= 0):
            self.children.setdefault(int(self.parent[child]), []).append(int(child))

    def __call__(self, multipliers: Ints, decisions: OpenDecisions) -> RelaxationValue:
        """L(``multipliers``) where only what ``decisions`` leave possible may happen.

        ``multipliers``: int64, shape (variants,), in 1/``SCALE`` edits. Raises ``OutOfTime`` where
        the deadline is over before.
        """
        reduced = self.scaled_cost - multipliers[:, None]
        reduced = np.where(decisions.may_move, reduced, _FORBIDDEN)
        # A class without regard to its mass: whatever does not cost it anything joins.
        has_negative_cost = reduced <= 0
        cost_without_mass = np.minimum(reduced, 0).sum(axis=0)
        # A class that must hold its mass: the cheapest cover of what is missing joins as well.
        picked_mass = self.costs.mass @ has_negative_cost
        missing = np.maximum(self.costs.required_mass - picked_mass, 0)
        cover_cost, covering = self._least_covers(reduced, missing, has_negative_cost)
        cost_with_mass = cost_without_mass + cover_cost
        cost_with_mass[cover_cost >= _FORBIDDEN] = _FORBIDDEN
        chosen = self._choose_classes(cost_with_mass, cost_without_mass, decisions.must_open)
        # A class with an open extension needs no cover.
        members = has_negative_cost | (covering & ~chosen.is_extended)
        picked = members & chosen.opened
        value = _FORBIDDEN
        # Costs below 0 may offset a forbidden one in part, but never half of it.
        if chosen.cost < _FORBIDDEN // 2:
            value = chosen.cost + int(multipliers.sum())
        return RelaxationValue(value, picked, chosen.opened)

    def _least_covers(
        self, reduced: Ints, missing: Ints, has_negative_cost: Bools
    ) -> tuple[Ints, Bools]:
        """For each class the least cost of mass ``missing`` from variants that have no negative
        cost there, and which are picked for it.
        """
        cost = np.zeros(len(missing), np.int64)
        picked = np.zeros_like(has_negative_cost)
        deficient = np.flatnonzero(missing)
        cells_of_a_class = len(missing) * (int(missing.max(initial=0)) + 1)
        classes_at_once = max(1, _CELLS_AT_ONCE // cells_of_a_class)
        for start in range(0, len(deficient), classes_at_once):
            self.deadline.require_time()
            chunk = deficient[start : start + classes_at_once]
            # What is picked already cannot be picked for the cover.
            weight = np.where(has_negative_cost[:, chunk], _FORBIDDEN, reduced[:, chunk])
            covers = _knapsack_covers(weight, self.costs.mass, missing[chunk])
            cost[chunk], picked[:, chunk] = covers
        return cost, picked

    def _choose_classes(
        self, cost_with_mass: Ints, cost_without_mass: Ints, must_open: Bools
    ) -> _ClassChoice:
        """The cheapest choice of classes.

        ``cost_with_mass``, ``cost_without_mass``: int64, shape (variants,); what a class costs that
        must hold its mass, and one that need not.
        """
        cost = cost_with_mass.copy()
        must = must_open.copy()
        is_extended = np.zeros(len(cost), bool)
        # Children have greater numbers than their parents: this goes upwards.
        for node in sorted(self.children, reverse=True):
            below = self.children[node]
            opens = _children_to_open(cost[below], must[below])
            must_extend = bool(must[below].any())
            extended_cost = int(cost_without_mass[node]) + _exact_sum(cost[below][opens])
            is_extended[node] = must_extend or extended_cost < int(cost_with_mass[node])
            if is_extended[node]:
                cost[node] = min(extended_cost, _FORBIDDEN)
            must[node] |= must_extend
        opened = self._outermost_open(cost, must)
        if int(opened.sum()) > self.most_trees:
            return _ClassChoice(_FORBIDDEN, opened, is_extended)
        total = _exact_sum(cost[opened])
        # Downwards again: where a class leaves its mass to its children, some of these open.
        for node in sorted(self.children):
            if opened[node] and is_extended[node]:
                below = self.children[node]
                opened[below] = _children_to_open(cost[below], must[below])
        return _ClassChoice(total, opened, is_extended)

    def _outermost_open(self, cost: Ints, must_open: Bools) -> Bools:
        """The roots that open: those that must, and of the others the cheapest of negative cost, as
        many as the mass suffices for.
        """
        is_root = self.parent < 0
        opened = must_open & is_root
        is_profitable = is_root & ~must_open & (cost < 0)
        profitable = np.flatnonzero(is_profitable)
        capacity_left = max(self.most_trees - int(opened.sum()), 0)
        cheapest_first = np.argsort(cost[profitable], kind="stable")
        opened[profitable[cheapest_first[:capacity_left]]] = True
        return opened


def _exact_sum(costs: Ints) -> int:
    """The sum of some costs, forbidden ones among them, as an integer of any size."""
    # int64 would wrap around, and a forbidden choice look like a gain.
    return sum(costs.tolist())


def _children_to_open(cost: Ints, must_open: Bools) -> Bools:
    """Which children of an extended class open: those that must or have a negative cost, or else
    the cheapest, since one at least has to.
    """
    opens = must_open | (cost < 0)
    if not opens.any():
        opens[np.argmin(cost)] = True
    return opens


def _knapsack_covers(weight: Ints, mass: Ints, missing: Ints) -> tuple[Ints, Bools]:
    """For each column the least sum of weights whose mass is ``missing`` or more.

    ``weight``: int64, shape (items, columns), positive; ``_FORBIDDEN`` where an item may not be
    picked. ``mass``: int64, shape (items,). ``missing``: int64, shape (columns,), positive. Gives
    the sums, ``_FORBIDDEN`` where there is none, and the items picked: bool, shape (items,
    columns).

    Above ``MOST_MASS_UNITS`` mass is counted in larger units, rounded up: items that had the mass
    still have it, so the sum may come out lower, never higher.
    """
    # Each quotient is rounded up, which -(-a // b) does in integers.
    mass_unit = -(-int(missing.max()) // MOST_MASS_UNITS)
    mass = -(-mass // mass_unit)
    missing = -(-missing // mass_unit)
    heaviest_first = np.argsort(-mass, kind="stable")
    order = [int(item) for item in heaviest_first if mass[item] > 0]
    least, improves = _fill_cover_table(weight, mass, order, int(missing.max()))

    # Backwards through the items: an item is picked where it improved what was still to be covered.
    picked = np.zeros(weight.shape, bool)
    columns = np.arange(weight.shape[1])
    to_cover = missing.copy()
    for step in range(len(order) - 1, -1, -1):
        item = order[step]
        picked[item] = improves[step, to_cover, columns]
        to_cover = np.where(picked[item], np.maximum(to_cover - mass[item], 0), to_cover)
    return least[missing, columns], picked


def _fill_cover_table(weight: Ints, mass: Ints, order: list[int], most: int) -> tuple[Ints, Bools]:
    """The dynamic programme of the covering knapsack, item after item of ``order``.

    Gives the least weight of mass m or more, int64, shape (most + 1, columns), and where each item
    improved it: bool, shape (items, most + 1, columns).
    """
    columns = weight.shape[1]
    least = np.full((most + 1, columns), _FORBIDDEN, np.int64)
    least[0] = 0
    improves = np.zeros((len(order), most + 1, columns), bool)
    for step, item in enumerate(order):
        size = min(int(mass[item]), most)
        with_item = np.empty_like(least[1:])
        # Up to its own mass the item suffices alone; beyond, it is added to the cover of the rest.
        with_item[:size] = weight[item]
        with_item[size:] = least[1 : most + 1 - size] + weight[item]
        np.less(with_item, least[1:], out=improves[step, 1:])
        np.minimum(least[1:], with_item, out=least[1:])
    return least, improves


def _nearest_enclosing(range_end: Ints) -> Ints:
    """For each row the nearest row before it whose range ``row : range_end[row]`` contains it:
    int64; -1 where there is none.
    """
    parent = np.full(len(range_end), -1)
    # The ranges are nested: those that contain a row are a path, the innermost last.
    path = [-1]
    for row in range(len(range_end)):
        while path[-1] >= 0 and range_end[path[-1]] <= row:
            path.pop()
        parent[row] = path[-1]
        path.append(row)
    return parent

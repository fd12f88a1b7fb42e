"""A lower bound on what moving whole variants costs: the rule "every variant goes to one class" is
bought and sold.

Give each variant i a price w_i for being in a class, and let the classes choose their members
without regard to each other: class j picks a set T of mass at least ``least[j]`` for which

    sum of moving[i, j] - w_i over T

is least, and is opened only where that is below 0. Every allowed answer is such a choice, in which
each variant is picked once and the prices cancel out. So for any prices w

    L(w)  =  sum of w_i  +  sum over classes of min(0, that least sum)  <=  cost of every allowed answer.

(Lagrangian relaxation; Geoffrion, Approaches to Integer Programming, Mathematical Programming Study
2, 1974.) The least sum is exact for masses up to ``FINEST``, and else bounded from below: what pays
for itself is picked, the mass that is still missing is a covering knapsack, solved by dynamic
programming over it. Over prefixes a class needs its mass only where no extension of it is open, and
the choice is made along the tree of variants that begin with one another. Of trees that share no
variant, no more than the whole mass divided by k hold an open class, since each that does holds
mass k. All figures are integers, in 1/``SCALE`` of an edit, so that rounding never makes a bound
too high.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.mechanisms.kanon.problem import Ints
from cloakwork.mechanisms.kanon.whole import Flags, Ground

SCALE: Final = 1024
FINEST: Final = 256
"""In how many grains missing mass is counted at most."""
_NEVER: Final = 1 << 60
"""Costs that stand for what is not allowed; sums of two of them still fit."""
_BLOCK: Final = 1 << 23
"""Most cells of a dynamic programme at once: classes * variants * k."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the decisions of a search leave open.

    ``pairs``: bool, shape (variants, variants); whether variant i may go to class j. ``forced``:
    bool, shape (variants,); classes that must be open.
    """

    pairs: Flags
    forced: Flags


@dataclass(frozen=True, slots=True)
class Relaxed:
    """The value of L(w), in 1/``SCALE`` edits (``_NEVER`` or more: nothing is allowed), and the
    choice behind it.

    ``picked``: bool, shape (variants, variants); whether class j picks variant i. ``opened``: bool,
    shape (variants,).
    """

    value: int
    picked: Flags
    opened: Flags

    @property
    def bound(self) -> int:
        """The least whole number of edits that is not below the value."""
        return -(-self.value // SCALE)


class Relaxation:
    """L(w) for one problem; see the module's docstring."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.spent = SCALE * ground.moving
        self.parent = _parents(ground.behind)
        self.most = max(1, int(ground.mass.sum()) // ground.k)
        self.children: dict[int, list[int]] = {}
        for child in np.flatnonzero(self.parent >= 0):
            self.children.setdefault(int(self.parent[child]), []).append(int(child))

    def __call__(self, price: Ints, allowed: Allowed) -> Relaxed:
        """L(``price``) where only what is ``allowed`` may happen; ``price``: int64, shape
        (variants,), 1/SCALE edits.
        """
        gain = np.where(allowed.pairs, self.spent - price[:, None], _NEVER)
        pays = gain <= 0
        free = np.where(pays, gain, 0).sum(axis=0)
        missing = np.maximum(self.ground.least - self.ground.mass @ pays, 0)
        covered, extra = self._cover(gain, missing, pays)
        alone = np.where(covered >= _NEVER, _NEVER, free + covered)
        total, opened, extended = self._choose(alone, free, allowed.forced)
        picked = (pays | (extra & ~extended)) & opened
        return Relaxed(_NEVER if total >= _NEVER // 2 else total + int(price.sum()), picked, opened)

    def _cover(self, gain: Ints, missing: Ints, pays: Flags) -> tuple[Ints, Flags]:
        """For each class the least cost of mass ``missing`` from what does not pay, and what is
        picked for it.
        """
        cost, picked = np.zeros(len(missing), np.int64), np.zeros_like(pays)
        lacking = np.flatnonzero(missing)
        block = max(1, _BLOCK // (len(missing) * (int(missing.max(initial=0)) + 1)))
        for start in range(0, len(lacking), block):
            part = lacking[start : start + block]
            weight = np.where(pays[:, part], _NEVER, gain[:, part])
            cost[part], picked[:, part] = _knapsacks(weight, self.ground.mass, missing[part])
        return cost, picked

    def _choose(self, alone: Ints, free: Ints, forced: Flags) -> tuple[int, Flags, Flags]:
        """Which classes open at what cost, and which of them need no mass because an extension is
        open.

        ``alone``, ``free``: int64, shape (variants,); what a class costs that must hold its mass,
        and one that need not.
        """
        cost, must, extended = alone.copy(), forced.copy(), np.zeros(len(alone), bool)
        for node in sorted(self.children, reverse=True):
            below = self.children[node]
            wanted = must[below] | (cost[below] < 0)
            some = int(cost[below][wanted].sum()) if wanted.any() else int(cost[below].min())
            tied = bool(must[below].any())
            extended[node] = tied or int(free[node]) + some < int(alone[node])
            cost[node] = min(free[node] + some, _NEVER) if extended[node] else alone[node]
            must[node] |= tied
        opened = self._roots(cost, must)
        if int(opened.sum()) > self.most:
            return _NEVER, opened, extended
        total = int(cost[opened].clip(max=_NEVER).astype(object).sum()) if opened.any() else 0
        for node in sorted(self.children):
            if opened[node] and extended[node]:
                below = self.children[node]
                wanted = must[below] | (cost[below] < 0)
                wanted[np.argmin(cost[below])] |= not wanted.any()
                opened[below] = wanted
        return total, opened, extended

    def _roots(self, cost: Ints, must: Flags) -> Flags:
        """The outermost choices: those that must be made, and of the others the cheapest that pay
        and still have room.
        """
        root = self.parent < 0
        opened = must & root
        paying = np.flatnonzero(root & ~must & (cost < 0))
        room = max(self.most - int(opened.sum()), 0)
        opened[paying[np.argsort(cost[paying], kind="stable")[:room]]] = True
        return opened


def _knapsacks(weight: Ints, mass: Ints, missing: Ints) -> tuple[Ints, Flags]:
    """For each column the least sum of weights (positive; ``_NEVER``: not to be had) whose mass is
    ``missing`` or more.

    ``weight``: int64, shape (items, columns); ``mass``: int64, shape (items,); ``missing``: int64,
    shape (columns,), positive. Above ``FINEST`` mass is counted in larger grains, rounded up: items
    that had the mass still have it, so the sum may come out lower, never higher. Gives the sums,
    ``_NEVER`` where there is none, and the items picked: bool, shape (items, columns).
    """
    items, columns = weight.shape
    grain = -(-int(missing.max()) // FINEST)
    mass, missing = -(-mass // grain), -(-missing // grain)
    most = int(missing.max())
    least = np.full((most + 1, columns), _NEVER, np.int64)
    least[0] = 0
    order = [int(item) for item in np.argsort(-mass, kind="stable") if mass[item] > 0]
    taken = np.zeros((len(order), most + 1, columns), bool)
    for step, item in enumerate(order):
        size = min(int(mass[item]), most)
        better = np.empty_like(least[1:])
        better[:size] = weight[item]
        better[size:] = least[1 : most + 1 - size] + weight[item]
        np.less(better, least[1:], out=taken[step, 1:])
        np.minimum(least[1:], better, out=least[1:])
    picked, column, left = np.zeros((items, columns), bool), np.arange(columns), missing.copy()
    for step in range(len(order) - 1, -1, -1):
        item = order[step]
        picked[item] = taken[step, left, column]
        left = np.where(picked[item], np.maximum(left - mass[item], 0), left)
    return least[missing, column], picked


def _parents(behind: Ints) -> Ints:
    """For each row the nearest row before it whose range ``row : behind[row]`` holds it, -1 where
    there is none.
    """
    parent, path = np.full(len(behind), -1), [-1]
    for row in range(len(behind)):
        while path[-1] >= 0 and behind[path[-1]] <= row:
            path.pop()
        parent[row] = path[-1]
        path.append(row)
    return parent

"""What no k-anonymous answer can cost less than: a Lagrangian bound, proved in whole numbers.

Let every variant i pay a price ``p_i`` to whoever takes it in, instead of having to go somewhere.
Any prices give a lower bound: the sum of the prices plus, for the best choice of open variants,
what each makes of the variants that it takes: ``sum_i (n_i d_ij - p_i)``. An open variant that must
hold mass k itself pays at least, for any toll ``t_j >= 0``,
``k t_j + sum_i min(0, n_i d_ij - p_i - w_i t_j)`` (linear-programming duality for the knapsack with
at least k in it). Over variants each must. Over prefixes only those that no other open variant
begins with: the best choice is then found along the forest of variants that begin with one another.

Prices and tolls are sought by subgradient ascent in floating point (Held, Wolfe and Crowder,
Validation of subgradient optimization, 1974), rounded to a grid, and the bound is computed anew
from the rounded ones over all pairs in int64: whatever went wrong before, the bound holds. The same
sums say what an answer costs at least that opens a variant, or moves one variant to another: what
cannot be in a better answer than the best known one is left out of the program.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloakwork.mechanisms.kanon.problem import Ints, Problem

Floats = NDArray[np.float64]

_CHUNK: Final = 1 << 22
_POOL: Final = 120
_LEGS: Final = 200
_SHORT_LEGS: Final = 3
_PATIENCE: Final = 20
_SHRINK: Final = 0.7
_MOMENTUM: Final = 0.9
_SMALLEST_STEP: Final = 3e-3


@dataclass(frozen=True, slots=True)
class Duties:
    """Who must be placed, and what an open variant owes.

    - ``placed``: bool, shape (variants,); the others stay where they are in some best answer.
    - ``free``: bool, shape (variants,); open variants that owe no mass.
    - ``parts``: whether the cases of a variant may part.
    - ``parent``: int64, shape (variants,); over prefixes the longest other variant that one begins
      with and that is a class; -1 where there is none, and over variants.
    """

    placed: NDArray[np.bool_]
    free: NDArray[np.bool_]
    parts: bool
    parent: Ints

    @classmethod
    def of(cls, problem: Problem, *, parts: bool) -> "Duties":
        """Read them off the problem.

        Over whole variants, where each case counts one: a variant with k cases stays. For if it
        moved to j, let it return; should j then hold less than k, let these cases follow it: by the
        triangle inequality that costs less than the return saves.
        """
        count = len(problem.texts)
        stays = np.zeros(count, bool)
        parent = np.full(count, -1)
        if problem.scope == "prefixes":
            free = np.array([not text for text in problem.texts], bool)
            path: list[int] = []
            for row, text in enumerate(problem.texts):
                while path and not text.startswith(problem.texts[path[-1]]):
                    path.pop()
                parent[row] = path[-1] if path else -1
                if text:
                    path.append(row)
            return cls(~stays, free, parts, parent)
        if not parts and (problem.mass == problem.cases).all():
            stays = problem.mass >= problem.k
        return cls(~stays, stays, parts, parent)


@dataclass(frozen=True, slots=True)
class Choice:
    """The best choice of open variants, each with its cost as one that owes mass (``owing``) or as
    one that does not.

    - ``total``: its cost; ``forced``: shape (variants,), the least cost when that variant must be
      open.
    - ``owes``, ``owes_not``: bool, shape (variants,); which are open in it.
    """

    total: Any
    forced: NDArray[Any]
    owes: NDArray[np.bool_]
    owes_not: NDArray[np.bool_]


def choose(duties: Duties, owing: NDArray[Any], not_owing: NDArray[Any]) -> Choice:
    """The best choice; ``owing`` and ``not_owing``: one dtype, shape (variants,), ``not_owing`` at
    most 0.
    """
    own = np.where(duties.free, not_owing, owing)
    if (duties.parent < 0).all():
        gain = np.minimum(own, 0)
        total, taken = gain.sum(), own < 0
        return Choice(total, total - gain + own, taken & ~duties.free, taken & duties.free)
    return _choose_along_the_forest(duties.parent, own, not_owing)


def _choose_along_the_forest(parent: Ints, own: NDArray[Any], not_owing: NDArray[Any]) -> Choice:
    """Upwards the best choice below each variant, downwards the best choice elsewhere; parents
    precede children.
    """
    count = len(parent)
    none = np.iinfo(np.int64).max if own.dtype.kind == "i" else np.inf
    gains, least = [own.dtype.type(0)] * (count + 1), [none] * (count + 1)
    best = [own.dtype.type(0)] * count
    for row in range(count - 1, -1, -1):
        below = _any(gains[row], least[row], none)
        best[row] = own[row] if below == none else min(own[row], not_owing[row] + below)
        up = parent[row]
        gains[up] += min(best[row], 0)
        least[up] = min(least[up], best[row])
    total = gains[-1]
    elsewhere, forced = [own.dtype.type(0)] * count, np.empty(count, own.dtype)
    owes, owes_not, chosen = np.zeros(count, bool), np.zeros(count, bool), [False] * count
    for row in range(count):
        up = parent[row]
        around = total if up < 0 else elsewhere[up] + not_owing[up] + gains[up]
        elsewhere[row] = around - min(best[row], 0)
        forced[row] = elsewhere[row] + best[row]
        above = up < 0 or owes_not[up]
        chosen[row] = above and (
            best[row] < 0 or (up >= 0 and least[up] >= 0 and best[row] == least[up])
        )
        owes[row] = chosen[row] and best[row] == own[row]
        owes_not[row] = chosen[row] and not owes[row]
    return Choice(total, forced, owes, owes_not)


def _any(gain: Any, least: Any, none: Any) -> Any:
    """The best choice of at least one child's; ``none`` where there are no children."""
    return none if least == none else gain if least <= 0 else least


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound that was proved in whole numbers, and what it says about single decisions.

    - ``value``: no answer costs less.
    - ``prices``, ``tolls``: int64, shape (variants,), in ``1 / grid`` edits.
    - ``forced``: int64, shape (variants,), in ``1 / grid`` edits; the least cost when that variant
      must be open.
    """

    problem: Problem
    duties: Duties
    value: int
    grid: int
    prices: Ints
    tolls: Ints
    forced: Ints

    def columns(self, below: int) -> tuple[Ints, Ints]:
        """Every (source, target) that an answer of cost less than ``below`` may hold: two int64
        arrays of one shape.
        """
        placed, stays = np.flatnonzero(self.duties.placed), np.flatnonzero(~self.duties.placed)
        sources, targets = [stays], [stays]
        for columns, least in self._least():
            row, column = np.nonzero(least <= (below - 1) * self.grid)
            sources.append(placed[column])
            targets.append(columns[row])
        return np.concatenate(sources), np.concatenate(targets)

    def below_for(self, columns: int, at_most: int) -> int:
        """The largest ``below``, up to ``at_most``, that leaves no more than that many columns, or
        ``value + 1``.
        """
        levels = np.zeros(max(at_most - self.value, 0) + 1, np.int64)
        for _, least in self._least():
            level = np.clip(-(-least // self.grid) - self.value, 0, len(levels) - 1)
            levels += np.bincount(level.ravel(), minlength=len(levels))
        fitting = int(np.searchsorted(np.cumsum(levels), columns, side="right"))
        return min(self.value + max(fitting, 1), max(at_most, self.value + 1))

    def suggestion(self) -> Ints:
        """Where the prices would have each variant go, whether or not that is an answer: int64,
        shape (variants,).
        """
        placed = np.flatnonzero(self.duties.placed)
        opened = np.flatnonzero(self.forced == self.forced.min())
        away = self.problem.distances.matrix[np.ix_(placed, opened)] * self.problem.cases[
            placed, None
        ].astype(np.float64)
        target = np.arange(len(self.forced))
        target[placed] = opened[
            (away - self.problem.mass[placed, None] * (self.tolls[opened] / self.grid)).argmin(
                axis=1
            )
        ]
        return target

    def least_among(self, rows: Ints) -> Floats:
        """How much more than ``value`` an answer costs at least that moves one of ``rows`` to
        another: float64, in edits, shape (rows moved, rows moved to).
        """
        problem, prices, tolls = (
            self.problem,
            self.prices[rows] / self.grid,
            self.tolls[rows] / self.grid,
        )
        away = problem.distances.matrix[np.ix_(rows, rows)] * problem.cases[rows, None].astype(
            np.float64
        )
        over = away - prices[:, None] - tolls * problem.mass[rows, None]
        if self.duties.parts:
            over = over / problem.cases[rows, None]
        return np.asarray(np.maximum(over, 0) + self.forced[rows] / self.grid - self.value)

    def _least(self) -> Iterator[tuple[Ints, Ints]]:
        """Chunks of variants, and what an answer costs at least that moves each placed variant
        (columns) to each of them (rows), or one case of it, where cases may part: in ``1 / grid``
        edits.
        """
        for columns, over in _reduced(
            self.problem, self.duties, self.grid, self.prices, self.tolls
        ):
            moved = over // self.problem.cases[self.duties.placed] if self.duties.parts else over
            yield columns, self.forced[columns, None] + np.maximum(moved, 0)


def certify(problem: Problem, duties: Duties, prices: Floats, tolls: Floats) -> Bound:
    """The bound that these prices and tolls prove (float64, shape (variants,); tolls below 0 count
    as 0).
    """
    placed = duties.placed
    tolls = np.where(duties.free, 0.0, np.maximum(tolls, 0.0))
    prices = np.where(placed, prices, 0.0)
    count = len(problem.texts)
    farthest = float(problem.distances.matrix.max(initial=0)) * float(problem.cases.max())
    entry = farthest + np.abs(prices).max() + float(problem.mass.max() + problem.k) * tolls.max()
    grid = 1 << max(0, int(60 - np.log2(count * count * (entry + 1) + 1)))
    whole_prices, whole_tolls = (
        np.floor(value * grid).astype(np.int64) for value in (prices, tolls)
    )
    owing, not_owing = problem.k * whole_tolls, np.zeros(count, np.int64)
    for columns, over in _reduced(problem, duties, grid, whole_prices, whole_tolls):
        owing[columns] += np.minimum(over, 0).sum(axis=1)
        toll_free = over + whole_tolls[columns, None] * problem.mass[placed]
        not_owing[columns] = np.minimum(toll_free, 0).sum(axis=1)
    choice = choose(duties, owing, not_owing)
    base = whole_prices.sum()
    value = max(0, -int(-(base + choice.total) // grid))
    return Bound(problem, duties, value, grid, whole_prices, whole_tolls, base + choice.forced)


def _reduced(
    problem: Problem, duties: Duties, grid: int, prices: Ints, tolls: Ints
) -> Iterator[tuple[Ints, Ints]]:
    """Chunks of variants, and ``n_i d_ij - p_i - w_i t_j`` for each of them (rows) and each placed
    variant (columns).
    """
    placed = np.flatnonzero(duties.placed)
    weight, mass, price = problem.cases[placed] * grid, problem.mass[placed], prices[placed]
    count = len(problem.texts)
    size = max(1, _CHUNK // max(1, len(placed)))
    for first in range(0, count, size):
        columns = np.arange(first, min(first + size, count))
        distance = problem.distances.matrix[columns][:, placed].astype(np.int64)
        yield columns, distance * weight - price - tolls[columns, None] * mass


@dataclass(frozen=True, slots=True)
class _Pool:
    """For each variant the cheapest others at some prices: int64 ``rows`` and float64 ``cost``,
    ``mass``, (variants, pool).
    """

    rows: Ints
    cost: Floats
    mass: Floats

    @classmethod
    def at(cls, problem: Problem, duties: Duties, prices: Floats, size: int) -> "_Pool":
        placed = np.flatnonzero(duties.placed)
        count, size = len(problem.texts), min(size, len(placed))
        rows, cost = np.empty((count, size), np.int64), np.empty((count, size))
        weight, per_mass = problem.cases[placed], np.maximum(problem.mass[placed], 0.5)
        step = max(1, _CHUNK // max(1, len(placed)))
        for first in range(0, count, step):
            chunk = slice(first, first + step)
            full = problem.distances.matrix[chunk][:, placed] * weight.astype(np.float64)
            ratio = (full - prices[placed]) / per_mass
            near = np.argpartition(ratio, size - 1, axis=1)[:, :size]
            rows[chunk], cost[chunk] = placed[near], np.take_along_axis(full, near, axis=1)
        return cls(rows, cost, problem.mass[rows].astype(np.float64))


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the pool makes of prices: the bound (of the pool alone), the tolls, and how often each
    variant is taken.
    """

    bound: float
    tolls: Floats
    taken: Floats
    choice: Choice


def _respond(problem: Problem, duties: Duties, pool: _Pool, prices: Floats) -> _Answer:
    reduced = pool.cost - prices[pool.rows]
    with np.errstate(divide="ignore"):
        ratio = np.where(
            pool.mass > 0,
            reduced / np.maximum(pool.mass, 0.5),
            np.where(reduced < 0, -np.inf, np.inf),
        )
    few = min(problem.k, reduced.shape[1])
    first = (
        np.argpartition(ratio, few - 1, axis=1)[:, :few]
        if few < reduced.shape[1]
        else np.argsort(ratio, axis=1)
    )
    order = np.take_along_axis(first, np.argsort(np.take_along_axis(ratio, first, 1), axis=1), 1)
    mass = np.take_along_axis(pool.mass, order, 1)
    before = np.cumsum(mass, axis=1) - mass
    at = np.minimum((before + mass < problem.k).sum(axis=1), few - 1)
    last = np.take_along_axis(np.take_along_axis(ratio, order, 1), at[:, None], 1)[:, 0]
    tolls = np.where(duties.free | ~np.isfinite(last), 0.0, np.maximum(last, 0.0))
    owing = problem.k * tolls + np.minimum(reduced - tolls[:, None] * pool.mass, 0).sum(axis=1)
    choice = choose(duties, owing, np.minimum(reduced, 0).sum(axis=1))

    taken = np.zeros(len(prices))
    filling = np.flatnonzero(choice.owes & (tolls > 0))
    share = np.clip(problem.k - before[filling], 0, mass[filling]) / np.maximum(mass[filling], 0.5)
    np.add.at(taken, np.take_along_axis(pool.rows[filling], order[filling], 1), share)
    profit = np.flatnonzero(choice.owes_not | (choice.owes & (tolls <= 0)))
    np.add.at(taken, pool.rows[profit][reduced[profit] < 0], 1.0)
    return _Answer(float(prices.sum() + choice.total), tolls, taken, choice)


def ascend(
    problem: Problem,
    duties: Duties,
    prices: Floats,
    cost: int,
    seconds: float,
    hear: Callable[[int], None] = lambda bound: None,
) -> Bound:
    """Raise the bound by better prices, until it is ``cost``, or steps are too small, or
    ``seconds`` are over.

    ``prices``: float64, shape (variants,), to begin with; ``cost``: that of some answer; ``hear``
    is told what is proved.
    """
    end = time.monotonic() + seconds
    prices = np.where(duties.placed, prices, 0.0)
    proved = certify(problem, duties, prices, np.zeros(len(prices)))
    if not duties.placed.any():
        return proved
    size, step, rising = max(2 * problem.k, _POOL), 1.0, True
    for leg in range(_LEGS):
        if step < _SMALLEST_STEP or time.monotonic() > end or proved.value >= cost:
            break
        pool = _Pool.at(problem, duties, prices, size)
        aim = min(cost, (1.1 if rising else 1.03) * proved.value + 1) if leg > _SHORT_LEGS else cost
        last = _climb(
            problem, duties, pool, _Climb(-np.inf, prices, prices, step), aim, _leg_length(leg), end
        )
        found = certify(problem, duties, last.prices, last.tolls)
        settled = size >= len(prices) and np.array_equal(prices, last.prices) and last.step == step
        prices, step = last.prices, last.step
        rising = found.value > 1.02 * proved.value
        if found.value >= proved.value:
            proved = found
            hear(proved.value)
        if settled:
            break
        if last.bound > 1.01 * found.value + 1 and leg >= _SHORT_LEGS:
            size, step = min(2 * size, len(prices)), 1.0
    return proved


def _leg_length(leg: int) -> int:
    return 15 if leg < _SHORT_LEGS else 60


@dataclass(frozen=True, slots=True)
class _Climb:
    """How far the ascent is: the best bound (of a pool), its prices and tolls, and the share of the
    way to step.
    """

    bound: float
    prices: Floats
    tolls: Floats
    step: float


def _climb(
    problem: Problem, duties: Duties, pool: _Pool, best: _Climb, aim: float, rounds: int, end: float
) -> _Climb:
    """Subgradient steps with momentum, from the best prices within one pool to better ones."""
    step, prices = best.step, best.prices
    since, direction = 0, np.zeros(len(prices))
    for _ in range(rounds):
        answer = _respond(problem, duties, pool, prices)
        since = 0 if answer.bound > best.bound + 1e-5 * abs(best.bound) else since + 1
        if answer.bound > best.bound:
            best = _Climb(answer.bound, prices, answer.tolls, step)
        slope = np.where(duties.placed, 1.0 - answer.taken, 0.0)
        if not slope.any() or step < _SMALLEST_STEP or time.monotonic() > end:
            break
        if since > _PATIENCE:
            step, since, prices, direction = step * _SHRINK, 0, best.prices, np.zeros(len(prices))
            continue
        direction = slope + _MOMENTUM * direction
        prices = (
            prices + step * max(aim - answer.bound, 1.0) / float(direction @ direction) * direction
        )
    return _Climb(best.bound, best.prices, best.tolls, step)

"""Good k-anonymous answers, quickly: merging, single moves, and neighbourhoods that are solved exactly.

Everything goes by the order of variants and of costs: nothing is drawn, and only where the time runs out does a run
depend on the machine.
"""

import time
from collections.abc import Callable
from typing import Final

import numpy as np

from cloakwork.mechanisms.kanon.problem import Assignment, Ints, Problem, Solution, cost, smallest_class
from cloakwork.mechanisms.kanon.program import Classes, Program

_NEVER: Final = np.iinfo(np.int64).max // 4
_NEIGHBOURHOOD: Final = 40
_AT_MOST: Final = 3.0


def merged(problem: Problem) -> Assignment:
    """An answer by merging: as long as a class holds too little, the one that is cheapest to merge joins another.

    Merged classes gather on whichever of their two targets costs less. Quadratic in variants, in time and memory.
    Every class of the answer holds mass k itself, which serves both scopes. The problem must be feasible.
    """
    state = _Merging(problem)
    while (lacking := np.flatnonzero(state.alive & (state.mass < problem.k))).size:
        first = int(lacking[np.argmin(state.price[lacking])])
        state.merge(first, int(state.partner[first]))
    return Assignment.whole(problem, state.targets())


class _Merging:
    """Classes by number: ``member[a, c]`` is what it costs to gather all members of class a on variant c."""

    def __init__(self, problem: Problem) -> None:
        count = len(problem.texts)
        self.k = problem.k
        self.member = problem.distances.matrix.astype(np.int64) * problem.cases[:, None]
        self.at, self.mass = np.arange(count), problem.mass.copy()
        self.alive = np.ones(count, bool)
        self.class_of = np.arange(count)
        self.price, self.partner = np.full(count, _NEVER), np.zeros(count, np.int64)
        for row in np.flatnonzero(self.mass < self.k):
            self._look(int(row))

    def targets(self) -> Ints:
        return self.at[self.class_of]

    def _offers(self, row: int) -> tuple[Ints, Ints, Ints]:
        """Of each other class: what a merger adds, either onto its target or onto that of ``row``."""
        others = np.flatnonzero(self.alive)
        others = others[others != row]
        mine, here = self.member[row], self.at[row]
        theirs = mine[self.at[others]] - mine[here]
        ours = self.member[others, here] - self.member[others, self.at[others]]
        return others, theirs, ours

    def _look(self, row: int) -> None:
        others, theirs, ours = self._offers(row)
        both = np.minimum(theirs, ours)
        if len(both):
            best = int(np.argmin(both))
            self.price[row], self.partner[row] = both[best], others[best]

    def merge(self, row: int, other: int) -> None:
        others, theirs, ours = self._offers(row)
        place = int(np.searchsorted(others, other))
        if ours[place] < theirs[place]:
            self.at[other] = self.at[row]
        self.member[other] += self.member[row]
        self.mass[other] += self.mass[row]
        self.alive[row] = False
        self.class_of[self.class_of == row] = other
        self.price[row] = _NEVER
        self.price[other] = _NEVER
        for stale in np.flatnonzero(self.alive & (self.mass < self.k)):
            if stale == other or self.partner[stale] in (row, other):
                self._look(int(stale))


def improve(
    problem: Problem,
    solution: Solution,
    seconds: float,
    *,
    parts: bool = False,
    hear: Callable[[int], None] = lambda distance: None,
) -> Solution:
    """A cheaper answer, if one is found within ``seconds``; never a dearer one.

    Around each open variant in turn the classes nearby are dissolved and the program over their members is solved
    exactly, everything else staying as it is, until no neighbourhood gives more or the time is over. ``hear`` is told
    each improved cost. ``parts``: the cases of a variant may part.
    """
    end = time.monotonic() + seconds
    classes = Classes.in_scope(problem)
    best, least = solution.assignment, cost(problem, solution.assignment)
    size = _NEIGHBOURHOOD
    stopped = "no neighbourhood gave more"
    while True:
        found_some = False
        for centre in np.unique(best.target):
            if (left := end - time.monotonic()) <= 0:
                return Solution(best, solution.bound, "the time for searching was over")
            found = _resolved(problem, classes, best, int(centre), size, min(left, _AT_MOST), parts=parts)
            if found is not None and (now := cost(problem, found)) < least:
                best, least, found_some = found, now, True
                hear(least)
        if not found_some:
            if size >= 2 * _NEIGHBOURHOOD:
                return Solution(best, solution.bound, stopped)
            size *= 2


def _resolved(
    problem: Problem, classes: Classes, now: Assignment, centre: int, size: int, seconds: float, *, parts: bool
) -> Assignment | None:
    """The best answer that differs from ``now`` around ``centre`` only."""
    source, target = _columns_around(problem, now, centre, size)
    found = Program(problem, classes, source, target, parts=parts).solve(seconds, now).assignment
    smallest = None if found is None else smallest_class(problem, found)
    return found if smallest is None or smallest >= problem.k else None


def _columns_around(problem: Problem, now: Assignment, centre: int, size: int) -> tuple[Ints, Ints]:
    """Columns of the program: what is, and every pair among the members of the open variants that are nearest."""
    opened = np.unique(now.target)
    near = opened[np.argsort(problem.distances.matrix[centre, opened], kind="stable")]
    members = np.bincount(now.target, minlength=len(problem.texts))[near]
    chosen = near[: max(2, int(np.searchsorted(np.cumsum(members), size)))]
    inside = np.zeros(len(problem.texts), bool)
    inside[now.source[np.isin(now.target, chosen)]] = True
    inside[chosen] = True
    rows = np.flatnonzero(inside)
    outside = np.setdiff1d(opened, rows)
    pairs = [now.source * len(inside) + now.target, (rows[:, None] * len(inside) + rows).ravel()]
    if len(outside):
        nearest = outside[problem.distances.matrix[np.ix_(rows, outside)].argmin(axis=1)]
        pairs.append(rows * len(inside) + nearest)
    source, target = np.divmod(np.unique(np.concatenate(pairs)), len(inside))
    return source, target

"""Good k-anonymous answers, quickly: merging, and neighbourhoods that are solved exactly.

Everything goes by the order of variants and of costs: nothing is drawn, and only where the time
runs out does a run depend on the machine.
"""

import time
from collections.abc import Callable
from typing import Final

import numpy as np

from cloakwork.mechanisms.kanon.lower_bound import Bound, Duties, ascend
from cloakwork.mechanisms.kanon.problem import (
    Assignment,
    Ints,
    Problem,
    Solution,
    cost,
    smallest_class,
)
from cloakwork.mechanisms.kanon.program import Classes, Program

_NEVER: Final = np.iinfo(np.int64).max // 4
_SMALLEST: Final = 60
_GROWTH: Final = (1, 2, 4)
_COLUMNS: Final = 6
_AT_MOST: Final = 4.0
_SHARE: Final = 0.2


def merged(problem: Problem, start: Ints | None = None) -> Assignment:
    """An answer by merging: as long as a class holds too little, the one that is cheapest to merge
    joins another.

    ``start``: where each variant is in the beginning (int64, shape (variants,)); on itself, if not
    given. Merged classes gather on whichever of their two targets costs less. Quadratic in
    variants, in time and memory. Every class of the answer holds mass k itself, which serves both
    scopes. The problem must be feasible.
    """
    state = _Merging(problem, np.arange(len(problem.texts)) if start is None else start)
    while (lacking := np.flatnonzero(state.alive & (state.mass < problem.k))).size:
        first = int(lacking[np.argmin(state.price[lacking])])
        state.merge(first, int(state.partner[first]))
    return Assignment.whole(problem, state.targets())


class _Merging:
    """Classes by number: ``member[a, c]`` is what it costs to gather all members of class a on
    variant c.
    """

    def __init__(self, problem: Problem, start: Ints) -> None:
        count = len(problem.texts)
        self.k = problem.k
        self.at, self.class_of = np.unique(start, return_inverse=True)
        self.mass = np.bincount(self.class_of, problem.mass, len(self.at)).astype(np.int64)
        self.member = np.zeros((len(self.at), count), np.int64)
        for variant in range(count):
            away = problem.distances.matrix[variant].astype(np.int64)
            self.member[self.class_of[variant]] += away * problem.cases[variant]
        self.alive = np.ones(len(self.at), bool)
        self.price, self.partner = np.full(len(self.at), _NEVER), np.zeros(len(self.at), np.int64)
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
    proof: Bound | None = None,
    hear: Callable[[int], None] = lambda distance: None,
) -> Solution:
    """A cheaper answer, if one is found within ``seconds``; never a dearer one.

    Classes that are near to each other are dissolved and the program over their members is solved
    exactly, everything else staying as it is: neighbourhood after neighbourhood over the whole log,
    then larger ones, until these give no more or the time is over. ``parts``: the cases of a
    variant may part. ``proof``: a bound whose prices say which pairs are promising; without it, one
    is sought first. ``hear`` is told each improved cost.
    """
    end = time.monotonic() + seconds
    classes = Classes.in_scope(problem)
    best, least = solution.assignment, cost(problem, solution.assignment)
    if proof is None:
        away = problem.distances.matrix[best.source, best.target] * best.cases
        prices = np.bincount(best.source, away.astype(np.float64), len(problem.texts)).astype(
            np.float64
        )
        proof = ascend(problem, Duties.of(problem, parts=parts), prices, least, _SHARE * seconds)
    for size in (growth * max(_SMALLEST, 3 * problem.k) for growth in _GROWTH):
        before = None
        while before != least:
            before = least
            waiting = np.ones(len(problem.texts), bool)
            while waiting.any() and time.monotonic() < end:
                rows = _neighbourhood(problem, best, int(np.argmax(waiting)), size)
                waiting[rows] = False
                allowed = min(_AT_MOST, end - time.monotonic())
                found = _resolved(problem, classes, proof, best, rows, allowed, parts=parts)
                if found is not None and (now := cost(problem, found)) < least:
                    best, least = found, now
                    hear(least)
            if time.monotonic() >= end:
                return Solution(best, solution.bound, "the time for searching was over")
    return Solution(best, solution.bound, "no neighbourhood gave more")


def _neighbourhood(problem: Problem, now: Assignment, seed: int, size: int) -> Ints:
    """``seed``, and the members of the classes that are nearest to where it is, about ``size`` of
    them: ascending.
    """
    centre = now.target[now.source == seed][0]
    opened, members = np.unique(now.target, return_counts=True)
    near = np.argsort(problem.distances.matrix[centre, opened], kind="stable")
    enough = max(2, int(np.searchsorted(np.cumsum(members[near]), size)))
    chosen = opened[near[:enough]]
    return np.union1d(chosen, now.source[np.isin(now.target, chosen)])


def _resolved(
    problem: Problem,
    classes: Classes,
    proof: Bound,
    now: Assignment,
    rows: Ints,
    seconds: float,
    *,
    parts: bool,
) -> Assignment | None:
    """The best answer that differs from ``now`` in where ``rows`` go only, as far as promising
    pairs tell.
    """
    count = len(problem.texts)
    moving = np.isin(now.source, rows)
    fixed = Assignment(now.source[~moving], now.target[~moving], now.cases[~moving])
    least = proof.least_among(rows)
    few = min(_COLUMNS, len(rows))
    promising = rows[np.argpartition(least, few - 1, axis=1)[:, :few]]
    pairs = [
        (rows[:, None] * count + promising).ravel(),
        now.source[moving] * count + now.target[moving],
    ]
    outside = np.unique(fixed.target)
    if len(outside):
        nearest = outside[problem.distances.matrix[np.ix_(rows, outside)].argmin(axis=1)]
        pairs.append(rows * count + nearest)
    source, target = np.divmod(np.unique(np.concatenate(pairs)), count)
    program = Program(problem, classes, source, target, parts=parts, fixed=fixed)
    found = program.solve(seconds, now).assignment
    smallest = None if found is None else smallest_class(problem, found)
    return found if smallest is None or smallest >= problem.k else None

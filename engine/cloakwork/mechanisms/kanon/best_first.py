"""BF-PRETSA: k-anonymity by greedy best-first search over partly sanitised logs, and local
improvement of its end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from cloakwork.mechanisms.base import Theorem
from cloakwork.mechanisms.kanon.family import K_ANONYMOUS, Anonymiser, FamilyParams
from cloakwork.mechanisms.kanon.problem import Assignment, Ints, Problem, Solution
from cloakwork.mechanisms.kanon.whole import Clock, Flags, Ground, improved

PAPER: Final = (
    "Fahrenkrog-Petersen, van der Aa and Weidlich, Optimal event log sanitization for privacy-preserving process mining, "
    "Data & Knowledge Engineering, 2023"
)
_NONE: Final = -1
_FAR: Final = np.iinfo(np.int64).max // 4


class BestFirstParams(FamilyParams):
    """As for the whole family; it has no options of its own."""


class BestFirst(Anonymiser[BestFirstParams]):
    """Greedy best-first k-anonymisation of the control flow, whole variants at a time.

    A state says on which variant the cases of each variant are. A variant *violates* when it holds
    cases and falls short of k (over prefixes: when some prefix of it does). A move takes all cases
    from a violating variant to another one that holds some: the cheapest that does not violate, or
    the cheapest that does. Each step makes the move with the least f = g + h and forgets the
    others. g is the edits of all cases so far, from their *original* variants (the paper counts
    each move from where the case was); h sums over the variants that violate

        min(cost of moving to the nearest that does not,  edits a case to the nearest that does * min(n, |n - k|) / 2),

    n being the cases there (equations 2 to 4: one move may mend two variants, hence the half). Of
    two moves alike, the one that joins two violating variants comes first. h is brought up to date
    for the two variants that a move touches.

    Ours, not the paper's: what the greedy search ends with is improved by closing, opening and
    replacing classes while that costs less (``whole.improved``).

    **Why it is k-anonymous.** Each move empties a variant for good, since cases only move to
    variants that hold some: at most as many moves as variants. While one violates there is another
    that holds cases, for were all n >= k cases on one variant, it and its prefixes would hold n. So
    the search ends with none that violates. The improvement accepts only answers of
    ``whole.settled``, which ends with no class that falls short.

    Deterministic. Its memory is that of all pairs of variants: up to 6,000 variants, more are
    refused.
    """

    name: ClassVar[str] = "kanon/best-first"
    summary: ClassVar[str] = (
        "Merges rare variants, the cheapest merger first, then improves what it found."
    )
    theorem: ClassVar[Theorem] = Theorem(
        statement=K_ANONYMOUS,
        source=f"{PAPER} (BF-PRETSA); termination and k proved in this class's docstring",
    )
    Params = BestFirstParams

    def solve(
        self, params: BestFirstParams, problem: Problem
    ) -> tuple[Solution, Mapping[str, JsonValue]]:
        """Search greedily, then improve; the report also tells the distance that the greedy search
        alone reached.
        """
        ground = Ground.of(problem, self.name)
        greedy = best_first(ground)
        solution = Solution(
            Assignment.whole(problem, improved(ground, greedy)),
            None,
            "no single change of a class made it better",
        )
        return solution, {"greedy_distance": ground.cost(greedy)}


def best_first(ground: Ground) -> Ints:
    """The end of the greedy search: the variant that each variant's cases are on, int64, shape
    (variants,).
    """
    search = _Greedy(ground)
    clock = Clock()
    while (move := search.best_move()) is not None:
        search.make(*move)
        clock.say(f"{int(search.violating.sum()):,} variants still below k")
    return search.target


@dataclass(frozen=True, slots=True)
class _Nearest:
    """For each variant the cheapest other to move its cases to, of one kind: int64, shape
    (variants,).

    ``cost``: edits of all cases, ``_FAR`` where there is none; ``place``: which variant, ``_NONE``
    where there is none.
    """

    cost: Ints
    place: Ints


class _Greedy:
    """A state of the search; its arrays change as cases move.

    ``edits[v, j]``: int64; what all cases that are on v cost in all, were they on j. ``cases``,
    ``held``: what each variant holds now. ``violating``, ``conforming``: those that hold cases, by
    whether they fall short.
    """

    def __init__(self, ground: Ground) -> None:
        variants = len(ground.mass)
        self.ground, self.target = ground, np.arange(variants)
        self.edits, self.cases, self.held = (
            ground.moving.copy(),
            ground.cases.copy(),
            ground.mass.copy(),
        )
        self.holds = np.ones(variants, bool)
        self.violating, self.conforming = self._judged()
        self.to_conforming, self.to_violating = (
            _Nearest(np.full(variants, _FAR), np.full(variants, _NONE)) for _ in range(2)
        )
        self._look_around(np.flatnonzero(self.violating))

    def best_move(self) -> tuple[int, int] | None:
        """From where to where the move with the least f goes; None when no variant violates."""
        rows = np.flatnonzero(self.violating)
        if not len(rows):
            return None
        ahead, near, joined = self._estimates(), self.to_conforming, self.to_violating
        mending = near.cost[rows] - ahead[rows]
        partner = joined.place[rows]
        joining = (
            joined.cost[rows] - ahead[rows] - ahead[partner] + self._estimate_joined(rows, partner)
        )
        joining = np.where(partner == _NONE, np.inf, joining)
        best = int(np.argmin(np.minimum(mending, joining)))
        place = partner if joining[best] <= mending[best] else near.place[rows]
        return int(rows[best]), int(place[best])

    def make(self, source: int, target: int) -> None:
        """Move all cases on ``source`` to ``target``, and look again where that changed what is
        nearest.
        """
        before = self.violating.copy(), self.conforming.copy()
        self.target[self.target == source] = target
        self.edits[target] += self.edits[source]
        for amount in (self.cases, self.held):
            amount[target] += amount[source]
            amount[source] = 0
        self.holds[source] = False
        self.violating, self.conforming = self._judged()
        gone = (before[0] & ~self.violating) | (before[1] & ~self.conforming)
        stale = self.violating & ~before[0]
        stale[target] = True
        for nearest in (self.to_conforming, self.to_violating):
            stale |= gone[nearest.place] & (nearest.place != _NONE)
        self._offer(self.to_conforming, np.flatnonzero(self.conforming & ~before[1]))
        self._offer(self.to_violating, np.flatnonzero(self.violating & ~before[0]))
        self._look_around(np.flatnonzero(stale & self.violating))

    def _judged(self) -> tuple[Flags, Flags]:
        short = self.ground.below(self.held) < self.ground.least
        return self.holds & short, self.holds & ~short

    def _look_around(self, rows: Ints) -> None:
        """Find anew what is nearest to ``rows``."""
        for nearest, kind in (
            (self.to_conforming, self.conforming),
            (self.to_violating, self.violating),
        ):
            places = np.flatnonzero(kind)
            if not len(places):
                nearest.cost[rows], nearest.place[rows] = _FAR, _NONE
                continue
            cost = self.edits[np.ix_(rows, places)] - self.edits[rows, rows][:, None]
            cost[rows[:, None] == places] = _FAR
            best = np.argmin(cost, axis=1)
            nearest.cost[rows] = cost[np.arange(len(rows)), best]
            nearest.place[rows] = np.where(nearest.cost[rows] < _FAR, places[best], _NONE)

    def _offer(self, nearest: _Nearest, arrivals: Ints) -> None:
        """Let variants that became of ``nearest``'s kind be nearest to those that they are nearer
        to.
        """
        rows = np.flatnonzero(self.violating)
        for arrival in arrivals:
            cost = np.where(
                rows == arrival, _FAR, self.edits[rows, arrival] - self.edits[rows, rows]
            )
            nearer = cost < nearest.cost[rows]
            nearest.cost[rows[nearer]], nearest.place[rows[nearer]] = cost[nearer], arrival

    def _estimates(self) -> NDArray[np.float64]:
        """h for each variant: float64, shape (variants,); 0 where it does not violate."""
        half = self._half(self.cases, self.held) * self.to_violating.cost
        ahead = np.minimum(
            self.to_conforming.cost, np.where(self.to_violating.place == _NONE, np.inf, half)
        )
        return np.where(self.violating, ahead, 0.0)

    def _estimate_joined(self, rows: Ints, partner: Ints) -> NDArray[np.float64]:
        """h for ``partner`` once it has also the cases of ``rows``, from what is nearest to
        ``partner`` now.
        """
        cases, held = self.cases[rows] + self.cases[partner], self.held[rows] + self.held[partner]
        onward = self.to_conforming.place[partner]
        extra = self.edits[rows, onward] - self.edits[rows, partner]
        mend = np.where(
            onward == _NONE, np.inf, (self.to_conforming.cost[partner] + extra).astype(np.float64)
        )
        per_case = self.to_violating.cost[partner] / np.maximum(self.cases[partner], 1)
        ahead = np.minimum(mend, self._half(cases, held) * per_case * cases)
        suffices = (
            self.ground.below(self.held)[partner] + self.held[rows] >= self.ground.least[partner]
        )
        return np.where(suffices, 0.0, ahead)

    def _half(self, cases: Ints, held: Ints) -> NDArray[np.float64]:
        """Half of the share of a variant's cases that joining it to another is charged with."""
        missing = np.abs(self.ground.k - held)
        return np.minimum(cases, missing) / np.maximum(cases, 1) / 2

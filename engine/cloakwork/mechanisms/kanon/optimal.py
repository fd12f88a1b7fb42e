"""The least change that makes a control flow k-anonymous, or one that is proved to be near it."""

import time
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

import numpy as np
from pydantic import Field, JsonValue

from cloakwork.facts import Facts
from cloakwork.guarantees import Guarantee
from cloakwork.mechanisms.base import Offer, Refusal, Theorem
from cloakwork.mechanisms.kanon.best_first import best_first
from cloakwork.mechanisms.kanon.family import K_ANONYMOUS, Anonymiser, FamilyParams
from cloakwork.mechanisms.kanon.local_search import improve, merged
from cloakwork.mechanisms.kanon.lower_bound import Bound, Duties, ascend
from cloakwork.mechanisms.kanon.problem import (
    Assignment,
    Ints,
    Problem,
    Solution,
    cost,
    gap,
    smallest_class,
)
from cloakwork.mechanisms.kanon.program import Classes, Program
from cloakwork.mechanisms.kanon.whole import LARGEST, Ground, improved
from cloakwork.progress import say

_COLUMNS: Final = 12
_FEW_COLUMNS: Final = 30_000
_MOST_COLUMNS: Final = 200_000
_ROUND_OFF: Final = 1e-5
_BEYOND: Final = 1 << 62
_A_SECOND: Final = 1.0
_POLISHING: Final = 0.2
_BOUNDING: Final = 0.15
_SEARCHING: Final = 0.5
_A_ROUND: Final = 0.4
_FIRST_TRY: Final = 0.5
_SHORT_TRY: Final = 0.25
"""Shares of the time that is left."""
_RADIUS: Final = 4
_WIDEST: Final = 64


class OptimalParams(FamilyParams):
    """Beside what the whole family takes, how long to search and when to stop.

    ``seconds``: of the clock; ``gap``: stop once the answer is proved to exceed the least possible
    cost by at most this share; ``parts``: identical cases may move to different variants (only
    where k counts cases).
    """

    seconds: Annotated[float, Field(gt=0, description="stop searching after so many seconds")] = (
        60.0
    )
    gap: Annotated[
        float, Field(ge=0, description="stop once proved to be within this share of the least cost")
    ] = 0.0
    parts: Annotated[bool, Field(description="identical cases may move to different variants")] = (
        False
    )


class Optimal(Anonymiser[OptimalParams]):
    """k-anonymity at the least possible cost, as an integer program, with a proved lower bound.

    First an answer is found by merging classes. Then prices for the variants are sought that prove
    a lower bound (module ``lower_bound``). The prices say, for every variant and every other, what
    any answer costs at least that moves the one to the other. Where that is more than the best
    answer known, the pair is left out, and HiGHS solves the program over the others; where too many
    are left, over the most promising ones, and what the others would cost bounds what was missed.
    The bound that is told is thus the less of two: what HiGHS proved about the pairs that it was
    given, and what the prices prove about all others. Where HiGHS has too much to do, better
    answers are sought first, nearby.

    **Why it is k-anonymous.** Each answer is measured, and none is kept that leaves a class below
    k.

    The same log gives the same release where the search ends by itself; where the time ends it,
    that depends on the machine.
    """

    name: ClassVar[str] = "kanon/optimal"
    summary: ClassVar[str] = "Moves as few events as possible, with proof of how few that is."
    theorem: ClassVar[Theorem] = Theorem(
        statement=K_ANONYMOUS,
        source="every answer is measured before it is kept (this class); the bound is Lagrangian duality "
        "(Geoffrion, Lagrangean relaxation for integer programming, 1974) and HiGHS's branch and bound",
    )
    Params = OptimalParams

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[OptimalParams] | Refusal:
        """As the whole family does; cases part only where each counts for itself."""
        answer = super().offer(goal, facts, options)
        if isinstance(answer, Offer) and answer.params.parts and answer.params.unit is not None:
            return Refusal(
                "misconfigured",
                "option parts: the cases of a variant can part only where k counts cases",
            )
        return answer

    def how(self, params: OptimalParams) -> str:
        """At the least cost that can be found in time."""
        return f", with as few edits as can be found in {params.seconds:g} seconds"

    def solve(
        self, params: OptimalParams, problem: Problem
    ) -> tuple[Solution, Mapping[str, JsonValue]]:
        """Search until it is proved that nothing is better, or near enough, or the time is over."""
        search = _Search(problem, params)
        search.run()
        return search.solution(), search.figures()


class _Search:
    """One search: the best answer so far, ``bound``, the best proved bound, and ``exact``, the part
    of it in integers.
    """

    def __init__(self, problem: Problem, params: OptimalParams) -> None:
        self.problem, self.params = problem, params
        self.begun = self.said = time.monotonic()
        self.bound = self.exact = 0
        self.columns, self.exhausted = 0, False
        self.best = merged(problem)
        self.cost = cost(problem, self.best)
        self.ground = Ground.of(problem, Optimal.name) if len(problem.texts) <= LARGEST else None
        if self.ground is not None:
            self._polish(best_first(self.ground))
        self._tell()

    def run(self) -> None:
        """Merge, bound, solve what is promising, search nearby, solve what is left."""
        problem, parts = self.problem, self.params.parts
        duties = Duties.of(problem, parts=parts)
        away = problem.distances.matrix[self.best.source, self.best.target]
        prices = away.astype(np.float64) * problem.cases
        proof = ascend(
            problem, duties, prices, self.cost, _BOUNDING * self.params.seconds, self._hear_bound
        )
        self.exact = self._proved(proof.value)
        self._offer(merged(problem, proof.suggestion()))
        if self.ground is not None and not self._near_enough():
            self._polish(merged(problem, proof.suggestion()).target)
        count = max(_COLUMNS * len(problem.texts), _FEW_COLUMNS)
        large = proof.below_for(count, self.cost) < self.cost
        if large and not self._near_enough():
            self._search_nearby(proof, _SEARCHING * self._left())
        self._solve(proof, count, _SHORT_TRY if large else _FIRST_TRY)
        self._tell()

    def _solve(self, proof: Bound, count: int, share: float) -> None:
        """Solve the program over ``count`` promising pairs; where ``share`` of the time is not
        enough for that, search around the best answer. Then solve it over more of them, until they
        are all that matter.
        """
        searched = False
        while not self._near_enough() and self._left() > 0:
            below = proof.below_for(min(count, _MOST_COLUMNS), self.cost)
            last = searched and (below >= self.cost or count >= _MOST_COLUMNS)
            ended = self._solve_columns(proof, below, (1.0 if last else share) * self._left())
            self.exhausted = ended and last
            if self.exhausted:
                break
            if not ended and not searched:
                self._search_around(proof, count)
            count, searched = 3 * count, True

    def _polish(self, target: Ints) -> None:
        """Improve an answer that moves whole variants by changing a class at a time, and keep what
        is best.
        """
        assert self.ground is not None  # noqa: S101 - asked only where there is one
        until = time.monotonic() + _POLISHING * self._left()
        self._offer(Assignment.whole(self.problem, improved(self.ground, target, until)))

    def _search_nearby(self, proof: Bound, seconds: float) -> None:
        found = improve(
            self.problem,
            self.solution(),
            seconds,
            parts=self.params.parts,
            proof=proof,
            hear=self._hear_cost,
        )
        self._offer(found.assignment)

    def _search_around(self, proof: Bound, count: int) -> None:
        """Solve the program over answers that open or close a few other variants than the best one
        does: local branching (Fischetti and Lodi, Mathematical Programming 98, 2003). Fewer where
        that takes too long, more where it gives nothing.
        """
        until, radius = time.monotonic() + _SEARCHING * self._left(), _RADIUS
        while not self._near_enough() and 1 < radius <= _WIDEST and time.monotonic() < until:
            columns = self._with_best(*proof.columns(proof.below_for(count, self.cost)))
            program = Program(
                self.problem, Classes.in_scope(self.problem), *columns, parts=self.params.parts
            )
            before, left = self.cost, until - time.monotonic()
            outcome = program.solve(_A_ROUND * left, self.best, within=radius)
            if outcome.assignment is not None:
                self._offer(outcome.assignment)
            if self.cost == before:
                radius = 2 * radius if outcome.ended else radius // 2
            self._tell()

    def _hear_cost(self, distance: int) -> None:
        if time.monotonic() - self.said >= _A_SECOND:
            self._tell(distance)

    def _solve_columns(self, proof: Bound, below: int, seconds: float) -> bool:
        """Solve the program over what an answer below ``below`` may hold, and over the best answer;
        whether it ended.
        """
        source, target = self._with_best(*proof.columns(below))
        self.columns = len(source)
        program = Program(
            self.problem, Classes.in_scope(self.problem), source, target, parts=self.params.parts
        )
        outcome = program.solve(
            seconds, self.best, lambda bound: self._hear_bound(min(_up(bound), below))
        )
        if outcome.assignment is not None:
            self._offer(outcome.assignment)
        self._proved(min(_up(outcome.bound), below, self.cost))
        return outcome.ended

    def _with_best(self, source: Ints, target: Ints) -> tuple[Ints, Ints]:
        width = len(self.problem.texts)
        pairs = np.unique(
            np.concatenate([source * width + target, self.best.source * width + self.best.target])
        )
        more, others = np.divmod(pairs, width)
        return more, others

    def _offer(self, found: Assignment) -> None:
        smallest = smallest_class(self.problem, found)
        now = cost(self.problem, found)
        if now < self.cost and (smallest is None or smallest >= self.problem.k):
            self.best, self.cost = found, now

    def _proved(self, bound: int) -> int:
        self.bound = max(self.bound, min(bound, self.cost))
        return self.bound

    def _near_enough(self) -> bool:
        return (gap(self.cost, self.bound) or 0.0) <= self.params.gap

    def _left(self) -> float:
        return self.params.seconds - (time.monotonic() - self.begun)

    def _hear_bound(self, bound: int) -> None:
        self._proved(bound)
        if time.monotonic() - self.said >= _A_SECOND:
            self._tell()

    def _tell(self, distance: int | None = None) -> None:
        self.said, distance = time.monotonic(), self.cost if distance is None else distance
        above = gap(distance, self.bound) if self.bound else None
        proof = "" if above is None else f", at most {100 * above:.1f} % above the least possible"
        say(f"optimal: {distance} edits{proof}")

    def solution(self) -> Solution:
        """The best answer so far, its bound, and why the search ended."""
        above = gap(self.cost, self.bound) or 0.0
        if above == 0:
            stopped = "proved optimal"
        elif self._near_enough():
            stopped = f"near enough: within {100 * above:.1f} % of the least possible"
        elif self.exhausted:
            stopped = (
                f"no more can be proved here: within {100 * above:.1f} % of the least possible"
            )
        else:
            stopped = f"stopped at {self.params.seconds:.3g} s, within {100 * above:.1f} % of the least possible"
        return Solution(self.best, self.bound, stopped)

    def figures(self) -> dict[str, JsonValue]:
        """How the bound was proved, and what that took."""
        proof = (
            "in whole numbers" if self.exact >= self.bound else "by HiGHS, to its tolerance of 1e-6"
        )
        return {
            "seconds": round(time.monotonic() - self.begun, 2),
            "bound_proved": proof,
            "bound_in_whole_numbers": self.exact,
            "pairs_in_the_program": self.columns,
        }


def _up(bound: float) -> int:
    """The least whole number that is not below ``bound``, but for round-off."""
    if not np.isfinite(bound):
        return _BEYOND if bound > 0 else 0
    return int(np.ceil(bound - _ROUND_OFF * max(1.0, abs(bound) * 1e-3)))

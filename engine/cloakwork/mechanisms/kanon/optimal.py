"""The least change that makes a control flow k-anonymous, or one that is proved to be near it."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

import numpy as np
from pydantic import Field, JsonValue

from cloakwork.base.arrays import Ints
from cloakwork.base.progress import Pace
from cloakwork.mechanisms.base import Theorem
from cloakwork.mechanisms.kanon.blocks import (
    compares_all_pairs,
    search_in_blocks,
    solve_long_tail,
)
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.family import (
    DISTANCE_OPTION,
    K_ANONYMOUS,
    Anonymiser,
    FamilyParams,
)
from cloakwork.mechanisms.kanon.integer_program import (
    KAnonymityProgram,
    class_matrix,
    improve_by_neighbourhoods,
)
from cloakwork.mechanisms.kanon.lower_bound import (
    CertifiedBound,
    CoverConstraints,
    bound_from_nearest,
    least_to_another,
    subgradient_ascent,
)
from cloakwork.mechanisms.kanon.problem import (
    Assignment,
    KAnonymityProblem,
    Solution,
    edit_cost,
    relative_gap,
    smallest_class,
)
from cloakwork.mechanisms.kanon.whole_variants import (
    MoveCosts,
    improve_by_hill_climbing,
    nearest_classes,
    repair_to_k_anonymous,
)

_COLUMNS_OF_A_VARIANT: Final = 12
_FEWEST_COLUMNS: Final = 30_000
_MOST_COLUMNS: Final = 200_000
_ROUND_OFF: Final = 1e-5
_UNBOUNDED: Final = 1 << 62
"""Stands for the bound of a program without any answer."""

_SHARE_FOR_BOUND: Final = 0.15
"""Share of the whole time."""
_SHARE_FOR_FIRST_ANSWER: Final = 0.2
_SHARE_FOR_HILL_CLIMBING: Final = 0.2
_SHARE_FOR_SEARCH: Final = 0.5
_SHARE_FOR_PROGRAM: Final = 0.5
_SHARE_FOR_LARGE_PROGRAM: Final = 0.25
"""Shares of the time that is left."""


class OptimalParams(FamilyParams):
    """Beside what the whole family takes, how long to search and when to stop.

    ``seconds``: most of the clock, at most a day; ``gap``: stop once the answer is proved to exceed
    the least possible cost by at most this share; ``split_cases``: identical cases may move to
    different variants (only where k counts cases).
    """

    seconds: Annotated[
        float,
        Field(
            gt=0,
            le=86_400,
            description="Most seconds that the search may take",
        ),
    ] = 30.0
    gap: Annotated[
        float,
        Field(
            ge=0, description="Share above the least possible distance at which the search may stop"
        ),
    ] = 0.01
    split_cases: Annotated[
        bool,
        Field(description="Identical cases may move to different variants; not where units count"),
    ] = True


class Optimal(Anonymiser[OptimalParams]):
    """k-anonymity at the least possible cost, as an integer program, with a proved lower bound.

    First an answer is found by merging classes. Then dual prices are sought that prove a lower
    bound (module ``lower_bound``). They say, for every variant and every
    other, what any answer costs at least that moves the one to the other. Where that is more than
    the best answer known, the pair is left out, and HiGHS solves the program over the others; where
    too many are left, over the most promising ones, and what the others would cost bounds what was
    missed. The bound that is reported is thus the less of two: what HiGHS proved about the pairs
    that it was given, and what the dual prices prove about all others. Where HiGHS has too much to
    do, better answers are sought first, nearby.

    **Why it is k-anonymous.** Each answer is measured, and none is kept that leaves a class below
    k.

    Where k counts cases, identical cases may move to different variants: which of them goes where
    is drawn at random. All else follows from the control flow and the time alone. The same log
    gives the same numbers of moved cases where the search ends by itself; where the time ends it,
    they depend on the machine.
    """

    name: ClassVar[str] = "kanon/optimal"
    options: ClassVar[Mapping[str, str]] = {
        **DISTANCE_OPTION,
        "seconds": "the most that the search may take (30)",
        "gap": "share above the least possible distance at which the search may stop (0.01)",
        "split_cases": "whether identical cases may move to different variants, where cases are "
        "counted (true)",
    }
    summary: ClassVar[str] = "Moves as few events as possible, with proof of how few that is."
    theorem: ClassVar[Theorem] = Theorem(
        statement=K_ANONYMOUS,
        source="every answer is measured before it is kept (this class); the bound is Lagrangian "
        "duality (Geoffrion, Lagrangean relaxation for integer programming, 1974) and HiGHS's "
        "branch and bound",
    )
    Params = OptimalParams

    def describe_method(self, params: OptimalParams) -> str:
        """At the least cost that can be found in time."""
        return f", with as few edits as can be found in {params.seconds:g} seconds"

    def solve(
        self,
        params: OptimalParams,
        problem: KAnonymityProblem,
        deadline: Deadline,
    ) -> Solution:
        """Search until it is proved that nothing is better, or near enough, or the time is over."""
        if not compares_all_pairs(problem, params.seconds):
            return solve_long_tail(
                problem, params.seconds, deadline, split_cases=params.split_cases
            )
        return _OptimalSearch(problem, params, deadline).run()


class _OptimalSearch:
    """One search.

    ``best``, ``cost``: the best answer so far. ``bound``: the best proved bound; ``integer_bound``:
    the best one that was certified in integers.
    """

    def __init__(
        self, problem: KAnonymityProblem, params: OptimalParams, deadline: Deadline
    ) -> None:
        self.problem = problem
        self.params = params
        self.deadline = deadline
        self.classes = class_matrix(problem)
        self.begun = deadline.clock()
        self.progress = Pace()
        self.bound = self.integer_bound = 0
        self.columns = 0
        self.is_exhausted = False
        # A first answer, by merging.
        seconds = _SHARE_FOR_FIRST_ANSWER * params.seconds
        share = deadline.share(_SHARE_FOR_FIRST_ANSWER)
        self.best = search_in_blocks(problem, seconds, share).assignment
        self.cost = edit_cost(problem, self.best)
        self.move_costs = MoveCosts.of(problem, Optimal.name)
        self._climb_from(self.best.target)
        self._report_progress()

    def run(self) -> Solution:
        """Bound, merge, search nearby, solve what is promising, then what is left: the best answer,
        its bound, why the search ended, how the bound was proved and what that took.
        """
        problem = self.problem
        deadline = self.deadline
        params = self.params
        # A bound, sought from what each variant costs in the best answer.
        distance = problem.distances.matrix[self.best.source, self.best.target]
        certificate = subgradient_ascent(
            problem,
            CoverConstraints.of(problem, split_cases=params.split_cases),
            distance.astype(np.float64) * problem.cases,
            self.cost,
            deadline.within(_SHARE_FOR_BOUND * params.seconds),
            self._on_bound,
        )
        self.integer_bound = self._raise_bound(certificate.value)
        if not self.bound:
            # Prices take many steps to say anything: what no step is needed for says more.
            nearest = least_to_another(self.move_costs.distance)
            nearby = bound_from_nearest(problem, certificate.constraints, nearest, deadline)
            self.integer_bound = self._raise_bound(nearby)
        # Where the relaxed problem sends variants is seldom an answer, and a good start for one.
        if not deadline.is_over:
            relaxed = certificate.relaxed_targets()
            costs = self.move_costs
            classes = costs.open_classes(relaxed)
            nearest = nearest_classes(costs, classes)
            suggested = repair_to_k_anonymous(costs, classes, relaxed, nearest)
            self._keep_if_better(Assignment.of_targets(problem, suggested))
            if not self._is_gap_reached():
                self._climb_from(suggested)
        count = max(_COLUMNS_OF_A_VARIANT * len(problem.texts), _FEWEST_COLUMNS)
        # Whether more pairs matter than the first program holds.
        is_large = certificate.cost_limit_for(count, self.cost) < self.cost
        if is_large and not self._is_gap_reached():
            share = deadline.share(_SHARE_FOR_SEARCH)
            self._keep_if_better(
                improve_by_neighbourhoods(
                    self.best,
                    certificate,
                    share,
                    self._report_progress,
                )
            )
        share_for_program = _SHARE_FOR_LARGE_PROGRAM if is_large else _SHARE_FOR_PROGRAM
        self._solve_promising(certificate, count, share_for_program)
        self._report_progress()

        above = relative_gap(self.cost, self.bound) or 0.0
        within = f"within {above:.1%} of the least possible"
        if above == 0:
            stop_reason = "proved optimal"
        elif self._is_gap_reached():
            stop_reason = f"near enough: {within}"
        elif self.is_exhausted:
            stop_reason = f"no more can be proved here: {within}"
        else:
            stop_reason = f"stopped at {params.seconds:.3g} s, {within}"
        is_certified = self.integer_bound >= self.bound
        proof = "in whole numbers" if is_certified else "by HiGHS, to its tolerance of 1e-6"
        figures: dict[str, JsonValue] = {
            "seconds": round(deadline.clock() - self.begun, 2),
            "bound_proved": proof,
            "bound_in_whole_numbers": self.integer_bound,
            "pairs_in_the_program": self.columns,
        }
        return Solution(self.best, self.bound, stop_reason, figures)

    def _climb_from(self, target: Ints) -> None:
        """Improve an answer by changing a class at a time, and keep what is best."""
        climbing = self.deadline.share(_SHARE_FOR_HILL_CLIMBING)
        improved = improve_by_hill_climbing(self.move_costs, target, climbing)
        self._keep_if_better(Assignment.of_targets(self.problem, improved))

    def _solve_promising(
        self,
        certificate: CertifiedBound,
        count: int,
        share: float,
    ) -> None:
        """Solve the program over ``count`` promising pairs, in ``share`` of the time; then over
        more of them, until they are all that matter.
        """
        while not self._is_gap_reached() and self.deadline.seconds_left > 0:
            limit = certificate.cost_limit_for(min(count, _MOST_COLUMNS), self.cost)
            is_last = limit >= self.cost or count >= _MOST_COLUMNS
            program = self._program_below(certificate, limit)
            self.columns = len(program.source)

            def on_bound(bound: float, limit: int = limit) -> None:
                self._on_bound(min(_round_up(bound), limit))

            # What was left out costs at least ``limit``: no bound above it holds for all answers.
            seconds = (1.0 if is_last else share) * self.deadline.seconds_left
            result = program.solve(seconds, self.best, on_bound)
            self._keep_if_better(result.assignment)
            self._raise_bound(min(_round_up(result.bound), limit, self.cost))
            self.is_exhausted = result.has_ended and is_last
            if self.is_exhausted:
                break
            count = 3 * count

    def _program_below(self, certificate: CertifiedBound, limit: int) -> KAnonymityProgram:
        """Over what an answer of less than ``limit`` may contain, and over the best answer."""
        variants = len(self.problem.texts)
        source, target = certificate.columns_below(limit)
        # One number a pair, so that none occurs twice.
        columns_of_best = self.best.source * variants + self.best.target
        both = np.unique(np.concatenate([source * variants + target, columns_of_best]))
        return KAnonymityProgram(
            self.problem,
            self.classes,
            *np.divmod(both, variants),
            split_cases=self.params.split_cases,
        )

    def _keep_if_better(self, found: Assignment | None) -> None:
        """Keep ``found`` if it is k-anonymous and costs less than the best answer."""
        if found is None:
            return
        # Measured, whatever the solver's tolerance let pass.
        smallest = smallest_class(self.problem, found)
        cost = edit_cost(self.problem, found)
        if cost < self.cost and (smallest is None or smallest >= self.problem.k):
            self.best = found
            self.cost = cost

    def _raise_bound(self, bound: int) -> int:
        """Take ``bound`` into account, and give the best one."""
        self.bound = max(self.bound, min(bound, self.cost))
        return self.bound

    def _is_gap_reached(self) -> bool:
        return (relative_gap(self.cost, self.bound) or 0.0) <= self.params.gap

    def _on_bound(self, bound: int) -> None:
        self._raise_bound(bound)
        self._report_progress()

    def _report_progress(self, distance: int | None = None) -> None:
        """Say the cost of the best answer (or ``distance``), and how near to the least it is."""
        edits = self.cost if distance is None else distance
        above = relative_gap(edits, self.bound) if self.bound else None
        proof = "" if above is None else f", at most {above:.1%} above the least possible"
        self.progress.report(f"optimal: {edits:,} edits{proof}")


def _round_up(bound: float) -> int:
    """The least whole number that is not below ``bound``, but for round-off."""
    if not np.isfinite(bound):
        return _UNBOUNDED if bound > 0 else 0
    return int(np.ceil(bound - _ROUND_OFF * max(1.0, abs(bound) * 1e-3)))

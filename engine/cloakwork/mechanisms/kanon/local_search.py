"""Good k-anonymous answers, quickly: merging, and neighbourhoods that are solved exactly.

Everything goes by the order of variants and of costs: nothing is drawn, and only where the time
runs out does a run depend on the machine.
"""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Ints
from cloakwork.mechanisms.kanon.deadline import NO_LIMIT, Deadline
from cloakwork.mechanisms.kanon.integer_program import KAnonymityProgram, ScopeClasses
from cloakwork.mechanisms.kanon.lower_bound import (
    CertifiedBound,
    CoverConstraints,
    subgradient_ascent,
)
from cloakwork.mechanisms.kanon.problem import (
    Assignment,
    KAnonymityProblem,
    Solution,
    edit_cost,
    smallest_class,
)

_FORBIDDEN: Final = np.iinfo(np.int64).max // 4
"""Cost of merging what no longer is a class, or needs no merging."""
_SMALLEST_NEIGHBOURHOOD: Final = 60
_GROWTH: Final = (1, 2, 4)
"""How large neighbourhoods are in the first round, the second and the third, beside the first."""
_TARGETS_OF_A_VARIANT: Final = 6
_SECONDS_OF_A_NEIGHBOURHOOD: Final = 4.0
_SHARE_FOR_BOUND: Final = 0.2
"""Share of the time that may be spent on a bound, where none is given."""


def merge_classes(
    problem: KAnonymityProblem, start: Ints | None = None, deadline: Deadline = NO_LIMIT
) -> Assignment:
    """An answer by merging: as long as a class holds too little, the one that is cheapest to merge
    joins another.

    ``start``: where each variant is in the beginning (int64, shape (variants,)); on itself, if not
    given. Merged classes gather on whichever of their two targets costs less. Quadratic in
    variants, in time and memory. Every class of the answer holds mass k itself, which serves both
    scopes. The problem must be feasible. Raises ``OutOfTime`` where ``deadline`` is over before.
    """
    state = _Merging(problem, np.arange(len(problem.texts)) if start is None else start)
    deficient = state.deficient_classes()
    while len(deficient):
        deadline.require_time()
        cheapest = int(deficient[np.argmin(state.least_cost[deficient])])
        state.merge_into(cheapest, int(state.partner[cheapest]))
        deficient = state.deficient_classes()
    return Assignment.of_targets(problem, state.targets())


class _Merging:
    """Classes by number; the arrays change as classes merge.

    ``gather_cost[a, c]`` is what it costs to gather all members of class a on variant c. ``at``: on
    which variant each class is. ``least_cost``, ``partner``: its cheapest merger.
    """

    def __init__(self, problem: KAnonymityProblem, start: Ints) -> None:
        variants = len(problem.texts)
        self.k = problem.k
        self.at, self.class_of = np.unique(start, return_inverse=True)
        classes = len(self.at)
        self.mass = np.bincount(self.class_of, problem.mass, classes).astype(np.int64)
        self.gather_cost = np.zeros((classes, variants), np.int64)
        for variant in range(variants):
            distance = problem.distances.matrix[variant].astype(np.int64)
            self.gather_cost[self.class_of[variant]] += distance * problem.cases[variant]
        self.is_class = np.ones(classes, bool)
        self.least_cost = np.full(classes, _FORBIDDEN)
        self.partner = np.zeros(classes, np.int64)
        for row in self.deficient_classes():
            self._update_cheapest(int(row))

    def targets(self) -> Ints:
        """Where each variant is: int64, shape (variants,)."""
        return self.at[self.class_of]

    def deficient_classes(self) -> Ints:
        """The classes that hold less than k."""
        return np.flatnonzero(self.is_class & (self.mass < self.k))

    def merge_into(self, row: int, other: int) -> None:
        """Let class ``row`` join class ``other``, on the cheaper of both targets."""
        others, onto_theirs, onto_own = self._merge_costs(row)
        # ``others`` ascends, so a search finds the other's place.
        position = int(np.searchsorted(others, other))
        if onto_own[position] < onto_theirs[position]:
            self.at[other] = self.at[row]
        self.gather_cost[other] += self.gather_cost[row]
        self.mass[other] += self.mass[row]
        self.is_class[row] = False
        self.class_of[self.class_of == row] = other
        self.least_cost[row] = _FORBIDDEN
        self.least_cost[other] = _FORBIDDEN
        # Only mergers with either of the two have changed their cost.
        for stale in self.deficient_classes():
            if stale == other or self.partner[stale] in (row, other):
                self._update_cheapest(int(stale))

    def _merge_costs(self, row: int) -> tuple[Ints, Ints, Ints]:
        """The other classes, and what merging ``row`` with each adds: onto the other's target, and
        onto that of ``row``.
        """
        others = np.flatnonzero(self.is_class)
        others = others[others != row]
        own_target, their_targets = self.at[row], self.at[others]
        own_cost = self.gather_cost[row]
        # Own members move on to the other's target, or the other's members move here.
        onto_theirs = own_cost[their_targets] - own_cost[own_target]
        their_cost = self.gather_cost[others, their_targets]
        onto_own = self.gather_cost[others, own_target] - their_cost
        return others, onto_theirs, onto_own

    def _update_cheapest(self, row: int) -> None:
        """Find the cheapest merger of class ``row``."""
        others, onto_theirs, onto_own = self._merge_costs(row)
        cost = np.minimum(onto_theirs, onto_own)
        if len(cost):
            best = int(np.argmin(cost))
            self.least_cost[row], self.partner[row] = cost[best], others[best]


def improve_by_neighbourhoods(
    problem: KAnonymityProblem,
    solution: Solution,
    deadline: Deadline,
    *,
    split_cases: bool = False,
    certificate: CertifiedBound | None = None,
    on_improvement: Callable[[int], None] = lambda distance: None,
) -> Solution:
    """A cheaper answer, if one is found before ``deadline`` is over; never a more expensive one.

    Classes that are near to each other are dissolved and the program over their members is solved
    exactly, everything else staying as it is: neighbourhood after neighbourhood over the whole log,
    then larger ones, until these give no more or the time is over. ``split_cases``: the cases of a
    variant may go to different variants. ``certificate``: a bound whose dual prices say which pairs
    are promising; without it, one is sought first. ``on_improvement`` is called with each improved
    cost.
    """
    best, least = solution.assignment, edit_cost(problem, solution.assignment)
    if certificate is None:
        certificate = _certificate_from(
            problem, best, deadline.share(_SHARE_FOR_BOUND), split_cases=split_cases
        )
    search = _NeighbourhoodSearch(problem, certificate, split_cases=split_cases)
    for growth in _GROWTH:
        size = growth * max(_SMALLEST_NEIGHBOURHOOD, 3 * problem.k)
        before = None
        # Once more over the whole log, as long as that gains anything.
        while before != least:
            before = least
            for found in search.improvements(best, size, deadline):
                best, least = found, edit_cost(problem, found)
                on_improvement(least)
            if deadline.is_over:
                return Solution(best, solution.bound, "the time for searching was over")
    return Solution(best, solution.bound, "no neighbourhood gave more")


def _certificate_from(
    problem: KAnonymityProblem,
    assignment: Assignment,
    deadline: Deadline,
    *,
    split_cases: bool,
) -> CertifiedBound:
    """A bound, sought from what each variant costs in ``assignment``."""
    distance = problem.distances.matrix[assignment.source, assignment.target]
    spent = (distance * assignment.cases).astype(np.float64)
    duals = np.bincount(assignment.source, spent, len(problem.texts)).astype(np.float64)
    constraints = CoverConstraints.of(problem, split_cases=split_cases)
    return subgradient_ascent(problem, constraints, duals, edit_cost(problem, assignment), deadline)


def _variants_near(
    problem: KAnonymityProblem, current: Assignment, variant: int, size: int
) -> Ints:
    """``variant``, and the members of the classes that are nearest to where it is, about ``size``
    of them: ascending.
    """
    centre = current.target[current.source == variant][0]
    opened, members = np.unique(current.target, return_counts=True)
    nearest_first = np.argsort(problem.distances.matrix[centre, opened], kind="stable")
    members_within = np.cumsum(members[nearest_first])
    enough = max(2, int(np.searchsorted(members_within, size)))
    chosen = opened[nearest_first[:enough]]
    members_of_chosen = current.source[np.isin(current.target, chosen)]
    return np.union1d(chosen, members_of_chosen)


class _NeighbourhoodSearch:
    """Solves the program over a few variants, everything else staying as it is."""

    def __init__(
        self, problem: KAnonymityProblem, certificate: CertifiedBound, *, split_cases: bool
    ) -> None:
        self.problem, self.certificate, self.split_cases = problem, certificate, split_cases
        self.classes = ScopeClasses.of_problem(problem)

    def improvements(
        self, current: Assignment, size: int, deadline: Deadline
    ) -> Iterator[Assignment]:
        """Better and better answers, from neighbourhoods of about ``size`` variants until each
        variant was in one, or ``deadline`` is over.
        """
        least = edit_cost(self.problem, current)
        is_waiting = np.ones(len(self.problem.texts), bool)
        while is_waiting.any() and not deadline.is_over:
            first_waiting = int(np.argmax(is_waiting))
            rows = _variants_near(self.problem, current, first_waiting, size)
            is_waiting[rows] = False
            seconds = min(_SECONDS_OF_A_NEIGHBOURHOOD, deadline.seconds_left)
            found = self.solve_around(current, rows, seconds)
            if found is None:
                continue
            cost = edit_cost(self.problem, found)
            if cost < least:
                current, least = found, cost
                yield found

    def solve_around(self, current: Assignment, rows: Ints, seconds: float) -> Assignment | None:
        """The best answer that differs from ``current`` only in where ``rows`` go, among promising
        pairs; None where none was found in time.
        """
        moving = np.isin(current.source, rows)
        fixed = Assignment(current.source[~moving], current.target[~moving], current.cases[~moving])
        source, target = self._promising_columns(current, rows, moving, fixed)
        integer_program = KAnonymityProgram(
            self.problem, self.classes, source, target, split_cases=self.split_cases, fixed=fixed
        )
        found = integer_program.solve(seconds, current).assignment
        if found is None:
            return None
        # Measured, whatever the solver's tolerance let pass.
        smallest = smallest_class(self.problem, found)
        return found if smallest is None or smallest >= self.problem.k else None

    def _promising_columns(
        self, current: Assignment, rows: Ints, moving: Bools, fixed: Assignment
    ) -> tuple[Ints, Ints]:
        """Pairs (source, target) of ``rows``: the few of least reduced cost for each, those of
        ``current``, and the nearest class that stays. ``moving``: bool, which pairs of ``current``
        may change.
        """
        variants = len(self.problem.texts)
        reduced = self.certificate.reduced_costs_among(rows)
        few = min(_TARGETS_OF_A_VARIANT, len(rows))
        promising = rows[np.argpartition(reduced, few - 1, axis=1)[:, :few]]
        # One number a pair, so that none occurs twice.
        promising_pairs = rows[:, None] * variants + promising
        current_pairs = current.source * variants + current.target
        pairs = [promising_pairs.ravel(), current_pairs[moving]]
        outside = np.unique(fixed.target)
        if len(outside):
            # Without a way out, members could not leave for a class that stays.
            distance = self.problem.distances.matrix[np.ix_(rows, outside)]
            nearest_outside = outside[distance.argmin(axis=1)]
            pairs.append(rows * variants + nearest_outside)
        source, target = np.divmod(np.unique(np.concatenate(pairs)), variants)
        return source, target

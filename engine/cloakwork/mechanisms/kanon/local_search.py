"""Good k-anonymous answers, quickly: merging, and neighbourhoods that are solved exactly.

Everything goes by the order of variants and of costs: nothing is drawn, and only where the time
runs out does a run depend on the machine.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.mechanisms.kanon.deadline import NO_LIMIT, Deadline
from cloakwork.mechanisms.kanon.integer_program import KAnonymityProgram, class_matrix
from cloakwork.mechanisms.kanon.lower_bound import CertifiedBound
from cloakwork.mechanisms.kanon.problem import (
    Assignment,
    KAnonymityProblem,
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


def merge_classes(
    problem: KAnonymityProblem,
    start: Ints | None = None,
    deadline: Deadline = NO_LIMIT,
) -> Assignment:
    """An answer by merging: as long as a class holds too little, the one that is cheapest to merge
    joins another.

    ``start``: where each variant is in the beginning (int64, shape (variants,)); on itself, if not
    given. Merged classes gather on whichever of their two targets costs less. Quadratic in
    variants, in time and memory. Every class of the answer holds mass k itself, which serves both
    scopes. The problem must be feasible. Raises ``OutOfTime`` where ``deadline`` is over before.
    """
    state = _Merging(problem, np.arange(len(problem.texts)) if start is None else start)
    while len(deficient := state.deficient_classes()):
        deadline.require_time()
        cheapest = int(deficient[np.argmin(state.least_cost[deficient])])
        state.merge_into(cheapest, int(state.partner[cheapest]))
    return Assignment.of_targets(problem, state.at[state.class_of])


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
        self.mass = np.bincount(
            self.class_of,
            problem.mass,
            classes,
        ).astype(np.int64)
        self.gather_cost = np.zeros((classes, variants), np.int64)
        for variant in range(variants):
            distance = problem.distances.matrix[variant].astype(np.int64)
            self.gather_cost[self.class_of[variant]] += distance * problem.cases[variant]
        self.is_class = np.ones(classes, bool)
        self.least_cost = np.full(classes, _FORBIDDEN)
        self.partner = np.zeros(classes, np.int64)
        for row in self.deficient_classes():
            self._update_cheapest(int(row))

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
    best: Assignment,
    certificate: CertifiedBound,
    deadline: Deadline,
    on_improvement: Callable[[int], None] = lambda distance: None,
) -> Assignment:
    """An answer that is cheaper than ``best``, if one is found before ``deadline`` is over; never a
    more expensive one.

    Classes that are near to each other are dissolved and the program over their members is solved
    exactly, everything else staying as it is: neighbourhood after neighbourhood over the whole log,
    then larger ones, until these give no more or the time is over. ``certificate``: a bound whose
    dual prices say which pairs are promising. ``on_improvement`` is called with each improved cost.
    """
    problem = certificate.problem
    classes = class_matrix(problem)
    least = edit_cost(problem, best)
    for growth in _GROWTH:
        size = growth * max(_SMALLEST_NEIGHBOURHOOD, 3 * problem.k)
        before = None
        # Once more over the whole log, as long as that gains anything.
        while before != least:
            before = least
            is_waiting = np.ones(len(problem.texts), np.bool_)
            while is_waiting.any():
                if deadline.is_over:
                    return best
                rows = _variants_near(
                    problem,
                    best,
                    int(np.argmax(is_waiting)),
                    size,
                )
                is_waiting[rows] = False
                seconds = min(_SECONDS_OF_A_NEIGHBOURHOOD, deadline.seconds_left)
                found = _solved_around(
                    best,
                    rows,
                    certificate,
                    classes,
                    seconds,
                )
                cost = least if found is None else edit_cost(problem, found)
                if found is not None and cost < least:
                    best, least = found, cost
                    on_improvement(least)
    return best


def _variants_near(
    problem: KAnonymityProblem,
    current: Assignment,
    variant: int,
    size: int,
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


def _solved_around(
    current: Assignment,
    rows: Ints,
    certificate: CertifiedBound,
    classes: Any,
    seconds: float,
) -> Assignment | None:
    """The best answer that differs from ``current`` only in where ``rows`` go, among promising
    pairs: the few of least reduced cost for each, those of ``current``, and the nearest class that
    stays. None where none was found in time.
    """
    problem = certificate.problem
    variants, distance = len(problem.texts), problem.distances.matrix
    moving = np.isin(current.source, rows)
    fixed = Assignment(
        current.source[~moving],
        current.target[~moving],
        current.cases[~moving],
    )
    reduced = certificate.reduced_costs_among(rows)
    few = min(_TARGETS_OF_A_VARIANT, len(rows))
    promising = rows[np.argpartition(reduced, few - 1, axis=1)[:, :few]]
    # One number a pair, so that none occurs twice.
    current_pairs = current.source * variants + current.target
    pairs = [(rows[:, None] * variants + promising).ravel(), current_pairs[moving]]
    outside = np.unique(fixed.target)
    if len(outside):
        # Without a way out, members could not leave for a class that stays.
        nearest = outside[distance[np.ix_(rows, outside)].argmin(axis=1)]
        pairs.append(rows * variants + nearest)
    source, target = np.divmod(np.unique(np.concatenate(pairs)), variants)
    split_cases = certificate.constraints.cases_may_split
    program = KAnonymityProgram(
        problem,
        classes,
        source,
        target,
        split_cases=split_cases,
        fixed=fixed,
    )
    found = program.solve(seconds, current).assignment
    # Measured, whatever the solver's tolerance let pass.
    smallest = None if found is None else smallest_class(problem, found)
    return found if smallest is None or smallest >= problem.k else None

"""BF-PRETSA: k-anonymity by greedy best-first search over partly sanitised logs, and local
improvement of its end.

A state says on which variant the cases of each variant are. A variant *violates* when it holds
cases and falls short of k (over prefixes: when some prefix of it does). A move takes all cases
from a violating variant to another one that holds some: the cheapest that does not violate, or
the cheapest that does. Each step makes the move with the least f = g + h and forgets the
others. g is the edits of all cases so far, from their *original* variants (the paper counts
each move from where the case was). h is the sum, over the variants that violate, of the lesser
of

- the cost of moving to the nearest variant that does not violate, and
- the edits a case to the nearest that does, times min(n, abs(n - k)) / 2,

n being the cases there (equations 2 to 4: one move may correct two variants, hence the half).
Of two moves alike, the one that joins two violating variants comes first. h is brought up to
date for the two variants that a move touches.

**Why it is k-anonymous.** Each move empties a variant for good, since cases only move to
variants that hold some: at most as many moves as variants. While one violates there is another
that holds cases, for were all n >= k cases on one variant, it and its prefixes would hold n. So
the search ends with none that violates.
"""

from typing import ClassVar, Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.progress import Pace
from cloakwork.mechanisms.base import Theorem
from cloakwork.mechanisms.kanon.deadline import NO_LIMIT, Deadline
from cloakwork.mechanisms.kanon.family import K_ANONYMOUS, Anonymiser, FamilyParams
from cloakwork.mechanisms.kanon.problem import Assignment, KAnonymityProblem, Solution
from cloakwork.mechanisms.kanon.whole_variants import MoveCosts, improve_by_hill_climbing

PAPER: Final = (
    "Fahrenkrog-Petersen, van der Aa and Weidlich, Optimal event log sanitization for "
    "privacy-preserving process mining, Data & Knowledge Engineering, 2023"
)
_VIOLATING: Final = 0
_CONFORMING: Final = 1
_NO_VARIANT: Final = -1
_FAR: Final = np.iinfo(np.int64).max // 4
"""Cost where there is no variant to move to; sums of a few of them still fit."""


class BestFirstParams(FamilyParams):
    """As for the whole family; it has no options of its own."""


class BestFirst(Anonymiser[BestFirstParams]):
    """Greedy best-first k-anonymisation of the control flow, whole variants at a time.

    Ours, not the paper's: what the greedy search ends with is improved by closing, opening and
    replacing classes while that costs less (module ``whole_variants``).

    **Why it is k-anonymous.** The search ends with no class that falls short (module's docstring).
    The improvement accepts only answers of ``repair_to_k_anonymous``, which ends with none.

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
        self,
        params: BestFirstParams,
        problem: KAnonymityProblem,
        deadline: Deadline,
    ) -> Solution:
        """Search greedily, then improve; the report also tells the distance that the greedy search
        alone reached. Raises ``OutOfTime`` where ``deadline`` is over before the greedy search has
        ended.
        """
        costs = MoveCosts.of(problem, self.name)
        greedy = search_best_first(costs, deadline)
        improved = improve_by_hill_climbing(costs, greedy, deadline)
        stop_reason = "no single change of a class made it better"
        if deadline.is_over:
            stop_reason = "the time was used up"
        assignment = Assignment.of_targets(problem, improved)
        figures = {"greedy_distance": costs.total_cost(greedy)}
        return Solution(assignment, None, stop_reason, figures)


def search_best_first(costs: MoveCosts, deadline: Deadline = NO_LIMIT) -> Ints:
    """The end of the greedy search: the variant that each variant's cases are on, int64, shape
    (variants,). Raises ``OutOfTime`` where ``deadline`` is over before.
    """
    deadline.require_time()
    state = _GreedyState(costs)
    progress = Pace()
    while state.kinds[_VIOLATING].any():
        deadline.require_time()
        source, target = state.best_move()
        state.apply_move(source, target)
        progress.report(f"{int(state.kinds[_VIOLATING].sum()):,} variants still below k")
    return state.target


class _GreedyState:
    """A state of the search; its arrays change as cases move.

    - ``edits[v, j]``: int64; what all cases that are on v cost in all, were they on j.
    - ``cases``, ``held_mass``: what each variant holds now.
    - ``kinds``: bool, shape (2, variants); those that hold cases, by whether they fall short.
    - ``cost``, ``nearest``: int64, shape (2, variants); for each violating variant the cheapest
      other of each kind to move its cases to (``_NO_VARIANT`` where there is none), and the edits
      of all cases (``_FAR`` there).
    """

    def __init__(self, costs: MoveCosts) -> None:
        variants = len(costs.cases)
        self.costs = costs
        self.target = np.arange(variants)
        self.edits = costs.move_cost.copy()
        self.cases = costs.cases.copy()
        self.held_mass = costs.mass.copy()
        self.holds_cases = np.ones(variants, np.bool_)
        self.kinds = self._kinds()
        self.cost = np.full((2, variants), _FAR)
        self.nearest = np.full((2, variants), _NO_VARIANT)
        self._refresh_nearest(np.flatnonzero(self.kinds[_VIOLATING]))

    def best_move(self) -> tuple[int, int]:
        """From where to where the move with the least f goes; some variant must violate."""
        rows = np.flatnonzero(self.kinds[_VIOLATING])
        # h of each variant; 0 where it does not violate. Equations 2 to 4 of the paper. Only
        # differences of f between moves count: h of the variants that a move leaves alone is left
        # out.
        joining = self._half_share(self.cases, self.held_mass) * self.cost[_VIOLATING]
        joining = np.where(self.nearest[_VIOLATING] == _NO_VARIANT, np.inf, joining)
        future_cost = np.minimum(self.cost[_CONFORMING], joining)
        future_cost = np.where(self.kinds[_VIOLATING], future_cost, 0.0)
        partner = self.nearest[_VIOLATING, rows]
        to_conforming = self.cost[_CONFORMING, rows] - future_cost[rows]
        # Where there is no partner, -1 reads the last variant's figures, which do not count.
        joined_before = future_cost[rows] + future_cost[partner]
        joined_after = self._estimate_joined(rows, partner)
        to_violating = self.cost[_VIOLATING, rows] - joined_before + joined_after
        to_violating = np.where(partner == _NO_VARIANT, np.inf, to_violating)
        best = int(np.argmin(np.minimum(to_conforming, to_violating)))
        # Of two moves alike, the one that joins two violating variants.
        kind = _VIOLATING if to_violating[best] <= to_conforming[best] else _CONFORMING
        return int(rows[best]), int(self.nearest[kind, rows[best]])

    def apply_move(self, source: int, target: int) -> None:
        """Move all cases on ``source`` to ``target``; search again where another is nearest now."""
        self.target[self.target == source] = target
        self.edits[target] += self.edits[source]
        for amount in (self.cases, self.held_mass):
            amount[target] += amount[source]
            amount[source] = 0
        self.holds_cases[source] = False
        before = self.kinds
        self.kinds = self._kinds()
        joined: Bools = self.kinds & ~before
        left = np.asarray((before & ~self.kinds).any(axis=0))
        # Stale is what a variant knows that now violates, was moved to, or lost its nearest.
        is_stale = joined[_VIOLATING].copy()
        is_stale[target] = True
        is_stale |= (left[self.nearest] & (self.nearest != _NO_VARIANT)).any(axis=0)
        rows = np.flatnonzero(self.kinds[_VIOLATING])
        for kind in (_CONFORMING, _VIOLATING):
            # Variants that became of a kind may be nearer than what was nearest of it.
            for candidate in np.flatnonzero(joined[kind]):
                cost = self.edits[rows, candidate] - self.edits[rows, rows]
                cost[rows == candidate] = _FAR
                is_nearer = cost < self.cost[kind, rows]
                self.cost[kind, rows[is_nearer]] = cost[is_nearer]
                self.nearest[kind, rows[is_nearer]] = candidate
        self._refresh_nearest(np.flatnonzero(is_stale & self.kinds[_VIOLATING]))

    def _kinds(self) -> Bools:
        """Which variants hold cases and fall short, and which hold cases and do not."""
        held = self.costs.sum_over_extensions(self.held_mass)
        falls_short = held < self.costs.required_mass
        return np.stack([falls_short, ~falls_short]) & self.holds_cases

    def _refresh_nearest(self, rows: Ints) -> None:
        """Find what is nearest to ``rows`` among all variants."""
        for kind in (_CONFORMING, _VIOLATING):
            targets = np.flatnonzero(self.kinds[kind])
            if not len(targets):
                self.cost[kind, rows], self.nearest[kind, rows] = _FAR, _NO_VARIANT
                continue
            # From the original variants: the edits there, less those that were made so far.
            edits_so_far = self.edits[rows, rows]
            cost = self.edits[np.ix_(rows, targets)] - edits_so_far[:, None]
            # To stay is no move.
            cost[rows[:, None] == targets] = _FAR
            best = np.argmin(cost, axis=1)
            least = cost[np.arange(len(rows)), best]
            self.cost[kind, rows] = least
            self.nearest[kind, rows] = np.where(least < _FAR, targets[best], _NO_VARIANT)

    def _estimate_joined(self, rows: Ints, partner: Ints) -> Floats:
        """h for ``partner`` with the cases of ``rows``, from what is nearest to ``partner`` now."""
        cases = self.cases[rows] + self.cases[partner]
        held = self.held_mass[rows] + self.held_mass[partner]
        # All move on together to what is nearest to the partner and conforms.
        onward = self.nearest[_CONFORMING, partner]
        extra = self.edits[rows, onward] - self.edits[rows, partner]
        moving_on = (self.cost[_CONFORMING, partner] + extra).astype(np.float64)
        moving_on = np.where(onward == _NO_VARIANT, np.inf, moving_on)
        # Or they join another that violates, at half of what that costs (equation 4).
        cost_of_case = self.cost[_VIOLATING, partner] / np.maximum(self.cases[partner], 1)
        joining = self._half_share(cases, held) * cost_of_case * cases
        # Or nothing more is to be done.
        held_with_extensions = self.costs.sum_over_extensions(self.held_mass)[partner]
        suffices = held_with_extensions + self.held_mass[rows] >= self.costs.required_mass[partner]
        return np.where(suffices, 0.0, np.minimum(moving_on, joining))

    def _half_share(self, cases: Ints, held_mass: Ints) -> Floats:
        """Half of the share of a variant's cases that joining it to another is charged with."""
        missing = np.abs(self.costs.k - held_mass)
        return np.minimum(cases, missing) / np.maximum(cases, 1) / 2

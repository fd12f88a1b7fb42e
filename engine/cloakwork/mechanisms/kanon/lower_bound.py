"""A lower bound on what any k-anonymous answer costs, certified in integer arithmetic.

Variant i has n_i cases and mass w_i, and d_ij edits turn it into variant j. Two constraints of the
integer program are relaxed with multipliers (Lagrangian duality; Geoffrion, Lagrangean relaxation
for integer programming, 1974):

- every variant goes to one open variant: dual prices ``p_i`` (``assignment_duals``);
- an open variant holds mass k: dual prices ``t_j >= 0`` (``mass_duals``).

For any of them no answer costs less than the sum of all p_i plus the least sum, over choices of
open variants j, of

    k t_j + sum_i min(0, n_i d_ij - p_i - w_i t_j),

the reduced cost of an open variant that must hold mass k. One that need not has t_j = 0. Over
variants each must. Over prefixes only those must that no other open variant begins with.

Good dual prices are found in floating point (module ``subgradient``). Here they are rounded to a
grid, and the bound is computed from the rounded ones over all pairs in int64: it holds whatever
went wrong before. The same sums bound the cost of any answer that opens a given variant or moves
one given variant to another. What cannot be in an answer better than the best one known is left
out of the integer program.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.mechanisms.kanon.open_variants import CoverConstraints, choose_open_variants
from cloakwork.mechanisms.kanon.problem import KAnonymityProblem

CELLS_AT_ONCE: Final = 1 << 22
"""Most pairs of variants whose costs are in memory together."""


@dataclass(frozen=True, slots=True)
class CertifiedBound:
    """A bound certified in integer arithmetic, and what it says about single decisions.

    - ``value``: no answer costs less.
    - ``assignment_duals``, ``mass_duals``: int64, shape (variants,), in ``1 / grid`` edits.
    - ``cost_if_open``: int64, shape (variants,), in ``1 / grid`` edits; the least cost of an answer
      in which that variant is open.
    """

    problem: KAnonymityProblem
    constraints: CoverConstraints
    value: int
    grid: int
    assignment_duals: Ints
    mass_duals: Ints
    cost_if_open: Ints

    def columns_below(self, cost: int) -> tuple[Ints, Ints]:
        """Every pair (source, target) that an answer of less than ``cost`` may contain: two int64
        arrays of one shape.
        """
        must_be_placed = self.constraints.must_be_placed
        placed = np.flatnonzero(must_be_placed)
        stays = np.flatnonzero(~must_be_placed)
        sources, targets = [stays], [stays]
        # Costs are whole numbers: less than ``cost`` is at most ``cost - 1``.
        for chunk, least in self._cost_if_moved():
            target, source = np.nonzero(least <= (cost - 1) * self.grid)
            sources.append(placed[source])
            targets.append(chunk[target])
        return np.concatenate(sources), np.concatenate(targets)

    def cost_limit_for(self, columns: int, at_most: int) -> int:
        """The largest cost, up to ``at_most``, for which ``columns_below`` gives no more than
        ``columns`` pairs; ``value + 1`` where there is none.
        """
        # pairs_at[s]: how many pairs cost value + s at least; the last counts whatever is above.
        pairs_at = np.zeros(max(at_most - self.value, 0) + 1, np.int64)
        for _, least in self._cost_if_moved():
            # Rounded up to whole edits, which -(-a // b) does in integers.
            edits_at_least = -(-least // self.grid)
            surplus = np.clip(edits_at_least - self.value, 0, len(pairs_at) - 1)
            pairs_at += np.bincount(surplus.ravel(), minlength=len(pairs_at))
        # How many of the first sums are at most ``columns``: so many edits more are allowed.
        fitting = int(np.searchsorted(np.cumsum(pairs_at), columns, side="right"))
        return min(self.value + max(fitting, 1), max(at_most, self.value + 1))

    def relaxed_targets(self) -> Ints:
        """Where the relaxed problem sends each variant, whether or not that is an answer: int64,
        shape (variants,).
        """
        problem = self.problem
        placed = np.flatnonzero(self.constraints.must_be_placed)
        # Opening what the relaxed problem opens anyway costs no more than its value.
        opened = np.flatnonzero(self.cost_if_open == self.cost_if_open.min())
        cases = problem.cases[placed, None].astype(np.float64)
        move_cost = problem.distances.matrix[np.ix_(placed, opened)] * cases
        mass_duals = self.mass_duals[opened] / self.grid
        # The assignment dual is the same for all targets of a variant: it decides nothing here.
        reduced = move_cost - problem.mass[placed, None] * mass_duals
        target = np.arange(len(self.cost_if_open))
        target[placed] = opened[reduced.argmin(axis=1)]
        return target

    def reduced_costs_among(self, rows: Ints) -> Floats:
        """By how much at least an answer exceeds ``value`` that moves one of ``rows`` (or a case of
        it, where cases may split) to another: float64, edits, shape (rows moved, rows moved to).
        """
        problem = self.problem
        assignment_duals = self.assignment_duals[rows] / self.grid
        mass_duals = self.mass_duals[rows] / self.grid
        cases = problem.cases[rows, None]
        move_cost = problem.distances.matrix[np.ix_(rows, rows)] * cases.astype(np.float64)
        reduced = move_cost - assignment_duals[:, None] - mass_duals * problem.mass[rows, None]
        if self.constraints.cases_may_split:
            # One case then moves alone, at its share of what all cost.
            reduced = reduced / cases
        opening = self.cost_if_open[rows] / self.grid
        return np.asarray(np.maximum(reduced, 0) + opening - self.value)

    def _cost_if_moved(self) -> Iterator[tuple[Ints, Ints]]:
        """Chunks of targets, and for each of them (rows) and each placed variant (columns) the
        least cost of an answer that moves the one to the other, in ``1 / grid`` edits.

        Where cases may split, it is the least cost of an answer that moves one case.
        """
        cases = self.problem.cases[self.constraints.must_be_placed]
        chunks = reduced_cost_chunks(
            self.problem, self.constraints, self.grid, self.assignment_duals, self.mass_duals
        )
        for targets, reduced in chunks:
            extra = reduced
            if self.constraints.cases_may_split:
                extra = reduced // cases
            # A negative reduced cost is in ``cost_if_open`` already.
            yield targets, self.cost_if_open[targets, None] + np.maximum(extra, 0)


def certify_bound(
    problem: KAnonymityProblem,
    constraints: CoverConstraints,
    assignment_duals: Floats,
    mass_duals: Floats,
) -> CertifiedBound:
    """The bound that these dual prices prove: float64, shape (variants,), in edits.

    Any prices will do. Negative mass duals count as 0.
    """
    placed = constraints.must_be_placed
    mass_prices = np.where(constraints.needs_no_mass, 0.0, np.maximum(mass_duals, 0.0))
    assignment_prices = np.where(placed, assignment_duals, 0.0)
    grid = _finest_grid(problem, assignment_prices, mass_prices)
    # Rounded prices are prices too, so rounding costs quality and never truth.
    rounded_assignment = np.floor(assignment_prices * grid).astype(np.int64)
    rounded_mass = np.floor(mass_prices * grid).astype(np.int64)

    cost_with_mass = problem.k * rounded_mass
    cost_without_mass = np.zeros(len(problem.texts), np.int64)
    for targets, reduced in reduced_cost_chunks(
        problem, constraints, grid, rounded_assignment, rounded_mass
    ):
        cost_with_mass[targets] += np.minimum(reduced, 0).sum(axis=1)
        # The mass dual is taken out again: what need not hold k has none.
        without_mass_dual = reduced + rounded_mass[targets, None] * problem.mass[placed]
        cost_without_mass[targets] = np.minimum(without_mass_dual, 0).sum(axis=1)
    chosen = choose_open_variants(constraints, cost_with_mass, cost_without_mass)

    sum_of_duals = rounded_assignment.sum()
    relaxed_value = sum_of_duals + chosen.total
    # Costs are whole edits, so the bound is rounded up, which -(-a // b) does in integers.
    value = max(0, -int(-relaxed_value // grid))
    return CertifiedBound(
        problem,
        constraints,
        value,
        grid,
        rounded_assignment,
        rounded_mass,
        sum_of_duals + chosen.cost_if_open,
    )


def _finest_grid(problem: KAnonymityProblem, assignment_duals: Floats, mass_duals: Floats) -> int:
    """The largest power of two by which all prices can be multiplied so that no sum over all pairs
    leaves int64 (60 bits, which keeps two to spare).
    """
    pairs = len(problem.texts) ** 2
    largest_move_cost = float(problem.distances.matrix.max(initial=0)) * float(problem.cases.max())
    largest_mass_term = float(problem.mass.max() + problem.k) * mass_duals.max()
    largest_entry = largest_move_cost + np.abs(assignment_duals).max() + largest_mass_term
    bits_of_sum = np.log2(pairs * (largest_entry + 1) + 1)
    return 1 << max(0, int(60 - bits_of_sum))


def reduced_cost_chunks(
    problem: KAnonymityProblem,
    constraints: CoverConstraints,
    grid: int,
    assignment_duals: Ints,
    mass_duals: Ints,
) -> Iterator[tuple[Ints, Ints]]:
    """Chunks of targets j, and ``n_i d_ij - p_i - w_i t_j`` for each of them (rows) and each placed
    variant i (columns): int64, in ``1 / grid`` edits.
    """
    placed = np.flatnonzero(constraints.must_be_placed)
    cases = problem.cases[placed] * grid
    mass = problem.mass[placed]
    prices = assignment_duals[placed]
    count = len(problem.texts)
    rows_at_once = max(1, CELLS_AT_ONCE // max(1, len(placed)))
    for first in range(0, count, rows_at_once):
        targets = np.arange(first, min(first + rows_at_once, count))
        distance = problem.distances.matrix[targets][:, placed].astype(np.int64)
        move_cost = distance * cases
        mass_term = mass_duals[targets, None] * mass
        yield targets, move_cost - prices - mass_term

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
variants each must. Over prefixes only those must that no other open variant begins with. So an open
variant has two costs: one if it must hold mass k, and one, never positive, if an extension of it
holds the mass. The cheapest choice is found by dynamic programming on the forest in which a
variant's parent is its longest prefix.

Good dual prices are found in floating point, by subgradient ascent: the bound is a concave function
of the dual prices of the assignment constraint; where it has a kink, one minus how often the
relaxed answer places a variant is a subgradient (Held, Wolfe and Crowder, Validation of subgradient
optimization, 1974). For given assignment duals the best mass dual of each open variant is known in
closed form. Each round works on a pool: for each variant the cheapest others only.

Whatever was found is rounded to a grid, and the bound is computed from the rounded prices over all
pairs in int64: it holds whatever went wrong before. The same sums bound the cost of any answer that
opens a given variant or moves one given variant to another. What cannot be in an answer better than
the best one known is left out of the integer program.

Where not all pairs are known, nor any prices, every distance from i to another variant is replaced
by b_i, the least of them (``bound_from_nearest``): an answer costs no less than it would by these.
With one price T of mass for all, and p_i = n_i b_i - w_i T, a pair of two variants has the reduced
cost w_i (T - t_j), which is never below 0 for t_j <= T: only what stays on its own variant counts.
"""

from collections.abc import Callable, Iterator
from math import inf
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.frozen import frozen
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.problem import KAnonymityProblem, longest_prefixes

_CELLS_AT_ONCE: Final = 1 << 22
"""Most pairs of variants whose costs are in memory together."""

_PRICES_TRIED: Final = 24
"""Of mass, where one holds for all variants."""

_SMALLEST_POOL: Final = 120
_ROUNDS: Final = 200
_FIRST_ROUNDS: Final = 3
"""Rounds at the beginning, which are short: the pools of bad prices are soon out of date."""
_STEPS_OF_FIRST_ROUNDS: Final = 15
_STEPS_OF_A_ROUND: Final = 60
_PATIENCE: Final = 20
"""Steps without a better bound before the step becomes smaller."""
_SHRINK: Final = 0.7
_MOMENTUM: Final = 0.9
_SMALLEST_STEP: Final = 3e-3
_SMALLEST_MASS: Final = 0.5
"""Stands for mass 0 in quotients; any mass is a whole number."""


@frozen
class CoverConstraints:
    """Which open variants must hold mass k; every variant must be placed.

    - ``needs_no_mass``: bool, shape (variants,); variants that may be open without mass k.
    - ``cases_may_split``: whether the cases of one variant may go to different variants.
    - ``longest_prefix``: int64, shape (variants,); over prefixes the longest other variant with
      events that this one begins with; -1 where there is none, and over variants.
    """

    needs_no_mass: Bools
    cases_may_split: bool
    longest_prefix: Ints

    @classmethod
    def of(
        cls,
        problem: KAnonymityProblem,
        *,
        split_cases: bool,
    ) -> "CoverConstraints":
        """Read the constraints off the problem."""
        count = len(problem.texts)
        if problem.scope == "prefixes":
            # The variant without events has no prefix, so it is no class and needs no mass.
            is_empty = np.array([not text for text in problem.texts], bool)
            return cls(is_empty, split_cases, longest_prefixes(problem.texts))
        return cls(np.zeros(count, bool), split_cases, np.full(count, -1))


@frozen
class OpenedVariants:
    """The cheapest choice of open variants.

    - ``total``: its cost.
    - ``cost_if_open``: shape (variants,); the least cost of a choice that opens that variant.
    - ``open_with_mass``: bool, shape (variants,); open, and must hold mass k.
    - ``open_without_mass``: bool, shape (variants,); open, and need not.
    """

    total: Any
    cost_if_open: NDArray[Any]
    open_with_mass: Bools
    open_without_mass: Bools


def choose_open_variants(
    constraints: CoverConstraints,
    cost_with_mass: NDArray[Any],
    cost_without_mass: NDArray[Any],
) -> OpenedVariants:
    """The cheapest choice, none open included.

    ``cost_with_mass``, ``cost_without_mass``: of one dtype (int64 or float64), shape (variants,);
    what each variant costs if it must hold mass k, and if not (at most 0).
    """
    needs_no_mass = constraints.needs_no_mass
    parent = constraints.longest_prefix.tolist()
    cost_alone = np.where(needs_no_mass, cost_without_mass, cost_with_mass)
    if max(parent, default=-1) < 0:
        gain = np.minimum(cost_alone, 0)
        total = gain.sum()
        opened = cost_alone < 0
        # A variant that is open anyway changes nothing; any other adds its own cost.
        cost_if_open = total - gain + cost_alone
        return OpenedVariants(
            total,
            cost_if_open,
            opened & ~needs_no_mass,
            opened & needs_no_mass,
        )

    alone = cost_alone.tolist()
    extended = cost_without_mass.tolist()
    rows = range(len(parent))
    # Upwards: the least cost of each subtree if its variant is open; the sum over the subtrees of
    # its children, and the least of them. The parent of a root is -1: the last entry.
    best = list(alone)
    of_children = [0 * alone[0]] * (len(rows) + 1)
    of_one_child = [inf] * (len(rows) + 1)
    for row in reversed(rows):
        if of_one_child[row] < inf:
            # All children with a negative cost, or else the cheapest one.
            extensions = of_children[row] if of_one_child[row] <= 0 else of_one_child[row]
            best[row] = min(alone[row], extended[row] + extensions)
        of_children[parent[row]] += min(best[row], 0)
        of_one_child[parent[row]] = min(of_one_child[parent[row]], best[row])
    # Downwards: the best of everything outside each subtree; a child is open only below a parent
    # that is open and leaves the mass to it.
    total = of_children[-1]
    outside = [0 * total] * len(rows)
    with_mass = np.zeros(len(rows), np.bool_)
    without_mass = np.zeros(len(rows), np.bool_)
    for row in rows:
        above = parent[row]
        with_siblings = total
        may_open = True
        is_needed = False
        if above >= 0:
            with_siblings = outside[above] + extended[above] + of_children[above]
            may_open = bool(without_mass[above])
            # The parent needs one, even at a cost, and this is the cheapest.
            is_needed = of_one_child[above] >= 0 and best[row] == of_one_child[above]
        outside[row] = with_siblings - min(best[row], 0)
        is_open = may_open and (best[row] < 0 or is_needed)
        with_mass[row] = is_open and best[row] == alone[row]
        without_mass[row] = is_open and not with_mass[row]
    cost_if_open = np.array(outside, cost_alone.dtype) + np.array(best, cost_alone.dtype)
    return OpenedVariants(
        total,
        cost_if_open,
        with_mass,
        without_mass,
    )


def least_to_another(distance: NDArray[Any]) -> Ints:
    """How far each of some variants (rows) is from another one of all (columns) at least: int64,
    shape (rows,); 0 where there is no other.
    """
    # The least of all is that of each variant to itself.
    second = min(1, distance.shape[1] - 1)
    return np.partition(distance, second, axis=1)[:, second].astype(np.int64)


def bound_from_nearest(
    problem: KAnonymityProblem,
    constraints: CoverConstraints,
    nearest: Ints,
    deadline: Deadline,
) -> int:
    """What any answer costs at least, in edits, by the best of some prices of mass.

    ``nearest``: int64, shape (variants,); how far each is from any other one at least.
    """
    k = problem.k
    mass = problem.mass
    # All costs in k-ths of an edit, so that they are whole numbers.
    moved = k * problem.cases * nearest
    best = 0
    largest = float(moved.max(initial=k)) / k
    for price in np.unique(np.geomspace(1, largest, _PRICES_TRIED).astype(np.int64)):
        duals = moved - price * mass
        # What stays where it is pays its dual back: with the price of mass, or without.
        without_mass = np.minimum(-duals, 0)
        with_mass = np.maximum(k * price - moved, without_mass)
        chosen = choose_open_variants(constraints, with_mass, without_mass)
        # Rounded up, since answers cost whole edits.
        best = max(best, -int(-(duals.sum() + chosen.total) // k))
        if deadline.is_over:
            break
    return best


@frozen
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
        """Every pair (source, target) that an answer of less than ``cost`` may contain: int64."""
        sources = []
        targets = []
        # Costs are whole numbers: less than ``cost`` is at most ``cost - 1``.
        for chunk, least in self._cost_if_moved():
            target, source = np.nonzero(least <= (cost - 1) * self.grid)
            sources.append(source)
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
        # Opening what the relaxed problem opens anyway costs no more than its value.
        opened = np.flatnonzero(self.cost_if_open == self.cost_if_open.min())
        cases = problem.cases[:, None].astype(np.float64)
        move_cost = problem.distances.matrix[:, opened] * cases
        mass_duals = self.mass_duals[opened] / self.grid
        # The assignment dual is the same for all targets of a variant: it decides nothing here.
        reduced = move_cost - problem.mass[:, None] * mass_duals
        return np.asarray(opened[reduced.argmin(axis=1)])

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
        """Chunks of targets, and for each of them (rows) and each variant (columns) the
        least cost of an answer that moves the one to the other, in ``1 / grid`` edits.

        Where cases may split, it is the least cost of an answer that moves one case.
        """
        prices = self.grid, self.assignment_duals, self.mass_duals
        for targets, reduced in _reduced_cost_chunks(self.problem, *prices):
            extra = reduced
            if self.constraints.cases_may_split:
                extra = reduced // self.problem.cases
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
    mass_prices = np.where(constraints.needs_no_mass, 0.0, np.maximum(mass_duals, 0.0))
    # The finest grid on which no sum over all pairs leaves int64: 60 bits, which keeps two to
    # spare.
    largest_move_cost = float(problem.distances.matrix.max(initial=0)) * float(problem.cases.max())
    largest_mass_term = float(problem.mass.max() + problem.k) * mass_prices.max()
    largest_entry = largest_move_cost + np.abs(assignment_duals).max() + largest_mass_term
    bits_of_sum = np.log2(len(mass_duals) ** 2 * (largest_entry + 1) + 1)
    grid = 1 << max(0, int(60 - bits_of_sum))
    # Rounded prices are prices too, so rounding costs quality and never truth.
    rounded_assignment = np.floor(assignment_duals * grid).astype(np.int64)
    rounded_mass = np.floor(mass_prices * grid).astype(np.int64)

    cost_with_mass = problem.k * rounded_mass
    cost_without_mass = np.zeros(len(mass_duals), np.int64)
    prices = grid, rounded_assignment, rounded_mass
    for targets, reduced in _reduced_cost_chunks(problem, *prices):
        cost_with_mass[targets] += np.minimum(reduced, 0).sum(axis=1)
        # The mass dual is taken out again: what need not hold k has none.
        without_mass_dual = reduced + rounded_mass[targets, None] * problem.mass
        cost_without_mass[targets] = np.minimum(without_mass_dual, 0).sum(axis=1)
    chosen = choose_open_variants(constraints, cost_with_mass, cost_without_mass)
    sum_of_duals = rounded_assignment.sum()
    # Costs are whole edits, so the bound is rounded up, which -(-a // b) does in integers.
    value = max(0, -int(-(sum_of_duals + chosen.total) // grid))
    return CertifiedBound(
        problem,
        constraints,
        value,
        grid,
        rounded_assignment,
        rounded_mass,
        sum_of_duals + chosen.cost_if_open,
    )


def _reduced_cost_chunks(
    problem: KAnonymityProblem,
    grid: int,
    assignment_duals: Ints,
    mass_duals: Ints,
) -> Iterator[tuple[Ints, Ints]]:
    """Chunks of targets j, and ``n_i d_ij - p_i - w_i t_j`` for each of them (rows) and each
    variant i (columns): int64, in ``1 / grid`` edits.
    """
    cases = problem.cases * grid
    for targets in _chunks(len(problem.texts)):
        distance = problem.distances.matrix[targets].astype(np.int64)
        mass_term = mass_duals[targets, None] * problem.mass
        yield targets, distance * cases - assignment_duals - mass_term


def _chunks(rows: int) -> list[Ints]:
    """The rows of a table of as many columns, as many at a time as are in memory together."""
    rows_at_once = max(1, _CELLS_AT_ONCE // max(1, rows))
    return np.split(np.arange(rows), range(rows_at_once, rows, rows_at_once))


class _Pool:
    """For each variant the cheapest others at some prices, and the relaxed problem over them alone.

    ``sources``: int64, ``move_cost``, ``mass``: float64; all of shape (variants, pool).
    """

    def __init__(
        self,
        problem: KAnonymityProblem,
        constraints: CoverConstraints,
        duals: Floats,
        size: int,
    ) -> None:
        self.problem = problem
        self.constraints = constraints
        count = len(problem.texts)
        size = min(size, count)
        self.sources = np.empty((count, size), np.int64)
        self.move_cost = np.empty((count, size))
        cases = problem.cases.astype(np.float64)
        mass = np.maximum(problem.mass, _SMALLEST_MASS)
        for chunk in _chunks(count):
            cost = problem.distances.matrix[chunk] * cases
            per_mass = (cost - duals) / mass
            cheapest = np.argpartition(per_mass, size - 1, axis=1)[:, :size]
            self.sources[chunk] = cheapest
            self.move_cost[chunk] = np.take_along_axis(cost, cheapest, axis=1)
        self.mass = problem.mass[self.sources].astype(np.float64)

    def relaxed(self, duals: Floats) -> tuple[float, Floats, Floats]:
        """The relaxed problem at these assignment duals and the best mass duals: its value; these
        mass duals; and how often its answer places each variant. float64, shape (variants,).
        """
        k = self.problem.k
        reduced = self.move_cost - duals[self.sources]
        # Fill every target up to mass k, as the linear knapsack is filled: by cost a unit of mass.
        # What has no mass fills nothing: first where it is a gain by itself, else last.
        without_mass = np.where(reduced < 0, -np.inf, np.inf)
        per_mass = reduced / np.maximum(self.mass, _SMALLEST_MASS)
        per_mass = np.where(self.mass > 0, per_mass, without_mass)
        # The cheapest first. Positive masses are at least 1: k candidates hold mass k, but for what
        # has none. A partition, and a sort of these only, is faster than sorting whole rows.
        if k < reduced.shape[1]:
            cheapest = np.argpartition(per_mass, k - 1, axis=1)[:, :k]
            ascending = np.argsort(np.take_along_axis(per_mass, cheapest, 1), axis=1)
            order = np.take_along_axis(cheapest, ascending, 1)
        else:
            order = np.argsort(per_mass, axis=1)
        mass = np.take_along_axis(self.mass, order, 1)
        mass_before = np.cumsum(mass, axis=1) - mass
        # The dual of that knapsack's constraint is the price of its last item, with which the mass
        # reaches k.
        too_few = (mass_before + mass < k).sum(axis=1)
        last = np.minimum(too_few, order.shape[1] - 1)
        position_of_last = np.take_along_axis(order, last[:, None], 1)
        price_of_last = np.take_along_axis(per_mass, position_of_last, 1)[:, 0]
        no_price = self.constraints.needs_no_mass | ~np.isfinite(price_of_last)
        mass_duals = np.where(no_price, 0.0, np.maximum(price_of_last, 0.0))

        with_mass_duals = reduced - mass_duals[:, None] * self.mass
        cost_with_mass = k * mass_duals + np.minimum(with_mass_duals, 0).sum(axis=1)
        cost_without_mass = np.minimum(reduced, 0).sum(axis=1)
        chosen = choose_open_variants(self.constraints, cost_with_mass, cost_without_mass)

        times_placed = np.zeros(len(duals))
        # Where mass has a price, the knapsack is filled exactly to k; its last item may be in part.
        filled = np.flatnonzero(chosen.open_with_mass & (mass_duals > 0))
        room = np.clip(k - mass_before[filled], 0, mass[filled])
        share = room / np.maximum(mass[filled], _SMALLEST_MASS)
        filling = np.take_along_axis(self.sources[filled], order[filled], 1)
        np.add.at(times_placed, filling, share)
        # Elsewhere a variant is placed wherever its reduced cost is negative.
        unpriced = chosen.open_with_mass & (mass_duals <= 0)
        unfilled = np.flatnonzero(chosen.open_without_mass | unpriced)
        np.add.at(times_placed, self.sources[unfilled][reduced[unfilled] < 0], 1.0)
        return float(duals.sum() + chosen.total), mass_duals, times_placed


@frozen
class _Prices:
    """The best bound (of a pool) so far, its dual prices, and the step, a share of the way to the
    bound that is aimed at.
    """

    bound: float
    assignment_duals: Floats
    mass_duals: Floats
    step: float


def subgradient_ascent(
    problem: KAnonymityProblem,
    constraints: CoverConstraints,
    assignment_duals: Floats,
    cost: int,
    deadline: Deadline,
    on_bound: Callable[[int], None] = lambda bound: None,
) -> CertifiedBound:
    """The best bound found, until it is ``cost``, steps are too small, or ``deadline`` is over.

    ``assignment_duals``: float64, shape (variants,), to begin with, in edits; ``cost``: that of
    some answer. ``on_bound`` is called with each bound that is certified and no worse.
    """
    duals = assignment_duals
    proved = certify_bound(
        problem,
        constraints,
        duals,
        np.zeros(len(duals)),
    )
    pool_size = max(2 * problem.k, _SMALLEST_POOL)
    step = 1.0
    is_rising = True
    for round_ in range(_ROUNDS):
        if step < _SMALLEST_STEP or deadline.is_over or proved.value >= cost:
            break
        # Polyak's step length takes for the best bound at first the cost of the known answer, then
        # little more than what is proved, since an aim out of reach makes steps too long.
        aim = min(cost, (1.1 if is_rising else 1.03) * proved.value + 1)
        if round_ <= _FIRST_ROUNDS:
            aim = cost
        steps = _STEPS_OF_FIRST_ROUNDS if round_ < _FIRST_ROUNDS else _STEPS_OF_A_ROUND
        pool = _Pool(problem, constraints, duals, pool_size)
        last = _ascend_in_pool(
            pool,
            duals,
            step,
            aim,
            steps,
            deadline,
        )
        found = certify_bound(
            problem,
            constraints,
            last.assignment_duals,
            last.mass_duals,
        )
        has_stood_still = np.array_equal(duals, last.assignment_duals) and last.step == step
        is_settled = pool_size >= len(duals) and has_stood_still
        duals = last.assignment_duals
        step = last.step
        is_rising = found.value > 1.02 * proved.value
        if found.value >= proved.value:
            proved = found
            on_bound(proved.value)
        if is_settled:
            break
        # The pool promises more than all pairs keep: it leaves out pairs that matter.
        is_pool_too_small = last.bound > 1.01 * found.value + 1
        if is_pool_too_small and round_ >= _FIRST_ROUNDS:
            pool_size = min(2 * pool_size, len(duals))
            step = 1.0
    return proved


def _ascend_in_pool(
    pool: _Pool,
    duals: Floats,
    step: float,
    aim: float,
    steps: int,
    deadline: Deadline,
) -> _Prices:
    """Subgradient steps with momentum, from some prices within one pool to better ones."""
    best = _Prices(-np.inf, duals, duals, step)
    idle_steps = 0
    direction = np.zeros(len(duals))
    for _ in range(steps):
        bound, mass_duals, times_placed = pool.relaxed(duals)
        is_better = bound > best.bound + 1e-5 * abs(best.bound)
        idle_steps = 0 if is_better else idle_steps + 1
        if bound > best.bound:
            best = _Prices(bound, duals, mass_duals, step)
        slope = 1.0 - times_placed
        if not slope.any() or step < _SMALLEST_STEP or deadline.is_over:
            break
        if idle_steps > _PATIENCE:
            # Back to the best prices, with smaller steps and no momentum.
            step *= _SHRINK
            idle_steps, duals, direction = 0, best.assignment_duals, np.zeros(len(duals))
            continue
        direction = slope + _MOMENTUM * direction
        # Polyak's length: how much is missing, over the squared length of the direction.
        missing = max(aim - bound, 1.0)
        length = step * missing / float(direction @ direction)
        duals = duals + length * direction
    return _Prices(
        best.bound,
        best.assignment_duals,
        best.mass_duals,
        step,
    )

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

Which variants a relaxed answer opens, when each open variant has a cost of its own.

Over variants every open variant must hold mass k itself. Over prefixes only those must that no
other open variant begins with. So an open variant has two costs: one if it must hold mass k, and
one, never positive, if an extension of it holds the mass. The cheapest choice is then found by
dynamic programming on the forest in which a variant's parent is its longest prefix.

Dual prices that prove a good lower bound, by subgradient ascent.

The bound of module ``lower_bound`` is a concave function of the dual prices of the assignment
constraint; where it has a kink, one minus how often the relaxed answer places a variant is a
subgradient (Held, Wolfe and Crowder, Validation of subgradient optimization, 1974). For given
assignment duals the best mass dual of each open variant is known in closed form.

Each round works on a pool: for each variant the cheapest others only. After a round the bound is
certified over all pairs. Everything here is floating point; nothing here has to be right for a
certified bound to hold.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.problem import KAnonymityProblem, longest_prefixes


@dataclass(frozen=True, slots=True)
class CoverConstraints:
    """Which variants must be placed, and which open variants must hold mass k.

    - ``must_be_placed``: bool, shape (variants,); the others stay where they are in some optimum.
    - ``needs_no_mass``: bool, shape (variants,); variants that may be open without mass k.
    - ``cases_may_split``: whether the cases of one variant may go to different variants.
    - ``longest_prefix``: int64, shape (variants,); over prefixes the longest other variant with
      events that this one begins with; -1 where there is none, and over variants.
    """

    must_be_placed: Bools
    needs_no_mass: Bools
    cases_may_split: bool
    longest_prefix: Ints

    @classmethod
    def of(cls, problem: KAnonymityProblem, *, split_cases: bool) -> "CoverConstraints":
        """Read the constraints off the problem.

        Over whole variants, where each case counts one, a variant j with k cases stays. For if its
        cases moved to b, let them return. Should b then hold less than k, let what is left there
        follow them: by the triangle inequality that costs less than the return saves.
        """
        count = len(problem.texts)
        if problem.scope == "prefixes":
            # The variant without events has no prefix, so it is no class and needs no mass.
            is_empty = np.array([not text for text in problem.texts], bool)
            return cls(np.ones(count, bool), is_empty, split_cases, longest_prefixes(problem.texts))
        stays = np.zeros(count, bool)
        if not split_cases and (problem.mass == problem.cases).all():
            stays = problem.mass >= problem.k
        return cls(~stays, stays, split_cases, np.full(count, -1))


@dataclass(frozen=True, slots=True)
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
    constraints: CoverConstraints, cost_with_mass: NDArray[Any], cost_without_mass: NDArray[Any]
) -> OpenedVariants:
    """The cheapest choice, none open included.

    ``cost_with_mass``, ``cost_without_mass``: of one dtype (int64 or float64), shape (variants,);
    what each variant costs if it must hold mass k, and if not (at most 0).
    """
    needs_no_mass = constraints.needs_no_mass
    cost_alone = np.where(needs_no_mass, cost_without_mass, cost_with_mass)
    if (constraints.longest_prefix >= 0).any():
        return _choose_on_prefix_forest(constraints.longest_prefix, cost_alone, cost_without_mass)
    gain = np.minimum(cost_alone, 0)
    total = gain.sum()
    opened = cost_alone < 0
    # A variant that is open anyway changes nothing; any other adds its own cost.
    cost_if_open = total - gain + cost_alone
    return OpenedVariants(total, cost_if_open, opened & ~needs_no_mass, opened & needs_no_mass)


@dataclass(frozen=True, slots=True)
class _SubtreeCosts:
    """Least costs within the subtrees of a forest.

    - ``if_open``: one a variant; of its subtree, if the variant is open.
    - ``of_children``: one a variant, and last the roots; the sum over its children's subtrees.
    - ``of_one_child``: likewise; the least over its children of ``if_open``, that is the least
      cost with at least one child open; the largest number where there is no child.
    """

    if_open: list[Any]
    of_children: list[Any]
    of_one_child: list[Any]


def _choose_on_prefix_forest(
    parent: Ints, cost_alone: NDArray[Any], cost_extended: NDArray[Any]
) -> OpenedVariants:
    """The cheapest choice on a forest whose parents precede their children.

    ``cost_alone``: of a variant without an open extension; ``cost_extended``: of one with.
    """
    costs = _cost_subtrees(parent, cost_alone, cost_extended)
    count = len(parent)
    total = costs.of_children[-1]
    outside = [cost_alone.dtype.type(0)] * count
    cost_if_open = np.empty(count, cost_alone.dtype)
    is_open = np.zeros(count, bool)
    with_mass = np.zeros(count, bool)
    without_mass = np.zeros(count, bool)
    for row in range(count):
        above = parent[row]
        best = costs.if_open[row]
        if above < 0:
            with_siblings = total
            may_open = True
        else:
            # A child is open only below a parent that is open and leaves the mass to it.
            with_siblings = outside[above] + cost_extended[above] + costs.of_children[above]
            may_open = bool(without_mass[above])
        # The best of everything else: without what this subtree adds.
        outside[row] = with_siblings - min(best, 0)
        cost_if_open[row] = outside[row] + best
        is_open[row] = may_open and (best < 0 or _is_least_child(costs, above, best))
        with_mass[row] = is_open[row] and best == cost_alone[row]
        without_mass[row] = is_open[row] and not with_mass[row]
    return OpenedVariants(total, cost_if_open, with_mass, without_mass)


def _cost_subtrees(
    parent: Ints, cost_alone: NDArray[Any], cost_extended: NDArray[Any]
) -> _SubtreeCosts:
    """The least costs of subtrees, from the leaves upwards."""
    count = len(parent)
    zero = cost_alone.dtype.type(0)
    infeasible = np.iinfo(np.int64).max if cost_alone.dtype.kind == "i" else np.inf
    if_open = [zero] * count
    # The parent of a root is -1, which is the last entry of these lists.
    of_children = [zero] * (count + 1)
    of_one_child = [infeasible] * (count + 1)
    for row in range(count - 1, -1, -1):
        least_child = of_one_child[row]
        if_open[row] = cost_alone[row]
        if least_child != infeasible:
            # All children with a negative cost, or else the cheapest one.
            extensions = of_children[row] if least_child <= 0 else least_child
            if_open[row] = min(cost_alone[row], cost_extended[row] + extensions)
        above = parent[row]
        of_children[above] += min(if_open[row], 0)
        of_one_child[above] = min(of_one_child[above], if_open[row])
    return _SubtreeCosts(if_open, of_children, of_one_child)


def _is_least_child(costs: _SubtreeCosts, parent: int, if_open: Any) -> bool:
    """Whether a child opens although it costs something: the parent needs one, and this is the
    cheapest.
    """
    if parent < 0:
        return False
    least = costs.of_one_child[parent]
    return bool(least >= 0 and if_open == least)


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


@dataclass(frozen=True, slots=True)
class _CandidatePool:
    """For each variant the cheapest others at some prices.

    ``sources``: int64, ``move_cost``, ``mass``: float64; all of shape (variants, pool).
    """

    sources: Ints
    move_cost: Floats
    mass: Floats

    @classmethod
    def at_prices(
        cls,
        problem: KAnonymityProblem,
        constraints: CoverConstraints,
        assignment_duals: Floats,
        size: int,
    ) -> "_CandidatePool":
        """The ``size`` sources of least reduced cost a unit of mass, for each target."""
        placed = np.flatnonzero(constraints.must_be_placed)
        count = len(problem.texts)
        size = min(size, len(placed))
        sources = np.empty((count, size), np.int64)
        move_cost = np.empty((count, size))
        cases = problem.cases[placed].astype(np.float64)
        mass = np.maximum(problem.mass[placed], _SMALLEST_MASS)
        rows_at_once = max(1, CELLS_AT_ONCE // max(1, len(placed)))
        for first in range(0, count, rows_at_once):
            chunk = slice(first, first + rows_at_once)
            cost = problem.distances.matrix[chunk][:, placed] * cases
            per_mass = (cost - assignment_duals[placed]) / mass
            nearest = np.argpartition(per_mass, size - 1, axis=1)[:, :size]
            sources[chunk] = placed[nearest]
            move_cost[chunk] = np.take_along_axis(cost, nearest, axis=1)
        return cls(sources, move_cost, problem.mass[sources].astype(np.float64))


@dataclass(frozen=True, slots=True)
class _PoolRelaxation:
    """The relaxed problem over a pool, solved at some assignment duals.

    ``bound``: its value, of the pool alone; ``mass_duals``: float64, shape (variants,), the best
    ones; ``times_placed``: float64, shape (variants,), how often each variant is placed.
    """

    bound: float
    mass_duals: Floats
    times_placed: Floats


@dataclass(frozen=True, slots=True)
class _FractionalCover:
    """How each target reaches mass k most cheaply, cases taken in fractions.

    - ``order``: int64, shape (variants, few); positions in the pool, cheapest a unit of mass first.
    - ``mass``, ``mass_before``: float64, the same shape; of each of them, and of those before it.
    - ``mass_duals``: float64, shape (variants,); what the last unit of mass costs, at least 0.
    """

    order: Ints
    mass: Floats
    mass_before: Floats
    mass_duals: Floats


def _cover_fractionally(
    k: int, constraints: CoverConstraints, pool: _CandidatePool, reduced: Floats
) -> _FractionalCover:
    """Fill every target up to mass k, as the linear knapsack is filled: by cost a unit of mass.

    The dual of that knapsack's constraint is the price of its last item.
    """
    # What has no mass fills nothing: first where it is a gain by itself, else last.
    without_mass = np.where(reduced < 0, -np.inf, np.inf)
    per_mass = reduced / np.maximum(pool.mass, _SMALLEST_MASS)
    per_mass = np.where(pool.mass > 0, per_mass, without_mass)
    # Positive masses are at least 1: k candidates hold mass k, but for those without mass.
    order = _cheapest_first(per_mass, min(k, reduced.shape[1]))
    mass = np.take_along_axis(pool.mass, order, 1)
    mass_before = np.cumsum(mass, axis=1) - mass
    # The last item is the first with which the mass reaches k.
    too_few = (mass_before + mass < k).sum(axis=1)
    last = np.minimum(too_few, order.shape[1] - 1)
    position_of_last = np.take_along_axis(order, last[:, None], 1)
    price_of_last = np.take_along_axis(per_mass, position_of_last, 1)[:, 0]
    no_price = constraints.needs_no_mass | ~np.isfinite(price_of_last)
    mass_duals = np.where(no_price, 0.0, np.maximum(price_of_last, 0.0))
    return _FractionalCover(order, mass, mass_before, mass_duals)


def _cheapest_first(per_mass: Floats, few: int) -> Ints:
    """The positions of the ``few`` least entries of each row, ascending by entry."""
    if few == per_mass.shape[1]:
        return np.argsort(per_mass, axis=1)
    # A partition, and a sort of the few only: faster than sorting whole rows.
    positions = np.argpartition(per_mass, few - 1, axis=1)[:, :few]
    ascending = np.argsort(np.take_along_axis(per_mass, positions, 1), axis=1)
    return np.take_along_axis(positions, ascending, 1)


def _solve_relaxation(
    problem: KAnonymityProblem,
    constraints: CoverConstraints,
    pool: _CandidatePool,
    assignment_duals: Floats,
) -> _PoolRelaxation:
    """The relaxed problem over ``pool``, at these assignment duals and the best mass duals."""
    reduced = pool.move_cost - assignment_duals[pool.sources]
    cover = _cover_fractionally(problem.k, constraints, pool, reduced)
    with_mass_duals = reduced - cover.mass_duals[:, None] * pool.mass
    cost_with_mass = problem.k * cover.mass_duals + np.minimum(with_mass_duals, 0).sum(axis=1)
    cost_without_mass = np.minimum(reduced, 0).sum(axis=1)
    chosen = choose_open_variants(constraints, cost_with_mass, cost_without_mass)
    times_placed = _count_placements(problem, pool, reduced, cover, chosen)
    bound = float(assignment_duals.sum() + chosen.total)
    return _PoolRelaxation(bound, cover.mass_duals, times_placed)


def _count_placements(
    problem: KAnonymityProblem,
    pool: _CandidatePool,
    reduced: Floats,
    cover: _FractionalCover,
    chosen: OpenedVariants,
) -> Floats:
    """How often the relaxed answer places each variant: float64, shape (variants,)."""
    times_placed = np.zeros(len(problem.texts))
    # Where mass has a price, the knapsack is filled exactly to k; its last item may be in part.
    filled = np.flatnonzero(chosen.open_with_mass & (cover.mass_duals > 0))
    room = np.clip(problem.k - cover.mass_before[filled], 0, cover.mass[filled])
    share = room / np.maximum(cover.mass[filled], _SMALLEST_MASS)
    filling = np.take_along_axis(pool.sources[filled], cover.order[filled], 1)
    np.add.at(times_placed, filling, share)
    # Elsewhere a variant is placed wherever its reduced cost is negative.
    unpriced = chosen.open_with_mass & (cover.mass_duals <= 0)
    unfilled = np.flatnonzero(chosen.open_without_mass | unpriced)
    np.add.at(times_placed, pool.sources[unfilled][reduced[unfilled] < 0], 1.0)
    return times_placed


@dataclass(frozen=True, slots=True)
class _AscentState:
    """Where the ascent is: the best bound (of a pool), its dual prices, and the step, a share of
    the way to the bound that is aimed at.
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
    duals = np.where(constraints.must_be_placed, assignment_duals, 0.0)
    proved = certify_bound(problem, constraints, duals, np.zeros(len(duals)))
    if not constraints.must_be_placed.any():
        return proved
    pool_size, step = max(2 * problem.k, _SMALLEST_POOL), 1.0
    is_rising = True
    for round_ in range(_ROUNDS):
        if step < _SMALLEST_STEP or deadline.is_over or proved.value >= cost:
            break
        pool = _CandidatePool.at_prices(problem, constraints, duals, pool_size)
        begin = _AscentState(-np.inf, duals, duals, step)
        aim = _bound_aimed_at(round_, proved.value, cost, is_rising=is_rising)
        last = _ascend_in_pool(
            problem, constraints, pool, begin, aim, _round_length(round_), deadline
        )
        found = certify_bound(problem, constraints, last.assignment_duals, last.mass_duals)
        has_stood_still = np.array_equal(duals, last.assignment_duals) and last.step == step
        is_settled = pool_size >= len(duals) and has_stood_still
        duals, step = last.assignment_duals, last.step
        is_rising = found.value > 1.02 * proved.value
        if found.value >= proved.value:
            proved = found
            on_bound(proved.value)
        if is_settled:
            break
        # The pool promises more than all pairs keep: it leaves out pairs that matter.
        is_pool_too_small = last.bound > 1.01 * found.value + 1
        if is_pool_too_small and round_ >= _FIRST_ROUNDS:
            pool_size, step = min(2 * pool_size, len(duals)), 1.0
    return proved


def _round_length(round_: int) -> int:
    """How many steps a round has."""
    return _STEPS_OF_FIRST_ROUNDS if round_ < _FIRST_ROUNDS else _STEPS_OF_A_ROUND


def _bound_aimed_at(round_: int, proved: int, cost: int, *, is_rising: bool) -> float:
    """What Polyak's step length takes for the best bound: at first the cost of the known answer,
    then little more than what is proved, since an aim out of reach makes steps too long.
    """
    if round_ <= _FIRST_ROUNDS:
        return cost
    growth = 1.1 if is_rising else 1.03
    return min(cost, growth * proved + 1)


def _ascend_in_pool(
    problem: KAnonymityProblem,
    constraints: CoverConstraints,
    pool: _CandidatePool,
    best: _AscentState,
    aim: float,
    steps: int,
    deadline: Deadline,
) -> _AscentState:
    """Subgradient steps with momentum, from the best prices within one pool to better ones."""
    step, duals = best.step, best.assignment_duals
    idle_steps = 0
    direction = np.zeros(len(duals))
    for _ in range(steps):
        relaxed = _solve_relaxation(problem, constraints, pool, duals)
        is_better = relaxed.bound > best.bound + 1e-5 * abs(best.bound)
        idle_steps = 0 if is_better else idle_steps + 1
        if relaxed.bound > best.bound:
            best = _AscentState(relaxed.bound, duals, relaxed.mass_duals, step)
        slope = np.where(constraints.must_be_placed, 1.0 - relaxed.times_placed, 0.0)
        if not slope.any() or step < _SMALLEST_STEP or deadline.is_over:
            break
        if idle_steps > _PATIENCE:
            # Back to the best prices, with smaller steps and no momentum.
            step *= _SHRINK
            idle_steps, duals, direction = 0, best.assignment_duals, np.zeros(len(duals))
            continue
        direction = slope + _MOMENTUM * direction
        # Polyak's length: how much is missing, over the squared length of the direction.
        missing = max(aim - relaxed.bound, 1.0)
        length = step * missing / float(direction @ direction)
        duals = duals + length * direction
    return _AscentState(best.bound, best.assignment_duals, best.mass_duals, step)

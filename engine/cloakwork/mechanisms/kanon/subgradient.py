"""Dual prices that prove a good lower bound, by subgradient ascent.

The bound of module ``lower_bound`` is a concave function of the dual prices of the assignment
constraint; where it has a kink, one minus how often the relaxed answer places a variant is a
subgradient (Held, Wolfe and Crowder, Validation of subgradient optimization, 1974). For given
assignment duals the best mass dual of each open variant is known in closed form.

Each round works on a pool: for each variant the cheapest others only. After a round the bound is
certified over all pairs. Everything here is floating point; nothing here has to be right for a
certified bound to hold.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.lower_bound import CELLS_AT_ONCE, CertifiedBound, certify_bound
from cloakwork.mechanisms.kanon.open_variants import (
    CoverConstraints,
    OpenedVariants,
    choose_open_variants,
)
from cloakwork.mechanisms.kanon.problem import KAnonymityProblem

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

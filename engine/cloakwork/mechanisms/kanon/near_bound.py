"""A lower bound on what any k-anonymous answer costs, from the pairs of near variants alone.

It is the bound of module ``lower_bound`` (Lagrangian duality), with every distance that is not
known replaced by the least that it can be: d'_ij = d_ij for near pairs, b_i for all others (module
``near_pairs``).
An answer costs no less than it would by d', so what bounds the one bounds the other.

Mass duals are at most T, and the assignment dual of variant i, which has n_i cases and mass w_i, at
most n_i b_i - w_i T. So for pairs that are not near n_i b_i - p_i - w_i t_j is never below 0:
they add nothing to the bound, whose sums are over near pairs alone.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.near_pairs import NearPairs, find_near_pairs, no_near_pairs
from cloakwork.mechanisms.kanon.open_variants import CoverConstraints, choose_open_variants
from cloakwork.mechanisms.kanon.problem import KAnonymityProblem

_GRID: Final = 1 << 10
"""Duals are whole numbers, in 1/1024 edits: sums of them are exact."""
_MULTIPLES: Final = (1.0, 0.5, 2.0, 4.0)
"""What T is tried at, in multiples of the largest b over k: at 1, a class without near variants
neither gains nor costs anything.
"""
_STEPS: Final = 40
_FIRST_STEP: Final = 0.25


@dataclass(frozen=True, slots=True)
class NearBound:
    """``value``: no answer costs less, in edits. ``pairs``: near pairs that it was proved from, all
    those less than ``beyond`` edits apart (of some variants perhaps fewer).
    """

    value: int
    pairs: int
    beyond: int


def certify_near_bound(
    problem: KAnonymityProblem, seconds: float, deadline: Deadline, *, split_cases: bool
) -> NearBound:
    """The best bound that some choices of T and some subgradient steps find, computed in whole
    numbers, from ``seconds`` worth of work, or less where ``deadline`` is over.

    Whatever the time, it is at least what follows from this alone: different variants are an edit
    apart or more, and no more than one case in k stays on a variant of fewer than k.
    """
    constraints = CoverConstraints.of(problem, split_cases=split_cases)
    nothing_near = no_near_pairs(problem)
    value = _NearRelaxation(problem, constraints, nothing_near).best_bound(1.0, 1, deadline)
    near = find_near_pairs(problem, seconds, deadline)
    relaxation = _NearRelaxation(problem, constraints, near)
    for multiple in _MULTIPLES:
        if deadline.is_over:
            break
        value = max(value, relaxation.best_bound(multiple, _STEPS, deadline))
    return NearBound(value, len(near.source) // 2, int(near.beyond.max(initial=1)))


class _NearRelaxation:
    """The relaxed problem over near pairs, each variant being near to itself."""

    def __init__(
        self, problem: KAnonymityProblem, constraints: CoverConstraints, near: NearPairs
    ) -> None:
        self.problem, self.constraints, self.near = problem, constraints, near
        every = np.arange(len(problem.texts))
        source = np.concatenate([near.source, every])
        target = np.concatenate([near.target, every])
        distance = np.concatenate([near.distance, np.zeros_like(every)])
        # What stays where it is anyway has no price.
        placed = constraints.must_be_placed[source]
        self.source, self.target = source[placed], target[placed]
        self.move_cost = distance[placed] * problem.cases[self.source] * _GRID
        self.mass = problem.mass[self.source]

    def best_bound(self, multiple: float, steps: int, deadline: Deadline) -> int:
        """The best bound of so many steps with T at that multiple, in edits."""
        problem = self.problem
        beyond = problem.cases * self.near.beyond * _GRID
        requested = int(multiple * int(self.near.beyond.max(initial=1)) * _GRID / problem.k)
        most_mass_dual = self._within_cost(requested, beyond)
        most = beyond - problem.mass * most_mass_dual
        most = np.where(self.constraints.must_be_placed, most, 0)
        duals, best = most, 0
        for step in range(steps):
            value, times_placed = self._evaluate(duals, most_mass_dual)
            best = max(best, value)
            slope = 1 - times_placed
            if deadline.is_over or not slope.any():
                break
            stride = _FIRST_STEP * _GRID / (1 + step)
            change = stride * np.clip(slope, -4, 1) * problem.cases
            duals = np.clip(duals + change.astype(np.int64), 0, most)
        return best

    def _within_cost(self, mass_dual: int, beyond: Ints) -> int:
        """``mass_dual``, or the most for which n_i b_i - w_i T is nowhere below 0."""
        counts = self.constraints.must_be_placed & (self.problem.mass > 0)
        least = beyond[counts] // self.problem.mass[counts]
        return min(mass_dual, int(least.min(initial=mass_dual)))

    def _evaluate(self, duals: Ints, most_mass_dual: int) -> tuple[int, Ints]:
        """The bound at these assignment duals, in edits, and how often each variant is placed."""
        problem, count = self.problem, len(self.problem.texts)
        reduced = self.move_cost - duals[self.source]
        without_mass = self._sums(np.minimum(reduced, 0))
        mass_dual = np.zeros(count, np.int64)
        with_mass = without_mass.copy()
        for quarter in (1, 2, 3, 4):
            price = quarter * most_mass_dual // 4
            cost = problem.k * price + self._sums(np.minimum(reduced - price * self.mass, 0))
            mass_dual = np.where(cost > with_mass, price, mass_dual)
            with_mass = np.maximum(with_mass, cost)
        chosen = choose_open_variants(self.constraints, with_mass, without_mass)
        value = int(duals.sum()) + int(chosen.total)
        price = np.where(chosen.open_with_mass, mass_dual, 0)[self.target]
        is_open = (chosen.open_with_mass | chosen.open_without_mass)[self.target]
        is_placed = is_open & (reduced - price * self.mass < 0)
        times = np.bincount(self.source[is_placed], minlength=count).astype(np.int64)
        # Rounded up, since answers cost whole edits.
        return -(-value // _GRID), times

    def _sums(self, amount: Ints) -> Ints:
        """Sums over the sources of each target: int64, exact."""
        sums = np.zeros(len(self.problem.texts), np.int64)
        np.add.at(sums, self.target, amount)
        return sums

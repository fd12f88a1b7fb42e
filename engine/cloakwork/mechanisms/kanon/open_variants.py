"""Which variants a relaxed answer opens, when each open variant has a cost of its own.

Over variants every open variant must hold mass k itself. Over prefixes only those must that no
other open variant begins with. So an open variant has two costs: one if it must hold mass k, and
one, never positive, if an extension of it holds the mass. The cheapest choice is then found by
dynamic programming on the forest in which a variant's parent is its longest prefix.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloakwork.base.arrays import Bools, Ints
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

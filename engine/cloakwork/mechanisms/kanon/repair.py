"""The nearest k-anonymous answer to any wish: classes that fall short are filled or closed."""

import numpy as np

from cloakwork.base.arrays import Bools, Ints
from cloakwork.mechanisms.kanon.whole_variants import MoveCosts, with_moved_to_nearest


def repair_to_k_anonymous(costs: MoveCosts, classes: Bools, target: Ints, nearest: Ints) -> Ints:
    """A k-anonymous answer near ``target`` whose classes are among ``classes``, of which one at
    least must be true: int64, shape (variants,).

    ``nearest``: for each variant the nearest of ``classes``, or of more than these.

    Variants whose target is no class go to the nearest class. A class that falls short is then
    filled or closed, whichever costs less: filled with what adds the missing mass most cheaply and
    is not needed where it is, closed by moving each member to its next class. This ends, for a
    class once closed stays closed, and one that was filled falls short again only when its last
    extension was closed. At last, whatever can move nearer without harm does.
    """
    classes = classes.copy()
    target = with_moved_to_nearest(costs, classes, target, ~classes[target])
    while True:
        classes &= costs.open_classes(target)
        held, required = costs.held_mass(target), costs.required_mass_beside(classes)
        deficient = np.flatnonzero(classes & (held < required))
        if not len(deficient):
            return _move_to_nearest_where_possible(costs, classes, target, nearest)
        # The smallest first: its repair may fill others.
        smallest = int(deficient[np.argmin(held[deficient])])
        repairs = (
            _with_class_filled(costs, target, held - required, smallest),
            _with_class_closed(costs, classes, target, smallest),
        )
        possible = [repaired for repaired in repairs if repaired is not None]
        target = min(possible, key=costs.total_cost)


def _with_class_closed(costs: MoveCosts, classes: Bools, target: Ints, closing: int) -> Ints | None:
    """``target`` without the class ``closing``; None when there is no other."""
    others = classes.copy()
    others[closing] = False
    if not others.any():
        return None
    return with_moved_to_nearest(costs, others, target, target == closing)


def _with_class_filled(
    costs: MoveCosts, target: Ints, surplus_mass: Ints, deficient: int
) -> Ints | None:
    """``target`` with variants moved to ``deficient`` until it holds enough; None when the others
    cannot spare it.

    ``surplus_mass``: int64, shape (variants,); the mass that each class can lose, negative where
    it lacks some.
    """
    target, surplus, mass = target.copy(), surplus_mass.copy(), costs.mass
    cost_now = costs.move_cost[np.arange(len(target)), target]
    extra_cost = costs.move_cost[:, deficient] - cost_now
    while surplus[deficient] < 0:
        missing = -int(surplus[deficient])
        # Only what its class can spare; of mass 0 nothing would help.
        is_movable = (mass > 0) & (mass <= surplus[target]) & (target != deficient)
        if not is_movable.any():
            return None
        # Mass beyond what is missing is worth nothing.
        cost_per_mass = np.where(is_movable, extra_cost / np.clip(mass, 1, missing), np.inf)
        moved = int(np.argmin(cost_per_mass))
        surplus[target[moved]] -= mass[moved]
        surplus[deficient] += mass[moved]
        target[moved] = deficient
    return target


def _move_to_nearest_where_possible(
    costs: MoveCosts, classes: Bools, target: Ints, nearest: Ints
) -> Ints:
    """``target``, with variants moved to their nearest class wherever the class that they leave can
    spare them; those that save most come first.
    """
    rows = np.arange(len(target))
    nearest = with_moved_to_nearest(costs, classes, nearest, ~classes[nearest])
    saving = costs.move_cost[rows, target] - costs.move_cost[rows, nearest]
    if not (saving > 0).any():
        return target
    target = target.copy()
    surplus = costs.held_mass(target) - costs.required_mass_beside(classes)
    most_saving_first = np.argsort(-saving, kind="stable")
    savers = int((saving > 0).sum())
    for moved in most_saving_first[:savers]:
        if costs.mass[moved] <= surplus[target[moved]]:
            surplus[target[moved]] -= costs.mass[moved]
            surplus[nearest[moved]] += costs.mass[moved]
            target[moved] = nearest[moved]
    return target

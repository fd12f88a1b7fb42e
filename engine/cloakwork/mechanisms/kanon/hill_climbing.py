"""Local improvement of an answer that moves whole variants: one class opened, closed or replaced
at a time.
"""

from collections import defaultdict
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.repair import repair_to_k_anonymous
from cloakwork.mechanisms.kanon.whole_variants import (
    MoveCosts,
    RateLimitedProgress,
    nearest_classes,
    with_moved_to_nearest,
)

CLOSED_AT_ONCE: Final = 2
"""How many neighbouring classes a perturbation closes."""
VARIANTS_TRIED_NEARBY: Final = 20
"""How many variants around them are then tried."""

_NO_LIMIT: Final = Deadline()

TriedWithoutGain = defaultdict[bytes, set[int]]
"""By answer (its digest) the variants that offered nothing there; they are not tried again."""


def improve_by_hill_climbing(
    costs: MoveCosts, target: Ints, deadline: Deadline = _NO_LIMIT
) -> Ints:
    """An answer that costs no more than the k-anonymous answer ``target``: int64, shape
    (variants,).

    First variant after variant is tried: a class is closed; any other variant is made a class, or
    replaces the class that it is in. What costs less is kept, until no variant offers anything.
    Then each class of less than 2 k in turn is closed together with the class nearest to it, and
    the variants around are tried in the same way; what costs less is kept. Ends early when
    ``deadline`` is over. Deterministic otherwise.
    """
    progress = RateLimitedProgress()
    without_gain: TriedWithoutGain = defaultdict(set)
    target = _climb_hill(costs, target, np.arange(len(target)), without_gain, deadline)
    for variant in range(len(target)):
        if deadline.is_over:
            break
        progress.report(f"improving an answer of {costs.total_cost(target):,} edits")
        perturbed = _with_neighbours_closed(costs, target, variant)
        if perturbed is None:
            continue
        nearby = np.argsort(costs.distance[variant], kind="stable")[:VARIANTS_TRIED_NEARBY]
        found = _climb_hill(costs, perturbed, nearby, without_gain, deadline)
        target = min(target, found, key=costs.total_cost)
    return target


def climb_hill(costs: MoveCosts, target: Ints, deadline: Deadline) -> Ints:
    """The first part of ``improve_by_hill_climbing``, which gains most: variant after variant is
    tried until none offers anything.
    """
    return _climb_hill(costs, target, np.arange(len(target)), defaultdict(set), deadline)


def _with_neighbours_closed(costs: MoveCosts, target: Ints, variant: int) -> Ints | None:
    """``target`` with the class ``variant`` and the class nearest to it closed; None where
    ``variant`` is no class of less than 2 k, or where no class would be left.
    """
    classes = costs.open_classes(target)
    opened = np.flatnonzero(classes)
    is_small = classes[variant] and costs.held_mass(target)[variant] < 2 * costs.k
    if not is_small or len(opened) <= CLOSED_AT_ONCE:
        return None
    by_distance = np.argsort(costs.distance[variant, opened], kind="stable")
    fewer = classes.copy()
    fewer[opened[by_distance[:CLOSED_AT_ONCE]]] = False
    return repair_to_k_anonymous(costs, fewer, target, nearest_classes(costs, classes))


def _climb_hill(
    costs: MoveCosts, target: Ints, order: Ints, without_gain: TriedWithoutGain, deadline: Deadline
) -> Ints:
    """``target``, improved by trials of the variants ``order``, in turn, until none of them offers
    anything.
    """
    progress = RateLimitedProgress()
    least_cost = costs.total_cost(target)
    nearest = nearest_classes(costs, costs.open_classes(target))
    hopeless = without_gain[_digest_of_targets(target)]
    turn, trials_since_gain = 0, 0
    while trials_since_gain < len(order) and not deadline.is_over:
        variant = int(order[turn])
        trials_since_gain += 1
        turn = (turn + 1) % len(order)
        if variant in hopeless:
            continue
        for answer in _neighbouring_answers(costs, target, nearest, variant, least_cost):
            cost = costs.total_cost(answer)
            if cost < least_cost:
                target, least_cost, trials_since_gain = answer, cost, 0
        if trials_since_gain:
            # Nothing of this variant's cost less: a later visit of the same answer skips it.
            hopeless.add(variant)
        else:
            nearest = nearest_classes(costs, costs.open_classes(target))
            hopeless = without_gain[_digest_of_targets(target)]
        progress.report(f"improving an answer of {least_cost:,} edits")
    return target


def _digest_of_targets(target: Ints) -> bytes:
    """A key for an answer that takes 16 bytes, however many variants there are."""
    return blake2b(target.tobytes(), digest_size=16).digest()


def _neighbouring_answers(
    costs: MoveCosts, target: Ints, nearest: Ints, variant: int, least_cost: int
) -> Iterator[Ints]:
    """k-anonymous answers near ``target`` that differ in whether ``variant`` is a class.

    ``nearest``: for each variant the nearest of the classes of ``target``. Left out is what cannot
    cost less than ``least_cost``.
    """
    if costs.open_classes(target)[variant]:
        yield from _answers_without(costs, target, nearest, variant, least_cost)
    else:
        yield from _answers_with(costs, target, nearest, variant)


def _answers_without(
    costs: MoveCosts, target: Ints, nearest: Ints, variant: int, least_cost: int
) -> Iterator[Ints]:
    """The answer without the class ``variant``, unless even the nearest of the other classes for
    every variant, which no answer without it undercuts, cost too much.
    """
    classes = costs.open_classes(target)
    classes[variant] = False
    if not classes.any():
        return
    at_best = with_moved_to_nearest(costs, classes, nearest, nearest == variant)
    if costs.total_cost(at_best) < least_cost:
        moved = with_moved_to_nearest(costs, classes, target, target == variant)
        yield repair_to_k_anonymous(costs, classes, moved, nearest)


def _answers_with(costs: MoveCosts, target: Ints, nearest: Ints, variant: int) -> Iterator[Ints]:
    """Answers in which ``variant`` is a class, beside the others or instead of the class that it is
    in.
    """
    rows = np.arange(len(target))
    saving = costs.move_cost[rows, target] - costs.move_cost[:, variant]
    gains = saving > 0
    if not gains.any():
        return
    # What is nearest, were the variant a class beside the others.
    is_nearer = costs.distance[variant] < costs.distance[rows, nearest]
    nearest = np.where(is_nearer, variant, nearest)
    classes = costs.open_classes(target)
    classes[variant] = True
    if _may_improve(costs, saving, int(costs.required_mass_beside(classes)[variant])):
        yield repair_to_k_anonymous(costs, classes, np.where(gains, variant, target), nearest)
    # Instead of its class: that class's members come along, and whatever else gains.
    joins = (target == target[variant]) | gains
    if int(saving[joins].sum()) > 0:
        classes[target[variant]] = False
        yield repair_to_k_anonymous(costs, classes, np.where(joins, variant, target), nearest)


def _may_improve(costs: MoveCosts, saving: Ints, required_mass: int) -> bool:
    """Whether a class made of the variants that save most (``saving``, edits) saves anything, if
    all were free to go.

    The mass that is missing then is filled in fractions, the least loss a unit of mass first: no
    whole variants lose less.
    """
    gains = saving > 0
    missing = required_mass - int(costs.mass[gains].sum())
    total = int(saving[gains].sum())
    if missing <= 0 or total <= 0:
        return total > 0
    others = ~gains & (costs.mass > 0)
    mass = costs.mass[others]
    saving_per_mass = saving[others] / mass
    order = np.argsort(-saving_per_mass)
    mass_before = np.cumsum(mass[order]) - mass[order]
    taken = np.clip(missing - mass_before, 0, mass[order])
    return total + float(saving_per_mass[order] @ taken) > 0

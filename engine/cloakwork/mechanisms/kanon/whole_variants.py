"""Moves of whole variants: what they cost, when the result is k-anonymous, how it becomes so, and
how it is improved a class at a time.

A *class* is a variant that holds cases. The texts are sorted, which makes both scopes one rule: the
variants that begin with variant j are the rows ``j : prefix_end[j]``, and an answer is k-anonymous
if and only if for every class j

    mass held by rows j : prefix_end[j]  >=  required_mass[j].

Over variants ``prefix_end[j]`` is j + 1 and ``required_mass`` is k. Over prefixes ``prefix_end``
skips j's extensions, and ``required_mass`` is k, but 0 for the variant without events, which has no
prefix. (A node of the prefix tree that lies on the way to j holds at least what j's own node holds,
so no other node needs to be checked.) A class that has an extension which is a class too satisfies
the rule when its extensions do: only classes without one can fall short.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloakwork.base.arrays import Bools, Ints, offsets_of
from cloakwork.base.errors import MechanismError
from cloakwork.base.frozen import frozen
from cloakwork.base.progress import Pace
from cloakwork.log.variants import MOST_EVENTS
from cloakwork.mechanisms.kanon.deadline import NO_LIMIT, Deadline
from cloakwork.mechanisms.kanon.problem import KAnonymityProblem

MOST_VARIANTS: Final = 6000
"""For each pair of variants the greedy search takes 18 bytes, A* some 50."""
_LAST_CHARACTER: Final = chr(0x10FFFF)
_CLOSED_AT_ONCE: Final = 2
"""How many neighbouring classes a perturbation closes."""
_VARIANTS_TRIED_NEARBY: Final = 20
"""How many variants around them are then tried."""

_TriedWithoutGain = defaultdict[bytes, set[int]]
"""By answer (its digest) the variants that offered nothing there; they are not tried again."""


@frozen
class MoveCosts:
    """A problem in the form in which moves of whole variants are compared.

    - ``distance``: int16, shape (variants, variants); single edits.
    - ``move_cost``: int64, the same shape; ``move_cost[i, j]`` is what all cases of i becoming j
      costs.
    - ``cases``, ``mass``: int64, shape (variants,); how many cases i has, and what they add to a
      class.
    - ``prefix_end``, ``required_mass``: int64, shape (variants,); as in the module's docstring.
    """

    k: int
    distance: NDArray[np.int16]
    move_cost: Ints
    cases: Ints
    mass: Ints
    prefix_end: Ints
    required_mass: Ints

    @classmethod
    def of(cls, problem: KAnonymityProblem, mechanism: str) -> "MoveCosts":
        """The costs of ``problem``. Raises ``MechanismError`` (in the name of ``mechanism``) for
        more than 6,000 variants, or for a case so long that distances might not fit the matrix.
        """
        variants = len(problem.texts)
        if variants > MOST_VARIANTS:
            raise MechanismError(
                mechanism,
                f"it compares all pairs of variants, of which the log has {variants:,}; "
                f"it takes {MOST_VARIANTS:,} at most "
                "(kanon/optimal and kanon/pretsa take any number)",
            )
        if max(map(len, problem.texts), default=0) > MOST_EVENTS:
            raise MechanismError(
                mechanism,
                f"it takes cases of {MOST_EVENTS:,} events at most, and the log holds a longer one "
                "(kanon/optimal and kanon/pretsa take any length)",
            )
        distance = problem.distances.matrix
        required_mass = np.full(variants, problem.k, np.int64)
        prefix_end = np.arange(1, variants + 1)
        if problem.scope == "prefixes":
            required_mass[[row for row, text in enumerate(problem.texts) if not text]] = 0
            # No text that begins with this one sorts after this one and the last character.
            ends = [bisect_right(problem.texts, text + _LAST_CHARACTER) for text in problem.texts]
            prefix_end = np.array(ends, np.int64)
        return cls(
            problem.k,
            distance,
            problem.cases[:, None] * distance,
            problem.cases,
            problem.mass,
            prefix_end,
            required_mass,
        )

    def held_mass(self, target: Ints) -> Ints:
        """The mass on each variant when i is on ``target[i]``: int64, shape (variants,)."""
        return np.bincount(target, self.mass, len(self.mass)).astype(np.int64)

    def sum_over_extensions(self, amount: Ints) -> Ints:
        """Sums of ``amount`` over the rows j : prefix_end[j]: int64, shape (variants,)."""
        # Extensions are consecutive rows: a sum over them is a difference of running sums.
        sums = offsets_of(amount)
        return np.asarray(sums[self.prefix_end] - sums[:-1], np.int64)

    def required_mass_beside(self, classes: Bools) -> Ints:
        """What each variant must hold itself if it is a class beside ``classes``: int64, shape
        (variants,); ``required_mass``, or 0 where an extension of it is a class.
        """
        # Each variant is among the rows that begin with it, so it is taken off again.
        extensions = self.sum_over_extensions(classes.astype(np.int64)) - classes
        return np.where(extensions > 0, 0, self.required_mass)

    def of_each(self, target: Ints) -> Ints:
        """The edits of the cases of each i when it becomes ``target[i]``: int64."""
        return self.move_cost[np.arange(len(target)), target]

    def total_cost(self, target: Ints) -> int:
        """The edits of all cases when i becomes ``target[i]``."""
        return int(self.of_each(target).sum())

    def open_classes(self, target: Ints) -> Bools:
        """Which variants hold cases: bool, shape (variants,)."""
        return np.bincount(target, minlength=len(target)) > 0


def nearest_classes(costs: MoveCosts, classes: Bools) -> Ints:
    """For each variant the nearest of ``classes`` (ties: the first): int64, shape (variants,)."""
    nowhere = np.zeros(len(classes), np.int64)
    everyone = np.ones(len(classes), np.bool_)
    return with_moved_to_nearest(costs, classes, nowhere, everyone)


def with_moved_to_nearest(
    costs: MoveCosts,
    classes: Bools,
    target: Ints,
    moving: Bools,
) -> Ints:
    """``target``, with what is ``moving`` on its nearest class (ties: the first)."""
    moved = target.copy()
    movers = moving.nonzero()[0]
    if len(movers):
        opened = classes.nonzero()[0]
        nearest = costs.distance[opened[:, None], movers].argmin(axis=0)
        moved[movers] = opened[nearest]
    return moved


def repair_to_k_anonymous(
    costs: MoveCosts,
    classes: Bools,
    target: Ints,
    nearest: Ints,
) -> Ints:
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
    target = with_moved_to_nearest(
        costs,
        classes,
        target,
        ~classes[target],
    )
    while True:
        classes &= costs.open_classes(target)
        held = costs.held_mass(target)
        required = costs.required_mass_beside(classes)
        deficient = np.flatnonzero(classes & (held < required))
        if not len(deficient):
            return _moved_to_nearest_where_possible(
                costs,
                classes,
                target,
                nearest,
            )
        # The smallest first: its repair may fill others.
        smallest = int(deficient[np.argmin(held[deficient])])
        repairs = []
        filled = _with_class_filled(
            costs,
            target,
            held - required,
            smallest,
        )
        if filled is not None:
            repairs.append(filled)
        others = classes.copy()
        others[smallest] = False
        if others.any():
            repairs.append(
                with_moved_to_nearest(
                    costs,
                    others,
                    target,
                    target == smallest,
                )
            )
        target = min(repairs, key=costs.total_cost)


def _with_class_filled(
    costs: MoveCosts,
    target: Ints,
    surplus: Ints,
    deficient: int,
) -> Ints | None:
    """``target`` with variants moved to ``deficient`` until it holds enough; None when the others
    cannot spare it.

    ``surplus``: int64, shape (variants,); the mass that each class can lose, negative where it
    lacks some.
    """
    target = target.copy()
    surplus = surplus.copy()
    mass = costs.mass
    extra_cost = costs.move_cost[:, deficient] - costs.of_each(target)
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


def _moved_to_nearest_where_possible(
    costs: MoveCosts,
    classes: Bools,
    target: Ints,
    nearest: Ints,
) -> Ints:
    """``target``, with variants moved to their nearest class wherever the class that they leave can
    spare them; those that save most come first.
    """
    nearest = with_moved_to_nearest(
        costs,
        classes,
        nearest,
        ~classes[nearest],
    )
    saving = costs.of_each(target) - costs.of_each(nearest)
    if saving.max() <= 0:
        return target
    target = target.copy()
    surplus = costs.held_mass(target) - costs.required_mass_beside(classes)
    move_savers(target, nearest, saving, costs.mass, surplus)
    return target


def move_savers(
    target: Ints,
    nearest: Ints,
    saving: Ints,
    mass: Ints,
    surplus: Ints,
) -> None:
    """Move ``target`` to ``nearest``, in place, where that saves and the class left can spare the
    mass (``surplus``, which is used up); those that save most come first.
    """
    savers = np.flatnonzero(saving > 0)
    for moved in savers[np.argsort(-saving[savers], kind="stable")]:
        if mass[moved] <= surplus[target[moved]]:
            surplus[target[moved]] -= mass[moved]
            surplus[nearest[moved]] += mass[moved]
            target[moved] = nearest[moved]


def improve_by_hill_climbing(
    costs: MoveCosts,
    target: Ints,
    deadline: Deadline = NO_LIMIT,
) -> Ints:
    """An answer that costs no more than the k-anonymous answer ``target``: int64, shape
    (variants,).

    First variant after variant is tried: a class is closed; any other variant is made a class, or
    replaces the class that it is in. What costs less is kept, until no variant offers anything.
    Then each class of less than 2 k in turn is closed together with the class nearest to it, and
    the variants around are tried in the same way; what costs less is kept. Ends early when
    ``deadline`` is over. Deterministic otherwise.
    """
    progress = Pace()
    without_gain: _TriedWithoutGain = defaultdict(set)
    target = climb_hill(
        costs,
        target,
        deadline,
        without_gain=without_gain,
    )
    for variant in range(len(target)):
        if deadline.is_over:
            break
        progress.report(f"improving an answer of {costs.total_cost(target):,} edits")
        classes = costs.open_classes(target)
        opened = np.flatnonzero(classes)
        is_small = classes[variant] and costs.held_mass(target)[variant] < 2 * costs.k
        if not is_small or len(opened) <= _CLOSED_AT_ONCE:
            continue
        by_distance = np.argsort(costs.distance[variant, opened], kind="stable")
        fewer = classes.copy()
        fewer[opened[by_distance[:_CLOSED_AT_ONCE]]] = False
        nearest = nearest_classes(costs, classes)
        perturbed = repair_to_k_anonymous(
            costs,
            fewer,
            target,
            nearest,
        )
        nearby = np.argsort(costs.distance[variant], kind="stable")[:_VARIANTS_TRIED_NEARBY]
        found = climb_hill(
            costs,
            perturbed,
            deadline,
            nearby,
            without_gain,
        )
        target = min(target, found, key=costs.total_cost)
    return target


def climb_hill(
    costs: MoveCosts,
    target: Ints,
    deadline: Deadline,
    order: Ints | None = None,
    without_gain: _TriedWithoutGain | None = None,
) -> Ints:
    """``target``, improved by trials of the variants ``order`` (all, if not given), in turn, until
    none of them offers anything. ``without_gain``: what earlier climbs have tried.
    """
    order = np.arange(len(target)) if order is None else order
    without_gain = defaultdict(set) if without_gain is None else without_gain
    progress = Pace()
    least_cost = costs.total_cost(target)
    turn = 0
    trials_since_gain = 0
    has_changed = True
    while trials_since_gain < len(order) and not deadline.is_over:
        if has_changed:
            nearest = nearest_classes(costs, costs.open_classes(target))
            # A key that takes 16 bytes, however many variants there are.
            hopeless = without_gain[blake2b(target.tobytes(), digest_size=16).digest()]
            has_changed = False
        variant = int(order[turn])
        turn = (turn + 1) % len(order)
        trials_since_gain += 1
        if variant in hopeless:
            continue
        for answer in _neighbouring_answers(
            costs,
            target,
            nearest,
            variant,
            least_cost,
        ):
            cost = costs.total_cost(answer)
            if cost < least_cost:
                target = answer
                least_cost = cost
                has_changed = True
        if has_changed:
            trials_since_gain = 0
        else:
            # Nothing of this variant's cost less: a later visit of the same answer skips it.
            hopeless.add(variant)
        progress.report(f"improving an answer of {least_cost:,} edits")
    return target


def _neighbouring_answers(
    costs: MoveCosts,
    target: Ints,
    nearest: Ints,
    variant: int,
    least_cost: int,
) -> Iterator[Ints]:
    """k-anonymous answers near ``target`` that differ in whether ``variant`` is a class.

    ``nearest``: for each variant the nearest of the classes of ``target``. Left out is what cannot
    cost less than ``least_cost``.
    """
    classes = costs.open_classes(target)
    if classes[variant]:
        classes[variant] = False
        if not classes.any():
            return
        # No answer without this class undercuts the nearest of the others for every variant.
        at_best = with_moved_to_nearest(
            costs,
            classes,
            nearest,
            nearest == variant,
        )
        if costs.total_cost(at_best) < least_cost:
            moved = with_moved_to_nearest(
                costs,
                classes,
                target,
                target == variant,
            )
            yield repair_to_k_anonymous(
                costs,
                classes,
                moved,
                nearest,
            )
        return
    saving = costs.of_each(target) - costs.move_cost[:, variant]
    gains = saving > 0
    if not gains.any():
        return
    # What is nearest, were the variant a class beside the others.
    rows = np.arange(len(target))
    is_nearer = costs.distance[variant] < costs.distance[rows, nearest]
    nearest = np.where(is_nearer, variant, nearest)
    classes[variant] = True
    if _may_improve(costs, saving, int(costs.required_mass_beside(classes)[variant])):
        gathered = np.where(gains, variant, target)
        yield repair_to_k_anonymous(costs, classes, gathered, nearest)
    # Instead of its class: that class's members come along, and whatever else gains.
    joins = (target == target[variant]) | gains
    if int(saving[joins].sum()) > 0:
        classes[target[variant]] = False
        gathered = np.where(joins, variant, target)
        yield repair_to_k_anonymous(costs, classes, gathered, nearest)


def _may_improve(costs: MoveCosts, saving: Ints, required_mass: int) -> bool:
    """Whether a class made of the variants that save most (``saving``, edits) saves anything, if
    all were free to go.

    The mass that is missing then is filled in fractions, the least loss a unit of mass first: no
    whole variants lose less.
    """
    gains = saving > 0
    missing = required_mass - int(costs.mass[gains].sum())
    total = int(saving[gains].sum())
    if missing <= 0:
        return True
    others = ~gains & (costs.mass > 0)
    mass = costs.mass[others]
    saving_per_mass = saving[others] / mass
    order = np.argsort(-saving_per_mass)
    mass_before = np.cumsum(mass[order]) - mass[order]
    taken = np.clip(missing - mass_before, 0, mass[order])
    return total + float(saving_per_mass[order] @ taken) > 0

"""Moves of whole variants: what they cost, and when the result is k-anonymous.

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
from dataclasses import dataclass
from time import monotonic
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloakwork.base.arrays import Bools, Ints
from cloakwork.base.errors import MechanismError
from cloakwork.base.progress import say
from cloakwork.log.sequences import MOST_EVENTS
from cloakwork.mechanisms.kanon.problem import KAnonymityProblem

MOST_VARIANTS: Final = 6000
"""For each pair of variants the greedy search takes 18 bytes, A* some 50."""
SECONDS_BETWEEN_MESSAGES: Final = 1.0
_LAST_CHARACTER: Final = chr(0x10FFFF)


class RateLimitedProgress:
    """Reports how far long work is, at most once in ``SECONDS_BETWEEN_MESSAGES``."""

    def __init__(self) -> None:
        self.last_report = monotonic()

    def report(self, message: str) -> None:
        """Report ``message``, or pass over it when something was reported just now."""
        if monotonic() - self.last_report > SECONDS_BETWEEN_MESSAGES:
            self.last_report = monotonic()
            say(message)


@dataclass(frozen=True, slots=True)
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
        _require_comparable(problem, mechanism)
        variants = len(problem.texts)
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
        sums = np.concatenate([[0], np.cumsum(amount)])
        return np.asarray(sums[self.prefix_end] - sums[:-1], np.int64)

    def required_mass_beside(self, classes: Bools) -> Ints:
        """What each variant must hold itself if it is a class beside ``classes``: int64, shape
        (variants,); ``required_mass``, or 0 where an extension of it is a class.
        """
        # Each variant is among the rows that begin with it, so it is taken off again.
        extensions = self.sum_over_extensions(classes.astype(np.int64)) - classes
        is_extended = extensions > 0
        return np.where(is_extended, 0, self.required_mass)

    def total_cost(self, target: Ints) -> int:
        """The edits of all cases when i becomes ``target[i]``."""
        return int(self.move_cost[np.arange(len(target)), target].sum())

    def is_k_anonymous(self, target: Ints) -> bool:
        """Whether every class holds enough."""
        held = self.sum_over_extensions(self.held_mass(target))
        return bool((held >= self.required_mass)[self.open_classes(target)].all())

    def open_classes(self, target: Ints) -> Bools:
        """Which variants hold cases: bool, shape (variants,)."""
        return np.bincount(target, minlength=len(target)) > 0


def _require_comparable(problem: KAnonymityProblem, mechanism: str) -> None:
    """Refuse a problem whose matrix of distances would be too large or not fit its type."""
    variants = len(problem.texts)
    if variants > MOST_VARIANTS:
        raise MechanismError(
            mechanism,
            f"it compares all pairs of variants, of which the log has {variants:,}; "
            f"it takes {MOST_VARIANTS:,} at most (kanon/optimal and kanon/pretsa take any number)",
        )
    if max(map(len, problem.texts), default=0) > MOST_EVENTS:
        raise MechanismError(
            mechanism,
            f"it takes cases of {MOST_EVENTS:,} events at most, and the log holds a longer one "
            "(kanon/optimal and kanon/pretsa take any length)",
        )


def nearest_classes(costs: MoveCosts, classes: Bools) -> Ints:
    """For each variant the nearest of ``classes`` (ties: the first): int64, shape (variants,)."""
    opened = np.flatnonzero(classes)
    nearest = np.argmin(costs.distance[opened], axis=0)
    return np.asarray(opened[nearest], np.int64)


def with_moved_to_nearest(costs: MoveCosts, classes: Bools, target: Ints, moving: Bools) -> Ints:
    """``target``, with the variants that are ``moving`` on their nearest classes (ties: the
    first).
    """
    moved = target.copy()
    movers = moving.nonzero()[0]
    if len(movers):
        opened = classes.nonzero()[0]
        nearest = costs.distance[opened[:, None], movers].argmin(axis=0)
        moved[movers] = opened[nearest]
    return moved

"""Moving variants as wholes: what the searches share, and the local improvement with which they
end.

A *class* is a variant that holds cases. Sorted texts make both scopes one rule: variants that begin
with variant j are the rows ``j : behind[j]``, and the cases of an answer are k-anonymous if and
only if for every class j

    mass held by rows j : behind[j]  >=  least[j],

where over variants ``behind[j]`` = j + 1 and ``least`` = k, and over prefixes ``behind`` skips j's
extensions and ``least`` is k, but 0 for the variant without events, which has no prefix. (A node of
the prefix tree that lies on the way to j holds at least what j's own node holds, so no other node
needs looking at.) A class with an extension that is a class too keeps the rule when its extensions
do: only classes without one can fall short.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from time import monotonic
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloakwork.errors import MechanismError
from cloakwork.mechanisms.kanon.problem import Ints, Problem
from cloakwork.mechanisms.kanon.sequences import LONGEST
from cloakwork.progress import say

Flags = NDArray[np.bool_]
LARGEST: Final = 6000
"""Most variants: for each pair of them the greedy search takes 18 bytes, A* some 50."""
CLOSED_AT_ONCE: Final = 2
AROUND: Final = 20
"""How many classes the local search closes at once, and how many variants around them it then
tries.
"""
EVERY: Final = 1.0
_LAST: Final = chr(0x10FFFF)


class Clock:
    """Says how far long work is, at most once in ``EVERY`` seconds."""

    def __init__(self) -> None:
        self.last = monotonic()

    def say(self, message: str) -> None:
        """Say ``message``, or pass over it when something was said just now."""
        if monotonic() - self.last > EVERY:
            self.last = monotonic()
            say(message)


@dataclass(frozen=True, slots=True)
class Ground:
    """A problem laid out for moves of whole variants.

    - ``distance``: int16, shape (variants, variants): single edits.
    - ``moving``: int64, the same shape; ``moving[i, j]``: what all cases of i becoming j costs.
    - ``cases``, ``mass``: int64, shape (variants,); how many cases i has, what they add to a class.
    - ``behind``, ``least``: int64, shape (variants,); the rule of the module's docstring.
    """

    k: int
    distance: NDArray[np.int16]
    moving: Ints
    cases: Ints
    mass: Ints
    behind: Ints
    least: Ints

    @classmethod
    def of(cls, problem: Problem, mechanism: str) -> "Ground":
        """Lay out ``problem``. Raises ``MechanismError`` (in the name of ``mechanism``) for more
        than 6,000 variants, or for variants so long that their distances might not fit the matrix.
        """
        variants = len(problem.texts)
        if variants > LARGEST:
            message = f"it compares all pairs of variants, of which the log has {variants:,}; it takes {LARGEST:,} at most"
            raise MechanismError(mechanism, f"{message} (kanon/pretsa takes any number)")
        if max(map(len, problem.texts), default=0) > LONGEST:
            message = (
                f"it takes cases of {LONGEST:,} events at most, and the log holds a longer one"
            )
            raise MechanismError(mechanism, f"{message} (kanon/pretsa takes any length)")
        distance = problem.distances.matrix
        least = np.full(variants, problem.k, np.int64)
        behind = np.arange(1, variants + 1)
        if problem.scope == "prefixes":
            least[[row for row, text in enumerate(problem.texts) if not text]] = 0
            behind = np.array(
                [bisect_right(problem.texts, text + _LAST) for text in problem.texts], np.int64
            )
        return cls(
            problem.k,
            distance,
            problem.cases[:, None] * distance,
            problem.cases,
            problem.mass,
            behind,
            least,
        )

    def held(self, target: Ints) -> Ints:
        """The mass on each variant when i is on ``target[i]``: int64, shape (variants,)."""
        return np.bincount(target, self.mass, len(self.mass)).astype(np.int64)

    def below(self, amount: Ints) -> Ints:
        """Sums of ``amount`` over the rows j : behind[j]: int64, shape (variants,)."""
        sums = np.concatenate([[0], np.cumsum(amount)])
        return np.asarray(sums[self.behind] - sums[:-1], np.int64)

    def need(self, classes: Flags) -> Ints:
        """What each variant must hold itself, were it a class beside ``classes``: ``least``, or 0
        with an extension.
        """
        extended = self.below(classes.astype(np.int64)) - classes > 0
        return np.where(extended, 0, self.least)

    def cost(self, target: Ints) -> int:
        """The edits of all cases when i becomes ``target[i]``."""
        return int(self.moving[np.arange(len(target)), target].sum())

    def allows(self, target: Ints) -> bool:
        """Whether every class holds enough."""
        classes = self.classes(target)
        return bool((self.below(self.held(target)) >= self.least)[classes].all())

    def classes(self, target: Ints) -> Flags:
        """Which variants hold cases."""
        return np.bincount(target, minlength=len(target)) > 0


def homes(ground: Ground, classes: Flags) -> Ints:
    """For each variant the nearest of ``classes`` (ties: the first): int64, shape (variants,)."""
    there = np.flatnonzero(classes)
    return np.asarray(there[np.argmin(ground.distance[there], axis=0)], np.int64)


def settled(ground: Ground, classes: Flags, target: Ints, home: Ints) -> Ints:
    """An allowed answer near ``target`` whose classes are among ``classes``, of which one at least
    must be true.

    ``home``: for each variant the nearest of ``classes``, or of more than these.

    Variants whose target is no class go to the nearest class. A class that falls short is then
    filled or closed, whichever costs less: filled with what adds the missing mass most cheaply and
    is not needed where it is, closed by moving each member to its next class. It ends, for a class
    once closed stays closed, and one that was filled falls short again only when its last extension
    was closed. At last, whatever can move nearer without harm does.
    """
    classes, target = classes.copy(), _to_nearest(ground, classes, target, ~classes[target])
    while True:
        classes &= ground.classes(target)
        held, need = ground.held(target), ground.need(classes)
        short = np.flatnonzero(classes & (held < need))
        if not len(short):
            return _drawn_home(ground, classes, target, home)
        least = int(short[np.argmin(held[short])])
        ways = (
            _filled(ground, target, held - need, least),
            _closed(ground, classes, target, least),
        )
        target = min((way for way in ways if way is not None), key=ground.cost)


def _to_nearest(ground: Ground, classes: Flags, target: Ints, moving: Flags) -> Ints:
    """``target`` with the variants that are ``moving`` on their nearest classes (ties: the first)."""
    moved, movers = target.copy(), moving.nonzero()[0]
    if len(movers):
        there = classes.nonzero()[0]
        moved[movers] = there[ground.distance[there[:, None], movers].argmin(axis=0)]
    return moved


def _closed(ground: Ground, classes: Flags, target: Ints, closing: int) -> Ints | None:
    """``target`` without the class ``closing``; None when there is no other."""
    others = classes.copy()
    others[closing] = False
    return _to_nearest(ground, others, target, target == closing) if others.any() else None


def _filled(ground: Ground, target: Ints, spare: Ints, short: int) -> Ints | None:
    """``target`` with variants moved to ``short`` until it holds enough; None when the others
    cannot spare it.

    ``spare``: int64, shape (variants,); the mass that each class can lose, negative where it lacks
    some.
    """
    target, spare, rows = target.copy(), spare.copy(), np.arange(len(target))
    extra = ground.moving[:, short] - ground.moving[rows, target]
    while (missing := -int(spare[short])) > 0:
        movable = (ground.mass > 0) & (ground.mass <= spare[target]) & (target != short)
        if not movable.any():
            return None
        price = np.where(movable, extra / np.clip(ground.mass, 1, missing), np.inf)
        mover = int(np.argmin(price))
        spare[target[mover]] -= ground.mass[mover]
        spare[short] += ground.mass[mover]
        target[mover] = short
    return target


def _drawn_home(ground: Ground, classes: Flags, target: Ints, home: Ints) -> Ints:
    """``target``, with variants moved to their nearest class wherever the class that they leave can
    spare them.
    """
    rows = np.arange(len(target))
    nearest = _to_nearest(ground, classes, home, ~classes[home])
    gain = ground.moving[rows, target] - ground.moving[rows, nearest]
    if not (gain > 0).any():
        return target
    target, spare = target.copy(), ground.held(target) - ground.need(classes)
    for mover in np.argsort(-gain, kind="stable")[: int((gain > 0).sum())]:
        if ground.mass[mover] <= spare[target[mover]]:
            spare[target[mover]] -= ground.mass[mover]
            spare[nearest[mover]] += ground.mass[mover]
            target[mover] = nearest[mover]
    return target


def improved(ground: Ground, target: Ints, until: float = np.inf) -> Ints:
    """An answer that costs no more than the allowed answer ``target``, found by local search.

    First variant after variant is tried: a class is closed; any other variant is made a class, or
    takes over the class that it is in. What costs less is kept, until no variant offers anything.
    Then each class of less than 2 k in turn is closed together with the class nearest to it, and
    the variants around are tried in the same way; what costs less is kept. Ends early when
    ``time.monotonic()`` has passed ``until``. Deterministic otherwise.
    """
    clock, vain = Clock(), defaultdict[bytes, set[int]](set)
    target = _descended(ground, target, np.arange(len(target)), vain, until)
    for place in range(len(target)):
        clock.say(f"improving an answer of {ground.cost(target):,} edits")
        classes = ground.classes(target)
        there = np.flatnonzero(classes)
        small = classes[place] and ground.held(target)[place] < 2 * ground.k
        if not small or len(there) <= CLOSED_AT_ONCE or monotonic() > until:
            continue
        fewer = classes.copy()
        fewer[there[np.argsort(ground.distance[place, there], kind="stable")[:CLOSED_AT_ONCE]]] = (
            False
        )
        near = np.argsort(ground.distance[place], kind="stable")[:AROUND]
        shaken = _descended(
            ground, settled(ground, fewer, target, homes(ground, classes)), near, vain, until
        )
        target = min(target, shaken, key=ground.cost)
    return target


def _descended(
    ground: Ground, target: Ints, order: Ints, vain: defaultdict[bytes, set[int]], until: float
) -> Ints:
    """``target``, bettered by trials of the variants ``order``, in turn, until none of them offers
    anything.

    ``vain``: by answer (a digest of it), the variants whose trials offered nothing there; they are
    not tried again.
    """
    least, idle, turn, clock = ground.cost(target), 0, 0, Clock()
    home, hopeless = homes(ground, ground.classes(target)), vain[_digest(target)]
    while idle < len(order) and monotonic() < until:
        variant = int(order[turn])
        idle, turn = idle + 1, (turn + 1) % len(order)
        if variant in hopeless:
            continue
        for trial in _trials(ground, target, home, variant, least):
            if (cost := ground.cost(trial)) < least:
                target, least, idle = trial, cost, 0
        if idle:
            hopeless.add(variant)
        else:
            home, hopeless = homes(ground, ground.classes(target)), vain[_digest(target)]
        clock.say(f"improving an answer of {least:,} edits")
    return target


def _digest(target: Ints) -> bytes:
    return blake2b(target.tobytes(), digest_size=16).digest()


def _trials(ground: Ground, target: Ints, home: Ints, variant: int, least: int) -> Iterator[Ints]:
    """Answers near ``target`` that differ in whether ``variant`` is a class; ``home``: nearest of
    its classes.

    Left out is the one without the class ``variant`` where no answer without it can cost less than
    ``least``.
    """
    classes, rows = ground.classes(target), np.arange(len(target))
    if classes[variant]:
        classes[variant] = False
        if (
            classes.any()
            and ground.cost(_to_nearest(ground, classes, home, home == variant)) < least
        ):
            yield settled(
                ground, classes, _to_nearest(ground, classes, target, target == variant), home
            )
        return
    saved = ground.moving[rows, target] - ground.moving[:, variant]
    if not (saved > 0).any():
        return
    home = np.where(ground.distance[variant] < ground.distance[rows, home], variant, home)
    classes[variant] = True
    if _may_pay(ground, saved, int(ground.need(classes)[variant])):
        yield settled(ground, classes, np.where(saved > 0, variant, target), home)
    members = target == target[variant]
    if int(saved[members | (saved > 0)].sum()) > 0:
        classes[target[variant]] = False
        yield settled(ground, classes, np.where(members | (saved > 0), variant, target), home)


def _may_pay(ground: Ground, saved: Ints, need: int) -> bool:
    """Whether a class made of the variants that save most (``saved``, edits) saves anything, were
    all free to go.
    """
    gain = saved > 0
    missing = need - int(ground.mass[gain].sum())
    total = int(saved[gain].sum())
    if missing <= 0 or total <= 0:
        return total > 0
    rest = ~gain & (ground.mass > 0)
    price, mass = saved[rest] / ground.mass[rest], ground.mass[rest]
    order = np.argsort(-price)
    before = np.cumsum(mass[order]) - mass[order]
    taken = np.clip(missing - before, 0, mass[order])
    return total + float(price[order] @ taken) > 0

"""PRETSA*: the least change that makes the control flow k-anonymous by moving whole variants, by A*
with a proved bound.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from time import monotonic
from typing import Annotated, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, JsonValue

from cloakwork.mechanisms.base import Theorem
from cloakwork.mechanisms.kanon.best_first import PAPER, best_first
from cloakwork.mechanisms.kanon.family import K_ANONYMOUS, Anonymiser, FamilyParams
from cloakwork.mechanisms.kanon.problem import Assignment, Ints, Problem, Solution
from cloakwork.mechanisms.kanon.relaxation import SCALE, Allowed, Relaxation, Relaxed
from cloakwork.mechanisms.kanon.whole import Clock, Flags, Ground, homes, improved, settled

FIRST_PRICES: Final = 200
LATER_PRICES: Final = 30
"""How often the prices of a state are adjusted: for the first state, and for each later one."""

MIB: Final = 2**20


class AStarParams(FamilyParams):
    """Options: how long and how large the search may grow."""

    seconds: Annotated[
        float,
        Field(gt=0, description="after how many seconds the best answer so far is handed back"),
    ] = 60
    memory: Annotated[
        int, Field(ge=1, description="how many MiB the states that wait may take")
    ] = 1024


class AStar(Anonymiser[AStarParams]):
    """The least distance that whole variants allow, proved; or the best log found in time, with a
    bound on the least.

    The paper searches over sequences of moves, where states are logs; its heuristic (equations 2 to
    4) may exceed what is left to pay, since one move can mend more than two variants. (Over
    prefixes, k = 10: 1 case of a, 7 of abc, 3 of xbc. All violate; h = 2 * 1/2 + 1 * 3/2 + 1 * 3/2
    = 4; but moving xbc to abc mends all at cost 3.) Ours searches over *decisions* instead, with a
    heuristic that is a bound:

    - a state is a set of decisions: this variant is a class, or is none; this variant goes to that
      class, or does not;
    - expanding it makes one decision more, one way and the other. The two share no answer and miss
      none, so no answer is reached twice and no record of visited states is needed;
    - f is ``relaxation``'s bound L(w) under the decisions: the moves decided (g) and the least that
      the others can still cost (h), at prices w that are adjusted by subgradient steps.
      **Admissible:** L(w) <= cost of every allowed answer that keeps the decisions, for any w.
      **Consistent:** a state's f is never taken below that of the state it came from.

    The state with the least f is expanded first. The least f in the queue is a bound on every
    answer not yet seen; when it reaches the cost of the best answer known (at first, that of
    kanon/best-first), that answer is optimal.

    **Why it is k-anonymous**: the answers it compares are those of kanon/best-first and of
    ``whole.settled``, and states with every variant decided whose classes were measured. **That it
    ends**: each decision forbids a pair of variant and class, or forces a class; there are finitely
    many.
    """

    name: ClassVar[str] = "kanon/a-star"
    summary: ClassVar[str] = (
        "Moves as few cases as little as possible, and proves it, while time and memory last."
    )
    theorem: ClassVar[Theorem] = Theorem(
        statement=K_ANONYMOUS,
        source=f"{PAPER} (PRETSA*), with another heuristic; admissibility and k shown in this class's docstring",
    )
    Params = AStarParams

    def solve(
        self, params: AStarParams, problem: Problem
    ) -> tuple[Solution, Mapping[str, JsonValue]]:
        """Start from kanon/best-first's answer; prove it, or better it, within ``seconds`` and
        ``memory``.
        """
        until = monotonic() + params.seconds
        ground = Ground.of(problem, self.name)
        search = _Search(ground, improved(ground, best_first(ground), until), until)
        stopped = search.run(params.memory)
        bound = min(search.cost, search.least)
        return Solution(Assignment.whole(problem, search.target), bound, stopped), {
            "states": search.expanded
        }


@dataclass(frozen=True, slots=True)
class _State:
    """Decisions, the last one first, and the prices that bound them best.

    ``variant`` to ``place``, or not (``yes``); -1 to ``place``: whether it is a class.
    """

    before: "_State | None"
    variant: int
    place: int
    yes: bool
    price: Ints


@dataclass(order=True, slots=True)
class _Waiting:
    """A state in the queue: least f first, then the latest."""

    least: int
    turn: int
    state: _State = field(compare=False)
    split: tuple[int, int] = field(compare=False)
    """What to decide next, as in ``_State``."""


class _Search:
    """The queue and the best answer so far. ``least``: a bound on every answer that was not seen
    yet.
    """

    def __init__(self, ground: Ground, target: Ints, until: float) -> None:
        self.ground, self.until = ground, until
        self.target, self.cost = target, ground.cost(target)
        self.relaxation = Relaxation(ground)
        self.queue: list[_Waiting] = []
        self.turns = count(0, -1)
        self.least, self.expanded, self.clock = 0, 0, Clock()

    def run(self, memory: int) -> str:
        """Expand states until the best answer is proved or a limit is met; say which, in plain
        words.
        """
        variants = len(self.target)
        # A waiting state holds its prices and keeps those of the states that it came from: no more
        # of these than of it.
        most = max(1, memory * MIB // (2 * (8 * variants + 600)))
        start = _State(None, -1, -1, True, self._first_price())
        self._enqueue(start, 0, FIRST_PRICES)
        while self.queue and self.queue[0].least < self.cost:
            self.least = self.queue[0].least
            if monotonic() > self.until:
                return "the time was used up"
            if len(self.queue) >= most:
                return "the memory was used up"
            waiting = heapq.heappop(self.queue)
            self.expanded += 1
            for yes in (True, False):
                self._enqueue(
                    _State(waiting.state, *waiting.split, yes, waiting.state.price),
                    waiting.least,
                    LATER_PRICES,
                )
            self.clock.say(
                f"{self.cost:,} edits found, {self.least:,} proved, {len(self.queue):,} states wait"
            )
        self.least = self.cost
        return "no whole variants can be moved at less cost"

    def _enqueue(self, state: _State, least: int, steps: int) -> None:
        """Bound ``state``; keep it unless it holds no answer better than the best, or a single one."""
        allowed = self._allowed(state)
        if not allowed.pairs.any(axis=1).all():
            return
        if (allowed.pairs.sum(axis=1) == 1).all():
            self._try(np.argmax(allowed.pairs, axis=1))
            return
        prices, before = _Prices(self, allowed, state.price), self.cost
        bound = max(least, prices.adjust(steps))
        if prices.offer is not None and (state.before is None or self.cost < before):
            self._try(improved(self.ground, prices.offer, self.until))
        if bound < self.cost:
            kept = _State(state.before, state.variant, state.place, state.yes, prices.best)
            heapq.heappush(self.queue, _Waiting(bound, next(self.turns), kept, prices.split()))

    def _allowed(self, state: _State) -> Allowed:
        """What the decisions of ``state`` leave open."""
        stays = self._stays()
        pairs, forced = np.broadcast_to(~stays[:, None], (len(stays), len(stays))).copy(), stays
        pairs[stays, stays] = True
        step = state
        while step.before is not None:
            if step.yes:
                forced[step.place] = True
            if step.variant < 0 and not step.yes:
                pairs[:, step.place] = False
            elif step.variant >= 0 and step.yes:
                pairs[step.variant] &= np.arange(len(stays)) == step.place
            elif step.variant >= 0:
                pairs[step.variant, step.place] = False
            step = step.before
        return Allowed(pairs, forced)

    def _stays(self) -> Flags:
        """Variants that some optimal answer leaves alone: those that hold k, where mass counts
        cases and classes are variants. (Were j's n >= k cases on b: let them go home, which saves n
        * d(j, b); should b now fall short, let what is left there, fewer than k cases, go to j as
        well, which costs less than k * d(j, b) more.)
        """
        ground = self.ground
        plain = bool(
            (ground.mass == ground.cases).all()
            and (ground.behind == np.arange(len(self.target)) + 1).all()
        )
        return (ground.mass >= ground.k) & plain

    def _first_price(self) -> Ints:
        """What it costs each variant to go to its nearest other: int64, shape (variants,), 1/SCALE
        edits.
        """
        if len(self.target) == 1:
            return np.zeros(1, np.int64)
        nearest = np.partition(self.ground.distance, 1, axis=1)[:, 1].astype(np.int64)
        return np.where(self.ground.mass >= self.ground.k, 0, SCALE * nearest * self.ground.cases)

    def answer(self, relaxed: Relaxed) -> Ints | None:
        """An allowed answer made of the classes that a relaxation opened, kept if it is the best;
        None without any.
        """
        classes = relaxed.opened & relaxed.picked.any(axis=0)
        if not classes.any():
            return None
        place = np.argmax(relaxed.picked & classes, axis=1)
        target = settled(self.ground, classes, place, homes(self.ground, classes))
        self._try(target)
        return target

    def _try(self, target: Ints) -> None:
        """Keep ``target`` if it is allowed and the best so far."""
        if self.ground.cost(target) < self.cost and self.ground.allows(target):
            self.target, self.cost = target, self.ground.cost(target)


class _Prices:
    """Prices of one state, adjusted towards the highest bound, and how often what was chosen on the
    way.

    ``best``: int64, shape (variants,): the prices of the highest bound so far. ``offer``: the best
    answer met. ``picked``, ``opened``: float64; running shares in which a class picked a variant,
    and was open.
    """

    def __init__(self, search: _Search, allowed: Allowed, price: Ints) -> None:
        self.search, self.allowed, self.best = search, allowed, price
        self.offer: Ints | None = None
        self.picked: NDArray[np.float64] = np.zeros(allowed.pairs.shape)
        self.opened: NDArray[np.float64] = np.zeros(len(price))

    def adjust(self, steps: int) -> int:
        """At most ``steps`` subgradient steps (Polyak's length); the highest bound met, in edits."""
        price, highest, pace, idle, bound = self.best, -(1 << 62), 1.0, 0, 0
        for step in range(steps):
            relaxed = self.search.relaxation(price, self.allowed)
            bound = max(bound, relaxed.bound)
            idle = 0 if relaxed.value > highest else idle + 1
            if relaxed.value > highest:
                highest, self.best = relaxed.value, price
            if bound < self.search.cost and (answer := self.search.answer(relaxed)) is not None:
                self.offer = (
                    answer
                    if self.offer is None
                    else min(self.offer, answer, key=self.search.ground.cost)
                )
            slope = 1 - relaxed.picked.sum(axis=1)
            length = int(slope @ slope)
            self._remember(relaxed, 1.0 if step == 0 else 0.1)
            if bound >= self.search.cost or length == 0 or monotonic() > self.search.until:
                break
            if idle > steps // 20:
                pace, idle = pace / 2, 0
            stride = pace * (self.search.cost * SCALE - relaxed.value) / length
            price = price + np.rint(stride * slope).astype(np.int64)
        return bound

    def split(self) -> tuple[int, int]:
        """The decision that the prices leave most in doubt: a class (-1, place), or else a pair
        (variant, place).
        """
        undecided = self.allowed.pairs.any(axis=0) & ~self.allowed.forced
        doubt = np.where(undecided, np.abs(self.opened - 0.5), 1.0)
        if doubt.min() < 0.45:
            return -1, int(np.argmin(doubt))
        pairs = self.allowed.pairs & (self.allowed.pairs.sum(axis=1) > 1)[:, None]
        place = int(np.argmin(np.where(pairs, np.abs(self.picked - 0.5), 1.0)))
        return divmod(place, len(undecided))

    def _remember(self, relaxed: Relaxed, share: float) -> None:
        self.picked += share * (relaxed.picked - self.picked)
        self.opened += share * (relaxed.opened - self.opened)

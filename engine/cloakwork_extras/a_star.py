"""PRETSA*: the least change that makes the control flow k-anonymous by moving whole variants, by A*
with a proved bound.

A lower bound on what moving whole variants costs: the constraint "every variant goes to one
class" is relaxed with multipliers.

Give each variant i a multiplier w_i, and let the classes choose their members without regard to
each other: class j picks a set T of mass at least ``required_mass[j]`` for which

    sum of move_cost[i, j] - w_i over T

is least, and is opened only where that is below 0. Every k-anonymous answer is such a choice, in
which each variant is picked once and the multipliers cancel out. So for any multipliers w

    L(w)  =  sum of w_i  +  sum over classes of min(0, that least sum)  <=  cost of every answer.

(Lagrangian relaxation; Geoffrion, Approaches to Integer Programming, Mathematical Programming Study
2, 1974.) The least sum is exact for masses up to ``MOST_MASS_UNITS``, and else bounded from below:
what has a negative cost is picked; the mass that is still missing is a covering knapsack, solved by
dynamic programming over it.

Over prefixes a class needs its mass only where no extension of it is open, and the choice is made
along the tree of variants that begin with one another. Of trees that share no variant, no more than
the whole mass divided by k hold an open class, since each that does holds mass k.

All figures are integers, in 1/``SCALE`` of an edit, so that rounding never makes a bound too high.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Annotated, ClassVar, Final

import numpy as np
from pydantic import Field

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.frozen import frozen
from cloakwork.base.progress import Pace
from cloakwork.mechanisms.base import Theorem
from cloakwork.mechanisms.kanon.blocks import search_in_blocks
from cloakwork.mechanisms.kanon.deadline import (
    NO_LIMIT,
    Deadline,
    OutOfTime,
)
from cloakwork.mechanisms.kanon.family import DISTANCE_OPTION, K_ANONYMOUS, Anonymiser, FamilyParams
from cloakwork.mechanisms.kanon.problem import Assignment, KAnonymityProblem, Solution
from cloakwork.mechanisms.kanon.whole_variants import (
    MoveCosts,
    improve_by_hill_climbing,
    nearest_classes,
    repair_to_k_anonymous,
)
from cloakwork_extras.best_first import PAPER, search_best_first

SCALE: Final = 1024
MOST_MASS_UNITS: Final = 256
"""In how many units missing mass is counted at most."""
_FORBIDDEN: Final = 1 << 60
"""Cost that stands for what is not allowed. int64 holds the sum of seven of them, not of eight."""
_CELLS_AT_ONCE: Final = 1 << 23
"""Most cells of a dynamic programme at once: classes * variants * mass."""

FIRST_STEPS: Final = 200
LATER_STEPS: Final = 30
_SHARE_FOR_START: Final = 0.3
"""Most subgradient steps for the multipliers of the first state, and of each later one."""

MIB: Final = 2**20
_BYTES_OF_A_STATE: Final = 600
"""What a state takes beside its multipliers."""
_NO_CLASS: Final = -1
_SHARE_OF_A_STEP: Final = 0.1
"""How much a step counts in the running shares of what was chosen."""
_CERTAIN: Final = 0.45
"""How far from one half a running share must lie for a decision to count as certain."""


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
    4) may exceed the cost that remains, since one move can correct more than two variants. (Over
    prefixes, k = 10: 1 case of a, 7 of abc, 3 of xbc. All violate; h = 2 * 1/2 + 1 * 3/2 + 1 * 3/2
    = 4; but moving xbc to abc corrects all at cost 3.) Ours searches over *decisions* instead, with
    a heuristic that is a bound:

    - a state is a set of decisions: this variant is a class, or is none; this variant goes to that
      class, or does not;
    - expanding it makes one decision more, one way and the other. The two share no answer and miss
      none, so no answer is reached twice and no record of visited states is needed;
    - f is ``relaxation``'s bound L(w) under the decisions: the moves decided (g) and the least that
      the others can still cost (h), at multipliers w that are improved by subgradient steps.
      **Admissible:** L(w) <= cost of every k-anonymous answer that keeps the decisions, for any w.
      **Consistent:** a state's f is never taken below that of the state it came from.

    The state with the least f is expanded first. The least f in the queue is a bound on every
    answer not yet seen; when it reaches the cost of the best answer known (at first, that of
    kanon/best-first), that answer is optimal.

    **Why it is k-anonymous**: the answers it compares are those of kanon/best-first and of
    ``repair_to_k_anonymous``, and states with every variant decided whose classes were measured.
    **That it ends**: each decision forbids a pair of variant and class, or forces a class; there
    are finitely many.
    """

    name: ClassVar[str] = "kanon/a-star"
    options: ClassVar[Mapping[str, str]] = {
        **DISTANCE_OPTION,
        "seconds": "after how many seconds the best answer so far is taken (60)",
        "memory": "how many MiB the states that wait may take (1,024)",
    }
    summary: ClassVar[str] = (
        "Moves as few cases as little as possible, and proves it, while time and memory last."
    )
    theorem: ClassVar[Theorem] = Theorem(
        statement=K_ANONYMOUS,
        source=f"{PAPER} (PRETSA*), with another heuristic; "
        "admissibility and k shown in this class's docstring",
    )
    Params = AStarParams

    def solve(
        self,
        params: AStarParams,
        problem: KAnonymityProblem,
        deadline: Deadline,
    ) -> Solution:
        """Start from kanon/best-first's answer; prove it, or improve it, within ``seconds`` and
        ``memory``. Where the time does not suffice for that answer, from one made block by block.
        """
        costs = MoveCosts.of(problem, self.name)
        try:
            greedy = search_best_first(costs, deadline.share(_SHARE_FOR_START))
        except OutOfTime:
            greedy = search_in_blocks(problem, params.seconds, deadline).assignment.target
        start = improve_by_hill_climbing(costs, greedy, deadline)
        search = _AStarSearch(costs, start, deadline)
        stop_reason = search.run(params.memory)
        bound = min(search.cost, search.least_bound)
        assignment = Assignment.of_targets(problem, search.target)
        return Solution(
            assignment,
            bound,
            stop_reason,
            {"states": search.expanded},
        )


@frozen
class RelaxationValue:
    """The value of L(w), in 1/``SCALE`` edits (no answer is allowed where it is ``_FORBIDDEN`` or
    more), and the choice behind it.

    ``picked``: bool, shape (variants, variants); whether class j picks variant i. ``opened``: bool,
    shape (variants,).
    """

    value: int
    picked: Bools
    opened: Bools

    @property
    def bound(self) -> int:
        """The least whole number of edits that is not below the value."""
        return -(-self.value // SCALE)


class Relaxation:
    """L(w) for one problem; see the module's docstring."""

    def __init__(self, costs: MoveCosts, deadline: Deadline = NO_LIMIT) -> None:
        self.costs, self.deadline = costs, deadline
        self.scaled_cost = SCALE * costs.move_cost
        self.most_trees = max(1, int(costs.mass.sum()) // costs.k)
        self.is_root = np.zeros(len(costs.mass), np.bool_)
        self.children: dict[int, list[int]] = {}
        # The variants that begin with a variant are a range, and these ranges are nested: those
        # that contain a row are a path, the innermost last.
        path: list[int] = []
        for row in range(len(costs.mass)):
            while path and costs.prefix_end[path[-1]] <= row:
                path.pop()
            if path:
                self.children.setdefault(path[-1], []).append(row)
            else:
                self.is_root[row] = True
            path.append(row)

    def __call__(
        self,
        multipliers: Ints,
        may_move: Bools,
        must_open: Bools,
    ) -> RelaxationValue:
        """L(``multipliers``) where variant i may go to class j only if ``may_move[i, j]``, and the
        classes ``must_open`` must be open.

        ``multipliers``: int64, shape (variants,), in 1/``SCALE`` edits. Raises ``OutOfTime`` where
        the deadline is over before.
        """
        reduced = self.scaled_cost - multipliers[:, None]
        reduced = np.where(may_move, reduced, _FORBIDDEN)
        # A class without regard to its mass: whatever does not cost it anything joins.
        has_negative_cost = reduced <= 0
        cost_without_mass = np.minimum(reduced, 0).sum(axis=0)
        # A class that must hold its mass: the cheapest cover of what is missing joins as well.
        picked_mass = self.costs.mass @ has_negative_cost
        missing = np.maximum(self.costs.required_mass - picked_mass, 0)
        cover_cost, covering = self._least_covers(reduced, missing, has_negative_cost)
        cost_with_mass = cost_without_mass + cover_cost
        cost_with_mass[cover_cost >= _FORBIDDEN] = _FORBIDDEN
        cost, opened, is_extended = self._choose_classes(
            cost_with_mass, cost_without_mass, must_open
        )
        # A class with an open extension needs no cover.
        members = has_negative_cost | (covering & ~is_extended)
        value = _FORBIDDEN
        # Costs below 0 may offset a forbidden one in part, but never half of it.
        if cost < _FORBIDDEN // 2:
            value = cost + int(multipliers.sum())
        return RelaxationValue(value, members & opened, opened)

    def _least_covers(
        self,
        reduced: Ints,
        missing: Ints,
        has_negative_cost: Bools,
    ) -> tuple[Ints, Bools]:
        """For each class the least cost of mass ``missing`` from variants that have no negative
        cost there, and which are picked for it.
        """
        cost = np.zeros(len(missing), np.int64)
        picked = np.zeros_like(has_negative_cost)
        deficient = np.flatnonzero(missing)
        cells_of_a_class = len(missing) * (int(missing.max(initial=0)) + 1)
        classes_at_once = max(1, _CELLS_AT_ONCE // cells_of_a_class)
        for start in range(0, len(deficient), classes_at_once):
            self.deadline.require_time()
            chunk = deficient[start : start + classes_at_once]
            # What is picked already cannot be picked for the cover.
            weight = np.where(has_negative_cost[:, chunk], _FORBIDDEN, reduced[:, chunk])
            covers = _knapsack_covers(weight, self.costs.mass, missing[chunk])
            cost[chunk], picked[:, chunk] = covers
        return cost, picked

    def _choose_classes(
        self,
        cost_with_mass: Ints,
        cost_without_mass: Ints,
        must_open: Bools,
    ) -> tuple[int, Bools, Bools]:
        """The cheapest choice of classes: its cost in 1/``SCALE`` edits, which open, and of which
        an extension is open, so that they need no mass of their own.

        ``cost_with_mass``, ``cost_without_mass``: int64, shape (variants,); what a class costs that
        must hold its mass, and one that need not.
        """
        cost, must = cost_with_mass.copy(), must_open.copy()
        is_extended = np.zeros(len(cost), np.bool_)
        # Children have greater numbers than their parents: this goes upwards.
        for node in sorted(self.children, reverse=True):
            below = self.children[node]
            opens = _children_to_open(cost[below], must[below])
            must_extend = bool(must[below].any())
            extended_cost = int(cost_without_mass[node]) + _exact_sum(cost[below][opens])
            is_extended[node] = must_extend or extended_cost < int(cost_with_mass[node])
            if is_extended[node]:
                cost[node] = min(extended_cost, _FORBIDDEN)
            must[node] |= must_extend
        # Of the roots those open that must, and of the others the cheapest of negative cost, as
        # many as the mass suffices for.
        opened = must & self.is_root
        profitable = np.flatnonzero(self.is_root & ~must & (cost < 0))
        cheapest_first = np.argsort(cost[profitable], kind="stable")
        capacity_left = max(self.most_trees - int(opened.sum()), 0)
        opened[profitable[cheapest_first[:capacity_left]]] = True
        if int(opened.sum()) > self.most_trees:
            return _FORBIDDEN, opened, is_extended
        total = _exact_sum(cost[opened])
        # Downwards again: where a class leaves its mass to its children, some of these open.
        for node in sorted(self.children):
            if opened[node] and is_extended[node]:
                below = self.children[node]
                opened[below] = _children_to_open(cost[below], must[below])
        return total, opened, is_extended


def _exact_sum(costs: Ints) -> int:
    """The sum of some costs, forbidden ones among them, as an integer of any size."""
    # int64 would wrap around, and a forbidden choice look like a gain.
    return sum(costs.tolist())


def _children_to_open(cost: Ints, must_open: Bools) -> Bools:
    """Which children of an extended class open: what must or gains, or else the cheapest."""
    opens = must_open | (cost < 0)
    if not opens.any():
        opens[np.argmin(cost)] = True
    return opens


def _knapsack_covers(weight: Ints, mass: Ints, missing: Ints) -> tuple[Ints, Bools]:
    """For each column the least sum of weights whose mass is ``missing`` or more.

    ``weight``: int64, shape (items, columns), positive; ``_FORBIDDEN`` where an item may not be
    picked. ``mass``: int64, shape (items,). ``missing``: int64, shape (columns,), positive. Gives
    the sums, ``_FORBIDDEN`` where there is none, and the items picked: bool, shape (items,
    columns).

    Above ``MOST_MASS_UNITS`` mass is counted in larger units, rounded up: items that had the mass
    still have it, so the sum may come out lower, never higher.
    """
    # Each quotient is rounded up, which -(-a // b) does in integers.
    mass_unit = -(-int(missing.max()) // MOST_MASS_UNITS)
    mass = -(-mass // mass_unit)
    missing = -(-missing // mass_unit)
    heaviest_first = np.argsort(-mass, kind="stable")
    order = [int(item) for item in heaviest_first if mass[item] > 0]
    columns, most = weight.shape[1], int(missing.max())
    # least[m]: the least weight of mass m or more; improves[step, m]: whether that item lowered it.
    least = np.full((most + 1, columns), _FORBIDDEN, np.int64)
    least[0] = 0
    improves = np.zeros((len(order), most + 1, columns), np.bool_)
    for step, item in enumerate(order):
        size = min(int(mass[item]), most)
        with_item = np.empty_like(least[1:])
        # Up to its own mass the item suffices alone; beyond, it is added to the cover of the rest.
        with_item[:size] = weight[item]
        with_item[size:] = least[1 : most + 1 - size] + weight[item]
        np.less(with_item, least[1:], out=improves[step, 1:])
        np.minimum(least[1:], with_item, out=least[1:])

    # Backwards through the items: an item is picked where it improved what was still to be covered.
    picked = np.zeros(weight.shape, np.bool_)
    to_cover = missing.copy()
    for step in range(len(order) - 1, -1, -1):
        item = order[step]
        picked[item] = improves[step, to_cover, np.arange(columns)]
        to_cover = np.where(picked[item], np.maximum(to_cover - mass[item], 0), to_cover)
    return least[missing, np.arange(columns)], picked


_Decision = tuple[int, int, bool]
"""``variant`` goes to ``class_variant``, or does not. Where ``variant`` is ``_NO_CLASS``:
``class_variant`` is a class, or is none.
"""


@dataclass(order=True, slots=True)
class _State:
    """Decisions, and the multipliers that bound them best; in the queue the least lower bound (f)
    comes first, then the latest. ``undecided``: what to decide next.
    """

    lower_bound: int
    sequence_number: int
    decisions: tuple[_Decision, ...] = field(compare=False)
    multipliers: Ints = field(compare=False)
    undecided: tuple[int, int] = field(compare=False)


class _AStarSearch:
    """The queue and the best answer so far. ``least_bound``: on every answer not yet seen."""

    def __init__(
        self,
        costs: MoveCosts,
        target: Ints,
        deadline: Deadline,
    ) -> None:
        self.costs, self.deadline = costs, deadline
        self.target, self.cost = target, costs.total_cost(target)
        self.relaxation = Relaxation(costs, deadline)
        self.queue: list[_State] = []
        # Downwards: of states with one bound, the latest comes first, which goes deep early.
        self.sequence_numbers = count(0, -1)
        self.least_bound, self.expanded = 0, 0
        self.progress = Pace()

    def run(self, memory: int) -> str:
        """Expand states until the best answer is proved or a limit is met; say which, in plain
        words. ``memory``: in MiB.
        """
        # As much again for what is at work beside the states that wait.
        most_states = max(1, memory * MIB // (2 * (8 * len(self.target) + _BYTES_OF_A_STATE)))
        # At first what it costs each variant to go to its nearest other. Each is nearest to itself,
        # at distance 0: the second least is the next one.
        multipliers = np.zeros(len(self.target), np.int64)
        if len(self.target) > 1:
            nearest = np.partition(self.costs.distance, 1, axis=1)[:, 1].astype(np.int64)
            move_cost = SCALE * nearest * self.costs.cases
            multipliers = np.where(self.costs.mass >= self.costs.k, 0, move_cost)
        try:
            self._enqueue((), 0, multipliers, FIRST_STEPS)
            while self.queue and self.queue[0].lower_bound < self.cost:
                self.least_bound = self.queue[0].lower_bound
                self.deadline.require_time()
                if len(self.queue) >= most_states:
                    return "the memory was used up"
                state = heapq.heappop(self.queue)
                self.expanded += 1
                # One decision more, one way and the other.
                for included in (True, False):
                    decisions = (*state.decisions, (*state.undecided, included))
                    self._enqueue(
                        decisions,
                        state.lower_bound,
                        state.multipliers,
                        LATER_STEPS,
                    )
                self.progress.report(
                    f"{self.cost:,} edits found, {self.least_bound:,} proved, "
                    f"{len(self.queue):,} states wait"
                )
        except OutOfTime:
            return "the time was used up"
        self.least_bound = self.cost
        return "no whole variants can be moved at less cost"

    def _enqueue(
        self,
        decisions: tuple[_Decision, ...],
        lower_bound: int,
        multipliers: Ints,
        steps: int,
    ) -> None:
        """Bound the state of these decisions; keep it unless it holds no answer better than the
        best, or a single one.

        ``lower_bound``, ``multipliers``: those of the state it came from.
        """
        may_move, must_open = self._left_open_by(decisions)
        choices = may_move.sum(axis=1)
        if not choices.all():
            return
        if (choices == 1).all():
            self._keep_if_better(np.argmax(may_move, axis=1))
            return
        cost_before = self.cost
        ascent = _Ascent(self, may_move, must_open, multipliers)
        # f never falls from a state to those that come from it: that makes it consistent.
        bound = max(lower_bound, ascent.improve_bound(steps))
        # Climbing takes long: worth it at the start, and where the steps met a better answer.
        if ascent.best_answer is not None and (not decisions or self.cost < cost_before):
            climbed = improve_by_hill_climbing(self.costs, ascent.best_answer, self.deadline)
            self._keep_if_better(climbed)
        if bound < self.cost:
            number = next(self.sequence_numbers)
            undecided = ascent.most_doubtful_decision()
            state = _State(
                bound,
                number,
                decisions,
                ascent.multipliers,
                undecided,
            )
            heapq.heappush(self.queue, state)

    def _left_open_by(self, decisions: tuple[_Decision, ...]) -> tuple[Bools, Bools]:
        """Whether variant i may still go to class j: bool, shape (variants, variants); and which
        classes must open: bool, shape (variants,).

        Variants that hold k stay, where mass counts cases and classes are variants: some optimal
        answer leaves them where they are. (Were j's n >= k cases on b: move them back, which saves
        n * d(j, b). Should b now fall short, let what is left there, fewer than k cases, go to j as
        well, which costs less than k * d(j, b) more.)
        """
        costs, variants = self.costs, len(self.target)
        counts_cases = (costs.mass == costs.cases).all()
        has_no_extensions = (costs.prefix_end == np.arange(variants) + 1).all()
        must_open = (costs.mass >= costs.k) & bool(counts_cases and has_no_extensions)
        may_move = np.broadcast_to(~must_open[:, None], (variants, variants)).copy()
        may_move[must_open, must_open] = True
        for variant, class_variant, included in decisions:
            if included:
                must_open[class_variant] = True
                if variant != _NO_CLASS:
                    may_move[variant] &= np.arange(variants) == class_variant
            elif variant == _NO_CLASS:
                may_move[:, class_variant] = False
            else:
                may_move[variant, class_variant] = False
        return may_move, must_open

    def answer_from(self, relaxed: RelaxationValue) -> Ints | None:
        """A k-anonymous answer made of the classes that a relaxation opened, kept if it is the
        best; None where it opened none.
        """
        classes = relaxed.opened & relaxed.picked.any(axis=0)
        if not classes.any():
            return None
        # Of several classes that pick a variant the first; where none does, repair finds one.
        picked_class = np.argmax(relaxed.picked & classes, axis=1)
        nearest = nearest_classes(self.costs, classes)
        target = repair_to_k_anonymous(
            self.costs,
            classes,
            picked_class,
            nearest,
        )
        self._keep_if_better(target)
        return target

    def _keep_if_better(self, target: Ints) -> None:
        """Keep ``target`` if it is k-anonymous and the best so far."""
        cost = self.costs.total_cost(target)
        if cost < self.cost and is_k_anonymous(self.costs, target):
            self.target, self.cost = target, cost


def is_k_anonymous(costs: MoveCosts, target: Ints) -> bool:
    """Whether every class holds enough."""
    held = costs.sum_over_extensions(costs.held_mass(target))
    return bool((held >= costs.required_mass)[costs.open_classes(target)].all())


class _Ascent:
    """Multipliers of one state, moved towards the highest bound, and how often what was chosen on
    the way.

    ``multipliers``: int64, shape (variants,); of the highest bound so far. ``best_answer``: the
    best that was met. ``picked``, ``opened``: float64; running shares in which a class picked a
    variant, and was open.
    """

    def __init__(
        self,
        search: _AStarSearch,
        may_move: Bools,
        must_open: Bools,
        multipliers: Ints,
    ) -> None:
        self.search, self.multipliers = search, multipliers
        self.may_move, self.must_open = may_move, must_open
        self.best_answer: Ints | None = None
        self.picked: Floats = np.zeros(may_move.shape)
        self.opened: Floats = np.zeros(len(multipliers))

    def improve_bound(self, steps: int) -> int:
        """At most ``steps`` subgradient steps, of Polyak's length; the highest bound, in edits."""
        search, multipliers = self.search, self.multipliers
        highest, share = -(1 << 62), 1.0
        # Costs are never negative, so 0 is a bound before any step.
        bound = 0
        pace, idle_steps = 1.0, 0
        least_cost = -1
        for _ in range(steps):
            relaxed = search.relaxation(multipliers, self.may_move, self.must_open)
            bound = max(bound, relaxed.bound)
            idle_steps += 1
            if relaxed.value > highest:
                highest, self.multipliers = relaxed.value, multipliers
                idle_steps = 0
            if bound < search.cost:
                answer = search.answer_from(relaxed)
                if answer is not None:
                    cost = search.costs.total_cost(answer)
                    if self.best_answer is None or cost < least_cost:
                        self.best_answer, least_cost = answer, cost
            # One minus how often each variant is picked: a subgradient of L.
            slope = 1 - relaxed.picked.sum(axis=1)
            squared_length = int(slope @ slope)
            self.picked += share * (relaxed.picked - self.picked)
            self.opened += share * (relaxed.opened - self.opened)
            share = _SHARE_OF_A_STEP
            if bound >= search.cost or squared_length == 0 or search.deadline.is_over:
                break
            if idle_steps > steps // 20:
                pace, idle_steps = pace / 2, 0
            # Polyak's step aims at the cost of the best answer, which no bound exceeds.
            distance_to_aim = search.cost * SCALE - relaxed.value
            stride = pace * distance_to_aim / squared_length
            multipliers = multipliers + np.rint(stride * slope).astype(np.int64)
        return bound

    def most_doubtful_decision(self) -> tuple[int, int]:
        """The decision that the steps leave most in doubt: a class (``_NO_CLASS``, class variant),
        or else a pair (variant, class variant).
        """
        is_undecided = self.may_move.any(axis=0) & ~self.must_open
        certainty = np.where(is_undecided, np.abs(self.opened - 0.5), 1.0)
        if certainty.min() < _CERTAIN:
            return _NO_CLASS, int(np.argmin(certainty))
        # All classes are fairly certain: decide where a variant goes that still has a choice.
        has_choice = (self.may_move.sum(axis=1) > 1)[:, None]
        pair_certainty = np.where(self.may_move & has_choice, np.abs(self.picked - 0.5), 1.0)
        return divmod(int(np.argmin(pair_certainty)), len(is_undecided))

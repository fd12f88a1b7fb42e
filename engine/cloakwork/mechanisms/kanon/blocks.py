"""k-anonymous answers by merging classes, of any number of variants and within any time, block by
block; and for logs of more variants than can all be compared, a bound from how far each variant is
from the one nearest to it.

All pairs of 100,000 variants are 10^10 distances. Here only variants of one block are compared,
which are near each other; blocks overlap from round to round, so that classes move across their
borders. Classes are merged in many blocks at once: what a single block needs is a few operations on
short arrays, again and again; taken together, each step of all of them is one on long arrays.

The work is counted in pairs that are compared, and a search may make as many as its seconds allow
on a slow machine: where it ends by that count, the answer follows from the variants and the
options alone. The clock ends it only on a machine that is slower still.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from pydantic import JsonValue

from cloakwork.base.arrays import Floats, Ints, begins_of
from cloakwork.base.progress import Pace
from cloakwork.log.variants import MOST_EVENTS
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.lower_bound import (
    CoverConstraints,
    bound_from_nearest,
    least_to_another,
)
from cloakwork.mechanisms.kanon.problem import (
    Assignment,
    KAnonymityProblem,
    Solution,
    edit_cost,
    relative_gap,
)
from cloakwork.mechanisms.kanon.whole_variants import (
    MOST_VARIANTS,
    MoveCosts,
    climb_hill,
    move_savers,
)

_MULTIPLIER: Final = 2_654_435_761
"""Knuth's multiplicative hash: it spreads the choice of pivots, and draws nothing."""


def partition_into_blocks(
    problem: KAnonymityProblem,
    rows: Ints,
    weight: Ints,
    mass: Ints,
    most_weight: int,
    round_: int,
    deadline: Deadline,
) -> list[Ints]:
    """``rows`` (variants) in blocks of near ones, each of mass k: generalised hyperplanes (Uhlmann,
    Satisfying general proximity queries with metric trees, 1991).

    ``weight``, ``mass``: int64, shape (rows,); of each row. A block of more than ``most_weight``
    is halved between two pivots, those nearer to the one here, the others there, as long as both
    halves hold mass k and time is left; so a block may weigh more. ``round_``: other pivots, for
    other blocks. Linear in rows, times the depth, which is logarithmic.
    """
    blocks: list[Ints] = []
    # Positions in ``rows``; a stack, so that neighbours in the tree are neighbours in the list.
    waiting = [np.arange(len(rows))]
    while waiting:
        block = waiting.pop()
        cut = None
        if len(block) > 1 and int(weight[block].sum()) > most_weight and not deadline.is_over:
            block = block[_order_between_pivots(problem, rows[block], round_)]
            # Both parts hold mass k, as near to the middle of the weight as that allows.
            before = np.cumsum(mass[block])
            earliest = int(np.searchsorted(before, problem.k)) + 1
            latest = int(np.searchsorted(before, before[-1] - problem.k, side="right"))
            latest = min(latest, len(block) - 1)
            of_block = weight[block]
            middle = int(np.searchsorted(np.cumsum(of_block), of_block.sum() / 2)) + 1
            cut = min(max(middle, earliest), latest) if earliest <= latest else None
        if cut is None:
            blocks.append(rows[block])
        else:
            waiting += [block[cut:], block[:cut]]
    return blocks


def consecutive_groups(mass: Ints, k: int) -> Ints:
    """A group number for each of some variants in their order (int64, ascending from 0), so that
    each group holds mass k; all of them must hold it together.
    """
    group = np.zeros(len(mass), np.int64)
    number = 0
    held = 0
    for row, amount in enumerate(mass.tolist()):
        group[row] = number
        held += amount
        if held >= k:
            number = number + 1
            held = 0
    # What is left over at the end joins the last complete group.
    return np.minimum(group, max(number - 1, 0))


def _order_between_pivots(problem: KAnonymityProblem, rows: Ints, round_: int) -> Ints:
    """Positions of ``rows``, from those nearest to one pivot to those nearest to the other."""
    count = len(rows)
    start = int(rows[0]) + count + 1
    first = (start * _MULTIPLIER + round_) % count
    to_first = problem.distances.between(rows[[first]], rows)[0]
    if round_ == 0:
        # Far from each other: two ends of what there is.
        one = int(to_first.argmax())
        to_one = problem.distances.between(rows[[one]], rows)[0]
        other = int(to_one.argmax())
    else:
        one = first
        to_one = to_first
        other = (start * _MULTIPLIER + 7919 * round_ + 1) % count
    to_other = problem.distances.between(rows[[other]], rows)[0]
    return np.asarray(np.argsort(to_one - to_other, kind="stable"), np.int64)


_FORBIDDEN: Final = 1 << 60
_WASTE_WEIGHT: Final = 2.0
NO_VARIANT: Final = -1
"""Mass that stands for a place of a block that holds no variant."""


def merge_in_blocks(distance: Ints, cases: Ints, mass: Ints, k: int) -> Ints:
    """Where each variant of some blocks goes, by its place in its block: int64, shape (blocks,
    places).

    ``distance``: int64, shape (blocks, places, places). ``cases``, ``mass``: int64, shape (blocks,
    places); mass ``NO_VARIANT`` where a block is shorter than others.

    In each block, as long as a class holds less than k, the merger is made that costs least; the
    merged class gathers on whichever of the two targets costs less. A merger costs its edits, times
    1 + ``_WASTE_WEIGHT`` times the share of k that the merged class holds too much: large classes
    are far from their targets. Every block must hold mass k.
    """
    merging = _BlockMerging(distance, cases, mass, k)
    live = np.flatnonzero(merging.least.min(axis=1, initial=_FORBIDDEN) < _FORBIDDEN)
    while len(live):
        merging.step(live)
        live = live[merging.least[live].min(axis=1) < _FORBIDDEN]
    # Whoever joined a class that joined another is where that one is.
    joined = merging.joined
    onward = np.take_along_axis(joined, joined, 1)
    while not np.array_equal(onward, joined):
        joined = onward
        onward = np.take_along_axis(onward, onward, 1)
    return np.asarray(np.take_along_axis(merging.at, joined, 1), np.int64)


class _BlockMerging:
    """Classes by the place of their first member; the arrays change as classes merge.

    ``gather_cost[b, c, v]``: what gathering all of class c of block b on v costs. ``at``: where
    each class is. ``least``, ``partner``: its cheapest merger; ``is_stale``: whether that must be
    looked for again.
    """

    def __init__(
        self,
        distance: Ints,
        cases: Ints,
        mass: Ints,
        k: int,
    ) -> None:
        count, places = cases.shape
        self.k = k
        self.gather_cost = distance * cases[:, :, None]
        self.is_class = mass != NO_VARIANT
        self.mass = np.where(self.is_class, mass, 0)
        self.at = np.tile(np.arange(places), (count, 1))
        self.joined = self.at.copy()
        self.is_stale = np.zeros((count, places), bool)
        edits = np.minimum(self.gather_cost, self.gather_cost.transpose(0, 2, 1))
        cost = self._weigh(edits, self.mass[:, :, None], self.mass[:, None, :])
        both = self.is_class[:, :, None] & self.is_class[:, None, :]
        cost = np.where(both & ~np.eye(places, dtype=bool), cost, _FORBIDDEN)
        self.partner = cost.argmin(axis=2)
        least = np.take_along_axis(cost, self.partner[:, :, None], 2)[:, :, 0]
        falls_short = self.is_class & (self.mass < k)
        self.least = np.where(falls_short, least, _FORBIDDEN)

    def step(self, live: Ints) -> None:
        """In each of the ``live`` blocks make the cheapest merger, or look for it again where it is
        out of date.
        """
        chosen = self.least[live].argmin(axis=1)
        merges = ~self.is_stale[live, chosen]
        block = live[merges]
        source = chosen[merges]
        target = self.partner[block, source]
        own = self.at[block, source]
        theirs = self.at[block, target]
        gather = self.gather_cost
        onto_theirs = gather[block, source, theirs] - gather[block, source, own]
        onto_own = gather[block, target, own] - gather[block, target, theirs]
        self.at[block, target] = np.where(onto_own < onto_theirs, own, theirs)
        gather[block, target] += gather[block, source]
        self.mass[block, target] += self.mass[block, source]
        self.is_class[block, source] = False
        self.least[block, source] = _FORBIDDEN
        self.joined[block, source] = target
        # Look for the cheapest merger of what was merged, or is out of date.
        changed = chosen.copy()
        changed[merges] = target
        cost = self._merge_costs(live, changed)
        best = cost.argmin(axis=1)
        least = cost[np.arange(len(live)), best]
        self.partner[live, changed], self.is_stale[live, changed] = best, False
        falls_short = self.mass[live, changed] < self.k
        self.least[live, changed] = np.where(falls_short, least, _FORBIDDEN)
        # Other classes learn of the class that was just merged.
        cost = cost[merges]
        partner = self.partner[block]
        least = self.least[block]
        is_short = self.is_class[block] & (self.mass[block] < self.k)
        is_nearer = is_short & (cost <= least)
        was_partner = (partner == source[:, None]) | (partner == target[:, None])
        stale = (self.is_stale[block] | was_partner) & ~is_nearer
        stale[np.arange(len(block)), target] = False
        self.is_stale[block] = stale
        self.least[block] = np.where(is_nearer, cost, least)
        self.partner[block] = np.where(is_nearer, target[:, None], partner)

    def _merge_costs(self, live: Ints, row: Ints) -> Ints:
        """What merging class ``row`` with each other class costs: int64, shape (live, places)."""
        at = self.at[live]
        own = self.at[live, row]
        own_cost = self.gather_cost[live, row]
        stays = self.gather_cost[live, row, own][:, None]
        onto_theirs = np.take_along_axis(own_cost, at, 1) - stays
        block = live[:, None]
        place = np.arange(at.shape[1])
        onto_own = self.gather_cost[block, place, own[:, None]] - self.gather_cost[block, place, at]
        edits = np.minimum(onto_theirs, onto_own)
        cost = self._weigh(edits, self.mass[live], self.mass[live, row][:, None])
        cost[~self.is_class[live]] = _FORBIDDEN
        cost[np.arange(len(live)), row] = _FORBIDDEN
        return cost

    def _weigh(self, edits: Ints, mass: Ints, other_mass: Ints) -> Ints:
        too_much = np.clip(mass + other_mass - self.k, 0, self.k)
        weight: Floats = 1 + _WASTE_WEIGHT * too_much / self.k
        return np.asarray(edits * weight, np.int64)


PAIRS_PER_SECOND: Final = 6_000_000
"""Pairs of variants that a slow machine compares, merges and moves in a second."""
_SHARE_FOR_FIRST_ANSWER: Final = 0.2
_SMALLEST_BLOCK: Final = 32
_LARGEST_BLOCK: Final = 512
_LARGEST_CLIMBING_BLOCK: Final = 1024
_CLIMBING_BLOCK: Final = 256
_PAIRS_OF_A_CLIMB: Final = 16
"""How many comparisons take as long as what climbing does for a pair of variants."""
_CELLS_AT_ONCE: Final = 1 << 21
_GROWTH: Final = 4
"""How much larger blocks are in which variants look for the nearest class: only the classes are
compared with all.
"""
_LEAST_GAIN: Final = 0.005
"""Share of the cost that a round must save for another one to follow."""


def search_in_blocks(problem: KAnonymityProblem, seconds: float, deadline: Deadline) -> Solution:
    """A k-anonymous answer, improved until ``seconds`` worth of work is done, nothing is gained, or
    ``deadline`` is over. ``problem`` must be feasible.

    The first answer takes n log n steps and is complete whatever the clock says: what was not
    merged by then gathers in consecutive groups of near variants.
    """
    search = _BlockSearch(problem, seconds, deadline)
    search.find_first_answer()
    search.improve()
    if deadline.is_over:
        reason = "the time was used up"
    elif search.has_converged:
        reason = "no block of near variants gave more"
    else:
        reason = "the work that the time allows was done"
    return Solution(Assignment.of_targets(problem, search.target), None, reason)


class _BlockSearch:
    """One search. ``target``: the best answer so far; ``cost``: int64, shape (variants,), what each
    variant costs in it; ``work_left``: in pairs.
    """

    def __init__(
        self,
        problem: KAnonymityProblem,
        seconds: float,
        deadline: Deadline,
    ) -> None:
        self.problem = problem
        self.deadline = deadline
        self.rows = np.arange(len(problem.texts))
        self.target = self.rows.copy()
        self.cost = np.zeros(len(self.rows), np.int64)
        self.work_left = min(seconds, 86_400.0) * PAIRS_PER_SECOND
        fitting = int(_SHARE_FOR_FIRST_ANSWER * self.work_left / max(len(self.rows), 1))
        self.block_size = min(max(fitting, _SMALLEST_BLOCK), _LARGEST_BLOCK)
        self.progress = Pace()
        self.has_converged = False

    def find_first_answer(self) -> None:
        """Merge in blocks of all variants."""
        problem = self.problem
        each = np.ones_like(self.rows)
        blocks = partition_into_blocks(
            problem, self.rows, each, problem.mass, self.block_size, 0, self.deadline
        )
        # Half of the time at most, so that blocks of a slow machine gather without comparisons.
        merging = self.deadline.share(0.5)
        for batch in self._batches_of(blocks):
            for block, target in zip(batch, self._gathered(batch, merging), strict=True):
                self.target[block] = target
            self.progress.report(f"{self.cost.sum():,} edits so far")
        self.cost = problem.distances.pairs(self.rows, self.target) * problem.cases

    def improve(self) -> None:
        """Rounds over other blocks, then climbing in each block, while there is work to do."""
        round_ = 0
        while self._may_go_on():
            round_ += 1
            before = int(self.cost.sum())
            self._move_to_nearest(round_)
            self.progress.report(f"{self.cost.sum():,} edits")
            if before - int(self.cost.sum()) <= _LEAST_GAIN * before:
                break
        size = _CLIMBING_BLOCK
        while self._may_go_on() and not self.has_converged:
            round_ += 1
            before = int(self.cost.sum())
            is_complete = self._climb_in_blocks(size, round_)
            gain = before - int(self.cost.sum())
            if is_complete and gain <= _LEAST_GAIN * before:
                self.has_converged = size >= min(_LARGEST_CLIMBING_BLOCK, len(self.rows))
                size *= 2

    def _may_go_on(self) -> bool:
        return self.work_left > 0 and not self.deadline.is_over

    def _batches_of(self, blocks: list[Ints]) -> Iterator[list[Ints]]:
        """Blocks of similar length, as many as are merged together."""
        batch: list[Ints] = []
        for block in sorted(blocks, key=len):
            places = len(block)
            is_full = (len(batch) + 1) * places**2 > _CELLS_AT_ONCE
            is_first_too_large = bool(batch) and len(batch[0]) <= self.block_size < places
            if batch and (is_full or is_first_too_large):
                yield batch
                batch = []
            batch.append(block)
        if batch:
            yield batch

    def _gathered(self, batch: list[Ints], merging: Deadline) -> list[Ints]:
        """Where the variants of each block gather: by merging or, where ``merging`` is over or they
        are too many, in groups of mass k in their order, each on its most frequent variant.
        """
        problem = self.problem
        if merging.is_over or len(batch[0]) > self.block_size:
            targets = []
            for block in batch:
                group = consecutive_groups(problem.mass[block], problem.k)
                order = np.lexsort((np.arange(len(block)), -problem.cases[block], group))
                first = begins_of(group[order])
                targets.append(block[order[first]][group])
            return targets
        shape = (len(batch), max(map(len, batch)))
        distance = np.zeros((*shape, shape[1]), np.int64)
        cases = np.zeros(shape, np.int64)
        mass = np.full(shape, NO_VARIANT)
        for number, block in enumerate(batch):
            size = len(block)
            distance[number, :size, :size] = problem.distances.between(block, block)
            cases[number, :size] = problem.cases[block]
            mass[number, :size] = problem.mass[block]
        self.work_left -= distance.size
        found = merge_in_blocks(distance, cases, mass, problem.k)
        return [block[found[number, : len(block)]] for number, block in enumerate(batch)]

    def _move_to_nearest(self, round_: int) -> None:
        """Move variants to the nearest class of their block, where the class that they leave holds
        mass k without them; those that save most come first.
        """
        problem = self.problem
        most = _GROWTH * self.block_size
        each = np.ones_like(self.rows)
        enough = np.full_like(self.rows, problem.k)
        blocks = partition_into_blocks(
            problem, self.rows, each, enough, most, round_, self.deadline
        )
        is_class = np.bincount(self.target, minlength=len(self.rows)) > 0
        nearest = self.target.copy()
        nearest_cost = self.cost.copy()
        for block in blocks:
            classes = block[is_class[block]]
            if not self._may_go_on():
                break
            if not len(classes) or len(block) > most:
                continue
            self.work_left -= len(block) * len(classes)
            distance = problem.distances.between(block, classes)
            best = distance.argmin(axis=1)
            cost = distance[np.arange(len(block)), best] * problem.cases[block]
            is_better = cost < self.cost[block]
            nearest[block[is_better]] = classes[best[is_better]]
            nearest_cost[block[is_better]] = cost[is_better]

        held = np.bincount(self.target, problem.mass, len(self.rows)).astype(np.int64)
        saving = self.cost - nearest_cost
        move_savers(self.target, nearest, saving, problem.mass, held - problem.k)
        self.cost = np.where(self.target == nearest, nearest_cost, self.cost)

    def _climb_in_blocks(self, size: int, round_: int) -> bool:
        """Improve block after block, the costliest first, by climbing; whether all were reached."""
        if not self._may_go_on():
            return False
        # Blocks of whole classes that are near each other; those of too many members are left out.
        problem = self.problem
        opened, class_of = np.unique(self.target, return_inverse=True)
        members = np.bincount(class_of)
        small = np.flatnonzero(members < size)
        enough = np.full(len(small), problem.k)
        of_classes = partition_into_blocks(
            problem, opened[small], members[small], enough, size, round_, self.deadline
        )
        by_class = np.split(np.argsort(class_of, kind="stable"), np.cumsum(members)[:-1])
        blocks = []
        for classes in of_classes:
            of_block = [by_class[number] for number in np.searchsorted(opened, classes)]
            blocks.append(np.sort(np.concatenate(of_block)))
        blocks.sort(key=lambda block: -float(self.cost[block].mean()))
        for block in blocks:
            if not self._may_go_on():
                return False
            is_short = all(len(problem.texts[row]) <= MOST_EVENTS for row in block)
            # A class may gather on a variant whose own cases are in a class elsewhere.
            is_whole = len(block) <= 2 * size and np.isin(self.target[block], block).all()
            if is_short and is_whole:
                self.work_left -= _PAIRS_OF_A_CLIMB * len(block) ** 2
                costs = MoveCosts.of(problem.restricted_to(block), "kanon/optimal")
                start = np.searchsorted(block, self.target[block])
                climbed = climb_hill(costs, start, self.deadline)
                if costs.total_cost(start) > costs.total_cost(climbed):
                    self.target[block] = block[climbed]
                    self.cost[block] = costs.of_each(climbed)
            self.progress.report(f"improving an answer of {self.cost.sum():,} edits")
        return True


# --- logs of a long tail

_ROWS_AT_ONCE: Final = 64
_ALWAYS_COMPARED: Final = 500
_ALL_PAIRS_PER_SECOND: Final = 1_000_000
"""Pairs of all variants that a second suffices for: distances, bounds, programs over them."""
_SHARE_FOR_SEARCH: Final = 0.75
"""Of the time; the bound has what is left."""


def compares_all_pairs(problem: KAnonymityProblem, seconds: float) -> bool:
    """Whether all pairs of variants are compared with each other: up to 500 variants, and up to
    6,000 where the time suffices, unless a case is so long that distances do not fit 16 bits.
    """
    variants = len(problem.texts)
    fits_time = variants <= _ALWAYS_COMPARED or variants**2 <= _ALL_PAIRS_PER_SECOND * seconds
    longest = max(map(len, problem.texts), default=0)
    return variants <= MOST_VARIANTS and fits_time and longest <= MOST_EVENTS


def solve_long_tail(
    problem: KAnonymityProblem,
    seconds: float,
    deadline: Deadline,
    *,
    split_cases: bool,
) -> Solution:
    """An answer that moves whole variants, found block by block, and a bound."""
    begun = deadline.clock()
    share = deadline.share(_SHARE_FOR_SEARCH)
    found = search_in_blocks(problem, _SHARE_FOR_SEARCH * seconds, share)
    nearest, compared = nearest_distances(problem, (1 - _SHARE_FOR_SEARCH) * seconds, deadline)
    constraints = CoverConstraints.of(problem, split_cases=split_cases)
    bound = bound_from_nearest(problem, constraints, nearest, deadline)
    above = relative_gap(edit_cost(problem, found.assignment), bound) or 0.0
    reason = f"{found.stop_reason} ({seconds:.3g} s), within {above:.0%} of the least possible"
    figures: dict[str, JsonValue] = {
        "seconds": round(deadline.clock() - begun, 2),
        "bound_proved": "in whole numbers, from how far variants are from the nearest other one",
        "bound_in_whole_numbers": bound,
        "variants_compared_with_all": compared,
    }
    return Solution(found.assignment, bound, reason, figures)


def nearest_distances(
    problem: KAnonymityProblem, seconds: float, deadline: Deadline
) -> tuple[Ints, int]:
    """How far each variant is from any other one at least: int64, shape (variants,); and how many
    were compared with all others, as many as ``seconds`` worth of work suffice for. Of the others
    is known without looking that they are an edit apart.
    """
    every = np.arange(len(problem.texts))
    nearest = np.ones_like(every)
    compared = min(len(every), int(seconds * PAIRS_PER_SECOND) // max(len(every), 1))
    for start in range(0, compared, _ROWS_AT_ONCE):
        if deadline.is_over:
            return nearest, start
        rows = every[start : min(start + _ROWS_AT_ONCE, compared)]
        nearest[rows] = least_to_another(problem.distances.between(rows, every))
    return nearest, compared

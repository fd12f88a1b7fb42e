"""A k-anonymous answer for any number of variants, within any time: block by block.

All pairs of 100,000 variants are 10^10 distances. Here only variants of one block are compared
(module ``blocks``); blocks overlap from round to round, so that classes move across their borders.

The work is counted in pairs that are compared, and a search may make as many as its seconds allow
on a slow machine: where it ends by that count, the answer follows from the variants and the
options alone. The clock ends it only on a machine that is slower still.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.log.sequences import EditDistances
from cloakwork.mechanisms.kanon.block_merging import NO_VARIANT, BlockBatch, merge_in_blocks
from cloakwork.mechanisms.kanon.blocks import consecutive_groups, partition_into_blocks
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.hill_climbing import climb_hill
from cloakwork.mechanisms.kanon.problem import Assignment, KAnonymityProblem
from cloakwork.mechanisms.kanon.whole_variants import MoveCosts, RateLimitedProgress

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
_WASTE_WEIGHT: Final = 2.0
_GROWTH: Final = 4
"""How much larger blocks are in which variants look for the nearest class: only the classes are
compared with all.
"""
_LEAST_GAIN: Final = 0.005
"""Share of the cost that a round must save for another one to follow."""


@dataclass(frozen=True, slots=True)
class BlockAnswer:
    """Where each variant goes (int64, shape (variants,)), and why the search ended."""

    target: Ints
    stop_reason: str


def search_in_blocks(problem: KAnonymityProblem, seconds: float, deadline: Deadline) -> BlockAnswer:
    """A k-anonymous answer, improved until ``seconds`` worth of work is done, nothing is gained, or
    ``deadline`` is over. ``problem`` must be feasible.

    The first answer takes n log n steps and is complete whatever the clock says: what was not
    merged by then gathers in consecutive groups of near variants.
    """
    search = _BlockSearch(problem, seconds, deadline)
    search.find_first_answer()
    search.improve()
    return BlockAnswer(search.target, search.stop_reason())


class _BlockSearch:
    """One search. ``target``: the best answer so far; ``cost``: int64, shape (variants,), what each
    variant costs in it; ``work_left``: in pairs.
    """

    def __init__(self, problem: KAnonymityProblem, seconds: float, deadline: Deadline) -> None:
        self.problem, self.seconds, self.deadline = problem, seconds, deadline
        variants = len(problem.texts)
        self.target = np.arange(variants)
        self.cost = np.zeros(variants, np.int64)
        work = min(seconds, 86_400.0) * PAIRS_PER_SECOND
        self.work_left = work
        fitting = int(_SHARE_FOR_FIRST_ANSWER * work / max(variants, 1))
        self.block_size = min(max(fitting, _SMALLEST_BLOCK), _LARGEST_BLOCK)
        self.progress = RateLimitedProgress()
        self.has_converged = False

    def find_first_answer(self) -> None:
        """Merge in blocks of all variants."""
        problem = self.problem
        rows = np.arange(len(problem.texts))
        blocks = partition_into_blocks(
            problem,
            rows,
            np.ones_like(rows),
            problem.mass,
            self.block_size,
            0,
            self.deadline,
        )
        # Half of the time at most, so that blocks of a slow machine gather without comparisons.
        merging = self.deadline.share(0.5)
        for batch in self._batches_of(blocks):
            if merging.is_over or len(batch[0]) > self.block_size:
                self._gather_consecutive(batch)
            else:
                for block, target in zip(batch, self._merged(batch), strict=True):
                    self.target[block] = target
            self.progress.report(f"{self.cost.sum():,} edits so far")
        self._measure()

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
                self.has_converged = size >= min(_LARGEST_CLIMBING_BLOCK, len(self.target))
                size *= 2

    def stop_reason(self) -> str:
        """Why the search ended."""
        if self.deadline.is_over:
            return "the time was used up"
        if self.has_converged:
            return "no block of near variants gave more"
        return "the work that the time allows was done"

    def _may_go_on(self) -> bool:
        return self.work_left > 0 and not self.deadline.is_over

    def _measure(self) -> None:
        rows = np.arange(len(self.target))
        distance = self.problem.distances.pairs(rows, self.target)
        self.cost = distance * self.problem.cases

    def _batches_of(self, blocks: list[Ints]) -> Iterator[list[Ints]]:
        """Blocks of similar length, as many as are merged together."""
        in_order = sorted(blocks, key=len)
        batch: list[Ints] = []
        for block in in_order:
            places = len(block)
            is_full = batch and (len(batch) + 1) * places**2 > _CELLS_AT_ONCE
            if is_full or (batch and len(batch[0]) <= self.block_size < places):
                yield batch
                batch = []
            batch.append(block)
        if batch:
            yield batch

    def _gather_consecutive(self, batch: list[Ints]) -> None:
        """Groups of mass k in the order of each block, each on its most frequent variant."""
        problem = self.problem
        for block in batch:
            group = consecutive_groups(problem.mass[block], problem.k)
            order = np.lexsort((np.arange(len(block)), -problem.cases[block], group))
            first = np.flatnonzero(np.diff(group[order], prepend=-1))
            self.target[block] = block[order[first]][group]

    def _merged(self, batch: list[Ints]) -> list[Ints]:
        """Where merging sends the variants of each block."""
        problem = self.problem
        places = max(map(len, batch))
        shape = (len(batch), places)
        distance = np.zeros((*shape, places), np.int64)
        cases, mass = np.zeros(shape, np.int64), np.full(shape, NO_VARIANT)
        for number, block in enumerate(batch):
            size = len(block)
            distance[number, :size, :size] = problem.distances.between(block, block)
            cases[number, :size] = problem.cases[block]
            mass[number, :size] = problem.mass[block]
        self.work_left -= distance.size
        found = merge_in_blocks(BlockBatch(distance, cases, mass), problem.k, _WASTE_WEIGHT)
        return [block[found[number, : len(block)]] for number, block in enumerate(batch)]

    def _move_to_nearest(self, round_: int) -> None:
        """Move variants to the nearest class of their block, where the class that they leave holds
        mass k without them; those that save most come first.
        """
        problem = self.problem
        rows = np.arange(len(problem.texts))
        blocks = partition_into_blocks(
            problem,
            rows,
            np.ones_like(rows),
            np.full_like(rows, problem.k),
            _GROWTH * self.block_size,
            round_,
            self.deadline,
        )
        is_class = np.bincount(self.target, minlength=len(rows)) > 0
        nearest, nearest_cost = self.target.copy(), self.cost.copy()
        for block in blocks:
            classes = block[is_class[block]]
            if not self._may_go_on():
                break
            if not len(classes) or len(block) > _GROWTH * self.block_size:
                continue
            self.work_left -= len(block) * len(classes)
            distance = problem.distances.between(block, classes)
            best = distance.argmin(axis=1)
            cost = distance[np.arange(len(block)), best] * problem.cases[block]
            is_better = cost < self.cost[block]
            nearest[block[is_better]] = classes[best[is_better]]
            nearest_cost[block[is_better]] = cost[is_better]
        self._make_moves(nearest, nearest_cost)

    def _make_moves(self, nearest: Ints, nearest_cost: Ints) -> None:
        saving = self.cost - nearest_cost
        movers = np.flatnonzero(saving > 0)
        held = np.bincount(self.target, self.problem.mass, len(self.target)).astype(np.int64)
        surplus = (held - self.problem.k).tolist()
        mass, targets = self.problem.mass.tolist(), self.target.tolist()
        for mover in movers[np.argsort(-saving[movers], kind="stable")].tolist():
            leaves, joins = targets[mover], int(nearest[mover])
            if mass[mover] <= surplus[leaves]:
                surplus[leaves] -= mass[mover]
                surplus[joins] += mass[mover]
                self.target[mover], self.cost[mover] = joins, nearest_cost[mover]

    def _blocks_of_classes(self, size: int, round_: int) -> list[Ints]:
        """Blocks of whole classes that are near each other: their members and targets; classes of
        more than ``size`` members are left out.
        """
        problem = self.problem
        opened, class_of = np.unique(self.target, return_inverse=True)
        members = np.bincount(class_of)
        small = np.flatnonzero(members < size)
        blocks = partition_into_blocks(
            problem,
            opened[small],
            members[small],
            np.full(len(small), problem.k),
            size,
            round_,
            self.deadline,
        )
        by_class = np.argsort(class_of, kind="stable")
        end = np.cumsum(members)
        return [
            self._members(np.searchsorted(opened, block), by_class, end - members, end)
            for block in blocks
        ]

    def _members(self, classes: Ints, by_class: Ints, start: Ints, end: Ints) -> Ints:
        return np.sort(np.concatenate([by_class[start[c] : end[c]] for c in classes]))

    def _climb_in_blocks(self, size: int, round_: int) -> bool:
        """Improve block after block, a class at a time, the costliest blocks first; whether all
        were reached.
        """
        if not self._may_go_on():
            return False
        blocks = self._blocks_of_classes(size, round_)
        blocks.sort(key=lambda block: -float(self.cost[block].mean()))
        for block in blocks:
            if not self._may_go_on():
                return False
            if len(block) <= 2 * size:
                self._climb(block)
                self.progress.report(f"improving an answer of {self.cost.sum():,} edits")
        return True

    def _climb(self, block: Ints) -> None:
        problem = self.problem
        # A class may gather on a variant whose own cases are in a class elsewhere.
        is_inside = np.isin(self.target[block], block)
        if not is_inside.all():
            return
        self.work_left -= _PAIRS_OF_A_CLIMB * len(block) ** 2
        part = part_of(problem, block)
        costs = MoveCosts.of(part, "kanon/optimal")
        start = np.searchsorted(block, self.target[block])
        found = climb_hill(costs, start, self.deadline)
        saving = costs.total_cost(start) - costs.total_cost(found)
        if saving > 0:
            rows = np.arange(len(block))
            self.target[block] = block[found]
            self.cost[block] = costs.move_cost[rows, found]


def part_of(problem: KAnonymityProblem, rows: Ints) -> KAnonymityProblem:
    """The problem of some variants alone (int64, ascending)."""
    texts = tuple(problem.texts[row] for row in rows)
    return KAnonymityProblem(
        texts,
        problem.cases[rows],
        problem.mass[rows],
        problem.k,
        problem.scope,
        EditDistances(texts, problem.distances.metric),
    )


def whole_moves(problem: KAnonymityProblem, answer: BlockAnswer) -> Assignment:
    """The answer as an assignment."""
    return Assignment.of_targets(problem, answer.target)

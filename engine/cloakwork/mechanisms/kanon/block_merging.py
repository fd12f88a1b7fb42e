"""Merging classes in many blocks of variants at once.

What a single block needs is a few operations on short arrays, again and again; taken for many
blocks together, each step of all of them is one operation on long arrays.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints

_FORBIDDEN: Final = 1 << 60
NO_VARIANT: Final = -1
"""Mass that stands for a place of a block that holds no variant."""


@dataclass(frozen=True, slots=True)
class BlockBatch:
    """Blocks of variants, side by side: each int64, shape (blocks, places).

    ``distance``: shape (blocks, places, places). ``mass``: ``NO_VARIANT`` where a block is shorter
    than others.
    """

    distance: Ints
    cases: Ints
    mass: Ints


def merge_in_blocks(blocks: BlockBatch, k: int, waste_weight: float) -> Ints:
    """Where each variant goes, by its place in its block: int64, shape (blocks, places).

    In each block, as long as a class holds less than k, the merger is made that costs least; the
    merged class gathers on whichever of the two targets costs less. A merger costs its edits, times
    1 + ``waste_weight`` times the share of k that the merged class holds too much: large classes
    are far from their targets. Every block must hold mass k.
    """
    merging = _BlockMerging(blocks, k, waste_weight)
    live = np.flatnonzero(merging.least.min(axis=1, initial=_FORBIDDEN) < _FORBIDDEN)
    while len(live):
        merging.step(live)
        live = live[merging.least[live].min(axis=1) < _FORBIDDEN]
    return merging.targets()


class _BlockMerging:
    """Classes by the place of their first member; the arrays change as classes merge.

    ``gather_cost[b, c, v]``: what gathering all of class c of block b on v costs. ``at``: where
    each class is. ``least``, ``partner``: its cheapest merger; ``is_stale``: whether that must be
    looked for again.
    """

    def __init__(self, blocks: BlockBatch, k: int, waste_weight: float) -> None:
        count, places = blocks.cases.shape
        self.k, self.waste_weight = k, waste_weight
        self.gather_cost = blocks.distance * blocks.cases[:, :, None]
        self.is_class = blocks.mass != NO_VARIANT
        self.mass = np.where(self.is_class, blocks.mass, 0)
        self.at = np.tile(np.arange(places), (count, 1))
        self.joined = self.at.copy()
        self.is_stale = np.zeros((count, places), bool)
        every = np.minimum(self.gather_cost, self.gather_cost.transpose(0, 2, 1))
        cost = self._weigh(every, self.mass[:, :, None], self.mass[:, None, :])
        both = self.is_class[:, :, None] & self.is_class[:, None, :]
        cost = np.where(both & ~np.eye(places, dtype=bool), cost, _FORBIDDEN)
        self.partner = cost.argmin(axis=2)
        least = np.take_along_axis(cost, self.partner[:, :, None], 2)[:, :, 0]
        self.least = np.where(self._is_deficient(slice(None)), least, _FORBIDDEN)

    def step(self, live: Ints) -> None:
        """In each of the ``live`` blocks make the cheapest merger, or look for it again where it is
        out of date.
        """
        chosen = self.least[live].argmin(axis=1)
        merges = ~self.is_stale[live, chosen]
        block, source = live[merges], chosen[merges]
        target = self.partner[block, source]
        self._merge(block, source, target)
        changed = chosen.copy()
        changed[merges] = target
        cost = self._merge_costs(live, changed)
        best = cost.argmin(axis=1)
        least = cost[np.arange(len(live)), best]
        self.partner[live, changed], self.is_stale[live, changed] = best, False
        falls_short = self.mass[live, changed] < self.k
        self.least[live, changed] = np.where(falls_short, least, _FORBIDDEN)
        self._compare_with_merged(block, source, target, cost[merges])

    def targets(self) -> Ints:
        """Where each variant is: int64, shape (blocks, places)."""
        joined = self.joined
        onward = np.take_along_axis(joined, joined, 1)
        while not np.array_equal(onward, joined):
            joined, onward = onward, np.take_along_axis(onward, onward, 1)
        return np.asarray(np.take_along_axis(self.at, joined, 1), np.int64)

    def _merge(self, block: Ints, source: Ints, target: Ints) -> None:
        own, theirs = self.at[block, source], self.at[block, target]
        cost = self.gather_cost
        onto_theirs = cost[block, source, theirs] - cost[block, source, own]
        onto_own = cost[block, target, own] - cost[block, target, theirs]
        self.at[block, target] = np.where(onto_own < onto_theirs, own, theirs)
        cost[block, target] += cost[block, source]
        self.mass[block, target] += self.mass[block, source]
        self.is_class[block, source] = False
        self.least[block, source] = _FORBIDDEN
        self.joined[block, source] = target

    def _merge_costs(self, live: Ints, row: Ints) -> Ints:
        """What merging class ``row`` of each block with each other class costs: int64, shape
        (live, places).
        """
        at = self.at[live]
        own = self.at[live, row]
        own_cost = self.gather_cost[live, row]
        onto_theirs = (
            np.take_along_axis(own_cost, at, 1) - self.gather_cost[live, row, own][:, None]
        )
        block, place = live[:, None], np.arange(at.shape[1])
        onto_own = self.gather_cost[block, place, own[:, None]] - self.gather_cost[block, place, at]
        edits = np.minimum(onto_theirs, onto_own)
        cost = self._weigh(edits, self.mass[live], self.mass[live, row][:, None])
        cost[~self.is_class[live]] = _FORBIDDEN
        cost[np.arange(len(live)), row] = _FORBIDDEN
        return cost

    def _compare_with_merged(self, block: Ints, source: Ints, target: Ints, cost: Ints) -> None:
        """Let other classes know of the class that was just merged."""
        partner, least = self.partner[block], self.least[block]
        is_nearer = self._is_deficient(block) & (cost <= least)
        was_partner = (partner == source[:, None]) | (partner == target[:, None])
        stale = (self.is_stale[block] | was_partner) & ~is_nearer
        stale[np.arange(len(block)), target] = False
        self.is_stale[block] = stale
        self.least[block] = np.where(is_nearer, cost, least)
        self.partner[block] = np.where(is_nearer, target[:, None], partner)

    def _weigh(self, edits: Ints, mass: Ints, other_mass: Ints) -> Ints:
        too_much = np.clip(mass + other_mass - self.k, 0, self.k)
        weight: Floats = 1 + self.waste_weight * too_much / self.k
        return np.asarray(edits * weight, np.int64)

    def _is_deficient(self, blocks: Ints | slice) -> Bools:
        return np.asarray(self.is_class[blocks] & (self.mass[blocks] < self.k))

"""A noisy prefix tree, grown level by level on a kernel's answers.

Activities are coded by their places among the labels that the tree knows: those declared, or those
that were told so far. END, which marks that a case ends, has the code -1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Ints
from cloakwork.base.progress import say
from cloakwork.kernel import AnswerNoise, Cases, Entries, Growth, Kernel, Query
from cloakwork_extras.trees.tree_noise import NoiseKind, Stage, answer_noise, by_level

END: Final = -1
"""The code of no activity: a table with a last entry for the END is indexed by it as it is."""


@dataclass(frozen=True, slots=True)
class TreeLevel:
    """What was kept of one level; ``parent`` and ``leaf_parent`` are rows of the prefixes kept one
    level above.

    A prefix goes on with ``symbol``; a leaf is the END of its parent. ``noisy`` and ``leaf_noisy``
    are their noisy counts.
    """

    parent: Ints
    symbol: Ints
    noisy: Ints
    leaf_parent: Ints
    leaf_noisy: Ints


@dataclass(frozen=True, slots=True)
class Tree:
    """The levels of a noisy tree, and the labels that its codes are places in."""

    levels: tuple[TreeLevel, ...]
    labels: tuple[str, ...]

    @property
    def prefixes(self) -> int:
        """How many were kept."""
        return sum(len(level.symbol) for level in self.levels)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Extensions of the kept prefixes with their noisy counts, all of one level.

    ``paths`` (prefixes, depth): the kept prefixes; ``parent`` the row there and ``symbol`` the code
    that a candidate appends. ``labels``: what codes stand for.
    """

    paths: Ints
    parent: Ints
    symbol: Ints
    noisy: Ints
    depth: int
    labels: tuple[str, ...]


Keep = Callable[[Candidates], Bools]
"""Which candidates are kept, judged by their noisy counts and by what is public: post-processing.
"""


@dataclass(frozen=True, slots=True)
class TreeGrowth:
    """How a tree grows: at the noise of ``shape``, at most ``prefixes`` kept a level.

    Over a public ``alphabet`` candidates are all extensions of the kept prefixes. Without one they
    are those that occur and reach ``least`` (by stage, in cases); ``delta`` is the chance that one
    unit's own prefix does.
    """

    shape: tuple[Stage, ...]
    noise: NoiseKind
    prefixes: int
    alphabet: tuple[str, ...] | None = None
    least: tuple[int, ...] = ()
    delta: float = 0.0

    @property
    def length(self) -> int:
        """Events of a case that are counted: there is a level for each, and one for the END."""
        return sum(stage.levels for stage in self.shape) - 1

    def noise_of_level(self, depth: int) -> AnswerNoise:
        """The noise on each count of the level that has ``depth`` others above it."""
        scale = by_level(self.shape, [stage.scale for stage in self.shape])[depth]
        return answer_noise(self.noise, scale)


def grow_tree(kernel: Kernel, growth: TreeGrowth, keep: Keep) -> Tree:
    """The noisy tree, a level for each event and one for the END of cases of full length; cases are
    cut there, without END.

    It ends where nothing is kept, never for want of real cases.
    """
    growing = kernel.grow(growth.delta)
    paths = np.empty((1, 0), np.int64)
    labels = growth.alphabet or ()
    levels: list[TreeLevel] = []
    for depth in range(growth.length + 1):
        ask = _ask_occurring if growth.alphabet is None else _ask_declared
        candidates = ask(growing, growth, paths, labels)
        labels = candidates.labels
        level, kept = _select_prefixes(candidates, keep(candidates), growth)
        levels.append(level)
        if depth == growth.length or not len(kept):
            break
        growing.keep(kept)
        paths = np.concatenate([paths[level.parent], level.symbol[:, None]], axis=1)
        say(f"prefixes of {depth + 1} events: {len(kept):,} kept")
    return Tree(tuple(levels), labels)


def _ask_declared(
    growing: Growth, growth: TreeGrowth, paths: Ints, labels: tuple[str, ...]
) -> Candidates:
    """Every extension of ``paths`` by one of ``labels`` or the END; on the last level by the END
    alone.
    """
    depth = paths.shape[1]
    noise = growth.noise_of_level(depth)
    end = len(labels)
    among = np.array([end]) if depth == growth.length else None
    level = growing.declared(_next_code(labels, depth), noise, len(labels) + 1, among)
    symbol = np.where(level.extension == end, END, level.extension)
    return Candidates(paths, level.parent, symbol, level.noisy, depth, labels)


def _ask_occurring(
    growing: Growth, growth: TreeGrowth, paths: Ints, labels: tuple[str, ...]
) -> Candidates:
    """The extensions of ``paths`` that occur and reach the threshold; labels told for the first
    time get the next codes.
    """
    depth = paths.shape[1]
    noise = growth.noise_of_level(depth)
    least = int(by_level(growth.shape, growth.least)[depth])
    query = _next_event(depth, only_end=depth == growth.length)
    level = growing.occurring(query, noise, least)
    # Each label once, those known before first.
    known = {label: code for code, label in enumerate(dict.fromkeys((*labels, *level.labels)))}
    codes = np.array([*(known[label] for label in level.labels), END], np.int64)
    return Candidates(paths, level.parent, codes[level.extension], level.noisy, depth, tuple(known))


def _next_code(alphabet: tuple[str, ...], depth: int) -> Query:
    """What follows the first ``depth`` events of each case: the place of an activity in
    ``alphabet``, or the number behind them where the case ends.

    Other activities are passed over. A case without events is no case, so it has no END either.
    """

    def extension_of_case(cases: Cases) -> Entries:
        known = cases.within(alphabet)
        code = np.full(len(known), -1)
        goes_on = known.lengths > depth
        code[goes_on] = known.codes[known.offsets[:-1][goes_on] + depth]
        code[(known.lengths == depth) & (depth > 0)] = len(alphabet)
        return Entries.one_each(known, code)

    return extension_of_case


def _next_event(depth: int, *, only_end: bool) -> Query:
    """What follows the first ``depth`` events of each case: the label of an event, or none where
    the case ends.
    """

    def extension_of_case(cases: Cases) -> Entries:
        goes_on = (cases.lengths > depth) & (not only_end)
        ends = (cases.lengths == depth) & (depth > 0)
        rows = np.flatnonzero(goes_on | ends)
        start = cases.offsets[:-1][rows] + depth
        return Entries(rows, np.ones(len(rows), np.int64), None, start, start + goes_on[rows])

    return extension_of_case


def _select_prefixes(
    candidates: Candidates, selected: Bools, growth: TreeGrowth
) -> tuple[TreeLevel, Ints]:
    """The level that results, and which candidates are its prefixes: those of the highest noisy
    counts, in their order.

    A case without events is no case, so there is no END on the first level.
    """
    ends = candidates.symbol == END
    leaves = np.flatnonzero(selected & ends & (candidates.depth > 0))
    goes_on = np.flatnonzero(selected & ~ends)
    if len(goes_on) > growth.prefixes:
        highest = np.argsort(-candidates.noisy[goes_on], kind="stable")[: growth.prefixes]
        goes_on = np.sort(goes_on[highest])
    level = TreeLevel(
        parent=candidates.parent[goes_on],
        symbol=candidates.symbol[goes_on],
        noisy=candidates.noisy[goes_on],
        leaf_parent=candidates.parent[leaves],
        leaf_noisy=candidates.noisy[leaves],
    )
    return level, goes_on

"""A noisy prefix tree: the noise on its levels and what it costs; how it grows, level by level, on
a kernel's answers; and variants whose counts agree, which are made of it (post-processing).

Activities are coded by their places among the labels that the tree knows: those declared, or those
that were told so far. END, which marks that a case ends, has the code -1.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Final, Literal, TypeVar

import numpy as np
from pydantic import Field

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.costs import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    PrivacyEvent,
    Repeated,
)
from cloakwork.base.exact import drawn_scale, drawn_sigma
from cloakwork.base.frozen import frozen
from cloakwork.base.progress import say
from cloakwork.base.quantities import Frozen, Number
from cloakwork.kernel import (
    AnswerNoise,
    Cases,
    Entries,
    Gaussian,
    Growth,
    Kernel,
    Laplace,
    Query,
    Randomness,
)
from cloakwork.kernel.noises import gaussian_tail, laplace_tail

NoiseKind = Literal["gaussian", "laplace"]
T = TypeVar("T")


class Stage(Frozen):
    """Consecutive levels of the tree that share their noise: ``levels`` of them, at ``scale`` (or
    sigma) in cases.
    """

    levels: Annotated[int, Field(ge=1)]
    scale: Annotated[Number, Field(gt=0)]


def level_stages(levels: int, split: Literal["uniform", "geometric"]) -> tuple[Stage, ...]:
    """``levels`` levels in stages of relative scale 1 and less.

    ``geometric``: up to four stages of about as many levels, each with 2**(-1/3) times the noise of
    the one before it, since counts get smaller as prefixes get longer (Cormode, Procopiuc,
    Srivastava, Shen and Yu 2012, section 4.2).
    """
    if split == "uniform":
        return (Stage(levels=levels, scale=1.0),)
    count = min(4, levels)
    size, rest = divmod(levels, count)
    stages = []
    for number in range(count):
        # What the division leaves goes to the first stages, a level each.
        own = size + 1 if number < rest else size
        stages.append(Stage(levels=own, scale=2 ** (-number / 3)))
    return tuple(stages)


def by_level(shape: Sequence[Stage], of_stage: Sequence[T]) -> list[T]:
    """What each stage has, once for each of its levels, from the first level on."""
    pairs = zip(shape, of_stage, strict=True)
    return [each for stage, each in pairs for _ in range(stage.levels)]


def with_scale(shape: Sequence[Stage], scale: float, noise: NoiseKind) -> tuple[Stage, ...]:
    """The stages with their relative scales times ``scale``, as they are really drawn."""
    as_drawn = drawn_sigma if noise == "gaussian" else drawn_scale
    stages = []
    for stage in shape:
        scaled = as_drawn(scale * stage.scale)
        stages.append(Stage(levels=stage.levels, scale=scaled))
    return tuple(stages)


def cost_of(shape: Sequence[Stage], noise: NoiseKind, max_cases: int) -> PrivacyEvent:
    """One noisy count a level, moved by ``max_cases``: a case touches one count of each level at
    most.
    """
    events = []
    for stage in shape:
        level = _count_event(stage, noise, max_cases)
        events.append(Repeated(times=stage.levels, event=level))
    return Composed(events=tuple(events))


def _count_event(stage: Stage, noise: NoiseKind, max_cases: int) -> PrivacyEvent:
    if noise == "gaussian":
        return DiscreteGaussian(sigma=stage.scale, sensitivity=max_cases)
    return DiscreteLaplace(scale=stage.scale, sensitivity=max_cases)


def tail_probability(scale: float, at_least: int, noise: NoiseKind) -> float:
    """An upper bound on Pr[noise >= at_least] for ``at_least`` of 1 or more."""
    tail = gaussian_tail if noise == "gaussian" else laplace_tail
    return tail(scale, at_least)


def least_tail_value(scale: float, probability: float, noise: NoiseKind) -> int:
    """The least integer, 1 or more, that noise reaches with at most ``probability`` (in (0, 1)) by
    the bound of ``tail_probability``.
    """
    # Doubling until the tail is small enough, then bisection.
    low, high = 0, 1
    while tail_probability(scale, high, noise) > probability:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if tail_probability(scale, middle, noise) <= probability:
            high = middle
        else:
            low = middle
    return high


def answer_noise(kind: NoiseKind, scale: float) -> Gaussian | Laplace:
    """The noise on each count, as a kernel draws it."""
    return Gaussian(scale) if kind == "gaussian" else Laplace(scale)


END: Final = -1
"""The code of no activity: a table with a last entry for the END is indexed by it as it is."""


@frozen
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


@frozen
class Tree:
    """The levels of a noisy tree, and the labels that its codes are places in."""

    levels: tuple[TreeLevel, ...]
    labels: tuple[str, ...]

    @property
    def prefixes(self) -> int:
        """How many were kept."""
        return sum(len(level.symbol) for level in self.levels)


@frozen
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


@frozen
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
        # Public labels: every extension is asked for; else only those that occur can be.
        ask = _ask_occurring if growth.alphabet is None else _ask_declared
        candidates = ask(growing, growth, paths, labels)
        labels = candidates.labels
        level, kept = _select_prefixes(candidates, keep(candidates), growth)
        levels.append(level)
        # Where nothing is kept nothing can follow; what is kept goes by noisy counts alone.
        if depth == growth.length or not len(kept):
            break
        growing.keep(kept)
        paths = np.concatenate([paths[level.parent], level.symbol[:, None]], axis=1)
        say(f"prefixes of {depth + 1} events: {len(kept):,} kept")
    return Tree(tuple(levels), labels)


def _ask_declared(
    growing: Growth,
    growth: TreeGrowth,
    paths: Ints,
    labels: tuple[str, ...],
) -> Candidates:
    """Every extension of ``paths`` by a label or the END; at the last level, the END alone."""
    depth = paths.shape[1]
    noise = growth.noise_of_level(depth)
    end = len(labels)
    # On the last level a case can only end.
    among = np.array([end]) if depth == growth.length else None
    level = growing.declared(_next_code(labels, depth), noise, len(labels) + 1, among)
    symbol = np.where(level.extension == end, END, level.extension)
    return Candidates(paths, level.parent, symbol, level.noisy, depth, labels)


def _ask_occurring(
    growing: Growth,
    growth: TreeGrowth,
    paths: Ints,
    labels: tuple[str, ...],
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
        # What follows: the next event, or the END exactly where the case is as long as the prefix.
        goes_on = known.lengths > depth
        code[goes_on] = known.codes[known.offsets[:-1][goes_on] + depth]
        code[(known.lengths == depth) & (depth > 0)] = len(alphabet)
        return Entries.one_each(known, code)

    return extension_of_case


def _next_event(depth: int, *, only_end: bool) -> Query:
    """What follows ``depth`` events of each case: a label, or none where the case ends."""

    def extension_of_case(cases: Cases) -> Entries:
        goes_on = (cases.lengths > depth) & (not only_end)
        ends = (cases.lengths == depth) & (depth > 0)
        rows = np.flatnonzero(goes_on | ends)
        start = cases.offsets[:-1][rows] + depth
        return Entries(rows, np.ones(len(rows), np.int64), None, start, start + goes_on[rows])

    return extension_of_case


def _select_prefixes(
    candidates: Candidates,
    selected: Bools,
    growth: TreeGrowth,
) -> tuple[TreeLevel, Ints]:
    """The level that results, and which candidates are its prefixes: those of the highest noisy
    counts, in their order.

    A case without events is no case, so there is no END on the first level.
    """
    ends = candidates.symbol == END
    leaves = np.flatnonzero(selected & ends & (candidates.depth > 0))
    goes_on = np.flatnonzero(selected & ~ends)
    # The most frequent by noisy counts, then back in the order of the tree.
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


MOST_EVENTS: Final = 50_000_000
"""Events of one release; a tree of more is scaled down, so that noise alone cannot fill the memory.
"""


def consistent_variants(
    tree: Tree,
    most_cases: int | None,
    randomness: Randomness,
) -> tuple[list[tuple[str, ...]], Ints]:
    """Variants of a noisy tree, and whole counts that agree with one another: int64, at least 1.

    A prefix without any kept END below it is left out. From the top down, the cases of a prefix are
    shared among what is left below it in proportion to the noisy counts: as many cases as begin
    with a prefix go on from it or end. All cases together are the noisy counts of the first level,
    at most ``most_cases``.

    Shares are whole by systematic rounding: cases lie side by side on a line, in the tree's order,
    and one is taken at every integer from a random start; every prefix gets its share, up or down
    to the next integer, and on average exactly.
    """
    levels = tree.levels
    has_leaf = _has_leaf_below(levels)
    if not has_leaf[0].any():
        return [], np.zeros(0, np.int64)
    total = float(levels[0].noisy.sum())
    # Noise alone could make any number of cases: no more than there can be.
    if most_cases:
        total = min(total, float(most_cases))
    leaves = _allocate_cases(levels, has_leaf, total)
    # A leaf at depth d is the END of a variant of d events.
    events = sum(float(share.sum()) * depth for depth, (_, share) in enumerate(leaves))
    # Scaled alike everywhere, so that the shares stay.
    shrink = min(1.0, MOST_EVENTS / max(events, 1.0))
    shift = float(randomness.uniform(np.array([1 << 53]))[0]) / (1 << 53)
    variants: list[tuple[str, ...]] = []
    counts: list[int] = []
    for depth, (start, share) in enumerate(leaves):
        # How many integers lie between the leaf's ends on the shifted line.
        first = np.floor(start * shrink + shift)
        last = np.floor((start + share) * shrink + shift)
        cases = (last - first).astype(np.int64)
        rows = np.flatnonzero(cases > 0)
        for path in _paths_of_leaves(levels, depth, rows):
            variants.append(tuple(tree.labels[code] for code in path))
        counts += cases[rows].tolist()
    return variants, np.array(counts, np.int64)


def _has_leaf_below(levels: Sequence[TreeLevel]) -> list[Bools]:
    """For each level's prefixes whether a kept END lies below them."""
    found: list[Bools] = []
    # From the bottom up: what a prefix has below it is known before itself.
    for depth in reversed(range(len(levels))):
        has_leaf = np.zeros(len(levels[depth].parent), bool)
        if depth + 1 < len(levels):
            below = levels[depth + 1]
            below_has_leaf = found[-1]
            has_leaf[below.leaf_parent] = True
            has_leaf[below.parent[below_has_leaf]] = True
        found.append(has_leaf)
    return found[::-1]


def _allocate_cases(
    levels: Sequence[TreeLevel],
    has_leaf: Sequence[Bools],
    total: float,
) -> list[tuple[Floats, Floats]]:
    """Where on a line of ``total`` cases each leaf's begin, and how many there are."""
    # Of each prefix of the level above: where its cases start, and how many there are.
    start, mass = np.zeros(1), np.array([total])
    leaves: list[tuple[Floats, Floats]] = []
    for level, with_leaf in zip(levels, has_leaf, strict=True):
        rows = np.flatnonzero(with_leaf)
        ends = len(level.leaf_parent)
        # What a parent's cases are shared among: its END, if kept, and the prefixes below it.
        parent = np.concatenate([level.leaf_parent, level.parent[rows]])
        weight = np.concatenate([level.leaf_noisy, level.noisy[rows]]).astype(np.float64)
        weight_of_parent = np.bincount(parent, weights=weight, minlength=len(mass))
        share = mass[parent] * weight / weight_of_parent[parent]
        begins = start[parent] + _running_sum_within(parent, share)
        leaves.append((begins[:ends], share[:ends]))
        start, mass = np.zeros(len(with_leaf)), np.zeros(len(with_leaf))
        start[rows], mass[rows] = begins[ends:], share[ends:]
    return leaves


def _running_sum_within(group: Ints, values: Floats) -> Floats:
    """For each value the sum of those that stand before it in its ``group``: float64."""
    order = np.argsort(group, kind="stable")
    grouped = group[order]
    # The running sum of all values, less that at the first one of the same group.
    before = np.cumsum(values[order]) - values[order]
    first = np.searchsorted(grouped, grouped)
    found = np.empty(len(values))
    found[order] = before - before[first]
    return found


def _paths_of_leaves(levels: Sequence[TreeLevel], depth: int, rows: Ints) -> Ints:
    """The variants (rows, depth) that end in these leaves of the level at ``depth``."""
    paths = np.empty((len(rows), depth), np.int64)
    prefix = levels[depth].leaf_parent[rows]
    # Upwards, from each prefix to the one above it.
    for above in reversed(range(depth)):
        paths[:, above] = levels[above].symbol[prefix]
        prefix = levels[above].parent[prefix]
    return paths

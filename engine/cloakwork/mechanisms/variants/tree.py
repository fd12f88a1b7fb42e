"""A noisy prefix tree: grown level by level on charged counts, then turned into variants whose
counts agree.

Both halves are separate: ``grow_tree`` is all that reads the log, and reads it only through noise;
``consistent_variants`` works on the noisy tree alone. A variant is coded by the places of its
activities in the alphabet; END marks that a case ends there and has the code after the last
activity's.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import numpy as np
import polars as pl
from pydantic import Field

from cloakwork.arrays import Bools, Floats, Ints
from cloakwork.mechanisms.aggregates import CASES, VARIANT
from cloakwork.mechanisms.variants.family import EMPTY_RELEASE, variant_table
from cloakwork.noise import Noise, drawn_scale, drawn_sigma
from cloakwork.privacy_event import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    PrivacyEvent,
    Repeated,
)
from cloakwork.progress import say
from cloakwork.quantities import Frozen, Number

NoiseKind = Literal["gaussian", "laplace"]

MOST_EVENTS: Final = 50_000_000
"""Events of one release; a tree of more is scaled down, so that noise alone cannot fill the memory.
"""

_LARGEST_NOISE: Final = 1 << 60


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
    count = 1 if split == "uniform" else min(4, levels)
    least, rest = divmod(levels, count)
    sizes = [least + 1 if stage < rest else least for stage in range(count)]
    return tuple(Stage(levels=size, scale=2 ** (-stage / 3)) for stage, size in enumerate(sizes))


def with_scale(shape: Sequence[Stage], scale: float, noise: NoiseKind) -> tuple[Stage, ...]:
    """The stages with their relative scales times ``scale``, as they are really drawn."""
    as_drawn = drawn_sigma if noise == "gaussian" else drawn_scale
    return tuple(Stage(levels=stage.levels, scale=as_drawn(scale * stage.scale)) for stage in shape)


def cost_of(shape: Sequence[Stage], noise: NoiseKind, max_cases: int) -> PrivacyEvent:
    """One noisy count a level, moved by ``max_cases``: a case touches one count of each level at
    most.
    """
    events = [
        Repeated(times=stage.levels, event=_count_event(stage, noise, max_cases)) for stage in shape
    ]
    return Composed(events=tuple(events))


def _count_event(stage: Stage, noise: NoiseKind, max_cases: int) -> PrivacyEvent:
    if noise == "gaussian":
        return DiscreteGaussian(sigma=stage.scale, sensitivity=max_cases)
    return DiscreteLaplace(scale=stage.scale, sensitivity=max_cases)


def tail_probability(scale: float, at_least: int, noise: NoiseKind) -> float:
    """An upper bound on Pr[noise >= at_least] for ``at_least`` of 1 or more.

    Gaussian: at most that of the continuous one from ``at_least - 1`` on (Canonne, Kamath and
    Steinke 2020, proposition 25). Laplace: e**(-j/b) / (1 + e**(-1/b)).
    """
    if noise == "gaussian":
        probability = math.erfc((at_least - 1) / (scale * math.sqrt(2))) / 2
    else:
        probability = math.exp(-at_least / scale) / (1 + math.exp(-1 / scale))
    # Rounded up by more than the floating-point functions can err.
    return min(1.0, probability * (1 + 1e-12))


def least_tail_value(scale: float, probability: float, noise: NoiseKind) -> int:
    """The least integer, 1 or more, that noise reaches with at most ``probability`` (in (0, 1)) by
    the bound of ``tail_probability``.
    """
    low, high = 0, 1
    while tail_probability(scale, high, noise) > probability:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle)
            if tail_probability(scale, middle, noise) <= probability
            else (middle, high)
        )
    return high


@dataclass(frozen=True, slots=True)
class CodedVariants:
    """Variants as codes: ``codes`` one after another, ``offsets`` (variants + 1), and ``cases`` of
    each; all int64.
    """

    codes: Ints
    offsets: Ints
    cases: Ints

    @classmethod
    def of(cls, summary: pl.DataFrame, alphabet: Sequence[str]) -> "CodedVariants":
        """The rows of a variant histogram; labels outside of ``alphabet`` are passed over, and
        variants left out where none is left.
        """
        rows = summary.with_row_index("row").explode(VARIANT, empty_as_null=False)
        labels = rows[VARIANT].cast(pl.Enum(list(alphabet)), strict=False)
        known = labels.is_not_null().to_numpy()
        owner = rows["row"].to_numpy()[known].astype(np.int64)
        kept, lengths = np.unique(owner, return_counts=True)
        cases = summary[CASES].to_numpy()[kept].astype(np.int64)
        codes = labels.drop_nulls().to_physical().to_numpy().astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return cls(codes, offsets, cases)

    def next_code(self, rows: Ints, depth: int, end: int) -> Ints:
        """What follows the first ``depth`` events of each of ``rows``, all of them that long: an
        activity, or ``end``.
        """
        lengths = self.offsets[rows + 1] - self.offsets[rows]
        place = np.minimum(self.offsets[rows] + depth, len(self.codes) - 1)
        return np.where(lengths > depth, self.codes[place], end)


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
class Candidates:
    """Extensions of the kept prefixes with their noisy counts, all of one level.

    ``paths`` (prefixes, depth): the kept prefixes; ``parent`` the row there and ``symbol`` the code
    that a candidate appends.
    """

    paths: Ints
    parent: Ints
    symbol: Ints
    noisy: Ints
    depth: int


Keep = Callable[[Candidates], Bools]
"""Which candidates are kept, judged by their noisy counts and by what is public: post-processing.
"""


@dataclass(frozen=True, slots=True)
class TreeGrowth:
    """How a tree grows: at the noise of ``shape``, over ``letters`` activities, at most
    ``prefixes`` kept a level.

    ``count_absent``: candidates are all extensions of the kept prefixes (of a public alphabet);
    else only those that occur, which hides nobody unless ``keep`` asks for a count that one unit's
    own prefix hardly ever reaches.
    """

    shape: tuple[Stage, ...]
    noise: NoiseKind
    letters: int
    prefixes: int
    count_absent: bool

    def scales(self) -> Iterator[float]:
        """The scale of each level, from the first on."""
        for stage in self.shape:
            yield from [stage.scale] * stage.levels


def grow_tree(
    variants: CodedVariants, growth: TreeGrowth, keep: Keep, noise: Noise
) -> list[TreeLevel]:
    """The noisy tree, a level for each event and one for the END of cases of full length; cases are
    cut there, without END.

    Each level draws fresh noise for every candidate. It ends where nothing is kept, never for want
    of real cases.
    """
    end = growth.letters
    depth_of_tree = sum(stage.levels for stage in growth.shape) - 1
    # The variants still followed, and for each the row of its prefix in ``paths``.
    rows = np.arange(len(variants.cases))
    prefix = np.zeros(len(rows), np.int64)
    paths = np.empty((1, 0), np.int64)
    levels: list[TreeLevel] = []
    for depth, scale in enumerate(growth.scales()):
        symbol = variants.next_code(rows, depth, end)
        key = prefix * (end + 1) + symbol
        last = depth == depth_of_tree
        counted = np.flatnonzero(symbol == end) if last else np.arange(len(rows))
        cases = variants.cases[rows[counted]]
        keys, counts = _count_candidates(key[counted], cases, len(paths), last, growth)
        noisy = counts + draw_noise(growth.noise, scale, len(keys), noise)
        candidates = Candidates(paths, keys // (end + 1), keys % (end + 1), noisy, depth)
        level, kept = _select_prefixes(candidates, keep(candidates), growth)
        levels.append(level)
        if last or not len(kept):
            break
        # ``keys`` are sorted: each variant's key is looked up among the kept ones.
        place = np.minimum(np.searchsorted(keys[kept], key), len(kept) - 1)
        is_kept = (keys[kept][place] == key) & (symbol != end)
        rows, prefix = rows[is_kept], place[is_kept]
        paths = np.concatenate([paths[level.parent], level.symbol[:, None]], axis=1)
        say(f"prefixes of {depth + 1} events: {len(kept):,} kept")
    return levels


def draw_noise(kind: NoiseKind, scale: float, size: int, noise: Noise) -> Ints:
    """``size`` draws; held where sums with counts cannot wrap."""
    draw = noise.gaussian_values if kind == "gaussian" else noise.laplace_values
    return np.clip(draw(scale, size), -_LARGEST_NOISE, _LARGEST_NOISE)


def _count_candidates(
    key: Ints, cases: Ints, prefixes: int, last: bool, growth: TreeGrowth
) -> tuple[Ints, Ints]:
    """The candidates' keys, ascending, and how many cases follow each; on the last level they are
    ENDs only.

    ``key`` and ``cases``: of each variant the extension that it takes, and its cases.
    """
    width = growth.letters + 1
    if growth.count_absent:
        keys = np.arange(prefixes * width)
        if last:
            keys = keys[growth.letters :: width]
        counts = np.bincount(key, weights=cases, minlength=prefixes * width)[keys]
    else:
        keys, place = np.unique(key, return_inverse=True)
        counts = np.bincount(place, weights=cases, minlength=len(keys))
    return keys.astype(np.int64), counts.astype(np.int64)


def _select_prefixes(
    candidates: Candidates, selected: Bools, growth: TreeGrowth
) -> tuple[TreeLevel, Ints]:
    """The level that results, and which candidates are its prefixes: those of the highest noisy
    counts, in their order.

    A case without events is no case, so there is no END on the first level.
    """
    ends = candidates.symbol == growth.letters
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


def consistent_variants(
    levels: Sequence[TreeLevel], alphabet: Sequence[str], most_cases: int | None, noise: Noise
) -> pl.DataFrame:
    """Variants and whole counts that agree with one another, of a noisy tree: a table as
    ``variant_table`` makes it.

    A prefix without any kept END below it is left out. From the top down, the cases of a prefix are
    shared among what is left below it in proportion to the noisy counts: as many cases as begin
    with a prefix go on from it or end. All cases together are the noisy counts of the first level,
    at most ``most_cases``.

    Shares are whole by systematic rounding: cases lie side by side on a line, in the tree's order,
    and one is taken at every integer from a random start; every prefix gets its share, up or down
    to the next integer, and on average exactly.
    """
    has_leaf = _has_leaf_below(levels)
    if not has_leaf or not has_leaf[0].any():
        return EMPTY_RELEASE
    total = float(levels[0].noisy.sum())
    if most_cases:
        total = min(total, float(most_cases))
    leaves = _allocate_cases(levels, has_leaf, total)
    events = sum(float(mass.sum()) * depth for depth, (_, mass) in enumerate(leaves))
    shrink = min(1.0, MOST_EVENTS / max(events, 1.0))
    shift = float(noise.uniform(np.array([1 << 53]))[0]) / (1 << 53)
    variants: list[tuple[str, ...]] = []
    counts: list[int] = []
    for depth, (start, mass) in enumerate(leaves):
        # How many integers lie between the leaf's ends on the shifted line.
        cases = np.floor((start + mass) * shrink + shift) - np.floor(start * shrink + shift)
        rows = np.flatnonzero(cases > 0)
        for path in _paths_of_leaves(levels, depth, rows):
            variants.append(tuple(alphabet[code] for code in path))
        counts += cases[rows].astype(np.int64).tolist()
    table = variant_table(variants, counts)
    return table[noise.permutation(table.height)]


def _has_leaf_below(levels: Sequence[TreeLevel]) -> list[Bools]:
    """For each level's prefixes whether a kept END lies below them."""
    found: list[Bools] = []
    for depth in range(len(levels) - 1, -1, -1):
        has_leaf = np.zeros(len(levels[depth].parent), bool)
        if depth + 1 < len(levels):
            below = levels[depth + 1]
            has_leaf[below.leaf_parent] = True
            has_leaf[below.parent[found[-1]]] = True
        found.append(has_leaf)
    return found[::-1]


def _allocate_cases(
    levels: Sequence[TreeLevel], has_leaf: Sequence[Bools], total: float
) -> list[tuple[Floats, Floats]]:
    """Where on the line each leaf's cases start and how many there are, level by level; ``total``
    lie on it.
    """
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
        # A running sum within each parent: the running sum of all, less that at its first child.
        order = np.argsort(parent, kind="stable")
        before = np.cumsum(share[order]) - share[order]
        first = np.searchsorted(parent[order], parent[order])
        begins = np.empty(len(parent))
        begins[order] = start[parent[order]] + before - before[first]
        leaves.append((begins[:ends], share[:ends]))
        start, mass = np.zeros(len(with_leaf)), np.zeros(len(with_leaf))
        start[rows], mass[rows] = begins[ends:], share[ends:]
    return leaves


def _paths_of_leaves(levels: Sequence[TreeLevel], depth: int, rows: Ints) -> Any:
    """The variants (rows, depth) that end in these leaves of the level at ``depth``."""
    paths = np.empty((len(rows), depth), np.int64)
    at = levels[depth].leaf_parent[rows]
    for above in range(depth - 1, -1, -1):
        paths[:, above] = levels[above].symbol[at]
        at = levels[above].parent[at]
    return paths

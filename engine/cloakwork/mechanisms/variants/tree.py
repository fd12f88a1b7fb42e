"""A noisy prefix tree, grown level by level on charged counts.

``grow_tree`` is all that reads the log, and reads it only through noise; ``tree_release`` works on
the noisy tree alone. A variant is coded by the places of its activities in the alphabet; END marks
that a case ends there and has the code after the last activity's.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from cloakwork.arrays import Bools, Ints
from cloakwork.mechanisms.aggregates import CASES, VARIANT
from cloakwork.mechanisms.variants.tree_noise import NoiseKind, Stage, draw_noise
from cloakwork.noise import Noise
from cloakwork.progress import say


@dataclass(frozen=True, slots=True)
class CodedVariants:
    """Variants as codes: ``codes`` one after another, ``offsets`` (variants + 1), and ``cases`` of
    each; all int64.
    """

    codes: Ints
    offsets: Ints
    cases: Ints

    @classmethod
    def from_histogram(cls, summary: pl.DataFrame, alphabet: Sequence[str]) -> "CodedVariants":
        """The rows of a variant histogram; labels outside of ``alphabet`` are passed over, and
        variants left out where none is left.
        """
        events = summary.with_row_index("row").explode(VARIANT, empty_as_null=False)
        # A label's code in the enumeration is its place in the alphabet; others become null.
        labels = events[VARIANT].cast(pl.Enum(list(alphabet)), strict=False)
        known = labels.is_not_null().to_numpy()
        row = events["row"].to_numpy()[known].astype(np.int64)
        kept_rows, lengths = np.unique(row, return_counts=True)
        return cls(
            codes=labels.drop_nulls().to_physical().to_numpy().astype(np.int64),
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            cases=summary[CASES].to_numpy()[kept_rows].astype(np.int64),
        )

    def next_code(self, rows: Ints, depth: int, end: int) -> Ints:
        """What follows the first ``depth`` events of each of ``rows``, all of them that long: an
        activity, or ``end``.
        """
        lengths = self.offsets[rows + 1] - self.offsets[rows]
        # Where the last variant has ended, there is no code at its place: any will do.
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

    def scale_by_level(self) -> Iterator[float]:
        """The scale of each level, from the first on."""
        for stage in self.shape:
            for _ in range(stage.levels):
                yield stage.scale


def grow_tree(
    variants: CodedVariants, growth: TreeGrowth, keep: Keep, noise: Noise
) -> list[TreeLevel]:
    """The noisy tree, a level for each event and one for the END of cases of full length; cases are
    cut there, without END.

    Each level draws fresh noise for every candidate. It ends where nothing is kept, never for want
    of real cases.
    """
    end = growth.letters
    # An extension of the prefix in row p by the code s has the key p * (letters + 1) + s.
    width = growth.letters + 1
    last_depth = sum(stage.levels for stage in growth.shape) - 1
    # The variants still followed, and for each the row of its prefix in ``paths``.
    rows = np.arange(len(variants.cases))
    prefix = np.zeros(len(rows), np.int64)
    paths = np.empty((1, 0), np.int64)
    levels: list[TreeLevel] = []
    for depth, scale in enumerate(growth.scale_by_level()):
        is_last = depth == last_depth
        symbol = variants.next_code(rows, depth, end)
        key = prefix * width + symbol
        counted = symbol == end if is_last else np.ones(len(rows), bool)
        cases = variants.cases[rows[counted]]
        keys, counts = _count_candidates(key[counted], cases, len(paths), is_last, growth)
        noisy = counts + draw_noise(growth.noise, scale, len(keys), noise)
        candidates = Candidates(paths, keys // width, keys % width, noisy, depth)
        level, kept = _select_prefixes(candidates, keep(candidates), growth)
        levels.append(level)
        if is_last or not len(kept):
            break
        # ``keys`` ascend, so the kept ones do: each variant's key is looked up among them.
        kept_keys = keys[kept]
        place = np.searchsorted(kept_keys, key)
        place = np.minimum(place, len(kept) - 1)
        is_kept = (kept_keys[place] == key) & (symbol != end)
        rows, prefix = rows[is_kept], place[is_kept]
        paths = np.concatenate([paths[level.parent], level.symbol[:, None]], axis=1)
        say(f"prefixes of {depth + 1} events: {len(kept):,} kept")
    return levels


def _count_candidates(
    key: Ints, cases: Ints, prefixes: int, is_last: bool, growth: TreeGrowth
) -> tuple[Ints, Ints]:
    """The candidates' keys, ascending, and how many cases follow each; on the last level they are
    ENDs only.

    ``key`` and ``cases``: of each variant the extension that it takes, and its cases.
    """
    width = growth.letters + 1
    if growth.count_absent:
        keys = np.arange(prefixes * width)
        if is_last:
            # The key of a prefix's END is the last one of its ``width`` keys.
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

"""Invented processes: how cases of a stand-in go, from public facts alone.

A process is a table of variants with their frequencies. Frequencies follow what is known, or
supposed, of the most frequent variants; activity sequences are walks over a graph in which each
activity has a usual successor and a few others. It is invented anew for every seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.arrays import Floats, Ints
from cloakwork.mechanisms.profile import ProfileFigures

Labels = tuple[int, ...]
"""An activity sequence, by the positions of the activities in the alphabet."""

RANKS: Final = (1, 10, 100)
"""Numbers of most frequent variants whose share of the cases a shape tells."""

LENGTH_SHARES: Final = (0.5, 0.9, 0.95, 0.99)
"""Shares of the cases up to whose lengths a shape tells."""

_BEYOND: Final = 1.0
"""Exponent by which frequencies fall beyond the last of ``RANKS``."""

_TRIES: Final = 6
"""Walks for each variant that is needed; those that end up the same are counted together."""


@dataclass(frozen=True, slots=True)
class ProcessShape:
    """How alike cases are and how long.

    ``name``: in a few words. ``heads``: the share of cases that the ``RANKS`` most frequent
    variants hold. ``lengths``: the events that a case has at most, at each of ``LENGTH_SHARES``.
    """

    name: str
    heads: tuple[float, ...]
    lengths: tuple[int, ...]

    @property
    def concentration(self) -> float:
        """Between 0, nearly every case a variant of its own, and 1, few variants hold nearly
        all.
        """
        return float(np.clip((self.heads[1] - 0.1) / 0.7, 0.0, 1.0))


USUAL_LENGTHS: Final = (8, 20, 30, 60)
"""Lengths where nothing is declared; none is above a declared longest case."""

FEW: Final = ("few variants hold most cases", (0.3, 0.8, 0.95))
MANY: Final = ("nearly every case is a variant of its own", (0.02, 0.1, 0.25))


def supposed_shapes(longest_case: int | None) -> tuple[ProcessShape, ...]:
    """The two ends of what logs are like, where nothing tells of which kind a log is."""
    longest = longest_case or USUAL_LENGTHS[-1]
    lengths = tuple(min(length, longest) for length in USUAL_LENGTHS)
    return tuple(ProcessShape(name, heads, lengths) for name, heads in (FEW, MANY))


def profiled_shape(figures: ProfileFigures, longest_case: int | None) -> ProcessShape:
    """The shape that a DP profile tells; noise may have put its figures out of order."""
    cases = max(1, figures.cases)
    heads = [figures.top.get(str(rank), 0) / cases for rank in RANKS]
    ordered = np.clip(np.maximum.accumulate(heads), 0.0, 1.0)
    longest = longest_case or 2 * USUAL_LENGTHS[-1]
    lengths, least = list[int](), 1
    for share in LENGTH_SHARES:
        length = figures.lengths.get(str(share)) or longest
        least = max(least, min(length, longest))
        lengths.append(least)
    return ProcessShape("as its DP profile says", tuple(map(float, ordered)), tuple(lengths))


def variant_sizes(shape: ProcessShape, cases: int, draw: np.random.Generator) -> Ints:
    """How many of ``cases`` each variant has, the most frequent first: int64, shape (variants,)."""
    shares = _shares_by_rank(shape, cases)
    sizes = draw.multinomial(cases, np.append(shares, max(0.0, 1.0 - shares.sum())))
    # What no rank holds are variants of one case each.
    return np.concatenate([sizes[:-1][sizes[:-1] > 0], np.ones(sizes[-1], np.int64)])


def _shares_by_rank(shape: ProcessShape, cases: int) -> Floats:
    """The share of the cases at each rank: what a block of ranks holds, spread within it as 1 over
    the rank; beyond the blocks, falling from the last on.
    """
    ranks = np.arange(1, max(cases, RANKS[-1]) + 1)
    shares = np.zeros(len(ranks))
    begin, held = 0, 0.0
    for end, head in zip(RANKS, shape.heads, strict=True):
        weights = 1.0 / ranks[begin:end]
        shares[begin:end] = (head - held) * weights / weights.sum()
        begin, held = end, head
    tail = ranks[begin:]
    if len(tail):
        falling = shares[begin - 1] * (begin / tail) ** _BEYOND
        shares[begin:] = falling * min(1.0, (1.0 - held) / max(falling.sum(), 1e-12))
    # A variant of less than one case on average is no rank of its own.
    shares[shares * cases < 1.0] = 0.0
    return shares


def draw_variants(
    shape: ProcessShape, activities: int, count: int, draw: np.random.Generator
) -> list[Labels]:
    """``count`` different variants of an invented process, those most often walked first.

    Fewer where so many were not found. Activities are 0 to ``activities`` - 1.
    """
    successors, weights = _graph(shape, activities, draw)
    found: dict[Labels, int] = {}
    lengths = _drawn_lengths(shape, _TRIES * count + 100, draw)
    for length in lengths:
        walk = _walk(int(length), successors, weights, draw)
        found[walk] = found.get(walk, 0) + 1
    return sorted(found, key=lambda walk: -found[walk])[:count]


def _graph(
    shape: ProcessShape, activities: int, draw: np.random.Generator
) -> tuple[Ints, Floats]:
    """Each activity's successors, int64, shape (activities, branches), and how likely each is."""
    branches = min(4, activities)
    successors = draw.integers(0, activities, (activities, branches))
    successors[:, 0] = (np.arange(activities) + 1) % activities
    usual = 0.45 + 0.45 * shape.concentration
    others = (1.0 - usual) * np.array([0.55, 0.3, 0.15])
    weights = np.array([usual, *others])[:branches]
    return successors, weights / weights.sum()


def _drawn_lengths(shape: ProcessShape, count: int, draw: np.random.Generator) -> Ints:
    """Events of cases: evenly drawn between the quantiles that the shape tells."""
    shares = (0.0, *LENGTH_SHARES, 1.0)
    median = shape.lengths[0]
    ends = (max(1.0, median / 2), *shape.lengths, shape.lengths[-1])
    drawn = np.interp(draw.random(count), shares, ends)
    return np.maximum(1, np.rint(drawn)).astype(np.int64)


def _walk(
    length: int, successors: Ints, weights: Sequence[float] | Floats, draw: np.random.Generator
) -> Labels:
    """A walk of so many activities from the first one on."""
    choices = draw.choice(len(weights), size=length, p=weights)
    here, labels = 0, [0]
    for choice in choices[1:]:
        here = int(successors[here, choice])
        labels.append(here)
    return tuple(labels)

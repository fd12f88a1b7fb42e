"""Invented processes: how cases of a stand-in go, from public facts alone.

A process is a table of variants with their frequencies. Frequencies follow what is known, or
supposed, of the most frequent variants; activity sequences are walks over a graph in which each
activity has a usual successor and a few others. It is invented anew for every seed.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.mechanisms.profile import ProfileFigures

Labels = tuple[int, ...]
"""An activity sequence, by the positions of the activities in the alphabet."""

RANKS: Final = (1, 10, 100)
"""Numbers of most frequent variants whose share of the cases a shape tells."""

LENGTH_SHARES: Final = (0.5, 0.9, 0.95, 0.99)
"""Shares of the cases up to whose lengths a shape tells."""

_BEYOND: Final = 1.0
"""Exponent by which frequencies fall beyond the last of ``RANKS``."""

_LONGER_THAN_MEDIAN: Final = (1, 3, 4, 8)
"""How many times the median the lengths at ``LENGTH_SHARES`` are at most."""

_REPEATED: Final = 3
"""Activities that long cases repeat."""

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

FEW: Final = ("few variants hold most cases", (0.45, 0.9, 0.99))
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
    median = figures.lengths.get(str(LENGTH_SHARES[0])) or USUAL_LENGTHS[0]
    for share, times in zip(LENGTH_SHARES, _LONGER_THAN_MEDIAN, strict=True):
        # Noise of many empty bins drives the upper quantiles up to the last bins.
        length = min(figures.lengths.get(str(share)) or longest, times * median)
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
    process = _InventedProcess.drawn(shape, activities, draw)
    found: dict[Labels, int] = {}
    for length in _drawn_lengths(shape, _TRIES * count + 100, draw):
        walk = process.walk(int(length), draw)
        found[walk] = found.get(walk, 0) + 1
    return sorted(found, key=lambda walk: -found[walk])[:count]


def _drawn_lengths(shape: ProcessShape, count: int, draw: np.random.Generator) -> Ints:
    """Events of cases: evenly drawn between the quantiles that the shape tells."""
    shares = (0.0, *LENGTH_SHARES, 1.0)
    median = shape.lengths[0]
    ends = (max(1.0, median / 2), *shape.lengths, shape.lengths[-1])
    drawn = np.interp(draw.random(count), shares, ends)
    return np.maximum(1, np.rint(drawn)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _InventedProcess:
    """A graph of activities, and the few of them that long cases repeat.

    ``successors``: int64, shape (activities, branches); ``weights``: how likely each branch is;
    ``repeated``: activities that are done again and again; ``opening``: events before that.
    """

    successors: Ints
    weights: Floats
    repeated: Ints
    opening: int

    @classmethod
    def drawn(
        cls, shape: ProcessShape, activities: int, draw: np.random.Generator
    ) -> "_InventedProcess":
        """A process of a shape, invented anew."""
        branches = min(4, activities)
        successors = draw.integers(0, activities, (activities, branches))
        successors[:, 0] = (np.arange(activities) + 1) % activities
        usual = 0.45 + 0.45 * shape.concentration
        weights = np.array([usual, *((1.0 - usual) * np.array([0.55, 0.3, 0.15]))])[:branches]
        repeated = draw.permutation(activities)[: min(_REPEATED, activities)]
        opening = max(1, min(activities, (shape.lengths[0] + 1) // 2))
        return cls(successors, weights / weights.sum(), repeated, opening)

    def walk(self, length: int, draw: np.random.Generator) -> Labels:
        """A case of so many events: the opening along the graph, repetitions, and an end."""
        choices = draw.choice(len(self.weights), size=length, p=self.weights)
        again = draw.integers(0, len(self.repeated), length)
        here, labels = 0, [0]
        for place in range(1, length):
            if self.opening <= place < length - 1:
                labels.append(int(self.repeated[again[place]]))
                continue
            here = int(self.successors[here, choices[place]])
            labels.append(here)
        return tuple(labels)

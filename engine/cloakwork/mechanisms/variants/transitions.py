"""What a case contributes to a count of transitions: a vector of bounded length, whatever the case
looks like.

A transition of order o is the o steps before an event (START counts as one) together with the
event, or END. The counts of one case, of at most ``MOST_CELLS`` different transitions, are scaled
to Euclidean norm 1 and rounded down to a grid of 1/``UNIT_NORM``. So long cases count for no more
than short ones, and one case more or less moves a table of transitions by at most ``UNIT_NORM``
grid steps (L2), in at most ``MOST_CELLS`` cells.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from cloakwork.arrays import Ints
from cloakwork.privacy_event import DiscreteGaussian, PrivacyEvent, Repeated

UNIT_NORM: Final = 2**13
"""Grid steps in one case. With sigma above 1,000 steps the accountant charges a whole vector by its
Euclidean norm.
"""

MOST_CELLS: Final = 64
"""Different transitions that one case may count for; those that come first in it."""

_MOST_REPEATS: Final = 2**14


@dataclass(frozen=True, slots=True)
class PaddedVariants:
    """Variants over a public alphabet of A labels, coded 1 to A; 0 is START and A + 1 is END.

    ``symbols``: int64, all variants one after the other, each as START, its labels, END;
    ``variant_of``: int64, same shape, the variant that a step belongs to; ``cases``: int64, shape
    (variants,); ``labels``: A.
    """

    symbols: Ints
    variant_of: Ints
    cases: Ints
    labels: int

    @classmethod
    def from_codes(
        cls, variants: Sequence[Sequence[int]], cases: Ints, labels: int
    ) -> "PaddedVariants":
        """From label codes (1 to A) and how many cases follow each variant."""
        start, end = 0, labels + 1
        padded: list[int] = []
        lengths: list[int] = []
        for variant in variants:
            padded += [start, *variant, end]
            lengths.append(len(variant) + 2)
        variant_of = np.repeat(np.arange(len(variants)), np.array(lengths, np.int64))
        return cls(
            symbols=np.array(padded, np.int64),
            variant_of=variant_of,
            cases=np.asarray(cases, np.int64),
            labels=labels,
        )


@dataclass(frozen=True, slots=True)
class TransitionMasses:
    """Sums over all cases: ``code`` (int64, sorted) names a transition, ``mass`` (int64) its grid
    steps.

    The code of the transition s1, ..., so, next is their number to the base A + 2, most significant
    first.
    """

    code: Ints
    mass: Ints

    def mass_of(self, codes: Ints) -> Ints:
        """The mass of each of ``codes``; 0 where no case has that transition."""
        if not self.code.size:
            return np.zeros(codes.shape, np.int64)
        # ``code`` is sorted: where one of ``codes`` would stand is where it stands, if it is there.
        # One that is larger than all would stand behind the last place, hence the minimum.
        place = np.searchsorted(self.code, codes)
        place = np.minimum(place, self.code.size - 1)
        is_there = self.code[place] == codes
        return np.where(is_there, self.mass[place], 0)


def transition_masses(variants: PaddedVariants, order: int) -> TransitionMasses:
    """The transitions of ``order`` of all cases, each case scaled to norm at most ``UNIT_NORM``:
    time linear in events.
    """
    counted = _count_first_cells(variants, order)
    row = counted["row"].to_numpy()
    count = counted["count"].to_numpy().astype(np.int64)
    weight = _weights_of_norm_one(row, count, len(variants.cases))
    # All cases of a variant have the same vector.
    mass = pl.DataFrame({"code": counted["code"], "mass": weight * variants.cases[row]})
    total = mass.group_by("code").sum().sort("code")
    return TransitionMasses(
        code=total["code"].to_numpy().astype(np.int64),
        mass=total["mass"].to_numpy().astype(np.int64),
    )


def _count_first_cells(variants: PaddedVariants, order: int) -> pl.DataFrame:
    """How often (``count``) each variant (``row``, ascending) has each of its first ``MOST_CELLS``
    transitions (``code``).
    """
    symbols, variant_of = variants.symbols, variants.variant_of
    # A transition is a window of symbols that ends at ``end``; it counts where all of it lies in
    # one variant, which it does where both its ends do.
    end = np.arange(order, symbols.size)
    in_one_variant = variant_of[end] == variant_of[end - order]
    end = end[in_one_variant]
    code = np.zeros(end.size, np.int64)
    for back in range(order, -1, -1):
        code *= variants.labels + 2
        code += symbols[end - back]
    windows = pl.DataFrame({"row": variant_of[end], "code": code})
    # In the order of their first windows: which come first in the case decides what is dropped.
    cells = windows.group_by("row", "code", maintain_order=True).len("count")
    row = cells["row"].to_numpy()
    # A cell's place among those of its variant: rows ascend, so the search finds the first.
    rank = np.arange(row.size) - np.searchsorted(row, row)
    return cells.filter(pl.Series(rank < MOST_CELLS))


def _weights_of_norm_one(row: Ints, count: Ints, rows: int) -> Ints:
    """Each count over the norm of its row's counts, in grid steps, rounded down: int64.

    ``row`` (below ``rows``) and ``count`` have one shape; counts are held at ``_MOST_REPEATS``, so
    that the products below stay an int64.
    """
    count = np.minimum(count, _MOST_REPEATS)
    # Sums of squares stay below 2**53, where floats count exactly.
    norm_squared = np.bincount(row, weights=count * count, minlength=rows).astype(np.int64)
    square = norm_squared[row]
    weight = np.floor(count * (UNIT_NORM / np.sqrt(square))).astype(np.int64)
    # The float may have come out a step too high: integers decide.
    too_high = weight * weight * square > count * count * UNIT_NORM**2
    return np.asarray(weight - too_high)


def vector_noise(sigma: float, norm: int, cells: int) -> PrivacyEvent:
    """Discrete Gaussian noise of ``sigma`` on a vector that moves by at most ``norm`` (L2), in at
    most ``cells`` cells.

    It is charged as ``cells`` counts that each move by s = ceil(norm / sqrt(cells)). That is an
    upper bound where the accountant goes by sums over cells, so for sigma above 1,000 grid steps:
    the squares of the moves add up to at most cells * s**2, hence (Cauchy and Schwarz) the moves to
    at most cells * s.
    """
    move = math.isqrt(norm * norm // cells)
    # The root was rounded down; s is rounded up.
    if move * move * cells < norm * norm:
        move += 1
    return Repeated(times=cells, event=DiscreteGaussian(sigma=sigma, sensitivity=move))

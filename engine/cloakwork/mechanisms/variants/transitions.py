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
    def of(cls, variants: Sequence[Sequence[int]], cases: Ints, labels: int) -> "PaddedVariants":
        """From label codes (1 to A) and how many cases follow each variant."""
        lengths = np.array([len(variant) + 2 for variant in variants], np.int64)
        padded = [code for variant in variants for code in (0, *variant, labels + 1)]
        variant_of = np.repeat(np.arange(len(variants)), lengths)
        symbols = np.array(padded, np.int64)
        return cls(symbols, variant_of, np.asarray(cases, np.int64), labels)


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
        place = np.minimum(np.searchsorted(self.code, codes), self.code.size - 1)
        return np.where(self.code[place] == codes, self.mass[place], 0)


def transition_masses(variants: PaddedVariants, order: int) -> TransitionMasses:
    """The transitions of ``order`` of all cases, each case scaled to norm at most ``UNIT_NORM``:
    time linear in events.
    """
    symbols, variant_of = variants.symbols, variants.variant_of
    end = np.arange(order, symbols.size)
    # A window of symbols counts where all of it lies in one variant.
    end = end[variant_of[end] == variant_of[end - order]]
    code = np.zeros(end.size, np.int64)
    for back in range(order, -1, -1):
        code = code * (variants.labels + 2) + symbols[end - back]
    found = pl.DataFrame({"row": variant_of[end], "code": code})
    own = found.group_by("row", "code", maintain_order=True).len("count")
    rows = own["row"].to_numpy()
    rank = np.arange(rows.size) - np.searchsorted(rows, rows)
    own = own.filter(pl.Series(rank < MOST_CELLS))

    rows = own["row"].to_numpy()
    count = np.minimum(own["count"].to_numpy().astype(np.int64), _MOST_REPEATS)
    norm_squared = np.bincount(rows, weights=count * count, minlength=len(variants.cases))
    square = norm_squared.astype(np.int64)[rows]
    weight = np.floor(count * (UNIT_NORM / np.sqrt(square))).astype(np.int64)
    # The float may have come out a step too high: integers decide.
    weight -= weight * weight * square > count * count * UNIT_NORM**2
    mass = pl.DataFrame({"code": own["code"], "mass": weight * variants.cases[rows]})
    total = mass.group_by("code").sum().sort("code")
    codes = total["code"].to_numpy().astype(np.int64)
    return TransitionMasses(codes, total["mass"].to_numpy().astype(np.int64))


def vector_noise(sigma: float, norm: int, cells: int) -> PrivacyEvent:
    """Discrete Gaussian noise of ``sigma`` on a vector that moves by at most ``norm`` (L2), in at
    most ``cells`` cells.

    It is charged as ``cells`` counts that each move by s = ceil(norm / sqrt(cells)). That is an
    upper bound where the accountant goes by sums over cells, so for sigma above 1,000 grid steps:
    the squares of the moves add up to at most cells * s**2, hence (Cauchy and Schwarz) the moves to
    at most cells * s.
    """
    each = math.isqrt(norm * norm // cells)
    # The root was rounded down; s is rounded up.
    each += each * each * cells < norm * norm
    return Repeated(times=cells, event=DiscreteGaussian(sigma=sigma, sensitivity=each))

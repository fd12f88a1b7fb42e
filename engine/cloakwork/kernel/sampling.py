"""Sums of vectors of which each case counts for a few units, drawn at random by the case for
itself.

What one case draws does not depend on any other. So, whatever all draws are, a unit moves the sum
by its cases times the clip, as with any other clip; the draws' distribution is the same for all
neighbours, so a mechanism that is (epsilon, delta)-DP for each outcome of them is so on the whole.
"""

from typing import Final

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.kernel.vectors import Clip, Sums, Vectors
from cloakwork.noise import Noise

_DRAWS: Final = 1 << 20
"""Units that are drawn at a time."""


def sampled_sums(vectors: Vectors, clip: Clip, weight: Ints, noise: Noise) -> Sums:
    """The sum of the vectors, that of case i ``weight[i]`` times, where of a vector of more units
    than the clip allows so many are drawn, without replacement, each time anew.

    A value of v stands for |v| units. Time is linear in the units drawn; vectors that are short
    enough need no draw.
    """
    most = clip.units
    size = np.abs(vectors.value)
    units = np.zeros(len(weight), np.int64)
    np.add.at(units, vectors.case, size)
    is_long = (units > most)[vectors.case]
    counted = size * weight[vectors.case]
    counted[is_long] = _kept(vectors.case[is_long], size[is_long], most, weight, noise)
    total = np.zeros(len(vectors.keys), np.int64)
    np.add.at(total, vectors.key, np.sign(vectors.value) * counted)
    return Sums(vectors.keys, total)


def _kept(case: Ints, size: Ints, most: int, weight: Ints, noise: Noise) -> Ints:
    """How many units of each entry are kept in all: int64, of the shape of ``case`` (ascending) and
    ``size``.
    """
    rows, first = np.unique(case, return_index=True)
    ends = np.cumsum(size)
    begins = (ends - size)[first]
    units = np.diff(np.append(begins, size.sum()))
    # What is dropped is as random as what is kept: the fewer are drawn.
    drawn = np.minimum(most, units - most)
    hits = np.zeros(len(size), np.int64)
    owner = np.repeat(np.arange(len(rows)), weight[rows])
    chunk = max(1, _DRAWS // most)
    for start in range(0, len(owner), chunk):
        own = owner[start : start + chunk]
        place = _distinct(units[own], drawn[own], noise)
        at = np.repeat(begins[own], drawn[own]) + place
        hits += np.bincount(np.searchsorted(ends, at, side="right"), minlength=len(size))
    is_kept = np.repeat(most <= units - most, np.diff(np.append(first, len(size))))
    return np.where(is_kept, hits, size * weight[case] - hits)


def _distinct(below: Ints, many: Ints, noise: Noise) -> Ints:
    """For each i a uniformly random set of ``many[i]`` integers in [0, ``below[i]``): int64, one
    set after the other.

    What was drawn before is drawn again. No integer is treated otherwise than another, so all sets
    of this size are equally likely.
    """
    begins = np.cumsum(below) - below
    chosen = np.zeros(0, np.int64)
    lacking = many
    while lacking.any():
        row = np.repeat(np.arange(len(below)), lacking)
        drawn = np.sort(begins[row] + noise.uniform(below[row]))
        drawn = drawn[np.diff(drawn, prepend=-1) != 0]
        place = np.minimum(np.searchsorted(chosen, drawn), max(0, len(chosen) - 1))
        new = drawn[chosen[place] != drawn] if len(chosen) else drawn
        # Two ascending runs: a stable sort merges them.
        chosen = np.sort(np.concatenate([chosen, new]), kind="stable")
        found = np.searchsorted(begins, new, side="right") - 1
        lacking = lacking - np.bincount(found, minlength=len(below))
    return chosen - np.repeat(begins, many)

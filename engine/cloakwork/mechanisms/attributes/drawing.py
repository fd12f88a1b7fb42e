"""Values for events and cases drawn from distributions: as many of each as these say, up to
rounding, in random places; an attribute that keeps its value within a case keeps it.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.kernel import Cases, Randomness
from cloakwork.mechanisms.attributes.tables import ValueShares

_FINE: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class Drawn:
    """``codes``: the value of each row, int64, -1 where it is missing. ``origin``: the row that it
    was copied from, int64; the row itself where it was not.
    """

    codes: Ints
    origin: Ints


def draw_values(found: ValueShares, group: Ints, randomness: Randomness) -> Drawn:
    """Values of rows that are of ``group`` (int64, -1 for none of them), in random order."""
    codes = np.full(len(group), -1)
    order = randomness.permutation(len(group))
    order = order[np.argsort(group[order], kind="stable")]
    sizes = np.bincount(group[group >= 0], minlength=len(found.present))
    begin = int((group < 0).sum())
    for place, size in enumerate(sizes.tolist()):
        rows = order[begin : begin + size]
        shares = np.append(found.present[place] * found.shape[place], 1 - found.present[place])
        times = rounded_times(shares * size, randomness)
        codes[rows] = np.repeat(np.append(np.arange(len(shares) - 1), -1), times)
        begin += size
    return Drawn(codes, np.arange(len(group)))


def rounded_times(expected: Floats, randomness: Randomness) -> Ints:
    """Whole numbers with the same total (itself whole), each one of the two next to what is
    expected, and that on average (systematic sampling).
    """
    total = round(float(expected.sum()))
    start = int(randomness.uniform(np.array([_FINE]))[0]) / _FINE
    ends = np.cumsum(expected)
    reached = np.minimum(np.floor(ends + start), total).astype(np.int64)
    if len(reached):
        reached[-1] = total
    return np.diff(reached, prepend=0)


def with_copies(drawn: Drawn, cases: Cases) -> Drawn:
    """The first value of each case in all events of it that have one."""
    has_value = np.flatnonzero(drawn.codes >= 0)
    case = cases.case_of[has_value]
    first = has_value[np.searchsorted(case, case)]
    codes, origin = drawn.codes.copy(), drawn.origin.copy()
    codes[has_value], origin[has_value] = drawn.codes[first], first
    return Drawn(codes, origin)


def with_repeats(
    drawn: Drawn, cases: Cases, group: Ints, rate: float, randomness: Randomness
) -> Drawn:
    """The same values of each group, exchanged between events at the same place of their cases so
    that about a share ``rate`` of them is the value before, as far as there are such.
    """
    codes, origin = drawn.codes.copy(), drawn.origin.copy()
    asking = randomness.coins(rate, len(codes))
    rank = randomness.permutation(len(cases))
    last = np.full(len(cases), -1)
    case_of, place = cases.case_of, cases.place
    rows = np.flatnonzero(codes >= 0)
    rows = rows[np.lexsort((rank[case_of[rows]], place[rows]))]
    bounds = np.flatnonzero(np.diff(place[rows])) + 1
    for all_rows in np.split(rows, bounds):
        # A case's first value stays: others may have been drawn to go with it.
        block = all_rows[last[case_of[all_rows]] >= 0]
        before = last[case_of[block]]
        asks = asking[block]
        values = codes[block][exchanged(codes[block], codes[before], group[block], asks)]
        is_copy = asks & (values == codes[before])
        origin[block] = np.where(is_copy, origin[before], block)
        codes[block] = values
        last[case_of[all_rows]] = all_rows
    return Drawn(codes, origin)


def exchanged(offered: Ints, before: Ints, group: Ints, asks: Bools) -> Ints:
    """Which of the ``offered`` values each row takes, int64: those that ask, that of ``before``
    while there are such in their group; the others, what is left of their group.
    """
    if not len(offered):
        return np.zeros(0, np.int64)
    width = int(max(offered.max(), before.max())) + 1
    supply, demand = group * width + offered, group * width + before
    order = np.argsort(supply, kind="stable")
    rows = np.flatnonzero(asks)
    rows = rows[np.argsort(demand[rows], kind="stable")]
    required = demand[rows]
    # The n-th row that asks for a value takes the n-th that is offered of it.
    place = np.searchsorted(supply[order], required) + _ranks(required)
    inside = np.minimum(place, len(order) - 1)
    is_met = (place < len(order)) & (supply[order][inside] == required)
    taken = np.full(len(offered), -1)
    taken[rows[is_met]] = order[inside[is_met]]
    is_left = np.ones(len(offered), np.bool_)
    is_left[taken[taken >= 0]] = False
    left, without = np.flatnonzero(is_left), np.flatnonzero(taken < 0)
    left = left[np.argsort(group[left], kind="stable")]
    without = without[np.argsort(group[without], kind="stable")]
    taken[without] = left
    return taken


def _ranks(ascending: Ints) -> Ints:
    """The how-manieth of its like each entry is, from 0."""
    return np.arange(len(ascending)) - np.searchsorted(ascending, ascending)

"""What a case contributes to a count of transitions: a vector of bounded length, whatever the case
looks like.

A transition of order o is the o steps before an event (START counts as one) together with the
event, or END. The counts of one case, of at most ``MOST_CELLS`` different transitions, are scaled
to Euclidean norm 1 and rounded down to a grid of 1/``UNIT_NORM``. So long cases count for no more
than short ones, and one case more or less moves a table of transitions by at most ``UNIT_NORM``
grid steps (L2), in at most ``MOST_CELLS`` cells.

Cases are coded over a public alphabet of A labels; in a transition they are 1 to A, 0 is START and
A + 1 is END.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.kernel import Cases, Clip, Entries, Query

UNIT_NORM: Final = 2**13
"""Grid steps in one case. With sigma above 1,000 steps the accountant charges a whole vector by its
Euclidean norm.
"""

MOST_CELLS: Final = 64
"""Different transitions, or activities, that one case may count for; those that come first in it.
"""

WHOLE: Final = Clip("l1", UNIT_NORM, 1)
"""A case counts for one, on one cell."""

SPREAD: Final = Clip("l2", UNIT_NORM, MOST_CELLS)
"""A case counts for a vector of norm 1."""


def transitions_of(order: int) -> Query:
    """The transitions of ``order`` of cases that are coded over the alphabet: time linear in
    events.

    The code of the transition s1, ..., so, next is their number to the base A + 2, most significant
    first. Each counts for ``UNIT_NORM``, so that every vector is at least as long as ``SPREAD``
    allows, and is scaled down to it.
    """

    def transitions(cases: Cases) -> Entries:
        symbol, case = _padded(cases)
        # A transition is a window of symbols that ends at ``end``; it counts where all of it lies
        # in one case, which it does where both its ends do.
        end = np.arange(order, len(symbol))
        end = end[case[end] == case[end - order]]
        code = np.zeros(len(end), np.int64)
        for back in range(order, -1, -1):
            code *= len(cases.alphabet) + 2
            code += symbol[end - back]
        return Entries(case[end], np.full(len(end), UNIT_NORM), code)

    return transitions


def _padded(cases: Cases) -> tuple[Ints, Ints]:
    """All cases one after the other, each as START, its labels, END, and the case of each of these
    symbols; none of cases without events.
    """
    lengths = np.where(cases.lengths > 0, cases.lengths + 2, 0)
    ends = np.cumsum(lengths)
    symbol = np.zeros(lengths.sum(), np.int64)
    symbol[(ends - lengths)[cases.case_of] + 1 + cases.place] = cases.codes + 1
    symbol[ends[lengths > 0] - 1] = len(cases.alphabet) + 1
    return symbol, np.repeat(np.arange(len(cases)), lengths)


def codes_after(contexts: Sequence[Sequence[int]], labels: int) -> Ints:
    """The codes of all transitions from each of ``contexts``, of one order, to each label and END:
    int64, shape (contexts, ``labels`` + 1).
    """
    base = labels + 2
    begin = np.zeros(len(contexts), np.int64)
    for steps in zip(*contexts, strict=True):
        begin = begin * base + np.array(steps, np.int64)
    return begin[:, None] * base + np.arange(1, base)


def nonempty(cases: Cases) -> Entries:
    """One entry for each case with events."""
    rows = np.flatnonzero(cases.lengths)
    return Entries(rows, np.full(len(rows), UNIT_NORM))


def lengths_by(edges: Ints) -> Query:
    """One entry for each case with events: the place of its length, in events, between ``edges``
    (int64, ascending): 0 below the first.
    """

    def lengths(cases: Cases) -> Entries:
        rows = np.flatnonzero(cases.lengths)
        place = np.searchsorted(edges, cases.lengths[rows], side="right")
        return Entries(rows, np.full(len(rows), UNIT_NORM), place.astype(np.int64))

    return lengths


def variant(cases: Cases) -> Entries:
    """One entry for each case with events: its activity sequence."""
    rows = np.flatnonzero(cases.lengths)
    start, stop = cases.offsets[:-1][rows], cases.offsets[1:][rows]
    return Entries(rows, np.full(len(rows), UNIT_NORM), None, start, stop)


def activities(cases: Cases) -> Entries:
    """Each activity of a case, once: that of its first event."""
    _, first = np.unique(cases.case_of * len(cases.alphabet) + cases.codes, return_index=True)
    events = np.sort(first)
    size = np.full(len(events), UNIT_NORM)
    return Entries(cases.case_of[events], size, None, events, events + 1)

"""How well the events of each case match what is known of some of one case's."""

from typing import Final

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.evaluation.coded import HOUR, CodedLog

MISSING: Final = 10**18
"""Microseconds that a known event is taken to be away where no event is left for it: more than any
two times are apart, and of three of them the sum is still an int64."""


def away_from(values: Ints, known: int, resolution: int) -> Ints:
    """How far values lie from the interval of a known one, in microseconds."""
    first = known // resolution * resolution
    return np.asarray(np.maximum(np.maximum(first - values, values - first - resolution + 1), 0))


def least_away(log: CodedLog, known: dict[int, list[int]]) -> Ints:
    """How far the events of each case lie in all from the hours of the known events, when each of
    these is one event of the case, of its activity: int64, shape (cases,); microseconds.

    ``known``: up to three times, by activity. Exact where it is the least of all cases, and
    elsewhere no more than exact: the nearest event for each known one alone is as near at least, so
    that only cases where it is no farther than the least found are looked at in full.
    """
    total = np.zeros(log.cases, np.int64)
    for activity, times in known.items():
        rows, cases, begins = log.occurrences(activity)
        for time in times:
            of_case = np.full(log.cases, MISSING)
            if len(rows):
                of_case[cases] = np.minimum.reduceat(away_from(log.clock[rows], time, HOUR), begins)
            total += of_case
    if all(len(times) == 1 for times in known.values()):
        return total
    likely = np.flatnonzero(total == total.min())
    total[likely] = _matched(log, known, likely)
    likely = np.flatnonzero(total <= total[likely].min())
    total[likely] = _matched(log, known, likely)
    return total


def _matched(log: CodedLog, known: dict[int, list[int]], chosen: Ints) -> Ints:
    """The same of the chosen cases, exactly.

    Intervals of one length are matched best in the order of time (the cost is convex in how far an
    event is from the middle), so a walk along the events of each case decides for each whether it
    is the next known one.
    """
    total = np.zeros(log.cases, np.int64)
    looked_at = np.zeros(log.cases, np.bool_)
    looked_at[chosen] = True
    for activity, times in known.items():
        rows, cases, begins = log.occurrences(activity)
        case = np.repeat(cases, np.diff(np.append(begins, len(rows))))
        rows, case = rows[looked_at[case]], case[looked_at[case]]
        order = np.lexsort((log.clock[rows], case))
        clock, case = log.clock[rows[order]], case[order]
        first = np.diff(case, prepend=-1) > 0
        begins, segment = np.flatnonzero(first), np.cumsum(first, dtype=np.int64)
        least, nothing = np.zeros(len(clock), np.int64), 0
        for time in sorted(times):
            earlier = np.roll(least, 1)
            earlier[begins] = nothing
            nothing += MISSING
            taken = _least_so_far(earlier + away_from(clock, time, HOUR), segment)
            least = np.minimum(taken, least + MISSING)
        of_case = np.full(log.cases, nothing)
        ends = np.append(begins[1:], len(clock))[: len(begins)] - 1
        of_case[case[begins]] = least[ends]
        total += of_case
    return total[chosen]


def _least_so_far(values: Ints, segment: Ints) -> Ints:
    """The least value up to each, in its segment; segments ascend. Ranks of the values are lowered
    from segment to segment, so that none is below what comes in a later one.
    """
    levels, ranks = np.unique(values, return_inverse=True)
    lowered = segment * len(levels)
    return np.asarray(levels[np.minimum.accumulate(ranks - lowered) + lowered])

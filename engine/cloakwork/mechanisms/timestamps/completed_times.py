"""A time for every event, from noisy starts and gaps: what has no time draws one, and order is
restored.

Each case is completed by itself: beside its own noisy values it takes what is usual in the log.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cloakwork.base.arrays import Bools, Ints
from cloakwork.kernel.cases import Cases
from cloakwork.kernel.perturb import StartsAndGaps
from cloakwork.mechanisms.steps import Draws, NoisyTimes
from cloakwork.mechanisms.timestamps.bounds import LONGEST_SUM, Bounds
from cloakwork.mechanisms.timestamps.isotonic import isotonic_projection, spread_pooled
from cloakwork.mechanisms.timestamps.usual_values import UsualValues


def times_of(noisy: NoisyTimes, usual: UsualValues, bounds: Bounds) -> Ints:
    """A time for every event of a batch, in grid steps, not decreasing inside a case.

    An event that has no noisy time takes a gap drawn from what is ``usual`` of its activity; a case
    without any takes a start drawn from all. Noisy values, and released ones, lie inside
    ``bounds``.
    """
    cases, draws = noisy.cases, noisy.draws
    noised = replace(
        noisy.noised,
        starts=bounds.starts_inside(noisy.noised.starts),
        gaps=bounds.gaps_inside(noisy.noised.gaps),
    )
    lengths = cases.lengths
    # By each case's own length, so that it does not matter which cases lie beside it.
    limit = np.repeat(LONGEST_SUM // (lengths + 1), lengths)
    starts = _starts_of_cases(cases, noised, usual, bounds, draws.part("starts"))
    since_start = _times_since_start(cases, noised, usual, limit, draws.part("gaps"))
    # Noise has disturbed the order: what lies the wrong way round is pooled, then drawn apart.
    pooled = isotonic_projection(since_start.astype(np.float64), cases.offsets)
    spacing = np.minimum(usual.typical_gaps(cases), limit)
    spread = spread_pooled(pooled, cases.offsets, spacing)
    ordered = np.floor(spread + 0.5).astype(np.int64)
    # Far from zero a float is coarser than a step, and rounding may cost the order one.
    while len(fallen := _out_of_order(ordered, cases.offsets)):
        ordered[fallen] = ordered[fallen - 1]
    times = np.repeat(starts, lengths) + ordered
    return _moved_inside(times, cases.offsets, bounds.released)


def _out_of_order(times: Ints, offsets: Ints) -> Ints:
    """The events that lie before the one before them in their case."""
    falls = np.diff(times, prepend=times[:1]) < 0
    falls[_first_rows(offsets)] = False
    return np.flatnonzero(falls)


def _moved_inside(times: Ints, offsets: Ints, edges: tuple[int, int]) -> Ints:
    """Move each case that reaches over an edge back inside as a whole; what is then still outside
    lies at the edge.
    """
    earliest, latest = edges
    cases = np.flatnonzero(np.diff(offsets))
    lengths = np.diff(offsets)[cases]
    first, last = times[offsets[cases]], times[offsets[cases + 1] - 1]
    # Where a case is longer than the range, its first event is the one that stays inside.
    moved = np.maximum(earliest - first, np.minimum(latest - last, 0))
    return np.asarray(np.clip(times + np.repeat(moved, lengths), earliest, latest), np.int64)


def _first_rows(offsets: Ints) -> Ints:
    """The row of the first event of each case that has any."""
    return offsets[:-1][np.diff(offsets) > 0]


def _starts_of_cases(
    cases: Cases, noised: StartsAndGaps, usual: UsualValues, bounds: Bounds, draws: Draws
) -> Ints:
    """The start of every case; one without a time draws between any two of the sample."""
    starts = np.zeros(len(cases), np.int64)
    has_start = np.zeros(len(cases), np.bool_)
    timed = cases.case_of[noised.start_rows]
    starts[timed] = noised.starts
    has_start[timed] = True
    untimed = np.flatnonzero(~has_start)
    # All starts are one group.
    pool = _Pool(usual.sample.starts, np.zeros(len(usual.sample.starts), np.int64))
    fallback = 0 if bounds.start is None else bounds.start[0]
    group = np.zeros(len(untimed), np.int64)

    def uniform(purpose: str, below: Ints) -> Ints:
        return draws.part(purpose).of_cases(below, untimed)

    starts[untimed] = pool.draw_between_two(group, uniform, fallback)
    return starts


def _times_since_start(
    cases: Cases, noised: StartsAndGaps, usual: UsualValues, limit: Ints, draws: Draws
) -> Ints:
    """For each event its time since the start of its case, before order is restored. ``limit``:
    int64, shape (events,); a gap beyond it, either way, is cut.

    An event with a time lies the noisy gaps up to it behind the start. One without lies the gaps
    drawn for it and for those before it behind the nearest earlier event with a time, or so much
    before the first one.
    """
    events = len(cases.codes)
    measured = np.zeros(events, np.int64)
    measured[noised.gap_rows] = noised.gaps
    measured = np.clip(measured, -limit, limit)
    known = noised.has_time(events)
    if known.all():
        return _sums_in_case(measured, cases.offsets)
    # The first event with a time, too, has no gap before it where others precede it.
    lacks_gap = np.ones(events, np.bool_)
    lacks_gap[noised.gap_rows] = False
    lacks_gap[_first_rows(cases.offsets)] = False
    rows = np.flatnonzero(lacks_gap)

    def uniform(purpose: str, below: Ints) -> Ints:
        return draws.part(purpose).of_events(below, rows)

    pool = _Pool(usual.sample.gaps, usual.sample.activity)
    drawn = np.zeros(events, np.int64)
    drawn[rows] = pool.draw_between_two(usual.codes_of(cases)[rows], uniform, 0)
    filled = _sums_in_case(np.clip(drawn, -limit, limit), cases.offsets)
    anchors = _last_timed_rows(known, cases.offsets)
    # A difference of running sums: the drawn gaps between an event and its anchor.
    return _sums_in_case(measured, cases.offsets) + filled - filled[anchors]


def _last_timed_rows(known: Bools, offsets: Ints) -> Ints:
    """For each event the row of the last one up to it that is ``known``; else the first known of
    the case, else its first.
    """
    rows = np.arange(len(known))
    lengths = np.diff(offsets)
    first = np.repeat(offsets[:-1], lengths)
    last = np.repeat(offsets[1:], lengths) - 1
    # Running extremes over all cases; one that lies in another case is not taken.
    earlier = np.maximum.accumulate(np.where(known, rows, -1))
    later = np.minimum.accumulate(np.where(known, rows, len(known))[::-1])[::-1]
    first_known = np.where(later <= last, later, first)
    return np.where(earlier >= first, earlier, first_known)


@dataclass(frozen=True, slots=True)
class _Pool:
    """Values to draw from, each of a group; int64, shape (values,)."""

    values: Ints
    group: Ints

    def draw_between_two(
        self, requested: Ints, uniform: Callable[[str, Ints], Ints], empty: int
    ) -> Ints:
        """For each requested group a value between two random members of it, uniformly, by draws of
        ``uniform``: for a purpose and bounds (int64), integers in [0, bound).

        A group without members draws from the whole pool; an empty pool gives ``empty``. Drawing
        between two values rather than copying one leaves no exact coincidence by which a drawn
        value could be distinguished from a noisy one.
        """
        if len(self.values) == 0:
            return np.full(len(requested), empty, np.int64)
        order = np.argsort(self.group, kind="stable")
        first = np.searchsorted(self.group[order], requested, side="left")
        size = np.searchsorted(self.group[order], requested, side="right") - first
        has_members = size > 0
        first = np.where(has_members, first, 0)
        size = np.where(has_members, size, len(self.values))
        members = self.values[order]
        left = members[first + uniform("left", size)]
        right = members[first + uniform("right", size)]
        low, high = np.minimum(left, right), np.maximum(left, right)
        return np.asarray(low + uniform("between", high - low + 1), np.int64)


def _sums_in_case(values: Ints, offsets: Ints) -> Ints:
    """Running sums that begin anew with each case; the first value of each case must be 0."""
    total = np.cumsum(values)
    lengths = np.diff(offsets)
    return total - np.repeat(total[_first_rows(offsets)], lengths[lengths > 0])

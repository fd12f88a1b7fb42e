"""A time for every event, from noised starts and gaps: what has no raw time draws one, and order is
restored.

Each case is completed by itself: beside its own noised values it takes a sample of those of the
log. Nothing here reads a raw time.
"""

import numpy as np
from numpy.typing import NDArray

from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.addresses import case_addresses, event_addresses
from cloakwork.mechanisms.timestamps.isotonic import isotonic_projection, spread_pooled
from cloakwork.mechanisms.timestamps.noised_sample import SampledValues, activities_of
from cloakwork.mechanisms.timestamps.starts_and_gaps import (
    LONGEST_SUM,
    Bounds,
    StartsAndGaps,
    Steps,
)
from cloakwork.noise import Addresses, Stream


def times_of(
    log: EventLog, noised: StartsAndGaps, sample: SampledValues, bounds: Bounds, stream: Stream
) -> Steps:
    """A time for every event of ``log``, in grid steps, not decreasing inside a case.

    ``noised``: its starts and gaps with their noise, inside ``bounds``. An event that is in none of
    them takes a gap drawn from the ``sample`` of its activity; a case that is in none a start drawn
    from all.
    """
    lengths = np.diff(log.offsets)
    # By each case's own length, so that it does not matter which cases lie beside it.
    limit = np.repeat(LONGEST_SUM // (lengths + 1), lengths)
    starts = _starts_of_cases(log, noised, sample, bounds, stream.part("starts"))
    since_start = _times_since_start(log, noised, sample, limit, stream.part("gaps"))
    # Noise has disturbed the order: what lies the wrong way round is pooled, then drawn apart.
    pooled = isotonic_projection(since_start.astype(np.float64), log.offsets)
    spacing = np.minimum(sample.typical_gaps(log), limit)
    spread = spread_pooled(pooled, log.offsets, spacing)
    ordered = np.floor(spread + 0.5).astype(np.int64)
    # Far from zero a float is coarser than a step, and rounding may cost the order one.
    while len(fallen := _out_of_order(ordered, log.offsets)):
        ordered[fallen] = ordered[fallen - 1]
    times = np.repeat(starts, lengths) + ordered
    return _moved_inside(times, log.offsets, bounds.released)


def _out_of_order(times: Steps, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The events that lie before the one before them in their case."""
    falls = np.diff(times, prepend=times[:1]) < 0
    falls[_first_rows(offsets)] = False
    return np.flatnonzero(falls)


def _moved_inside(times: Steps, offsets: NDArray[np.int64], edges: tuple[int, int]) -> Steps:
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


def _first_rows(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row of the first event of each case that has any."""
    return offsets[:-1][np.diff(offsets) > 0]


def _starts_of_cases(
    log: EventLog, noised: StartsAndGaps, sample: SampledValues, bounds: Bounds, stream: Stream
) -> Steps:
    """The start of every case; one without a raw time draws between any two of the sample."""
    starts = np.zeros(log.cases.height, np.int64)
    has_start = np.zeros(log.cases.height, np.bool_)
    timed = log.case_of[noised.start_rows]
    starts[timed] = noised.starts
    has_start[timed] = True
    untimed = np.flatnonzero(~has_start)
    # All starts are one group.
    group_of_sampled = np.zeros(len(sample.starts), np.int64)
    group_of_untimed = np.zeros(len(untimed), np.int64)
    fallback = 0 if bounds.start is None else bounds.start[0]
    at = case_addresses(log).at(untimed)
    starts[untimed] = _draw_between_two(
        sample.starts, group_of_sampled, group_of_untimed, stream, at, fallback
    )
    return starts


def _times_since_start(
    log: EventLog, noised: StartsAndGaps, sample: SampledValues, limit: Steps, stream: Stream
) -> Steps:
    """For each event its time since the start of its case, before order is restored. ``limit``:
    int64, shape (events,); a gap beyond it, either way, is cut.

    An event with a raw time lies the noised gaps up to it behind the start. One without lies the
    gaps drawn for it and for those before it behind the nearest earlier event with a raw time, or
    so much before the first one.
    """
    measured = np.zeros(log.events.height, np.int64)
    measured[noised.gap_rows] = noised.gaps
    measured = np.clip(measured, -limit, limit)
    known = noised.has_time(log.events.height)
    if known.all():
        return _sums_in_case(measured, log.offsets)
    # The first event with a raw time, too, has no gap before it where others precede it.
    lacks_gap = np.ones(log.events.height, np.bool_)
    lacks_gap[noised.gap_rows] = False
    lacks_gap[_first_rows(log.offsets)] = False
    rows = np.flatnonzero(lacks_gap)
    drawn = np.zeros(log.events.height, np.int64)
    activity = sample.codes_of(activities_of(log).gather(rows))
    at = event_addresses(log, rows)
    drawn[rows] = _draw_between_two(sample.gaps, sample.gap_activity, activity, stream, at, 0)
    filled = _sums_in_case(np.clip(drawn, -limit, limit), log.offsets)
    anchors = _last_timed_rows(known, log.offsets)
    # A difference of running sums: the drawn gaps between an event and its anchor.
    return _sums_in_case(measured, log.offsets) + filled - filled[anchors]


def _last_timed_rows(known: NDArray[np.bool_], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
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


def _draw_between_two(
    pool: Steps,
    group: NDArray[np.int64],
    requested: NDArray[np.int64],
    stream: Stream,
    at: Addresses,
    empty: int,
) -> Steps:
    """For each requested group a value between two random members of it in the pool, uniformly,
    by draws at ``at``.

    A group without members draws from the whole pool; an empty pool gives ``empty``. Drawing
    between two values rather than copying one leaves no exact coincidence by which a drawn value
    could be distinguished from a noised one.
    """
    if len(pool) == 0:
        return np.full(len(requested), empty, np.int64)
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], requested, side="left")
    size = np.searchsorted(group[order], requested, side="right") - first
    has_members = size > 0
    first = np.where(has_members, first, 0)
    size = np.where(has_members, size, len(pool))
    members = pool[order]
    left = members[first + stream.part("left").uniform(size, at)]
    right = members[first + stream.part("right").uniform(size, at)]
    low, high = np.minimum(left, right), np.maximum(left, right)
    return np.asarray(low + stream.part("between").uniform(high - low + 1, at), np.int64)


def _sums_in_case(values: Steps, offsets: NDArray[np.int64]) -> Steps:
    """Running sums that begin anew with each case; the first value of each case must be 0."""
    total = np.cumsum(values)
    lengths = np.diff(offsets)
    return total - np.repeat(total[_first_rows(offsets)], lengths[lengths > 0])

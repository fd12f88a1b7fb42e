"""A time for every event, from noisy starts and gaps: what has no time draws one, and order is
restored.

Each case is completed by itself: beside its own noisy values it takes what is usual in the log
(``UsualValues``), inside public bounds (``Bounds``).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints, owners_of, ranges_of
from cloakwork.base.facts import Window
from cloakwork.base.frozen import frozen
from cloakwork.kernel.cases import Cases
from cloakwork.kernel.perturb import StartsAndGaps
from cloakwork.mechanisms.steps import Draws, NoisySample, NoisyTimes
from cloakwork.mechanisms.timestamps.drawing import sums_in_cases

READABLE: Final = Window(
    start=datetime(1678, 1, 1, tzinfo=UTC), end=datetime(2262, 1, 1, tzinfo=UTC)
)
"""The times that readers counting nanoseconds in 64 bits can hold; released times stay inside
unless declared otherwise.
"""

LONGEST_SUM: Final = 2**61
"""Gaps are bounded so that a case's sum of them stays below: int64 sums never wrap."""

_NEAREST: Final = 0.45
"""How much of the way to a neighbour a run may take: below a half, so that two runs never meet."""


@frozen
class Bounds:
    """Public bounds, in grid steps, never taken from the log; None where there is none.

    ``start``: noisy starts are moved into it. ``longest_gap``: noisy gaps are moved into
    ``[-longest_gap, longest_gap]``: symmetric, so that noise on a short gap keeps its mean.
    ``released``: every released time lies in it.
    """

    released: tuple[int, int]
    start: tuple[int, int] | None = None
    longest_gap: int | None = None

    def starts_inside(self, starts: Ints) -> Ints:
        """Noisy starts, moved inside: int64."""
        return np.clip(starts, *(self.start or self.released))

    def gaps_inside(self, gaps: Ints) -> Ints:
        """Noisy gaps, moved inside: int64."""
        most = LONGEST_SUM // 2
        if self.longest_gap is not None:
            most = min(most, self.longest_gap)
        return np.clip(gaps, -most, most)


@dataclass(frozen=True)
class UsualValues:
    """What is usual in a log, by a sample of its noisy starts and gaps, moved inside public bounds:
    what events without a time draw from, and which gap is typical of a directly-follows pair.

    ``pairs``: int64, ascending; directly-follows pairs as numbers, the place of one activity in the
    sample's alphabet times its size plus the place of the next. ``typical``: int64, a gap of each.
    """

    sample: NoisySample
    pairs: Ints
    typical: Ints

    @classmethod
    def of(cls, sample: NoisySample, bounds: Bounds) -> "UsualValues":
        """What ``sample`` says, each value moved inside ``bounds``."""
        inside = replace(
            sample,
            starts=bounds.starts_inside(sample.starts),
            gaps=bounds.gaps_inside(sample.gaps),
            pair_gaps=bounds.gaps_inside(sample.pair_gaps),
        )
        pair = inside.before * len(inside.alphabet) + inside.after
        return cls(inside, *median_bounds(pair, inside.pair_gaps))

    def codes_of(self, cases: Cases) -> Ints:
        """For each event the place of its activity in the sample's alphabet: int64, -1 for none."""
        return cases.coded(self.sample.alphabet)

    def typical_gaps(self, cases: Cases) -> Ints:
        """For each event a gap that is typical of its directly-follows pair, at least 1; 1 for the
        first event of a case, and where nothing is known of the pair.
        """
        code = self.codes_of(cases)
        typical = np.ones(len(code), np.int64)
        if not len(self.pairs):
            return typical
        before = np.roll(code, 1)
        follows = np.flatnonzero((cases.place > 0) & (code >= 0) & (before >= 0))
        pair = before[follows] * len(self.sample.alphabet) + code[follows]
        place = np.minimum(np.searchsorted(self.pairs, pair), len(self.pairs) - 1)
        known = self.pairs[place] == pair
        typical[follows[known]] = np.maximum(self.typical[place[known]], 1)
        return typical


def median_bounds(group: Ints, values: Ints) -> tuple[Ints, Ints]:
    """The distinct groups, ascending, and of each a lower confidence bound of the median: the order
    statistic 1/sqrt(n) below the middle, about two standard errors, whatever the distribution. 1
    where there are too few values. All int64.

    Where the noise hides all about a pair, its events are so drawn apart by one step only.
    """
    order = np.lexsort((values, group))
    groups, first, size = np.unique(group[order], return_index=True, return_counts=True)
    rank = np.floor(size / 2 - np.sqrt(size)).astype(np.int64)
    bound = values[order][first + np.maximum(rank, 0)]
    return groups, np.where(rank >= 0, bound, 1)


def times_of(
    noisy: NoisyTimes,
    usual: UsualValues,
    bounds: Bounds,
) -> Ints:
    """A time for every event of a batch, in grid steps, not decreasing inside a case.

    An event that has no noisy time takes a gap drawn from what is ``usual`` of its activity; a case
    without any takes a start drawn from all. Noisy values, and released ones, lie inside
    ``bounds``.
    """
    cases = noisy.cases
    noised = replace(
        noisy.noised,
        starts=bounds.starts_inside(noisy.noised.starts),
        gaps=bounds.gaps_inside(noisy.noised.gaps),
    )
    # By each case's own length, so that it does not matter which cases lie beside it.
    limit = np.repeat(LONGEST_SUM // (cases.lengths + 1), cases.lengths)
    starts = _starts_of_cases(
        cases,
        noised,
        usual,
        bounds,
        noisy.draws.part("starts"),
    )
    since_start = _times_since_start(
        cases,
        noised,
        usual,
        limit,
        noisy.draws.part("gaps"),
    )
    # Noise has disturbed the order: what lies the wrong way round is pooled, then drawn apart.
    pooled = isotonic_projection(since_start.astype(np.float64), cases.offsets)
    spacing = np.minimum(usual.typical_gaps(cases), limit)
    spread = spread_pooled(pooled, cases.offsets, spacing)
    ordered = np.floor(spread + 0.5).astype(np.int64)
    # Far from zero a float is coarser than a step, and rounding may cost the order one.
    while True:
        falls = np.diff(ordered, prepend=ordered[:1]) < 0
        falls[_first_rows(cases.offsets)] = False
        if not falls.any():
            break
        fallen = np.flatnonzero(falls)
        ordered[fallen] = ordered[fallen - 1]
    times = np.repeat(starts, cases.lengths) + ordered
    return _moved_inside(times, cases.offsets, bounds.released)


def _moved_inside(
    times: Ints,
    offsets: Ints,
    edges: tuple[int, int],
) -> Ints:
    """Move each case that reaches over an edge back inside as a whole; what is then still outside
    lies at the edge.
    """
    earliest, latest = edges
    has_events = np.diff(offsets) > 0
    first = times[offsets[:-1][has_events]]
    last = times[offsets[1:][has_events] - 1]
    # Where a case is longer than the range, its first event is the one that stays inside.
    moved = np.maximum(earliest - first, np.minimum(latest - last, 0))
    of_events = np.repeat(moved, np.diff(offsets)[has_events])
    return np.asarray(np.clip(times + of_events, earliest, latest), np.int64)


def _first_rows(offsets: Ints) -> Ints:
    """The row of the first event of each case that has any."""
    return offsets[:-1][np.diff(offsets) > 0]


def _starts_of_cases(
    cases: Cases,
    noised: StartsAndGaps,
    usual: UsualValues,
    bounds: Bounds,
    draws: Draws,
) -> Ints:
    """The start of every case; one without a time draws between any two of the sample."""
    starts = np.zeros(len(cases), np.int64)
    lacks_start = np.ones(len(cases), np.bool_)
    timed = cases.case_of[noised.start_rows]
    starts[timed] = noised.starts
    lacks_start[timed] = False
    untimed = np.flatnonzero(lacks_start)

    def uniform(purpose: str, below: Ints) -> Ints:
        return draws.part(purpose).of_cases(below, untimed)

    known = usual.sample.starts
    fallback = 0 if bounds.start is None else bounds.start[0]
    # All starts are one group.
    starts[untimed] = _drawn_between_two(
        known,
        np.zeros_like(known),
        np.zeros_like(untimed),
        uniform,
        fallback,
    )
    return starts


def _times_since_start(
    cases: Cases,
    noised: StartsAndGaps,
    usual: UsualValues,
    limit: Ints,
    draws: Draws,
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
    since_start = sums_in_cases(np.clip(measured, -limit, limit), cases.offsets)
    known = noised.has_time(events)
    if known.all():
        return since_start
    # The first event with a time, too, has no gap before it where others precede it.
    lacks_gap = np.ones(events, np.bool_)
    lacks_gap[noised.gap_rows] = False
    lacks_gap[_first_rows(cases.offsets)] = False
    rows = np.flatnonzero(lacks_gap)

    def uniform(purpose: str, below: Ints) -> Ints:
        return draws.part(purpose).of_events(below, rows)

    drawn = np.zeros(events, np.int64)
    drawn[rows] = _drawn_between_two(
        usual.sample.gaps,
        usual.sample.activity,
        usual.codes_of(cases)[rows],
        uniform,
        0,
    )
    filled = sums_in_cases(np.clip(drawn, -limit, limit), cases.offsets)
    # A difference of running sums: the drawn gaps between an event and its anchor.
    return since_start + filled - filled[_last_timed_rows(known, cases.offsets)]


def _last_timed_rows(known: Bools, offsets: Ints) -> Ints:
    """The last ``known`` row up to each event; else the first known of its case, else its first."""
    rows = np.arange(len(known))
    lengths = np.diff(offsets)
    first = np.repeat(offsets[:-1], lengths)
    last = np.repeat(offsets[1:], lengths) - 1
    # Running extremes over all cases; one that lies in another case is not taken.
    earlier = np.maximum.accumulate(np.where(known, rows, -1))
    later = np.minimum.accumulate(np.where(known, rows, len(known))[::-1])[::-1]
    first_known = np.where(later <= last, later, first)
    return np.where(earlier >= first, earlier, first_known)


def _drawn_between_two(
    values: Ints,
    group: Ints,
    requested: Ints,
    uniform: Callable[[str, Ints], Ints],
    empty: int,
) -> Ints:
    """For each requested group a value between two random ones of ``values`` (each of a ``group``),
    uniformly, by draws of ``uniform``: for a purpose and bounds (int64), integers in [0, bound).

    A group without members draws from all values; where there are none, it is ``empty``. Drawing
    between two values rather than copying one leaves no exact coincidence by which a drawn value
    could be distinguished from a noisy one.
    """
    if len(values) == 0:
        return np.full(len(requested), empty, np.int64)
    order = np.argsort(group, kind="stable")
    grouped = group[order]
    members = values[order]
    first = np.searchsorted(grouped, requested, side="left")
    size = np.searchsorted(grouped, requested, side="right") - first
    has_members = size > 0
    first = np.where(has_members, first, 0)
    size = np.where(has_members, size, len(members))
    left = members[first + uniform("left", size)]
    right = members[first + uniform("right", size)]
    low = np.minimum(left, right)
    high = np.maximum(left, right)
    return np.asarray(low + uniform("between", high - low + 1), np.int64)


def isotonic_projection(values: Floats, offsets: Ints) -> Floats:
    """The non-decreasing sequence nearest to each case's ``values`` in the sense of least squares.

    ``values``: float64, shape (events,), finite; case ``i`` is
    ``values[offsets[i]:offsets[i + 1]]``. Neighbouring blocks that violate the order are pooled
    into their mean (Ayer et al. 1955); pooling all of them at once, in any grouping, gives the same
    result. Cases that are in order take no further part.
    """
    result = np.empty_like(values)
    case = owners_of(np.diff(offsets))
    # Blocks: each begins at ``row``, adds up to ``total`` and covers ``weight`` rows.
    row = np.arange(len(values))
    total = values.copy()
    weight = np.ones(len(values), np.int64)
    while True:
        mean = total / weight
        same_case = case[1:] == case[:-1]
        falls = (mean[1:] < mean[:-1]) & same_case
        disturbed = np.zeros(len(offsets), bool)
        disturbed[case[1:][falls]] = True
        is_open = disturbed[case]
        # What is in order has its values.
        done = ~is_open
        result[ranges_of(row[done], weight[done])] = np.repeat(mean[done], weight[done])
        if done.all():
            return result
        # A block that lies below the one before it is pooled with it.
        begins = np.concatenate([[True], ~falls])[is_open]
        first = np.flatnonzero(begins)
        case = case[is_open][first]
        row = row[is_open][first]
        # Each block that begins takes over all up to the next that does.
        total = np.add.reduceat(total[is_open], first)
        weight = np.add.reduceat(weight[is_open], first)


def spread_pooled(
    values: Floats,
    offsets: Ints,
    spacing: Ints,
) -> Floats:
    """Draw apart what ``isotonic_projection`` pooled, around its value.

    ``values``: float64, not decreasing inside a case; case ``i`` is
    ``values[offsets[i]:offsets[i + 1]]``. ``spacing``: int64, positive; how far each event should
    lie behind the one before it; those of a case add up to less than 2**63. A run of equal values
    keeps its mean; where its spacings would reach further than ``_NEAREST`` of the way to a
    neighbour, all of them shrink, so that order is kept.
    """
    if len(values) == 0:
        return values
    case = owners_of(np.diff(offsets))
    differs = (case[1:] != case[:-1]) | (values[1:] != values[:-1])
    begins = np.concatenate([[True], differs])
    first = np.flatnonzero(begins)
    size = np.diff(first, append=len(values))
    # How far each event lies from the first of its run, then from the run's mean.
    # In integers: the running total may wrap, its differences inside a run are exact all the same,
    # and do not depend on the cases before.
    total = np.cumsum(np.where(begins, 0, spacing))
    shift = (total - np.repeat(total[first], size)).astype(np.float64)
    shift -= np.repeat(np.add.reduceat(shift, first) / size, size)
    # How far it is to the runs before and behind.
    same_case = case[first][1:] == case[first][:-1]
    between = np.where(same_case, np.diff(values[first]), np.inf)
    space_below = _NEAREST * np.append(np.inf, between)
    space_above = _NEAREST * np.append(between, np.inf)
    # A run of one event reaches nowhere: any space is enough for it, and nothing is divided by 0.
    reach_below = np.maximum(-shift[first], 1e-200)
    reach_above = np.maximum(shift[first + size - 1], 1e-200)
    fits = np.minimum(space_below / reach_below, space_above / reach_above)
    share = np.minimum(1.0, fits)
    return np.asarray(values + shift * np.repeat(share, size), np.float64)

"""Noise on the times of events: what a mechanism says of it, and the one place that adds it.

A mechanism chooses among the encodings below; it never sees a time without noise. What it makes of
noisy times is post-processing, wherever it errs.

**Encodings.** Times are rounded to steps of a grid. Each time gets noise of its own (``times``), or
a case is its start, its first time, and the ``gaps`` between consecutive events that have a time.
Which events have one is taken as known, as their order is.

**Sensitivity.** Rounding is monotone and commutes with shifts by whole steps, so a time that moves
by at most ``shift`` moves by at most s = ceil(shift / grid) steps: one value of ``times``. Of the
``gaps`` encoding it enters the start, if it is the first, or else the gap before it, and the gap
behind it, if it is not the last: at most two values, by at most s each. Of whole cases, whose start
is clamped to a window of W steps and whose first M - 1 gaps to [0, G], all times together move the
start by at most W and each gap by at most G, whatever they are; later times are not looked at.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import numpy as np

from cloakwork.base.arrays import Bools, Ints, owners_of, place_in_run
from cloakwork.base.costs import DiscreteLaplace, PrivacyEvent
from cloakwork.base.errors import PlanUnsound
from cloakwork.base.exact import drawn_scale
from cloakwork.base.facts import UNIX_EPOCH, Window
from cloakwork.base.frozen import frozen
from cloakwork.kernel.books import Books, composed, repeated
from cloakwork.kernel.noises import LARGEST
from cloakwork.noise import Addresses, Stream

CALENDAR: Final = Window(start=datetime(2, 1, 1, tzinfo=UTC), end=datetime(9998, 1, 1, tzinfo=UTC))
"""The times that a calendar library can hold, with a year to spare for rounding; raw times outside
move to its edge.
"""

_MICROSECOND: Final = timedelta(microseconds=1)


@frozen
class Grid:
    """Instants ``epoch + i * step``; ``i`` is what everything here counts in."""

    epoch: datetime
    step: timedelta

    def nearest(self, microseconds: Ints) -> Ints:
        """Round times (microseconds since 1970, int64) to the nearest step, halves upwards:
        monotone.

        Two times that lie at most ``d`` apart are rounded to steps at most ``ceil(d / step)``
        apart.
        """
        step = self.step // _MICROSECOND
        first = _microseconds(CALENDAR.start)
        last = _microseconds(CALENDAR.end)
        # Clipping is monotone, so sensitivity stays.
        calendar = np.clip(microseconds, first, last)
        return (calendar - _microseconds(self.epoch) + step // 2) // step

    def edges(self, window: Window) -> tuple[int, int]:
        """A window's edges, rounded to the nearest step."""
        edges = [_microseconds(window.start), _microseconds(window.end)]
        first, last = self.nearest(np.array(edges, np.int64))
        return int(first), int(last)

    def steps_in(self, span: timedelta) -> int:
        """``span`` in steps, rounded up, at least 1."""
        return max(1, -(-span // self.step))

    def microseconds(self, steps: Ints) -> Ints:
        """The times at ``steps``, moved inside the calendar: microseconds since 1970, int64."""
        inside = np.clip(steps, *self.edges(CALENDAR))
        return inside * (self.step // _MICROSECOND) + _microseconds(self.epoch)


def _microseconds(instant: datetime) -> int:
    return (instant - UNIX_EPOCH) // _MICROSECOND


@frozen
class RawTimes:
    """The times of a batch of cases, which nothing but the kernel looks at.

    ``microseconds``: int64, since 1970, of the events at ``rows`` (int64, ascending); the others
    have none. ``offsets``: int64, shape (cases + 1,): case i has the events
    ``offsets[i]:offsets[i + 1]``. ``index``: int64, shape (cases,): where it stands in the whole
    log.
    """

    microseconds: Ints
    rows: Ints
    offsets: Ints
    index: Ints

    def first(self, times: int) -> "RawTimes":
        """The same without any but the first ``times`` of each case."""
        kept = place_in_run(self.case) < times
        return replace(
            self,
            microseconds=self.microseconds[kept],
            rows=self.rows[kept],
        )

    @property
    def case(self) -> Ints:
        """The case of each time: int64."""
        return owners_of(np.diff(self.offsets))[self.rows]

    @property
    def begins(self) -> Bools:
        """Which times are the first of their case."""
        return np.asarray(np.diff(self.case, prepend=-1) != 0)


@frozen
class StartsAndGaps:
    """The times of cases, in steps of a grid.

    - ``starts``: int64; the first time of each case that has one, in case order. ``start_rows``:
      its event.
    - ``gaps``: int64; the time from each other event's predecessor *with a time*. ``gap_rows``:
      these events.
    """

    starts: Ints
    start_rows: Ints
    gaps: Ints
    gap_rows: Ints

    def has_time(self, events: int) -> Bools:
        """Which of the log's ``events`` are in it: bool, shape (events,)."""
        has_time = np.zeros(events, np.bool_)
        has_time[self.start_rows] = True
        has_time[self.gap_rows] = True
        return has_time


@frozen
class OneTime:
    """Each time by itself is protected, against moving by up to ``shift``."""

    shift: timedelta


@frozen
class WholeCases:
    """All times of a unit's cases are protected. Starts are clamped to ``window``, gaps to
    [0, ``longest_gap``]; of each case at most ``times`` are looked at.
    """

    window: Window
    longest_gap: timedelta
    times: int


@frozen
class Perturbation:
    """Discrete Laplace noise on times: what a mechanism says of it.

    ``noised``: which values get noise; of whole cases, starts and gaps alone. ``start_scale``: of
    the noise on starts and on times, in steps; ``gap_scale``: of that on gaps.
    """

    grid: Grid
    protects: OneTime | WholeCases
    noised: Literal["times", "gaps"]
    start_scale: float
    gap_scale: float

    def event(self, max_cases: int) -> PrivacyEvent:
        """What it costs, for units of ``max_cases`` cases; see the module. Raises PlanUnsound for
        whole cases whose times get noise each.
        """
        # What is drawn, and not what was asked for.
        start_scale = drawn_scale(self.start_scale)
        protects = self.protects
        grid = self.grid
        if isinstance(protects, OneTime):
            moved = grid.steps_in(protects.shift)
            if self.noised == "times":
                return DiscreteLaplace(scale=start_scale, sensitivity=moved)
            # One event for both kinds of values: the lesser scale is charged.
            scale = min(start_scale, drawn_scale(self.gap_scale))
            return DiscreteLaplace(scale=scale, sensitivity=2 * moved)
        if self.noised == "times":
            raise PlanUnsound("of whole cases starts and gaps are noised, not each time")
        first, last = grid.edges(protects.window)
        start = DiscreteLaplace(scale=start_scale, sensitivity=max(1, last - first))
        # Cases of one time have no gap.
        if protects.times <= 1:
            return repeated(max_cases, start)
        width = grid.steps_in(protects.longest_gap)
        gap = DiscreteLaplace(scale=drawn_scale(self.gap_scale), sensitivity=width)
        return repeated(max_cases, composed([start, repeated(protects.times - 1, gap)]))


class Perturbing:
    """Adds the noise that a mechanism has declared. Its event is in the books before a time is
    looked at, and a value has one draw, at the address of its event, however often it is asked for.

    ``shift``: the plan's, where it claims metric privacy; None where it claims that of units.
    Raises PlanUnsound where the plan does not list this noise, or claims more than it gives.
    """

    def __init__(
        self,
        declared: Perturbation,
        books: Books,
        stream: Stream,
        max_cases: int,
        shift: timedelta | None,
    ) -> None:
        protects = declared.protects
        # A subclass could draw less than it declares.
        known = type(declared) is Perturbation and type(declared.grid) is Grid
        if not (known and type(protects) in (OneTime, WholeCases)):
            raise PlanUnsound("noise on times is declared by the kernel's own classes alone")
        if isinstance(protects, OneTime) and (shift is None or protects.shift < shift):
            raise PlanUnsound("noise on single times protects less than the plan claims")
        books.record(declared.event(max_cases))
        self.declared = declared
        self.__noise = stream

    def noised(self, raw: RawTimes) -> StartsAndGaps:
        """The noisy starts and gaps of a batch."""
        declared = self.declared
        grid = self.declared.grid
        protects = self.declared.protects
        # Times that are not charged for are not looked at.
        if isinstance(protects, WholeCases):
            raw = raw.first(protects.times)
        if declared.noised == "times":
            noisy = grid.nearest(raw.microseconds)
            return _starts_and_gaps(raw, noisy + self.__drawn(declared.start_scale, raw, raw.rows))
        exact = _starts_and_gaps(raw, grid.nearest(raw.microseconds))
        starts = exact.starts
        gaps = exact.gaps
        if isinstance(protects, WholeCases):
            starts = np.clip(starts, *grid.edges(protects.window))
            gaps = np.clip(gaps, 0, grid.steps_in(protects.longest_gap))
        return replace(
            exact,
            starts=starts + self.__drawn(declared.start_scale, raw, exact.start_rows),
            gaps=gaps + self.__drawn(declared.gap_scale, raw, exact.gap_rows),
        )

    def __drawn(
        self,
        scale: float,
        raw: RawTimes,
        rows: Ints,
    ) -> Ints:
        """Noise for the events at ``rows``, held where no sum with it leaves int64."""
        if not len(rows):
            return np.zeros(0, np.int64)
        drawn = self.__noise.laplace_values(scale, addresses_of(rows, raw.offsets, raw.index))
        return np.clip(drawn, -LARGEST, LARGEST)


def _starts_and_gaps(raw: RawTimes, steps: Ints) -> StartsAndGaps:
    """``steps``, one for each of the ``raw`` times, by case."""
    # The first time of a case is its start; the others follow theirs.
    begins = raw.begins
    gaps = np.diff(steps, prepend=0)[~begins]
    return StartsAndGaps(
        steps[begins],
        raw.rows[begins],
        gaps,
        raw.rows[~begins],
    )


def addresses_of(
    rows: Ints,
    offsets: Ints,
    index: Ints,
) -> Addresses:
    """Where the draws of the events at ``rows`` lie: their cases, and their positions there."""
    lengths = np.diff(offsets)
    case = owners_of(lengths)[rows]
    return Addresses(index[case], rows - offsets[:-1][case])

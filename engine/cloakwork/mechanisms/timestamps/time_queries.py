"""What a case contributes to the tables of timestamps/histogram.

In each group of a table (a directly-follows pair, an activity) a case weighs 1, in grid steps
``UNIT_NORM``, spread over its occurrences. The kernel scales the whole vector to the norm of the
table's clip. Keys are numbers: the group times the bins of the table, and the bin.
"""

from dataclasses import dataclass

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.facts import Window
from cloakwork.kernel import Cases, Entries, Query
from cloakwork.mechanisms.timestamps.bins import DAY, Clock, LogBins
from cloakwork.mechanisms.timestamps.histogram_params import UNIT_NORM


@dataclass(frozen=True, slots=True)
class KnownTimes:
    """The events of cases that have a time: ``case``, ``code`` (of the activity) and ``steps`` (of
    the clock's grid) of each, int64; those of a case stand together, and do not descend.
    """

    case: Ints
    code: Ints
    steps: Ints

    @classmethod
    def of(cls, cases: Cases, clock: Clock) -> "KnownTimes":
        """Of a batch."""
        known = np.flatnonzero(~cases.times.is_missing)
        steps = clock.grid.nearest(cases.times.values[known].astype(np.int64))
        return cls(cases.case_of[known], cases.codes[known], steps)

    @property
    def follows(self) -> Ints:
        """The events behind another one of their case."""
        return np.flatnonzero(np.diff(self.case) == 0) + 1

    @property
    def first(self) -> Ints:
        """The first event of each case that has one."""
        return np.flatnonzero(np.diff(self.case, prepend=-1) != 0)

    @property
    def last(self) -> Ints:
        """The last event of each case that has one."""
        return np.flatnonzero(np.diff(self.case, append=-1) != 0)


def spread_over(case: Ints, group: Ints, code: Ints) -> Entries:
    """Entries of the keys ``code``, one an occurrence; those of a case and a ``group`` weigh 1
    together. An entry of a group below 0 is left out.
    """
    kept = group >= 0
    case, group, code = case[kept], group[kept], code[kept]
    if not len(case):
        return Entries(case, case, code)
    _, place, count = np.unique(
        case * (int(group.max()) + 1) + group, return_inverse=True, return_counts=True
    )
    return Entries(case, UNIT_NORM // count[place], code)


def one_each(case: Ints, group: Ints, code: Ints) -> Entries:
    """The same, but each occurrence weighs 1: the kernel scales them such that the case has the
    norm of the clip, where ``spread_over`` would leave less the more cells they are in.
    """
    kept = group >= 0
    return Entries(case[kept], np.full(int(kept.sum()), UNIT_NORM), code[kept])


def gaps_in(clock: Clock, bins: LogBins, row_of: Ints, *, evenly: bool = True) -> Query:
    """The gaps by group: that of an event of activity b behind one of activity a is
    ``row_of[a, b]``; -1 where it counts for none. ``evenly``: whether a case weighs as much in each
    of its groups; else each gap does.
    """

    def gaps(cases: Cases) -> Entries:
        known = KnownTimes.of(cases, clock)
        after = known.follows
        place = bins.place(known.steps[after] - known.steps[after - 1])
        group = row_of[known.code[after - 1], known.code[after]]
        weigh = spread_over if evenly else one_each
        return weigh(known.case[after], group, group * len(bins) + place)

    return gaps


@dataclass(frozen=True, slots=True)
class StartTable:
    """When cases start: ``periods`` of so many ``days`` each from ``first_day`` to ``last_day``
    (days since 1970-01-01; the last period may end later), days of the week, and hours; one after
    another.
    """

    clock: Clock
    first_day: int
    last_day: int
    days: int
    periods: int

    @classmethod
    def within(cls, clock: Clock, window: Window, most: int) -> "StartTable":
        """Whole weeks, such that there are at most ``most`` periods."""
        first, last = clock.day(np.array(clock.grid.edges(window), np.int64)).tolist()
        span = last - first + 1
        days = 7 * max(1, -(-span // (7 * most)))
        return cls(clock, first, last, days, -(-span // days))

    @property
    def cells(self) -> int:
        """Of all three."""
        return self.periods + 7 + self.clock.hours

    def query(self, cases: Cases) -> Entries:
        """One entry in each part for a case that has a time."""
        known = KnownTimes.of(cases, self.clock)
        steps, case = known.steps[known.first], known.case[known.first]
        period = self._period(steps)
        weekday, hour = np.divmod(self.clock.slot(steps), self.clock.hours)
        code = np.concatenate([period, self.periods + weekday, self.periods + 7 + hour])
        return Entries(np.tile(case, 3), np.full(len(code), UNIT_NORM), code)

    def period_query(self, cases: Cases) -> Entries:
        """One entry for a case that has a time: the period in which it starts."""
        known = KnownTimes.of(cases, self.clock)
        case, period = known.case[known.first], self._period(known.steps[known.first])
        return Entries(case, np.full(len(case), UNIT_NORM), period)

    def _period(self, steps: Ints) -> Ints:
        """Of starts; those outside count at the edge."""
        period = (self.clock.day(steps) - self.first_day) // self.days
        return np.clip(period, 0, self.periods - 1)

    def window_of(self, noisy: Floats, sigma: float) -> Window:
        """Where cases start, by noisy numbers of cases by period: the periods next to each other
        that hold the most above half a ``sigma`` each, and one on either side.
        """
        above = np.concatenate([[0.0], np.cumsum(noisy - sigma / 2)])
        least = np.minimum.accumulate(above)
        stop = int(np.argmax(above - least))
        start = int(np.argmin(above[: stop + 1]))
        edges = np.clip(np.array([start - 1, stop + 1]), 0, self.periods) * self.days * DAY
        steps = self.clock.steps(self.first_day * DAY + edges)
        grid = self.clock.grid
        return Window(
            start=grid.epoch + int(steps[0]) * grid.step, end=grid.epoch + int(steps[1]) * grid.step
        )

    def day_weights(self, trend: Floats, weekdays: Floats) -> Floats:
        """The weight of each day of all periods: that of its period, spread over its days by those
        of the week.
        """
        day = np.arange(self.periods * self.days)
        # 1970-01-01 was a Thursday.
        weight = weekdays[(self.first_day + day + 3) % 7]
        # Periods are whole weeks, so each holds every weekday equally often, but for the last one.
        found = np.repeat(trend, self.days) * weight
        found[self.last_day - self.first_day + 1 :] = 0
        return found


def hours_of(clock: Clock) -> Query:
    """When in the week events take place: weekdays, hours of the day, and both, one after
    another.
    """

    def hours(cases: Cases) -> Entries:
        known = KnownTimes.of(cases, clock)
        slot = clock.slot(known.steps)
        weekday, hour = np.divmod(slot, clock.hours)
        codes = np.concatenate([weekday, 7 + hour, 7 + clock.hours + slot])
        return one_each(np.tile(known.case, 3), np.zeros_like(codes), codes)

    return hours


def length_class(lengths: Ints) -> Ints:
    """2 events, up to 4, up to 8, up to 16, up to 32, up to 64, and more: 0 to ``CLASSES`` - 1."""
    return np.asarray(np.searchsorted(_LENGTHS, lengths))


_LENGTHS = np.array([2, 4, 8, 16, 32, 64])
CLASSES = len(_LENGTHS) + 1


def totals_in(clock: Clock, bins: LogBins, activities: int) -> Query:
    """The time from first to last event of cases of two events or more: of all (group 0), by last
    activity (groups 1 to ``activities``), and by this and the length (the groups behind them).
    """

    def totals(cases: Cases) -> Entries:
        known = KnownTimes.of(cases, clock)
        first, last = known.first, known.last
        kept = last > first
        first, last = first[kept], last[kept]
        place = bins.place(known.steps[last] - known.steps[first])
        groups = totals_groups(known.code[last], last - first + 1, activities)
        code = np.concatenate([group * len(bins) + place for group in groups])
        return Entries(np.tile(known.case[last], 3), np.full(len(code), UNIT_NORM), code)

    return totals


def totals_groups(last: Ints, lengths: Ints, activities: int) -> tuple[Ints, Ints, Ints]:
    """The groups of cases by the activity that they end with and their lengths."""
    by_last = 1 + last
    by_both = 1 + activities + last * CLASSES + length_class(lengths)
    return np.zeros(len(last), np.int64), by_last, by_both

"""The tables of timestamps/histogram: which there are, how a budget is shared among them, and
what a case contributes to each.

In each group of a table (a directly-follows pair, an activity) a case weighs 1, in grid steps
``UNIT_NORM``, spread over its occurrences. The kernel scales the whole vector to the norm of the
table's clip. Keys are numbers: the group times the bins of the table, and the bin.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import Field

from cloakwork.base.arrays import Floats, Ints, begins_of, distinct
from cloakwork.base.costs import Composed, PrivacyEvent, gaussian_moves
from cloakwork.base.exact import drawn_sigma
from cloakwork.base.facts import UNIX_EPOCH, Facts, Window
from cloakwork.base.frozen import frozen
from cloakwork.base.quantities import IF_SAID, Duration, Frozen, Number
from cloakwork.kernel import Cases, Clip, Entries, Gaussian, Query
from cloakwork.mechanisms.base import PartOfGoal
from cloakwork.mechanisms.timestamps.bins import DAY, Clock, LogBins

UNIT_NORM: Final = 2**14
"""Grid steps in one case: what a group counts for, and (L2) a case in one table."""

MOST_CELLS: Final = 2**10
"""Cells of one table that a case may count for; those that come first in it."""

LEAST_LONGEST: Final = timedelta(days=366)
"""Where the policy declares no longest gap, it is the length of the window, and at least this."""

WINDOW: Final = Window(
    start=datetime.fromisoformat("1970-01-01T00:00:00Z"),
    end=datetime.fromisoformat("2070-01-01T00:00:00Z"),
)
"""Where the policy declares none, one is looked for here; cases that start outside count at its
edges.
"""

TableName = Literal[
    "window", "gaps", "gaps-by-activity", "gaps-by-pair", "starts", "hours", "totals"
]

SPREAD: Final = Clip("l2", UNIT_NORM, MOST_CELLS)
"""A case counts for a vector of norm 1."""

CLIPS: Final[Mapping[TableName, Clip]] = {
    "window": Clip("l2", UNIT_NORM, 1),
    "gaps": SPREAD,
    "gaps-by-activity": SPREAD,
    "gaps-by-pair": SPREAD,
    "starts": Clip("l2", UNIT_NORM, 3),
    "hours": SPREAD,
    "totals": Clip("l2", UNIT_NORM, 3),
}
"""The tables, in the order in which they are asked for; ``window`` where none is declared."""

SHARES: Final[Mapping[TableName, float]] = {
    "window": 0.05,
    "gaps": 0.10,
    "gaps-by-activity": 0.10,
    "gaps-by-pair": 0.35,
    "starts": 0.10,
    "hours": 0.13,
    "totals": 0.22,
}
"""Parts of the budget (of mu squared), found on synthetic logs; without a declared window all
others are by the first one's smaller.
"""

MOST_FOR_WINDOW: Final = 3
"""The window gets at most so many times its share, where one owner has several cases. With 600
cases, five an owner, 8 of 30 releases lay in other years at one share, none at three.
"""

LEAST_SIGMA: Final = 1024.0
"""Grid steps: with sigma above 1,000 the accountant charges a whole vector by its norm."""


class TimesParams(Frozen, ABC):
    """Parameters of a mechanism that gives times, which say what it costs."""

    @abstractmethod
    def event(self) -> PrivacyEvent:
        """What all its answers cost, as the kernel charges them."""

    @property
    @abstractmethod
    def is_given_flow(self) -> bool:
        """Whether it takes the control flow as known, and hides times alone."""


class HistogramParams(TimesParams):
    """``sigmas``: of the discrete Gaussian noise on each table, in grid steps, ``UNIT_NORM`` to a
    case. ``max_cases``: cases of a unit. ``replaced``: what moves the tables is not a unit more or
    less, but other times of one. ``mu``: what the sigmas were found for.

    ``window``: of case starts; ``longest_gap``, ``time_zone``, ``epoch``, ``grid``: as declared
    (``Facts``). ``is_window_declared``: whether the window is the policy's; else it is measured
    within this one.
    """

    mu: Annotated[Number, Field(gt=0)]
    max_cases: Annotated[int, Field(ge=1)] = 1
    replaced: Annotated[bool, IF_SAID] = False
    sigmas: dict[TableName, Annotated[Number, Field(ge=LEAST_SIGMA)]]
    window: Window = WINDOW
    is_window_declared: bool = False
    longest_gap: Duration | None = None
    time_zone: Annotated[str | None, IF_SAID] = None
    epoch: datetime = UNIX_EPOCH
    grid: Duration = timedelta(seconds=1)

    def longest_in(self, window: Window) -> timedelta:
        """The longest gap, by what is declared or by the window of case starts."""
        return self.longest_gap or max(window.end - window.start, LEAST_LONGEST)

    def event(self) -> PrivacyEvent:
        """What all tables cost, as the kernel charges them."""
        events = [
            event_of(name, sigma, self.max_cases, self.replaced)
            for name, sigma in self.sigmas.items()
        ]
        return Composed(events=tuple(events))

    @property
    def is_given_flow(self) -> bool:
        """Where times are replaced."""
        return self.replaced


def event_of(
    name: TableName,
    sigma: float,
    max_cases: int,
    replaced: bool,
) -> PrivacyEvent:
    """What one table costs: what ``kernel.sum`` records for it."""
    clip = replace(CLIPS[name], replaced=replaced)
    return Gaussian(sigma).events(clip, max_cases, None)[0]


def offered_params(
    part: PartOfGoal,
    facts: Facts,
    of_tables: Mapping[TableName, float] = SHARES,
) -> HistogramParams:
    """The least noise for ``part``, shared out as ``of_tables`` says."""
    m = facts.unit.max_cases
    # The more cases of one owner are hidden, the harder a window is to find.
    window = of_tables["window"] * min(m, MOST_FOR_WINDOW)
    shares = {**of_tables, "window": window}
    # No window is measured where one is declared.
    if facts.window is not None:
        del shares["window"]
    total = sum(shares.values())
    sigmas = {}
    for name, share in shares.items():
        # The sigma at which a table, as it is charged, has the ratio of its share.
        ratio = part.mu * math.sqrt(share / total)
        norm = norm_charged(event_of(name, 2.0**40, m, part.replaced))
        sigmas[name] = drawn_sigma(max(norm / ratio * (1 + 1e-12), LEAST_SIGMA))
    return HistogramParams(
        mu=part.mu,
        max_cases=m,
        replaced=part.replaced,
        sigmas=sigmas,
        window=facts.window or WINDOW,
        is_window_declared=facts.window is not None,
        longest_gap=facts.longest_gap,
        time_zone=facts.time_zone,
        epoch=facts.epoch,
        grid=facts.grid,
    )


def norm_charged(event: PrivacyEvent) -> float:
    """The norm (L2) of the moves of a discrete Gaussian event, in grid steps."""
    times, sensitivity = gaussian_moves(event)
    return math.sqrt(times) * sensitivity


@frozen
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
        return begins_of(self.case)

    @property
    def last(self) -> Ints:
        """The last event of each case that has one."""
        return np.flatnonzero(np.diff(self.case, append=-1) != 0)

    @property
    def gaps(self) -> Ints:
        """The time before each of those that follow."""
        return self.steps[self.follows] - self.steps[self.follows - 1]

    def ends(self) -> tuple[Ints, Ints]:
        """The first and the last event of each case of two events or more."""
        first = self.first
        last = self.last
        several = last > first
        return first[several], last[several]


def pairs_of(cases: Cases) -> tuple[Ints, Ints]:
    """The directly-follows pairs of cases (a first label times the number of labels plus a second
    one), ascending; and of each event behind another one, which of them it is the second of.
    """
    after = np.flatnonzero(cases.place)
    pair = cases.codes[after - 1] * len(cases.alphabet) + cases.codes[after]
    return distinct(pair)[:2]


def spread_over(
    case: Ints,
    group: Ints,
    code: Ints,
) -> Entries:
    """Entries of the keys ``code``, one an occurrence; those of a case and a ``group`` weigh 1
    together. An entry of a group below 0 is left out.
    """
    kept = group >= 0
    case, group, code = case[kept], group[kept], code[kept]
    if not len(case):
        return Entries(case, case, code)
    # One number for each case and group.
    together = case * (int(group.max()) + 1) + group
    _, place, count = distinct(together)
    # Rounded down, so that a group never weighs more than 1.
    return Entries(case, UNIT_NORM // count[place], code)


def one_each(case: Ints, code: Ints) -> Entries:
    """The same, but each occurrence weighs 1: the kernel scales them such that the case has the
    norm of the clip, where ``spread_over`` would leave less the more cells they are in.
    """
    return Entries(case, np.full(len(case), UNIT_NORM), code)


def gaps_in(
    clock: Clock,
    bins: LogBins,
    row_of: Ints | None,
) -> Query:
    """The gaps by group: that of an event of activity b behind one of activity a is
    ``row_of[a, b]``; -1 where it counts for none. A case weighs as much in each of its groups.
    None: all gaps are one group, and each weighs as much.
    """

    def gaps(cases: Cases) -> Entries:
        known = KnownTimes.of(cases, clock)
        after = known.follows
        case = known.case[after]
        place = bins.place(known.gaps)
        if row_of is None:
            return one_each(case, place)
        group = row_of[known.code[after - 1], known.code[after]]
        return spread_over(case, group, group * len(bins) + place)

    return gaps


@frozen
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
    def within(
        cls,
        clock: Clock,
        window: Window,
        most: int,
    ) -> "StartTable":
        """Whole weeks, such that there are at most ``most`` periods."""
        first, last = clock.day(np.array(clock.grid.edges(window), np.int64)).tolist()
        span = last - first + 1
        days = 7 * max(1, -(-span // (7 * most)))
        return cls(
            clock,
            first,
            last,
            days,
            -(-span // days),
        )

    @property
    def cells(self) -> int:
        """Of all three."""
        return self.periods + 7 + self.clock.hours

    def query(self, cases: Cases) -> Entries:
        """One entry in each part for a case that has a time."""
        case, steps = self._starts(cases)
        weekday, hour = np.divmod(self.clock.slot(steps), self.clock.hours)
        period = self._period(steps)
        code = np.concatenate([period, self.periods + weekday, self.periods + 7 + hour])
        return one_each(np.tile(case, 3), code)

    def period_query(self, cases: Cases) -> Entries:
        """One entry for a case that has a time: the period in which it starts."""
        case, steps = self._starts(cases)
        return one_each(case, self._period(steps))

    def _starts(self, cases: Cases) -> tuple[Ints, Ints]:
        """The cases that have a time, and the first one of each."""
        known = KnownTimes.of(cases, self.clock)
        return known.case[known.first], known.steps[known.first]

    def _period(self, steps: Ints) -> Ints:
        """Of starts; those outside count at the edge."""
        period = (self.clock.day(steps) - self.first_day) // self.days
        return np.clip(period, 0, self.periods - 1)

    def window_of(self, noisy: Floats, sigma: float) -> Window:
        """Where cases start, by noisy numbers of cases by period: the periods next to each other
        that hold the most above half a ``sigma`` each, and one on either side.
        """
        # Half a sigma is taken off each, so that stretches of mere noise add up to less than 0.
        # The run of the largest sum is that between a running sum and its least one before.
        above = np.concatenate([[0.0], np.cumsum(noisy - sigma / 2)])
        least = np.minimum.accumulate(above)
        stop = int(np.argmax(above - least))
        start = int(np.argmin(above[: stop + 1]))
        edges = np.clip(np.array([start - 1, stop + 1]), 0, self.periods) * self.days
        first, last = self.clock.steps((self.first_day + edges) * DAY).tolist()
        grid = self.clock.grid
        return Window(start=grid.epoch + first * grid.step, end=grid.epoch + last * grid.step)

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


def week_codes(clock: Clock, steps: Ints) -> Ints:
    """The weekdays of events, their hours of the day, and both, one after another."""
    slot = clock.slot(steps)
    weekday, hour = np.divmod(slot, clock.hours)
    return np.concatenate([weekday, 7 + hour, 7 + clock.hours + slot])


WEEK_PARTS: Final = (0.7, 1.0, 0.85)
"""What an event weighs as one of its weekday, of its hour of the day, and of both."""


def hours_of(clock: Clock, weight: int = UNIT_NORM) -> Query:
    """When in the week events take place (``week_codes``); each counts for a part of ``weight``
    (``WEEK_PARTS``), in a case of whose vector the norm is larger than the clip's for less.
    """
    parts = np.maximum(1, np.array(WEEK_PARTS) * weight).astype(np.int64)

    def hours(cases: Cases) -> Entries:
        known = KnownTimes.of(cases, clock)
        code = week_codes(clock, known.steps)
        return Entries(np.tile(known.case, 3), np.repeat(parts, len(known.steps)), code)

    return hours


def totals_in(
    clock: Clock,
    bins: LogBins,
    activities: int,
) -> Query:
    """The time from first to last event of cases of two events or more: of all (group 0), by last
    activity (groups 1 to ``activities``), and by this and the length (the groups behind them).
    """

    def totals(cases: Cases) -> Entries:
        known = KnownTimes.of(cases, clock)
        first, last = known.ends()
        place = bins.place(known.steps[last] - known.steps[first])
        groups = totals_groups(known.code[last], last - first + 1, activities)
        code = np.concatenate([group * len(bins) + place for group in groups])
        return one_each(np.tile(known.case[last], 3), code)

    return totals


_LENGTHS = np.array([2, 4, 8, 16, 32, 64])
CLASSES = len(_LENGTHS) + 1
"""Of lengths: 2 events, up to 4, up to 8, up to 16, up to 32, up to 64, and more."""


def totals_groups(
    last: Ints,
    lengths: Ints,
    activities: int,
) -> tuple[Ints, Ints, Ints]:
    """The groups of cases by the activity that they end with and their lengths."""
    by_last = 1 + last
    # Behind the groups by last activity: one for each activity and class of lengths.
    by_both = 1 + activities + last * CLASSES + np.searchsorted(_LENGTHS, lengths)
    return np.zeros(len(last), np.int64), by_last, by_both

"""Give inserted events the attributes of real ones, so that nobody can tell by what an event lacks
that it was inserted; and times, where times are released as they are.

An activity is daily if all its kept times are on quarters of an hour, at one or two times of day:
midnight, in UTC or in any zone, in summer and in winter. An inserted event of it lies on a day
between its neighbours, at the commonest time of day or, where this follows the season, at that of
the kept events before and behind it: of all activities with these times of day. An inserted event
of any other activity lies at a time between its neighbours, cut to what its activity's finest kept
time is a multiple of.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final, Literal

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Ints, rank_among_equals
from cloakwork.base.facts import Facts
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.base.quantities import Frozen
from cloakwork.log.eventlog import ACTIVITY, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.log.variants import variants_of
from cloakwork.mechanisms.base import (
    MeetsNoGoal,
    Proof,
    Theorem,
)
from cloakwork.mechanisms.steps import Decision, MapCases, Rewrite, RewriteStep, event_addresses
from cloakwork.noise import Stream

_NONE: Final = -1
"""Stands for no row."""
_HOUR: Final = 3_600_000_000
_DAY: Final = 24 * _HOUR
_UNITS: Final = np.array([_HOUR, _HOUR // 4, 60_000_000, 1_000_000, 1_000, 1], np.int64)
"""Microseconds of an hour, a quarter of one, a minute, down to a microsecond."""
_DAILY_UNITS: Final = 2
"""How many of them, the coarsest, the times of a daily activity are multiples of."""


class FillParams(Frozen):
    """What is filled in, and from whom.

    ``columns``: what the policy releases of events beside the control flow: what lineage follows.
    ``times``: whether times are released as they are, so that inserted events get one, too.
    ``donors``: whose attributes an inserted event takes: those of an event of its ``activity`` or,
    beside quasi-identifiers, of the same place of its ``variant``.
    """

    columns: tuple[str, ...] = ()
    times: bool = False
    donors: Literal["activity", "variant"] = "activity"


class Fill(MeetsNoGoal[FillParams]):
    """Each inserted event copies the attributes of one kept event of its activity, missing ones
    included.

    Which event follows from the control flow and chance alone. Where times are released as they
    are, an inserted event lies at a random time between the kept events around it, as precise as
    the kept events of its activity; at either end of a case, as far from the rest as the event
    that it copies. Where a mechanism releases times, it has given all events theirs before.

    The event copied is one of the same number among the events of its activity in its case, where
    one is kept.

    Beside quasi-identifiers an event is copied from the same place of a case that follows the same
    variant, so that what a class shares stays shared; if no event is kept there, from the activity
    in that variant, then in the log as a whole.

    **Why it gives nothing away.** It copies what is released as it stands, inside each column. A
    guarantee over values is brought about after it, over all events and over the kept ones alone,
    and is measured both ways.

    **Edge cases.** Nothing inserted: unchanged. No kept event of an activity: its inserted events
    stay without attributes, and the check of k-anonymity takes them away before it counts once
    more. So it does with an event between whose neighbours no time is as precise as those of its
    activity.
    """

    name: ClassVar[str] = "kanon/fill"
    alone: ClassVar[str] = "it completes events that another mechanism has inserted"
    summary: ClassVar[str] = (
        "Gives inserted events the attributes of kept events of the same activity."
    )
    action: ClassVar[str] = "give inserted events attributes"
    proof: ClassVar[Proof] = "proved"
    theorem: ClassVar[Theorem] = Theorem(
        "Every inserted event has exactly the attribute values of a kept event of its activity, "
        "if there is any.",
        "by construction",
    )
    Params = FillParams
    needs_all_cases: ClassVar[str] = "any case may lend its values to an inserted event"

    def step(self, params: FillParams, facts: Facts) -> RewriteStep:
        """Copies values inside each column; who copies whom follows from the control flow."""
        columns = frozenset(params.columns)
        return RewriteStep(
            lineage=Lineage(
                reads=columns | {CONTROL_FLOW},
                writes=columns | {METADATA},
                fills=True,
                stability=None,
            ),
            rewrite=partial(self.rewrite, params),
        )

    def rewrite(
        self,
        params: FillParams,
        decision: Decision,
        stream: Stream,
    ) -> Rewrite:
        """Fill in the inserted events; all cases lie together.

        Any case may lend a row: a sample of the rows of each key would do for attributes alone,
        but beside quasi-identifiers there is a key for each place of each variant, so that the
        sample would be the log. Raw times need all kept ones: whether an activity is daily is said
        of all its times, and where days follow the season, an inserted one is like the kept days
        before and after it. The check reads all of them, and would take away what a sample misled.
        """
        return MapCases(lambda log: _with_filled_events(log, params, stream), together="log")


def _with_filled_events(log: EventLog, params: FillParams, stream: Stream) -> EventLog:
    if log.inserted is None or not log.inserted.any():
        return log
    labels = log.activities.fill_null("")
    activity = labels.rank("dense").to_numpy().astype(np.int64) - 1
    keys = _keys_of_donors(log, activity, params.donors)
    source = np.arange(log.events.height)
    source[log.inserted] = _drawn_sources(
        log,
        keys,
        log.inserted,
        stream.part("donors"),
    )
    row_or_null = pl.when(pl.col("row") != _NONE).then("row")
    rows = pl.DataFrame({"row": source}).select(row_or_null).to_series()
    attributes = log.events.drop(ACTIVITY, TIMESTAMP, strict=False)
    events = log.events.with_columns(attributes.select(pl.all().gather(rows)))
    if params.times and TIMESTAMP in log.events.columns:
        times = _times_with_inserted(
            log,
            log.inserted,
            activity,
            source,
            stream.part("times"),
        )
        events = events.with_columns(times)
    return replace(log, events=events)


def _keys_of_donors(log: EventLog, activity: Ints, donors: str) -> list[Ints]:
    """Whoever shares the first of these keys with an inserted event may lend its attributes to it;
    if nobody does, whoever shares the next one. Each has a number for each event.
    """
    activities = activity.max(initial=0) + 1
    if donors == "variant":
        variants = variants_of(log)
        variant = variants.of_case[log.case_of]
        # Where the variant's own activities begin, plus the position: a place of the variant, and
        # no two variants share a number.
        place = variants.offsets[variant] + log.position_of_event
        return [place, variant * activities + activity, activity]
    # How many events of its activity the case has before.
    before = rank_among_equals(log.case_of * activities + activity)
    return [activity * (before.max(initial=0) + 1) + before, activity]


def _drawn_sources(
    log: EventLog,
    keys: list[Ints],
    inserted: Bools,
    stream: Stream,
) -> Ints:
    """For each inserted event a random kept one that shares the first of ``keys`` it can; or -1."""
    kept = np.flatnonzero(~inserted)
    to_fill = np.flatnonzero(inserted)
    source = np.full(len(to_fill), _NONE, np.int64)
    for key in keys:
        remaining = np.flatnonzero(source == _NONE)
        # Sorted by key, the events of one key are a run, of which searchsorted finds both ends.
        by_key = kept[np.argsort(key[kept], kind="stable")]
        asked = key[to_fill[remaining]]
        first = np.searchsorted(key[by_key], asked, side="left")
        size = np.searchsorted(key[by_key], asked, side="right") - first
        occurs = np.flatnonzero(size > 0)
        found = remaining[occurs]
        if len(found):
            offset = stream.uniform(size[occurs], event_addresses(log, to_fill[found]))
            source[found] = by_key[first[occurs] + offset]
    return source


@frozen
class _Precision:
    """How precise the kept times of each activity are.

    - ``unit``: int64, shape (activities,); a day for daily activities, else what the finest of
      their times is a multiple of.
    - ``days``: for each daily activity the kept times that say when a day begins: ascending, not
      empty.
    """

    unit: Ints
    days: Mapping[int, Ints]

    @classmethod
    def of(cls, time: Ints, activity: Ints) -> "_Precision":
        """Of kept events: int64, shape (events,), in microseconds; and their activities."""
        unit = np.full(activity.max() + 1, _HOUR)
        coarsest = _UNITS[np.argmax(time[:, None] % _UNITS == 0, axis=1)]
        np.minimum.at(unit, activity, coarsest)
        time_of_day = time % _DAY
        events = np.bincount(activity)
        times_of_day = np.bincount(np.unique(activity * _DAY + time_of_day) // _DAY)
        # By their number, and not by chance, unless at midnight.
        is_repeated = events >= 3 * times_of_day
        is_repeated |= np.bincount(activity, time_of_day) == 0
        on_quarters = unit >= _UNITS[_DAILY_UNITS - 1]
        is_daily = on_quarters & (events > 0) & (times_of_day <= 2) & is_repeated
        unit[is_daily] = _DAY
        return cls(unit, _kept_days(time, activity, is_daily))

    def latest(self, until: Ints, activity: Ints) -> Ints:
        """The last time up to ``until`` that is as precise as kept ones of each activity."""
        unit = self.unit[activity]
        latest = until // unit * unit
        for each, kept in self.days.items():
            rows = np.flatnonzero(activity == each)
            place = np.searchsorted(kept, until[rows], side="right")
            before = kept[np.maximum(place - 1, 0)]
            behind = kept[np.minimum(place, len(kept) - 1)]
            on_a_day = until[rows] - (until[rows] - before) % _DAY
            # Between kept events of two seasons no day but theirs is sure to be in season.
            is_in_season = before % _DAY == behind % _DAY
            latest[rows] = np.where(is_in_season, on_a_day, before)
        return latest


def _kept_days(time: Ints, activity: Ints, is_daily: Bools) -> dict[int, Ints]:
    """``_Precision.days``: of the activities that have no other times of day than two an hour
    apart, all together where they follow one season, else of each that does so alone; of any other
    those at its commonest time of day.
    """
    time_of_day = time % _DAY
    found: dict[int, Ints] = {}
    of_daily, events = np.unique(time_of_day[is_daily[activity]], return_counts=True)
    # The season of the most events first.
    for earlier in of_daily[np.argsort(-events, kind="stable")]:
        is_other = ~np.isin(time_of_day, [earlier, (earlier + _HOUR) % _DAY])
        together = is_daily.copy()
        together[activity[is_other]] = False
        together[list(found)] = False
        times = np.sort(time[together[activity]])
        if _follow_season(times):
            found |= dict.fromkeys(np.flatnonzero(together).tolist(), times)
    for each in set(np.flatnonzero(is_daily).tolist()) - found.keys():
        times = np.sort(time[activity == each])
        if not _follow_season(times):
            commonest = np.argmax(np.bincount(times % _DAY // _UNITS[1])) * _UNITS[1]
            times = times[times % _DAY == commonest]
        found[each] = times
    return found


def _follow_season(times: Ints) -> bool:
    """Whether daily times (ascending) lie at two times of day, an hour apart, that change twice a
    year at most: midnight of a zone with summer time, as UTC shows it.
    """
    if len(times) == 0:
        return False
    time_of_day = times % _DAY
    apart = int(time_of_day.max() - time_of_day.min())
    half_years = int(times[-1] - times[0]) // (182 * _DAY) + 1
    changes = np.count_nonzero(np.diff(time_of_day))
    return bool(apart in (_HOUR, _DAY - _HOUR) and changes <= half_years + 1)


def _times_with_inserted(
    log: EventLog,
    inserted: Bools,
    activity: Ints,
    source: Ints,
    stream: Stream,
) -> pl.Series:
    """The times of all events, with one for each inserted event whose source has one.

    ``activity``: int64, shape (events,). ``source``: the row that each event copies; -1 for none.
    """
    stamps = log.microseconds
    is_known = stamps.is_not_null().to_numpy() & ~inserted
    if not is_known.any():
        return log.events[TIMESTAMP]
    time = np.where(is_known, stamps.fill_null(0).to_numpy(), 0)
    # An event without a source has no time to be like.
    to_time = inserted & (source != _NONE) & is_known[source]
    rows = np.flatnonzero(to_time)
    precision = _Precision.of(time[is_known], activity[is_known])
    time[rows] = _drawn_times(
        log,
        time,
        is_known,
        activity,
        rows,
        source[rows],
        precision,
        stream,
    )
    times = pl.Series(TIMESTAMP, time).cast(TIME_TYPE).cast(log.events.schema[TIMESTAMP])
    has_time = pl.Series(is_known | to_time)
    return pl.select(pl.when(has_time).then(times).alias(TIMESTAMP)).to_series()


def _drawn_times(
    log: EventLog,
    time: Ints,
    is_known: Bools,
    activity: Ints,
    rows: Ints,
    source: Ints,
    precision: _Precision,
    stream: Stream,
) -> Ints:
    """A time for each of ``rows``, between its neighbours in its case: int64, shape (rows,).

    Where no such time is as precise as those of its activity, one that is not: the check of
    k-anonymity then takes the event away.
    """
    # The kept event of the case before each event, and the one behind it; -1 for none.
    every = np.arange(len(time))
    known = np.flatnonzero(is_known)
    next_known = np.searchsorted(known, every, side="right")
    behind = np.append(known, _NONE)[next_known]
    before = np.insert(known, 0, _NONE)[np.searchsorted(known, every)]
    case_of = np.append(log.case_of, _NONE)
    earlier = np.where(case_of[before] == log.case_of, before, _NONE)
    later = np.where(case_of[behind] == log.case_of, behind, _NONE)
    # Events of one case between the same two kept ones have one number, ascending.
    case = log.case_of[rows]
    after = earlier[rows]
    starts_gap = (np.diff(case, prepend=_NONE) != 0) | (np.diff(after, prepend=_NONE) != 0)
    gap = np.cumsum(starts_gap)
    first_of_gap = np.searchsorted(gap, gap)

    # Where each would lie by chance.
    has_earlier = after != _NONE
    has_later = later[rows] != _NONE
    width = np.maximum(time[later[rows]] - time[after], 0) + 1
    between = time[after] + stream.uniform(width, event_addresses(log, rows))
    since_earlier = np.where(earlier[source] != _NONE, time[source] - time[earlier[source]], 0)
    until_later = np.where(later[source] != _NONE, time[later[source]] - time[source], 0)
    target = np.select(
        [has_earlier & has_later, has_earlier, has_later],
        [between, time[after] + since_earlier, time[later[rows]] - until_later],
        time[source][first_of_gap] + since_earlier,
    )
    first = int(time[known].min())
    last = int(time[known].max())
    target = np.clip(target, first, last)
    # They were drawn one by one; inside a gap they are given out in ascending order.
    target = target[np.lexsort((target, gap))]
    low = np.where(has_earlier, time[after], first - _DAY)
    high = np.where(has_later, np.maximum(time[later[rows]], low), last + _DAY)

    # The first event of each gap, then the second of each, and so on.
    place = np.arange(len(rows)) - first_of_gap
    by_place = np.argsort(place, kind="stable")
    turns = np.split(by_place, np.cumsum(np.bincount(place))[:-1])
    # Backwards: the latest time of each that leaves those behind it one.
    ceiling = np.append(high, 0)
    is_last = np.append(gap[1:] != gap[:-1], True)
    for turn in reversed(turns):
        limit = np.where(is_last[turn], high[turn], ceiling[turn + 1])
        latest = precision.latest(limit, activity[rows[turn]])
        ceiling[turn] = np.where(latest >= low[turn], latest, limit)
    # Forwards: the precise time before its target, or behind that, or else the latest.
    chosen = low.copy()
    for number, turn in enumerate(turns):
        least = chosen[turn - 1] if number else low[turn]
        most = ceiling[turn]
        of_activity = activity[rows[turn]]
        wanted = np.minimum(target[turn], most)
        time_before = precision.latest(wanted, of_activity)
        time_behind = precision.latest(wanted + precision.unit[of_activity], of_activity)
        fits_before = time_before >= least
        fits_behind = (time_behind >= least) & (time_behind <= most)
        chosen[turn] = np.select(
            [fits_before, fits_behind],
            [time_before, time_behind],
            np.maximum(most, least),
        )
    return chosen

"""Give inserted events the attributes of real ones, so that nobody can tell by what an event lacks
that it was inserted; and times, where times are released as they are.

An activity is daily if all its kept times are on quarters of an hour, at one or two times of day:
midnight, in UTC or in any zone, in summer and in winter. An inserted event of it lies on a day
between its neighbours, at the commonest time of day or, where this follows the season, at that of
the kept events before and behind it: of all activities with these times of day. An inserted event
of any other activity lies at a time between its neighbours, cut to what its activity's finest kept
time is a multiple of.
"""

import hashlib
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
from cloakwork.base.naming import values_of
from cloakwork.base.quantities import Frozen
from cloakwork.guarantees.inserted import follows_season
from cloakwork.log.eventlog import ACTIVITY, TIME_TYPE, TIMESTAMP, EventLog, places_among
from cloakwork.log.variants import variants_of
from cloakwork.mechanisms.base import (
    MeetsNoGoal,
    Proof,
    Theorem,
)
from cloakwork.mechanisms.steps import (
    Decision,
    MapCases,
    MapCasesBySummary,
    Rewrite,
    RewriteStep,
    event_addresses,
)
from cloakwork.noise import Stream

_NONE: Final = -1
"""Stands for no row."""
_HOUR: Final = 3_600_000_000
_DAY: Final = 24 * _HOUR
_UNITS: Final = np.array([_HOUR, _HOUR // 4, 60_000_000, 1_000_000, 1_000, 1], np.int64)
"""Microseconds of an hour, a quarter of one, a minute, down to a microsecond."""
_DAILY_UNITS: Final = 2
"""How many of them, the coarsest, the times of a daily activity are multiples of."""
_KEY: Final = ("variant", "place", "activity")
_LEVELS: Final = (_KEY, ("variant", "activity"), ("activity",))
"""Whoever shares the first of these with an inserted event may lend its attributes to it; if nobody
does, whoever shares the next one.
"""
_COUNTED: Final = (*_KEY, "kept", "inserted", "time", "unit", "first", "last")
_ADDRESS: Final = ("case", "position")


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

    Nobody lends to two while somebody else might: the inserted events that draw from the same kept
    ones take the first of these in a random order, each another one, and begin again where they are
    more. So a value is repeated as little as can be, and what is held of the log is one row for
    each inserted event.

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
            summary=KeptAndInserted(params),
            rewrite=partial(self.rewrite, params),
        )

    def rewrite(
        self,
        params: FillParams,
        decision: Decision,
        stream: Stream,
    ) -> Rewrite:
        """Fill in the inserted events by rows of the kept ones that were drawn for them."""
        counts = decision.table.filter(pl.col("unit").is_null())
        kept_times = decision.table.filter(pl.col("unit").is_not_null())
        wanted = _Wanted.of(counts)
        if not wanted.asking.height:
            return MapCases(lambda log: log, together="case")
        alphabet = tuple(counts["activity"].unique().sort())
        precision = _Precision.of(kept_times, alphabet) if kept_times.height else None

        def mapping(found: pl.DataFrame) -> MapCases:
            copies = _copies(found)
            times = stream.part("times")
            return MapCases(lambda log: _filled(log, copies, precision, times), together="case")

        return MapCasesBySummary(_Lent(params, wanted, stream.part("donors")), mapping)


@frozen
class KeptAndInserted:
    """The aggregate: how many events are ``kept`` and ``inserted`` (Int64) at each ``variant``
    (String, a digest; empty but for its donors), ``place`` and ``activity``.

    Where times are filled in, further rows with the ``unit`` (Int64) of kept ones: one for each
    ``time`` (Int64, microseconds) of an activity that has two times of day at most, on quarters of
    an hour; else one in all, whose time is null. ``first`` and ``last``: of these
    times.
    """

    params: FillParams

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Those of one batch."""
        is_kept = pl.Series(batch.kept)
        events = _keys(batch, self.params.donors)
        counted = events.with_columns(is_kept.alias("kept"), (~is_kept).alias("inserted"))
        tables = [counted.group_by(_KEY).agg(pl.col("kept", "inserted").sum().cast(pl.Int64))]
        if self.params.times and TIMESTAMP in batch.events.columns:
            times = events.select("activity", time=batch.microseconds)
            times = times.filter(is_kept).drop_nulls()
            unit = _UNITS[np.argmax(times["time"].to_numpy()[:, None] % _UNITS == 0, axis=1)]
            figures = pl.lit(1, pl.Int64).alias("kept"), pl.Series("unit", unit)
            tables.append(times.with_columns(*figures, first="time", last="time"))
        texts = ("variant", "activity")
        empty = pl.DataFrame(
            schema={name: pl.String() if name in texts else pl.Int64() for name in _COUNTED}
        )
        return self.merge(pl.concat([empty, *tables], how="diagonal"))

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Counts are added up."""
        counts = pl.col("unit").is_null().alias("counts")
        times_of_day = (pl.col("time") % _DAY).n_unique()
        is_coarse = pl.col("unit").min() >= _UNITS[_DAILY_UNITS - 1]
        # Who has more times of day here, or finer ones, has so in the whole log.
        is_listed = (times_of_day <= 2) & is_coarse & (pl.col("time").null_count() == 0)
        listed = pl.when(is_listed.over("activity", counts)).then("time").alias("time")
        merged = summaries.group_by(*_KEY, listed, counts).agg(
            pl.col("kept", "inserted").sum(),
            pl.col("unit", "first").min(),
            pl.col("last").max(),
        )
        return merged.select(_COUNTED).sort(_COUNTED)


def _keys(log: EventLog, donors: str) -> pl.DataFrame:
    """``_KEY`` of each event. ``place``: among the events of its activity in its case, or in its
    variant, where that is whose events it is like.
    """
    labels = log.activities.fill_null("").alias("activity")
    if donors == "variant":
        variants = variants_of(log)
        names = [
            # Text that no two variants share, of few bytes.
            hashlib.sha256(repr(variants.labels(variant)).encode()).hexdigest()
            for variant in range(len(variants))
        ]
        variant = pl.Series(names, dtype=pl.String).gather(variants.of_case[log.case_of])
        place = log.position_of_event
    else:
        variant = pl.repeat("", len(labels), dtype=pl.String, eager=True)
        activity = labels.rank("dense").to_numpy().astype(np.int64)
        # How many events of its activity the case has before.
        place = rank_among_equals(log.case_of * (activity.max(initial=0) + 1) + activity)
    return pl.DataFrame({"variant": variant, "place": place, "activity": labels})


@frozen
class _Wanted:
    """Who is asked for a row: the kept events of each group lend ``lent`` rows (Int64).

    ``groups``: for each of ``_LEVELS`` its columns, ``group`` (Int64) and ``lent``. ``asking``: the
    same for inserted events, by ``_KEY``.
    """

    groups: tuple[pl.DataFrame, ...]
    asking: pl.DataFrame

    @classmethod
    def of(cls, counts: pl.DataFrame) -> "_Wanted":
        """By the counts of ``KeptAndInserted``."""
        waiting = counts.filter(pl.col("inserted") > 0).select(*_KEY, "inserted")
        groups: list[pl.DataFrame] = []
        asking: list[pl.DataFrame] = []
        known = 0
        for level in range(len(_LEVELS)):
            lenders = (
                counts.group_by(_LEVELS[level]).agg(pl.col("kept").sum()).filter(pl.col("kept") > 0)
            )
            found = waiting.join(lenders, on=_LEVELS[level])
            waiting = waiting.join(lenders, on=_LEVELS[level], how="anti")
            lent = pl.min_horizontal(pl.col("inserted").sum(), pl.col("kept").first())
            group = found.group_by(_LEVELS[level]).agg(lent.alias("lent")).sort(_LEVELS[level])
            group = group.with_row_index("group", known).cast({"group": pl.Int64})
            known += group.height
            groups.append(group)
            asking.append(found.join(group, on=_LEVELS[level]).select(*_KEY, "group", "lent"))
        return cls(tuple(groups), pl.concat(asking))


@frozen
class _Lent:
    """The aggregate: the rows that kept events lend, and the addresses of the inserted events that
    they are for (``lends`` is False).

    By ``group``, those first that come first in a random order (``draw``), at most ``lent``. With
    the attributes (named by their places) and, where times are filled in, the ``time`` and how long
    it lies ``since`` the kept event before and ``until`` the one behind.
    """

    params: FillParams
    wanted: _Wanted
    stream: Stream

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Those of one batch."""
        at = event_addresses(batch, np.arange(batch.events.height))
        rows = _keys(batch, self.params.donors).with_columns(
            pl.Series("lends", batch.kept),
            pl.Series("case", at.cases),
            pl.Series("position", at.positions),
            pl.Series("draw", self.stream.words(at)[0]),
        )
        if self.params.times and TIMESTAMP in batch.events.columns:
            rows = rows.hstack(_distances(batch))
        attributes = batch.events.drop(ACTIVITY, TIMESTAMP, strict=False)
        attributes.columns = [str(place) for place in range(attributes.width)]
        rows = rows.hstack(attributes)
        kept = rows.filter("lends")
        lenders = [
            kept.join(groups, on=_LEVELS[level]) for level, groups in enumerate(self.wanted.groups)
        ]
        asking = rows.filter(~pl.col("lends")).join(self.wanted.asking, on=_KEY)
        found = pl.concat([table.drop(_KEY) for table in (asking, *lenders)], how="diagonal")
        return self.merge(found)

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """The first of each group."""
        ordered = summaries.sort("group", "lends", "draw", *_ADDRESS)
        place = pl.int_range(pl.len()).over("group", "lends")
        return ordered.filter(~pl.col("lends") | (place < pl.col("lent")))


def _copies(found: pl.DataFrame) -> pl.DataFrame:
    """For each inserted event at an address what it copies, as ``_Lent`` has it."""
    placed = found.with_columns(place=pl.int_range(pl.len()).over("group", "lends"))
    asking = placed.filter(~pl.col("lends"))
    asking = asking.select(*_ADDRESS, "group", place=pl.col("place") % pl.col("lent"))
    rows = placed.filter("lends").drop("lends", "draw", "lent", *_ADDRESS)
    return asking.join(rows, on=["group", "place"]).drop("group", "place")


def _filled(
    log: EventLog,
    copies: pl.DataFrame,
    precision: "_Precision | None",
    stream: Stream,
) -> EventLog:
    """``log`` with what its inserted events copy, and times where ``precision`` is known."""
    at = event_addresses(log, np.arange(log.events.height))
    events = pl.DataFrame({"case": at.cases, "position": at.positions})
    copied = events.join(copies, on=_ADDRESS, how="left", maintain_order="left")
    kept = pl.Series(log.kept)
    names = log.events.drop(ACTIVITY, TIMESTAMP, strict=False).columns
    columns = [
        values_of(log.events, name).zip_with(kept, copied[str(place)]).alias(name)
        for place, name in enumerate(names)
    ]
    if precision is not None:
        columns.append(_times_with_inserted(log, copied, precision, stream))
    return replace(log, events=log.events.with_columns(columns))


@frozen
class _Precision:
    """How precise the kept times of each activity of ``alphabet`` are.

    - ``unit``: int64, shape (activities,); a day for daily activities, else what the finest of
      their times is a multiple of.
    - ``days``: for each daily activity the kept times that say when a day begins: ascending, not
      empty.
    - ``first`` and ``last``: of all kept times.
    """

    alphabet: tuple[str, ...]
    unit: Ints
    days: Mapping[int, Ints]
    first: int
    last: int

    @classmethod
    def of(cls, kept: pl.DataFrame, alphabet: tuple[str, ...]) -> "_Precision":
        """By the times of ``KeptAndInserted``, of which there are some."""
        unit = np.full(len(alphabet), _HOUR)
        np.minimum.at(unit, places_among(kept["activity"], alphabet), kept["unit"].to_numpy())
        listed = kept.drop_nulls("time")
        activity = places_among(listed["activity"], alphabet)
        time = listed["time"].to_numpy()
        times = listed["kept"].to_numpy()
        time_of_day = time % _DAY
        events = np.bincount(activity, times, len(alphabet))
        distinct = np.unique(activity * _DAY + time_of_day) // _DAY
        times_of_day = np.bincount(distinct, minlength=len(alphabet))
        # By their number, and not by chance, unless at midnight.
        is_repeated = events >= 3 * times_of_day
        is_repeated |= np.bincount(activity, time_of_day, len(alphabet)) == 0
        on_quarters = unit >= _UNITS[_DAILY_UNITS - 1]
        is_daily = on_quarters & (events > 0) & (times_of_day <= 2) & is_repeated
        unit[is_daily] = _DAY
        rows = is_daily[activity]
        days = _kept_days(time[rows], times[rows], activity[rows], is_daily)
        return cls(alphabet, unit, days, *kept.select(pl.min("first"), pl.max("last")).row(0))

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


def _kept_days(
    time: Ints,
    events: Ints,
    activity: Ints,
    is_daily: Bools,
) -> dict[int, Ints]:
    """``_Precision.days``, by the times of daily activities, and how many events have each: of the
    activities that have no other times of day than two an hour apart, all together where they
    follow one season, else of each that does so alone; of any other those at its commonest time of
    day.
    """
    time_of_day = time % _DAY
    found: dict[int, Ints] = {}
    of_daily, place = np.unique(time_of_day, return_inverse=True)
    # The season of the most events first.
    for earlier in of_daily[np.argsort(-np.bincount(place, events), kind="stable")]:
        is_other = ~np.isin(time_of_day, [earlier, (earlier + _HOUR) % _DAY])
        together = is_daily.copy()
        together[activity[is_other]] = False
        together[list(found)] = False
        times = np.sort(time[together[activity]])
        if follows_season(times):
            found |= dict.fromkeys(np.flatnonzero(together).tolist(), times)
    for each in set(np.flatnonzero(is_daily).tolist()) - found.keys():
        rows = np.flatnonzero(activity == each)
        times = np.sort(time[rows])
        if not follows_season(times):
            quarters = np.bincount(time_of_day[rows] // _UNITS[1], events[rows])
            times = times[times % _DAY == np.argmax(quarters) * _UNITS[1]]
        found[each] = times
    return found


def _known_times(log: EventLog) -> tuple[Ints, Bools]:
    """The time of each event in microseconds, 0 but where it is kept and has one; and where."""
    stamps = log.microseconds
    is_known = stamps.is_not_null().to_numpy() & log.kept
    return np.where(is_known, stamps.fill_null(0).to_numpy(), 0), is_known


def _neighbours(log: EventLog, is_known: Bools) -> tuple[Ints, Ints]:
    """For each event the kept one before it in its case, and the one behind it; -1 for none."""
    row = pl.when("known").then(pl.int_range(pl.len()))
    table = pl.DataFrame({"case": log.case_of, "known": is_known}).with_columns(row=row)
    earlier = pl.col("row").shift(1).forward_fill().over("case").fill_null(_NONE)
    later = pl.col("row").shift(-1).backward_fill().over("case").fill_null(_NONE)
    found = table.select(earlier.alias("earlier"), later.alias("later"))
    return found["earlier"].to_numpy(), found["later"].to_numpy()


def _distances(log: EventLog) -> pl.DataFrame:
    """``time``, ``since`` and ``until`` of each event, as ``_Lent`` has them."""
    time, is_known = _known_times(log)
    earlier, later = _neighbours(log, is_known)
    since = np.where(earlier != _NONE, time - time[earlier], 0)
    until = np.where(later != _NONE, time[later] - time, 0)
    known = pl.when(pl.Series(is_known)).then("time").alias("time")
    return pl.DataFrame({"time": time, "since": since, "until": until}).with_columns(known)


def _times_with_inserted(
    log: EventLog,
    copied: pl.DataFrame,
    precision: _Precision,
    stream: Stream,
) -> pl.Series:
    """The times of all events, with one for each inserted event that copies one with a time.

    ``copied``: what each event copies.
    """
    time, is_known = _known_times(log)
    rows = np.flatnonzero(copied["time"].is_not_null())
    time[rows] = _drawn_times(log, time, is_known, rows, copied[rows], precision, stream)
    times = pl.Series(TIMESTAMP, time).cast(TIME_TYPE).cast(log.events.schema[TIMESTAMP])
    is_known[rows] = True
    return times.set(pl.Series(~is_known), None)


def _drawn_times(
    log: EventLog,
    time: Ints,
    is_known: Bools,
    rows: Ints,
    copied: pl.DataFrame,
    precision: _Precision,
    stream: Stream,
) -> Ints:
    """A time for each of ``rows``, between its neighbours in its case: int64, shape (rows,).

    ``copied``: what each of them copies. Where no such time is as precise as those of its activity,
    one that is not: the check of k-anonymity then takes the event away.
    """
    activity = places_among(log.activities.fill_null("").gather(rows), precision.alphabet)
    earlier, later = _neighbours(log, is_known)
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
    since_earlier = copied["since"].to_numpy()
    until_later = copied["until"].to_numpy()
    target = np.select(
        [has_earlier & has_later, has_earlier, has_later],
        [between, time[after] + since_earlier, time[later[rows]] - until_later],
        copied["time"].to_numpy()[first_of_gap] + since_earlier,
    )
    first = precision.first
    last = precision.last
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
        latest = precision.latest(limit, activity[turn])
        ceiling[turn] = np.where(latest >= low[turn], latest, limit)
    # Forwards: the precise time before its target, or behind that, or else the latest.
    chosen = low.copy()
    for number, turn in enumerate(turns):
        least = chosen[turn - 1] if number else low[turn]
        most = ceiling[turn]
        of_activity = activity[turn]
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

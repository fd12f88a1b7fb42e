"""What remains of a log for somebody who looks for inserted events: known only inside a run, never
from a file.
"""

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.log.naming import values_of

_HOUR: Final = 3_600_000_000
_DAY: Final = 86_400_000_000
_HALF_YEAR: Final = 182 * _DAY
_UNITS: Final = (3_600_000_000, 900_000_000, 60_000_000, 1_000_000, 1_000)
"""Microseconds of an hour, a quarter, a minute, a second and a millisecond."""
_TIMES: Final = pl.List(pl.Int64())
_QUARTERS: Final = 1
"""Where a quarter stands among the units."""


def without_visible_insertions(log: EventLog, *, by_time: bool = False) -> EventLog:
    """``log`` without the inserted events that show: no kept event of their activity lacks just the
    same attributes.

    ``by_time``: times are released as they are; then the inserted events, too, whose time is more
    precise than all those of kept events of their activity, or, where these have one or two times
    of day only, that have another.
    """
    if log.inserted is None:
        return log
    # A number for each combination of an activity and the attributes that are missing: one bit more
    # an attribute, renumbered each time, since the bits of many attributes would not fit.
    pattern = _activity_numbers(log)
    for name in log.events.columns:
        if name == ACTIVITY:
            continue
        is_missing = values_of(log.events, name).is_null().to_numpy()
        _, pattern = np.unique(2 * pattern + is_missing, return_inverse=True)
    is_plausible = np.isin(pattern, pattern[log.kept])
    if by_time and TIMESTAMP in log.events.columns:
        is_plausible &= _has_plausible_time(log)
    return log.keep_events(log.kept | is_plausible)


def _activity_numbers(log: EventLog) -> NDArray[np.int64]:
    """A number for each event that events of one activity share: int64."""
    activity = values_of(log.events, ACTIVITY).rank("dense").fill_null(0)
    return activity.to_numpy().astype(np.int64)


def _has_plausible_time(log: EventLog) -> NDArray[np.bool_]:
    """Whether an event's time may be one of the kept events of its activity; True where it has no
    time.
    """
    stamps = log.events[TIMESTAMP].cast(TIME_TYPE).to_physical()
    has_time = stamps.is_not_null().to_numpy()
    rows = _time_rows(log, stamps.fill_null(0).to_numpy(), has_time & log.kept)
    times_of_activity = _kept_times(rows)
    kept_rows = rows.filter("kept").join(
        times_of_activity.filter(pl.col("times_of_day").is_not_null()), "activity", how="semi"
    )
    seasons = _seasons(kept_rows)
    joined = rows.join(times_of_activity, "activity", how="left", maintain_order="left")
    joined = joined.join(seasons, "activity", how="left", maintain_order="left")
    times_of_day = pl.coalesce("times_of_season", "times_of_day")
    is_plausible = (
        pl.when(times_of_day.is_not_null())
        .then(times_of_day.list.contains(pl.col("time_of_day")))
        .otherwise(pl.col("fineness") <= pl.col("finest"))
        .fill_null(value=False)
    )
    found = joined.select(is_plausible).to_series().to_numpy() & _is_in_season(joined)
    return np.asarray(found | ~has_time, np.bool_)


def _time_rows(log: EventLog, time: NDArray[np.int64], is_kept: NDArray[np.bool_]) -> pl.DataFrame:
    """One row an event: ``activity``, ``time`` (microseconds), ``time_of_day``, ``fineness`` (0 for
    whole hours, 1 for quarters, and so on) and ``kept``.
    """
    divides_time = [time % unit == 0 for unit in _UNITS]
    # The first unit that divides the time; one more than the last where none does.
    fineness = np.select(divides_time, range(len(_UNITS)), len(_UNITS))
    return pl.DataFrame(
        {
            "activity": _activity_numbers(log),
            "time": time,
            "time_of_day": time % _DAY,
            "fineness": fineness,
            "kept": is_kept,
        }
    )


def _kept_times(rows: pl.DataFrame) -> pl.DataFrame:
    """For each activity of kept events ``finest``, the finest of their times, and ``times_of_day``,
    where these identify them; else null.

    Times of day identify events only where they are all on quarters of an hour, and on midnight of
    UTC or at three times as many events as times of day.
    """
    kept = (
        rows.filter("kept")
        .group_by("activity")
        .agg(
            times_of_day=pl.col("time_of_day").unique(),
            finest=pl.col("fineness").max(),
            events=pl.len(),
        )
    )
    times_of_day = pl.col("times_of_day").list.len()
    is_midnight = (times_of_day == 1) & (pl.col("times_of_day").list.first() == 0)
    is_repeated = (times_of_day <= 2) & (pl.col("events") >= 3 * times_of_day)
    is_on_quarters = pl.col("finest") <= _QUARTERS
    # Long lists become null before the join, since each event gets that of its activity.
    daily_times = pl.when((is_midnight | is_repeated) & is_on_quarters).then("times_of_day")
    return kept.select("activity", "finest", times_of_day=daily_times)


def _is_in_season(rows: pl.DataFrame) -> NDArray[np.bool_]:
    """Whether the kept events of its season before and after each event have its time of day.
    Elsewhere than in a season True.

    ``rows``: as ``_time_rows`` gives them, with ``season``.
    """
    ordered = rows.with_row_index("row").sort("season", "time")
    # At a time that a kept event has, the season is known.
    time_of_kept = pl.when("kept").then("time_of_day").max()
    ordered = ordered.with_columns(time_of_kept=time_of_kept.over("season", "time"))
    ordered = ordered.with_columns(
        before=pl.col("time_of_kept").forward_fill().over("season"),
        after=pl.col("time_of_kept").backward_fill().over("season"),
    )
    # Before the first kept event, and behind the last, the other neighbour decides alone.
    before = pl.col("before").fill_null(pl.col("after"))
    after = pl.col("after").fill_null(pl.col("before"))
    has_their_time = (before == pl.col("time_of_day")) & (after == pl.col("time_of_day"))
    in_season = ordered.select("row", in_season=pl.col("season").is_null() | has_their_time)
    return in_season.sort("row")["in_season"].to_numpy()


def _seasons(kept: pl.DataFrame) -> pl.DataFrame:
    """The activities whose times of day follow a season: ``activity``, ``season``, a number that
    activities of one season share, and ``times_of_season``, its two times of day.

    ``kept``: rows as ``_time_rows`` gives them, of kept events whose times of day identify them.
    A season is one of all activities that have no other times of day than two an hour apart; where
    these change more often than seasons do, of each activity alone.
    """
    columns = {"activity": kept.schema["activity"], "season": pl.Int64(), "times_of_season": _TIMES}
    schema = pl.Schema(columns)
    found = pl.DataFrame(schema=schema)
    counted = kept.group_by("time_of_day").len()
    # The season of the most events first.
    frequent = counted.sort(-pl.col("len").cast(pl.Int64), "time_of_day")["time_of_day"]
    groups = [kept.filter(_only_within_hour(earlier)) for earlier in frequent]
    groups += kept.partition_by("activity", maintain_order=True)
    for season, group in enumerate(groups):
        unassigned = group.join(found, "activity", how="anti")
        if not _follows_season(unassigned):
            continue
        activities = unassigned["activity"].unique()
        times = unassigned["time_of_day"].unique().to_list()
        members = pl.DataFrame(
            {
                "activity": activities,
                "season": [season] * len(activities),
                "times_of_season": [times] * len(activities),
            },
            schema,
        )
        found = found.vstack(members)
    return found


def _only_within_hour(earlier: int) -> pl.Expr:
    """Rows of activities all of whose times of day are ``earlier`` or an hour later."""
    return pl.col("time_of_day").is_in([earlier, (earlier + _HOUR) % _DAY]).all().over("activity")


def _follows_season(kept: pl.DataFrame) -> bool:
    """Whether times have two times of day, an hour apart, that change twice a year at most:
    midnight of a zone with summer time.
    """
    ordered = kept.sort("time")
    times_of_day = sorted(set(ordered["time_of_day"].to_list()))
    if len(times_of_day) != 2:
        return False
    # Around midnight, an hour apart are 23 hours.
    if times_of_day[1] - times_of_day[0] not in (_HOUR, _DAY - _HOUR):
        return False
    half_years = (int(ordered["time"][-1]) - int(ordered["time"][0])) // _HALF_YEAR + 1
    changes = int((ordered["time_of_day"].diff() != 0).sum())
    return changes <= half_years + 1


def without_their_values(log: EventLog, attribute: str | None) -> EventLog:
    """``log`` where inserted events have no value of ``attribute``."""
    if attribute is None or attribute.startswith(CASE_PREFIX):
        return log
    if attribute not in log.events.columns:
        return log
    values = values_of(log.events, attribute)
    nothing = pl.Series(values.name, [None] * len(values), dtype=values.dtype)
    of_kept = values.zip_with(pl.Series(log.kept), nothing)
    return replace(log, events=log.events.with_columns(of_kept.alias(attribute)))

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
_UNITS: Final = (3_600_000_000, 900_000_000, 60_000_000, 1_000_000, 1_000)
"""Microseconds of an hour, a quarter, a minute, a second and a millisecond."""


def without_visible_insertions(log: EventLog, *, by_time: bool = False) -> EventLog:
    """``log`` without the inserted events that show: no kept event of their activity lacks just the
    same attributes.

    ``by_time``: times are released as they are; then the inserted events, too, whose time is more
    precise than all those of kept events of their activity, or, where these have one or two times
    of day only, that have another.
    """
    if log.inserted is None:
        return log
    # A number for each combination of an activity and the attributes that are missing.
    pattern = _activity_numbers(log)
    for name in log.events.columns:
        if name != ACTIVITY:
            missing = values_of(log.events, name).is_null().to_numpy()
            distinct_patterns = np.unique(2 * pattern + missing, return_inverse=True)
            pattern = distinct_patterns[1].astype(np.int64)
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

    Times of day identify events only where they are all on quarters of an hour, and on midnight of
    UTC or at three times as many events as times of day.
    """
    stamps = log.events[TIMESTAMP].cast(TIME_TYPE).to_physical()
    time, known = stamps.fill_null(0).to_numpy(), stamps.is_not_null().to_numpy()
    # 0 for whole hours, 1 for quarters, and so on.
    fineness = np.select([time % unit == 0 for unit in _UNITS], range(len(_UNITS)), len(_UNITS))
    rows = pl.DataFrame(
        {"activity": _activity_numbers(log), "time_of_day": time % _DAY, "fineness": fineness}
    )
    by_activity = rows.filter(pl.Series(known & log.kept)).group_by("activity")
    kept = by_activity.agg(
        times_of_day=pl.col("time_of_day").unique(),
        finest=pl.col("fineness").max(),
        events=pl.len(),
    )
    times_of_day = pl.col("times_of_day").list.len()
    is_midnight = (times_of_day == 1) & (pl.col("times_of_day").list.first() == 0)
    is_repeated = (times_of_day <= 2) & (pl.col("events") >= 3 * times_of_day)
    is_daily = (is_midnight | is_repeated) & (pl.col("finest") <= 1)
    # Long lists become null before the join, since each event gets that of its activity.
    kept = kept.with_columns(is_daily=is_daily)
    kept = kept.with_columns(times_of_day=pl.when("is_daily").then("times_of_day"))
    joined = rows.join(kept, "activity", how="left", maintain_order="left")
    is_plausible = (
        pl.when(pl.col("times_of_day").is_not_null())
        .then(pl.col("times_of_day").list.contains(pl.col("time_of_day")))
        .otherwise(pl.col("fineness") <= pl.col("finest"))
        .fill_null(value=False)
    )
    found = joined.select(is_plausible).to_series().to_numpy()
    found = found & _is_in_season(rows.with_columns(time=time, kept=known & log.kept))
    return np.asarray(found | ~known, np.bool_)


def _is_in_season(rows: pl.DataFrame) -> NDArray[np.bool_]:
    """Whether the kept events of the activity before and after each event have its time of day,
    where these are two, an hour apart, and change twice a year at most: midnight of a zone with
    summer time. Elsewhere True.

    ``rows``: one an event, with ``activity``, ``time`` (microseconds), ``time_of_day``, ``kept``.
    """
    ordered = rows.with_row_index("row").sort("activity", "time")
    # At a time that a kept event has, the season is known.
    of_kept = pl.when("kept").then("time_of_day").max()
    ordered = ordered.with_columns(of_kept=of_kept.over("activity", "time"))
    ordered = ordered.with_columns(
        before=pl.col("of_kept").forward_fill().over("activity"),
        after=pl.col("of_kept").backward_fill().over("activity"),
    )
    kept = ordered.filter("kept").group_by("activity", maintain_order=True)
    seasons = kept.agg(
        apart=pl.col("time_of_day").max() - pl.col("time_of_day").min(),
        times=pl.col("time_of_day").n_unique(),
        changes=(pl.col("time_of_day").diff() != 0).sum(),
        half_years=(pl.col("time").max() - pl.col("time").min()) // (182 * _DAY) + 1,
    )
    hour_apart = pl.col("apart").is_in([_HOUR, _DAY - _HOUR]) & (pl.col("times") == 2)
    follows = hour_apart & (pl.col("changes") <= pl.col("half_years") + 1)
    joined = ordered.join(
        seasons.select("activity", follows=follows), "activity", how="left", maintain_order="left"
    )
    same_before = pl.col("before").fill_null(pl.col("after")) == pl.col("time_of_day")
    same_after = pl.col("after").fill_null(pl.col("before")) == pl.col("time_of_day")
    fits = ~pl.col("follows").fill_null(value=False) | (same_before & same_after)
    return joined.select("row", fits=fits).sort("row")["fits"].to_numpy()


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

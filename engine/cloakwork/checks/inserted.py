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
    joined = rows.join(_kept_times(rows), "activity", how="left", maintain_order="left")
    is_plausible = (
        pl.when(pl.col("times_of_day").is_not_null())
        .then(pl.col("times_of_day").list.contains(pl.col("time_of_day")))
        .otherwise(pl.col("fineness") <= pl.col("finest"))
        .fill_null(value=False)
    )
    found = joined.select(is_plausible).to_series().to_numpy() & _is_in_season(rows)
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
    """Whether the kept events of the activity before and after each event have its time of day,
    where the activity follows seasons. Elsewhere True.

    ``rows``: as ``_time_rows`` gives them.
    """
    ordered = rows.with_row_index("row").sort("activity", "time")
    # At a time that a kept event has, the season is known.
    time_of_kept = pl.when("kept").then("time_of_day").max()
    ordered = ordered.with_columns(time_of_kept=time_of_kept.over("activity", "time"))
    ordered = ordered.with_columns(
        before=pl.col("time_of_kept").forward_fill().over("activity"),
        after=pl.col("time_of_kept").backward_fill().over("activity"),
    )
    joined = ordered.join(
        _seasonal_activities(ordered), "activity", how="left", maintain_order="left"
    )
    # Before the first kept event, and behind the last, the other neighbour decides alone.
    before = pl.col("before").fill_null(pl.col("after"))
    after = pl.col("after").fill_null(pl.col("before"))
    has_their_time = (before == pl.col("time_of_day")) & (after == pl.col("time_of_day"))
    is_seasonal = pl.col("is_seasonal").fill_null(value=False)
    in_season = joined.select("row", in_season=~is_seasonal | has_their_time)
    return in_season.sort("row")["in_season"].to_numpy()


def _seasonal_activities(ordered: pl.DataFrame) -> pl.DataFrame:
    """For each activity ``is_seasonal``: whether its kept events have two times of day, an hour
    apart, that change twice a year at most: midnight of a zone with summer time.

    ``ordered``: as ``_time_rows`` gives them, by activity and time.
    """
    kept = ordered.filter("kept").group_by("activity", maintain_order=True)
    seasons = kept.agg(
        apart=pl.col("time_of_day").max() - pl.col("time_of_day").min(),
        times_of_day=pl.col("time_of_day").n_unique(),
        changes=(pl.col("time_of_day").diff() != 0).sum(),
        half_years=(pl.col("time").max() - pl.col("time").min()) // _HALF_YEAR + 1,
    )
    # Around midnight, an hour apart are 23 hours.
    hour_apart = pl.col("apart").is_in([_HOUR, _DAY - _HOUR]) & (pl.col("times_of_day") == 2)
    is_seasonal = hour_apart & (pl.col("changes") <= pl.col("half_years") + 1)
    return seasons.select("activity", is_seasonal=is_seasonal)


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

"""What remains of a log for somebody who looks for inserted events: known only inside a run, never
from a file.

Which events show is said of the whole log, so batches are looked at twice: for what its kept events
are like, and to leave out the inserted events that are not.
"""

import json
from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Ints
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import nulls, values_of
from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, TIMESTAMP, EventLog

_HOUR: Final = 3_600_000_000
_DAY: Final = 86_400_000_000
_HALF_YEAR: Final = 182 * _DAY
_UNITS: Final = (3_600_000_000, 900_000_000, 60_000_000, 1_000_000, 1_000)
"""Microseconds of an hour, a quarter, a minute, a second and a millisecond."""
_TIMES: Final = pl.List(pl.Int64())
_QUARTERS: Final = 1
"""Where a quarter stands among the units."""
_SCHEMA: Final = pl.Schema(
    {
        "activity": pl.String(),
        "present": pl.String(),
        "time": pl.Int64(),
        "finest": pl.Int64(),
        "events": pl.Int64(),
    }
)


@frozen
class KeptEvents:
    """What the events of a log are like that are not inserted, by activity (String).

    - One row for each set of attributes that events of the activity have: ``present`` (String, its
      names as JSON, sorted).
    - Where ``by_time``, and kept events have times, rows whose ``present`` is null: one for each
      ``time`` (Int64, microseconds) of an activity that has two times of day at most in this batch,
      on quarters of an hour; else one in all, whose time is null. ``finest`` (Int64): 0 for times
      of whole hours, 1 for quarters, and so on; ``events``: how many there are.
    """

    by_time: bool = False

    def of(self, batch: EventLog) -> pl.DataFrame:
        """The kept events of one batch."""
        kept = batch.keep_events(batch.kept) if batch.inserted is not None else batch
        _, patterns = _patterns(kept)
        tables = [patterns]
        if self.by_time and TIMESTAMP in batch.events.columns:
            tables.append(_counted_times(_time_rows(kept).filter("has_time")))
        empty = pl.DataFrame(schema=_SCHEMA)
        return pl.concat([empty, *tables], how="diagonal")

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Each row once; events are added up."""
        by = ["activity", "present", "time"]
        counts = [pl.col("finest").max(), pl.col("events").sum()]
        return summaries.group_by(by).agg(counts)


@frozen
class WithoutVisibleInsertions:
    """Leaves out the inserted events that show: no kept event of their activity lacks just the same
    attributes.

    ``kept``: the merged ``KeptEvents`` of the whole log. ``by_time``: times are released as they
    are; then the inserted events, too, whose time is more precise than all those of kept events of
    their activity, or, where these have one or two times of day only, that have another.
    """

    kept: pl.DataFrame
    by_time: bool

    def __call__(self, batch: EventLog) -> EventLog:
        """The batch without them."""
        if batch.inserted is None:
            return batch
        number, patterns = _patterns(batch)
        # Compared with the kept events of the whole log, not of this batch alone.
        of_kept = self.kept.filter(pl.col("present").is_not_null())
        found = patterns.with_row_index("row").join(
            of_kept, ["activity", "present"], how="semi", nulls_equal=True
        )
        is_plausible = np.isin(number, found["row"].to_numpy())
        if self.by_time and TIMESTAMP in batch.events.columns:
            is_plausible &= self._has_plausible_time(batch)
        return batch.keep_events(batch.kept | is_plausible)

    def _has_plausible_time(self, batch: EventLog) -> Bools:
        """Whether its time may be one of kept events of its activity; True where it has none."""
        kept = self.kept.filter(pl.col("present").is_null())
        times_of_activity = _kept_times(kept)
        identified = times_of_activity.filter(pl.col("times_of_day").is_not_null())
        daily = kept.join(identified, "activity", how="semi", nulls_equal=True)
        daily = daily.with_columns(time_of_day=pl.col("time") % _DAY)
        seasons = _seasons(daily)
        rows = _time_rows(batch)
        for table in (times_of_activity, seasons):
            rows = rows.join(table, "activity", how="left", nulls_equal=True, maintain_order="left")
        times_of_day = pl.coalesce("times_of_season", "times_of_day")
        is_plausible = (
            pl.when(times_of_day.is_not_null())
            .then(times_of_day.list.contains(pl.col("time_of_day")))
            .otherwise(pl.col("fineness") <= pl.col("finest"))
            .fill_null(value=False)
        )
        found = rows.select(is_plausible).to_series().to_numpy()
        in_season = daily.join(seasons, "activity", nulls_equal=True)
        found = found & _agree_with_season(rows, in_season)
        # An event without a time cannot show by one.
        return np.asarray(found | ~rows["has_time"].to_numpy(), np.bool_)


def _patterns(log: EventLog) -> tuple[Ints, pl.DataFrame]:
    """A number for each event that events of one activity with the same attributes share, and of
    each number its ``activity`` and ``present``, as in ``KeptEvents``.
    """
    # One bit more an attribute, renumbered each time, since the bits of many attributes would not
    # fit.
    activity = values_of(log.events, ACTIVITY).cast(pl.String)
    number = activity.rank("dense").fill_null(0).to_numpy().astype(np.int64)
    number = np.unique(number, return_inverse=True)[1]
    is_present = {}
    for name in sorted(log.events.columns):
        if name != ACTIVITY:
            is_present[name] = values_of(log.events, name).is_not_null().to_numpy()
            _, number = np.unique(2 * number + is_present[name], return_inverse=True)
    _, example = np.unique(number, return_index=True)
    present = [
        json.dumps([name for name, has_value in is_present.items() if has_value[row]])
        for row in example
    ]
    patterns = pl.DataFrame({"present": pl.Series(present, dtype=pl.String)})
    return number, patterns.with_columns(activity=activity.gather(example))


def _time_rows(log: EventLog) -> pl.DataFrame:
    """One row an event: ``activity``, ``time`` (microseconds; 0 where it has none), ``has_time``,
    ``time_of_day`` and ``fineness`` (0 for whole hours, 1 for quarters, and so on).
    """
    stamps = log.microseconds
    time = stamps.fill_null(0).to_numpy()
    divides_time = [time % unit == 0 for unit in _UNITS]
    # The first unit that divides the time; one more than the last where none does.
    fineness = np.select(divides_time, range(len(_UNITS)), len(_UNITS))
    return pl.DataFrame(
        {
            "activity": values_of(log.events, ACTIVITY).cast(pl.String),
            "time": time,
            "has_time": stamps.is_not_null(),
            "time_of_day": time % _DAY,
            "fineness": fineness.astype(np.int64),
        }
    )


def _counted_times(rows: pl.DataFrame) -> pl.DataFrame:
    """Times of kept events as ``KeptEvents`` lists them."""
    counts = [pl.col("fineness").max().alias("finest"), pl.len().cast(pl.Int64).alias("events")]
    # Who has more times of day here, or finer ones, has so in the whole log.
    times_of_day = pl.col("time_of_day").n_unique().over("activity")
    finest = pl.col("fineness").max().over("activity")
    is_daily = (times_of_day <= 2) & (finest <= _QUARTERS)
    return pl.concat(
        [
            rows.filter(is_daily).group_by("activity", "time").agg(counts),
            rows.filter(~is_daily).group_by("activity").agg(counts),
        ],
        how="diagonal",
    )


def _kept_times(kept: pl.DataFrame) -> pl.DataFrame:
    """For each activity of kept events ``finest``, the finest of their times, and ``times_of_day``,
    where these identify them; else null.

    Times of day identify events only where they are all on quarters of an hour, and on midnight of
    UTC or at three times as many events as times of day.
    """
    found = kept.group_by("activity").agg(
        times_of_day=(pl.col("time") % _DAY).drop_nulls().unique().sort(),
        is_listed=pl.col("time").is_not_null().all(),
        finest=pl.col("finest").max(),
        events=pl.col("events").sum(),
    )
    times_of_day = pl.col("times_of_day").list.len()
    is_midnight = (times_of_day == 1) & (pl.col("times_of_day").list.first() == 0)
    is_repeated = (times_of_day <= 2) & (pl.col("events") >= 3 * times_of_day)
    is_on_quarters = pl.col("is_listed") & (pl.col("finest") <= _QUARTERS)
    # Long lists become null before the join, since each event gets that of its activity.
    daily_times = pl.when((is_midnight | is_repeated) & is_on_quarters).then("times_of_day")
    return found.select("activity", "finest", times_of_day=daily_times)


def _agree_with_season(rows: pl.DataFrame, kept: pl.DataFrame) -> Bools:
    """Whether the kept events of each row's season before and after it have its time of day; True
    where it has no season.

    ``rows``: as ``_time_rows`` gives them, with ``season``. ``kept``: times of kept events, with
    ``season``.
    """
    by = pl.col("season", "time")
    found = rows.select(by, "time_of_day").with_row_index("row").sort("time")
    for strategy in ("backward", "forward"):
        nearest = kept.select(by, pl.col("time_of_day").alias(strategy)).sort("time")
        found = found.join_asof(
            nearest, on="time", by="season", strategy=strategy, check_sortedness=False
        )
    # Before the first kept event, and behind the last, the other neighbour decides alone.
    agrees = (pl.col("backward", "forward") == pl.col("time_of_day")).fill_null(value=True)
    return found.sort("row").select(pl.all_horizontal(agrees)).to_series().to_numpy()


def _seasons(kept: pl.DataFrame) -> pl.DataFrame:
    """The activities whose times of day follow a season: ``activity``, ``season``, a number that
    activities of one season share, and ``times_of_season``, its two times of day.

    ``kept``: ``activity``, ``time``, ``time_of_day`` and ``events``, how many have that time, of
    kept events whose times of day identify them.
    A season is one of all activities that have no other times of day than two an hour apart; where
    these change more often than seasons do, of each activity alone.
    """
    columns = {"activity": kept.schema["activity"], "season": pl.Int64(), "times_of_season": _TIMES}
    schema = pl.Schema(columns)
    found = pl.DataFrame(schema=schema)
    counted = kept.group_by("time_of_day").agg(pl.col("events").sum())
    # The season of the most events first.
    frequent = counted.sort(-pl.col("events"), "time_of_day")["time_of_day"]
    # All of whose times of day are one of two, an hour apart.
    groups = [
        kept.filter(
            pl.col("time_of_day").is_in([earlier, (earlier + _HOUR) % _DAY]).all().over("activity")
        )
        for earlier in frequent
    ]
    groups += kept.partition_by("activity", maintain_order=True)
    for season, group in enumerate(groups):
        unassigned = group.join(found, "activity", how="anti", nulls_equal=True)
        if not follows_season(unassigned["time"].sort().to_numpy()):
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


def follows_season(times: Ints) -> bool:
    """Whether times (ascending, microseconds) have two times of day, an hour apart, that change
    twice a year at most: midnight of a zone with summer time.
    """
    time_of_day = times % _DAY
    both = np.unique(time_of_day)
    # Around midnight, an hour apart are 23 hours.
    if len(both) != 2 or both[1] - both[0] not in (_HOUR, _DAY - _HOUR):
        return False
    half_years = (times[-1] - times[0]) // _HALF_YEAR + 1
    return bool(np.count_nonzero(np.diff(time_of_day)) <= half_years + 1)


def without_their_values(log: EventLog, attribute: str | None) -> EventLog:
    """``log`` where inserted events have no value of ``attribute``."""
    if attribute is None or attribute.startswith(CASE_PREFIX):
        return log
    if attribute not in log.events.columns:
        return log
    values = values_of(log.events, attribute)
    of_kept = values.zip_with(pl.Series(log.kept), nulls(len(values), values.dtype))
    return replace(log, events=log.events.with_columns(of_kept.alias(attribute)))

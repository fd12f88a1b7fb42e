"""What a release keeps of its source's times and attributes, as distributions: for releases whose
cases were made anew, so that no event of one log corresponds to an event of the other.

Every figure is a distance between two distributions, 0 where they are the same. They read the raw
log outside any guarantee, as ``evaluation/utility.py`` does: for the internal report alone.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np
import polars as pl
from pydantic import Field

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.quantities import Frozen
from cloakwork.evaluation.attribute_distances import (
    AttributeDistance,
    DistanceOfPair,
    attribute_figures,
)
from cloakwork.evaluation.control_flow import with_activity
from cloakwork.evaluation.curves import ShareCurve, duration_curve, profile_curve
from cloakwork.evaluation.distances import (
    total_variation,
    wasserstein,
    weighted_mean,
)
from cloakwork.evaluation.times import PairTimes
from cloakwork.evaluation.value_codes import CodedAttribute, coded, joint_codes
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog

MOST_PAIRS: Final = 10
"""Directly-follows pairs that are shown, the most frequent of the source first."""

_SECOND, _HOUR, _DAY = 1_000_000, 3_600_000_000, 86_400_000_000  # microseconds
_MONDAY: Final = 3
"""1 January 1970 was a Thursday: three days after Monday, which is day 0."""


def _figure(title: str, description: str) -> Any:
    return Field(default=None, title=title, description=description)


class WholeLogUtility(Frozen):
    """Distances between the source's and the release's times and attributes; None where there is
    nothing to compare.
    """

    case_durations: float | None = _figure(
        "Case durations",
        "How far they are off (Wasserstein distance), as a share of the source's mean duration. "
        "0 is best.",
    )
    waiting_times: float | None = _figure(
        "Waiting times per step",
        "By how many powers of ten the seconds from one activity to the next are off, on average "
        "over the steps that both logs have. 0 is best.",
    )
    hours_of_week: float | None = _figure(
        "Hours of the week",
        "Share of the events that lie in another hour of the week (UTC). 0 is best.",
    )
    weekdays: float | None = _figure(
        "Weekdays", "Share of the events that lie on another day of the week. 0 is best."
    )
    attributes_per_activity: float | None = _figure(
        "Attributes of events, per activity",
        "Share of the values that differ, missing ones among them, at the activities that have the "
        "attribute; mean over the attributes. 0 is best.",
    )
    attributes_over_all: float | None = _figure(
        "Attributes of events, over all events",
        "The same over all events, those without the attribute too: what stands where the source "
        "has nothing counts. 0 is best.",
    )
    case_attributes: float | None = _figure(
        "Attributes of cases",
        "Share of the values that differ, missing ones among them; mean over the attributes. "
        "0 is best.",
    )
    two_way_tables: float | None = _figure(
        "Two attributes together",
        "Share of the cases that differ in a table of two attributes; mean over all such tables. "
        "0 is best.",
    )
    numbers: float | None = _figure(
        "Numbers",
        "Largest difference between the distribution functions of an attribute of numbers; "
        "mean over these attributes. 0 is best.",
    )
    attributes: tuple[AttributeDistance, ...] = ()
    at_activities: tuple[DistanceOfPair, ...] = ()
    pairs_of_attributes: tuple[DistanceOfPair, ...] = ()
    pairs: tuple[PairTimes, ...] = ()
    curves: tuple[ShareCurve, ...] = ()
    notes: tuple[str, ...] = ()
    contradicted: tuple[str, ...] = ()


def compare_whole_logs(
    source: EventLog,
    release: EventLog,
    *,
    times: bool = True,
    attributes: Sequence[str] = (),
    ranges: Mapping[str, tuple[float, float]] | None = None,
    days_from: datetime | None = None,
) -> WholeLogUtility:
    """Every figure of ``release`` against ``source``; of ``times`` where both logs have them.

    ``attributes``: those to compare, by name; those of cases carry their prefix. ``ranges``: the
    declared range of numbers, by name, which is cut into bins; else the source's range is.
    ``days_from``: where clocks show days only, the beginning of a day in the log's own zone: the
    weekdays are compared, and not the hours of the week. A time counts for the day whose beginning
    is nearest to it, so that summer time moves none.

    Events without an activity, and missing times, are left out.
    """
    source, release = with_activity(source), with_activity(release)
    notes: list[str] = []
    found: dict[str, Any] = {}
    if times and all(TIMESTAMP in log.events.columns for log in (source, release)):
        found |= _of_times(_Timed(source), _Timed(release), days_from)
    columns = [coded(source, release, name, (ranges or {}).get(name)) for name in attributes]
    notes += [column for column in columns if isinstance(column, str)]
    usable = [column for column in columns if isinstance(column, CodedAttribute)]
    found |= attribute_figures(source, release, usable)
    return WholeLogUtility(**found, notes=tuple(notes))


class _Timed:
    """The events of a log that have a time: ``stamps`` (microseconds since 1970) and ``case``,
    int64, and the log's labels.
    """

    def __init__(self, log: EventLog) -> None:
        times = log.events[TIMESTAMP]
        self.known: Bools = times.is_not_null().to_numpy()
        self.stamps: Ints = times.drop_nulls().dt.timestamp("us").to_numpy().astype(np.int64)
        self.case: Ints = log.case_of[self.known]
        self.labels = log.events[ACTIVITY].cast(pl.String)

    def durations(self) -> Floats:
        """Seconds from the first to the last time of each case that has one."""
        begins = np.flatnonzero(np.diff(self.case, prepend=-1))
        if not len(begins):
            return np.zeros(0)
        first = np.minimum.reduceat(self.stamps, begins)
        last = np.maximum.reduceat(self.stamps, begins)
        return np.asarray((last - first) / _SECOND, np.float64)

    def gaps(self, codes: Ints, activities: int) -> tuple[Ints, Floats]:
        """The directly-follows pair of each gap, as one number, and its seconds, at least 0; of
        neighbours that both have a time. ``codes``: of all events of the log.
        """
        rows = np.flatnonzero(self.known)
        follows = (np.diff(rows) == 1) & (np.diff(self.case) == 0)
        places = np.flatnonzero(follows) + 1
        here = rows[places]
        pairs = codes[here - 1] * activities + codes[here]
        seconds = (self.stamps[places] - self.stamps[places - 1]) / _SECOND
        return pairs, np.maximum(seconds, 0.0)


def _of_times(source: _Timed, release: _Timed, days_from: datetime | None) -> dict[str, Any]:
    """The figures of times."""
    before, after, labels = joint_codes(source.labels, release.labels)
    gaps = source.gaps(before, len(labels)), release.gaps(after, len(labels))
    pairs, pair_of = np.unique(np.concatenate([gaps[0][0], gaps[1][0]]), return_inverse=True)
    split = len(gaps[0][0])
    rows = (pair_of[:split], gaps[0][1]), (pair_of[split:], gaps[1][1])
    names = [(labels[pair // len(labels)], labels[pair % len(labels)]) for pair in pairs]
    profile = "hours_of_week" if days_from is None else "weekdays"
    return {
        "case_durations": duration_distance(source.durations(), release.durations()),
        "curves": _curves(source, release, days_from),
        "waiting_times": waiting_distance(rows[0], rows[1], len(pairs)),
        profile: profile_distance(source.stamps, release.stamps, days_from),
        "pairs": _most_frequent(rows[0], rows[1], names),
    }


def time_curves(
    source: EventLog, release: EventLog, days_from: datetime | None = None
) -> tuple[ShareCurve, ...]:
    """How long cases take, and when events happen, in both logs; empty where one has no times.
    ``days_from``: as in ``compare_whole_logs``.
    """
    if any(TIMESTAMP not in log.events.columns for log in (source, release)):
        return ()
    sides = [_Timed(with_activity(log)) for log in (source, release)]
    return _curves(sides[0], sides[1], days_from)


def _curves(source: _Timed, release: _Timed, days_from: datetime | None) -> tuple[ShareCurve, ...]:
    slots = [_slots(side.stamps, days_from) for side in (source, release)]
    return (
        duration_curve(source.durations(), release.durations()),
        profile_curve(slots[0], slots[1], 168 if days_from is None else 7),
    )


def duration_distance(source: Floats, release: Floats) -> float | None:
    """Wasserstein-1 of case durations over the source's mean; None where a side has no case, or all
    durations of the source are 0.
    """
    if not (len(source) and len(release) and source.mean() > 0):
        return None
    zeros = np.zeros(len(source), np.int64), np.zeros(len(release), np.int64)
    return float(wasserstein((zeros[0], source), (zeros[1], release), 1)[0] / source.mean())


def waiting_distance(
    source: tuple[Ints, Floats], release: tuple[Ints, Floats], pairs: int
) -> float | None:
    """Wasserstein-1 of log10(1 + seconds) per directly-follows pair; mean over the pairs that both
    logs have, weighted by the source's counts. None without such a pair.
    """
    sides = [(pair, np.log10(1 + seconds)) for pair, seconds in (source, release)]
    apart = wasserstein(sides[0], sides[1], pairs)
    return weighted_mean(apart, np.bincount(source[0], minlength=pairs))


def profile_distance(source: Ints, release: Ints, days_from: datetime | None) -> float | None:
    """Total variation of the hour-of-week profile of all times (UTC), or of the weekdays.

    ``source``, ``release``: microseconds since 1970, int64. ``days_from``: as in
    ``compare_whole_logs``. None where the source has no time; 1 where the release has none.
    """
    if not len(source):
        return None
    slots = [_slots(stamps, days_from) for stamps in (source, release)]
    zeros = [np.zeros(len(side), np.int64) for side in slots]
    return float(total_variation((zeros[0], slots[0]), (zeros[1], slots[1]), 1, 168)[0])


def _slots(stamps: Ints, days_from: datetime | None) -> Ints:
    """The hour of the week of each time, from Monday 0 o'clock UTC; the day of the week where a day
    is the finest.
    """
    if days_from is None:
        return np.asarray((stamps // _HOUR + 24 * _MONDAY) % 168, np.int64)
    begins = round(days_from.timestamp() * _SECOND)
    return np.asarray(((stamps - begins + _DAY // 2) // _DAY + days_from.weekday()) % 7, np.int64)


def _most_frequent(
    source: tuple[Ints, Floats], release: tuple[Ints, Floats], names: list[tuple[str, str]]
) -> tuple[PairTimes, ...]:
    """The source's most frequent pairs that the release has too, and their gaps in hours."""
    before, after = (
        pl.DataFrame({"pair": pair, "hours": seconds / 3600})
        .group_by("pair")
        .agg(
            pl.len().alias("times"),
            pl.col("hours").median().alias("median"),
            pl.col("hours").mean().alias("mean"),
            (pl.col("hours") == 0).mean().alias("zeros"),
        )
        for pair, seconds in (source, release)
    )
    both = before.join(after, on="pair", suffix="_released")
    top = both.sort(["times", "pair"], descending=[True, False]).head(MOST_PAIRS)
    return tuple(
        PairTimes(
            first=names[row["pair"]][0],
            second=names[row["pair"]][1],
            times=row["times"],
            source_median=row["median"],
            released_median=row["median_released"],
            source_mean=row["mean"],
            released_mean=row["mean_released"],
            source_zeros=row["zeros"],
            released_zeros=row["zeros_released"],
        )
        for row in top.to_dicts()
    )

"""What a release keeps of its source's times and attributes, as distributions: for releases whose
cases were made anew, so that no event of one log corresponds to an event of the other.

Every figure is a distance between two distributions, 0 where they are the same. They read the raw
log outside any guarantee: for the internal report alone.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Floats, Ints, begins_of
from cloakwork.base.clocks import ahead_of_utc
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import SERVICE_TIME, values_of
from cloakwork.base.quantities import Figure, Frozen, figure
from cloakwork.evaluation.distances import (
    MISSING,
    CodedAttribute,
    coded,
    joint_codes,
    kolmogorov_smirnov,
    total_variation,
    wasserstein,
    weighted_mean,
)
from cloakwork.evaluation.times import ShareCurve, duration_curve, profile_curve
from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, TIMESTAMP, EventLog
from cloakwork.log.variants import with_activity

MOST_TABLES: Final = 1_000
"""Two-way tables that are compared; of more, every second one, or every third, and so on."""

MOST_SHOWN: Final = 15
"""Activities with an attribute, and pairs of attributes, that are shown."""

_SECOND, _HOUR, _DAY = 1_000_000, 3_600_000_000, 86_400_000_000  # microseconds
_MONTH: Final = 30 * _DAY
_MONDAY: Final = 3
"""1 January 1970 was a Thursday: three days after Monday, which is day 0."""


class AttributeDistance(Frozen):
    """One attribute: its distance, and how often it is missing before and after.

    ``distance``: total variation of the values (missing is one); of an attribute of events per
    activity, weighted by how many of the activity's events have a value in the source.
    ``over_all``: the same, weighted by all of the activity's events. ``numbers``: the largest
    difference between the distribution functions of the numbers, whatever the bins.
    """

    attribute: str
    distance: float
    over_all: float | None = None
    numbers: float | None = None
    missing_source: float | None
    missing_released: float | None


class DistanceOfPair(Frozen):
    """How far two logs are apart in an attribute at an activity, or in two attributes: total
    variation, from 0 to 1.
    """

    first: str
    second: str
    distance: float


class WholeLogUtility(Frozen):
    """Distances between the source's and the release's times and attributes; None where there is
    nothing to compare.
    """

    case_durations: Figure = figure(
        "Case durations",
        "Share of the source's mean duration by which they are off (Wasserstein distance). "
        "0 is best.",
    )
    waiting_times: Figure = figure(
        "Waiting times per step",
        "Powers of ten by which the seconds from one activity to the next are off, on average "
        "over the steps that both logs have. 0 is best.",
    )
    service_times: Figure = figure(
        "Service times per activity",
        "Powers of ten by which the seconds from start to completion are off, on average over "
        "the activities that both logs have. 0 is best.",
    )
    hours_of_week: Figure = figure(
        "Hours of the week",
        "Share of the events that lie in another hour of the week, by the clocks of "
        "assume.time_zone, else UTC. 0 is best.",
    )
    weekdays: Figure = figure(
        "Weekdays", "Share of the events that lie on another day of the week. 0 is best."
    )
    months: Figure = figure(
        "Months", "Share of the events that lie in another stretch of 30 days. 0 is best."
    )
    attributes_per_activity: Figure = figure(
        "Attributes of events, per activity",
        "Share of the values that differ, missing ones among them, at the activities that have the "
        "attribute; mean over the attributes. 0 is best.",
    )
    attributes_over_all: Figure = figure(
        "Attributes of events, over all events",
        "Share: the same over all events, also those without the attribute: what stands where the "
        "source has nothing counts. 0 is best.",
    )
    case_attributes: Figure = figure(
        "Attributes of cases",
        "Share of the values that differ, missing ones among them; mean over the attributes. "
        "0 is best.",
    )
    two_way_tables: Figure = figure(
        "Two attributes together",
        "Share of the cases that differ in a table of two attributes; mean over all such tables. "
        "0 is best.",
    )
    numbers: Figure = figure(
        "Numbers",
        "Share: largest difference between the distribution functions of an attribute of numbers; "
        "mean over these attributes. 0 is best.",
    )
    attributes: tuple[AttributeDistance, ...] = ()
    at_activities: tuple[DistanceOfPair, ...] = ()
    pairs_of_attributes: tuple[DistanceOfPair, ...] = ()
    curves: tuple[ShareCurve, ...] = ()
    notes: tuple[str, ...] = ()
    contradicted: tuple[str, ...] = ()


@frozen
class WeekClock:
    """The clock by which events are counted over the week: that of ``zone`` (an IANA name; None:
    UTC), by the hour. Where clocks show days only, ``days_from`` is the beginning of a day in the
    log's own zone: then by the day, a time counting for the day whose beginning is nearest to it,
    so that summer time moves none.
    """

    zone: str | None = None
    days_from: datetime | None = None

    @property
    def slots(self) -> int:
        """Hours of a week, or days."""
        return 168 if self.days_from is None else 7

    def slots_of(self, stamps: Ints) -> Ints:
        """The slot of each time (microseconds since 1970), from Monday 0 o'clock: int64."""
        if self.days_from is None:
            ahead = 0 if self.zone is None else ahead_of_utc(stamps, self.zone)
            return np.asarray(((stamps + ahead) // _HOUR + 24 * _MONDAY) % 168, np.int64)
        begins = round(self.days_from.timestamp() * _SECOND)
        # Half a day more, so that the nearest beginning of a day counts.
        days = (stamps - begins + _DAY // 2) // _DAY
        return np.asarray((days + self.days_from.weekday()) % 7, np.int64)


UTC_CLOCK: Final = WeekClock()


def compare_whole_logs(
    source: EventLog,
    release: EventLog,
    *,
    times: bool = True,
    attributes: Sequence[str] = (),
    ranges: Mapping[str, tuple[float, float]] | None = None,
    clock: WeekClock = UTC_CLOCK,
) -> WholeLogUtility:
    """Every figure of ``release`` against ``source``; of ``times`` where both logs have them.

    ``attributes``: those to compare, by name; those of cases carry their prefix. ``ranges``: the
    declared range of numbers, by name, which is cut into bins; else the source's range is.
    ``clock``: by which the hours of the week are compared, or the weekdays.

    Events without an activity, and missing times, are left out.
    """
    source = with_activity(source)
    release = with_activity(release)
    found: dict[str, Any] = {}
    if times and all(TIMESTAMP in log.events.columns for log in (source, release)):
        found |= _figures_of_times(Timed(source), Timed(release), clock)
    columns = [coded(source, release, name, (ranges or {}).get(name)) for name in attributes]
    usable = [column for column in columns if isinstance(column, CodedAttribute)]
    found |= attribute_figures(source, release, usable)
    if all(SERVICE_TIME in log.events.columns for log in (source, release)):
        found["service_times"] = _service_distance(source, release)
    notes = [column for column in columns if isinstance(column, str)]
    return WholeLogUtility(**found, notes=tuple(notes))


class Timed:
    """The events of a log that have a time: ``stamps`` (microseconds since 1970) and ``case``,
    int64, and the log's labels.
    """

    def __init__(self, log: EventLog) -> None:
        times = log.events[TIMESTAMP]
        self.known: Bools = times.is_not_null().to_numpy()
        self.stamps: Ints = times.drop_nulls().dt.timestamp("us").to_numpy().astype(np.int64)
        self.case: Ints = log.case_of[self.known]
        self.labels = log.activities

    def durations(self) -> Floats:
        """Seconds from the first to the last time of each case that has one."""
        # Where each case begins; -1 differs from every case, so that the first one counts, too.
        begins = begins_of(self.case)
        if not len(begins):
            return np.zeros(0)
        first = np.minimum.reduceat(self.stamps, begins)
        last = np.maximum.reduceat(self.stamps, begins)
        return np.asarray((last - first) / _SECOND, np.float64)

    def gaps(self) -> tuple[Ints, Floats]:
        """Where each gap ends, as rows of the log, and its seconds, at least 0; of neighbours that
        both have a time.
        """
        rows = np.flatnonzero(self.known)
        # Neighbours in the log itself, with no event without a time between them.
        follows = (np.diff(rows) == 1) & (np.diff(self.case) == 0)
        places = np.flatnonzero(follows) + 1
        seconds = (self.stamps[places] - self.stamps[places - 1]) / _SECOND
        return rows[places], np.maximum(seconds, 0.0)


def _figures_of_times(
    source: Timed,
    release: Timed,
    clock: WeekClock,
) -> dict[str, Any]:
    codes, labels = joint_codes(source.labels, release.labels)
    pairs = []
    waits = []
    for side, code in zip((source, release), codes, strict=True):
        ends, seconds = side.gaps()
        # A pair of activities as one number.
        pairs.append(code[ends - 1] * len(labels) + code[ends])
        waits.append(np.log10(1 + seconds))
    # Waiting times as log10(1 + seconds), of the pairs that occur, which are numbered from 0.
    found, pair_of = np.unique(np.concatenate(pairs), return_inverse=True)
    before, after = np.split(pair_of, [len(pairs[0])])
    apart = wasserstein((before, waits[0]), (after, waits[1]), len(found))
    slots = [clock.slots_of(side.stamps) for side in (source, release)]
    profile = "hours_of_week" if clock.days_from is None else "weekdays"
    return {
        "case_durations": duration_distance(source.durations(), release.durations()),
        "curves": _curves(source, release, clock),
        # The mean over the pairs that both logs have, weighted by the source's counts.
        "waiting_times": weighted_mean(apart, np.bincount(before, minlength=len(found))),
        profile: profile_distance(*slots),
        "months": profile_distance(source.stamps // _MONTH, release.stamps // _MONTH),
    }


def _service_distance(source: EventLog, release: EventLog) -> float | None:
    """As ``waiting_times``, of what each event took itself."""
    codes, labels = joint_codes(source.activities, release.activities)
    sides: list[tuple[Ints, Floats]] = []
    for log, code in zip((source, release), codes, strict=True):
        seconds = values_of(log.events, SERVICE_TIME).cast(pl.Float64, strict=False)
        known = seconds.is_not_null().to_numpy()
        sides.append((code[known], np.log10(1 + seconds.drop_nulls().clip(0).to_numpy())))
    before, after = sides
    apart = wasserstein(before, after, len(labels))
    return weighted_mean(apart, np.bincount(before[0], minlength=len(labels)))


def time_curves(
    source: EventLog,
    release: EventLog,
    clock: WeekClock = UTC_CLOCK,
) -> tuple[ShareCurve, ...]:
    """How long cases take, and when events happen, in both logs; empty where one has no times.
    ``clock``: as in ``compare_whole_logs``.
    """
    if any(TIMESTAMP not in log.events.columns for log in (source, release)):
        return ()
    return _curves(Timed(with_activity(source)), Timed(with_activity(release)), clock)


def _curves(
    source: Timed,
    release: Timed,
    clock: WeekClock,
) -> tuple[ShareCurve, ...]:
    slots = [clock.slots_of(side.stamps) for side in (source, release)]
    return (
        duration_curve(source.durations(), release.durations()),
        profile_curve(slots[0], slots[1], clock.slots, clock.zone or "UTC"),
    )


def duration_distance(source: Floats, release: Floats) -> float | None:
    """Wasserstein-1 of case durations over the source's mean; None where a side has no case, or all
    durations of the source are 0.
    """
    if not (len(source) and len(release) and source.mean() > 0):
        return None
    apart = wasserstein((_one_group(source), source), (_one_group(release), release), 1)
    return float(apart[0] / source.mean())


def _one_group(values: Ints | Floats) -> Ints:
    return np.zeros(len(values), np.int64)


def profile_distance(source: Ints, release: Ints) -> float | None:
    """Total variation of codes of all times, such as their hours of the week; None where the source
    has no time, 1 where the release has none.
    """
    if not len(source):
        return None
    found, codes = np.unique(np.concatenate([source, release]), return_inverse=True)
    before, after = np.split(codes, [len(source)])
    apart = total_variation(
        (_one_group(source), before), (_one_group(release), after), 1, len(found)
    )
    return float(apart[0])


def attribute_figures(
    source: EventLog,
    release: EventLog,
    columns: Sequence[CodedAttribute],
) -> dict[str, Any]:
    """The figures of attributes, by their names in ``WholeLogUtility``."""
    activities, labels = joint_codes(source.events[ACTIVITY], release.events[ACTIVITY])
    of_events: list[AttributeDistance] = []
    of_cases: list[AttributeDistance] = []
    at_activities: list[tuple[float, DistanceOfPair]] = []
    for column in columns:
        # Attributes of events activity by activity; those of cases all together.
        is_of_case = column.name.startswith(CASE_PREFIX)
        groups = activities
        if is_of_case:
            groups = [_one_group(column.source), _one_group(column.release)]
        sides = (groups[0], column.source), (groups[1], column.release)
        number = 1 if is_of_case else len(labels)
        apart = total_variation(*sides, number, column.values)
        rows = np.bincount(groups[0], minlength=number)
        valued, released = (
            np.bincount(group[codes != MISSING], minlength=number) for group, codes in sides
        )
        over_all = weighted_mean(apart, rows)
        # Weighted by rows with a value, so that activities without the attribute hide nothing; one
        # that the source never has is weighted by all rows.
        distance = weighted_mean(apart, valued)
        if over_all is not None:
            (of_cases if is_of_case else of_events).append(
                AttributeDistance(
                    attribute=column.name,
                    distance=over_all if distance is None else distance,
                    over_all=None if is_of_case else over_all,
                    numbers=column.numbers and kolmogorov_smirnov(*column.numbers),
                    missing_source=column.missing_share(column.source),
                    missing_released=column.missing_share(column.release),
                )
            )
        if is_of_case:
            continue
        # What an activity weighs: how many values of the source differ there.
        for place in np.flatnonzero((valued + released > 0) & (rows > 0)).tolist():
            at = float(apart[place])
            pair = DistanceOfPair(first=column.name, second=labels[place], distance=at)
            at_activities.append((at * int(rows[place]), pair))
    shown = *of_cases, *of_events
    tables = two_way_distances(source, release, columns)
    return {
        "attributes_per_activity": _mean_of([item.distance for item in of_events]),
        "attributes_over_all": _mean_of([item.over_all for item in of_events]),
        "case_attributes": _mean_of([item.distance for item in of_cases]),
        "numbers": _mean_of([item.numbers for item in shown]),
        "two_way_tables": _mean_of([table.distance for table in tables]),
        "attributes": shown,
        "at_activities": _largest(at_activities),
        "pairs_of_attributes": _largest([(table.distance, table) for table in tables]),
    }


def _mean_of(found: Sequence[float | None]) -> float | None:
    known = [value for value in found if value is not None]
    return float(np.mean(known)) if known else None


def _largest(found: Sequence[tuple[float, DistanceOfPair]]) -> tuple[DistanceOfPair, ...]:
    """Those that weigh most; of equal ones the first by name."""
    ordered = sorted(found, key=lambda each: (-each[0], each[1].first, each[1].second))
    return tuple(pair for weight, pair in ordered[:MOST_SHOWN] if weight > 0)


def two_way_distances(
    source: EventLog,
    release: EventLog,
    columns: Sequence[CodedAttribute],
) -> list[DistanceOfPair]:
    """Total variation of the two-way marginals of the case table; none for fewer than two
    attributes, or a source without cases.

    The case table has a row a case: its attributes, and of each attribute of events the first value
    that is not missing.
    """
    pairs = [(i, j) for i in range(len(columns)) for j in range(i)]
    if not pairs or not source.cases.height:
        return []
    tables = [column.by_case(source, release) for column in columns]
    zeros = [np.zeros(log.cases.height, np.int64) for log in (source, release)]
    found = []
    # Of very many pairs every n-th, so that no more than MOST_TABLES are compared.
    for one, other in pairs[:: -(-len(pairs) // MOST_TABLES)]:
        width = columns[other].values + 1
        # Two codes as one cell; a missing value (-1) counts as 0.
        cells = [(tables[one][side] + 1) * width + tables[other][side] + 1 for side in (0, 1)]
        most = (columns[one].values + 1) * width
        apart = total_variation((zeros[0], cells[0]), (zeros[1], cells[1]), 1, most)
        found.append(
            DistanceOfPair(
                first=columns[other].name, second=columns[one].name, distance=float(apart[0])
            )
        )
    return found

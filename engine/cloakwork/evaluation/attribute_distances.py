"""What a release keeps of its source's attributes, as distributions."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.base.quantities import Frozen
from cloakwork.evaluation.distances import (
    MISSING,
    kolmogorov_smirnov,
    total_variation,
    weighted_mean,
)
from cloakwork.evaluation.value_codes import CodedAttribute, joint_codes
from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, EventLog

MOST_TABLES: Final = 1_000
"""Two-way tables that are compared; of more, every second one, or every third, and so on."""

MOST_SHOWN: Final = 15
"""Activities with an attribute, and pairs of attributes, that are shown."""


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


def attribute_figures(
    source: EventLog, release: EventLog, columns: Sequence[CodedAttribute]
) -> dict[str, Any]:
    """The figures of attributes, by their names in ``WholeLogUtility``."""
    before, after, labels = joint_codes(source.events[ACTIVITY], release.events[ACTIVITY])
    of_events: list[AttributeDistance] = []
    of_cases: list[AttributeDistance] = []
    at_activities: list[tuple[float, DistanceOfPair]] = []
    for column in columns:
        if column.name.startswith(CASE_PREFIX):
            heights = source.cases.height, release.cases.height
            groups = np.zeros(heights[0], np.int64), np.zeros(heights[1], np.int64)
            of_cases += _distance_of(column, groups[0], groups[1], 1)
        else:
            of_events += _distance_of(column, before, after, len(labels))
            at_activities += _at_activities(column, before, after, labels)
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


def _distance_of(
    column: CodedAttribute, before: Ints, after: Ints, groups: int
) -> Iterator[AttributeDistance]:
    """The distance of one attribute, where the source has a row; ``before`` and ``after``: the
    group of each row of either log. One that the source never has is weighted by all rows.
    """
    apart = total_variation((before, column.source), (after, column.release), groups, column.values)
    over_all = weighted_mean(apart, np.bincount(before, minlength=groups))
    valued = weighted_mean(apart, np.bincount(before[column.source != MISSING], minlength=groups))
    if over_all is None:
        return
    is_of_case = column.name.startswith(CASE_PREFIX)
    yield AttributeDistance(
        attribute=column.name,
        distance=over_all if valued is None else valued,
        over_all=None if is_of_case else over_all,
        numbers=column.numbers and kolmogorov_smirnov(*column.numbers),
        missing_source=column.missing_share(column.source),
        missing_released=column.missing_share(column.release),
    )


def _mean_of(found: Sequence[float | None]) -> float | None:
    known = [value for value in found if value is not None]
    return float(np.mean(known)) if known else None


def _at_activities(
    column: CodedAttribute, before: Ints, after: Ints, labels: Sequence[str]
) -> Iterator[tuple[float, DistanceOfPair]]:
    """The distance at each activity that has the attribute in either log, behind what it weighs:
    how many values of the source differ there.
    """
    apart = total_variation(
        (before, column.source), (after, column.release), len(labels), column.values
    )
    sides = (before[column.source != MISSING], after[column.release != MISSING])
    valued = [np.bincount(side, minlength=len(labels)) for side in sides]
    events = np.bincount(before, minlength=len(labels))
    for place in np.flatnonzero((valued[0] + valued[1] > 0) & (events > 0)).tolist():
        distance = float(apart[place])
        pair = DistanceOfPair(first=column.name, second=labels[place], distance=distance)
        yield distance * int(events[place]), pair


def _largest(found: Sequence[tuple[float, DistanceOfPair]]) -> tuple[DistanceOfPair, ...]:
    """Those that weigh most; of equal ones the first by name."""
    ordered = sorted(found, key=lambda each: (-each[0], each[1].first, each[1].second))
    return tuple(pair for weight, pair in ordered[:MOST_SHOWN] if weight > 0)


def two_way_distances(
    source: EventLog, release: EventLog, columns: Sequence[CodedAttribute]
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
    for one, other in pairs[:: -(-len(pairs) // MOST_TABLES)]:
        width = columns[other].values + 1
        cells = [(tables[one][side] + 1) * width + tables[other][side] + 1 for side in (0, 1)]
        most = (columns[one].values + 1) * width
        apart = total_variation((zeros[0], cells[0]), (zeros[1], cells[1]), 1, most)
        names = columns[other].name, columns[one].name
        found.append(DistanceOfPair(first=names[0], second=names[1], distance=float(apart[0])))
    return found

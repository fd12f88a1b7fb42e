"""t-closeness by the earth mover's distance, measured on a log alone, by code that shares nothing
with the mechanisms.

The distance of a group of values from all values of its activity (Li, Li and Venkatasubramanian,
ICDE 2007). Scale ``rank``: two numbers lie ``|F(x) - F(y)|`` apart, where F(x) is the share of the
activity's values that are smaller than x, and half of the share that equals x. Scale ``range``:
``|x - y| / range`` apart, ``range`` being that of the attribute over the log as a whole. Any two
different other values lie 1 apart, so that the distance is their total variation.

A missing value is a value, 1 from every other. Let it have the share p in the group and q in all
values. Moving ``|p - q|`` to or from it, and the values that remain in proportion, costs
``|p - q| + min(1 - p, 1 - q) * D``, where D is the distance of the group's other values from all
other values. For numbers this is an upper bound of the earth mover's distance (a cheaper choice of
the values that remain may exist), and exact where p = q; it is what is measured. All distances lie
in [0, 1].
"""

import math
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.checks.values import GroupedValues, grouped_values
from cloakwork.errors import GuaranteeBroken
from cloakwork.guarantees import TCloseness
from cloakwork.log.eventlog import EventLog

TOLERANCE: Final = 1e-9
"""What floating-point sums may be off by."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def largest_distance(
    log: EventLog, guarantee: TCloseness, *, missing_is_value: bool = True
) -> float | None:
    """The largest distance of any group from the values of its activity; None where there is no
    value.

    Where the log says which events are inserted, only the values of the others are compared; the
    positions of numbers are always those of all values. ``missing_is_value`` False is the meaning
    of releases made by version 0.1.0: what is missing does not count. Raises ``GuaranteeBroken``
    for numbers that are not finite: no distance is defined for them.
    """
    found = grouped_values(log, guarantee.attribute, guarantee.classes)
    if not missing_is_value:
        found = found.only(found.present)
    if not (found.present & found.kept).any() or not found.kept[found.member].any():
        return None
    if found.numeric and not found.values.drop_nulls().cast(pl.Float64).is_finite().all():
        raise GuaranteeBroken(
            guarantee.sentence(), f"'{guarantee.attribute}' holds numbers that are not finite"
        )
    positions = _positions(found, guarantee.scale)
    distance = _distances if found.numeric else _total_variation
    largest = 0.0
    for activity in np.unique(found.activity[found.kept]):
        # Values of inserted events are neither compared nor compared with.
        compared = (found.activity == activity) & found.kept
        is_member = compared[found.member]
        if not is_member.any():
            continue
        group = np.unique(found.group[is_member], return_inverse=True)[1].astype(np.int64)
        values = positions[found.member[is_member]]
        distances = distance(positions[compared], values, group)
        largest = max(largest, float(distances.max()))
    return largest


def check(log: EventLog, guarantee: TCloseness) -> None:
    """Raise ``GuaranteeBroken`` unless every group of ``log`` lies within ``guarantee.t``; a log
    without values holds.
    """
    distance = largest_distance(log, guarantee)
    if distance is not None and distance > guarantee.t + TOLERANCE:
        raise GuaranteeBroken(
            guarantee.sentence(),
            f"the farthest group lies {rounded_up(distance):g} from all values",
        )


def rounded_up(distance: float) -> float:
    """A distance, rounded up to four decimals."""
    return math.ceil((distance - TOLERANCE) * 1e4) / 1e4


def _positions(found: GroupedValues, scale: str) -> Floats:
    """The position of each value: in [0, 1] for numbers, and not a number where it is missing; else
    a number for each different value, and -1 for a missing one.
    """
    if not found.numeric:
        return found.values.rank("dense").cast(pl.Float64).fill_null(-1.0).to_numpy()
    present = found.present
    positions = np.full(len(present), np.nan)
    if scale == "rank":
        activity = found.activity[present]
        rows = pl.DataFrame({"activity": activity, "value": found.values.drop_nulls()})
        # The average rank r of n values: F(x) = (r - 1/2) / n.
        rank = pl.col("value").rank("average").over("activity")
        share = (rank - 0.5) / pl.len().over("activity")
        positions[present] = rows.select(share=share).to_series().to_numpy()
        return positions
    numbers = found.values.drop_nulls().cast(pl.Float64).to_numpy()
    low, high = numbers.min(), numbers.max()
    # Halves, as the range itself may exceed the largest float.
    half_range = high / 2 - low / 2
    positions[present] = (numbers / 2 - low / 2) / (half_range or 1.0)
    return positions


def _distances(reference: Floats, values: Floats, group: Ints) -> Floats:
    """For each group of numbers the distance from ``reference``, what is missing included."""
    is_missing = np.isnan(values)
    missing = np.bincount(group, is_missing) / np.bincount(group)
    missing_in_reference = float(np.isnan(reference).mean())
    between_present = np.zeros(len(missing))
    if not is_missing.all():
        with_values, dense = np.unique(group[~is_missing], return_inverse=True)
        between_present[with_values] = _earth_mover_distance(
            reference[~np.isnan(reference)], values[~is_missing], dense.astype(np.int64)
        )
    # |p - q| + min(1 - p, 1 - q) D, as the module says.
    shared = np.minimum(1 - missing, 1 - missing_in_reference)
    difference = np.abs(missing - missing_in_reference)
    return np.asarray(difference + shared * between_present, np.float64)


def _earth_mover_distance(reference: Floats, values: Floats, group: Ints) -> Floats:
    """For each group the integral over u in [0, 1] of the distance between both quantile functions
    at u.

    The i-th of n values of a group is its quantile for u in [i/n, (i+1)/n]. There the quantiles of
    the reference lie below it up to the share of the reference that is at most that value, and
    above it from there on.
    """
    order = np.lexsort((values, group))
    value, group = values[order], group[order]
    size = np.bincount(group)
    rank = np.arange(len(group)) - (np.cumsum(size) - size)[group]
    begin, end = rank / size[group], (rank + 1) / size[group]
    ascending = np.sort(reference)
    share_at_most = np.searchsorted(ascending, value, "right") / len(reference)
    turn = np.clip(share_at_most, begin, end)
    # Up to the turn the reference's quantiles are the smaller ones, from there on the larger ones.
    area_to_turn = _quantile_area(ascending, turn)
    below = value * (turn - begin) - (area_to_turn - _quantile_area(ascending, begin))
    above = (_quantile_area(ascending, end) - area_to_turn) - value * (end - turn)
    return np.asarray(np.bincount(group, below + above), np.float64)


def _quantile_area(ascending: Floats, upto: Floats) -> Floats:
    """The integral of the quantile function of ``ascending`` from 0 to each of ``upto``."""
    sums = np.concatenate([[0.0], np.cumsum(ascending)])
    # Whole steps of the quantile function, and a part of the next one.
    place = upto * len(ascending)
    full = np.minimum(place.astype(np.int64), len(ascending) - 1)
    area = sums[full] + (place - full) * ascending[full]
    return np.asarray(area / len(ascending), np.float64)


def _total_variation(reference: Floats, values: Floats, group: Ints) -> Floats:
    """For each group by how much its values' shares exceed those of ``reference``, in all."""
    distinct, count_in_reference = np.unique(reference, return_counts=True)
    value = np.searchsorted(distinct, values)
    pairs, count = np.unique(group * len(distinct) + value, return_counts=True)
    of_group, of_value = pairs // len(distinct), pairs % len(distinct)
    share = count / np.bincount(group)[of_group]
    excess = share - count_in_reference[of_value] / len(reference)
    return np.asarray(np.bincount(of_group, np.maximum(excess, 0.0)), np.float64)

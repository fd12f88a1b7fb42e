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
        found = found.restricted_to(found.has_value)
    has_kept_value = (found.has_value & found.kept).any()
    if not has_kept_value or not found.kept[found.member].any():
        return None
    if found.is_numeric and not found.values.drop_nulls().cast(pl.Float64).is_finite().all():
        raise GuaranteeBroken(
            guarantee.sentence(), f"'{guarantee.attribute}' holds numbers that are not finite"
        )
    positions = _positions_of_values(found, guarantee.scale)
    distances_of_groups = _distances_of_numbers if found.is_numeric else _total_variation
    largest = 0.0
    for activity in np.unique(found.activity[found.kept]):
        # Values of inserted events are neither compared nor compared with.
        compared = (found.activity == activity) & found.kept
        is_member = compared[found.member]
        if not is_member.any():
            continue
        _, group = np.unique(found.group[is_member], return_inverse=True)
        values = positions[found.member[is_member]]
        distances = distances_of_groups(positions[compared], values, group.astype(np.int64))
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


def _positions_of_values(found: GroupedValues, scale: str) -> Floats:
    """The position of each value: in [0, 1] for numbers, and not a number where it is missing; else
    a number for each different value, and -1 for a missing one.
    """
    if not found.is_numeric:
        return found.values.rank("dense").cast(pl.Float64).fill_null(-1.0).to_numpy()
    present = found.has_value
    numbers = found.values.drop_nulls()
    positions = np.full(len(present), np.nan)
    if scale == "rank":
        positions[present] = _shares_below(numbers, found.activity[present])
    else:
        positions[present] = _places_in_range(numbers.cast(pl.Float64).to_numpy())
    return positions


def _shares_below(numbers: pl.Series, activity: Ints) -> Floats:
    """F(x) of each number: the share of its activity's values that are smaller, and half of the
    share that equals it.
    """
    rows = pl.DataFrame({"activity": activity, "number": numbers})
    # The average rank r of n values: F(x) = (r - 1/2) / n.
    rank = pl.col("number").rank("average").over("activity")
    share = (rank - 0.5) / pl.len().over("activity")
    return rows.select(share=share).to_series().to_numpy()


def _places_in_range(numbers: Floats) -> Floats:
    """Where each number lies between the least (0) and the largest (1) of them."""
    # Halves, as the range itself may exceed the largest float.
    low, high = numbers.min() / 2, numbers.max() / 2
    half_range = (high - low) or 1.0
    return np.asarray((numbers / 2 - low) / half_range, np.float64)


def _distances_of_numbers(reference: Floats, values: Floats, group: Ints) -> Floats:
    """For each group of numbers the distance from ``reference``, what is missing included."""
    is_missing = np.isnan(values)
    share_missing = np.bincount(group, is_missing) / np.bincount(group)
    share_in_reference = float(np.isnan(reference).mean())
    between_present = np.zeros(len(share_missing))
    if not is_missing.all():
        # Groups without any value drop out: the others are numbered anew.
        with_values, renumbered = np.unique(group[~is_missing], return_inverse=True)
        between_present[with_values] = _earth_mover_distance(
            reference[~np.isnan(reference)], values[~is_missing], renumbered.astype(np.int64)
        )
    # |p - q| + min(1 - p, 1 - q) D, as the module says.
    present_in_both = np.minimum(1 - share_missing, 1 - share_in_reference)
    difference = np.abs(share_missing - share_in_reference)
    return np.asarray(difference + present_in_both * between_present, np.float64)


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
    first_of_group = np.cumsum(size) - size
    rank = np.arange(len(group)) - first_of_group[group]
    begin = rank / size[group]
    end = (rank + 1) / size[group]
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
    # One number for each pair of a group and a value that it holds.
    pair, count = np.unique(group * len(distinct) + value, return_counts=True)
    group_of_pair, value_of_pair = np.divmod(pair, len(distinct))
    share = count / np.bincount(group)[group_of_pair]
    share_in_reference = count_in_reference[value_of_pair] / len(reference)
    excess = np.maximum(share - share_in_reference, 0.0)
    return np.asarray(np.bincount(group_of_pair, excess), np.float64)

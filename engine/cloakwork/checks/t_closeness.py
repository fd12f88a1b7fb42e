"""t-closeness by the earth mover's distance, measured on a log alone, by code that shares nothing
with the mechanisms.

The distance of a group of values from all values of its activity (Li, Li and Venkatasubramanian,
ICDE 2007). Scale ``rank``: two numbers lie ``|F(x) - F(y)|`` apart, where F(x) is the share of the
activity's values that are smaller than x, and half of the share that equals x. Scale ``range``:
``|x - y| / range`` apart, ``range`` being that of the attribute over the whole log. Any two
different other values lie 1 apart, so that the distance is their total variation.

A missing value is a value, 1 from every other. Let it have the share p in the group and q in the
whole. Moving ``|p - q|`` to or from it, and the values that remain in proportion, costs
``|p - q| + min(1 - p, 1 - q) * D``, where D is the distance of the group's other values from the
whole's. For numbers this is an upper bound of the earth mover's distance (a cheaper choice of the
values that remain may exist), and exact where p = q; it is what is measured. All distances lie in
[0, 1].
"""

import math
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.checks.values import Grouped, grouped
from cloakwork.errors import GuaranteeBroken
from cloakwork.guarantees import TCloseness
from cloakwork.log.eventlog import EventLog

TOLERANCE: Final = 1e-9
"""What floating-point sums may be off by."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def farthest_group(
    log: EventLog, guarantee: TCloseness, *, missing_is_value: bool = True
) -> float | None:
    """The largest distance of any group from the values of its activity; None where there is no
    value.

    Where the log says which events are inserted, groups and whole are those of the others alone;
    places of numbers are always those of the whole log. ``missing_is_value`` False is the meaning
    of releases made by version 0.1.0: what is missing does not count. Raises ``GuaranteeBroken``
    for numbers that are not finite: no distance is defined for them.
    """
    found = grouped(log, guarantee.attribute, guarantee.classes)
    if not missing_is_value:
        found = found.only(found.present)
    if not (found.present & found.kept).any() or not found.kept[found.member].any():
        return None
    if found.numeric and not found.values.drop_nulls().cast(pl.Float64).is_finite().all():
        raise GuaranteeBroken(
            guarantee.sentence(), f"'{guarantee.attribute}' holds numbers that are not finite"
        )
    places = _places(found, guarantee.scale)
    far = 0.0
    for topic in np.unique(found.topic[found.kept]):
        of_topic = (found.topic == topic) & found.kept
        among = of_topic[found.member]
        group = np.unique(found.group[among], return_inverse=True)[1].astype(np.int64)
        whole, part = places[of_topic], places[found.member[among]]
        if len(part):
            distances = (
                _distances(whole, part, group)
                if found.numeric
                else _total_variation(whole, part, group)
            )
            far = max(far, float(distances.max()))
    return far


def check(log: EventLog, guarantee: TCloseness) -> None:
    """Raise ``GuaranteeBroken`` unless every group of ``log`` lies within ``guarantee.t``; a log
    without values holds.
    """
    far = farthest_group(log, guarantee)
    if far is not None and far > guarantee.t + TOLERANCE:
        raise GuaranteeBroken(
            guarantee.sentence(), f"the farthest group lies {rounded_up(far):g} from all values"
        )


def rounded_up(distance: float) -> float:
    """A distance, rounded up to four decimals."""
    return math.ceil((distance - TOLERANCE) * 1e4) / 1e4


def _places(found: Grouped, scale: str) -> Floats:
    """Where each value lies: in [0, 1] for numbers, and not a number where it is missing; else a
    number for each different value, and -1 for a missing one.
    """
    present = found.present
    if not found.numeric:
        return found.values.rank("dense").cast(pl.Float64).fill_null(-1.0).to_numpy()
    places = np.full(len(present), np.nan)
    if scale == "rank":
        rows = pl.DataFrame({"topic": found.topic[present], "value": found.values.drop_nulls()})
        rank = pl.col("value").rank("average").over("topic")
        places[present] = rows.select((rank - 0.5) / pl.len().over("topic")).to_series().to_numpy()
        return places
    numbers = found.values.drop_nulls().cast(pl.Float64).to_numpy()
    low, high = numbers.min(), numbers.max()
    half = high / 2 - low / 2  # halves, as the range itself may exceed what a float holds
    places[present] = (numbers / 2 - low / 2) / (half or 1.0)
    return places


def _distances(whole: Floats, part: Floats, group: Ints) -> Floats:
    """For each group of numbers the distance from ``whole``, what is missing included."""
    lacks = np.isnan(part)
    missing = np.bincount(group, lacks) / np.bincount(group)
    missing_of_all = float(np.isnan(whole).mean())
    between = np.zeros(len(missing))
    if not lacks.all():
        known, dense = np.unique(group[~lacks], return_inverse=True)
        between[known] = _moved_earth(whole[~np.isnan(whole)], part[~lacks], dense.astype(np.int64))
    shared = np.minimum(1 - missing, 1 - missing_of_all)
    return np.asarray(np.abs(missing - missing_of_all) + shared * between, np.float64)


def _moved_earth(whole: Floats, part: Floats, group: Ints) -> Floats:
    """For each group the integral over u in [0, 1] of the distance between both quantile functions
    at u.

    The i-th of n values of a group is its quantile for u in [i/n, (i+1)/n]. There the whole's
    quantiles lie below it up to the share of the whole that is at most that value, and above it
    from there on.
    """
    order = np.lexsort((part, group))
    value, group, size = part[order], group[order], np.bincount(group)
    rank = np.arange(len(group)) - (np.cumsum(size) - size)[group]
    begin, end = rank / size[group], (rank + 1) / size[group]
    ascending = np.sort(whole)
    turn = np.clip(np.searchsorted(ascending, value, "right") / len(whole), begin, end)
    below = value * (turn - begin) - (_area(ascending, turn) - _area(ascending, begin))
    above = (_area(ascending, end) - _area(ascending, turn)) - value * (end - turn)
    return np.asarray(np.bincount(group, below + above), np.float64)


def _area(ascending: Floats, upto: Floats) -> Floats:
    """The integral of the quantile function of ``ascending`` from 0 to each of ``upto``."""
    sums = np.concatenate([[0.0], np.cumsum(ascending)])
    place = upto * len(ascending)
    whole = np.minimum(place.astype(np.int64), len(ascending) - 1)
    return np.asarray(
        (sums[whole] + (place - whole) * ascending[whole]) / len(ascending), np.float64
    )


def _total_variation(whole: Floats, part: Floats, group: Ints) -> Floats:
    """For each group by how much its values' shares exceed those of the whole, in all."""
    values, share = np.unique(whole, return_counts=True)
    value = np.searchsorted(values, part)
    cells, count = np.unique(group * len(values) + value, return_counts=True)
    of_group = cells // len(values)
    excess = count / np.bincount(group)[of_group] - share[cells % len(values)] / len(whole)
    return np.asarray(np.bincount(of_group, np.maximum(excess, 0.0)), np.float64)

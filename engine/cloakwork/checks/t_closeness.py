"""t-closeness by the earth mover's distance, measured on a log alone, by code that shares nothing with the mechanisms.

The distance of a group of values from all values of its activity (Li, Li and Venkatasubramanian, ICDE 2007): numbers lie
``|x - y| / range`` apart, ``range`` being that of the attribute over the whole log; any two different other values lie
1 apart, so that the distance is their total variation. Both lie in [0, 1].
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloakwork.checks.values import Grouped, grouped
from cloakwork.errors import GuaranteeBroken
from cloakwork.guarantees import TCloseness
from cloakwork.log.eventlog import EventLog

TOLERANCE: Final = 1e-9
"""What floating-point sums may be off by."""

Floats = NDArray[np.float64]


def farthest_group(log: EventLog, guarantee: TCloseness) -> float | None:
    """The largest distance of any group from the values of its activity; None where no group has a value.

    Raises ``GuaranteeBroken`` for numbers that are not finite: no distance is defined for them.
    """
    found = grouped(log, guarantee.attribute, guarantee.classes)
    if len(found.member) == 0:
        return None
    if found.numeric and not found.values.is_finite().all():
        raise GuaranteeBroken(guarantee.sentence(), f"'{guarantee.attribute}' holds numbers that are not finite")
    places = _places(found)
    far = 0.0
    for topic in np.unique(found.topic):
        of_topic = found.topic[found.member] == topic
        group = np.unique(found.group[of_topic], return_inverse=True)[1].astype(np.int64)
        whole, part = places[found.topic == topic], places[found.member[of_topic]]
        distances = _moved_earth(whole, part, group) if found.numeric else _total_variation(whole, part, group)
        far = max(far, float(distances.max()))
    return far


def check(log: EventLog, guarantee: TCloseness) -> None:
    """Raise ``GuaranteeBroken`` unless every group of ``log`` lies within ``guarantee.t``; a log without values holds."""
    far = farthest_group(log, guarantee)
    if far is not None and far > guarantee.t + TOLERANCE:
        raise GuaranteeBroken(guarantee.sentence(), f"the farthest group lies {rounded_up(far):g} from all values")


def rounded_up(distance: float) -> float:
    """A distance, rounded up to four decimals."""
    return math.ceil((distance - TOLERANCE) * 1e4) / 1e4


def _places(found: Grouped) -> Floats:
    """Where each value lies: in [0, 1] for numbers, else a number for each different value."""
    if not found.numeric:
        return found.values.rank("dense").to_numpy().astype(np.float64)
    numbers = found.values.to_numpy()
    low, high = numbers.min(), numbers.max()
    half = high / 2 - low / 2  # halves, as the range itself may exceed what a float holds
    return np.asarray((numbers / 2 - low / 2) / (half or 1.0), np.float64)


def _moved_earth(whole: Floats, part: Floats, group: NDArray[np.int64]) -> Floats:
    """For each group the integral over u in [0, 1] of the distance between both quantile functions at u.

    The i-th of n values of a group is its quantile for u in [i/n, (i+1)/n]. There the whole's quantiles lie below it up
    to the share of the whole that is at most that value, and above it from there on.
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
    return np.asarray((sums[whole] + (place - whole) * ascending[whole]) / len(ascending), np.float64)


def _total_variation(whole: Floats, part: Floats, group: NDArray[np.int64]) -> Floats:
    """For each group by how much its values' shares exceed those of the whole, in all."""
    values, share = np.unique(whole, return_counts=True)
    value = np.searchsorted(values, part)
    cells, count = np.unique(group * len(values) + value, return_counts=True)
    of_group = cells // len(values)
    excess = count / np.bincount(group)[of_group] - share[cells % len(values)] / len(whole)
    return np.asarray(np.bincount(of_group, np.maximum(excess, 0.0)), np.float64)

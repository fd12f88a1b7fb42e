"""t-closeness: within a class an attribute is distributed nearly as in the whole release.

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
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Final, Literal

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.errors import GuaranteeBroken
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.quantities import Number
from cloakwork.guarantees.base import Direction, Observation, ReleaseOutline
from cloakwork.guarantees.claims import GuaranteeCaveat, LargeT, RangeScale
from cloakwork.guarantees.classes import (
    GROUP,
    Attribute,
    CaseClasses,
    ValuesInClasses,
    class_in_short,
    class_text,
    values_text,
)

TOLERANCE: Final = 1e-9
"""What floating-point sums may be off by."""

VACUOUS_T: Final = 0.5
"""How far a class of continuous values lies from all values at most, about, where they are compared
by rank.
"""


class TCloseness(ValuesInClasses):
    """Within each class the attribute's distribution is within t of its distribution over the whole
    release.

    For an attribute of events both are taken over events of one activity; a missing value is a
    value. ``emd``: the earth mover's distance; any two different values that are no numbers lie 1
    apart, and a missing one 1 from every other; so t is in (0, 1]. Numbers lie ``|F(x) - F(y)|``
    apart (``scale: rank``), F being the share of the released values of the activity that are
    smaller, and half of those that are equal; or ``|x - y| / range`` (``scale: range``), ``range``
    over the whole release: one outlier then brings all other numbers together. ``stochastic``: of
    the two probabilities with which any value is drawn for the release, given the class and given
    the whole, neither is more than t times the other, t >= 1; it has no scale.
    """

    stricter_if: ClassVar[Mapping[str, Direction]] = {"t": "less"}
    strictest_word: ClassVar[Mapping[str, str]] = {}

    kind: Literal["t-closeness"]
    t: Annotated[Number, Field(ge=1e-6, le=1000)]
    """Largest distance between a class and the whole release"""

    attribute: Attribute
    distance: Literal["emd", "stochastic"] = "emd"
    """How distance is measured; emd is the earth mover's distance"""

    scale: Literal["rank", "range"] = "rank"
    """How far numbers lie apart for emd: by their ranks, or as a share of the attribute's range"""

    classes: CaseClasses = "variants"

    @model_validator(mode="after")
    def _scale_is_about_distance(self) -> "TCloseness":
        if self.distance == "stochastic" and self.scale != "rank":
            raise ValueError("distance: stochastic is about probabilities and has no scale")
        return self

    def sentence(self) -> str:
        """Say it to a person."""
        class_values, all_values = values_text(self.attribute, self.classes)
        if self.distance == "stochastic":
            means = (
                f"{class_values} changed places at random: each of them became any given value "
                f"with at most {self.t:g} times, and at least 1/{self.t:g} times, the probability "
                f"of {all_values}; shares counted on one release may differ by more"
            )
        else:
            apart = "by their ranks" if self.scale == "rank" else "as a share of their range"
            missing = "" if self.attribute == TIMESTAMPS else ", missing ones included,"
            means = (
                f"{class_values}{missing} are distributed nearly like {all_values}: "
                f"the earth mover's distance is at most {self.t:g}, numbers being compared {apart}"
            )
        return (
            f"Among released cases that {class_text(self.classes)}, {means} "
            f"({self.distance} t-closeness over {self.classes})."
        )

    def in_short(self, who: str = "case") -> str:
        """Its line on a screen."""
        values = f"values of '{self.attribute}'"
        if self.attribute == TIMESTAMPS:
            values = "times between events"
        within = f"within each {class_in_short(self.classes)}, {values}"
        if self.distance == "stochastic":
            return f"{within} were at most {self.t:g} times as likely or unlikely as elsewhere"
        return f"{within} are distributed as in the whole release (distance at most {self.t:g})"

    def rests_on_draws(self) -> bool:
        """Whether the distance is stochastic."""
        return self.distance == "stochastic"

    def judged(self, merged: pl.DataFrame) -> Observation:
        """The largest distance."""
        largest = largest_distance(merged, self)
        if largest is None:
            return Observation(True, f"the log holds no value of '{self.attribute}'")
        # Rounded up: what is seen may not look better than it is.
        shown = math.ceil((largest - TOLERANCE) * 1e4) / 1e4
        seen = f"the farthest group lies {shown:g} from all values"
        return Observation(largest <= self.t + TOLERANCE, seen)

    def caveats(self, release: ReleaseOutline) -> Iterator[GuaranteeCaveat]:
        """What it does not rule out for numbers."""
        if self.distance == "stochastic":
            return
        if self.scale == "range":
            yield RangeScale(attribute=self.attribute)
        elif self.t >= VACUOUS_T:
            yield LargeT(attribute=self.attribute, t=self.t)


@frozen
class _WeightedPositions:
    """Distinct positions in ascending order, and how often each occurs.

    ``position``: float64, shape (n,), in [0, 1] for numbers, else any number for each different
    value; ``weight``: int64, shape (n,), at least 1; ``missing``: how many values are missing.
    """

    position: Floats
    weight: Ints
    missing: int


@frozen
class _Groups:
    """The values of several groups: rows of a group, a position and how often it occurs there,
    ascending by both; ``missing`` and ``size``: int64, shape (groups,), the latter of all values.
    """

    group: Ints
    position: Floats
    weight: Ints
    missing: Ints
    size: Ints


def largest_distance(counts: pl.DataFrame, guarantee: TCloseness) -> float | None:
    """The largest distance of any group from the values of its activity, of the merged
    ``GroupedValues`` of a log; None where there is no value.

    Where the log says which events are inserted, only the values of the others are compared; the
    positions of numbers are always those of all values. Raises ``GuaranteeBroken`` for numbers that
    are not finite: no distance is defined for them.
    """
    # Rows without a class count each value once (``GroupedValues``).
    members = counts.filter(pl.col("class_1").is_not_null())
    reference = counts.filter(pl.col("class_1").is_null())
    if not reference.height:
        # Each value stands in one group: together they are all values.
        reference = counts
    kept_values = reference.filter(pl.col("value").is_not_null(), pl.col("kept") > 0)
    if not kept_values.height or not (members["kept"] > 0).any():
        return None
    is_numeric = counts["value"].dtype.is_numeric()
    present = reference["value"].drop_nulls()
    if is_numeric and not present.cast(pl.Float64).is_finite().all():
        raise GuaranteeBroken(
            guarantee.sentence(), f"'{guarantee.attribute}' holds numbers that are not finite"
        )
    # All values of each activity, each once; of its groups those that hold kept values.
    counts_of_value = [pl.col("count").sum(), pl.col("kept").sum()]
    every = reference.group_by("activity", "value").agg(counts_of_value).sort("activity", "value")
    values_of_activity = every.partition_by("activity", as_dict=True, include_key=False)
    kept = members.filter(pl.col("kept") > 0)
    largest = 0.0
    for activity, rows in kept.partition_by("activity", as_dict=True).items():
        of_activity = rows.sort(*GROUP[1:], "value")
        all_values = values_of_activity[activity]
        if is_numeric:
            places = _placed_numbers(all_values, present, guarantee.scale)
            distances = _distances_of_numbers(*_compared(of_activity, all_values, places))
        else:
            # A number for each different value.
            number = pl.int_range(pl.len()).cast(pl.Float64)
            position = pl.when(pl.col("value").is_not_null()).then(number)
            places = all_values.with_columns(position=position)
            distances = _total_variation(*_compared(of_activity, all_values, places))
        largest = max(largest, float(distances.max(initial=0.0)))
    return largest


def _placed_numbers(all_values: pl.DataFrame, present: pl.Series, scale: str) -> pl.DataFrame:
    """``all_values`` with a ``position`` in [0, 1]; null for a missing one.

    ``rank``: F(x), the share of the activity's values that are smaller, and half of the share that
    equals x. ``range``: where it lies between the least (0) and the largest (1) of ``present``.
    """
    is_present = all_values["value"].is_not_null().to_numpy()
    numbers = all_values["value"].drop_nulls()
    if scale == "rank":
        # Ascending, as they are sorted.
        weight = all_values["count"].to_numpy()[is_present]
        # All that is smaller, and half of what is equal: F of the module's beginning.
        placed = (np.cumsum(weight) - weight / 2) / max(weight.sum(), 1)
    else:
        # Halves, as the range itself may exceed the largest float.
        bounds = present.cast(pl.Float64).to_numpy()
        low = bounds.min() / 2
        high = bounds.max() / 2
        # Where all values are equal, they lie at 0.
        placed = (numbers.cast(pl.Float64).to_numpy() / 2 - low) / ((high - low) or 1.0)
    positions = np.zeros(len(is_present))
    positions[is_present] = placed
    column = pl.Series("position", positions).set(pl.Series(~is_present), None)
    return all_values.with_columns(column)


def _compared(
    of_activity: pl.DataFrame, all_values: pl.DataFrame, places: pl.DataFrame
) -> tuple[_WeightedPositions, _Groups]:
    """The kept values of an activity, and those of its groups, by their positions.

    Values of inserted events are neither compared nor compared with.
    """
    kept = places.filter(pl.col("kept") > 0)
    placed = kept.filter(pl.col("position").is_not_null())
    missing = kept.filter(pl.col("position").is_null())["kept"].sum()
    reference = _WeightedPositions(
        placed["position"].to_numpy(), _ints(placed["kept"]), int(missing)
    )
    rows = of_activity.join(
        kept.select("value", "position"),
        on="value",
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    # Rows of one group follow one another, ascending by value.
    group = _ints(rows.select(pl.struct(GROUP[1:]).rle_id()).to_series())
    weight = _ints(rows["kept"])
    is_missing = rows["position"].is_null().to_numpy()
    groups = _Groups(
        group[~is_missing],
        rows["position"].drop_nulls().to_numpy(),
        weight[~is_missing],
        np.bincount(group, weight * is_missing).astype(np.int64),
        np.bincount(group, weight).astype(np.int64),
    )
    return reference, groups


def _distances_of_numbers(reference: _WeightedPositions, groups: _Groups) -> Floats:
    """For each group of numbers the distance from ``reference``, what is missing included."""
    share_missing = groups.missing / groups.size
    share_in_reference = reference.missing / (reference.missing + reference.weight.sum())
    between_present = np.zeros(len(share_missing))
    if len(groups.group):
        # Groups without any value drop out: the others are numbered anew.
        with_values, renumbered = np.unique(groups.group, return_inverse=True)
        between_present[with_values] = _earth_mover_distance(
            reference, groups.position, groups.weight, renumbered
        )
    # |p - q| + min(1 - p, 1 - q) D, as the module says.
    present_in_both = np.minimum(1 - share_missing, 1 - share_in_reference)
    difference = np.abs(share_missing - share_in_reference)
    return np.asarray(difference + present_in_both * between_present, np.float64)


def _earth_mover_distance(
    reference: _WeightedPositions, values: Floats, weight: Ints, group: Ints
) -> Floats:
    """For each group the integral over u in [0, 1] of the distance between both quantile functions
    at u.

    A value that stands for the values i to j of n of a group is its quantile for u in [i/n, j/n].
    There the quantiles of the reference lie below it up to the share of the reference that is at
    most that value, and above it from there on. ``values``: ascending in each group.
    """
    # Between which shares of its group each value is the quantile.
    size = np.bincount(group, weight)[group]
    upto = np.cumsum(weight)
    before_group = (upto - weight)[np.searchsorted(group, group)]
    begin = (upto - weight - before_group) / size
    end = (upto - before_group) / size
    quantiles = _Quantiles(reference)
    turn = np.clip(quantiles.share_at_most(values), begin, end)
    # Up to the turn the reference's quantiles are the smaller ones, from there on the larger ones.
    area_to_turn = quantiles.area(turn)
    below = values * (turn - begin) - (area_to_turn - quantiles.area(begin))
    above = (quantiles.area(end) - area_to_turn) - values * (end - turn)
    return np.asarray(np.bincount(group, below + above), np.float64)


class _Quantiles:
    """The quantile function of weighted positions."""

    def __init__(self, of: _WeightedPositions) -> None:
        self._position = of.position
        self._before = np.concatenate([[0], np.cumsum(of.weight)])
        self._sums = np.concatenate([[0.0], np.cumsum(of.position * of.weight)])
        self._total = self._before[-1]

    def share_at_most(self, values: Floats) -> Floats:
        """The share of the positions that are at most each of ``values``."""
        place = np.searchsorted(self._position, values, "right")
        return np.asarray(self._before[place] / self._total, np.float64)

    def area(self, upto: Floats) -> Floats:
        """The integral of the quantile function from 0 to each of ``upto``."""
        # Whole steps of the quantile function, and a part of the next one.
        place = upto * self._total
        full = np.searchsorted(self._before, place, "right") - 1
        full = np.minimum(full, len(self._position) - 1)
        area = self._sums[full] + (place - self._before[full]) * self._position[full]
        return np.asarray(area / self._total, np.float64)


def _total_variation(reference: _WeightedPositions, groups: _Groups) -> Floats:
    """By how much a group's shares exceed those of ``reference``, in all; missing is one value."""
    total = reference.missing + reference.weight.sum()
    in_reference = reference.weight[np.searchsorted(reference.position, groups.position)]
    share = groups.weight / groups.size[groups.group]
    # The positive differences add up to half the sum of all absolute ones.
    excess = np.maximum(share - in_reference / total, 0.0)
    among_values = np.bincount(groups.group, excess, minlength=len(groups.size))
    of_missing = np.maximum(groups.missing / groups.size - reference.missing / total, 0.0)
    return np.asarray(among_values + of_missing, np.float64)


def _ints(values: pl.Series) -> Ints:
    return values.to_numpy().astype(np.int64)

"""What can be measured on a release of version 0.1.0: its claims by their meaning then, and what
advisories ask.

By the meaning of 0.1.0, t- and l-closeness left missing values out, and numbers x, y lay
``|x - y| / range`` apart, ``range`` over the whole log. Shares no code with the mechanisms.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from cloakwork.base.errors import GuaranteeBroken
from cloakwork.base.facts import Unit
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.naming import values_of
from cloakwork.guarantees import Guarantee
from cloakwork.guarantees.checked_values import last_of_case, prefixes
from cloakwork.guarantees.measure import measure
from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, TIMESTAMP, EventLog
from cloakwork.publishing.advisories import Advisory, Parameters

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TOLERANCE: Final = 1e-9
MEASURABLE: Final = ("k-anonymity", "confidence-bound", "t-closeness", "l-diversity")


@dataclass(frozen=True, slots=True)
class EarlierObservation:
    """Whether a claim holds on the file, and what was seen, as the end of a sentence."""

    holds: bool
    seen: str


def measure_as_0_1_0(log: EventLog, guarantee: Parameters) -> EarlierObservation | None:
    """What ``log`` shows of a claim of version 0.1.0; None where nothing can be measured. Units
    count as cases.
    """
    match guarantee.get("kind"):
        case "k-anonymity" | "confidence-bound":
            return _by_todays_check(log, guarantee)
        case "t-closeness" if guarantee.get("distance") == "emd":
            far = _largest_distance(log, guarantee, by_ranks=False)
            distance = f"{_rounded_up(far):g} from all values"
            seen = f"the farthest group lies {distance}, by the range of values"
            return EarlierObservation(far <= _numeric_parameter(guarantee, "t") + TOLERANCE, seen)
        case "l-diversity":
            least = _least_diversity(log, guarantee)
            if least is None:
                return EarlierObservation(
                    True, f"the log holds no value of '{guarantee['attribute']}'"
                )
            holds = least >= _numeric_parameter(guarantee, "l") * (1 - TOLERANCE)
            return EarlierObservation(holds, f"the least varied group holds {least:.4g} values")
    return None


def measure_advisory(
    log: EventLog, advisory: Advisory, guarantee: Parameters | None, *, raw_times: bool
) -> tuple[bool | None, str] | None:
    """What the file shows of an advisory about ``guarantee``: whether it is so (None: it cannot
    tell), what was seen.

    ``raw_times``: times were released as they were, so that inserted events have none.
    """
    if guarantee is None:
        return None
    match advisory.measure:
        case "k without empty events":
            return _without_empty_events(log, guarantee, raw_times)
        case "closeness by ranks":
            far = _largest_distance(log, guarantee, by_ranks=True)
            t = _numeric_parameter(guarantee, "t")
            seen = f"by ranks the farthest group lies {_rounded_up(far):g} away, t is {t:g}"
            return far > t + TOLERANCE, seen
        case "closeness with missing values":
            far = _largest_difference_in_missing(log, guarantee)
            t = _numeric_parameter(guarantee, "t")
            distance = f"at least {_rounded_up(far):g} away"
            seen = f"by missing values some group lies {distance}, t is {t:g}"
            return far > t + TOLERANCE, seen
    return None


def _by_todays_check(log: EventLog, guarantee: Parameters) -> EarlierObservation:
    try:
        today: Guarantee = TypeAdapter[Any](Guarantee).validate_python(dict(guarantee))
        found = measure(log, today, Unit())
    except GuaranteeBroken as error:
        return EarlierObservation(False, error.observed)
    except ValidationError:
        return EarlierObservation(False, "its parameters are not known")
    if found is None:
        return EarlierObservation(False, "nothing can be measured")
    return EarlierObservation(found.holds, found.seen)


def _without_empty_events(
    log: EventLog, guarantee: Parameters, raw_times: bool
) -> tuple[bool | None, str]:
    """Whether k holds without the events that have no attribute though others of their activity
    have some.

    Inserted events have none, and no raw time. Where no event is empty, or all are, none can be
    recognised. Otherwise k without them proves nothing: some may have been empty in the source, and
    whoever knows which reads more.
    """
    standard = (ACTIVITY,) if raw_times else (ACTIVITY, TIMESTAMP)
    empty = np.ones(log.events.height, np.bool_)
    for name in log.events.columns:
        if name not in standard:
            empty &= values_of(log.events, name).is_null().to_numpy()
    if empty.all() or not empty.any():
        if not raw_times and _partly_timed(log):
            return None, "some events have no time"
        which = "no event" if empty.all() else "every event"
        what = "attributes or a time" if raw_times else "attributes"
        return False, f"{which} has {what}"
    rows = pl.DataFrame({"activity": log.events[ACTIVITY].cast(pl.String), "empty": empty})
    some_have_values = ~pl.col("empty").all().over("activity")
    recognised = rows.select(pl.col("empty") & some_have_values).to_series()
    kept = log.keep_events(~recognised.to_numpy())
    observation = _by_todays_check(kept, guarantee)
    what = "attributes and no time" if raw_times else "attributes"
    is_so = None if observation.holds else True
    return is_so, f"without events that have no {what}, {observation.seen}"


def _partly_timed(log: EventLog) -> bool:
    """Whether some events have a time and others have none, which steps that write times anew do
    not leave.
    """
    timed = TIMESTAMP in log.events.columns
    return timed and 0 < log.events[TIMESTAMP].null_count() < log.events.height


@dataclass(frozen=True, slots=True)
class _Classes:
    """The values of one attribute, and the groups that they stand in.

    ``values`` (some null) and ``activity_group``, within which values are compared, are as long as
    each other. ``member`` and ``group`` say which value stands in which group.
    """

    values: pl.Series
    activity_group: Ints
    member: Ints
    group: Ints

    def present(self) -> "_Classes":
        """Without missing values."""
        present = self.values.is_not_null().to_numpy()
        # Where each value stands once the missing ones are gone.
        position = np.cumsum(present) - 1
        known = present[self.member]
        return _Classes(
            self.values.drop_nulls(),
            self.activity_group[present],
            position[self.member[known]],
            self.group[known],
        )


def _classes_of(log: EventLog, guarantee: Parameters) -> _Classes:
    attribute = str(guarantee["attribute"])
    variants = guarantee.get("classes") == "variants"
    prefix = prefixes(log)
    last_prefix = last_of_case(log, prefix)
    if attribute.startswith(CASE_PREFIX):
        values = _comparable_values(_values_of_column(log.cases, attribute))
        activity_group = np.zeros(log.cases.height, np.int64)
        if variants:
            return _Classes(values, activity_group, np.arange(log.cases.height), last_prefix)
        return _Classes(values, activity_group, np.asarray(log.case_of, np.int64), prefix)
    if attribute == TIMESTAMPS:
        values = _comparable_values(_cycle_times(log))
    else:
        values = _comparable_values(_values_of_column(log.events, attribute))
    activity = _dense_codes(log.events[ACTIVITY].cast(pl.String).fill_null(""))
    group = prefix
    if variants:
        # One number for a variant and an activity together.
        group = last_prefix[log.case_of] * (activity.max(initial=0) + 1) + activity
    return _Classes(values, activity, np.arange(log.events.height), group)


def _dense_codes(values: pl.Series) -> Ints:
    """Numbers from 0, equal where values are equal, in their order."""
    return values.rank("dense").to_numpy().astype(np.int64) - 1


def _numbered_groups(group: Ints) -> Ints:
    """The groups numbered from 0 without gaps."""
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


def _values_of_column(frame: pl.DataFrame, name: str) -> pl.Series:
    if name not in frame.columns:
        return pl.Series([None] * frame.height, dtype=pl.String)
    return values_of(frame, name)


def _cycle_times(log: EventLog) -> pl.Series:
    if TIMESTAMP not in log.events.columns:
        return pl.Series([None] * log.events.height, dtype=pl.Int64)
    rows = pl.DataFrame({"case": log.case_of, "time": log.events[TIMESTAMP].dt.timestamp("us")})
    return rows.select(pl.col("time").diff().over("case")).to_series()


def _comparable_values(values: pl.Series) -> pl.Series:
    """Numbers and times as Float64, everything else as String."""
    if values.dtype.is_numeric():
        return values.cast(pl.Float64)
    if values.dtype.is_temporal():
        return values.to_physical().cast(pl.Float64)
    return values.cast(pl.String)


def _largest_distance(log: EventLog, guarantee: Parameters, *, by_ranks: bool) -> float:
    """The largest distance of a group from the values of its activity, missing ones left out; 0
    without values.
    """
    found = _classes_of(log, guarantee).present()
    if not len(found.member):
        return 0.0
    numeric = found.values.dtype == pl.Float64
    if numeric and not found.values.is_finite().all():
        return 1.0
    numbers = found.values.to_numpy()
    if not numeric:
        numbers = found.values.rank("dense").to_numpy().astype(np.float64)
    elif not by_ranks:
        # Halves, since the range may exceed what a float holds.
        half_range = numbers.max() / 2 - numbers.min() / 2
        numbers = (numbers / 2 - numbers.min() / 2) / (half_range or 1.0)
    farthest = 0.0
    group_of_member = found.activity_group[found.member]
    for activity_group in np.unique(group_of_member):
        chosen = group_of_member == activity_group
        group = _numbered_groups(found.group[chosen])
        reference = numbers[found.activity_group == activity_group]
        group_values = numbers[found.member[chosen]]
        if numeric and by_ranks:
            group_values = _mid_ranks(reference, group_values)
            reference = _mid_ranks(reference, reference)
        distances_to = _earth_mover_distances if numeric else _total_variation
        distances = distances_to(reference, group_values, group)
        farthest = max(farthest, float(distances.max()))
    return farthest


def _largest_difference_in_missing(log: EventLog, guarantee: Parameters) -> float:
    """The largest difference between a group's share of missing values and its activity's: a lower
    bound of t.
    """
    found = _classes_of(log, guarantee)
    missing = found.values.is_null().to_numpy().astype(np.float64)
    if not len(found.member):
        return 0.0
    size = np.bincount(found.activity_group)
    share_of_activity = np.bincount(found.activity_group, missing) / np.maximum(size, 1)
    width = int(found.activity_group.max()) + 1
    # One number for a group and an activity together.
    cell_of_member = found.group * width + found.activity_group[found.member]
    cells, position = np.unique(cell_of_member, return_inverse=True)
    share = np.bincount(position, missing[found.member]) / np.bincount(position)
    return float(np.abs(share - share_of_activity[cells % width]).max())


def _least_diversity(log: EventLog, guarantee: Parameters) -> float | None:
    found = _classes_of(log, guarantee).present()
    if not len(found.member):
        return None
    value = found.values.rank("dense").to_numpy().astype(np.int64)[found.member]
    activity_group = found.activity_group[found.member]
    group = _numbered_groups(found.group * (activity_group.max() + 1) + activity_group)
    # One number for a group and a value together: a cell.
    width = value.max() + 1
    cells, count = np.unique(group * width + value, return_counts=True)
    of_group = cells // width
    if guarantee.get("variety") == "distinct":
        return float(np.bincount(of_group).min())
    share = count / np.bincount(group)[of_group]
    entropy = np.bincount(of_group, -share * np.log(share))
    # Its exponential: as many values as if all were equally frequent.
    return float(np.exp(entropy).min())


def _mid_ranks(reference: Floats, values: Floats) -> Floats:
    """Where each value lies in the distribution of ``reference``: the share below it and half the
    share at it.
    """
    ascending = np.sort(reference)
    below = np.searchsorted(ascending, values, "left")
    upto = np.searchsorted(ascending, values, "right")
    return np.asarray((below + upto) / (2 * len(ascending)), np.float64)


def _earth_mover_distances(reference: Floats, group_values: Floats, group: Ints) -> Floats:
    """For each group the integral over u in [0, 1] of the distance between both quantile functions
    at u.
    """
    order = np.lexsort((group_values, group))
    value, group = group_values[order], group[order]
    size = np.bincount(group)
    first_of_group = np.cumsum(size) - size
    rank = np.arange(len(group)) - first_of_group[group]
    begin = rank / size[group]
    end = (rank + 1) / size[group]
    ascending = np.sort(reference)
    # Each value holds a stretch of u; up to ``turn`` the reference's quantile is at most the value.
    turn = np.clip(np.searchsorted(ascending, value, "right") / len(reference), begin, end)
    area_to_begin, area_to_turn, area_to_end = (
        _area_below_quantiles(ascending, upto) for upto in (begin, turn, end)
    )
    below = value * (turn - begin) - (area_to_turn - area_to_begin)
    above = (area_to_end - area_to_turn) - value * (end - turn)
    return np.asarray(np.bincount(group, below + above), np.float64)


def _area_below_quantiles(ascending: Floats, upto: Floats) -> Floats:
    """The integral of the quantile function of ``ascending`` from 0 to each of ``upto``."""
    sums = np.concatenate([[0.0], np.cumsum(ascending)])
    position = upto * len(ascending)
    full_steps = np.minimum(position.astype(np.int64), len(ascending) - 1)
    last_step = (position - full_steps) * ascending[full_steps]
    return np.asarray((sums[full_steps] + last_step) / len(ascending), np.float64)


def _total_variation(reference: Floats, group_values: Floats, group: Ints) -> Floats:
    """For each group by how much its values' shares exceed those of ``reference``, in all."""
    values, count_in_reference = np.unique(reference, return_counts=True)
    code = np.searchsorted(values, group_values)
    # One number for a group and a value together: a cell.
    cells, count = np.unique(group * len(values) + code, return_counts=True)
    of_group, of_value = cells // len(values), cells % len(values)
    share_in_group = count / np.bincount(group)[of_group]
    excess = share_in_group - count_in_reference[of_value] / len(reference)
    return np.asarray(np.bincount(of_group, np.maximum(excess, 0.0)), np.float64)


def _numeric_parameter(guarantee: Parameters, name: str) -> float:
    value = guarantee.get(name)
    return float(value) if isinstance(value, int | float) else float("nan")


def _rounded_up(distance: float) -> float:
    return max(0.0, float(np.ceil((distance - TOLERANCE) * 1e4) / 1e4))

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

from cloakwork.advisories import Advisory, Parameters
from cloakwork.checks.measure import measure
from cloakwork.checks.values import last_of_case, prefixes
from cloakwork.errors import GuaranteeBroken
from cloakwork.facts import Unit
from cloakwork.guarantees import Guarantee
from cloakwork.lineage import TIMESTAMPS
from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, TIMESTAMP, EventLog
from cloakwork.log.naming import values_of

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
            far = _farthest(log, guarantee, by_ranks=False)
            seen = f"the farthest group lies {_up(far):g} from all values, by the range of values"
            return EarlierObservation(far <= _number(guarantee, "t") + TOLERANCE, seen)
        case "l-diversity":
            least = _least_variety(log, guarantee)
            if least is None:
                return EarlierObservation(
                    True, f"the log holds no value of '{guarantee['attribute']}'"
                )
            holds = least >= _number(guarantee, "l") * (1 - TOLERANCE)
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
            far = _farthest(log, guarantee, by_ranks=True)
            t = _number(guarantee, "t")
            return (
                far > t + TOLERANCE,
                f"by ranks the farthest group lies {_up(far):g} away, t is {t:g}",
            )
        case "closeness with missing values":
            far = _farthest_in_missing(log, guarantee)
            t = _number(guarantee, "t")
            return (
                far > t + TOLERANCE,
                f"by missing values some group lies at least {_up(far):g} away, t is {t:g}",
            )
    return None


def _by_todays_check(log: EventLog, guarantee: Parameters) -> EarlierObservation:
    try:
        today: Guarantee = TypeAdapter[Any](Guarantee).validate_python(dict(guarantee))
        found = measure(log, today, Unit())
    except (ValidationError, GuaranteeBroken) as error:
        observed = (
            error.observed if isinstance(error, GuaranteeBroken) else "its parameters are not known"
        )
        return EarlierObservation(False, observed)
    return EarlierObservation(
        found is not None and found.holds,
        found.seen if found is not None else "nothing can be measured",
    )


def _without_empty_events(
    log: EventLog, guarantee: Parameters, raw_times: bool
) -> tuple[bool | None, str]:
    """Whether k holds without the events that have no attribute though others of their activity
    have some.

    Inserted events have none, and no raw time. Where no event is empty, or all are, none can be
    told apart. Otherwise k without them proves nothing: some may have been empty in the source, and
    whoever knows which reads more.
    """
    standard = (ACTIVITY,) if raw_times else (ACTIVITY, TIMESTAMP)
    empty = np.ones(log.events.height, np.bool_)
    for name in log.events.columns:
        if name not in standard:
            empty &= values_of(log.events, name).is_null().to_numpy()
    what = "attributes and no time" if raw_times else "attributes"
    if empty.all() or not empty.any():
        if not raw_times and _partly_timed(log):
            return None, "some events have no time"
        return (
            False,
            f"{'no event' if empty.all() else 'every event'} has attributes{' or a time' * raw_times}",
        )
    rows = pl.DataFrame({"activity": log.events[ACTIVITY].cast(pl.String), "empty": empty})
    told = rows.select(pl.col("empty") & ~pl.col("empty").all().over("activity")).to_series()
    seen = _by_todays_check(log.keep_events(~told.to_numpy()), guarantee)
    return None if seen.holds else True, f"without events that have no {what}, {seen.seen}"


def _partly_timed(log: EventLog) -> bool:
    """Whether some events have a time and others have none, which steps that write times anew do
    not leave.
    """
    timed = TIMESTAMP in log.events.columns
    return timed and 0 < log.events[TIMESTAMP].null_count() < log.events.height


@dataclass(frozen=True, slots=True)
class _Classes:
    """``values`` (some null) of one attribute, the topic (activity) of each, and the groups that
    they stand in.
    """

    values: pl.Series
    topic: Ints
    member: Ints
    group: Ints

    def present(self) -> "_Classes":
        """Without missing values."""
        having = self.values.is_not_null().to_numpy()
        place = np.cumsum(having) - 1
        known = having[self.member]
        return _Classes(
            self.values.drop_nulls(),
            self.topic[having],
            place[self.member[known]],
            self.group[known],
        )


def _classes(log: EventLog, guarantee: Parameters) -> _Classes:
    attribute, variants = str(guarantee["attribute"]), guarantee.get("classes") == "variants"
    prefix = prefixes(log)
    course = last_of_case(log, prefix)
    if attribute.startswith(CASE_PREFIX):
        values = _plain(_column(log.cases, attribute))
        topic = np.zeros(log.cases.height, np.int64)
        member, group = (np.arange(log.cases.height), course) if variants else (log.case_of, prefix)
        return _Classes(values, topic, np.asarray(member, np.int64), group)
    values = _plain(
        _cycle_times(log) if attribute == TIMESTAMPS else _column(log.events, attribute)
    )
    activity = (
        log.events[ACTIVITY].cast(pl.String).fill_null("").rank("dense").to_numpy().astype(np.int64)
        - 1
    )
    group = course[log.case_of] * (activity.max(initial=0) + 1) + activity if variants else prefix
    return _Classes(values, activity, np.arange(log.events.height), group)


def _column(frame: pl.DataFrame, name: str) -> pl.Series:
    if name not in frame.columns:
        return pl.Series([None] * frame.height, dtype=pl.String)
    return values_of(frame, name)


def _cycle_times(log: EventLog) -> pl.Series:
    if TIMESTAMP not in log.events.columns:
        return pl.Series([None] * log.events.height, dtype=pl.Int64)
    rows = pl.DataFrame({"case": log.case_of, "time": log.events[TIMESTAMP].dt.timestamp("us")})
    return rows.select(pl.col("time").diff().over("case")).to_series()


def _plain(values: pl.Series) -> pl.Series:
    """Numbers and times as Float64, everything else as String."""
    if values.dtype.is_numeric():
        return values.cast(pl.Float64)
    return (
        values.to_physical().cast(pl.Float64)
        if values.dtype.is_temporal()
        else values.cast(pl.String)
    )


def _farthest(log: EventLog, guarantee: Parameters, *, by_ranks: bool) -> float:
    """The largest distance of a group from the values of its activity, missing ones left out; 0
    without values.
    """
    found = _classes(log, guarantee).present()
    if not len(found.member):
        return 0.0
    numeric = found.values.dtype == pl.Float64
    if numeric and not found.values.is_finite().all():
        return 1.0
    numbers = (
        found.values.to_numpy()
        if numeric
        else found.values.rank("dense").to_numpy().astype(np.float64)
    )
    if numeric and not by_ranks:
        half = (
            numbers.max() / 2 - numbers.min() / 2
        )  # halves: the range may exceed what a float holds
        numbers = (numbers / 2 - numbers.min() / 2) / (half or 1.0)
    far = 0.0
    for topic in np.unique(found.topic[found.member]):
        ours = found.topic[found.member] == topic
        group = np.unique(found.group[ours], return_inverse=True)[1].astype(np.int64)
        whole, part = numbers[found.topic == topic], numbers[found.member[ours]]
        if numeric and by_ranks:
            whole, part = _mid_ranks(whole, whole), _mid_ranks(whole, part)
        distances = (
            _moved_earth(whole, part, group) if numeric else _total_variation(whole, part, group)
        )
        far = max(far, float(distances.max()))
    return far


def _farthest_in_missing(log: EventLog, guarantee: Parameters) -> float:
    """The largest difference between a group's share of missing values and its activity's: a lower
    bound of t.
    """
    found = _classes(log, guarantee)
    missing = found.values.is_null().to_numpy().astype(np.float64)
    if not len(found.member):
        return 0.0
    of_topic = np.bincount(found.topic, missing) / np.maximum(np.bincount(found.topic), 1)
    width = int(found.topic.max()) + 1
    cells, place = np.unique(found.group * width + found.topic[found.member], return_inverse=True)
    share = np.bincount(place, missing[found.member]) / np.bincount(place)
    return float(np.abs(share - of_topic[cells % width]).max())


def _least_variety(log: EventLog, guarantee: Parameters) -> float | None:
    found = _classes(log, guarantee).present()
    if not len(found.member):
        return None
    value = found.values.rank("dense").to_numpy().astype(np.int64)[found.member]
    topic = found.topic[found.member]
    group = np.unique(found.group * (topic.max() + 1) + topic, return_inverse=True)[1].astype(
        np.int64
    )
    cells, count = np.unique(group * (value.max() + 1) + value, return_counts=True)
    of_group = cells // (value.max() + 1)
    if guarantee.get("variety") == "distinct":
        return float(np.bincount(of_group).min())
    share = count / np.bincount(group)[of_group]
    return float(np.exp(np.bincount(of_group, -share * np.log(share))).min())


def _mid_ranks(whole: Floats, of: Floats) -> Floats:
    """Where each value lies in the distribution of the whole: the share below it and half the share
    at it.
    """
    ascending = np.sort(whole)
    below, upto = np.searchsorted(ascending, of, "left"), np.searchsorted(ascending, of, "right")
    return np.asarray((below + upto) / (2 * len(ascending)), np.float64)


def _moved_earth(whole: Floats, part: Floats, group: Ints) -> Floats:
    """For each group the integral over u in [0, 1] of the distance between both quantile functions
    at u.
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
    cells, count = np.unique(
        group * len(values) + np.searchsorted(values, part), return_counts=True
    )
    of_group = cells // len(values)
    excess = count / np.bincount(group)[of_group] - share[cells % len(values)] / len(whole)
    return np.asarray(np.bincount(of_group, np.maximum(excess, 0.0)), np.float64)


def _number(guarantee: Parameters, name: str) -> float:
    value = guarantee.get(name)
    return float(value) if isinstance(value, int | float) else float("nan")


def _up(distance: float) -> float:
    return max(0.0, float(np.ceil((distance - TOLERANCE) * 1e4) / 1e4))

"""Measure a guarantee on a log alone, by the checker of its kind; shares nothing with the
mechanisms.

Inside a run it is known which events were inserted. A guarantee then has to hold twice: on the log
as everybody will read it, and for somebody who recognises inserted events. A file does not say
which they are, so whoever verifies a release measures the first alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, assert_never

from cloakwork.checks import confidence_bound, k_anonymity, l_diversity, t_closeness
from cloakwork.checks.inserted import stripped, without_their_values
from cloakwork.facts import Unit
from cloakwork.guarantees import (
    ConfidenceBound,
    DifferentialPrivacy,
    Guarantee,
    KAnonymity,
    LDiversity,
    LocalDP,
    MetricPrivacy,
    TCloseness,
)
from cloakwork.log.eventlog import EventLog


@dataclass(frozen=True, slots=True)
class Observation:
    """Whether a log keeps a guarantee, and what was seen, as the end of a sentence."""

    holds: bool
    seen: str


Checker = Callable[[EventLog, Any, Unit], Observation | None]


def _k_anonymity(log: EventLog, guarantee: Any, unit: Unit) -> Observation:
    smallest = k_anonymity.smallest_group(log, guarantee, unit)
    if smallest is None:
        return Observation(True, "the log holds no case")
    counted = "released cases" if guarantee.count == "cases" or unit.attribute is None else "units"
    return Observation(smallest >= guarantee.k, f"the smallest group holds {smallest} {counted}")


def _confidence_bound(log: EventLog, guarantee: Any, unit: Unit) -> Observation:
    found = confidence_bound.extremes(log, guarantee, unit)
    if found is None:
        return Observation(True, "the log holds no case")
    counted = "released cases" if unit.attribute is None else "units"
    holds = found.smallest >= guarantee.K and (found.confidence or 0.0) <= guarantee.C
    told = (
        f", and the largest confidence in a value is {found.confidence:.1%}"
        if found.confidence is not None
        else ""
    )
    return Observation(
        holds,
        f"knowledge of up to {guarantee.L} events fits at least {found.smallest} {counted}{told}",
    )


def _t_closeness(
    log: EventLog, guarantee: Any, unit: Unit, *, missing_is_value: bool = True
) -> Observation | None:
    if guarantee.distance != "emd":
        return None
    far = t_closeness.farthest_group(log, guarantee, missing_is_value=missing_is_value)
    if far is None:
        return Observation(True, f"the log holds no value of '{guarantee.attribute}'")
    seen = f"the farthest group lies {t_closeness.rounded_up(far):g} from all values"
    return Observation(far <= guarantee.t + t_closeness.TOLERANCE, seen)


def _l_diversity(log: EventLog, guarantee: Any, unit: Unit) -> Observation:
    variety = l_diversity.least_variety(log, guarantee)
    if variety is None:
        return Observation(True, f"the log holds no value of '{guarantee.attribute}'")
    counted = "different values" if guarantee.variety == "distinct" else "values, by their entropy"
    return Observation(
        l_diversity.holds(variety, guarantee),
        f"the least varied group holds {variety:.4g} {counted}",
    )


def checker_of(guarantee: Guarantee) -> Checker | None:
    """The checker of a kind; None for one that rests on noise, which no single release shows.

    Every kind says here which of the two it is; without that, this does not type-check.
    """
    match guarantee:
        case KAnonymity():
            return _k_anonymity
        case ConfidenceBound():
            return _confidence_bound
        case TCloseness():
            return _t_closeness
        case LDiversity():
            return _l_diversity
        case DifferentialPrivacy() | MetricPrivacy() | LocalDP():
            return None
        case _:
            assert_never(guarantee)


def measure(
    log: EventLog,
    guarantee: Guarantee,
    unit: Unit,
    *,
    missing_is_value: bool = True,
    raw_times: bool = False,
) -> Observation | None:
    """What an independent check of ``guarantee`` sees on ``log``; None where nothing can be
    measured.

    ``missing_is_value``: for t-closeness; False is what version 0.1.0 measured. ``raw_times``:
    times are released as they are, so that inserted events may show by the precision of theirs.
    Raises ``GuaranteeBroken`` when the log lacks a column that is needed.
    """
    checker = checker_of(guarantee)
    if checker is None:
        return None
    if isinstance(guarantee, TCloseness) and not missing_is_value:
        return _t_closeness(replace(log, inserted=None), guarantee, unit, missing_is_value=False)
    seen = checker(replace(log, inserted=None), guarantee, unit)
    if seen is None or not seen.holds or log.inserted is None or not log.inserted.any():
        return seen
    alone = checker(_recognised(log, guarantee, raw_times), guarantee, unit)
    if alone is None or alone.holds:
        return seen
    return Observation(False, f"{alone.seen}, once inserted events are recognised")


def _recognised(log: EventLog, guarantee: Guarantee, raw_times: bool) -> EventLog:
    """What remains of ``log``, of what ``guarantee`` speaks of, for somebody who recognises
    inserted events.

    Whoever counts cases takes away the inserted events that show. Whoever looks at values leaves
    out all that inserted events hold; the checks of t-closeness and l-diversity read the marks
    themselves.
    """
    if isinstance(guarantee, KAnonymity):
        return stripped(log, by_time=raw_times)
    return (
        without_their_values(log, guarantee.attribute)
        if isinstance(guarantee, ConfidenceBound)
        else log
    )

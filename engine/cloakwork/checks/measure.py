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
from cloakwork.checks.evidence import Observation
from cloakwork.checks.inserted import without_their_values, without_visible_insertions
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


Checker = Callable[[EventLog, Any, Unit], Observation | None]


def _k_anonymity(log: EventLog, guarantee: Any, unit: Unit) -> Observation:
    smallest = k_anonymity.smallest_group(log, guarantee, unit)
    if smallest is None:
        return Observation(True, "the log holds no case")
    counted = "released cases" if guarantee.count == "cases" or unit.attribute is None else "units"
    return Observation(smallest >= guarantee.k, f"the smallest group holds {smallest} {counted}")


def _confidence_bound(log: EventLog, guarantee: Any, unit: Unit) -> Observation:
    worst = confidence_bound.worst_knowledge(log, guarantee, unit)
    if worst is None:
        return Observation(True, "the log holds no case")
    counted = "released cases" if unit.attribute is None else "units"
    holds = worst.smallest >= guarantee.K and (worst.confidence or 0.0) <= guarantee.C
    seen = f"knowledge of up to {guarantee.L} events fits at least {worst.smallest} {counted}"
    if worst.confidence is not None:
        seen += f", and the largest confidence in a value is {worst.confidence:.1%}"
    return Observation(holds, seen)


def _t_closeness(
    log: EventLog, guarantee: Any, unit: Unit, *, missing_is_value: bool = True
) -> Observation | None:
    if guarantee.distance != "emd":
        return None
    largest = t_closeness.largest_distance(log, guarantee, missing_is_value=missing_is_value)
    if largest is None:
        return Observation(True, f"the log holds no value of '{guarantee.attribute}'")
    seen = f"the farthest group lies {t_closeness.rounded_up(largest):g} from all values"
    return Observation(largest <= guarantee.t + t_closeness.TOLERANCE, seen)


def _l_diversity(log: EventLog, guarantee: Any, unit: Unit) -> Observation:
    least = l_diversity.least_diversity(log, guarantee)
    if least is None:
        return Observation(True, f"the log holds no value of '{guarantee.attribute}'")
    counted = "different values" if guarantee.variety == "distinct" else "values, by their entropy"
    seen = f"the least varied group holds {least:.4g} {counted}"
    return Observation(l_diversity.is_diverse_enough(least, guarantee), seen)


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
    public = checker(replace(log, inserted=None), guarantee, unit)
    if public is None or not public.holds or log.inserted is None or not log.inserted.any():
        return public
    recognised = checker(_as_seen_by_recogniser(log, guarantee, raw_times), guarantee, unit)
    if recognised is None or recognised.holds:
        return public
    return Observation(False, f"{recognised.seen}, once inserted events are recognised")


def _as_seen_by_recogniser(log: EventLog, guarantee: Guarantee, raw_times: bool) -> EventLog:
    """What remains of ``log``, of what ``guarantee`` speaks of, for somebody who recognises
    inserted events.

    Whoever counts cases takes away the inserted events that show. Whoever looks at values leaves
    out all that inserted events hold; the checks of t-closeness and l-diversity read the marks
    themselves.
    """
    match guarantee:
        case KAnonymity():
            return without_visible_insertions(log, by_time=raw_times)
        case ConfidenceBound():
            return without_their_values(log, guarantee.attribute)
        case _:
            return log

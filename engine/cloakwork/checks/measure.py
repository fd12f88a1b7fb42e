"""Measure a guarantee on a log alone, by the checker of its kind; shares nothing with the mechanisms."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cloakwork.checks import confidence_bound, k_anonymity
from cloakwork.facts import Unit
from cloakwork.guarantees import Guarantee
from cloakwork.log.eventlog import EventLog


@dataclass(frozen=True, slots=True)
class Observation:
    """Whether a log keeps a guarantee, and what was seen, as the end of a sentence."""

    holds: bool
    seen: str


Checker = Callable[[EventLog, Any, Unit], Observation]


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
    told = f", and the largest confidence in a value is {found.confidence:.1%}" if found.confidence is not None else ""
    return Observation(holds, f"knowledge of up to {guarantee.L} events fits at least {found.smallest} {counted}{told}")


CHECKERS: Final[Mapping[str, Checker]] = {
    "k-anonymity": _k_anonymity,
    "confidence-bound": _confidence_bound,
}
"""Kind of guarantee to its checker; a kind that is not here cannot be measured on one release."""


def measure(log: EventLog, guarantee: Guarantee, unit: Unit) -> Observation | None:
    """What an independent check of ``guarantee`` sees on ``log``; None where nothing can be measured.

    Raises ``GuaranteeBroken`` when the log lacks a column that is needed.
    """
    checker = CHECKERS.get(guarantee.kind)
    return None if checker is None else checker(log, guarantee, unit)

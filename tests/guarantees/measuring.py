"""What the checks of guarantees find on a log, as figures and as tests ask for them."""

from typing import Any, Final

from cloakwork.base.facts import Unit
from cloakwork.errors import GuaranteeBroken
from cloakwork.guarantees import (
    ConfidenceBound,
    Guarantee,
    KAnonymity,
    LDiversity,
    TCloseness,
    confidence_bound,
    l_diversity,
    t_closeness,
)
from cloakwork.guarantees.base import Observation, gathered
from cloakwork.guarantees.classes import GroupedValues
from cloakwork.guarantees.confidence_bound import SequenceEvidence, WorstKnowledge
from cloakwork.guarantees.inserted import KeptEvents, WithoutVisibleInsertions
from cloakwork.guarantees.k_anonymity import ClassSizes
from cloakwork.log.eventlog import EventLog, LogHandle

CASE: Final = Unit()


def smallest_group(log: LogHandle, goal: KAnonymity, unit: Unit = CASE) -> int | None:
    """Size of the smallest class; None for a log without cases."""
    sizes = ClassSizes(goal, unit)
    return sizes.smallest(gathered(log, sizes))


def worst_knowledge(
    log: LogHandle, goal: ConfidenceBound, unit: Unit = CASE
) -> WorstKnowledge | None:
    """What the worst knowledge finds; None for a log without cases."""
    merged = gathered(log, SequenceEvidence(goal, unit))
    return confidence_bound.worst_knowledge(merged, goal, unit)


def largest_distance(log: LogHandle, goal: TCloseness) -> float | None:
    """The largest distance of a group, of kept values alone; None where there is no value."""
    return t_closeness.largest_distance(_values(log, goal), goal)


def least_diversity(log: LogHandle, goal: LDiversity) -> float | None:
    """The least diversity of a group, of kept values alone; None where there is no value."""
    return l_diversity.least_diversity(_values(log, goal), goal)


def _values(log: LogHandle, goal: TCloseness | LDiversity) -> Any:
    return gathered(log, GroupedValues(goal.attribute, goal.classes))


def measure(
    log: LogHandle, goal: Guarantee, unit: Unit = CASE, *, raw_times: bool = False
) -> Observation:
    """What the check of a guarantee sees, as everybody reads the log and for a recogniser."""
    check = goal.check(unit, raw_times=raw_times)
    assert check is not None
    return check.measured_on(log)


def require(log: LogHandle, goal: Guarantee, unit: Unit = CASE) -> None:
    """Raise GuaranteeBroken unless the log keeps the guarantee, its marks of insertion aside."""
    check = goal.check(unit)
    assert check is not None
    evidence: Any = check.evidence
    found = check.judge(gathered(log, getattr(evidence, "evidence", evidence)))
    if not found.holds:
        raise GuaranteeBroken(goal.sentence(), found.seen)


def without_visible_insertions(log: EventLog, *, by_time: bool = False) -> EventLog:
    """``log`` without the inserted events that show (``WithoutVisibleInsertions``)."""
    kept = KeptEvents(by_time)
    return WithoutVisibleInsertions(kept.merge(kept.of(log)), by_time)(log)

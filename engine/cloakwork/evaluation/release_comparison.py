"""Which times and attributes of a release are compared with its source's, by its plan."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.plan.model import Plan

if TYPE_CHECKING:
    from cloakwork.evaluation.utility import SeenLog, Utility
    from cloakwork.evaluation.whole_log import WholeLogUtility

_AS_IN_THE_SOURCE: Final = ("keep", "protect")
"""Treatments that leave an attribute its own values; others put other names in their place."""


def whole_log_utility(plan: Plan, source: EventLog, released: EventLog) -> "WholeLogUtility | None":
    """How far times and attributes of ``released`` are from those of ``source``, as distributions;
    both under the standard names. None where there is nothing to compare.
    """
    attributes, times = compared_columns(plan, released)
    if not attributes and not times:
        return None
    from cloakwork.evaluation.declared import contradicted_facts
    from cloakwork.evaluation.whole_log import compare_whole_logs

    found = compare_whole_logs(
        source,
        released,
        times=times,
        attributes=attributes,
        ranges={name: _as_compared(plan.facts, name) for name in plan.facts.ranges},
        days_from=days_from(plan.facts),
    )
    if not any(step.lineage.generates for step in plan.steps):
        return found
    measured = frozenset[str]().union(*(step.lineage.measures for step in plan.steps))
    declared = [name for name in (*plan.facts.domains, *plan.facts.ranges) if name in measured]
    contradicted = contradicted_facts(source, plan.facts, declared)
    return found.model_copy(update={"contradicted": contradicted})


def with_pictures(
    utility: "Utility", plan: Plan, source: "SeenLog", released: "SeenLog"
) -> "Utility":
    """The figures, with the graph of steps and the curves of times where a step changed times
    alone, so that no other figure brought them.
    """
    from cloakwork.evaluation.control_flow import flow_graph
    from cloakwork.evaluation.whole_log import time_curves

    pictures: dict[str, object] = {}
    try:
        logs = source.sample.log, released.sample.log
        if utility.flow is None:
            variants = source.variants, released.variants
            pictures["flow"] = flow_graph(*logs, variants=variants)
        drawn = utility.whole_log is not None and bool(utility.whole_log.curves)
        if TIMESTAMPS in plan.released and not drawn:
            pictures["curves"] = time_curves(*logs, days_from(plan.facts))
    except Exception as error:
        fault = str(error or type(error).__name__).partition("\n")[0]
        pictures["notes"] = (*utility.notes, f"pictures were not drawn: {fault}")
    return utility.model_copy(update=pictures)


def utility_of_logs(source: EventLog, released: EventLog) -> "Utility":
    """All figures of ``released`` against ``source`` that need no plan: of the control flow, of
    times where both have them, and of the attributes that both have.
    """
    from cloakwork.evaluation.utility import measured
    from cloakwork.evaluation.whole_log import compare_whole_logs

    known = {*source.columns} - {CASE_ID, ACTIVITY, TIMESTAMP}
    attributes = [name for name in released.columns if name in known]
    whole_log = compare_whole_logs(source, released, attributes=attributes)
    return measured(source, released).model_copy(update={"whole_log": whole_log})


def _as_compared(facts: Facts, name: str) -> tuple[float, float]:
    """A declared range in the unit that values are compared in: times in microseconds."""
    unit = {"date": 86_400e6, "time": 1e6}.get(facts.types.get(name, "number"), 1.0)
    low, high = facts.ranges[name]
    return low * unit, high * unit


def compared_columns(plan: Plan, released: EventLog) -> tuple[tuple[str, ...], bool]:
    """The attributes of the release that are worth a comparison, in its order, and whether its
    times are.

    That is what the plan rewrites: everything where it rewrites the control flow, else the
    attributes that a step writes (what happened to times is then compared event by event).
    Attributes that are generalised, be it to reach k, or pseudonymised are left out: other values
    stand there.
    """
    coarser = {name for goal in plan.policy.goals() for name in goal.quasi_identifiers()}
    written = frozenset[str]().union(*(step.lineage.writes for step in plan.steps))
    rewritten = CONTROL_FLOW in written
    attributes = []
    for name in released.columns:
        treated = plan.treated(name)
        if name in {CASE_ID, ACTIVITY, TIMESTAMP, *coarser} or treated is None:
            continue
        if treated.treatment in _AS_IN_THE_SOURCE and (rewritten or name in written):
            attributes.append(name)
    has_times = TIMESTAMP in released.events.columns and TIMESTAMPS in plan.released
    return tuple(attributes), rewritten and has_times


def days_from(facts: Facts) -> datetime | None:
    """Where the declared grid is of whole days, the declared beginning of a day; else None."""
    whole_days = facts.grid % timedelta(days=1) == timedelta(0)
    return facts.epoch if whole_days else None

"""Which times and attributes are compared with the source's, and where the figures stand."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import polars as pl

from cloakwork import load_policy, make_plan, read_log
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW
from cloakwork.base.progress import silent
from cloakwork.evaluation.utility import (
    ComparedLogs,
    KeptUtility,
    SeenLog,
    Utility,
    compared,
    compared_columns,
    days_from,
    whole_log_utility,
)
from cloakwork.plan.model import Plan
from cloakwork.report.html import lines
from conftest import EXAMPLES, ROOT


def planned(policy: str) -> Plan:
    """The plan of a shipped policy."""
    return make_plan(load_policy(ROOT / "policies" / f"{policy}.yaml"))


def without_rewriting(plan: Plan) -> Plan:
    """The plan without the steps that rewrite the control flow."""
    steps = tuple(step for step in plan.steps if CONTROL_FLOW not in step.lineage.writes)
    return plan.model_copy(update={"steps": steps})


def test_what_the_plan_rewrites_is_compared() -> None:
    """Kept attributes and times where cases are rewritten; never those under other names."""
    log = read_log(EXAMPLES / "hospital.xes.gz")
    plan = planned("kanon-with-generalised-attributes")
    generalised = [item for item in plan.attributes if item.treatment == "generalise"]
    assert generalised
    assert compared_columns(plan, log) == ((), False)  # it keeps no other, and drops times
    kept = tuple(item.model_copy(update={"treatment": "keep"}) for item in plan.attributes)
    names, _ = compared_columns(plan.model_copy(update={"attributes": kept}), log)
    assert {item.attribute for item in generalised} <= set(names)
    assert compared_columns(planned("kanon-quasi-identifiers"), log) == ((), False)
    assert compared_columns(planned("dp-control-flow"), log) == ((), False)
    assert compared_columns(planned("kanon-dp-timestamps"), log)[1] is True
    assert compared_columns(without_rewriting(planned("kanon-dp-timestamps")), log)[1] is False
    assert whole_log_utility(planned("dp-control-flow"), log, log) is None


def test_days_are_those_of_the_declared_grid() -> None:
    """A grid of whole days shows weekdays alone, from the declared beginning of a day."""
    epoch = datetime(2000, 1, 1, 23, tzinfo=UTC)
    assert days_from(Facts(grid=timedelta(days=1), epoch=epoch)) == epoch
    assert days_from(Facts(grid=timedelta(hours=1), epoch=epoch)) is None


def test_figures_stand_in_the_report() -> None:
    """Under names that an analyst understands; 0 where nothing was lost, above 0 where times
    moved.
    """
    plan, log = planned("kanon-dp-timestamps"), read_log(EXAMPLES / "hospital.xes.gz")
    same = Utility.model_validate(KeptUtility(plan, silent).finished(log, log))
    shown = {line.name: line.value for line in lines(same)}
    assert shown["Case durations"] == shown["Waiting times per step"] == "0"
    assert shown["Hours of the week"] == "0"
    later = log.events.with_columns(
        pl.col("time:timestamp") + pl.duration(hours=log.position_of_event)
    )
    moved = replace(log, events=later)
    found = Utility.model_validate(KeptUtility(plan, silent).finished(log, moved)).whole_log
    assert found is not None
    assert min(found.case_durations or 0, found.waiting_times or 0, found.hours_of_week or 0) > 0
    assert found.pairs


def test_the_graph_and_what_is_learned_stand_in_the_report() -> None:
    """Of whatever rewrites the control flow."""
    plan, log = planned("dp-control-flow"), read_log(EXAMPLES / "hospital.xes.gz")
    found = Utility.model_validate(KeptUtility(plan, silent).finished(log, log))
    assert found.flow is not None
    assert all(step.source == step.released for step in found.flow.steps)
    shown = {line.name: line.value for line in lines(found)}
    assert float(shown["Next activity, learned from the release"]) > 0.7


def test_a_step_that_changes_times_alone_is_drawn_as_well() -> None:
    """Which activity follows which, durations and hours of both logs; no times where none are
    released; what cannot be drawn is noted.
    """
    log = read_log(EXAMPLES / "hospital.xes.gz")
    plan = planned("kanon-dp-timestamps")

    of_times = plan.model_copy(update={"steps": plan.steps[-1:]})
    seen = SeenLog.of(log)

    drawn = compared(ComparedLogs(seen, seen, of_times))

    assert drawn.learned is None
    assert drawn.flow is not None and drawn.flow.source_share == drawn.flow.released_share
    assert [curve.source == curve.released for curve in drawn.curves] == [True, True]
    timeless = planned("kanon-control-flow").model_copy(update={"steps": ()})
    assert compared(ComparedLogs(seen, seen, timeless)).curves == ()

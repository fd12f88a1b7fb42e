"""How much a release keeps of its log, for the internal report: what ``apply`` measures."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import JsonValue

from cloakwork.errors import first_line
from cloakwork.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.log.eventlog import EventLog
from cloakwork.plan.model import Plan, Step
from cloakwork.progress import Reporter
from cloakwork.run.comparison import compared_columns, whole_log_utility, with_pictures

if TYPE_CHECKING:
    from cloakwork.audit.times import TimeUtility


@dataclass(slots=True)
class TimesSeen:
    """Takes the figures of times before and after the last step that rewrites them, if a report is
    ``needed``.
    """

    needed: bool
    figures: "TimeUtility | None" = None

    def __call__(self, step: Step, before: EventLog, after: EventLog) -> None:
        """Whatever goes wrong is noted in the report: the release does not depend on it."""
        if (
            not self.needed
            or TIMESTAMPS not in step.lineage.writes
            or CONTROL_FLOW in step.lineage.writes
            or step.lineage.enriches
        ):
            return
        from cloakwork.audit.times import TimeUtility, compare_times

        try:
            self.figures = compare_times(before, after)
        except Exception as error:
            self.figures = TimeUtility(notes=(f"times were not compared: {first_line(error)}",))


def utility_figures(
    plan: Plan,
    source: EventLog,
    released: EventLog,
    reporter: Reporter,
    mining_seconds: float,
    times: "TimeUtility | None" = None,
) -> Mapping[str, JsonValue]:
    """How much is left of the control flow, of ``times`` and of attributes, for the internal report
    if there will be one.

    Whatever goes wrong here is noted there: the release is made, paid for, and does not depend on
    it.
    """
    rewritten = any(CONTROL_FLOW in step.lineage.writes for step in plan.steps)
    measurable = rewritten or times is not None or any(compared_columns(plan, released))
    if not (plan.policy.spec.output.report and measurable):
        return {}
    from cloakwork.audit.utility import Utility, measured

    reporter("measuring utility, for the internal report only")
    figures, whole_log = Utility(), None
    try:
        whole_log = whole_log_utility(plan, source, released)
        figures = measured(source, released, seconds=mining_seconds) if rewritten else figures
    except Exception as error:
        figures = Utility(notes=(f"utility was not measured: {first_line(error)}",))
    found = figures.model_copy(update={"times": times, "whole_log": whole_log})
    return with_pictures(found, plan, source, released).model_dump(mode="json")

"""How much a release keeps of its log, for the internal report: what ``apply`` measures."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import JsonValue

from cloakwork.base.errors import first_line
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.base.progress import Reporter
from cloakwork.evaluation.release_comparison import (
    compared_columns,
    whole_log_utility,
    with_pictures,
)
from cloakwork.log.handle import LogHandle
from cloakwork.plan.model import Plan, Step

if TYPE_CHECKING:
    from cloakwork.evaluation.times import TimeUtility
    from cloakwork.evaluation.utility import SeenLog, Utility


@dataclass(slots=True)
class TimesSeen:
    """Takes the figures of times before and after the last step that rewrites them, if a report is
    ``needed``.
    """

    needed: bool
    figures: "TimeUtility | None" = None

    def __call__(self, step: Step, before: LogHandle, after: LogHandle) -> None:
        """Whatever goes wrong is noted in the report: the release does not depend on it."""
        if (
            not self.needed
            or TIMESTAMPS not in step.lineage.writes
            or CONTROL_FLOW in step.lineage.writes
            or step.lineage.enriches
        ):
            return
        from cloakwork.evaluation.times import TimeUtility, compare_times_of_batches

        try:
            self.figures = compare_times_of_batches(before, after)
        except Exception as error:
            self.figures = TimeUtility(notes=(f"times were not compared: {first_line(error)}",))


def utility_figures(
    plan: Plan,
    source: LogHandle,
    released: LogHandle,
    reporter: Reporter,
    mining_seconds: float,
    times: "TimeUtility | None" = None,
) -> Mapping[str, JsonValue]:
    """How much is left of the control flow, of ``times`` and of attributes, for the internal report
    if there will be one; of large logs, of a sample of their cases where it is no count of all.

    Whatever goes wrong here is noted there: the release is made, paid for, and does not depend on
    it.
    """
    if not plan.policy.spec.output.report:
        return {}
    from cloakwork.evaluation.utility import SeenLog, Utility

    try:
        before, after = SeenLog.of(source), SeenLog.of(released)
    except Exception as error:
        notes = (f"utility was not measured: {first_line(error)}",)
        return Utility(times=times, notes=notes).model_dump(mode="json")
    rewritten = any(CONTROL_FLOW in step.lineage.writes for step in plan.steps)
    measurable = rewritten or times is not None or any(compared_columns(plan, after.sample.log))
    if not measurable:
        return {}
    reporter("measuring utility, for the internal report only")
    seconds = mining_seconds if rewritten else None
    found = _measured(plan, before, after, seconds).model_copy(update={"times": times})
    return with_pictures(found, plan, before, after).model_dump(mode="json")


def _measured(
    plan: Plan, before: "SeenLog", after: "SeenLog", mining_seconds: float | None
) -> "Utility":
    """The figures of attributes and, but where ``mining_seconds`` are None, of the control flow."""
    from cloakwork.evaluation.utility import Utility, compared, sample_notes

    try:
        whole_log = whole_log_utility(plan, before.sample.log, after.sample.log)
        figures = Utility(notes=sample_notes(before, after))
        if mining_seconds is not None:
            figures = compared(before, after, seconds=mining_seconds)
    except Exception as error:
        return Utility(notes=(f"utility was not measured: {first_line(error)}",))
    return figures.model_copy(update={"whole_log": whole_log})

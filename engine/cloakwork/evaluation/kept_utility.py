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
from cloakwork.run.run import Observer

if TYPE_CHECKING:
    from cloakwork.evaluation.times import TimeUtility
    from cloakwork.evaluation.utility import SeenLog, Utility


@dataclass(slots=True)
class KeptUtility(Observer):
    """How much is left of the control flow, of times and of attributes, for the internal report if
    there will be one; of large logs, of a sample of their cases where it is no count of all.

    Whatever goes wrong here is noted there: the release is made, paid for, and does not depend on
    it. ``mining_seconds``: that mining a process model may take (0: none is mined).
    """

    plan: Plan
    reporter: Reporter
    mining_seconds: float = 0.0
    times: "TimeUtility | None" = None

    def stepped(self, step: Step, before: LogHandle, after: LogHandle) -> None:
        """Figures of times before and after the last step that rewrites them."""
        written = step.lineage.writes
        if (
            not self.plan.policy.spec.output.report
            or TIMESTAMPS not in written
            or CONTROL_FLOW in written
            or step.lineage.enriches
        ):
            return
        from cloakwork.evaluation.times import TimeUtility, compare_times_of_batches

        try:
            self.times = compare_times_of_batches(before, after)
        except Exception as error:
            self.times = TimeUtility(notes=(f"times were not compared: {first_line(error)}",))

    def finished(self, source: LogHandle, released: LogHandle) -> Mapping[str, JsonValue]:
        """All figures as data; none where nothing was rewritten that could be measured."""
        if not self.plan.policy.spec.output.report:
            return {}
        from cloakwork.evaluation.utility import SeenLog, Utility

        try:
            before, after = SeenLog.of(source), SeenLog.of(released)
        except Exception as error:
            notes = (f"utility was not measured: {first_line(error)}",)
            return Utility(times=self.times, notes=notes).model_dump(mode="json")
        plan, times = self.plan, self.times
        rewritten = any(CONTROL_FLOW in step.lineage.writes for step in plan.steps)
        measurable = rewritten or times is not None or any(compared_columns(plan, after.sample.log))
        if not measurable:
            return {}
        self.reporter("measuring utility, for the internal report only")
        seconds = self.mining_seconds if rewritten else None
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

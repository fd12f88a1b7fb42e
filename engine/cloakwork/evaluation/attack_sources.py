"""Which logs are attacked, each opened as its policy says."""

from dataclasses import dataclass
from pathlib import Path

from cloakwork.authoring.sources import policy_source
from cloakwork.base.errors import LogError
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.eventlog import EventLog
from cloakwork.policy.model import Policy
from cloakwork.publishing.opened import OpenedLog, opened_log
from cloakwork.run.reading import is_log_file, read_under

LogSource = EventLog | str | Path


@dataclass(frozen=True, slots=True)
class LogReading:
    """How logs that are no releases are read. ``policy``: a policy, its file, a shipped policy's
    name, or ``NAME@VERSION`` of the registry in ``ledger``; ``columns`` go before its own.
    """

    policy: Policy | str | Path | None = None
    columns: dict[str, str] | None = None
    ledger: Ledger | str | None = None

    def open(
        self, original: LogSource, releases: list[LogSource], control: LogSource | None
    ) -> list[OpenedLog]:
        """The original, the releases and the control group, if there is one, in this order.

        Where no policy is named, the original is read as that of the first release that has a plan;
        a log file in place of a release is read as it stands, and under the policy where it cannot
        be. Raises LogError for what is no log, PolicyError where there is no such policy.
        """
        named = self.policy
        if named is not None and not isinstance(named, Policy):
            named = policy_source(named, self.ledger).policy()
        released = [self._released(each, named) for each in releases]
        plans = (each.plan for each in released if each.plan is not None)
        under = named or next((plan.policy for plan in plans), None)
        raw = [original] if control is None else [original, control]
        first, *rest = (self._raw(each, under) for each in raw)
        return [first, *released, *rest]

    def _released(self, source: LogSource, policy: Policy | None) -> OpenedLog:
        try:
            return opened_log(source, timeless=True)
        except LogError as error:
            if not is_log_file(source):
                raise
            if policy is None:
                raise _naming_policy(error) from error
            return self._raw(source, policy)

    def _raw(self, source: LogSource, policy: Policy | None) -> OpenedLog:
        """A log that is read under ``policy``, if there is one."""
        if isinstance(source, EventLog) or not is_log_file(source):
            return opened_log(source, self.columns)
        if policy is not None:
            path = Path(source)
            return OpenedLog(read_under(policy, path, columns=self.columns), path.name)
        try:
            return opened_log(source, self.columns)
        except LogError as error:
            raise _naming_policy(error) from error


def _naming_policy(error: LogError) -> LogError:
    """The same error, which says that a policy may know how the log is read."""
    problem = error.problem
    hint = "name the policy that says how this log is read: --policy POLICY"
    if problem.hint:
        hint = f"{problem.hint}; --policy POLICY names the policy that it is read by"
    return LogError(problem.path, problem.message, line=problem.line, hint=hint)

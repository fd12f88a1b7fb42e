"""Where a policy's text comes from: a file, a shipped policy, or a version in the registry."""

from dataclasses import dataclass
from pathlib import Path

from cloakwork.authoring.registry import Registry, is_reference
from cloakwork.ledger.ledger import Ledger
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import plan_text
from cloakwork.plan.policies import parse_policy
from cloakwork.plan.profile import Profile
from cloakwork.policy.library import resolve_policy
from cloakwork.policy.model import Policy
from cloakwork.policy.syntax import read_text


@dataclass(frozen=True, slots=True)
class PolicySource:
    """A policy's text; ``label`` is what errors call it. ``path``: its file, None where it stands
    in the registry.
    """

    text: str
    label: str
    path: Path | None

    def policy(self) -> Policy:
        """The policy; raises PolicyError with every fault found."""
        return parse_policy(self.text, self.label)

    def plan(self, *, profile: Profile | None = None, window: str | None = None) -> Plan:
        """``make_plan`` for it; causes of a refusal say line and column."""
        return plan_text(self.text, self.label, profile=profile, window=window)


def policy_source(source: str | Path, ledger: Ledger | str | None = None) -> PolicySource:
    """The policy at a path, of a shipped name, or ``NAME@VERSION`` of the registry in ``ledger``.

    Raises PolicyError where there is none, LedgerError where the ledger cannot be read.
    """
    if isinstance(source, str) and is_reference(source):
        return PolicySource(Registry(ledger).get(source).text, source, None)
    path = resolve_policy(source)
    return PolicySource(read_text(path), str(path), path)

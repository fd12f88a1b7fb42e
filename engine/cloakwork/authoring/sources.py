"""Where policies, plans and profiles come from: files, shipped policies, the registry."""

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from cloakwork.authoring.registry import Registry, is_reference
from cloakwork.base.errors import CloakworkError, PlanMoved, PlanUnsound, first_line
from cloakwork.ledger.ledger import Ledger
from cloakwork.plan.budget import Profile
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import plan_text, replan, require_window
from cloakwork.plan.policies import load_policy, parse_policy
from cloakwork.policy.document import read_text
from cloakwork.policy.load import digest, resolve_policy
from cloakwork.policy.model import Policy


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


def plan_from(source: str, window: str | None = None, ledger: Ledger | str | None = None) -> Plan:
    """A plan from a plan file (JSON), or made from a policy as ``policy_source`` finds it, for
    ``window``.
    """
    # A version such as permits@1.0.0-a.json is no file.
    if Path(source).suffix != ".json" or is_reference(source):
        return policy_source(source, ledger).plan(window=window)
    plan = read_plan(Path(source))
    require_window(plan, window)
    return plan


def read_plan(path: Path) -> Plan:
    """Read a plan that ``cloakwork plan --out`` wrote; raises PlanMoved when its policy has moved
    on since, CloakworkError where it is no plan.
    """
    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise CloakworkError(f"{path}: cannot be read as a plan: {first_line(error)}") from error
    if not isinstance(document, dict):
        raise CloakworkError(
            f"{path}: is not a plan; make one with 'cloakwork plan POLICY LOG --out plan.json'"
        )
    made_from = document.pop("made_from", None)
    # 'plan --json' prints figures of the raw log and of the ledger beside the plan.
    for beside in ("internal", "ledger"):
        document.pop(beside, None)
    try:
        plan = Plan.model_validate(document)
    except ValidationError as error:
        where, says = _first_fault(error)
        raise CloakworkError(
            f"{path}: is not a plan of this version: {where}: {says}; plan again"
        ) from error
    # A policy that is not there cannot have moved.
    policy_file = path.parent / made_from if isinstance(made_from, str) else None
    if (
        policy_file
        and policy_file.is_file()
        and digest(load_policy(policy_file)) != plan.policy_digest
    ):
        raise PlanMoved(
            f"{path}: the policy {made_from} has changed since this plan was made; plan again"
        )
    # The file is not believed: what follows from its policy is derived again.
    try:
        return replan(plan)
    except PlanUnsound as error:
        why = str(error)
        if len(why) > 200:
            why = why[:197] + "..."
        raise PlanMoved(
            f"{path}: states what does not follow from its policy ({why}); plan again"
        ) from error


def read_profile(path: Path) -> Profile:
    """Read a profile that ``cloakwork profile`` wrote; raises CloakworkError where it is none."""
    try:
        return Profile.model_validate_json(path.read_bytes())
    except OSError as error:
        raise CloakworkError(f"{path}: cannot be read as a profile: {error.strerror}") from error
    except ValidationError as error:
        where, says = _first_fault(error)
        raise CloakworkError(
            f"{path}: is not a profile of this version: {where or 'the file'}: {says}"
        ) from error


def _first_fault(error: ValidationError) -> tuple[str, str]:
    """The dotted path of the first fault, and what it is."""
    first = error.errors()[0]
    return ".".join(str(part) for part in first["loc"]), first["msg"]

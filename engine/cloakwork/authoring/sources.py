"""Where policies, plans and profiles come from: files, shipped policies, the registry; and a policy
to begin with, from a shipped one or the template of a sector.
"""

import getpass
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from cloakwork.authoring.registry import Registry, is_reference
from cloakwork.base.errors import CloakworkError, PlanMoved, PlanUnsound, PolicyError, first_line
from cloakwork.base.text import first_fault
from cloakwork.ledger.ledger import Ledger
from cloakwork.plan.budget import Profile
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import plan_text, replan, require_window
from cloakwork.plan.policies import load_policy, parse_policy
from cloakwork.policy.document import in_quotes
from cloakwork.policy.load import (
    SCHEMA_FILE,
    digest,
    list_templates,
    read_policy_text,
    resolve_policy,
    shipped,
    template_text,
)
from cloakwork.policy.model import Policy
from cloakwork.policy.semantics import HEADER_QUESTIONS, STILL_OPEN, placeholder


@dataclass(frozen=True, slots=True)
class PolicySource:
    """A policy's text; ``label`` is what errors call it. ``path``: its file, None where it stands
    in the registry, or in a plan. ``saved``: the file of that plan.
    """

    text: str
    label: str
    path: Path | None
    saved: Path | None = None

    def policy(self) -> Policy:
        """The policy; raises PolicyError with every fault found."""
        return parse_policy(self.text, self.label)

    def plan(self, *, profile: Profile | None = None, window: str | None = None) -> Plan:
        """``make_plan`` for it; causes of a refusal say line and column. A plan that was saved is
        read as ``read_plan`` does, and is for its own window and profile alone.
        """
        if self.saved is None:
            return plan_text(self.text, self.label, profile=profile, window=window)
        if profile is not None:
            raise CloakworkError(f"{self.label}: is a plan; name its policy beside a profile")
        plan = read_plan(self.saved)
        require_window(plan, window)
        return plan

    def saved_as(self, plan: Plan, out: Path) -> str:
        """The file at ``out`` that holds ``plan``, made of this policy: for ``read_plan``."""
        document = plan.model_dump(mode="json", by_alias=True)
        # A version of the registry cannot change, so only a file is looked at again.
        if self.path is not None:
            document["made_from"] = os.path.relpath(self.path, out.parent)
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def policy_source(source: str | Path, ledger: Ledger | str | None = None) -> PolicySource:
    """The policy at a path, of a shipped name, ``NAME@VERSION`` of the registry in ``ledger``, or
    that of a saved plan (JSON).

    Raises PolicyError where there is none, LedgerError where the ledger cannot be read.
    """
    # A version such as permits@1.0.0-a.json is no file.
    if isinstance(source, str) and is_reference(source):
        return PolicySource(Registry(ledger).get(source).text, source, None)
    path = resolve_policy(source)
    # JSON is YAML, so a policy may be written in it, too.
    if path.suffix == ".json" and "apiVersion" not in _document(path):
        return saved_policy(path, str(source))
    return PolicySource(read_policy_text(path), str(path), path)


def saved_policy(path: Path, label: str) -> PolicySource:
    """The policy of the plan that was saved at ``path``."""
    text = json.dumps(_document(path).get("policy"))
    return PolicySource(text, label, None, path)


LARGEST_PLAN: Final = 1 << 24  # bytes


def _document(path: Path) -> dict[str, Any]:
    """The JSON of a saved plan; raises CloakworkError where it is none."""
    try:
        # The size comes first, so that no huge file is read into memory.
        if path.stat().st_size > LARGEST_PLAN:
            raise CloakworkError(f"{path}: has more than 16 MiB, and is no plan")
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or first_line(error)
        raise CloakworkError(f"{path}: cannot be read as a plan: {why}") from error
    if not isinstance(document, dict) or document.keys().isdisjoint(("policy", "apiVersion")):
        raise CloakworkError(
            f"{path}: is not a plan; make one with 'cloakwork plan POLICY LOG --out plan.json'"
        )
    return document


def read_plan(path: Path) -> Plan:
    """Read a plan that ``cloakwork plan --out`` wrote; raises PlanMoved when its policy has moved
    on since, CloakworkError where it is no plan.
    """
    document = _document(path)
    made_from = document.pop("made_from", None)
    # 'plan --json' prints figures of the raw log and of the ledger beside the plan.
    for beside in ("internal", "ledger"):
        document.pop(beside, None)
    try:
        plan = Plan.model_validate(document)
    except ValidationError as error:
        where, says = first_fault(error)
        raise CloakworkError(
            f"{path}: is not a plan of this version: {where}: {says}; plan again"
        ) from error
    # A policy that is not there cannot have moved.
    policy_file = path.parent / made_from if isinstance(made_from, str) else None
    if policy_file and policy_file.is_file():
        try:
            is_same = digest(load_policy(policy_file)) == plan.policy_digest
        except PolicyError:
            # The plan names the file, and may come from anybody: nothing of it is shown.
            is_same = False
        if not is_same:
            raise PlanMoved(
                f"{path}: the policy {made_from} has changed since this plan was made, or cannot "
                "be read; plan again"
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
        where, says = first_fault(error)
        raise CloakworkError(
            f"{path}: is not a profile of this version: {where or 'the file'}: {says}"
        ) from error


def template_policy(template: str, out: Path, header: Mapping[str, str | None]) -> str:
    """The text of a policy for ``out``, from the template of a sector; what ``header`` leaves open
    stays the question that the template asks.
    """
    return _with_header(_starter(template_text(template), out), header)


def shipped_policy(name: str, out: Path, header: Mapping[str, str | None]) -> str:
    """The text of a policy for ``out``, from a shipped one; what ``header`` leaves open becomes a
    question. An example's legal basis is nobody else's.
    """
    text = _starter((shipped("policies") / f"{name}.yaml").read_text("utf-8"), out)
    return re.sub(r"(?m)^  legalBasis: .*\n", "", _with_header(text, with_questions(header)))


def sectors() -> tuple[tuple[str, str], ...]:
    """The templates, each with what it says of itself in its first comment."""
    found = []
    for name in list_templates():
        lines = template_text(name).splitlines()
        comments = [line.lstrip("# ").strip() for line in lines if line.startswith("#")]
        # The first comment may be a line for editors.
        said = (line for line in comments if line and not line.startswith("yaml-language"))
        found.append((name, next(said)))
    return tuple(found)


def questions_of(text: str, out: Path) -> int:
    """How many questions the policy holds; raises PolicyError for what is wrong beside them."""
    try:
        parse_policy(text, str(out))
    except PolicyError as error:
        # Open questions are faults of the policy, too: only the others are told.
        wrong = [problem for problem in error.problems if STILL_OPEN not in problem.message]
        if wrong:
            raise PolicyError(wrong) from None
        return len(error.problems)
    return 0


def _starter(text: str, out: Path) -> str:
    """The text named after its file, with the schema expected beside it."""
    schema = r"(?m)^(# yaml-language-server: \$schema=).*$"
    text = re.sub(schema, rf"\g<1>{SCHEMA_FILE}", text, count=1)
    name = re.sub(r"[^a-z0-9._-]+", "-", out.name.split(".")[0].lower()).lstrip("._-")[:100]
    return re.sub(r"(?m)^(  name: )[a-z0-9._-]+", rf"\g<1>{name or 'policy'}", text, count=1)


def _with_header(text: str, header: Mapping[str, str | None]) -> str:
    """``text`` with what was said of it in its lines of metadata, each without its comment."""
    for field, value in header.items():
        if value is not None:
            # What a replacement obeys may stand in the value: backslashes are escaped.
            line = f"  {field}: {in_quotes(value)}".replace("\\", r"\\")
            text = re.sub(rf"(?m)^  {field}: .*$", line, text, count=1)
    return text


def with_questions(header: Mapping[str, str | None]) -> dict[str, str]:
    """``header`` with a question to its author in place of what was not said."""
    return {
        key: placeholder(HEADER_QUESTIONS[key]) if value is None else value
        for key, value in header.items()
    }


def user_name() -> str:
    """Who runs this, as the machine knows them; empty where it does not."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""

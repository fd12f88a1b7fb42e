"""Where policies, plans and profiles come from: files, shipped policies, versions in the registry;
and a policy to begin with, from a shipped one or the template of a sector.
"""

import getpass
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue, ValidationError

from cloakwork.authoring.versions import (
    KINDS,
    Act,
    Approval,
    PolicyVersion,
    RegistryStatement,
    Revocation,
    SignedStatement,
    now,
    reference_of,
    same_person,
    signed,
    text_digest,
    versions_of,
)
from cloakwork.base.errors import (
    CloakworkError,
    FileProblem,
    LogError,
    NotApproved,
    PlanMoved,
    PlanUnsound,
    PolicyError,
    first_line,
)
from cloakwork.base.frozen import frozen
from cloakwork.base.text import first_fault, version_of
from cloakwork.ledger.journal import Entry, require_past
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.formats.options import mapped_columns
from cloakwork.plan.budget import Profile
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import plan_text, replan, require_window
from cloakwork.plan.policies import load_policy, parse_policy
from cloakwork.policy.advice import waiver_lines
from cloakwork.policy.document import did_you_mean, in_quotes
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
from cloakwork.publishing.keys import SigningKey, signing_key

_REFERENCE: Final = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9._-]{0,99})@(?P<version>\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?)"
)


def is_reference(source: object) -> bool:
    """Whether ``source`` is written like ``NAME@VERSION``; a file of such a name needs ``./``."""
    return isinstance(source, str) and _REFERENCE.fullmatch(source) is not None


class _AlreadyThere(Exception):
    """The same policy is in the registry: nothing is written."""


class Registry:
    """The registry in ``ledger``; reading makes no ledger, ``add`` does.

    Every method raises LedgerError for a ledger that cannot be read or written, OutputError for a
    key that cannot, PolicyError for a version that is not there.
    """

    def __init__(self, ledger: Ledger | str | Path | None = None) -> None:
        self.ledger = Ledger.of(ledger)

    def versions(
        self, name: str | None = None, *, entries: tuple[Entry, ...] | None = None
    ) -> tuple[PolicyVersion, ...]:
        """Every version, in the order in which they were added; only of ``name`` if given.
        ``entries``: those of the journal, where they were read already.
        """
        read = self.ledger.journal.read() if entries is None else entries
        ours = [entry for entry in read if entry.kind in KINDS.values()]
        found = versions_of(self.ledger.url, ours)
        return tuple(each for each in found if name in (None, each.added.statement.name))

    def get(self, reference: str) -> PolicyVersion:
        """The version ``NAME@VERSION``."""
        return _found(self.ledger.url, reference, self.versions())

    def policy(self, reference: str) -> Policy:
        """The policy ``NAME@VERSION``, approved or not."""
        return self.get(reference).policy

    def add(
        self,
        text: str,
        *,
        author: str,
        reason: str,
        label: str = "policy.yaml",
        key: SigningKey | None = None,
    ) -> PolicyVersion:
        """Add the policy in ``text`` as the version that it names; ``label`` is what errors call
        it. Does nothing where the same policy is there already.

        ``key``: the author's, by default your own. Raises PolicyError where the text is no policy,
        or its name and version stand for another one, NotApproved where they were revoked.
        """
        # Whoever signs computes the digest from the text, and signs that.
        policy = parse_policy(text, label)
        statement = _statement("add", policy, text, author, reason)
        said = self._signed(statement, key, text)
        reference = reference_of(statement.name, statement.version)
        there: list[PolicyVersion] = []

        # Asked in the ledger's transaction, so that nobody adds the same version in between.
        def require_new(entries: tuple[Entry, ...]) -> None:
            there.extend(_with_reference(reference, self.versions(entries=entries)))
            if not there:
                return
            # Digests are compared as this version of Cloakwork computes them from the text.
            was = there[0].computed_digest or there[0].added.statement.digest
            if was != statement.digest:
                message = (
                    f"{reference} is in the registry with other content: digest {was} there, "
                    f"{statement.digest} here"
                )
                hint = "a version never changes; raise metadata.version"
                raise PolicyError([FileProblem(label, message, hint=hint)])
            _require_not_revoked(there[0])
            raise _AlreadyThere

        try:
            self._record(said, require_new)
        except _AlreadyThere:
            return there[0]
        return self.get(reference)

    def approve(
        self, reference: str, *, approver: str, reason: str, key: SigningKey | None = None
    ) -> Approval:
        """Approve a version; ``key``: the approver's, by default your own.

        What is signed is the digest that is computed here from the text. Raises NotApproved where
        the approver is the author, the version is revoked, or its author signed another digest.
        """
        version = self.get(reference)
        statement = _statement("approve", version.policy, version.text, approver, reason)
        added = version.added
        # Another version of Cloakwork may compute another digest of the same text.
        own_engine = added.engine == version_of("cloakwork")
        if own_engine and added.statement.digest != statement.digest:
            raise NotApproved(
                f"{reference}: its author signed another digest than that of its text; "
                "add it again under another version"
            )
        said = self._signed(statement, key)

        # Asked in the transaction as well, of the entries as they are then.
        def require_second_person(entries: tuple[Entry, ...]) -> None:
            require_past(self.ledger.journal, entries)
            now_there = _found(self.ledger.url, reference, self.versions(entries=entries))
            _require_not_revoked(now_there)
            # Keys tell two persons apart; names are compared as well, though anybody can type one.
            if said.keyid == added.keyid:
                raise NotApproved(
                    f"{reference}: key {said.keyid[:16]} is its author's, and an author cannot "
                    "approve; somebody else signs, with --key FILE or a CLOAKWORK_HOME of their own"
                )
            if same_person(approver, added.statement.person):
                raise NotApproved(
                    f"{reference}: {approver!a} is its author's name, and an author cannot "
                    "approve; name the approver: --approver NAME"
                )

        entry = self._record(said, require_second_person)
        return next(each for each in self.get(reference).approvals if each.entry == entry.digest)

    def revoke(
        self, reference: str, *, person: str, reason: str, key: SigningKey | None = None
    ) -> PolicyVersion:
        """End the approval of a version, for good; whoever may write to the ledger may do so.

        Raises NotApproved where it is revoked already.
        """
        added = self.get(reference).added.statement
        fields = {"act": "revoke", "person": person, "reason": reason, "said_at": now()}
        said = self._signed(_checked(added.model_dump() | fields), key)

        def require_standing(entries: tuple[Entry, ...]) -> None:
            _require_not_revoked(_found(self.ledger.url, reference, self.versions(entries=entries)))

        self._record(said, require_standing)
        return self.get(reference)

    def approval_of(
        self,
        policy_digest: str,
        at: datetime | None = None,
        *,
        entries: tuple[Entry, ...] | None = None,
    ) -> Approval | None:
        """The approval that a policy with this digest has, or had at the time ``at`` (aware); None
        without one that counts here. ``entries`` as for ``versions``; those that are read here
        have to lead to what is kept of their past.
        """
        known = self.ledger.trusted_entries() if entries is None else entries
        for version in self.versions(entries=known):
            if (approval := version.approval(at, of_digest=policy_digest)) is not None:
                return approval
        return None

    def _signed(
        self, statement: RegistryStatement, key: SigningKey | None, text: str | None = None
    ) -> SignedStatement:
        return signed(statement, key or signing_key(), engine=version_of("cloakwork"), text=text)

    def _record(
        self, said: SignedStatement, require: Callable[[tuple[Entry, ...]], object]
    ) -> Entry:
        statement = said.statement
        return self.ledger.record_event(
            KINDS[statement.act], statement.dataset, said.body(), require=require
        )


def _statement(
    act: Act,
    policy: Policy,
    text: str,
    person: str,
    reason: str,
) -> RegistryStatement:
    meta = policy.metadata
    return _checked(
        {
            "act": act,
            "name": meta.name,
            "version": meta.version,
            "dataset": meta.dataset,
            "digest": digest(policy),
            "text_digest": text_digest(text),
            "person": person,
            "reason": reason,
            "said_at": now(),
        }
    )


def _checked(fields: Mapping[str, Any]) -> RegistryStatement:
    """A statement of what people typed; raises CloakworkError where that is not one line each."""
    try:
        return RegistryStatement.model_validate(fields)
    except ValidationError as error:
        field = str(error.errors()[0]["loc"][0])
        what = {"person": "a name (at most 100 characters)", "reason": "a reason"}.get(field, field)
        raise CloakworkError(f"{fields[field]!a} cannot be {what}: write one line") from error


def _with_reference(reference: str, versions: Iterable[PolicyVersion]) -> tuple[PolicyVersion, ...]:
    return tuple(each for each in versions if each.reference == reference)


def _found(url: str, reference: str, versions: tuple[PolicyVersion, ...]) -> PolicyVersion:
    if not is_reference(reference):
        message = "is not NAME@VERSION, such as permits@1.0.0"
        raise PolicyError([FileProblem(ascii(reference), message)])
    for version in _with_reference(reference, versions):
        return version
    guess = did_you_mean(reference, [each.reference for each in versions])
    message = f"is not in the registry of ledger {url}{guess}"
    hint = "'cloakwork registry list' shows what is; a file of that name: ./" + reference
    raise PolicyError([FileProblem(reference, message, hint=hint)])


def _require_not_revoked(version: PolicyVersion) -> None:
    ended = version.revocation
    if ended is not None:
        since = f"{ended.recorded_at:%Y-%m-%d} by {ended.by.person} ({ended.reason})"
        raise NotApproved(
            f"{version.reference}: was revoked on {since}, which is for good; "
            "raise metadata.version, and add it as a new version"
        )


REQUIREMENT: Final = "require_approval"
"""The field of a dataset's declaration that says so."""


def is_approval_required(entries: Iterable[Entry], dataset: str) -> bool:
    """Whether a declaration of ``dataset`` among the entries of a journal asks for approved
    policies; a later one that does not say so takes nothing back.
    """
    return any(
        entry.kind == "dataset-declared"
        and entry.is_of(dataset)
        and entry.fields().get(REQUIREMENT) is True
        for entry in entries
    )


def other_columns(policy: Policy, columns: Mapping[str, str] | None) -> tuple[str, ...]:
    """Which of ``columns`` the policy does not say itself, as ``NAME=COLUMN``; raises LogError for
    a mapping that is none.

    Whose columns are the case, the person or the activity decides what a release guarantees.
    """
    own = {} if policy.spec.input is None else mapped_columns(policy.spec.input.columns)
    try:
        named = mapped_columns(columns or {})
    except ValueError as error:
        raise LogError("table", f"the mapping of columns {error}") from None
    return tuple(f"{name}={column}" for name, column in named.items() if own.get(name) != column)


def required_approval(
    ledger: Ledger,
    policy: Policy,
    policy_digest: str,
    entries: tuple[Entry, ...] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    require: bool = False,
) -> Approval | None:
    """The approval that a release under ``policy`` rests on; None where it has none and needs none.

    ``entries``: those of the journal, as the transaction that reserves has them: since a first look
    somebody may have revoked the version, or declared that approval is needed. ``columns``: which
    columns of the log are read as what, beside what the policy says: nobody approved these.
    ``require``: whether it needs one whatever its dataset says. Raises NotApproved, in one line,
    where it needs one and has none that counts.
    """
    # In the transaction it may have to be approved because it was so at the first look.
    why = "--require-approval was given" if entries is None else "this release has to be"
    entries = ledger.trusted_entries() if entries is None else entries
    registry = Registry(ledger)
    meta = policy.metadata
    others = other_columns(policy, columns)
    # An approval is of the columns that the policy says, and of no others.
    approval = None if others else registry.approval_of(policy_digest, entries=entries)
    # A dataset may demand approval, and so may whoever applies the policy.
    by_dataset = is_approval_required(entries, meta.dataset)
    if approval is None and (require or by_dataset):
        if by_dataset:
            why = f"dataset {meta.dataset} requires approval"
        reference = reference_of(meta.name, meta.version)
        if others:
            reason = (
                f"column {others[0]} is not what the policy says; put it under spec.input.columns "
                "of a new version"
            )
        else:
            found = _with_reference(reference, registry.versions(entries=entries))
            reason = _why_not(found[0] if found else None, reference, policy_digest)
        raise NotApproved(f"{reference}: is not approved, and {why}: {reason}")
    return approval


def details_of(
    policy: Policy, approval: Approval | None, columns: Mapping[str, str] | None
) -> dict[str, JsonValue]:
    """What the ledger's entry of a release says of its approval, and of ``columns`` that were named
    beside its policy.
    """
    details: dict[str, JsonValue] = {}
    if approval is not None:
        details["approval"] = approval.details()
    if others := other_columns(policy, columns):
        details["columns"] = list(others)
    return details


def notes_on(
    policy: Policy, approval: Approval | None, columns: Mapping[str, str] | None
) -> tuple[str, ...]:
    """What the internal report says of a release's policy: its approval, other ``columns`` than its
    own that were read, and what was waived.
    """
    resting = [] if approval is None else [f"this release rests on {approval}"]
    if others := other_columns(policy, columns):
        resting.append(f"columns were named beside the policy: {', '.join(others)}")
    waived = waiver_lines(policy.spec.waivers)
    return (*resting, *(f"waived advice: {line}" for line in waived))


def _why_not(version: PolicyVersion | None, reference: str, policy_digest: str) -> str:
    """What is missing, and what to do."""
    if version is None:
        return f"it is not in the registry; add it: cloakwork registry add {_SAMPLE}"
    digests = (version.added.statement.digest, version.computed_digest)
    if policy_digest not in digests:
        return (
            f"{reference} of the registry has other content (digest {digests[0][:16]} there, "
            f"{policy_digest[:16]} here); raise metadata.version, then: "
            f"cloakwork registry add {_SAMPLE}"
        )
    if version.revocation is not None:
        return _revoked(version.revocation)
    if not version.approvals:
        return f"nobody approved it; cloakwork registry approve {reference} --reason REASON"
    return "; ".join(f"{each.approver.person}: {each.faults[0]}" for each in version.approvals)


def _revoked(ended: Revocation) -> str:
    return f"it was revoked on {ended.recorded_at:%Y-%m-%d} by {ended.by.person}: {ended.reason}"


_SAMPLE: Final = "policy.yaml --reason REASON"


@frozen
class PolicySource:
    """A policy's text; ``label`` is what errors call it. ``path``: its file, None where it stands
    in the registry, or in a plan. ``saved``: the file of that plan. ``revoked``: when and why a
    version was.
    """

    text: str
    label: str
    path: Path | None
    saved: Path | None = None
    revoked: str = ""

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


def policy_source(source: str | Path, ledger: Ledger | str | Path | None = None) -> PolicySource:
    """The policy at a path, of a shipped name, ``NAME@VERSION`` of the registry in ``ledger``, or
    that of a saved plan (JSON).

    Raises PolicyError where there is none, LedgerError where the ledger cannot be read.
    """
    # A version such as permits@1.0.0-a.json is no file.
    if isinstance(source, str) and is_reference(source):
        version = Registry(ledger).get(source)
        revoked = _revoked(version.revocation) if version.revocation else ""
        return PolicySource(version.text, source, None, revoked=revoked)
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

"""Where a policy's text comes from: a file, a shipped policy, or a version in the registry."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import JsonValue, ValidationError

from cloakwork.authoring.versions import (
    KINDS,
    Act,
    Approval,
    PolicyVersion,
    RegistryStatement,
    SignedStatement,
    now,
    reference_of,
    same_person,
    signed,
    text_digest,
    versions_of,
)
from cloakwork.base.errors import CloakworkError, FileProblem, LogError, NotApproved, PolicyError
from cloakwork.base.text import version_of
from cloakwork.ledger.checkpoint import require_past
from cloakwork.ledger.journal import Entry
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.formats.options import mapped_columns
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.advice import waiver_lines
from cloakwork.policy.document import did_you_mean
from cloakwork.policy.load import digest
from cloakwork.policy.model import Policy
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

    def __init__(self, ledger: Ledger | str | None = None) -> None:
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


def _statement(act: Act, policy: Policy, text: str, person: str, reason: str) -> RegistryStatement:
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
        ended = version.revocation
        return (
            f"it was revoked on {ended.recorded_at:%Y-%m-%d} by {ended.by.person}: {ended.reason}"
        )
    if not version.approvals:
        return f"nobody approved it; cloakwork registry approve {reference} --reason REASON"
    return "; ".join(f"{each.approver.person}: {each.faults[0]}" for each in version.approvals)


_SAMPLE: Final = "policy.yaml --reason REASON"

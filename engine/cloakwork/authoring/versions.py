"""A version of a policy as the registry knows it: its text, its author, its approvals, and whether
it was revoked.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, Field, ValidationError

from cloakwork.base.errors import LedgerError, PolicyError
from cloakwork.base.frozen import frozen
from cloakwork.base.quantities import Frozen
from cloakwork.base.text import folded, version_of
from cloakwork.ledger.journal import Entry, EventKind
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.load import digest
from cloakwork.policy.model import Policy
from cloakwork.publishing.keys import (
    SigningKey,
    canonical,
    is_signature,
    may_approve,
    pre_authentication_encoding,
    trusted_key,
    why_trusted,
)

PAYLOAD_TYPE: Final = "application/vnd.cloakwork.policy-registry+json"

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# On one line, by Unicode's line ends as well, and without what a terminal would obey.
OneLine = Annotated[
    str, Field(min_length=1, max_length=1000, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]+$")
]
PersonName = Annotated[OneLine, Field(max_length=100)]

Act = Literal["add", "approve", "revoke"]

KINDS: Final[dict[Act, EventKind]] = {
    "add": "policy-added",
    "approve": "policy-approved",
    "revoke": "policy-revoked",
}


class RegistryStatement(Frozen):
    """What ``person`` says of one version of a policy, and why.

    ``digest``: SHA-256 of the policy's meaning, as whoever signs computed it from the text.
    ``text_digest``: SHA-256 of the text in UTF-8. ``said_at``: UTC, by the signer's clock.
    """

    act: Act
    name: Annotated[str, Field(max_length=100)]
    version: Annotated[str, Field(max_length=100)]
    dataset: str
    digest: Digest
    text_digest: Digest
    person: PersonName
    reason: OneLine
    said_at: AwareDatetime


class SignedStatement(Frozen):
    """A statement and its signature; ``keyid`` names the key, and proves nothing by itself.

    ``text``: the policy, where it is added. ``engine``: the version of Cloakwork that computed the
    digest.
    """

    statement: RegistryStatement
    keyid: Digest
    sig: str
    engine: str
    text: str | None = None

    def known_as(self) -> str:
        """Why the signature counts here, or why it does not, as the end of a sentence.

        Raises OutputError where a trusted key cannot be read.
        """
        if trusted_key(self.keyid) is not None and not self._fits():
            return "whose signature does not fit"
        return why_trusted(self.keyid)

    def fault(self, *, approves: bool = False) -> str | None:
        """Why the signature does not count here, as a sentence; None where it does. ``approves``:
        whether the key has to be one that was trusted to approve.

        Raises OutputError where a trusted key cannot be read.
        """
        if trusted_key(self.keyid) is None:
            option = " --approves" if approves else ""
            hint = f"cloakwork keys trust FILE --name NAME{option}"
            return f"key {self.keyid[:16]} is not trusted here ({hint})"
        if not self._fits():
            return f"the signature of key {self.keyid[:16]} does not fit"
        if approves and not may_approve(self.keyid):
            hint = "cloakwork keys trust FILE --name NAME --approves"
            return f"key {self.keyid[:16]} is not trusted here to approve policies ({hint})"
        return None

    def _fits(self) -> bool:
        """Whether the key signed this statement."""
        public = trusted_key(self.keyid)
        message = _message(self.statement)
        return public is not None and is_signature(self.sig, message, public)

    def body(self) -> dict[str, Any]:
        """As the ledger's journal holds it."""
        return self.model_dump(mode="json", exclude_none=True)


def signed(
    statement: RegistryStatement, key: SigningKey, *, engine: str, text: str | None = None
) -> SignedStatement:
    """The statement with the signature of ``key``."""
    sig = key.sign(_message(statement))
    return SignedStatement(statement=statement, keyid=key.keyid, sig=sig, engine=engine, text=text)


def read_entry(url: str, entry: Entry) -> SignedStatement:
    """The statement of an entry; raises LedgerError where it holds none of its kind."""
    # Others may write to the ledger: an entry can hold anything.
    try:
        found = SignedStatement.model_validate(entry.fields())
    except (ValidationError, ValueError, RecursionError):
        raise LedgerError(url, f"entry {entry.seq} cannot be read") from None
    # What was signed as one act must not be filed as another.
    if KINDS[found.statement.act] != entry.kind:
        raise LedgerError(url, f"entry {entry.seq} says something else than its kind")
    return found


def now() -> datetime:
    """The time in UTC, to the second."""
    return datetime.now(UTC).replace(microsecond=0)


def _message(statement: RegistryStatement) -> bytes:
    # The type is signed with the payload (DSSE): no other document passes as a statement.
    payload = canonical(statement.model_dump(mode="json"))
    return pre_authentication_encoding(payload, PAYLOAD_TYPE)


State = Literal["approved", "not approved", "revoked"]


@frozen
class Signer:
    """Who signed: the name that was typed, and the key; ``known_as``: why its signature counts
    here, or why not, as the end of a sentence.
    """

    person: str
    keyid: str
    known_as: str


@frozen
class Approval:
    """One person's approval of one version.

    ``digest``: of the policy, as the approver computed and signed it. ``recorded_at``: when the
    ledger took it (UTC). ``entry``: digest of the ledger's entry. ``engine``: the version of
    Cloakwork that computed ``digest``. ``faults``: why it does not count here, empty where it does.
    """

    policy: str
    digest: str
    author: Signer
    approver: Signer
    reason: str
    approved_at: datetime
    recorded_at: datetime
    entry: str
    engine: str
    faults: tuple[str, ...] = ()

    @property
    def counts(self) -> bool:
        """Whether it was given by somebody who is trusted here and is not the author."""
        return not self.faults

    def details(self) -> dict[str, Any]:
        """What the entry of a release says of the approval that it rests on."""
        return {
            "policy": self.policy,
            "digest": self.digest,
            "author": self.author.person,
            "author_keyid": self.author.keyid,
            "approver": self.approver.person,
            "approver_keyid": self.approver.keyid,
            "approved_at": self.approved_at.isoformat(),
            "reason": self.reason,
            "entry": self.entry,
        }

    def __str__(self) -> str:
        return (
            f"{self.policy}, approved on {self.approved_at:%Y-%m-%d} by {self.approver.person} "
            f"(key {self.approver.keyid[:16]}, {self.approver.known_as}): {self.reason}"
        )


@frozen
class Revocation:
    """Who ended a version's approval, why, and since when (UTC); it counts whoever signed it."""

    by: Signer
    reason: str
    recorded_at: datetime


@dataclass(frozen=True)
class PolicyVersion:
    """One version: what was added under ``NAME@VERSION``, and what was said of it since."""

    added: SignedStatement
    recorded_at: datetime
    author: Signer
    approvals: tuple[Approval, ...] = ()
    revocation: Revocation | None = None

    @property
    def reference(self) -> str:
        """``NAME@VERSION``."""
        return reference_of(self.added.statement.name, self.added.statement.version)

    @property
    def text(self) -> str:
        """The policy as it was added."""
        return self.added.text or ""

    @cached_property
    def policy(self) -> Policy:
        """The policy; raises PolicyError where this version of Cloakwork does not accept it."""
        return parse_policy(self.text, self.reference)

    @cached_property
    def computed_digest(self) -> str | None:
        """The policy's digest as this version of Cloakwork computes it from the text; None where it
        does not accept the policy.
        """
        try:
            return digest(self.policy)
        except PolicyError:
            return None

    def approval(
        self, at: datetime | None = None, *, of_digest: str | None = None
    ) -> Approval | None:
        """The first approval that counts and stood at that time, by default now; with
        ``of_digest``, of the policy with this digest.
        """
        ended = self.revocation.recorded_at if self.revocation else None
        # Until it was revoked it counted: releases from before keep their approval.
        if ended is not None and (at is None or ended <= at):
            return None
        for approval in self.approvals:
            was_given = at is None or approval.recorded_at <= at
            # As the approver computed the digest or, where that was another version of Cloakwork,
            # as this one does from the same text.
            is_of_other_engine = approval.engine != version_of("cloakwork")
            is_of_policy = of_digest in (None, approval.digest) or (
                is_of_other_engine and self.computed_digest == of_digest
            )
            if approval.counts and was_given and is_of_policy:
                return approval
        return None

    @property
    def state(self) -> State:
        """Where the version stands now."""
        if self.revocation is not None:
            return "revoked"
        return "not approved" if self.approval() is None else "approved"


def reference_of(name: str, version: str) -> str:
    """``NAME@VERSION``."""
    return f"{name}@{version}"


def text_digest(text: str) -> str:
    """SHA-256 of a policy's text in UTF-8, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def same_person(one: str, other: str) -> bool:
    """Whether two names are the same but for their spelling, and for blanks."""
    return folded(one).split() == folded(other).split()


def signer_of(said: SignedStatement) -> Signer:
    """Who made a statement; raises OutputError where a trusted key cannot be read."""
    return Signer(said.statement.person, said.keyid, said.known_as())


def versions_of(url: str, entries: Iterable[Entry]) -> tuple[PolicyVersion, ...]:
    """What the entries, oldest first, say of each version, in the order in which they were added.

    The first entry that adds a version makes it; a later one of the same name and version is none
    of the registry's own, and is passed over. Raises LedgerError for an entry that cannot be read.
    """
    found: dict[str, PolicyVersion] = {}
    for entry in entries:
        said = read_entry(url, entry)
        about = reference_of(said.statement.name, said.statement.version)
        version = found.get(about)
        # Entries come in the order in which the ledger took them.
        if said.statement.act == "add":
            found.setdefault(about, _added(url, entry, said))
        elif version is None:
            raise LedgerError(url, f"entry {entry.seq} is about {about!a}, which was never added")
        elif said.statement.act == "approve":
            approval = _approval(version, said, entry)
            found[about] = replace(version, approvals=(*version.approvals, approval))
        elif version.revocation is None:
            at = _recorded_at(entry)
            ended = Revocation(signer_of(said), said.statement.reason, at)
            found[about] = replace(version, revocation=ended)
    return tuple(found.values())


def _added(url: str, entry: Entry, said: SignedStatement) -> PolicyVersion:
    # The signature covers the text by its digest alone.
    if said.text is None or text_digest(said.text) != said.statement.text_digest:
        raise LedgerError(url, f"entry {entry.seq} holds another policy than was signed")
    return PolicyVersion(said, _recorded_at(entry), signer_of(said))


def _approval(version: PolicyVersion, said: SignedStatement, entry: Entry) -> Approval:
    statement = said.statement
    return Approval(
        policy=version.reference,
        digest=statement.digest,
        author=version.author,
        approver=signer_of(said),
        reason=statement.reason,
        approved_at=statement.said_at,
        recorded_at=_recorded_at(entry),
        entry=entry.digest,
        engine=said.engine,
        faults=tuple(_faults(version, said)),
    )


def _faults(version: PolicyVersion, said: SignedStatement) -> Iterable[str]:
    """Why an approval does not count, here and now."""
    added = version.added.statement
    approval = said.statement
    if said.keyid == version.added.keyid:
        yield "the author's key signed it, and an author cannot approve"
    elif same_person(approval.person, added.person):
        yield f"{approval.person!a} is the author's name, and an author cannot approve"
    if fault := said.fault(approves=True):
        yield f"approver: {fault}"
    # Otherwise whoever approves could have written it under a key made for the purpose.
    if fault := version.added.fault():
        yield f"author: {fault}"
    if approval.text_digest != added.text_digest:
        yield "it was given for another text"


def _recorded_at(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry.at)

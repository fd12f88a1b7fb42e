"""What people say of a policy's version, signed: that they wrote it, approve it or revoke it.

A name that somebody typed proves nothing. What counts is the key: an Ed25519 signature (DSSE v1
encoding, under a payload type of its own) over everything that is said, so that none of it can be
changed or carried over to another version.
"""

import base64
import binascii
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, Field, ValidationError

from cloakwork.base.errors import LedgerError
from cloakwork.base.quantities import Frozen
from cloakwork.ledger.journal import Entry, EventKind
from cloakwork.publishing.dsse import canonical, pre_authentication_encoding
from cloakwork.publishing.keys import SigningKey, may_approve, trusted_key, why_trusted

PAYLOAD_TYPE: Final = "application/vnd.cloakwork.policy-registry+json"

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
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
        from cryptography.exceptions import InvalidSignature

        public = trusted_key(self.keyid)
        if public is None:
            return False
        try:
            public.verify(base64.b64decode(self.sig, validate=True), _message(self.statement))
        except (InvalidSignature, binascii.Error, ValueError):
            return False
        return True

    def body(self) -> dict[str, Any]:
        """As the ledger's journal holds it."""
        return self.model_dump(mode="json", exclude_none=True)


def signed(
    statement: RegistryStatement, key: SigningKey, *, engine: str, text: str | None = None
) -> SignedStatement:
    """The statement with the signature of ``key``."""
    signature = base64.b64encode(key.sign(_message(statement))).decode()
    return SignedStatement(
        statement=statement, keyid=key.keyid, sig=signature, engine=engine, text=text
    )


def read_entry(url: str, entry: Entry) -> SignedStatement:
    """The statement of an entry; raises LedgerError where it holds none of its kind."""
    try:
        found = SignedStatement.model_validate(entry.fields())
    except (ValidationError, ValueError, RecursionError):
        raise LedgerError(url, f"entry {entry.seq} cannot be read") from None
    if KINDS[found.statement.act] != entry.kind:
        raise LedgerError(url, f"entry {entry.seq} says something else than its kind")
    return found


def now() -> datetime:
    """The time in UTC, to the second."""
    return datetime.now(UTC).replace(microsecond=0)


def _message(statement: RegistryStatement) -> bytes:
    payload = canonical(statement.model_dump(mode="json"))
    return pre_authentication_encoding(payload, PAYLOAD_TYPE)

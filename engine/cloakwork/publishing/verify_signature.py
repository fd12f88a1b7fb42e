"""Is a release authentic? Its signature, and the digests of the files that the statement signs."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from cloakwork.base.errors import VerificationFailed
from cloakwork.publishing.dsse import Envelope, is_signed_by, read_json
from cloakwork.publishing.folder import (
    PLAN_FILE,
    STATEMENT_FILE,
    Check,
    check_file,
    digest_check,
    read_document,
)
from cloakwork.publishing.keys import keyid_of, public_key, trusted_key
from cloakwork.publishing.log_files import LogFiles, log_files, names_of_log
from cloakwork.publishing.statement import (
    PREDICATE_TYPE,
    PrivacyStatement,
    Statement,
    canonical_bytes,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def read_statement(envelope: Envelope) -> Statement:
    """The in-toto statement inside an envelope; raises VerificationFailed when it is malformed or
    not canonical.
    """
    content = envelope.content()
    try:
        value = read_json(content)
        statement = Statement.model_validate(value)
        is_canonical = canonical_bytes(statement) == content
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(key) for key in first["loc"])
        fault = f"is not a {PREDICATE_TYPE} as this version knows it: {field}: {first['msg']}"
        raise VerificationFailed([f"{STATEMENT_FILE}: {fault}"]) from error
    except ValueError as error:
        raise VerificationFailed([f"{STATEMENT_FILE}: its payload is not JSON"]) from error
    if not is_canonical:
        raise VerificationFailed([f"{STATEMENT_FILE}: its payload is not in canonical form"])
    if len(statement.digests()) != len(statement.subject):
        raise VerificationFailed([f"{STATEMENT_FILE}: it signs a file twice"])
    return statement


def find_public_key(envelope: Envelope, named: Path | None) -> "Ed25519PublicKey | None":
    """The key to check the signature with: the one in the file ``named``, else the first trusted
    one that the envelope names.
    """
    if named is not None:
        return public_key(named)
    for signature in envelope.signatures:
        key = trusted_key(signature.keyid)
        if key is not None:
            return key
    return None


def check_signature(envelope: Envelope, key: "Ed25519PublicKey | None") -> Check:
    """Whether the envelope was signed with ``key``; it was not where no key is known."""
    keyids = [signature.keyid for signature in envelope.signatures]
    named = ", ".join(keyids)
    if key is None:
        return Check(
            False,
            f"signature: made by key {named}, which is not trusted here; get the signer's public "
            "key by a way you trust and name it with --public-key FILE",
        )
    keyid = keyid_of(key)
    if keyid not in keyids:
        return Check(False, f"signature: made by key {named}, not by the given key {keyid}")
    if not is_signed_by(envelope, key, keyid):
        return Check(False, f"signature: does not fit the statement (key {keyid})")
    return Check(True, f"signature: made over this statement by key {keyid}")


def check_signed_files(folder: Path, statement: Statement) -> tuple[bytes, list[Check]]:
    """The plan's bytes, and checks of the files that the statement signs: one log, whole or in
    parts, and one plan, each file with the signed digest.
    """
    digests = statement.digests()
    log_names = names_of_log(digests) or ()
    if not log_names or set(digests) != {PLAN_FILE, *log_names}:
        fault = f"must sign one log and {PLAN_FILE}; parts of a log are numbered from 1"
        return b"", [Check(False, f"{STATEMENT_FILE}: {fault}")]
    content, plan_check = _read_plan_file(folder / PLAN_FILE, digests[PLAN_FILE])
    of_log = [check_file(folder, name, digests[name]) for name in log_names]
    return content, [*_together(log_names, of_log), plan_check]


def _together(names: tuple[str, ...], checks: list[Check]) -> list[Check]:
    """One line for many parts that are all as they were signed."""
    if len(names) == 1 or not all(check.holds for check in checks):
        return [check for check in checks if len(names) == 1 or not check.holds]
    log = names[0].partition("/")[0]
    return [Check(True, f"{log}: its {len(names)} parts are the files that were signed")]


def _read_plan_file(path: Path, digest: str) -> tuple[bytes, Check]:
    """Read once, so that what is examined is what was signed."""
    try:
        content = read_document(path)
    except VerificationFailed as error:
        return b"", Check(False, error.mismatches[0])
    is_same = hashlib.sha256(content).hexdigest() == digest
    return content, digest_check(path.name, is_same)


def signed_log(folder: Path, statement: Statement) -> LogFiles:
    """The log that the statement signs."""
    return log_files(folder, [name for name in statement.digests() if name != PLAN_FILE])


def check_private(predicate: PrivacyStatement) -> Check:
    """Whether the noise was secret and its cost charged to a ledger, as the statement says."""
    if predicate.mark is not None:
        return Check(False, f"the release is marked '{predicate.mark}': it protects nobody")
    if predicate.ledger_entry is None:
        return Check(
            False,
            "the statement names no entry of a ledger: no budget was charged for this release",
        )
    return Check(True, "randomness: stated to be secret, and the cost charged to a ledger")

"""A signed checkpoint of a ledger, as a file to keep where whoever writes to the ledger cannot."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from cloakwork.base.errors import LedgerError, OutputError, VerificationFailed
from cloakwork.base.files import new_file
from cloakwork.ledger.checkpoint import Checkpoint, keep, lost_past
from cloakwork.ledger.journal import Break, first_break
from cloakwork.ledger.ledger import Ledger
from cloakwork.publishing.dsse import canonical, is_signed_by, read_envelope, seal
from cloakwork.publishing.keys import SigningKey, trusted_key, why_trusted

PAYLOAD_TYPE: Final = "application/vnd.cloakwork.ledger-checkpoint+json"

_LARGEST: Final = 64 * 2**20
"""Bytes that the file of a checkpoint may have."""


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A checkpoint in the file ``path``, by whose key it is signed, and why that key counts."""

    path: Path
    checkpoint: Checkpoint
    keyid: str
    trusted: str


def make_checkpoint(ledger: Ledger, out: Path, key: SigningKey) -> SignedCheckpoint:
    """Sign the head of the ledger into the new file ``out``, and keep it here.

    Raises VerificationFailed where the ledger was altered or no longer leads to a checkpoint that
    is kept here, LedgerError where it holds nothing, OutputError where a file cannot be written.
    """
    entries = ledger.journal.read()
    if found := first_break(entries) or lost_past(ledger.journal, entries):
        raise VerificationFailed([f"ledger {ledger.url}: {found}"])
    if not entries:
        raise LedgerError(ledger.url, "holds no entry yet: there is nothing to sign")
    made = Checkpoint.of(entries)
    with new_file(out) as draft:
        draft.write_bytes(seal(canonical(made.model_dump(mode="json")), key, PAYLOAD_TYPE))
    keep(ledger.journal, entries, made)
    return SignedCheckpoint(out, made, key.keyid, why_trusted(key.keyid))


def read_checkpoint(path: Path) -> SignedCheckpoint:
    """A checkpoint that a key signed which is trusted here; raises VerificationFailed where it is
    none, OutputError where the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST)
    except OSError as error:
        raise OutputError(f"{path}: cannot be read ({error.strerror})") from error
    envelope = read_envelope(content, PAYLOAD_TYPE, str(path))
    for signature in envelope.signatures:
        public = trusted_key(signature.keyid)
        if public is not None and is_signed_by(envelope, public, signature.keyid):
            keyid = signature.keyid
            break
    else:
        named = ", ".join(signature.keyid for signature in envelope.signatures)
        raise VerificationFailed([f"{path}: no key that is trusted here signed it, but {named}"])
    try:
        checkpoint = Checkpoint.model_validate_json(envelope.content())
    except ValidationError as error:
        raise VerificationFailed([f"{path}: is no checkpoint as this version knows it"]) from error
    return SignedCheckpoint(path, checkpoint, keyid, why_trusted(keyid))


def compare(ledger: Ledger, signed: Sequence[SignedCheckpoint]) -> list[tuple[Path, Break]]:
    """How the ledger no longer leads to checkpoints, each finding with the file. Where it leads to
    all, and to what is kept here, they are kept.
    """
    entries = ledger.journal.read()
    found = [(each.path, broken) for each in signed for broken in each.checkpoint.breaks(entries)]
    if not found and lost_past(ledger.journal, entries) is None:
        for each in signed:
            keep(ledger.journal, entries, each.checkpoint)
    return found

"""Verifying a release: its files are opened, one after another, as far as the rules in ``verify``
let it.
"""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cloakwork.base.errors import VerificationFailed
from cloakwork.base.frozen import frozen
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import with_own_sentences
from cloakwork.publishing.folder import (
    MEASUREMENTS_FILE,
    PLAN_FILE,
    STATEMENT_FILE,
    Check,
    check_entries,
    check_file,
    holds_internal,
    read_document,
    read_files,
    read_measurements,
    unpacked,
)
from cloakwork.publishing.from_plan import reworded_statement
from cloakwork.publishing.keys import (
    Envelope,
    SigningKey,
    keyid_of,
    read_envelope,
    trusted_key,
    why_trusted,
)
from cloakwork.publishing.keys import public_key as public_key_in
from cloakwork.publishing.stamp import read_stamp
from cloakwork.publishing.statement import (
    PLAN_SCHEMA,
    STATEMENT_SCHEMA,
    Statement,
    published_schema,
)
from cloakwork.publishing.verify import (
    NO_DEMANDS,
    Demands,
    Verification,
    advisories_of_plan,
    check_contents,
    check_format,
    check_measurements,
    check_private,
    check_proof,
    check_recorded,
    check_signature,
    check_signed_files,
    check_stamp,
    check_statement,
    read_plan,
    read_statement,
    signed_log,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def verify(
    path: Path, *, public_key: Path | None = None, demands: Demands = NO_DEMANDS
) -> Verification:
    """Check a published release, a folder or the file that ``pack`` made, and measure again what
    can be measured.

    The signature is checked with the key in the file ``public_key``, else with one that is trusted
    here.

    Raises VerificationFailed with every mismatch found; also where an advisory voids a guarantee,
    and where the release is not the one demanded (``found`` then holds what was verified).
    OutputError when ``public_key``, or a key kept here, cannot be relied on: that says nothing of
    the release.
    """

    with unpacked(path) if path.is_file() else nullcontext(path) as folder:
        seen = _examine(folder, partial(known_key, public_key))
        internal = holds_internal(folder)
    authentic = (*seen.authentic, check_private(seen.statement.predicate))
    if failed := _failed((*authentic, *seen.derived, *seen.measured)):
        raise VerificationFailed(failed)
    # Sentences are made here from the statement's records, and never taken from its signer.
    statement = seen.statement.predicate
    statement = reworded_statement(statement, with_own_sentences(seen.plan))
    named = f"given by --public-key {public_key.name}" if public_key else None
    found = Verification(
        path=path,
        keyid=seen.keyid,
        trusted=named or why_trusted(seen.keyid),
        statement=statement,
        authentic=authentic,
        derived=seen.derived,
        measured=seen.measured,
        internal=internal,
        advisories=advisories_of_plan(seen.plan),
    )
    void = [f"void: {match}" for match in found.void]
    if unmet := [*demands.unmet_by(statement), *void]:
        raise VerificationFailed(unmet, found=found)
    return found


def verify_written(folder: Path, key: SigningKey) -> None:
    """Check a release that was just written by ``key`` and not published yet, by the rules of
    ``verify``.

    Raises VerificationFailed, in one line, unless the files are what the statement signs and the
    claims hold on them.
    """
    seen = _examine(folder, lambda _: key.private.public_key())
    if failed := _failed((*seen.authentic, *seen.derived, *seen.measured)):
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise VerificationFailed(
            [f"no release, since what was written is not what it states: {failed[0]}{more}"]
        )


def known_key(given: Path | None, envelope: Envelope) -> "Ed25519PublicKey | None":
    """The key in the file ``given``, else the first of the signers' keys that is trusted here."""
    if given is not None:
        return public_key_in(given)
    # Ids in the envelope only say which of the trusted keys to try.
    known = (trusted_key(signature.keyid) for signature in envelope.signatures)
    return next((key for key in known if key is not None), None)


@frozen
class _Examined:
    """What was read of an authentic release, and what was checked."""

    statement: Statement
    plan: Plan
    keyid: str
    authentic: tuple[Check, ...]
    derived: tuple[Check, ...]
    measured: tuple[Check, ...]


def _examine(folder: Path, key_of: "Callable[[Envelope], Ed25519PublicKey | None]") -> _Examined:
    """Apply the rules, one after another; raises VerificationFailed where it is not authentic."""
    envelope = read_envelope(read_document(folder / STATEMENT_FILE))
    key = key_of(envelope)
    signature = check_signature(envelope, key)
    # Nothing is parsed that nobody vouches for, nor of files that are not authentic.
    if key is None or not signature.holds:
        raise VerificationFailed([signature.says])
    statement = read_statement(envelope, published_schema(STATEMENT_SCHEMA))
    digests = statement.digests()
    found = {name: check_file(folder, name, digest) for name, digest in digests.items()}
    files = check_signed_files(statement, found)
    authentic = (signature, *files, *check_entries(folder, digests))
    if failed := _failed(authentic):
        raise VerificationFailed(failed)
    content = read_document(folder / PLAN_FILE)
    plan = read_plan(content, digests[PLAN_FILE], published_schema(PLAN_SCHEMA))
    log = signed_log(folder, statement)
    predicate = statement.predicate
    return _Examined(
        statement=statement,
        plan=plan,
        keyid=keyid_of(key),
        authentic=authentic,
        derived=(
            check_format(log, plan),
            *check_statement(plan, predicate),
            *check_recorded(plan, predicate),
            *check_measurements(
                statement, plan, partial(read_measurements, folder / MEASUREMENTS_FILE)
            ),
            check_proof(plan),
        ),
        measured=(
            *check_stamp(log, plan, predicate, read_stamp),
            *check_contents(log, plan, predicate, read_files),
        ),
    )


def _failed(checks: Iterable[Check]) -> list[str]:
    return [check.says for check in checks if not check.holds]

"""Verification: is a release what its signed statement says, and does it still hold what can be
measured?

Nothing is trusted before it is authentic. First the envelope's signature is checked, then the
digests of the files (``verify_signature``). Only a plan and a log that the statement signs are
parsed and examined further. The internal folder is never examined: a release is passed on without
it.

What is found stands in three groups (``privacy.md`` 10): what was *measured* on the file
(``verify_measured``), what was *derived again* from the plan (``verify_derived``), and what remains
the *signer's word*. Advisories then say which claims of the version that made the release were
found false since.
"""

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from cloakwork.base.errors import VerificationFailed
from cloakwork.plan.model import Plan
from cloakwork.plan.prove import with_own_sentences as reworded_plan
from cloakwork.publishing.archive import unpacked
from cloakwork.publishing.dsse import read_envelope
from cloakwork.publishing.folder import (
    PLAN_FILE,
    STATEMENT_FILE,
    Check,
    check_entries,
    holds_internal,
    read_document,
)
from cloakwork.publishing.from_plan import reworded_statement
from cloakwork.publishing.keys import SigningKey, keyid_of, why_trusted
from cloakwork.publishing.statement import Statement
from cloakwork.publishing.verification import (
    EXPECTABLE,
    ContentChecks,
    Verification,
    advisories_of_plan,
    unmet_expectations,
)
from cloakwork.publishing.verify_derived import derive_again
from cloakwork.publishing.verify_measured import measure_again
from cloakwork.publishing.verify_signature import (
    check_private,
    check_signature,
    check_signed_files,
    find_public_key,
    read_statement,
    signed_log,
)

__all__ = ["EXPECTABLE", "Verification", "read_statement", "verify", "verify_written"]


def verify(
    path: Path, *, public_key: Path | None = None, expect: Sequence[tuple[str, str]] = ()
) -> Verification:
    """Check a published release, a folder or the file that ``pack`` made, and measure again what
    can be measured.

    The signature is checked with the key in the file ``public_key``, else with one that is trusted
    here; a key that travels with the release would prove nothing. ``expect``: pairs of ``policy``
    (NAME@VERSION), ``dataset`` or ``release`` and the value that the statement must have.

    Raises VerificationFailed with every mismatch found; also where an advisory voids a guarantee,
    and where the release is not the one expected (``found`` then holds what was verified).
    OutputError when ``public_key``, or a key kept here, cannot be relied on: that says nothing of
    the release.
    """
    if path.is_file():
        with unpacked(path) as folder:
            found = _verify_folder(path, folder, public_key)
    else:
        found = _verify_folder(path, path, public_key)
    void = [f"void: {match}" for match in found.void]
    failed = [*unmet_expectations(found.statement, expect), *void]
    if failed:
        raise VerificationFailed(failed, found=found)
    return found


def verify_written(folder: Path, key: SigningKey) -> None:
    """Check a release that was just written by ``key`` and not published yet, by the code of
    ``verify``.

    Raises VerificationFailed, in one line, unless the files are what the statement signs and the
    claims hold on them.
    """
    envelope = read_envelope(read_document(folder / STATEMENT_FILE))
    signature = check_signature(envelope, key.private.public_key())
    statement = read_statement(envelope)
    plan_content, files = check_signed_files(folder, statement)
    checks = [signature, *files, *check_entries(folder, statement.digests())]
    if all(check.holds for check in checks):
        contents = _check_contents(folder, plan_content, statement)
        checks += [*contents.derived, *contents.measured]
    failed = [check.says for check in checks if not check.holds]
    if failed:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise VerificationFailed(
            [f"no release, since what was written is not what it states: {failed[0]}{more}"]
        )


def _verify_folder(path: Path, folder: Path, named_key: Path | None) -> Verification:
    """Verify the folder; raises VerificationFailed with every mismatch. Advisories and expectations
    are left to the caller.
    """
    envelope = read_envelope(read_document(folder / STATEMENT_FILE))
    key = find_public_key(envelope, named_key)
    signature = check_signature(envelope, key)
    statement = read_statement(envelope)
    plan_content, files = check_signed_files(folder, statement)
    files += check_entries(folder, statement.digests())
    authentic = (signature, *files, check_private(statement.predicate))
    contents = ContentChecks()
    if signature.holds and all(check.holds for check in files):
        contents = _check_contents(folder, plan_content, statement)
    checks = (*authentic, *contents.derived, *contents.measured)
    failed = [check.says for check in checks if not check.holds]
    if failed:
        raise VerificationFailed(failed)
    assert key is not None  # noqa: S101 - without a key the signature check has failed
    keyid = keyid_of(key)
    trusted = f"given by --public-key {named_key.name}" if named_key else why_trusted(keyid)
    # Sentences are made here from the statement's records, and never taken from its signer.
    stated = statement.predicate
    if contents.plan is not None:
        stated = reworded_statement(stated, reworded_plan(contents.plan))
    return Verification(
        path=path,
        keyid=keyid,
        trusted=trusted,
        statement=stated,
        authentic=authentic,
        derived=contents.derived,
        measured=contents.measured,
        internal=holds_internal(folder),
        advisories=contents.advisories,
    )


def _check_contents(folder: Path, plan_content: bytes, signed: Statement) -> ContentChecks:
    """What plan and log show, both being authentic."""
    try:
        plan = Plan.model_validate_json(plan_content)
    except ValidationError as error:
        count = error.error_count()
        fault = f"{PLAN_FILE}: is not a plan as this version knows it ({count} faults)"
        return ContentChecks(derived=(Check(False, fault),))
    log = signed_log(folder, signed)
    return ContentChecks(
        derived=tuple(derive_again(log, plan, signed.predicate)),
        measured=tuple(measure_again(log, plan, signed.predicate)),
        advisories=advisories_of_plan(plan),
        plan=plan,
    )

"""A ledger compared with what lies outside of it: release folders, brought to agreement after
crashes; and signed checkpoints of its past, to keep where whoever writes to it cannot.

A folder whose statement the ledger recorded as an intent completes its entry, and the files that it
signs are compared with it. An entry that was to be written below the given folders and has neither
a folder nor a living process is closed, as spent. Drafts of dead processes are removed. A release
that stands there and that the ledger does not know is named.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ValidationError

from cloakwork.base.errors import LedgerError, OutputError, VerificationFailed
from cloakwork.base.files import new_file, output_fault, remove_abandoned
from cloakwork.base.frozen import frozen
from cloakwork.ledger.journal import Break, Checkpoint, first_break, keep, lost_past
from cloakwork.ledger.ledger import Ledger
from cloakwork.ledger.records import FolderLocation, Record
from cloakwork.publishing.folder import (
    OPTIONAL_FILES,
    PLAN_FILE,
    STATEMENT_FILE,
    check_file,
    names_of_log,
    read_document,
)
from cloakwork.publishing.keys import (
    SigningKey,
    canonical,
    is_signed_by,
    read_envelope,
    read_json,
    seal,
    trusted_key,
    why_trusted,
)
from cloakwork.publishing.publish import DRAFT

Outcome = Literal["agrees", "completed", "closed", "unknown", "differs", "in progress", "elsewhere"]

DISAGREE: Final[frozenset[Outcome]] = frozenset({"unknown", "differs"})
"""Outcomes after which ledger and folders still do not agree."""


@frozen
class ReconciledRelease:
    """One release folder, or one entry without a folder: what was found, and what was done."""

    outcome: Outcome
    release: str
    folder: str
    says: str


@frozen
class Reconciliation:
    """All findings, in order of folders and entries, and how many drafts of dead processes were
    removed.
    """

    findings: tuple[ReconciledRelease, ...]
    drafts_removed: int

    @property
    def agrees(self) -> bool:
        """Whether every release that was found is one that the ledger knows."""
        return not any(finding.outcome in DISAGREE for finding in self.findings)


@frozen
class _StatedRelease:
    """What a statement says about its release: nothing of it is trusted beyond what the ledger
    recorded itself.
    """

    release: str
    digest: str
    files: dict[str, str]

    def differences(self, folder: Path) -> tuple[str, ...]:
        """Which of the files that it signs are not in ``folder`` as they were signed, one line
        each.
        """
        checks = [check_file(folder, name, digest) for name, digest in sorted(self.files.items())]
        return tuple(check.says for check in checks if not check.holds)


def reconcile(ledger: Ledger, folders: Sequence[Path]) -> Reconciliation:
    """Bring ``ledger`` and the releases below ``folders`` to agreement. Nothing spent is handed
    back.

    Raises LedgerError where the ledger cannot be used, OutputError where a folder cannot be looked
    into.
    """
    roots = [Path(os.path.realpath(folder)) for folder in folders]
    # Folders first: whatever stands was recorded before it stood, so that the entries, read later,
    # know it.
    found_below = (folder for root in roots for folder in _release_folders(root))
    standing = list(dict.fromkeys(found_below))
    records = {record.id: record for record in ledger.history()}
    found = [_reconcile_folder(ledger, records, folder) for folder in standing]
    # Then the entries that were to stand below these folders, and do not.
    releases = {finding.release for finding in found}
    for record in records.values():
        if record.id in releases or record.place is None:
            continue
        place = Path(os.path.realpath(record.place.folder))
        if any(root in (place, *place.parents) for root in roots):
            found += _reconcile_entry(ledger, record, record.place)
    removed = sum(_remove_drafts(root) for root in roots)
    ledger.journal.remove_stale_locks()
    return Reconciliation(tuple(found), removed)


def _release_folders(root: Path) -> Iterator[Path]:
    """Every folder from ``root`` down that holds a statement; no drafts, no links followed."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise OutputError(
                f"{error.filename}: cannot be looked into ({error.strerror})"
            ) from error

    for folder, names, files in os.walk(root, onerror=refuse):
        names[:] = sorted(name for name in names if not name.startswith(DRAFT))
        if STATEMENT_FILE in files:
            names.clear()
            yield Path(folder)


def _reconcile_folder(
    ledger: Ledger, records: Mapping[str, Record], folder: Path
) -> ReconciledRelease:
    stated = _read_statement(folder)
    if isinstance(stated, str):
        return ReconciledRelease("unknown", "", str(folder), stated)
    # What the ledger recorded decides; the folder only says of which release it is.
    record = records.get(stated.release)
    if record is None:
        return ReconciledRelease(
            "unknown", stated.release, str(folder), "the ledger knows no such release"
        )
    if record.statement_digest is None:
        says = "the ledger recorded no statement for this release"
        return ReconciledRelease("differs", record.id, str(folder), says)
    if record.statement_digest != stated.digest:
        return ReconciledRelease(
            "differs",
            record.id,
            str(folder),
            "its statement is not the one that the ledger recorded",
        )
    # What stood was released, whatever became of its files since.
    if record.state != "committed":
        ledger.complete(record.id, stated.digest)
    if wrong := stated.differences(folder):
        says = (
            f"its statement stands, its files do not: {'; '.join(wrong)}; committed, and its cost "
            "stays spent: restore the files from a copy, or withdraw the release"
        )
        return ReconciledRelease("differs", record.id, str(folder), says)
    if record.state == "committed":
        return ReconciledRelease("agrees", record.id, str(folder), "")
    says = f"was {record.state}, and is complete: committed"
    return ReconciledRelease("completed", record.id, str(folder), says)


def _reconcile_entry(
    ledger: Ledger, record: Record, place: FolderLocation
) -> Iterator[ReconciledRelease]:
    """An entry that was to be written to one of the folders, whose release was not found."""
    if record.state == "failed":
        return
    if record.state == "committed":
        if not Path(place.folder, STATEMENT_FILE).exists():
            says = "committed; its folder was moved or removed since"
            yield ReconciledRelease("elsewhere", record.id, place.folder, says)
        return
    here = FolderLocation.here(place.folder)
    if here.host != place.host:
        says = f"was to be written to this folder on host '{place.host}': reconcile there"
        yield ReconciledRelease("elsewhere", record.id, place.folder, says)
    elif ledger.close(record.id):  # no live process holds it
        yield ReconciledRelease(
            "closed", record.id, place.folder, "ended before its folder stood; its cost stays spent"
        )
    else:
        # It may have ended while this was looked at.
        now = next(each for each in ledger.history() if each.id == record.id)
        if now.state in ("reserved", "publishing"):
            says = "a running process works on it"
            yield ReconciledRelease("in progress", record.id, place.folder, says)


def _read_statement(folder: Path) -> _StatedRelease | str:
    """What the statement in ``folder`` says, or why nothing can be made of it."""
    file = folder / STATEMENT_FILE
    try:
        content = read_document(file)
        document: Any = read_json(read_envelope(content).content())
        files = {subject["name"]: subject["digest"]["sha256"] for subject in document["subject"]}
        of_log = names_of_log(files) or ()
        are_ours = set(files) - OPTIONAL_FILES == {PLAN_FILE, *of_log}
        has_plan_and_log = PLAN_FILE in files and len(of_log) > 0
        release = document["predicate"]["release"]
        if isinstance(release, str) and are_ours and has_plan_and_log:
            return _StatedRelease(release, hashlib.sha256(content).hexdigest(), files)
    except (VerificationFailed, ValueError, KeyError, TypeError, AttributeError):
        pass
    return "its statement cannot be read as one of Cloakwork"


def _remove_drafts(root: Path) -> int:
    """Remove the drafts of dead processes below ``root``, and beside it: a draft lies beside its
    target.
    """
    try:
        beside = remove_abandoned(root.parent, DRAFT) if root.parent.is_dir() else 0
        folders = [
            Path(folder) for folder, names, files in os.walk(root) if STATEMENT_FILE not in files
        ]
        return beside + sum(
            remove_abandoned(folder, DRAFT) for folder in folders if folder.is_dir()
        )
    except OSError as error:
        raise OutputError(
            f"{error.filename}: a draft cannot be removed ({error.strerror})"
        ) from error


# --- checkpoints

CHECKPOINT_TYPE: Final = "application/vnd.cloakwork.ledger-checkpoint+json"

_LARGEST: Final = 64 * 2**20
"""Bytes that the file of a checkpoint may have."""


@frozen
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
        draft.write_bytes(seal(canonical(made.model_dump(mode="json")), key, CHECKPOINT_TYPE))
    keep(ledger.journal, entries, made)
    return SignedCheckpoint(out, made, key.keyid, why_trusted(key.keyid))


def read_checkpoint(path: Path) -> SignedCheckpoint:
    """A checkpoint that a key signed which is trusted here; raises VerificationFailed where it is
    none, OutputError where the file cannot be read.
    """
    with output_fault(f"{path}: cannot be read"), path.open("rb") as file:
        content = file.read(_LARGEST)
    envelope = read_envelope(content, CHECKPOINT_TYPE, str(path))
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

"""Checkpoints: the head of a journal, to be kept where whoever writes to the ledger cannot.

Each entry names the digest of the one before, so the last digest fixes all entries up to it. A
journal that lacks one of them, or has another in its place, has another digest there or none.

The newest checkpoint of each ledger that was made or verified lies in the user's data folder, found
by the ledger's address (another ledger may stand there now) and by its first entry (it may have
been moved). What was written since, and what somebody without a checkpoint is shown, it cannot
tell.
"""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, Field, ValidationError

from cloakwork.base.errors import LedgerError, OutputError
from cloakwork.base.files import data_home, replace_file
from cloakwork.base.quantities import Frozen
from cloakwork.ledger.journal import Break, Entry, Journal, first_break

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

NotedKind = Literal["dataset-declared", "policy-approved", "policy-revoked"]
"""What decides beside releases: a checkpoint notes it, so that what is missing has a name."""

_CALLED: Final[dict[NotedKind, str]] = {
    "dataset-declared": "declaration",
    "policy-approved": "approval",
    "policy-revoked": "revocation",
}


class NotedEntry(Frozen):
    """An approval, a revocation or a declaration that the journal held."""

    seq: int
    kind: NotedKind
    dataset: str
    digest: Digest


class Checkpoint(Frozen):
    """The head of a journal at a moment (UTC). ``ledger``: the digest of its first entry, by which
    it is known; ``entries``: how many there were; ``head``: the digest of the last.
    """

    ledger: Digest
    entries: Annotated[int, Field(ge=1)]
    head: Digest
    noted: tuple[NotedEntry, ...]
    made_at: AwareDatetime

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> "Checkpoint":
        """The head of ``entries``, which are not none."""
        return cls(
            ledger=entries[0].digest,
            entries=len(entries),
            head=entries[-1].digest,
            noted=tuple(
                NotedEntry(
                    seq=entry.seq,
                    kind=entry.kind,
                    dataset=entry.dataset,
                    digest=entry.digest,
                )
                for entry in entries
                if entry.kind in _CALLED
            ),
            made_at=datetime.now(UTC).replace(microsecond=0),
        )

    def breaks(self, entries: tuple[Entry, ...]) -> Iterator[Break]:
        """How the journal no longer leads to this checkpoint; nothing where it does."""
        if altered := first_break(entries):
            yield altered
            return
        signed = f"when the checkpoint of {self.made_at:%Y-%m-%d %H:%M} UTC was made"
        if entries and entries[0].digest != self.ledger:
            yield Break(1, f"is another one than {signed}: this is another ledger")
            return
        # The digest covers all that came before it.
        if len(entries) < self.entries:
            yield Break(len(entries) + 1, f"is missing: there were {self.entries} {signed}")
        elif entries[self.entries - 1].digest == self.head:
            return
        else:
            yield Break(self.entries, f"is another one than {signed}")
        held = {entry.digest for entry in entries}
        for noted in self.noted:
            if noted.digest not in held:
                what = f"{_CALLED[noted.kind]} for dataset {noted.dataset!a}"
                yield Break(noted.seq, f"a {what} is missing that was there {signed}")


def require_past(journal: Journal, entries: tuple[Entry, ...]) -> None:
    """Raise LedgerError where the entries of ``journal`` no longer lead to a checkpoint that is
    kept here, OutputError where one that is kept cannot be read.
    """
    if found := lost_past(journal, entries):
        advice = "neither its budgets nor its approvals count; restore it from a copy"
        raise LedgerError(journal.name, f"{found}; {advice}")


def lost_past(journal: Journal, entries: tuple[Entry, ...]) -> Break | None:
    """The first entry that is not what a checkpoint says that is kept here; None where all are."""
    for path in _places(journal, entries):
        kept = _kept(path)
        for found in () if kept is None else kept.breaks(entries):
            return Break(found.seq, f"{found.reason} (where that is meant, remove {path})")
    return None


def keep(journal: Journal, entries: tuple[Entry, ...], checkpoint: Checkpoint) -> None:
    """Keep a checkpoint to which the ``entries`` of the journal lead, unless a newer one is kept.
    Raises OutputError where it cannot be.
    """
    for path in _places(journal, entries):
        kept = _kept(path)
        if kept is not None and kept.entries >= checkpoint.entries:
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(path, checkpoint.model_dump_json(indent=2).encode() + b"\n")
        except OSError as error:
            raise OutputError(
                f"{path}: the checkpoint cannot be kept there ({error.strerror}); "
                "set CLOAKWORK_HOME"
            ) from error


def _places(journal: Journal, entries: tuple[Entry, ...]) -> list[Path]:
    """Where the checkpoints of this ledger are kept: by its address, and by its first entry."""
    address = journal.name if journal.file is None else str(journal.file.resolve())
    names = [hashlib.sha256(address.encode()).hexdigest(), *(entry.digest for entry in entries[:1])]
    return [data_home() / "checkpoints" / f"{name}.json" for name in names]


def _kept(path: Path) -> Checkpoint | None:
    try:
        return Checkpoint.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OutputError(f"{path}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        raise OutputError(f"{path}: is no checkpoint that was kept here; remove it") from error

"""Backups of a ledger: an SQLite file that is a ledger itself, and the way back.

A backup holds every entry, fingerprint and window record of one moment, whoever writes meanwhile.
It does not hold the key of the case ids: whoever has both can test a guessed id, so the two are
kept apart. Restoring adds what the ledger lacks, and never takes an entry away: each is budget that
was spent.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloakwork.base.errors import LedgerError
from cloakwork.base.files import new_file, require_new
from cloakwork.base.frozen import frozen
from cloakwork.ledger.journal import (
    Entry,
    Journal,
    first_break,
    make_sqlite_file,
    read_entries,
    tables,
)
from cloakwork.ledger.ledger import Ledger

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table


@frozen
class LedgerCopy:
    """What a backup holds, or a restore brought: ``entries`` there are now, ``added`` of them by
    this; ``latest``: when the last one was made, in ISO 8601; ``key_file``: where the key lies,
    or belongs, that is not in a backup.
    """

    entries: int
    added: int
    latest: str | None
    key_file: Path


def back_up(ledger: Ledger | str | Path | None, out: Path) -> LedgerCopy:
    """Write the ledger as of this moment to the new file ``out``, readable by its owner only.

    Raises OutputError where the file cannot be written or stands already, LedgerError where the
    ledger cannot be read, is none, or was altered.
    """
    book = Ledger.of(ledger)
    require_new(out)
    held = _read_whole(book.journal)
    if held is None:
        raise LedgerError(book.url, "does not exist yet: there is nothing to back up")
    with (
        new_file(out) as draft,
        make_sqlite_file(draft).connect() as connection,
        connection.begin(),
    ):
        connection.exec_driver_sql("BEGIN")
        _insert(connection, tables().entries, [asdict(entry) for entry in held.entries])
        for table, rows in held.others.items():
            _insert(connection, table, rows)
    count = len(held.entries)
    return LedgerCopy(count, count, held.latest, book.key_file)


def restore(backup: Path, ledger: Ledger | str | Path | None) -> LedgerCopy:
    """Bring the ledger to what ``backup`` holds, in one transaction: begin it, or add what it
    lacks.

    Raises LedgerError, and writes nothing, where ``backup`` is no sound ledger, or where the ledger
    has an entry that the backup lacks: its budget would be handed back.
    """
    book = Ledger.of(ledger)
    if not backup.is_file():
        raise LedgerError(str(backup), "there is no such file")
    source = Journal(str(backup))
    held = _read_whole(source)
    if held is None:
        raise LedgerError(source.name, "is no ledger")
    with book.journal.transaction() as connection:
        known = read_entries(connection)
        # The backup must begin with all entries that the ledger has.
        common = 0
        for own, other in zip(known, held.entries, strict=False):
            if own != other:
                break
            common += 1
        if common < len(known):
            raise LedgerError(
                book.url,
                f"has entries that the backup lacks, from entry {common + 1} of {len(known)} on: "
                "restoring it would hand back what was spent; nothing was changed",
            )
        new = held.entries[len(known) :]
        _insert(connection, tables().entries, [asdict(entry) for entry in new])
        for table, rows in held.others.items():
            # Rows of releases that are known already stay as they are.
            there = {row["release"] for row in _rows_of(connection, table)}
            _insert(connection, table, [row for row in rows if row["release"] not in there])
    return LedgerCopy(len(held.entries), len(new), held.latest, book.key_file)


@frozen
class _Held:
    """All that a ledger holds at one moment; ``others``: rows of the tables beside the chain."""

    entries: tuple[Entry, ...]
    others: "dict[Table, list[dict[str, Any]]]"

    @property
    def latest(self) -> str | None:
        return self.entries[-1].at if self.entries else None


def _read_whole(journal: Journal) -> _Held | None:
    """What the journal holds; None without a ledger. LedgerError for one that was altered."""
    with journal.reading(snapshot=True) as connection:
        if connection is None:
            return None
        entries = read_entries(connection)
        if found := first_break(entries):
            reason = f"{found}; a backup of it, or from it, cannot be trusted"
            raise LedgerError(journal.name, reason)
        beside = (tables().fingerprints, tables().windows)
        return _Held(entries, {table: _rows_of(connection, table) for table in beside})


def _rows_of(connection: "Connection", table: "Table") -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(table.select()).mappings()]


def _insert(connection: "Connection", table: "Table", rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(table.insert(), rows)

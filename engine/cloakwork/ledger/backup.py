"""Backups of a ledger: an SQLite file that is a ledger itself, and the way back.

A backup holds every entry, fingerprint and window record of one moment, whoever writes meanwhile.
It does not hold the key of the case ids: whoever has both can test a guessed id, so the two are
kept apart. Restoring adds what the ledger lacks, and never takes an entry away: each is budget that
was spent.
"""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cloakwork.base.errors import LedgerError, OutputError
from cloakwork.base.files import require_new
from cloakwork.ledger._journal import Journal, read_entries
from cloakwork.ledger._tables import (
    entries_table,
    fingerprints_table,
    make_tables,
    sqlite_engine,
    windows_table,
)
from cloakwork.ledger.entries import Entry, first_break
from cloakwork.ledger.ledger import Ledger

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class LedgerCopy:
    """What a backup holds, or a restore brought: ``entries`` there are now, ``added`` of them by
    this; ``latest``: when the last one was made, in ISO 8601; ``key_file``: where the key lies,
    or belongs, that is not in a backup.
    """

    entries: int
    added: int
    latest: str | None
    key_file: Path


def back_up(ledger: Ledger | str | None, out: Path) -> LedgerCopy:
    """Write the ledger as of this moment to the new file ``out``, readable by its owner only.

    Raises OutputError where the file cannot be written or stands already, LedgerError where the
    ledger cannot be read, is none, or was altered.
    """
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    require_new(out)
    with book.journal.reading(snapshot=True) as connection:
        if connection is None:
            raise LedgerError(book.url, "does not exist yet: there is nothing to back up")
        entries = read_entries(connection)
        _require_sound(book.url, entries)
        others = {table: _rows_of(connection, table) for table in _other_tables()}
    try:
        _write(out, entries, others)
    except OSError as error:
        raise OutputError(f"{out}: cannot be written: {error.strerror}") from error
    return LedgerCopy(len(entries), len(entries), _latest(entries), book.key_file)


def _write(
    out: Path, entries: tuple[Entry, ...], others: "dict[Table, list[dict[str, Any]]]"
) -> None:
    """The file, whole or not at all."""
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.new-") as folder:
        draft = Path(folder) / out.name
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL, 0o600))
        with sqlite_engine(draft).connect() as connection, connection.begin():
            connection.exec_driver_sql("BEGIN")
            make_tables(connection)
            _insert(connection, entries_table(), [_entry_row(entry) for entry in entries])
            for table, rows in others.items():
                _insert(connection, table, rows)
        os.link(draft, out)


def restore(backup: Path, ledger: Ledger | str | None) -> LedgerCopy:
    """Bring the ledger to what ``backup`` holds, in one transaction: begin it, or add what it
    lacks.

    Raises LedgerError, and writes nothing, where ``backup`` is no sound ledger, or where the ledger
    has an entry that the backup lacks: its budget would be handed back.
    """
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    if not backup.is_file():
        raise LedgerError(str(backup), "there is no such file")
    source = Journal(str(backup))
    with source.reading(snapshot=True) as connection:
        if connection is None:
            raise LedgerError(source.name, "is no ledger")
        entries = read_entries(connection)
        others = {table: _rows_of(connection, table) for table in _other_tables()}
    _require_sound(source.name, entries)
    with book.journal.transaction() as connection:
        known = read_entries(connection)
        if known != entries[: len(known)]:
            raise LedgerError(book.url, _more_than(known, entries))
        new = entries[len(known) :]
        _insert(connection, entries_table(), [_entry_row(entry) for entry in new])
        for table, rows in others.items():
            there = {row["release"] for row in _rows_of(connection, table)}
            _insert(connection, table, [row for row in rows if row["release"] not in there])
    return LedgerCopy(len(entries), len(new), _latest(entries), book.key_file)


def _more_than(known: tuple[Entry, ...], entries: tuple[Entry, ...]) -> str:
    pairs = zip(known, entries, strict=False)
    common = next((at for at, (own, other) in enumerate(pairs) if own != other), None)
    common = min(len(known), len(entries)) if common is None else common
    return (
        f"has entries that the backup lacks, from entry {common + 1} of {len(known)} on: "
        "restoring it would hand back what was spent; nothing was changed"
    )


def _require_sound(name: str, entries: tuple[Entry, ...]) -> None:
    if found := first_break(entries):
        raise LedgerError(name, f"{found}; a backup of it, or from it, cannot be trusted")


def _other_tables() -> "tuple[Table, Table]":
    return (fingerprints_table(), windows_table())


def _rows_of(connection: "Connection", table: "Table") -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(table.select()).mappings()]


def _insert(connection: "Connection", table: "Table", rows: list[dict[str, Any]]) -> None:
    for start in range(0, len(rows), _BATCH):
        connection.execute(table.insert(), rows[start : start + _BATCH])


def _entry_row(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in Entry.__dataclass_fields__}


def _latest(entries: tuple[Entry, ...]) -> str | None:
    return entries[-1].at if entries else None

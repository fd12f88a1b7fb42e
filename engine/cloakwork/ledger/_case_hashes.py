"""What a ledger keeps of the ids of cases, keyed: samples by which another dataset's log is known
again, and which cases were released with which window.

Both lie outside the chain of entries, whose digests signed statements contain: nothing public may
depend on them. A row about a window carries a digest made with the key, so that a hash that was
changed by hand is noticed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cloakwork.base.errors import LedgerError
from cloakwork.ledger._journal import Journal
from cloakwork.ledger._tables import WINDOWS, fingerprints_table, windows_table
from cloakwork.ledger.window_hashes import key_check, row_digest, split_hashes

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row, Table

_NO_RIGHT: Final = "42501"
"""What Postgres calls a missing right."""


def read_fingerprints(journal: Journal) -> list[tuple[str, str, str]] | None:
    """All fingerprints as (release, dataset, sample); None where the right to read them is
    missing.
    """
    with journal.reading() as connection:
        rows = [] if connection is None else _rows(connection, fingerprints_table())
    if rows is None:
        return None
    return [(row.release, row.dataset, row.sample) for row in rows]


def keep_fingerprint(journal: Journal, release: str, dataset: str, sample: str) -> None:
    """Add one fingerprint."""
    with journal.transaction() as connection:
        connection.execute(
            fingerprints_table().insert().values(release=release, dataset=dataset, sample=sample)
        )


def keep_window(
    journal: Journal,
    release: str,
    dataset: str,
    window: str,
    hashes: frozenset[bytes],
    key: bytes,
    earlier: frozenset[str] = frozenset(),
) -> frozenset[bytes]:
    """Record the hashes that no window of the dataset has as of ``window``, in one transaction;
    returns those that another window has. ``earlier``: releases that must have a record.
    """
    table = windows_table()
    with journal.transaction() as connection:
        rows = connection.execute(table.select().where(table.c.dataset == dataset)).all()
        if any(row.key_check != key_check(key) for row in rows):
            raise LedgerError(
                journal.name,
                f"the windows of dataset '{dataset}' were recorded with another key than the "
                "one found here; copy the file of the key from where they were released",
            )
        if lost := earlier - {row.release for row in rows}:
            raise LedgerError(journal.name, f"{_lost(min(lost))}; {_REMEDY}")
        if changed := [row.release for row in rows if _is_changed(row, key)]:
            raise LedgerError(journal.name, f"{_changed(min(changed))}; {_REMEDY}")
        known = [(row.window, split_hashes(row.hashes) & hashes) for row in rows]
        elsewhere = frozenset[bytes]().union(*(own for name, own in known if name != window))
        new = b"".join(sorted(hashes.difference(*(own for _, own in known))))
        connection.execute(
            table.insert().values(
                release=release,
                dataset=dataset,
                window=window,
                key_check=key_check(key),
                hashes=new,
                digest=row_digest(key, release, dataset, window, new),
            )
        )
        return elsewhere


@dataclass(frozen=True, slots=True)
class WindowCheck:
    """What became of the records of windows. ``faults``: what was changed or removed, in words;
    ``checked``: rows compared with their digest; ``unchecked``: rows that could not be, and why.
    """

    faults: tuple[str, ...] = ()
    checked: int = 0
    unchecked: int = 0
    reason: str | None = None


def check_windows(journal: Journal, key: bytes | None, committed: Mapping[str, str]) -> WindowCheck:
    """Compare every record with its digest. ``committed``: releases that must have a record, with
    their dataset; ``key``: None where it is not here.
    """
    with journal.reading() as connection:
        rows = [] if connection is None else _rows(connection, windows_table())
    if rows is None:
        return WindowCheck(reason="the right to read them is missing")
    faults = [
        _lost(release) for release in sorted(committed.keys() - {row.release for row in rows})
    ]
    checked = unchecked = 0
    for row in rows:
        if key is None or row.key_check != key_check(key):
            unchecked += 1
            continue
        checked += 1
        if _is_changed(row, key):
            faults.append(_changed(row.release))
    reason = None
    if unchecked:
        reason = "their key is not here" if key is None else "another key bound them"
    return WindowCheck(tuple(faults), checked, unchecked, reason)


_REMEDY: Final = "restore the whole ledger from a backup"


def _lost(release: str) -> str:
    return f"which cases release {release} held is no longer recorded (table {WINDOWS})"


def _changed(release: str) -> str:
    return f"which cases release {release} held was changed by hand (table {WINDOWS})"


def _is_changed(row: "Row[Any]", key: bytes) -> bool:
    return bool(row.digest != row_digest(key, row.release, row.dataset, row.window, row.hashes))


def _rows(connection: "Connection", table: "Table") -> "list[Row[Any]] | None":
    """All rows of a table; None where the right to read them is missing."""
    from sqlalchemy.exc import DBAPIError

    try:
        return list(connection.execute(table.select()))
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == _NO_RIGHT:
            return None
        raise

"""What a ledger keeps of the ids of cases, keyed: samples by which another dataset's log is known
again, and which cases were released with which window.

A *fingerprint* is the least of the keyed hashes of the case ids (bottom-k sketch, Beyer et al.
2007): a hint that the same cases come under another dataset's name. Without the key, which lies
beside the ledger, readable by its owner only, it tells nothing; with it, a guessed id can be
confirmed. The record of a *window* holds a hash of each case that was released with it first, and
a digest made with the key, so that a hash that was changed by hand is noticed.

Both are internal data of the raw log and lie outside the chain of entries, whose digests signed
statements contain: no public file holds or depends on them. A fingerprint decides one thing alone,
before anything is charged or asked: whether a release is refused, to its owner, because its cases
were released as another dataset.
"""

import hashlib
import heapq
import json
from collections.abc import Iterable, Set
from typing import TYPE_CHECKING, Any, Final

from cloakwork.base.errors import LedgerError
from cloakwork.base.frozen import frozen
from cloakwork.base.text import folded
from cloakwork.ledger.journal import Journal, WriteTransaction, tables

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row, Table

SIZE: Final = 128
"""Hashes that a fingerprint keeps; a share of common cases is then known to about 9 percentage
points.
"""

HASH: Final = 16
"""Bytes of a keyed hash of a window: two of a million million ids share one with a probability
below 1e-14.
"""

_HEX: Final = 16
"""Hexadecimal digits of one hash of a fingerprint."""
_CLEAR: Final = 0.05
"""The least share of common cases that is reported."""
_ENOUGH: Final = 3
"""The least number of common hashes that is no coincidence."""

_NO_RIGHT: Final = "42501"
"""What Postgres calls a missing right."""

_REMEDY: Final = "restore the whole ledger from a backup"


# --- fingerprints


@frozen
class Resemblance:
    """About which ``share`` of the smaller of two logs' case ids the log at hand has in common with
    ``dataset``.
    """

    dataset: str
    share: float

    def __str__(self) -> str:
        return f"about {self.share:.0%} of the case ids were seen under dataset '{self.dataset}'"


def fingerprint(ids: Iterable[str], key: bytes) -> str:
    """The ``SIZE`` least keyed hashes of the distinct ids, in hex, ascending; time linear in the
    ids.
    """
    hashes = {
        hashlib.blake2b(text.encode(), key=key, digest_size=_HEX // 2).hexdigest() for text in ids
    }
    return "".join(heapq.nsmallest(SIZE, hashes))


def merged_fingerprint(samples: Iterable[str]) -> str:
    """The fingerprint of all ids of which there are these fingerprints, made with one key."""
    hashes = {each for sample in samples for each in _hashes_of(sample)}
    return "".join(heapq.nsmallest(SIZE, hashes))


def shared_share(one: str, other: str) -> float:
    """The estimated share of the smaller set that both hold, from the range of hashes that both
    samples cover.
    """
    first = _hashes_of(one)
    second = _hashes_of(other)
    # A full sample holds every hash of its set up to its last, a smaller one all there are.
    ends = [hashes[-1] for hashes in (first, second) if len(hashes) == SIZE]
    covered = min(ends, default="g")  # after every hexadecimal digit
    left = {each for each in first if each <= covered}
    right = {each for each in second if each <= covered}
    common = len(left & right)
    least = min(len(left), len(right))
    if not least or common < min(_ENOUGH, least):
        return 0.0
    return common / least


def resemblances(
    sample: str, dataset: str, known: Iterable[tuple[str, str, str]]
) -> tuple[Resemblance, ...]:
    """Other datasets whose fingerprints (release, dataset, sample) share clearly many cases with
    ``sample``.
    """
    best: dict[str, float] = {}
    for _, name, other in known:
        if folded(name) != folded(dataset):
            best[name] = max(best.get(name, 0.0), shared_share(sample, other))
    return tuple(Resemblance(name, share) for name, share in best.items() if share >= _CLEAR)


def _hashes_of(sample: str) -> list[str]:
    return [sample[start : start + _HEX] for start in range(0, len(sample), _HEX)]


def read_fingerprints(journal: Journal) -> list[tuple[str, str, str]] | None:
    """All fingerprints as (release, dataset, sample); None where the right to read them is
    missing.
    """
    with journal.reading() as connection:
        return [] if connection is None else fingerprints_in(connection)


def fingerprints_in(connection: "Connection") -> list[tuple[str, str, str]] | None:
    """The same over an open connection, whose transaction goes on whatever the answer."""
    rows = _rows(connection, tables().fingerprints)
    return None if rows is None else [(row.release, row.dataset, row.sample) for row in rows]


def keep_fingerprint(writing: WriteTransaction, release: str, dataset: str, sample: str) -> None:
    """Add one fingerprint, in the transaction that decides about the release."""
    row = {"release": release, "dataset": dataset, "sample": sample}
    writing.connection.execute(tables().fingerprints.insert().values(row))


# --- windows


def hashed_ids(ids: Iterable[str], key: bytes) -> dict[str, bytes]:
    """A keyed hash of each id, other than those of fingerprints."""
    return {
        text: hashlib.blake2b(
            text.encode(), key=key, digest_size=HASH, person=b"window of a case"
        ).digest()
        for text in ids
    }


def keep_window(
    journal: Journal,
    release: str,
    dataset: str,
    window: str,
    hashes: frozenset[bytes],
    *,
    key: bytes,
    earlier: frozenset[str] = frozenset(),
) -> frozenset[bytes]:
    """Record the hashes that no window of the dataset has as of ``window``, in one transaction;
    returns those that another window has. ``earlier``: releases that must have a record.
    """
    table = tables().windows
    with journal.transaction() as connection:
        from sqlalchemy import func

        named = func.lower(table.c.dataset) == folded(dataset)
        rows = connection.execute(table.select().where(named)).all()
        # Nothing is decided on records of another key, or that were removed or changed.
        if any(row.key_check != _key_check(key) for row in rows):
            raise LedgerError(
                journal.name,
                f"the windows of dataset '{dataset}' were recorded with another key than the "
                "one found here; copy the file of the key from where they were released",
            )
        if lost := earlier - {row.release for row in rows}:
            raise LedgerError(journal.name, f"{_lost(min(lost))}; {_REMEDY}")
        if changed := [row.release for row in rows if _is_changed(row, key)]:
            raise LedgerError(journal.name, f"{_changed(min(changed))}; {_REMEDY}")
        # A case belongs to the window of its first release.
        known = [(row.window, _split(row.hashes) & hashes) for row in rows]
        elsewhere = frozenset[bytes]().union(*(own for name, own in known if name != window))
        new = b"".join(sorted(hashes.difference(*(own for _, own in known))))
        row = {
            "release": release,
            "dataset": dataset,
            "window": window,
            "key_check": _key_check(key),
            "hashes": new,
            "digest": _row_digest(key, release, dataset, window, new),
        }
        connection.execute(table.insert().values(row))
        return elsewhere


@frozen
class WindowCheck:
    """What became of the records of windows. ``faults``: what was changed or removed, in words;
    ``checked``: rows compared with their digest; ``unchecked``: rows that could not be, and why.
    """

    faults: tuple[str, ...] = ()
    checked: int = 0
    unchecked: int = 0
    reason: str | None = None


def check_windows(journal: Journal, key: bytes | None, committed: Set[str]) -> WindowCheck:
    """Compare every record with its digest. ``committed``: releases that must have a record;
    ``key``: None where it is not here.
    """
    with journal.reading() as connection:
        rows = [] if connection is None else _rows(connection, tables().windows)
    if rows is None:
        return WindowCheck(reason="the right to read them is missing")
    recorded = {row.release for row in rows}
    faults = [_lost(release) for release in sorted(committed - recorded)]
    checked = 0
    for row in rows:
        if key is None or row.key_check != _key_check(key):
            continue
        checked += 1
        if _is_changed(row, key):
            faults.append(_changed(row.release))
    unchecked = len(rows) - checked
    reason = None
    if unchecked:
        reason = "their key is not here" if key is None else "another key bound them"
    return WindowCheck(tuple(faults), checked, unchecked, reason)


def _key_check(key: bytes) -> str:
    """What shows that a key is the one that hashes were made with, and tells nothing else of it."""
    return hashlib.blake2b(b"", key=key, digest_size=HASH, person=b"check of the key").hexdigest()


def _row_digest(
    key: bytes,
    release: str,
    dataset: str,
    window: str,
    hashes: bytes,
) -> str:
    """What binds the hashes recorded for a release to it; made with the key, so that whoever has
    the ledger alone cannot make another.
    """
    named = json.dumps([release, dataset, window]).encode()
    made = hashlib.blake2b(named, key=key, digest_size=HASH, person=b"row of a window")
    made.update(b"\0" + hashes)
    return made.hexdigest()


def _is_changed(row: "Row[Any]", key: bytes) -> bool:
    return bool(row.digest != _row_digest(key, row.release, row.dataset, row.window, row.hashes))


def _split(stored: bytes) -> set[bytes]:
    return {stored[start : start + HASH] for start in range(0, len(stored), HASH)}


def _lost(release: str) -> str:
    table = tables().windows.name
    return f"which cases release {release} held is no longer recorded (table {table})"


def _changed(release: str) -> str:
    table = tables().windows.name
    return f"which cases release {release} held was changed by hand (table {table})"


def _rows(connection: "Connection", table: "Table") -> "list[Row[Any]] | None":
    """All rows of a table; None without the right to read them."""
    from sqlalchemy.exc import DBAPIError

    try:
        # A savepoint, so that a refusal does not end the transaction around it.
        with connection.begin_nested():
            return list(connection.execute(table.select()))
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == _NO_RIGHT:
            return None
        raise

"""The ledger's storage: an append-only journal in one SQL table, each entry bound to the one before it by a digest.

Entries are never changed or removed, so what a release is (reserved, committed, ...) follows from the entries that name
it. One writer at a time: SQLite takes its write lock before reading (BEGIN IMMEDIATE), Postgres an advisory lock, so a
decision taken on what was read still holds when its entry is written.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from cloakwork.errors import LedgerError

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine, Table

Kind = Literal["reserve", "commit", "fail", "statement"]

TABLE: Final = "cloakwork_ledger"

BEFORE_FIRST: Final = "0" * 64
"""What the first entry names as the digest of its predecessor."""

PATIENCE: Final = 120
"""Seconds to wait for other writers."""

_POSTGRES_LOCK: Final = 0x636C6F616B  # "cloak"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal; ``at`` is UTC in ISO 8601, ``body`` a JSON object, ``digest`` SHA-256 in hex."""

    seq: int
    release: str
    dataset: str
    kind: str
    at: str
    body: str
    previous: str
    digest: str

    @property
    def expected_digest(self) -> str:
        """The digest that follows from all other fields."""
        return hashlib.sha256(json.dumps(astuple(self)[:-1], default=repr).encode()).hexdigest()

    def fields(self) -> dict[str, Any]:
        """The body, parsed."""
        parsed: dict[str, Any] = json.loads(self.body)
        return parsed


@dataclass(frozen=True, slots=True)
class Break:
    """The first entry (``seq`` counts from 1) at which the journal is not what was once written, and how it shows."""

    seq: int
    reason: str

    def __str__(self) -> str:
        return f"entry {self.seq}: {self.reason}"


def first_break(entries: tuple[Entry, ...]) -> Break | None:
    """Follow the digests from the first entry; None when every entry is whole and in its place.

    The chain is not keyed: it shows slips and edits by hand, not a forger who recomputes every later digest, nor the
    removal of the newest entries. Both show against a digest that a signed statement carries.
    """
    previous = BEFORE_FIRST
    for seq, entry in enumerate(entries, start=1):
        if entry.seq != seq:
            return Break(seq, "is missing")
        if entry.previous != previous:
            return Break(seq, "does not follow the entry before it")
        if entry.digest != entry.expected_digest:
            return Break(seq, "was altered")
        previous = entry.digest
    return None


@dataclass(slots=True)
class Writing:
    """One transaction: what the journal holds, and the right to append to it."""

    entries: tuple[Entry, ...]
    _connection: "Connection"

    def append(self, kind: Kind, release: str, dataset: str, body: Mapping[str, Any]) -> Entry:
        """Add one entry; it stands once the transaction ends without an error."""
        previous = self.entries[-1].digest if self.entries else BEFORE_FIRST
        at = datetime.now(UTC).isoformat()
        bare = Entry(len(self.entries) + 1, release, dataset, kind, at, json.dumps(body, sort_keys=True), previous, "")
        entry = replace(bare, digest=bare.expected_digest)
        self._connection.execute(_table().insert().values(asdict(entry)))
        self.entries += (entry,)
        return entry


@dataclass(frozen=True)
class Journal:
    """A journal by SQLAlchemy URL, or by the path of an SQLite file; nothing is opened before it is used.

    Every method raises LedgerError, in one line, for whatever the database has to say.
    """

    address: str

    @cached_property
    def url(self) -> "URL":
        """The parsed address."""
        from sqlalchemy import URL, make_url
        from sqlalchemy.exc import ArgumentError

        if "://" not in self.address:
            return URL.create("sqlite", database=self.address)
        try:
            return make_url(self.address)
        except (ArgumentError, ValueError):
            raise LedgerError(_without_password(self.address), "is not a database URL") from None

    @cached_property
    def name(self) -> str:
        """The address as it may be shown: without a password."""
        return self.url.render_as_string(hide_password=True)

    @cached_property
    def file(self) -> Path | None:
        """The SQLite file; None for a database server."""
        if self.url.get_backend_name() != "sqlite":
            return None
        if self.url.database in (None, "", ":memory:"):
            raise LedgerError(self.name, "a ledger in memory would forget what was spent; name a file")
        return Path(str(self.url.database))

    def read(self) -> tuple[Entry, ...]:
        """Every entry, oldest first; a ledger that does not exist yet holds none and is not made."""
        if self.file is not None and not self.file.exists():
            return ()
        with self._errors_told(), self._engine("rw").connect() as connection:
            return self._entries(connection) if self._exists(connection) else ()

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """The one transaction in which a decision is taken and written; makes the ledger when there is none.

        Raises LedgerError when the journal was altered: nothing is added to a ledger that cannot be trusted.
        """
        with self._errors_told(), self._engine("rwc").connect() as connection, connection.begin():
            self._lock(connection)
            if not self._exists(connection):
                _table().create(connection)
            entries = self._entries(connection)
            found = first_break(entries)
            if found:
                raise LedgerError(self.name, f"{found}; the ledger was changed by hand and takes no more releases")
            yield Writing(entries, connection)

    def _engine(self, mode: Literal["rw", "rwc"]) -> "Engine":
        from sqlalchemy import create_engine
        from sqlalchemy.pool import NullPool

        if self.file is None:
            return create_engine(self.url, poolclass=NullPool)
        location = f"file:{quote(os.fspath(self.file))}?mode={mode}"

        def connect() -> sqlite3.Connection:
            return sqlite3.connect(location, uri=True, timeout=PATIENCE, isolation_level=None)

        return create_engine("sqlite://", creator=connect, poolclass=NullPool)

    def _lock(self, connection: "Connection") -> None:
        from sqlalchemy import text

        if self.file is not None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        elif self.url.get_backend_name() == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _POSTGRES_LOCK})
        else:
            raise LedgerError(self.name, "a ledger lives in SQLite or Postgres")

    def _exists(self, connection: "Connection") -> bool:
        from sqlalchemy import inspect

        tables = inspect(connection).get_table_names()
        if tables and TABLE not in tables and self.file is not None:
            raise LedgerError(self.name, "is a database, but not a ledger of Cloakwork")
        return TABLE in tables

    def _entries(self, connection: "Connection") -> tuple[Entry, ...]:
        table = _table()
        return tuple(Entry(*row) for row in connection.execute(table.select().order_by(table.c.seq)))

    @contextmanager
    def _errors_told(self) -> Iterator[None]:
        from sqlalchemy.exc import DBAPIError, SQLAlchemyError

        try:
            yield
        except DBAPIError as error:
            raise LedgerError(self.name, _one_line(error.orig or error)) from error
        except (SQLAlchemyError, sqlite3.Error, OSError, ImportError) as error:
            raise LedgerError(self.name, _one_line(error)) from error


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _without_password(address: str) -> str:
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


@lru_cache(maxsize=1)
def _table() -> "Table":
    from sqlalchemy import Column, Integer, MetaData, Table, Text

    texts = [Column(name, Text, nullable=False) for name in Entry.__dataclass_fields__ if name != "seq"]
    return Table(TABLE, MetaData(), Column("seq", Integer, primary_key=True, autoincrement=False), *texts)

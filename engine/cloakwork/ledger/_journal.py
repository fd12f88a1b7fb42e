"""The ledger's storage: an append-only journal in one SQL table, each entry bound to the one before
it by a digest.

Entries are never changed or removed, so what a release is (reserved, committed, ...) follows from
the entries that name it. One writer at a time: SQLite takes its write lock before reading (BEGIN
IMMEDIATE), Postgres an advisory lock, so a decision taken on what was read still holds when its
entry is written.
"""

import hashlib
import json
import os
import re
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cloakwork.base.errors import LedgerError
from cloakwork.base.files import Lock, lock_file, lock_if_abandoned
from cloakwork.ledger._tables import (
    LAYOUT,
    PATIENCE,
    TABLE,
    entries_table,
    layout_of,
    make_tables,
    sqlite_engine,
)
from cloakwork.ledger.address import parse_address
from cloakwork.ledger.entries import BEFORE_FIRST, Entry, EventKind, ReleaseKind, first_break

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine
    from sqlalchemy.exc import DBAPIError

_DRIVER: Final = "psycopg"
"""What speaks with Postgres where the address names no driver, whatever SQLAlchemy would take."""

_CONNECTION_LOST: Final = (
    "the connection was lost: what was being written was kept entirely or not at all, and "
    "'cloakwork ledger show' tells which"
)

_LOCK_TIMEOUT: Final = "55P03"
"""What Postgres calls a wait for a lock that took too long."""

_POSTGRES_LOCK: Final = 0x636C6F616B  # "cloak"


@dataclass(slots=True)
class WriteTransaction:
    """One transaction: what the journal holds, and the right to append to it."""

    entries: tuple[Entry, ...]
    _connection: "Connection"

    def append(
        self, kind: ReleaseKind | EventKind, release: str, dataset: str, body: Mapping[str, Any]
    ) -> Entry:
        """Add one entry; it stands once the transaction ends without an error."""
        previous = self.entries[-1].digest if self.entries else BEFORE_FIRST
        at = datetime.now(UTC).isoformat()
        undigested = Entry(
            seq=len(self.entries) + 1,
            release=release,
            dataset=dataset,
            kind=kind,
            at=at,
            body=json.dumps(body, sort_keys=True),
            previous=previous,
            digest="",
        )
        entry = replace(undigested, digest=undigested.expected_digest)
        self._connection.execute(entries_table().insert().values(asdict(entry)))
        self.entries += (entry,)
        return entry


def print_notice(message: str) -> None:
    """Print on standard error: what is done with a notice where the caller names nothing else."""
    print(message, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Journal:
    """A journal by SQLAlchemy URL, or by the path of an SQLite file; nothing is opened before it is
    used.

    ``notice`` is called with one line when a ledger is made. ``make_folder``: whether the folder of
    an SQLite file may be made with it. Every method raises LedgerError, in one line, for whatever
    the database has to say.
    """

    address: str
    notice: Callable[[str], None] = print_notice
    make_folder: bool = False

    @cached_property
    def url(self) -> "URL":
        """The parsed address; refuses what looks like a slip."""
        return parse_address(self.address)

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
            raise LedgerError(
                self.name, "a ledger in memory would forget what was spent; name a file"
            )
        return Path(str(self.url.database))

    @cached_property
    def read_only(self) -> bool:
        """Whether the address asks for reading alone."""
        return self.file is not None and self.url.query.get("mode") == "ro"

    def exists(self) -> bool:
        """Whether there is a ledger. A file or database that is none is refused, not taken for an
        empty one.
        """
        with self.reading() as connection:
            return connection is not None

    def read(self) -> tuple[Entry, ...]:
        """Every entry, oldest first; a ledger that does not exist holds none and is not made."""
        with self.reading() as connection:
            return () if connection is None else read_entries(connection)

    @contextmanager
    def reading(self, *, snapshot: bool = False) -> Iterator["Connection | None"]:
        """A connection for reading; None where there is no ledger yet. ``snapshot``: all that is
        read is of one moment, whoever writes meanwhile.
        """
        if self.file is not None and not self._file_exists(self.file):
            yield None
            return
        with self._as_ledger_errors(), self._sql_engine().connect() as connection:
            if snapshot and self.file is not None:
                connection.exec_driver_sql("BEGIN")
            elif snapshot:
                connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection if self._has_ledger(connection) else None

    @contextmanager
    def transaction(self) -> Iterator["Connection"]:
        """The one transaction of writers at a time; makes the ledger when there is none."""
        with self._as_ledger_errors():
            if self.read_only:
                raise LedgerError(self.name, "is opened for reading only (mode=ro)")
            if self.file is not None and not self._file_exists(self.file):
                self._make_file(self.file)
            with self._sql_engine().connect() as connection, connection.begin():
                self._lock_journal(connection)
                if not self._has_ledger(connection):
                    make_tables(connection)
                    self.notice(f"a new ledger was made: {self.name}")
                yield connection

    @contextmanager
    def writing(self) -> Iterator[WriteTransaction]:
        """The one transaction in which a decision is taken and written; makes the ledger when there
        is none.

        Raises LedgerError when the journal was altered: nothing is added to a ledger that cannot be
        trusted.
        """
        with self.transaction() as connection:
            entries = read_entries(connection)
            if found := first_break(entries):
                reason = f"{found}; the ledger was changed by hand and takes no more releases"
                raise LedgerError(self.name, reason)
            yield WriteTransaction(entries, connection)

    def lock_release(self, release: str) -> "ReleaseLock":
        """Show that this process works on ``release``, as long as it lives or until it unlocks."""
        if self.file is not None:
            with self._as_ledger_errors():
                return ReleaseLock(lock_file(self._lock_path(self.file, release)))
        from sqlalchemy import text

        with self._as_ledger_errors():
            connection = self._sql_engine().connect()
            # A session's lock: it outlives the transaction, and ends with the connection.
            connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _key_of(release)})
            connection.commit()
            return ReleaseLock(connection)

    def try_lock_release(self, release: str) -> "ReleaseLock | None":
        """``lock_release`` where no process holds the lock; None where a live process, on whatever
        host, works on ``release``.
        """
        if self.file is not None:
            with self._as_ledger_errors():
                path = self._lock_path(self.file, release)
                if not path.exists():
                    return self.lock_release(release)
                lock = lock_if_abandoned(path)
                return None if lock is None else ReleaseLock(lock)
        from sqlalchemy import text

        with self._as_ledger_errors():
            connection = self._sql_engine().connect()
            free = connection.execute(
                text("SELECT pg_try_advisory_lock(:key)"), {"key": _key_of(release)}
            ).scalar()
            connection.commit()
            if free:
                return ReleaseLock(connection)
            connection.close()
            return None

    def remove_stale_locks(self) -> None:
        """Remove the lock files of processes that are gone."""
        if self.file is None:
            return
        of_releases = re.compile(re.escape(self.file.name) + r"\.[a-z]{20}\.lock")
        with self._as_ledger_errors():
            for path in list(self.file.parent.iterdir()):
                if not of_releases.fullmatch(path.name):
                    continue
                lock = lock_if_abandoned(path)
                if lock is not None:
                    lock.remove()

    @staticmethod
    def _lock_path(file: Path, release: str) -> Path:
        return file.with_name(f"{file.name}.{release}.lock")

    def _file_exists(self, file: Path) -> bool:
        """Whether the file exists; an empty one holds no ledger, and is not one that was just
        begun.
        """
        try:
            size = file.stat().st_size
        except FileNotFoundError:
            if not file.parent.is_dir() and not self.make_folder:
                raise LedgerError(self.name, f"there is no folder {file.parent}") from None
            return False
        except OSError as error:
            raise LedgerError(self.name, str(error.strerror)) from None
        if file.is_file() and size == 0:
            raise LedgerError(
                self.name, "is an empty file, not a ledger; remove it to begin a new one"
            )
        return True

    def _make_file(self, file: Path) -> None:
        """Make the ledger's file, whole or not at all: a process that is killed here leaves no
        empty ledger.
        """
        if self.make_folder:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.new-") as folder:
            draft = Path(folder) / file.name
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL, 0o666))
            with sqlite_engine(draft).connect() as connection, connection.begin():
                connection.exec_driver_sql("BEGIN")
                make_tables(connection)
            # A link fails where the file exists: then another process was first.
            with suppress(FileExistsError):
                os.link(draft, file)
                self.notice(f"a new ledger was made: {self.name}")

    def _sql_engine(self) -> "Engine":
        from sqlalchemy import create_engine
        from sqlalchemy.pool import NullPool

        if self.file is not None:
            return sqlite_engine(self.file, read_only=self.read_only)
        url = self.url
        if url.drivername == "postgresql":
            url = url.set(drivername=f"postgresql+{_DRIVER}")
        return create_engine(url, poolclass=NullPool)

    def _lock_journal(self, connection: "Connection") -> None:
        from sqlalchemy import text

        if self.file is not None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            # SQLite waits as long; and a writer that no longer speaks must not hold all others up.
            for name in ("lock_timeout", "idle_in_transaction_session_timeout"):
                connection.exec_driver_sql(f"SET LOCAL {name} = '{PATIENCE}s'")
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _POSTGRES_LOCK})

    def _has_ledger(self, connection: "Connection") -> bool:
        """Whether the database holds a ledger; False for an empty database on a server, where one
        may be made.
        """
        from sqlalchemy import inspect

        tables = inspect(connection).get_table_names()
        if TABLE not in tables and (tables or self.file is not None):
            raise LedgerError(self.name, "is a database, but not a ledger of Cloakwork")
        if TABLE not in tables:
            return False
        if (found := layout_of(connection)) != LAYOUT:
            reason = f"has the layout {found}, and this version of Cloakwork knows {LAYOUT} alone"
            raise LedgerError(self.name, f"{reason}; use the version that made it")
        return True

    @contextmanager
    def _as_ledger_errors(self) -> Iterator[None]:
        from sqlalchemy.exc import DBAPIError, SQLAlchemyError

        try:
            yield
        except DBAPIError as error:
            raise LedgerError(self.name, _what_it_says(error)) from error
        except ImportError as error:
            package = (error.name or _DRIVER).partition(".")[0]
            # Without its extra psycopg needs a C library of the system.
            to_install = "psycopg[binary]" if package == _DRIVER else package
            reason = f"needs the package {package}, which cannot be loaded"
            raise LedgerError(self.name, f"{reason}; pip install '{to_install}'") from error
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            raise LedgerError(self.name, _one_line(error)) from error


@dataclass(slots=True)
class ReleaseLock:
    """Shows that a live process works on a release: a locked file beside an SQLite ledger, a
    session's lock on a server.

    Both end with the process, by whatever signal.
    """

    _held: "Lock | Connection"

    def release(self) -> None:
        """Unlock: this process works on the release no more."""
        if isinstance(self._held, Lock):
            self._held.remove()
        else:
            self._held.close()


def read_entries(connection: "Connection") -> tuple[Entry, ...]:
    """Every entry, oldest first."""
    table = entries_table()
    rows = connection.execute(table.select().order_by(table.c.seq))
    return tuple(Entry(*row) for row in rows)


def _key_of(release: str) -> int:
    """The key of a release's advisory lock: 56 bits, as Postgres takes a signed 64-bit number."""
    return int.from_bytes(hashlib.sha256(release.encode()).digest()[:7])


def _what_it_says(error: "DBAPIError") -> str:
    """An error of a database in one line, with what it means where that is known."""
    said = _one_line(error.orig or error)
    if getattr(error.orig, "sqlstate", None) == _LOCK_TIMEOUT or "database is locked" in said:
        return f"others were writing to it for {PATIENCE} s ({said}); try again"
    return f"{said}; {_CONNECTION_LOST}" if error.connection_invalidated else said


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__

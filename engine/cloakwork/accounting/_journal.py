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
from dataclasses import asdict, astuple, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from cloakwork.errors import LedgerError
from cloakwork.locks import Lock, abandoned, lock_file

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine, Table

Kind = Literal["reserve", "intent", "commit", "fail", "identify", "statement"]

TABLE: Final = "cloakwork_ledger"

FINGERPRINTS: Final = "cloakwork_fingerprints"
"""Keyed samples of case ids. Outside the chain of entries, whose digests signed statements carry:
nothing public may depend on them.
"""

BEFORE_FIRST: Final = "0" * 64
"""What the first entry names as the digest of its predecessor."""

PATIENCE: Final = 120
"""Seconds to wait for other writers."""

_DRIVER: Final = "psycopg"
"""What speaks with Postgres where the address names no driver, whatever SQLAlchemy would take."""

_POSTGRES_LOCK: Final = 0x636C6F616B  # "cloak"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal; ``at`` is UTC in ISO 8601, ``body`` a JSON object, ``digest``
    SHA-256 in hex.
    """

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
    """The first entry (``seq`` counts from 1) at which the journal is not what was once written,
    and how it shows.
    """

    seq: int
    reason: str

    def __str__(self) -> str:
        return f"entry {self.seq}: {self.reason}"


def first_break(entries: tuple[Entry, ...]) -> Break | None:
    """Follow the digests from the first entry; None when every entry is whole and in its place.

    The chain is not keyed: it shows slips and edits by hand, not a forger who recomputes every
    later digest, nor the removal of the newest entries. Both show against a digest that a signed
    statement carries.
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
        bare = Entry(
            len(self.entries) + 1,
            release,
            dataset,
            kind,
            at,
            json.dumps(body, sort_keys=True),
            previous,
            "",
        )
        entry = replace(bare, digest=bare.expected_digest)
        self._connection.execute(_table().insert().values(asdict(entry)))
        self.entries += (entry,)
        return entry


def say(message: str) -> None:
    """Say it on standard error, where nobody else was named to hear it."""
    print(message, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Journal:
    """A journal by SQLAlchemy URL, or by the path of an SQLite file; nothing is opened before it is
    used.

    ``notice`` hears when a ledger is made. ``make_folder``: whether the folder of an SQLite file
    may be made with it. Every method raises LedgerError, in one line, for whatever the database has
    to say.
    """

    address: str
    notice: Callable[[str], None] = say
    make_folder: bool = False

    @cached_property
    def url(self) -> "URL":
        """The parsed address; refuses what looks like a slip."""
        from sqlalchemy import URL, make_url
        from sqlalchemy.exc import ArgumentError

        if "://" not in self.address:
            return URL.create("sqlite", database=self._path())
        shown = _without_password(self.address)
        try:
            url = make_url(self.address)
            backend = url.get_backend_name()
        except (ArgumentError, ValueError):
            raise LedgerError(shown, "is not a database URL") from None
        if backend not in ("sqlite", "postgresql"):
            hint = "; write postgresql://..." if backend == "postgres" else ""
            raise LedgerError(
                shown, f"a ledger lives in SQLite or Postgres, not in '{backend}'{hint}"
            )
        if backend == "sqlite" and (url.host or url.query):
            raise LedgerError(
                shown,
                "is not the address of a file: write sqlite:///relative.db or sqlite:////absolute.db",
            )
        return url

    def _path(self) -> str:
        """The address as a path, unless it is a URL or a path of another system that lost a sign."""
        if "\0" in self.address:
            raise LedgerError(repr(self.address), "is not a path")
        if os.name != "nt" and (
            "\\" in self.address or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", self.address)
        ):
            hint = "write a path of this system, or a URL such as sqlite:///ledger.db or postgresql://host/name"
            raise LedgerError(
                _without_password(self.address), f"is neither a path nor a URL; {hint}"
            )
        return self.address

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

    def exists(self) -> bool:
        """Whether there is a ledger. A file or database that is none is refused, not taken for an
        empty one.
        """
        if self.file is not None and not self._file_there(self.file):
            return False
        with self._errors_told(), self._engine("rw").connect() as connection:
            return self._exists(connection)

    def read(self) -> tuple[Entry, ...]:
        """Every entry, oldest first; a ledger that does not exist yet holds none and is not made."""
        if self.file is not None and not self._file_there(self.file):
            return ()
        with self._errors_told(), self._engine("rw").connect() as connection:
            return self._entries(connection) if self._exists(connection) else ()

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """The one transaction in which a decision is taken and written; makes the ledger when there
        is none.

        Raises LedgerError when the journal was altered: nothing is added to a ledger that cannot be
        trusted.
        """
        with self._errors_told():
            if self.file is not None and not self._file_there(self.file):
                self._make_file(self.file)
            with self._engine("rw").connect() as connection, connection.begin():
                self._lock(connection)
                if not self._exists(connection):
                    _table().create(connection)
                    self.notice(f"a new ledger was made: {self.name}")
                entries = self._entries(connection)
                found = first_break(entries)
                if found:
                    raise LedgerError(
                        self.name,
                        f"{found}; the ledger was changed by hand and takes no more releases",
                    )
                yield Writing(entries, connection)

    def fingerprints(self) -> list[tuple[str, str, str]]:
        """All fingerprints as (release, dataset, sample); none where none was ever kept."""
        if self.file is not None and not self._file_there(self.file):
            return []
        from sqlalchemy import inspect

        table = _fingerprints()
        with self._errors_told(), self._engine("rw").connect() as connection:
            if FINGERPRINTS not in inspect(connection).get_table_names():
                return []
            return [
                (row.release, row.dataset, row.sample) for row in connection.execute(table.select())
            ]

    def keep_fingerprint(self, release: str, dataset: str, sample: str) -> None:
        """Add one fingerprint."""
        table = _fingerprints()
        with self._errors_told(), self._engine("rw").connect() as connection, connection.begin():
            self._lock(connection)
            table.create(connection, checkfirst=True)
            connection.execute(
                table.insert().values(release=release, dataset=dataset, sample=sample)
            )

    def hold(self, release: str) -> "Hold":
        """Show as long as this process lives, or until it is let go, that it works on ``release``."""
        if self.file is not None:
            with self._errors_told():
                return Hold(lock_file(self._lock_of(self.file, release)))
        from sqlalchemy import text

        with self._errors_told():
            connection = self._engine("rw").connect()
            connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _key_of(release)})
            connection.commit()
            return Hold(connection)

    def try_hold(self, release: str) -> "Hold | None":
        """``hold`` where nobody does; None where a live process, on whatever host, works on
        ``release``.
        """
        if self.file is not None:
            with self._errors_told():
                path = self._lock_of(self.file, release)
                if not path.exists():
                    return self.hold(release)
                lock = abandoned(path)
                return None if lock is None else Hold(lock)
        from sqlalchemy import text

        with self._errors_told():
            connection = self._engine("rw").connect()
            free = connection.execute(
                text("SELECT pg_try_advisory_lock(:key)"), {"key": _key_of(release)}
            ).scalar()
            connection.commit()
            if free:
                return Hold(connection)
            connection.close()
            return None

    def tidy(self) -> None:
        """Remove the lock files of processes that are gone."""
        if self.file is None:
            return
        of_releases = re.compile(re.escape(self.file.name) + r"\.[a-z]{20}\.lock")
        with self._errors_told():
            for path in list(self.file.parent.iterdir()):
                if of_releases.fullmatch(path.name) and (lock := abandoned(path)):
                    lock.remove()

    @staticmethod
    def _lock_of(file: Path, release: str) -> Path:
        return file.with_name(f"{file.name}.{release}.lock")

    def _file_there(self, file: Path) -> bool:
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
            with _sqlite_engine(draft, "rw").connect() as connection, connection.begin():
                _table().create(connection)
            with suppress(FileExistsError):  # another process was first
                os.link(draft, file)
                self.notice(f"a new ledger was made: {self.name}")

    def _engine(self, mode: Literal["ro", "rw"]) -> "Engine":
        from sqlalchemy import create_engine
        from sqlalchemy.pool import NullPool

        if self.file is None:
            bare = self.url.drivername == "postgresql"
            url = self.url.set(drivername=f"postgresql+{_DRIVER}") if bare else self.url
            return create_engine(url, poolclass=NullPool)
        return _sqlite_engine(self.file, mode)

    def _lock(self, connection: "Connection") -> None:
        from sqlalchemy import text

        if self.file is not None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _POSTGRES_LOCK})

    def _exists(self, connection: "Connection") -> bool:
        """Whether the database holds a ledger; False for an empty database on a server, where one
        may be made.
        """
        from sqlalchemy import inspect

        tables = inspect(connection).get_table_names()
        if TABLE not in tables and (tables or self.file is not None):
            raise LedgerError(self.name, "is a database, but not a ledger of Cloakwork")
        return TABLE in tables

    def _entries(self, connection: "Connection") -> tuple[Entry, ...]:
        table = _table()
        return tuple(
            Entry(*row) for row in connection.execute(table.select().order_by(table.c.seq))
        )

    @contextmanager
    def _errors_told(self) -> Iterator[None]:
        from sqlalchemy.exc import DBAPIError, SQLAlchemyError

        try:
            yield
        except DBAPIError as error:
            raise LedgerError(self.name, _one_line(error.orig or error)) from error
        except ImportError as error:
            package = (error.name or _DRIVER).partition(".")[0]
            remedy = f"pip install '{'psycopg[binary]' if package == _DRIVER else package}'"
            raise LedgerError(
                self.name, f"needs the package {package}, which cannot be loaded; {remedy}"
            ) from error
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            raise LedgerError(self.name, _one_line(error)) from error


@dataclass(slots=True)
class Hold:
    """That a live process works on a release: a locked file beside an SQLite ledger, a session's
    lock on a server.

    Both end with the process, by whatever signal.
    """

    _what: "Lock | Connection"

    def release(self) -> None:
        """Let go."""
        if isinstance(self._what, Lock):
            self._what.remove()
        else:
            self._what.close()


def _key_of(release: str) -> int:
    return int.from_bytes(hashlib.sha256(release.encode()).digest()[:7])


def _sqlite_engine(file: Path, mode: str) -> "Engine":
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    location = f"file:{quote(os.fspath(file))}?mode={mode}"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(location, uri=True, timeout=PATIENCE, isolation_level=None)

    return create_engine("sqlite://", creator=connect, poolclass=NullPool)


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _without_password(address: str) -> str:
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


@lru_cache(maxsize=1)
def _table() -> "Table":
    from sqlalchemy import Column, Integer, MetaData, Table, Text

    texts = [
        Column(name, Text, nullable=False) for name in Entry.__dataclass_fields__ if name != "seq"
    ]
    return Table(
        TABLE, MetaData(), Column("seq", Integer, primary_key=True, autoincrement=False), *texts
    )


@lru_cache(maxsize=1)
def _fingerprints() -> "Table":
    from sqlalchemy import Column, MetaData, Table, Text

    names = ("release", "dataset", "sample")
    return Table(FINGERPRINTS, MetaData(), *(Column(name, Text, nullable=False) for name in names))

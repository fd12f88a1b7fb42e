"""The ledger's storage: an append-only journal in one SQL table, each entry bound to the one before
it by a digest.

Entries are never changed or removed, so what a release is (reserved, committed, ...) follows from
the entries that name it. One writer at a time: SQLite takes its write lock before reading (BEGIN
IMMEDIATE), Postgres an advisory lock, so a decision taken on what was read still holds when its
entry is written.

Two tables lie outside of the chain, keyed samples of case ids and the cases of each window
(``case_hashes``): signed statements contain the digests of entries, and nothing public may depend
on a raw log.

**Checkpoints** are the head of a journal, to be kept where whoever writes to the ledger cannot.
Each entry names the digest of the one before, so the last digest fixes all entries up to it. A
journal that lacks one of them, or has another in its place, has another digest there or none. The
newest checkpoint of each ledger that was made or verified lies in the user's data folder, found by
the ledger's address (another ledger may stand there now) and by its first entry (it may have been
moved). What was written since, and what somebody without a checkpoint is shown, it cannot tell.
"""

import hashlib
import json
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, astuple, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, get_args
from urllib.parse import quote

from pydantic import AwareDatetime, Field, ValidationError

from cloakwork.base.errors import LedgerError, OutputError, first_line
from cloakwork.base.files import (
    Lock,
    data_home,
    draft_folder,
    lock_file,
    lock_if_abandoned,
    replace_file,
)
from cloakwork.base.frozen import frozen
from cloakwork.base.quantities import Frozen
from cloakwork.base.text import folded

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine, Table

ReleaseKind = Literal["reserve", "intent", "commit", "fail"]
"""What happens to a release."""

EventKind = Literal[
    "dataset-declared", "policy-added", "policy-approved", "policy-revoked", "compared"
]
"""What happens beside releases; such an entry names no release."""

EVENT_KINDS: Final[tuple[EventKind, ...]] = get_args(EventKind)

LAYOUT: Final = "0002"
"""The layout of the tables; a ledger of another one is neither read nor written."""

PATIENCE: Final = 120
"""Seconds to wait for other writers."""

_BEFORE_FIRST: Final = "0" * 64
"""What the first entry names as the digest of its predecessor."""

_DRIVER: Final = "psycopg"
"""What speaks with Postgres where the address names no driver, whatever SQLAlchemy would take."""

_POSTGRES_LOCK: Final = 0x636C6F616B  # "cloak"

_CONNECTION_LOST: Final = (
    "the connection was lost: what was being written was kept entirely or not at all, and "
    "'cloakwork ledger show' tells which"
)

_LOCK_TIMEOUT: Final = "55P03"
"""What Postgres calls a wait for a lock that took too long."""


# --- entries, and the chain that binds them


@frozen
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

    def is_of(self, dataset: str) -> bool:
        """Whether it is about ``dataset``, however that is spelt."""
        return folded(self.dataset) == folded(dataset)

    def fields(self) -> dict[str, Any]:
        """The body, parsed."""
        parsed: dict[str, Any] = json.loads(self.body)
        return parsed


@frozen
class Break:
    """The first entry (``seq`` counts from 1) at which the journal is not what was once written,
    and how it shows.
    """

    seq: int
    reason: str

    def __str__(self) -> str:
        return f"entry {self.seq}: {self.reason}"


def first_break(entries: tuple[Entry, ...]) -> Break | None:
    """Follow the digests from the first entry; None when every entry is unchanged and in its place.

    The chain is not keyed: it shows slips and edits by hand, not a forger who recomputes every
    later digest, nor the removal of the newest entries. Both show against a digest that a signed
    statement contains.
    """
    previous = _BEFORE_FIRST
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
class WriteTransaction:
    """One transaction over ``connection``: what the journal holds, and the right to append to
    it.
    """

    entries: tuple[Entry, ...]
    connection: "Connection"

    def append(
        self,
        kind: ReleaseKind | EventKind,
        release: str,
        dataset: str,
        body: Mapping[str, Any],
    ) -> Entry:
        """Add one entry; it stands once the transaction ends without an error."""
        # The digest covers all other fields, and so the whole chain before it.
        undigested = Entry(
            seq=len(self.entries) + 1,
            release=release,
            dataset=dataset,
            kind=kind,
            at=datetime.now(UTC).isoformat(),
            body=json.dumps(body, sort_keys=True),
            previous=self.entries[-1].digest if self.entries else _BEFORE_FIRST,
            digest="",
        )
        entry = replace(undigested, digest=undigested.expected_digest)
        self.connection.execute(tables().entries.insert().values(asdict(entry)))
        self.entries += (entry,)
        return entry


# --- the tables


class Tables(NamedTuple):
    """The tables of a ledger. ``entries``: one row an entry, by number; ``fingerprints``: one row a
    sample of case ids; ``windows``: one row a release of a window, with the cases that it was the
    first of; ``versions``: one row, the layout.
    """

    entries: "Table"
    fingerprints: "Table"
    windows: "Table"
    versions: "Table"


@lru_cache(maxsize=1)
def tables() -> Tables:
    """The tables; SQLAlchemy is loaded where they are first used."""
    from sqlalchemy import (
        Column,
        Integer,
        LargeBinary,
        MetaData,
        PrimaryKeyConstraint,
        String,
        Table,
        Text,
    )

    def texts(*names: str) -> list[Column[str]]:
        return [Column(name, Text, nullable=False) for name in names]

    return Tables(
        entries=Table(
            "cloakwork_ledger",
            MetaData(),
            Column("seq", Integer, primary_key=True, autoincrement=False),
            *texts(*[name for name in Entry.__dataclass_fields__ if name != "seq"]),
        ),
        fingerprints=Table(
            "cloakwork_fingerprints",
            MetaData(),
            *texts("release", "dataset", "sample"),
        ),
        windows=Table(
            "cloakwork_windows",
            MetaData(),
            *texts("release", "dataset", "window", "key_check"),
            Column("hashes", LargeBinary, nullable=False),
            Column("digest", Text),
        ),
        # Named and typed as in the ledgers that there are.
        versions=Table(
            "cloakwork_ledger_version",
            MetaData(),
            Column("version_num", String(32), nullable=False),
            PrimaryKeyConstraint("version_num", name="cloakwork_ledger_version_pkc"),
        ),
    )


def make_tables(connection: "Connection") -> None:
    """Make the tables, and note their layout."""
    for table in tables():
        table.create(connection)
    connection.execute(tables().versions.insert().values(version_num=LAYOUT))


def sqlite_engine(file: Path, *, read_only: bool = False) -> "Engine":
    """An engine for the file, which must exist: SQLite makes none."""
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    location = f"file:{quote(os.fspath(file))}?mode={'ro' if read_only else 'rw'}"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(location, uri=True, timeout=PATIENCE, isolation_level=None)

    return create_engine("sqlite://", creator=connect, poolclass=NullPool)


def make_sqlite_file(draft: Path) -> "Engine":
    """Make the file ``draft``, which must be new, with empty tables; for its owner only (0600), as
    SQLite then makes the files beside it.
    """
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL, 0o600))
    engine = sqlite_engine(draft)
    with engine.connect() as connection, connection.begin():
        connection.exec_driver_sql("BEGIN")
        make_tables(connection)
    return engine


def read_entries(connection: "Connection") -> tuple[Entry, ...]:
    """Every entry, oldest first."""
    table = tables().entries
    rows = connection.execute(table.select().order_by(table.c.seq))
    # SQLite keeps to no type where the file is damaged; no digest is that of another text.
    return tuple(
        Entry(seq, *[field if isinstance(field, str) else repr(field) for field in fields])
        for seq, *fields in rows
    )


# --- the address of a ledger


def parse_address(address: str) -> "URL":
    """The address, an SQLAlchemy URL or the path of an SQLite file, as a URL; raises LedgerError
    for what looks like a slip.
    """
    from sqlalchemy import URL, make_url
    from sqlalchemy.exc import ArgumentError

    if "://" not in address:
        if "\0" in address:
            raise LedgerError(repr(address), "is not a path")
        # A URL, or a path of another system, that lost a sign.
        looks_foreign = "\\" in address or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", address)
        if os.name != "nt" and looks_foreign:
            hint = (
                "write a path of this system, or a URL such as sqlite:///ledger.db or "
                "postgresql://host/name"
            )
            fault = f"is neither a path nor a URL; {hint}"
            raise LedgerError(_without_password(address), fault)
        return URL.create("sqlite", database=address)
    shown = _without_password(address)
    try:
        url = make_url(address)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError):
        raise LedgerError(shown, "is not a database URL") from None
    # A slip must not begin a new ledger somewhere else.
    if backend not in ("sqlite", "postgresql"):
        hint = "; write postgresql://..." if backend == "postgres" else ""
        raise LedgerError(shown, f"a ledger lives in SQLite or Postgres, not in '{backend}'{hint}")
    read_only = dict(url.query) == {"mode": "ro"}
    if backend == "sqlite" and (url.host or (url.query and not read_only)):
        hint = "write sqlite:///relative.db or sqlite:////absolute.db; ?mode=ro only reads"
        raise LedgerError(shown, f"is not the address of a file: {hint}")
    return url


def _without_password(address: str) -> str:
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def print_notice(message: str) -> None:
    """Print on standard error: what is done with a notice where the caller names nothing else."""
    print(message, file=sys.stderr, flush=True)


# --- the journal itself


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
            reason = "a ledger in memory would forget what was spent; name a file"
            raise LedgerError(self.name, reason)
        # A ledger called by signs or blanks alone is one that nobody meant.
        if not re.search(r"\w", str(self.url.database)):
            raise LedgerError(repr(self.address), "names no file")
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
            # SQLite reads of one moment within a transaction, Postgres at this level.
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
        with self._as_ledger_errors():
            if self.file is not None:
                return ReleaseLock(lock_file(self._lock_path(self.file, release)))
            connection, _ = self._session_lock("SELECT pg_advisory_lock(:key)", release)
            return ReleaseLock(connection)

    def try_lock_release(self, release: str) -> "ReleaseLock | None":
        """``lock_release`` where no process holds the lock; None where a live process, on whatever
        host, works on ``release``.
        """
        with self._as_ledger_errors():
            if self.file is not None:
                path = self._lock_path(self.file, release)
                if not path.exists():
                    return self.lock_release(release)
                lock = lock_if_abandoned(path)
                return None if lock is None else ReleaseLock(lock)
            connection, is_free = self._session_lock("SELECT pg_try_advisory_lock(:key)", release)
            if is_free:
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

    def _session_lock(self, statement: str, release: str) -> "tuple[Connection, Any]":
        """A session's lock, and what the server answered: the lock outlives the transaction, and
        ends with the connection.
        """
        from sqlalchemy import text

        # 56 bits of a digest, as Postgres takes a signed number of 64 bits.
        key = int.from_bytes(hashlib.sha256(release.encode()).digest()[:7])
        connection = self._sql_engine().connect()
        answer = connection.execute(text(statement), {"key": key}).scalar()
        connection.commit()
        return connection, answer

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
            reason = "is an empty file, not a ledger; remove it to begin a new one"
            raise LedgerError(self.name, reason)
        return True

    def _make_file(self, file: Path) -> None:
        """Make the ledger's file, whole or not at all: a kill here leaves no empty ledger."""
        if self.make_folder:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with draft_folder(file.parent, ".cloakwork-ledger") as folder:
            draft = folder / file.name
            make_sqlite_file(draft)
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
            return
        # SQLite waits as long; and a writer that no longer speaks must not hold all others up.
        for name in ("lock_timeout", "idle_in_transaction_session_timeout"):
            connection.exec_driver_sql(f"SET LOCAL {name} = '{PATIENCE}s'")
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _POSTGRES_LOCK})

    def _has_ledger(self, connection: "Connection") -> bool:
        """Whether the database holds a ledger; False for an empty database on a server, where one
        may be made.
        """
        from sqlalchemy import inspect

        entries = tables().entries
        versions = tables().versions
        names = inspect(connection).get_table_names()
        if entries.name not in names:
            if names or self.file is not None:
                raise LedgerError(self.name, "is a database, but not a ledger of Cloakwork")
            return False
        layouts = list[str]()
        if versions.name in names:
            layouts += map(str, connection.execute(versions.select()).scalars())
        found = ", ".join(layouts) or "none"
        if found != LAYOUT:
            reason = f"has the layout {found}, and this version of Cloakwork knows {LAYOUT} alone"
            raise LedgerError(self.name, f"{reason}; use the version that made it")
        return True

    @contextmanager
    def _as_ledger_errors(self) -> Iterator[None]:
        from sqlalchemy.exc import DBAPIError, SQLAlchemyError

        try:
            yield
        except DBAPIError as error:
            said = first_line(error.orig or error)
            timed_out = getattr(error.orig, "sqlstate", None) == _LOCK_TIMEOUT
            if timed_out or "database is locked" in said:
                said = f"others were writing to it for {PATIENCE} s ({said}); try again"
            elif error.connection_invalidated:
                said = f"{said}; {_CONNECTION_LOST}"
            raise LedgerError(self.name, said) from error
        except ImportError as error:
            package = (error.name or _DRIVER).partition(".")[0]
            # Without its extra psycopg needs a C library of the system.
            to_install = "psycopg[binary]" if package == _DRIVER else package
            reason = f"needs the package {package}, which cannot be loaded"
            raise LedgerError(self.name, f"{reason}; pip install '{to_install}'") from error
        except (SQLAlchemyError, sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise LedgerError(self.name, first_line(error)) from error


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
                NotedEntry.model_validate(entry, from_attributes=True)
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

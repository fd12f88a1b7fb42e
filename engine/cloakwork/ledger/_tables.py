"""The tables of a ledger, and the engine that opens an SQLite file."""

import os
import sqlite3
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from cloakwork.ledger.entries import Entry

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table

TABLE: Final = "cloakwork_ledger"

FINGERPRINTS: Final = "cloakwork_fingerprints"
"""Keyed samples of case ids. Outside the chain of entries, whose digests signed statements contain:
nothing public may depend on them.
"""

WINDOWS: Final = "cloakwork_windows"
"""Keyed hashes of the ids of the cases that were released with each window; outside the chain, as
fingerprints are.
"""

VERSIONS: Final = "cloakwork_ledger_version"
"""Which layout the tables have."""

LAYOUT: Final = "0002"
"""The layout of the tables below; a ledger of another one is neither read nor written."""

PATIENCE: Final = 120
"""Seconds to wait for other writers."""


@lru_cache(maxsize=1)
def entries_table() -> "Table":
    """One row an entry, by number."""
    from sqlalchemy import Column, Integer, MetaData, Table, Text

    number = Column("seq", Integer, primary_key=True, autoincrement=False)
    names = [name for name in Entry.__dataclass_fields__ if name != "seq"]
    texts = [Column(name, Text, nullable=False) for name in names]
    return Table(TABLE, MetaData(), number, *texts)


@lru_cache(maxsize=1)
def fingerprints_table() -> "Table":
    """One row a fingerprint."""
    from sqlalchemy import Column, MetaData, Table, Text

    names = ("release", "dataset", "sample")
    columns = [Column(name, Text, nullable=False) for name in names]
    return Table(FINGERPRINTS, MetaData(), *columns)


@lru_cache(maxsize=1)
def windows_table() -> "Table":
    """One row a release, with the cases that it was the first of."""
    from sqlalchemy import Column, LargeBinary, MetaData, Table, Text

    names = ("release", "dataset", "window", "key_check")
    columns = [Column(name, Text, nullable=False) for name in names]
    hashes, digest = Column("hashes", LargeBinary, nullable=False), Column("digest", Text)
    return Table(WINDOWS, MetaData(), *columns, hashes, digest)


@lru_cache(maxsize=1)
def versions_table() -> "Table":
    """One row: the layout of the tables."""
    from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, String, Table

    # Named and typed as in the ledgers that there are.
    number = Column("version_num", String(32), nullable=False)
    key = PrimaryKeyConstraint("version_num", name=f"{VERSIONS}_pkc")
    return Table(VERSIONS, MetaData(), number, key)


def make_tables(connection: "Connection") -> None:
    """Make the tables, and note their layout."""
    for table in (entries_table(), fingerprints_table(), windows_table(), versions_table()):
        table.create(connection)
    connection.execute(versions_table().insert().values(version_num=LAYOUT))


def layout_of(connection: "Connection") -> str:
    """The layout that a ledger's tables have; ``none`` where no number says it."""
    from sqlalchemy import inspect

    if not inspect(connection).has_table(VERSIONS):
        return "none"
    found = connection.execute(versions_table().select()).scalars().all()
    return ", ".join(found) or "none"


def sqlite_engine(file: Path, *, read_only: bool = False) -> "Engine":
    """An engine for the file, which must exist: SQLite makes none."""
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    location = f"file:{quote(os.fspath(file))}?mode={'ro' if read_only else 'rw'}"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(location, uri=True, timeout=PATIENCE, isolation_level=None)

    return create_engine("sqlite://", creator=connect, poolclass=NullPool)

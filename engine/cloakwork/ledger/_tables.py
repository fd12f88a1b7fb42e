"""The tables of a ledger, and the engine that opens an SQLite file."""

import os
import sqlite3
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from cloakwork.ledger.entries import Entry

if TYPE_CHECKING:
    from sqlalchemy import Engine, Table

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
    """One row: the layout of the tables, as alembic keeps it."""
    from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, String, Table

    number = Column("version_num", String(32), nullable=False)
    key = PrimaryKeyConstraint("version_num", name=f"{VERSIONS}_pkc")
    return Table(VERSIONS, MetaData(), number, key)


def all_tables() -> "tuple[Table, ...]":
    """The tables of today's layout."""
    return (entries_table(), fingerprints_table(), windows_table(), versions_table())


def sqlite_engine(file: Path, *, read_only: bool = False) -> "Engine":
    """An engine for the file, which must exist: SQLite makes none."""
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    location = f"file:{quote(os.fspath(file))}?mode={'ro' if read_only else 'rw'}"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(location, uri=True, timeout=PATIENCE, isolation_level=None)

    return create_engine("sqlite://", creator=connect, poolclass=NullPool)

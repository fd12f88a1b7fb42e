"""OCEL 2.0 as a SQLite database (ocel-standard.org, "OCEL 2.0 Specification", section SQLite).

The file comes from somebody else, so nothing in it runs: it is opened read-only and immutable, with
an untrusted schema and no extensions; only its plain tables are read (no view, no virtual table, no
generated column), and an authorizer allows nothing but to read columns. What is read is counted
against the limits, since pages of a forged file can be shared.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from cloakwork.base.errors import LogError
from cloakwork.base.text import first_line, shown, size_text
from cloakwork.log.formats.column_layout import Kind
from cloakwork.log.formats.ocel import ObjectLog, joint_kind, table_of
from cloakwork.log.formats.source import LogStream, empty_file
from cloakwork.log.limits import RATIO_FROM, Limits, raising

_ALLOWED: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ})
_SAFEGUARDS: Final = ("trusted_schema=OFF", "cell_size_check=ON", "query_only=ON", "mmap_size=0")
_KINDS: Final[dict[str, Kind]] = {
    "INTEGER": "int",
    "INT": "int",
    "BIGINT": "int",
    "REAL": "float",
    "FLOAT": "float",
    "DOUBLE": "float",
    "BOOLEAN": "boolean",
    "TIMESTAMP": "date",
    "DATETIME": "date",
}
_OWN: Final = frozenset({"ocel_id", "ocel_time", "ocel_changed_field"})
_AGAIN: Final = "export the log as OCEL 2.0 again"
_ROW_BYTES: Final = 16
"""What a value takes at least, however short."""


def read_object_log(path: Path, limits: Limits) -> ObjectLog:
    """The log as tables of texts. ``LogError`` for what is no OCEL 2.0 database."""
    with LogStream(path, limits) as stream:
        if not stream.read(1):
            raise empty_file(path)
    address = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            return _Database(path, database, limits).read()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise LogError(
            path, f"this is no readable SQLite log ({first_line(error)})", hint=_AGAIN
        ) from None


class _Database:
    """Reads the tables that the standard names, one at a time."""

    def __init__(self, path: Path, database: sqlite3.Connection, limits: Limits) -> None:
        self._path, self._database, self._limits = path, database, limits
        self._bytes, self._size = 0, max(1, path.stat().st_size)
        for safeguard in _SAFEGUARDS:
            database.execute(f"PRAGMA {safeguard}")
        self._columns = self._plain_tables()
        database.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY
        )

    def read(self) -> ObjectLog:
        """The tables of the log."""
        event_kinds: dict[str, Kind] = {}
        times: dict[str, str | None] = {}
        event_values: list[tuple[str | None, ...]] = []
        repeated = 0
        for _, table in self._mapped("event"):
            kinds = self._attributes_of(table)
            for name, kind in kinds.items():
                event_kinds[name] = joint_kind(event_kinds.get(name), kind)
            for row in self._rows(table, "ocel_id", "ocel_time", *kinds):
                repeated += str(row[0]) in times
                times[str(row[0])] = row[1]
                named = zip(kinds, row[2:], strict=True)
                event_values += [(row[0], name, text) for name, text in named if text is not None]
        object_kinds: dict[tuple[str, str], Kind] = {}
        object_values: list[tuple[str | None, ...]] = []
        types: list[str] = []
        for type_, table in self._mapped("object"):
            types.append(type_)
            kinds = self._attributes_of(table)
            object_kinds |= {(type_, name): kind for name, kind in kinds.items()}
            for row in self._rows(table, "ocel_id", "ocel_time", *kinds):
                named = zip(kinds, row[2:], strict=True)
                object_values += [
                    (row[0], name, row[1], text) for name, text in named if text is not None
                ]
        events = [
            (id_, type_, times.get(str(id_)))
            for id_, type_ in self._rows("event", "ocel_id", "ocel_type")
        ]
        between = (
            self._rows("object_object", "ocel_source_id")
            if "object_object" in self._columns
            else ()
        )
        return ObjectLog(
            events=table_of(("event", "type", "time"), events),
            objects=table_of(("object", "type"), [*self._rows("object", "ocel_id", "ocel_type")]),
            relations=table_of(
                ("event", "object"),
                [*self._rows("event_object", "ocel_event_id", "ocel_object_id")],
            ),
            event_values=table_of(("event", "name", "value"), event_values),
            object_values=table_of(("object", "name", "time", "value"), object_values),
            object_types=tuple(dict.fromkeys(types)),
            event_kinds=event_kinds,
            object_kinds=object_kinds,
            relations_of_objects=sum(1 for _ in between),
            repeated_events=repeated,
        )

    def _plain_tables(self) -> dict[str, dict[str, str]]:
        """The stored columns of each plain table, with their declared types."""
        found: dict[str, dict[str, str]] = {}
        # A virtual table and a view have no page of their own.
        plain = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
        for (name,) in self._database.execute(plain).fetchall():
            columns = self._database.execute(f"PRAGMA table_xinfo({_quoted(name)})").fetchall()
            # The last field is not 0 for hidden and generated columns.
            found[name] = {column[1]: str(column[2]).upper() for column in columns if not column[6]}
            self._count(sum(len(column) for column in found[name]))
        return found

    def _mapped(self, what: str) -> Iterator[tuple[str, str]]:
        """Each type of events or objects, and the table that holds them."""
        for type_, short in self._rows(f"{what}_map_type", "ocel_type", "ocel_type_map"):
            yield str(type_), f"{what}_{short}"

    def _attributes_of(self, table: str) -> dict[str, Kind]:
        """The attributes that a table of one type has."""
        columns = self._columns_of(table)
        if len(columns) > self._limits.attributes:
            said = f"a table has {len(columns):,} columns, the limit is {self._limits.attributes:,}"
            raise LogError(self._path, said, hint=raising("attributes", len(columns)))
        return {
            name: _KINDS.get(kind, "text") for name, kind in columns.items() if name not in _OWN
        }

    def _columns_of(self, table: str) -> dict[str, str]:
        if table not in self._columns:
            said = f"the database has no table '{shown(table)}', so it is no OCEL 2.0 log"
            raise LogError(self._path, said, hint=_AGAIN)
        return self._columns[table]

    def _rows(self, table: str, *columns: str) -> Iterator[tuple[str | None, ...]]:
        """The rows of a table as texts, in the order of the file."""
        stored = self._columns_of(table)
        for column in columns:
            if column not in stored:
                said = f"the table '{shown(table)}' has no column '{shown(column)}'"
                raise LogError(self._path, said, hint=_AGAIN)
        listed = ", ".join(map(_quoted, columns))
        for row in self._database.execute(f"SELECT {listed} FROM {_quoted(table)}"):
            texts = tuple(map(self._text, row))
            self._count(sum(_ROW_BYTES + len(text or "") for text in texts))
            yield texts

    def _text(self, value: Any) -> str | None:
        if isinstance(value, bytes):
            said = "a value is of bytes, which no attribute of a log has"
            raise LogError(self._path, said, hint=_AGAIN)
        return None if value is None or value == "" else str(value)

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limits.unpacked_size:
            raise LogError(
                self._path,
                f"the file holds more than {size_text(self._limits.unpacked_size)}, the limit",
                hint=raising("unpacked-size", 2 * self._limits.unpacked_size),
            )
        if self._bytes > max(RATIO_FROM, self._limits.unpack_ratio * self._size):
            raise LogError(
                self._path,
                f"the file holds more than {self._limits.unpack_ratio} times its size, the limit",
                hint=raising("unpack-ratio", 1100),
            )


def _quoted(name: str) -> str:
    """An identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'

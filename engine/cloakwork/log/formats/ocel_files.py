"""The two files of OCEL 2.0 (ocel-standard.org, "OCEL 2.0 Specification"): JSON and SQLite, each as
tables of texts.

A database comes from somebody else, so nothing in it runs: it is opened read-only and immutable,
with an untrusted schema and no extensions; only its plain tables are read (no view, no virtual
table, no generated column), and an authorizer allows nothing but to read columns. What is read is
counted against the limits, since pages of a forged file can be shared.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import quote

import polars as pl

from cloakwork.base.errors import LogError
from cloakwork.base.text import first_line, shown
from cloakwork.log.formats.kinds import Kind, joined_declared
from cloakwork.log.formats.source import LogStream, empty_file, require_bytes
from cloakwork.log.limits import Limits, raising, refuse_unpacked

_KINDS_IN_JSON: Final[dict[str, Kind]] = {
    "string": "text",
    "integer": "int",
    "float": "float",
    "boolean": "boolean",
    "time": "date",
    "date": "date",
}
_ALLOWED: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ})
_SAFEGUARDS: Final = ("trusted_schema=OFF", "cell_size_check=ON", "query_only=ON", "mmap_size=0")
_KINDS_IN_SQLITE: Final[dict[str, Kind]] = {
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


@dataclass(frozen=True, slots=True)
class ObjectLog:
    """An object-centric log as tables of texts, in file order.

    - ``events``: columns ``event``, ``type``, ``time``.
    - ``objects``: columns ``object``, ``type``.
    - ``relations``: columns ``event``, ``object``, one row a qualifier.
    - ``event_values``: columns ``event``, ``name``, ``value``.
    - ``object_values``: columns ``object``, ``name``, ``time``, ``value``.
    - ``object_types``: all that the file declares.
    - ``event_kinds``, ``object_kinds``: what values are, by the names of attributes (of objects:
      of type and name), as the file declares.
    - ``relations_of_objects``: how many relations between objects there are.
    - ``repeated_events``: rows of events beyond the first of each, whose last time counts.
    """

    events: pl.DataFrame
    objects: pl.DataFrame
    relations: pl.DataFrame
    event_values: pl.DataFrame
    object_values: pl.DataFrame
    object_types: tuple[str, ...]
    event_kinds: dict[str, Kind]
    object_kinds: dict[tuple[str, str], Kind]
    relations_of_objects: int
    repeated_events: int = 0


def _table_of(columns: tuple[str, ...], rows: Sequence[tuple[str | None, ...]]) -> pl.DataFrame:
    """Rows of texts as a table."""
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")


def from_json(path: Path, limits: Limits) -> ObjectLog:
    """The log as tables of texts. ``LogError`` for what is no OCEL 2.0 file in JSON."""
    with LogStream(path, limits) as stream:
        data = stream.read_all()
    if not data.strip():
        raise empty_file(path)
    try:
        # Numbers stay the characters that they are.
        content = json.loads(data, parse_int=str, parse_float=str, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise LogError(
            path,
            f"this is no readable JSON ({first_line(error)})",
            line=getattr(error, "lineno", None),
            hint=_AGAIN,
        ) from None
    return _Document(path).read(content)


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


class _Document:
    """Takes a document apart; ``LogError`` where it is not as the standard says."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, content: Any) -> ObjectLog:
        """The tables of a document."""
        if not (isinstance(content, dict) and {"events", "objects", "objectTypes"} <= set(content)):
            raise self._fault("the file is JSON, and no OCEL 2.0 log")
        event_kinds: dict[str, Kind] = {}
        for _, name, kind in self._declared(content, "eventTypes"):
            event_kinds[name] = joined_declared(event_kinds.get(name, kind), kind)
        object_kinds = {
            (type_, name): kind for type_, name, kind in self._declared(content, "objectTypes")
        }
        events: list[tuple[str, str, str]] = []
        relations: list[tuple[str, str]] = []
        event_values: list[tuple[str, str, str | None]] = []
        for event in self._listed(content, "events"):
            id_ = self._text(event, "id", "event")
            events.append(
                (id_, self._text(event, "type", "event"), self._text(event, "time", "event"))
            )
            for relation in self._listed(event, "relationships"):
                relations.append((id_, self._text(relation, "objectId", "relationship")))
            for item in self._listed(event, "attributes"):
                event_values.append((id_, self._text(item, "name", "attribute"), self._value(item)))
        objects: list[tuple[str, str]] = []
        object_values: list[tuple[str, str, str | None, str | None]] = []
        between = 0
        for item in self._listed(content, "objects"):
            id_ = self._text(item, "id", "object")
            objects.append((id_, self._text(item, "type", "object")))
            between += len(self._listed(item, "relationships"))
            for given in self._listed(item, "attributes"):
                stated = given.get("time")
                when = stated if isinstance(stated, str) else None
                name = self._text(given, "name", "attribute")
                object_values.append((id_, name, when, self._value(given)))
        types = (
            self._text(item, "name", "object type") for item in self._listed(content, "objectTypes")
        )
        return ObjectLog(
            events=_table_of(("event", "type", "time"), events),
            objects=_table_of(("object", "type"), objects),
            relations=_table_of(("event", "object"), relations),
            event_values=_table_of(("event", "name", "value"), event_values),
            object_values=_table_of(("object", "name", "time", "value"), object_values),
            object_types=tuple(dict.fromkeys(types)),
            event_kinds=event_kinds,
            object_kinds=object_kinds,
            relations_of_objects=between,
        )

    def _declared(self, content: Any, key: str) -> Iterator[tuple[str, str, Kind]]:
        """Each attribute that a type declares: the type, the name, what its values are."""
        for item in self._listed(content, key):
            type_ = self._text(item, "name", key)
            for attribute in self._listed(item, "attributes"):
                kind = _KINDS_IN_JSON.get(str(attribute.get("type")).lower(), "text")
                yield type_, self._text(attribute, "name", "attribute"), kind

    def _listed(self, content: dict[str, Any], key: str) -> list[dict[str, Any]]:
        found = content.get(key)
        if found is None:
            return []
        if not (isinstance(found, list) and all(isinstance(item, dict) for item in found)):
            raise self._fault(f"'{key}' is no list of objects")
        return found

    def _text(self, content: dict[str, Any], key: str, what: str) -> str:
        found = content.get(key)
        if not isinstance(found, str) or not found:
            raise self._fault(f"an entry of kind {what} has no {key}")
        return found

    def _value(self, content: dict[str, Any]) -> str | None:
        found = content.get("value")
        if isinstance(found, bool):
            return "true" if found else "false"
        if found is None or isinstance(found, str):
            return found or None
        raise self._fault(f"the value of '{shown(str(content.get('name')))}' is no single value")

    def _fault(self, said: str) -> LogError:
        return LogError(self._path, said, hint=_AGAIN)


def from_sqlite(path: Path, limits: Limits) -> ObjectLog:
    """The log as tables of texts. ``LogError`` for what is no OCEL 2.0 database."""
    require_bytes(path)
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
                event_kinds[name] = joined_declared(event_kinds.get(name, kind), kind)
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
            events=_table_of(("event", "type", "time"), events),
            objects=_table_of(("object", "type"), [*self._rows("object", "ocel_id", "ocel_type")]),
            relations=_table_of(
                ("event", "object"),
                [*self._rows("event_object", "ocel_event_id", "ocel_object_id")],
            ),
            event_values=_table_of(("event", "name", "value"), event_values),
            object_values=_table_of(("object", "name", "time", "value"), object_values),
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
            name: _KINDS_IN_SQLITE.get(kind, "text")
            for name, kind in columns.items()
            if name not in _OWN
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
        refuse_unpacked(self._path, self._bytes, self._size, self._limits, "the file holds")


def _quoted(name: str) -> str:
    """An identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'

"""Object-centric logs (OCEL 2.0), flattened: each object of one declared type becomes a case.

Flattening loses what the log is for. An event of several objects of the type is copied into the
case of each, one of none is lost, and so are objects of other types and relations between objects
(van der Aalst, "Object-Centric Process Mining: Dealing with Divergence and Convergence in Event
Data", SEFM 2019). Counts of all that are in the log's notes.

An attribute NAME of the objects is there twice: ``case:NAME`` is its value at the first event of
the case, ``object:NAME`` its value at each event.

OCEL 2.0 (ocel-standard.org, "OCEL 2.0 Specification") is read in JSON, XML and SQLite, OCEL 1.0 in
JSON, XML and the CSV of pm4py. A database comes from somebody else, so nothing in it
runs: it is opened read-only and immutable, with an untrusted schema and no extensions; only its
plain tables are read (no view, no virtual table, no generated column), and an authorizer allows
nothing but to read columns. What is read is counted against the limits, since pages of a forged
file can be shared.
"""

import ast
import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import quote

import polars as pl

from cloakwork.base.errors import LogError, UnsaidInput, first_line
from cloakwork.base.naming import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP, values_of
from cloakwork.base.text import first_names, shown
from cloakwork.log.formats.column_names import ColumnNames
from cloakwork.log.formats.csv import csv_tables
from cloakwork.log.formats.csv_records import CsvBlocks, Records
from cloakwork.log.formats.kinds import Kind, cast_to_kind, inferred, joined_declared, round_trips
from cloakwork.log.formats.options import InputFormat, InputOptions
from cloakwork.log.formats.row_source import Reader, ReadRequest
from cloakwork.log.formats.source import LogStream, empty_file, require_bytes
from cloakwork.log.formats.tables import FileTable, TableSource, counted_notes
from cloakwork.log.formats.written_times import ISO_TIMES, WrittenTimes
from cloakwork.log.formats.xes_full import XmlReader
from cloakwork.log.limits import Limits, raising, refuse_columns, refuse_unpacked

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
_OBJECT_BYTES: Final = 400
"""What an object in a cell takes in memory, about."""


Row = tuple[str | None, ...]
_COLUMNS: Final = {
    "events": ("event", "type", "time"),
    "objects": ("object", "type"),
    "relations": ("event", "object"),
    "event_values": ("event", "name", "value"),
    "object_values": ("object", "name", "time", "value"),
}
"""Of the tables of an object-centric log, as texts, in file order; ``relations``: a row a
qualifier.
"""


class ObjectLog:
    """What a file says, as it is read.

    - ``rows``: of the tables of ``_COLUMNS``; ``table``: one of them.
    - ``object_types``: all that the file declares.
    - ``event_kinds``, ``object_kinds``: what values are, by the names of attributes (of objects:
      of type and name), as the file declares.
    - ``infers``: it declares nothing, so that values of events are what all of them look like, and
      texts of objects times where all of them do.
    - ``between_objects``: how many relations between objects there are.
    - ``repeated_events``: rows of events beyond the first of each, whose last time counts.
    """

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {name: [] for name in _COLUMNS}
        self.object_types: dict[str, None] = {}
        self.event_kinds: dict[str, Kind] = {}
        self.object_kinds: dict[tuple[str, str], Kind] = {}
        self.between_objects = self.repeated_events = 0
        self.infers = False

    def table(self, name: str) -> pl.DataFrame:
        """One of the tables, whose rows are let go of."""
        schema = dict.fromkeys(_COLUMNS[name], pl.String)
        return pl.DataFrame(self.rows.pop(name), schema=schema, orient="row")

    def declare_of_events(self, name: str, kind: Kind) -> None:
        """An attribute of some type of events: those of one name are one."""
        self.event_kinds[name] = joined_declared(self.event_kinds.get(name, kind), kind)


def from_json(path: Path, limits: Limits) -> ObjectLog:
    """The log as tables of texts. ``LogError`` for what is no OCEL 2.0 file in JSON."""
    with LogStream(path, limits) as stream:
        data = stream.read_all()
    if not data.strip():
        raise empty_file(path)
    try:
        text = data.decode(json.detect_encoding(data))
        content = _JSON.decode(text)
        # JSON can spell half of a character, which is no text.
        if "\\ud" in text.lower():
            json.dumps(content, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise LogError(
            path,
            f"this is no readable JSON ({first_line(error)})",
            line=getattr(error, "lineno", None),
            hint=_AGAIN,
        ) from None
    return _Document(path).read(content)


class _Whole(str):
    """A whole number in JSON, as the characters that it is."""


class _Decimal(str):
    """Another number."""


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


_JSON: Final = json.JSONDecoder(
    parse_int=_Whole, parse_float=_Decimal, parse_constant=_refuse_constant
)
_KINDS_OF_VALUES: Final[dict[type, Kind]] = {
    _Whole: "int",
    _Decimal: "float",
    bool: "boolean",
    str: "text",
    type(None): "empty",
}


def from_xml(path: Path, limits: Limits) -> ObjectLog:
    """As ``from_json``, of OCEL 1.0 or 2.0 in XML."""
    document = _XmlDocument(path)
    with LogStream(path, limits) as stream:
        document.parse(stream)
    return _Document(path).read(document.content)


Entry = dict[str, Any]
_SECTIONS: Final = {
    "object-types": "objectTypes",
    "event-types": "eventTypes",
    "objects": "objects",
    "events": "events",
}
"""The elements that hold the entries, and what the standard calls them in JSON."""


class _XmlDocument(XmlReader):
    """Makes the document of OCEL 2.0 in JSON of one in XML. An element is let go of when the event,
    object or type that it stands in ends.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.content: dict[str, list[Entry]] = {name: [] for name in _SECTIONS.values()}
        self._open: list[Entry] = []
        self.parser.CharacterDataHandler = self._add_text

    def _start_element(self, name: str, attributes: dict[str, str]) -> None:
        own = {"tag": name.rpartition(" ")[2], "inside": [], "texts": []}
        self._open.append({**attributes, **own})

    def _add_text(self, text: str) -> None:
        self._open[-1]["texts"].append(text)

    def _end_element(self, name: str) -> None:
        ended = self._open.pop()
        ended.setdefault("value", "".join(ended["texts"]))
        if len(self._open) > 2:
            self._open[-1]["inside"].append(ended)
        elif len(self._open) == 2 and (section := _SECTIONS.get(self._open[-1]["tag"])):
            self.content[section].append(_entry_of(ended))


def _entry_of(ended: Entry) -> Entry:
    """The entry in JSON of an element. OCEL 1.0 has an element with a key where 2.0 has an
    attribute.
    """
    said = {each.get("key"): each["value"] for each in ended["inside"]} | ended

    def parts(*names: str) -> list[Entry]:
        lists = (each for each in ended["inside"] if {each["tag"], each.get("key")} & {*names})
        return [part for each in lists for part in each["inside"]]

    return {
        "name": said.get("name"),
        "id": said.get("id"),
        "type": said.get("type", said.get("activity")),
        "time": said.get("time", said.get("timestamp")),
        "relationships": [
            {"objectId": part.get("object-id", part["value"])} for part in parts("objects", "omap")
        ],
        "attributes": [
            {"name": part.get("key"), **part} for part in parts("attributes", "vmap", "ovmap")
        ],
    }


class _Document:
    """Takes a document apart, into ``found``; ``LogError`` where it is not as the standard says."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.found = ObjectLog()
        self._line: Callable[[], int] | None = None

    def read(self, content: Any) -> ObjectLog:
        """The tables of a document."""
        if isinstance(content, dict) and "ocel:events" in content:
            content = self._as_second(content)
        if not (isinstance(content, dict) and {"events", "objects", "objectTypes"} <= set(content)):
            raise self._fault("the file is JSON, and no OCEL 2.0 log")
        found = self.found
        for _, name, kind in self._declared(content, "eventTypes"):
            found.declare_of_events(name, kind)
        for type_, name, kind in self._declared(content, "objectTypes"):
            found.object_kinds[type_, name] = kind
        for event in self._listed(content, "events"):
            self._add_event(event)
        for item in self._listed(content, "objects"):
            self._add_object(item)
        for item in self._listed(content, "objectTypes"):
            found.object_types[self._text(item, "name", "object type")] = None
        # The first version declares none.
        found.object_types = found.object_types or {
            str(type_): None for _, type_ in found.rows["objects"]
        }
        return found

    def _add_event(self, event: Entry) -> None:
        rows = self.found.rows
        id_ = self._text(event, "id", "event")
        type_, time = self._text(event, "type", "event"), self._text(event, "time", "event")
        rows["events"].append((id_, type_, time))
        for relation in self._listed(event, "relationships"):
            target = self._text(relation, "objectId", "relationship")
            rows["relations"].append((id_, target))
        for item in self._listed(event, "attributes"):
            name = self._text(item, "name", "attribute")
            rows["event_values"].append((id_, name, self._value(item)))

    def _add_object(self, item: Entry) -> None:
        rows = self.found.rows
        id_ = self._text(item, "id", "object")
        rows["objects"].append((id_, self._text(item, "type", "object")))
        self.found.between_objects += len(self._listed(item, "relationships"))
        for given in self._listed(item, "attributes"):
            stated = given.get("time")
            when = stated if isinstance(stated, str) else None
            name = self._text(given, "name", "attribute")
            rows["object_values"].append((id_, name, when, self._value(given)))

    def _as_second(self, content: Any) -> dict[str, Any]:
        """A document of OCEL 1.0 as one of 2.0. It declares no kinds of values: all are texts."""

        def entries(key: str, type_: str, values: str) -> list[dict[str, Any]]:
            return [
                {
                    "id": id_,
                    "type": each.get(type_),
                    "time": each.get("ocel:timestamp"),
                    # Copying fails for a text, whose characters are no objects.
                    "relationships": [
                        {"objectId": one} for one in each.get("ocel:omap", []).copy()
                    ],
                    "attributes": [
                        {"name": name, "value": value}
                        for name, value in each.get(values, {}).items()
                    ],
                }
                for id_, each in content[key].items()
            ]

        try:
            events = entries("ocel:events", "ocel:activity", "ocel:vmap")
            objects = entries("ocel:objects", "ocel:type", "ocel:ovmap")
        except (AttributeError, KeyError, TypeError):
            raise self._fault("an entry is not as OCEL 1.0 has it") from None
        return {"events": events, "objects": objects, "objectTypes": []}

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
        # A forged document may hold anything in the place of a list.
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
        # Numbers are texts by now; lists and objects are no values.
        if found is None or isinstance(found, str):
            return found or None
        raise self._fault(f"the value of '{shown(str(content.get('name')))}' is no single value")

    def _fault(self, said: str) -> LogError:
        return LogError(self._path, said, line=self._line() if self._line else None, hint=_AGAIN)


def from_csv(path: Path, limits: Limits) -> ObjectLog:
    """As ``from_json``, of OCEL 1.0 or 2.0 in CSV as pm4py writes it: a row an event, a column a
    type of objects. In OCEL 2.0 further rows say what objects are like and, called ``o2o``, what
    they have to do with each other; 1.0 has neither.
    """
    with LogStream(path, limits) as stream:
        header, blocks = csv_tables(CsvBlocks(stream, InputOptions()))
        document = _CsvDocument(stream, header)
        for records, table in blocks:
            document.add(records, table)
    found = document.found
    # An object is named by each of its events.
    found.rows["objects"] = [*dict.fromkeys(found.rows["objects"])]
    return found


class _CsvDocument(_Document):
    """Takes rows apart, of which a ``header`` names the columns."""

    def __init__(self, stream: LogStream, header: Sequence[str]) -> None:
        super().__init__(stream.path)
        self._limits, self._size, self._objects = stream.limits, 0, 0
        self.found.infers = infers = "ocel:eid" not in header
        self._main, self._prefix, self._read_cell = _SECOND if infers else _FIRST
        for name in self._main:
            if name not in header:
                raise self._fault(f"there is no column '{name}'")
        self._ids: set[str | None] = set()

    def add(self, records: Records, table: pl.DataFrame) -> None:
        """Some rows, as texts."""
        self._size += len(records.data)
        times = values_of(table, self._main[-1])
        _typed(self._path, TIMESTAMP, times, "date", ISO_TIMES, records.line_of_row)
        for place, row in enumerate(table.iter_rows(named=True)):
            self._line = partial(records.line_of_row, place)
            self._add_row(row)

    def _add_row(self, row: dict[str, str | None]) -> None:
        id_, activity, time = map(row.pop, self._main)
        related: list[Entry] = []
        values: list[Entry] = []
        for column, cell in row.items():
            if column.startswith(self._prefix):
                type_ = column.removeprefix(self._prefix)
                self.found.object_types[type_] = None
                related += self._objects_of(cell or "", type_, time)
            # Columns without a name begin with a NUL.
            elif cell and not column.startswith(("ocel:", "\0")):
                values.append({"name": column, "value": cell})
        infers = self.found.infers
        if infers and str(activity).lower() == "o2o":
            self.found.between_objects += len(related)
        elif not infers or id_ or activity or values:
            if id_ in self._ids:
                raise self._fault(f"two events have the id '{shown(str(id_))}'")
            self._ids.add(id_)
            self._add_event(
                {
                    "id": id_,
                    "type": activity,
                    "time": time,
                    "relationships": related,
                    "attributes": values,
                }
            )

    def _objects_of(self, cell: str, type_: str, time: str | None) -> Iterator[Entry]:
        """The relations that a cell says, of whose objects it may say more."""
        # Before they are taken apart: two bytes can name an object.
        self._objects += max(map(cell.count, "/,"))
        taken = self._objects * _OBJECT_BYTES
        refuse_unpacked(self._path, taken, self._size, self._limits, "its lists of objects take")
        try:
            listed = [*self._read_cell(cell)] if cell else []
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            raise self._fault(f"'{shown(cell)}' is no list of objects") from None
        kinds = self.found.object_kinds
        for name, given in listed:
            values = [{"name": key, "time": time, "value": each} for key, each in given.items()]
            self._add_object({"id": name, "type": type_, "attributes": values})
            for key, each in given.items():
                kind = _KINDS_OF_VALUES[type(each)]
                kinds[type_, key] = joined_declared(kinds.get((type_, key), kind), kind)
            yield {"objectId": name}


def _names_in(cell: str) -> Iterator[tuple[str, Entry]]:
    """The objects of a cell of OCEL 1.0, ``['o1', 'o2']`` or one, without values."""
    names = ast.literal_eval(cell) if cell.startswith("[") else [cell]
    yield from (("" + name, {}) for name in names)


def _references_in(cell: str) -> Iterator[tuple[str, Entry]]:
    """The objects of a cell of OCEL 2.0, and the values that it gives them:
    ``o1#qualifier{"price": 3}/o2``. ``ValueError`` where it is written otherwise.
    """
    end = -1
    while end < len(cell):
        named = _REFERENCE.match(cell, end + 1)
        if named is None:
            raise ValueError
        end, values = named.end(), dict[str, Any]()
        if cell.startswith("{", end):
            values, end = _JSON.raw_decode(cell, end)
            # JSON can spell half of a character, which is no text.
            json.dumps(values, ensure_ascii=False).encode()
        if not cell.startswith("/", end) and end < len(cell):
            raise ValueError
        yield re.sub(r"\\(.)", r"\1", named[1]), values


_PART: Final = r"(?:[^\\/#{]|\\[\\/#{])"
_REFERENCE: Final = re.compile(rf"({_PART}++)(?:#{_PART}*+)?")
_FIRST: Final = (("ocel:eid", "ocel:activity", "ocel:timestamp"), "ocel:type:", _names_in)
_SECOND: Final = (("id", "activity", "timestamp"), "ot:", _references_in)
"""The columns of events, what stands before a type of objects, and what reads a cell of it."""


def from_sqlite(path: Path, limits: Limits) -> ObjectLog:
    """The log as tables of texts. ``LogError`` for what is no OCEL 2.0 database."""
    require_bytes(path)
    # Immutable: SQLite writes nothing beside the file, and plays back no journal.
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
        # Before the first query, so that nothing in a hostile schema can act.
        for safeguard in _SAFEGUARDS:
            database.execute(f"PRAGMA {safeguard}")
        # Looked up first, as the authorizer forbids pragmas as well.
        self._columns = self._plain_tables()
        database.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY
        )

    def read(self) -> ObjectLog:
        """The tables of the log."""
        found = ObjectLog()
        rows = found.rows
        times: dict[str, str | None] = {}
        for _, table in self._mapped("event"):
            kinds = self._attributes_of(table)
            for name, kind in kinds.items():
                found.declare_of_events(name, kind)
            for id_, time, *texts in self._rows(table, "ocel_id", "ocel_time", *kinds):
                found.repeated_events += str(id_) in times
                times[str(id_)] = time
                rows["event_values"] += [
                    (id_, name, text)
                    for name, text in zip(kinds, texts, strict=True)
                    if text is not None
                ]
        for type_, table in self._mapped("object"):
            found.object_types[type_] = None
            kinds = self._attributes_of(table)
            found.object_kinds |= {(type_, name): kind for name, kind in kinds.items()}
            # pm4py writes no times where no value ever changes.
            of_time = [each for each in ["ocel_time"] if each in self._columns[table]]
            for id_, *held in self._rows(table, "ocel_id", *kinds, *of_time):
                texts, time = held[: len(kinds)], held[-1] if of_time else None
                rows["object_values"] += [
                    (id_, name, time, text)
                    for name, text in zip(kinds, texts, strict=True)
                    if text is not None
                ]
        for id_, type_of in self._rows("event", "ocel_id", "ocel_type"):
            rows["events"].append((id_, type_of, times.get(str(id_))))
        rows["objects"] += self._rows("object", "ocel_id", "ocel_type")
        rows["relations"] += self._rows("event_object", "ocel_event_id", "ocel_object_id")
        if "object_object" in self._columns:
            found.between_objects = sum(1 for _ in self._rows("object_object", "ocel_source_id"))
        return found

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
        columns = self._columns_of(table)
        refuse_columns(self._path, "a table", len(columns), self._limits)
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

    def _rows(self, table: str, *columns: str) -> Iterator[Row]:
        """The rows of a table as texts, in the order of the file."""
        stored = self._columns_of(table)
        for column in columns:
            if column not in stored:
                said = f"the table '{shown(table)}' has no column '{shown(column)}'"
                raise LogError(self._path, said, hint=_AGAIN)
        # Names come from the file: in quotes they are nothing but names.
        listed = ", ".join(map(_quoted, columns))
        for row in self._database.execute(f"SELECT {listed} FROM {_quoted(table)}"):
            texts = tuple(map(self._text, row))
            # Counted row by row, as rows of a forged file can share their pages.
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


OBJECT_PREFIX: Final = "object:"
_KIND_WORDS: Final[dict[Kind, str]] = {
    "int": "whole number",
    "float": "number",
    "boolean": "truth value",
    "date": "time",
}


def chosen_type(path: Path, types: tuple[str, ...], asked: str | None) -> str:
    """The type that the options name; ``UnsaidInput`` where that is none."""
    more = ", ..." if len(types) > 12 else ""
    listed = (first_names(types) or "none") + more
    if asked in types:
        return asked
    if asked is None:
        said = f"this is an object-centric log; its object types are {listed}"
        hint = "say which one becomes the case: object_type under spec.input in the policy"
    else:
        said = f"the log has no object type '{shown(asked)}'; its object types are {listed}"
        hint = "correct spec.input.object_type"
    raise UnsaidInput(path, said, hint=hint, option="object_type", choices=types)


def _ocel_rows(
    read: Callable[[Path, Limits], ObjectLog], files: Sequence[Path], request: ReadRequest
) -> TableSource:
    """The rows of an object-centric log, flattened. ``LogError`` where the options name no object
    type of the file, or it is no such log.
    """
    (path,) = files
    found = read(path, request.bounds)
    chosen = chosen_type(path, tuple(found.object_types), request.written.object_type)
    events, objects, relations = map(found.table, ("events", "objects", "relations"))
    for table, column in ((events, "event"), (objects, "object")):
        again = table.filter(values_of(table, column).is_duplicated())
        if again.height:
            said = f"two {column}s have the id '{shown(again[column][0])}'"
            raise LogError(path, said, hint="export the log again")
    cases = objects.filter(pl.col("type") == chosen).select("object")
    # The events of the chosen objects, in file order: one of several objects once for each.
    rows = (
        relations.join(cases, on="object", how="semi")
        .unique(maintain_order=True)
        .join(events.with_row_index("place"), on="event", how="inner", maintain_order="left")
        .sort("place", maintain_order=True)
    )
    rows = rows.with_columns(
        _typed(path, TIMESTAMP, rows["time"], "date", request.times).alias("time")
    )
    columns = {CASE_ID: rows["object"], ACTIVITY: rows["type"], TIMESTAMP: rows["time"]}
    texts: dict[str, pl.Series] = {}
    for name, spelt, kind in _attributes(path, found, chosen, rows, request):
        if name in columns:
            said = f"two attributes of the flattened log are called '{shown(name)}'"
            raise LogError(path, said, hint="rename one of them in the file")
        # Before one more is added, so that a forged file cannot fill the memory with columns.
        if len(columns) >= request.bounds.attributes:
            said = f"the log has more than {request.bounds.attributes:,} attributes, the limit"
            raise LogError(path, said, hint=raising("attributes", 2 * len(columns)))
        values = _typed(path, name, spelt, kind, request.times)
        columns[name] = values
        if not round_trips(spelt, values):
            texts[name] = spelt
    frame = pl.DataFrame(columns)
    names = ColumnNames({name: name for name in columns}, ())
    exact = frozenset(columns) - texts.keys() - {TIMESTAMP}
    flat = FileTable(path, frame, texts=texts, exact=exact)
    copies = rows.group_by("event").len()
    copied = copies.filter(pl.col("len") > 1)["len"].to_list()
    of_type = f"'{shown(chosen)}'"
    lost = counted_notes(
        (len(copied), f"events of several objects of type {of_type}, copied into the case of each"),
        (max(copied, default=0), "cases that one event is in, at most"),
        (events.height - copies.height, f"events of no object of type {of_type}, left out"),
        (
            cases.height - rows["object"].n_unique(),
            f"objects of type {of_type} without events, left out",
        ),
        (objects.height - cases.height, "objects of other types, left out"),
        (found.between_objects, "relations between objects, left out"),
        (
            relations.join(objects, on="object", how="anti").height,
            "relations to objects that the file lacks, left out",
        ),
        (found.repeated_events, "events given again with time and values; the last row counts"),
    )
    flattened = f"the log was flattened: each object of type {of_type} is a case"
    return TableSource(flat, names, request, (flattened, *lost))


def _attributes(
    path: Path, found: ObjectLog, chosen: str, rows: pl.DataFrame, request: ReadRequest
) -> Iterator[tuple[str, pl.Series, Kind]]:
    """The attributes that are read: full name, texts (one a row of ``rows``), and what they are."""
    events = rows.select("event")
    for (name,), values in found.table("event_values").group_by("name", maintain_order=True):
        full = str(name)
        if full.startswith((CASE_PREFIX, OBJECT_PREFIX)) or full in (ACTIVITY, TIMESTAMP):
            said = f"an event attribute is called '{shown(full)}', which would pass as another"
            raise LogError(path, said, hint="rename it in the file")
        if request.keeps(full):
            # Where an event is given twice, its last value counts.
            last = values.unique("event", keep="last").select("event", "value")
            joined = events.join(last, on="event", how="left", maintain_order="left")
            kind = found.event_kinds.get(full, "text")
            if found.infers:
                kind = inferred(values["value"])[1]
            yield full, joined["value"], kind
    own = found.table("object_values").join(
        rows.select("object").unique(), on="object", how="semi", maintain_order="left"
    )
    for (name,), values in own.group_by("name", maintain_order=True):
        short = str(name)
        kind = found.object_kinds.get((chosen, short), "text")
        if found.infers and inferred(values["value"])[1] == "date":
            kind = "date"
        of_case, of_event = CASE_PREFIX + short, OBJECT_PREFIX + short
        if not (request.keeps(of_case) or request.keeps(of_event)):
            continue
        in_force = _in_force(path, values, rows, request)
        if request.keeps(of_case):
            # Of a case: its value at the first event.
            frame = rows.select("object", "time").with_columns(in_force.alias("value"))
            first = pl.col("value").sort_by("time", maintain_order=True).first()
            yield of_case, frame.select(first.over("object")).to_series(), kind
        if request.keeps(of_event):
            yield of_event, in_force, kind


def _in_force(
    path: Path, values: pl.DataFrame, rows: pl.DataFrame, request: ReadRequest
) -> pl.Series:
    """For each row the value of its object then: the last one given until then, or the first."""
    given = values.with_columns(
        _typed(path, TIMESTAMP, values["time"].fill_null(_BEFORE), "date", request.times).alias(
            "time"
        )
    )
    given = given.sort("time", maintain_order=True)
    asked = rows.select("object", "time").with_row_index("row").sort("time", nulls_last=False)
    # Backwards in time: for each row the last value that was given until then.
    joined = asked.join_asof(
        given.select("object", "time", "value"), on="time", by="object", check_sortedness=False
    )
    first = given.group_by("object", maintain_order=True).agg(
        pl.col("value").first().alias("first")
    )
    joined = joined.join(first, on="object", how="left").sort("row")
    return joined.select(pl.coalesce("value", "first")).to_series()


_BEFORE: Final = "1970-01-01T00:00:00Z"
"""When a value without a time of its own was given, as the standard has it."""


def _typed(
    path: Path,
    name: str,
    texts: pl.Series,
    kind: Kind,
    times: WrittenTimes,
    line_of: Callable[[int], int] | None = None,
) -> pl.Series:
    """Texts as what the file declares them to be. ``LogError`` for one that is none, with its line
    where ``line_of`` a row tells it.
    """
    values = times.read(texts).values if kind == "date" else cast_to_kind(texts, kind)[0]
    bad = (values.is_null() & texts.is_not_null()).arg_true()
    if len(bad):
        row = int(bad[0])
        said = f"the value '{shown(texts[row])}' of '{shown(name)}' is no {_KIND_WORDS[kind]}"
        raise LogError(
            path,
            f"{said}, as declared",
            line=line_of(row) if line_of else None,
            hint="correct it, or export the log again",
        )
    return values


READ: Final[dict[InputFormat, Callable[[Path, Limits], ObjectLog]]] = {
    "ocel-json": from_json,
    "ocel-sqlite": from_sqlite,
    "ocel-xml": from_xml,
    "ocel-csv": from_csv,
}
READERS: Final[dict[InputFormat, Reader]] = {
    name: Reader(partial(_ocel_rows, read), ("object_type", "time_zone"), of_several=False)
    for name, read in READ.items()
}

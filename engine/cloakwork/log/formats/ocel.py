"""Object-centric logs (OCEL 2.0), flattened: each object of one declared type becomes a case.

Flattening loses what the log is for. An event of several objects of the type is copied into the
case of each, one of none is lost, and so are objects of other types and relations between objects
(van der Aalst, "Object-Centric Process Mining: Dealing with Divergence and Convergence in Event
Data", SEFM 2019). Counts of all that are in the log's notes.

An attribute NAME of the objects is there twice: ``case:NAME`` is its value at the first event of
the case, ``object:NAME`` its value at each event.

There are two files of OCEL 2.0 (ocel-standard.org, "OCEL 2.0 Specification"): JSON and SQLite. A
database comes from somebody else, so nothing in it runs: it is opened read-only and immutable, with
an untrusted schema and no extensions; only its plain tables are read (no view, no virtual table, no
generated column), and an authorizer allows nothing but to read columns. What is read is counted
against the limits, since pages of a forged file can be shared.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import quote

import polars as pl

from cloakwork.base.errors import LogError, UnsaidInput
from cloakwork.base.naming import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP, values_of
from cloakwork.base.text import first_line, shown
from cloakwork.log.formats.column_names import ColumnNames
from cloakwork.log.formats.kinds import Kind, cast_to_kind, joined_declared, round_trips
from cloakwork.log.formats.row_source import Reader, ReadRequest
from cloakwork.log.formats.source import LogStream, empty_file, format_of, require_bytes
from cloakwork.log.formats.tables import FileTable, TableSource, counted_notes
from cloakwork.log.formats.written_times import WrittenTimes
from cloakwork.log.limits import Limits, current_limits, raising, refuse_columns, refuse_unpacked

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
    return pl.DataFrame(
        rows,
        schema=dict.fromkeys(columns, pl.String),
        orient="row",
    )


def from_json(path: Path, limits: Limits) -> ObjectLog:
    """The log as tables of texts. ``LogError`` for what is no OCEL 2.0 file in JSON."""
    with LogStream(path, limits) as stream:
        data = stream.read_all()
    if not data.strip():
        raise empty_file(path)
    try:
        # Numbers stay the characters that they are.
        content = json.loads(
            data,
            parse_int=str,
            parse_float=str,
            parse_constant=_refuse_constant,
        )
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
        # A forged document may hold anything in the place of a list.
        if not (isinstance(found, list) and all(isinstance(item, dict) for item in found)):
            raise self._fault(f"'{key}' is no list of objects")
        return found

    def _text(
        self,
        content: dict[str, Any],
        key: str,
        what: str,
    ) -> str:
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
        return LogError(self._path, said, hint=_AGAIN)


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
            path,
            f"this is no readable SQLite log ({first_line(error)})",
            hint=_AGAIN,
        ) from None


class _Database:
    """Reads the tables that the standard names, one at a time."""

    def __init__(
        self,
        path: Path,
        database: sqlite3.Connection,
        limits: Limits,
    ) -> None:
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

    def _rows(self, table: str, *columns: str) -> Iterator[tuple[str | None, ...]]:
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
        refuse_unpacked(
            self._path,
            self._bytes,
            self._size,
            self._limits,
            "the file holds",
        )


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


def _ocel_rows(
    read: Callable[[Path, Limits], ObjectLog],
    files: Sequence[Path],
    request: ReadRequest,
) -> TableSource:
    """The rows of an object-centric log, flattened. ``LogError`` where the options name no object
    type of the file, or it is no such log.
    """
    (path,) = files
    found = read(path, request.bounds)
    chosen = _chosen_type(
        path,
        found.object_types,
        request.written.object_type,
    )
    for table, column in ((found.events, "event"), (found.objects, "object")):
        repeated = table.filter(values_of(table, column).is_duplicated())
        if repeated.height:
            said = f"two {column}s have the id '{shown(repeated[column][0])}'"
            raise LogError(path, said, hint="export the log again")
    return _flattened(path, found, chosen, request)


READ: Final = {"ocel-json": from_json, "ocel-sqlite": from_sqlite}
READERS: Final = {
    name: Reader(
        partial(_ocel_rows, read),
        ("object_type", "time_zone"),
        of_several=False,
    )
    for name, read in READ.items()
}


def object_types(path: Path) -> tuple[str, ...]:
    """The types of objects that an object-centric log declares; errors as of ``read_log``."""
    return READ[format_of(path)](path, current_limits()).object_types


def _chosen_type(
    path: Path,
    types: tuple[str, ...],
    asked: str | None,
) -> str:
    more = ", ..." if len(types) > 12 else ""
    listed = (", ".join(shown(name) for name in types[:12]) or "none") + more
    if asked is None:
        raise UnsaidInput(
            path,
            f"this is an object-centric log; its object types are {listed}",
            hint="say which one becomes the case: object_type under spec.input in the policy",
            option="object_type",
            choices=types,
        )
    if asked not in types:
        raise UnsaidInput(
            path,
            f"the log has no object type '{shown(asked)}'; its object types are {listed}",
            hint="correct spec.input.object_type",
            option="object_type",
            choices=types,
        )
    return asked


def _flattened(
    path: Path,
    found: ObjectLog,
    chosen: str,
    request: ReadRequest,
) -> TableSource:
    cases = found.objects.filter(pl.col("type") == chosen).select("object")
    events = found.events.with_row_index("place")
    # The events of the chosen objects, in file order: one of several objects once for each.
    rows = (
        found.relations.join(cases, on="object", how="semi")
        .unique(maintain_order=True)
        .join(
            events,
            on="event",
            how="inner",
            maintain_order="left",
        )
        .sort("place", maintain_order=True)
    )
    rows = rows.with_columns(
        _typed(path, TIMESTAMP, rows["time"], "date", request.times).alias("time")
    )
    table = {
        CASE_ID: rows["object"],
        ACTIVITY: rows["type"],
        TIMESTAMP: rows["time"],
    }
    texts: dict[str, pl.Series] = {}
    for name, spelt, kind in _attributes(path, found, chosen, rows, request):
        if name in table:
            said = f"two attributes of the flattened log are called '{shown(name)}'"
            raise LogError(path, said, hint="rename one of them in the file")
        # Before one more is added, so that a forged file cannot fill the memory with columns.
        if len(table) >= request.bounds.attributes:
            said = f"the log has more than {request.bounds.attributes:,} attributes, the limit"
            raise LogError(path, said, hint=raising("attributes", 2 * len(table)))
        values = _typed(path, name, spelt, kind, request.times)
        table[name] = values
        if not round_trips(spelt, values):
            texts[name] = spelt
    frame = pl.DataFrame([values.alias(name) for name, values in table.items()])
    names = ColumnNames({name: name for name in table}, ())
    exact = frozenset(table) - texts.keys() - {TIMESTAMP}
    flat = FileTable(path, frame, texts=texts, exact=exact)
    return TableSource(flat, names, request, _losses(found, chosen, cases, rows))


def _attributes(
    path: Path,
    found: ObjectLog,
    chosen: str,
    rows: pl.DataFrame,
    request: ReadRequest,
) -> Iterator[tuple[str, pl.Series, Kind]]:
    """The attributes that are read: full name, texts (one a row of ``rows``), and what they are."""
    events = rows.select("event")
    for (name,), values in found.event_values.group_by("name", maintain_order=True):
        full = str(name)
        if full.startswith((CASE_PREFIX, OBJECT_PREFIX)) or full in (ACTIVITY, TIMESTAMP):
            said = f"an event attribute is called '{shown(full)}', which would pass as another"
            raise LogError(path, said, hint="rename it in the file")
        if request.keeps(full):
            # Where an event is given twice, its last value counts.
            last = values.unique("event", keep="last").select("event", "value")
            joined = events.join(last, on="event", how="left", maintain_order="left")
            yield full, joined["value"], found.event_kinds.get(full, "text")
    own = found.object_values.join(
        rows.select("object").unique(),
        on="object",
        how="semi",
        maintain_order="left",
    )
    for (name,), values in own.group_by("name", maintain_order=True):
        short = str(name)
        kind = found.object_kinds.get((chosen, short), "text")
        in_force: pl.Series | None = None
        for full in (CASE_PREFIX + short, OBJECT_PREFIX + short):
            if not request.keeps(full):
                continue
            if in_force is None:
                in_force = _in_force(path, values, rows, request)
            texts = in_force
            if full.startswith(CASE_PREFIX):
                # Of a case: its value at the first event.
                frame = rows.select("object", "time").with_columns(in_force.alias("value"))
                first = pl.col("value").sort_by("time", maintain_order=True).first()
                texts = frame.select(first.over("object")).to_series()
            yield full, texts, kind


def _in_force(
    path: Path,
    values: pl.DataFrame,
    rows: pl.DataFrame,
    request: ReadRequest,
) -> pl.Series:
    """For each row the value of its object then: the last one given until then, or the first."""
    given = values.with_columns(
        _typed(
            path,
            TIMESTAMP,
            values["time"].fill_null(_BEFORE),
            "date",
            request.times,
        ).alias("time")
    )
    given = given.sort("time", maintain_order=True)
    asked = rows.select("object", "time").with_row_index("row").sort("time", nulls_last=False)
    # Backwards in time: for each row the last value that was given until then.
    joined = asked.join_asof(
        given.select("object", "time", "value"),
        on="time",
        by="object",
        check_sortedness=False,
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
) -> pl.Series:
    """Texts as what the file declares them to be. ``LogError`` for one that is none."""
    values = times.read(texts).values if kind == "date" else cast_to_kind(texts, kind)[0]
    bad = (values.is_null() & texts.is_not_null()).arg_true()
    if len(bad):
        value = shown(texts[int(bad[0])])
        raise LogError(
            path,
            f"the value '{value}' of '{shown(name)}' is no {_KIND_WORDS[kind]}, as declared",
            hint="correct it, or export the log again",
        )
    return values


def _losses(
    found: ObjectLog,
    chosen: str,
    cases: pl.DataFrame,
    rows: pl.DataFrame,
) -> tuple[str, ...]:
    copies = rows.group_by("event").len()
    copied = copies.filter(pl.col("len") > 1)["len"].to_list()
    kind = f"'{shown(chosen)}'"
    others = found.objects.height - cases.height
    without_events = cases.height - rows["object"].n_unique()
    known = found.objects.select("object")
    counted = counted_notes(
        (len(copied), f"events of several objects of type {kind}, copied into the case of each"),
        (max(copied, default=0), "cases that one event is in, at most"),
        (found.events.height - copies.height, f"events of no object of type {kind}, left out"),
        (without_events, f"objects of type {kind} without events, left out"),
        (others, "objects of other types, left out"),
        (found.relations_of_objects, "relations between objects, left out"),
        (
            found.relations.join(known, on="object", how="anti").height,
            "relations to objects that the file lacks, left out",
        ),
        (found.repeated_events, "events given again with time and values; the last row counts"),
    )
    return (f"the log was flattened: each object of type {kind} is a case", *counted)

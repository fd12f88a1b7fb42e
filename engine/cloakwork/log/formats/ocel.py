"""Object-centric logs (OCEL 2.0), flattened: each object of one declared type becomes a case.

Flattening loses what the log is for. An event of several objects of the type is copied into the
case of each, one of none is lost, and so are objects of other types and relations between objects
(van der Aalst, "Object-Centric Process Mining: Dealing with Divergence and Convergence in Event
Data", SEFM 2019). Counts of all that are in the log's notes.

An attribute NAME of the objects is there twice: ``case:NAME`` is its value at the first event of
the case, ``object:NAME`` its value at each event.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from cloakwork.base.errors import LogError, UnsaidInput
from cloakwork.base.naming import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP, values_of
from cloakwork.base.text import shown
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats.column_layout import Kind, round_trips
from cloakwork.log.formats.column_names import ColumnNames
from cloakwork.log.formats.flat import FileTable, log_of_file, within_value_size
from cloakwork.log.formats.options import InputFormat
from cloakwork.log.formats.request import TableRequest
from cloakwork.log.formats.source import format_of
from cloakwork.log.formats.written_times import WrittenTimes
from cloakwork.log.limits import current_limits, raising

OBJECT_PREFIX: Final = "object:"
_TRUTH: Final = {"true": True, "1": True, "false": False, "0": False}
_KIND_WORDS: Final[dict[Kind, str]] = {
    "int": "whole number",
    "float": "number",
    "boolean": "truth value",
    "date": "time",
}


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


def table_of(columns: tuple[str, ...], rows: Sequence[tuple[str | None, ...]]) -> pl.DataFrame:
    """Rows of texts as a table."""
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")


def joint_kind(one: Kind | None, other: Kind) -> Kind:
    """What values of two declarations are together."""
    if one is None or one == other:
        return other
    return "float" if {one, other} == {"int", "float"} else "text"


def read_ocel(path: Path, form: InputFormat, request: TableRequest) -> EventLog:
    """Read an object-centric log and flatten it. ``LogError`` where the options name no object type
    of the file, or it is no such log.
    """
    from cloakwork.log.formats.ocel_json import read_object_log as from_json
    from cloakwork.log.formats.ocel_sqlite import read_object_log as from_sqlite

    read = from_json if form == "ocel-json" else from_sqlite
    found = read(path, request.limits)
    chosen = _chosen_type(path, found.object_types, request.options.object_type)
    _require_distinct(path, found.events, "event")
    _require_distinct(path, found.objects, "object")
    return _flattened(path, found, chosen, request)


def object_types(path: Path) -> tuple[str, ...]:
    """The types of objects that an object-centric log declares; errors as of ``read_ocel``."""
    from cloakwork.log.formats.ocel_json import read_object_log as from_json
    from cloakwork.log.formats.ocel_sqlite import read_object_log as from_sqlite

    read = from_json if format_of(path) == "ocel-json" else from_sqlite
    return read(path, current_limits()).object_types


def _chosen_type(path: Path, types: tuple[str, ...], asked: str | None) -> str:
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


def _require_distinct(path: Path, table: pl.DataFrame, column: str) -> None:
    repeated = table.filter(values_of(table, column).is_duplicated())
    if repeated.height:
        said = f"two {column}s have the id '{shown(repeated[column][0])}'"
        raise LogError(path, said, hint="export the log again")


def _flattened(path: Path, found: ObjectLog, chosen: str, request: TableRequest) -> EventLog:
    cases = found.objects.filter(pl.col("type") == chosen).select("object")
    events = found.events.with_row_index("place")
    rows = (
        found.relations.join(cases, on="object", how="semi")
        .unique(maintain_order=True)
        .join(events, on="event", how="inner", maintain_order="left")
        .sort("place", maintain_order=True)
    )
    rows = rows.with_columns(_times(path, rows["time"], request).alias("time"))
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
        if len(table) >= request.limits.attributes:
            said = f"the log has more than {request.limits.attributes:,} attributes, the limit"
            raise LogError(path, said, hint=raising("attributes", 2 * len(table)))
        values = _typed(path, name, spelt, kind, request.times)
        table[name] = values
        if not round_trips(spelt, values):
            texts[name] = spelt
    frame = pl.DataFrame([values.alias(name) for name, values in table.items()])
    checked, oversized = within_value_size(path, frame, request.limits, request.on_excess)
    notes = (*_losses(found, chosen, cases, rows), *oversized)
    names = ColumnNames({name: name for name in table}, ())
    exact = frozenset(table) - texts.keys() - {TIMESTAMP}
    return log_of_file(FileTable(path, checked, None, notes, texts, exact), names, request)


def _times(path: Path, texts: pl.Series, request: TableRequest) -> pl.Series:
    return _typed(path, TIMESTAMP, texts, "date", request.times)


def _attributes(
    path: Path, found: ObjectLog, chosen: str, rows: pl.DataFrame, request: TableRequest
) -> Iterator[tuple[str, pl.Series, Kind]]:
    """The attributes that are read: full name, texts (one a row of ``rows``), and what they are."""
    events = rows.select("event")
    for (name,), values in found.event_values.group_by("name", maintain_order=True):
        full = str(name)
        if full.startswith((CASE_PREFIX, OBJECT_PREFIX)) or full in (ACTIVITY, TIMESTAMP):
            said = f"an event attribute is called '{shown(full)}', which would pass as another"
            raise LogError(path, said, hint="rename it in the file")
        if request.keeps(full):
            last = values.unique("event", keep="last").select("event", "value")
            joined = events.join(last, on="event", how="left", maintain_order="left")
            yield full, joined["value"], found.event_kinds.get(full, "text")
    own = found.object_values.join(
        rows.select("object").unique(), on="object", how="semi", maintain_order="left"
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
            of_case = full.startswith(CASE_PREFIX)
            yield full, _first_of_case(rows, in_force) if of_case else in_force, kind


def _in_force(
    path: Path, values: pl.DataFrame, rows: pl.DataFrame, request: TableRequest
) -> pl.Series:
    """For each row the value that its object has then: the last one given until then, or else the
    first one.
    """
    given = values.with_columns(
        _times(path, values["time"].fill_null(_BEFORE), request).alias("time")
    )
    given = given.sort("time", maintain_order=True)
    asked = rows.select("object", "time").with_row_index("row").sort("time", nulls_last=False)
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


def _first_of_case(rows: pl.DataFrame, values: pl.Series) -> pl.Series:
    """For each row the value at the first event of its case."""
    frame = rows.select("object", "time").with_columns(values.alias("value"))
    first = pl.col("value").sort_by("time", maintain_order=True).first().over("object")
    return frame.select(first).to_series()


def _typed(path: Path, name: str, texts: pl.Series, kind: Kind, times: WrittenTimes) -> pl.Series:
    """Texts as what the file declares them to be. ``LogError`` for one that is none."""
    match kind:
        case "text":
            return texts
        case "int":
            values = texts.cast(pl.Int64, strict=False)
        case "float":
            values = texts.cast(pl.Float64, strict=False)
        case "boolean":
            lowered = texts.str.to_lowercase()
            values = lowered.replace_strict(_TRUTH, default=None, return_dtype=pl.Boolean)
        case "date":
            values = times.read(texts).values
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
    found: ObjectLog, chosen: str, cases: pl.DataFrame, rows: pl.DataFrame
) -> Iterator[str]:
    """What flattening does to the log, with counts."""
    copies = rows.group_by("event").len()
    copied = copies.filter(pl.col("len") > 1)["len"].to_list()
    kind = f"'{shown(chosen)}'"
    others = found.objects.height - cases.height
    without_events = cases.height - rows["object"].n_unique()
    known = found.objects.select("object")
    counted = (
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
    yield f"the log was flattened: each object of type {kind} is a case"
    yield from (f"{what}: {count}" for count, what in counted if count)

"""Object-centric logs (OCEL 2.0), flattened: each object of one declared type becomes a case.

Flattening loses what the log is for. An event of several objects of the type is copied into the
case of each, one of none is lost, and so are objects of other types and relations between objects
(van der Aalst, "Object-Centric Process Mining: Dealing with Divergence and Convergence in Event
Data", SEFM 2019). Counts of all that are in the log's notes.

An attribute NAME of the objects is there twice: ``case:NAME`` is its value at the first event of
the case, ``object:NAME`` its value at each event.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import polars as pl

from cloakwork.base.errors import LogError, UnsaidInput
from cloakwork.base.naming import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP, values_of
from cloakwork.base.text import shown
from cloakwork.log.formats.column_names import ColumnNames
from cloakwork.log.formats.kinds import Kind, cast_to_kind, round_trips
from cloakwork.log.formats.ocel_files import ObjectLog, from_json, from_sqlite
from cloakwork.log.formats.row_source import Reader, ReadRequest
from cloakwork.log.formats.source import format_of
from cloakwork.log.formats.tables import (
    OVERSIZED,
    FileTable,
    TableSource,
    counted_notes,
    texts_within,
)
from cloakwork.log.formats.written_times import WrittenTimes
from cloakwork.log.limits import Limits, current_limits, raising

OBJECT_PREFIX: Final = "object:"
_KIND_WORDS: Final[dict[Kind, str]] = {
    "int": "whole number",
    "float": "number",
    "boolean": "truth value",
    "date": "time",
}


def _ocel_rows(
    read: Callable[[Path, Limits], ObjectLog], files: Sequence[Path], request: ReadRequest
) -> TableSource:
    """The rows of an object-centric log, flattened. ``LogError`` where the options name no object
    type of the file, or it is no such log.
    """
    (path,) = files
    found = read(path, request.bounds)
    chosen = _chosen_type(path, found.object_types, request.written.object_type)
    for table, column in ((found.events, "event"), (found.objects, "object")):
        repeated = table.filter(values_of(table, column).is_duplicated())
        if repeated.height:
            said = f"two {column}s have the id '{shown(repeated[column][0])}'"
            raise LogError(path, said, hint="export the log again")
    return _flattened(path, found, chosen, request)


READ: Final = {"ocel-json": from_json, "ocel-sqlite": from_sqlite}
READERS: Final = {
    name: Reader(partial(_ocel_rows, read), ("object_type", "time_zone"), of_several=False)
    for name, read in READ.items()
}


def object_types(path: Path) -> tuple[str, ...]:
    """The types of objects that an object-centric log declares; errors as of ``read_log``."""
    return READ[format_of(path)](path, current_limits()).object_types


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


def _flattened(path: Path, found: ObjectLog, chosen: str, request: ReadRequest) -> TableSource:
    cases = found.objects.filter(pl.col("type") == chosen).select("object")
    events = found.events.with_row_index("place")
    rows = (
        found.relations.join(cases, on="object", how="semi")
        .unique(maintain_order=True)
        .join(events, on="event", how="inner", maintain_order="left")
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
        if len(table) >= request.bounds.attributes:
            said = f"the log has more than {request.bounds.attributes:,} attributes, the limit"
            raise LogError(path, said, hint=raising("attributes", 2 * len(table)))
        values = _typed(path, name, spelt, kind, request.times)
        table[name] = values
        if not round_trips(spelt, values):
            texts[name] = spelt
    frame = pl.DataFrame([values.alias(name) for name, values in table.items()])
    checked, oversized = texts_within(path, frame, request.bounds, request.on_excess)
    notes = (*_losses(found, chosen, cases, rows), *counted_notes((oversized, OVERSIZED)))
    names = ColumnNames({name: name for name in table}, ())
    exact = frozenset(table) - texts.keys() - {TIMESTAMP}
    return TableSource(FileTable(path, checked, texts=texts, exact=exact), names, request, notes)


def _attributes(
    path: Path, found: ObjectLog, chosen: str, rows: pl.DataFrame, request: ReadRequest
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
    path: Path, values: pl.DataFrame, rows: pl.DataFrame, request: ReadRequest
) -> pl.Series:
    """For each row the value that its object has then: the last one given until then, or else the
    first one.
    """
    given = values.with_columns(
        _typed(path, TIMESTAMP, values["time"].fill_null(_BEFORE), "date", request.times).alias(
            "time"
        )
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
